"""How a failed command ends: one line on standard error, and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from ..values import APIError, ConfigError, StreamError, StreamfoldError
from .output import console, escape_control_characters, print_json

_SHOWN = ("retryable", "status_code", "code", "request_id", "retry_after")


@contextmanager
def reported_errors(as_json: bool = False, line: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Reports errors of streamfold and of files, and exits.

    The exit code is 2 for a mistake in the request, 130 for Ctrl-C, and 1 for everything else.

    Args:
        as_json: also print the error on standard output, as a line of JSON with the member `error`.
        line: the other members of that line.
    """
    try:
        yield
    except KeyboardInterrupt:
        console(stderr=True).print("\ninterrupted", style="dim")
        raise typer.Exit(130) from None
    except StreamfoldError as error:
        if as_json:
            print_json({**(line or {}), "error": _data(error)})
        print_error(error)
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None
    except OSError as error:
        if error.filename is None:  # standard output itself failed: `main` reports that
            raise
        if as_json:
            print_json({**(line or {}), "error": {"type": type(error).__name__, "message": str(error)}})
        _print_line(f"error: {error.filename}: {error.strerror}")
        raise typer.Exit(2) from None


def print_error(error: StreamfoldError) -> None:
    """Prints one of our errors on standard error."""
    began = isinstance(error, StreamError) and sys.stderr.isatty()  # text may stand there without a line end
    _print_line("\n" * began + f"error: {error}")
    if isinstance(error, APIError) and error.retryable:
        console(stderr=True).print("The same request may succeed later.", style="dim")


def _print_line(text: str) -> None:
    console(stderr=True).print(escape_control_characters(text), style="red", markup=False, soft_wrap=True)


def _data(error: StreamfoldError) -> dict[str, Any]:
    members = {name: getattr(error, name, None) for name in _SHOWN}
    known = {name: value for name, value in members.items() if value is not None}
    return {"type": type(error).__name__, "message": str(error), **known}
