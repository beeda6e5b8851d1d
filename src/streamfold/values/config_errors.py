"""The root of all errors, and the errors about settings and arguments. `errors.py` draws the whole tree."""

from __future__ import annotations

from .picklable_errors import PicklableError


class StreamfoldError(PicklableError, Exception):
    """Base class of all errors of this library. They can be pickled and copied, as can those that derive from it."""


class ConfigError(StreamfoldError):
    """A setting or an argument is wrong. The message says which one, where it is, and what is allowed.

    Attributes:
        hint: what to change in the program; the end of the text. Clients of a server that the program runs can't.
    """

    hint: str = ""

    @property
    def problem(self) -> str:
        """The message without the hint."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.problem}; {self.hint}" if self.hint else self.problem


class NotConfiguredError(ConfigError):
    """A provider's key, or another environment variable that its configuration refers to, is not set."""
