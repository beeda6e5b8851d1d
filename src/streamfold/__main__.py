"""`python -m streamfold` runs the command `streamfold`, for systems where scripts are not on the PATH."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
