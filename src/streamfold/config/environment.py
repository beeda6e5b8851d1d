"""Reads and sets environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..errors import NotConfiguredError


def find_variable(name: str) -> str | None:
    """Returns the value of an environment variable, or None if the variable is unset or blank."""
    return os.environ.get(name, "").strip() or None


def variable_is_set(name: str) -> bool:
    """Returns True if an environment variable is set and not blank."""
    return find_variable(name) is not None


def variable_value(variable: str, where: str) -> str:
    """Returns the value of an environment variable.

    Args:
        where: the name of the setting that refers to the variable, for the error message.

    Raises:
        NotConfiguredError: the variable isn't set. The message begins with `where`.
    """
    value = find_variable(variable)
    if value is None:
        raise NotConfiguredError(f"{where}: {variable} is not set")
    return value


def read_environment(names: Iterable[str]) -> dict[str, str | None]:
    """Returns the values of environment variables. The value is None if a variable is unset or blank."""
    return {name: find_variable(name) for name in names}


def set_variable(name: str, value: str) -> None:
    """Sets an environment variable of this process, for a library that reads it."""
    os.environ[name] = value
