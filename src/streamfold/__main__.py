"""`python -m streamfold` is the command `streamfold`, where scripts are not on the PATH."""

from __future__ import annotations

from .cli import main

main()
