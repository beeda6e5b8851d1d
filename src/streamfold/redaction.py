"""Taking secrets out of what a server echoes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
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
    error.body = redact(error.body, secrets)
    error.partial = redact(error.partial, secrets)
    if isinstance(error, StreamError):
        error.transcript = redact(error.transcript, secrets)
    cause: BaseException | None = error
    while cause is not None:  # a traceback shows the texts of all of them
        if (args := redact(cause.args, secrets)) != cause.args:
            cause.args = args
        cause = cause.__cause__ or cause.__context__


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
        case _ if is_dataclass(value) and not isinstance(value, type):  # a partial reply, and what is in it
            return replace(value, **{item.name: _redact(getattr(value, item.name), secrets) for item in fields(value)})
        case _:
            return value
