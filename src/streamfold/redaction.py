"""Taking secrets out of what a server echoes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from .errors import APIError, StreamError

__all__ = ["redact", "redact_error"]

T = TypeVar("T")
_SHORTEST = 4  # a shorter "key" is a placeholder; replacing it would garble ordinary words


def redact(value: T, secrets: Iterable[str]) -> T:
    """The value with every occurrence of a secret in its texts replaced by `***`."""
    redacted: T = _redact(value, [secret for secret in secrets if len(secret) >= _SHORTEST])
    return redacted


def redact_error(error: APIError, secrets: Iterable[str]) -> None:
    """Takes the secrets out of everything that an error shows."""
    secrets = list(secrets)
    error.message = redact(error.message, secrets)
    error.args = redact(error.args, secrets)
    error.body = redact(error.body, secrets)
    if isinstance(error, StreamError):
        error.transcript = redact(error.transcript, secrets)


def _redact(value: Any, secrets: list[str]) -> Any:
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, "***")
            return value
        case list() | tuple():
            return type(value)(_redact(item, secrets) for item in value)
        case dict():
            return {_redact(key, secrets): _redact(item, secrets) for key, item in value.items()}
        case _:
            return value
