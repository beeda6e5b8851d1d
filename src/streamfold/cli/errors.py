"""How a command ends that went wrong: one line on standard error, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from ..values import APIError, ConfigError, StreamError, StreamfoldError

__all__ = ["told_errors"]


@contextmanager
def told_errors() -> Iterator[None]:
    """Our errors, and those of files, as a line. Exit code 2: what was written is wrong; 1: the rest; 130: Ctrl-C."""
    console = Console(stderr=True, highlight=False)
    try:
        yield
    except KeyboardInterrupt:
        console.print("\ninterrupted", style="dim")
        raise typer.Exit(130) from None
    except StreamfoldError as error:
        began = isinstance(error, StreamError)  # then text may be standing there, without a line end
        console.print(f"{chr(10) * began}error: {error}", style="red", markup=False, soft_wrap=True)
        if isinstance(error, APIError) and error.retryable:
            console.print("The same request may succeed later.", style="dim")
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None
    except OSError as error:
        if error.filename is None:  # it is about no file: whoever reads our output left, or it is our own mistake
            raise
        console.print(f"error: {error.filename}: {error.strerror}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(2) from None
