"""How a command ends that went wrong: one line on standard error, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from ..errors import APIError, ConfigError, StreamError, StreamfoldError

__all__ = ["told_errors"]


@contextmanager
def told_errors() -> Iterator[None]:
    """Our errors as a line: exit code 2 for what was written wrongly, 1 for the rest, 130 after Ctrl-C."""
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
