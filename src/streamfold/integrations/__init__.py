"""streamfold under other people's programs. Each module needs what it is named after, and is imported by its name.

Provisional: a minor version may change or remove a name without a deprecation.
"""
