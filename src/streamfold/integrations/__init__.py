"""streamfold under other people's programs. Each module needs what it is named after, and is imported by its name."""
