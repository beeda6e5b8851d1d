"""Makes `python -m streamfold` run the command `streamfold`, for systems on which scripts aren't on the PATH."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
