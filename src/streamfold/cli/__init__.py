"""The command line: asks, records, replays, lists and checks; `streamfold --help` says how. Needs the extra `cli`."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """The entry point of the `streamfold` command."""
    try:
        from .app import app
    except ImportError as exc:
        if exc.name not in ("typer", "rich"):
            raise
        sys.exit("the command line needs its extra: pip install 'streamfold[cli]'")
    try:
        app()
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
