"""The command line, which needs the extra `cli`. `streamfold --help` lists the commands."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    try:
        from ..terminal import prepare_streams
        from .app import app
    except ImportError as exc:
        if exc.name not in ("typer", "rich"):
            raise
        sys.exit("the command line needs its extra: pip install 'streamfold[cli]'")
    prepare_streams()
    try:
        app()
    except BrokenPipeError:  # the reader of our output left, as `head` does
        _discard_output()
        sys.exit(141)
    except OSError as exc:  # a full disk, or on Windows a reader that left
        _discard_output()
        sys.exit(f"error: standard output: {exc.strerror or exc}")


def _discard_output() -> None:
    # Otherwise the interpreter reports another error when it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
