"""Taking secrets out of what a server echoes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from ..values import APIError

__all__ = ["redact", "redact_error"]

T = TypeVar("T")
_DEEPEST = 100  # levels of a JSON value; deeper ones are left out
_SHORTEST = 4  # a shorter "key" is a placeholder; replacing it would garble ordinary words


def redact(value: T, secrets: Iterable[str]) -> T:
    """The value with every occurrence of a secret in its texts replaced by `***`."""
    redacted: T = _redact(value, _spellings(secrets))
    return redacted


def redact_error(error: APIError, secrets: Iterable[str]) -> None:
    """Takes the secrets out of everything that an error shows, and out of the errors that led to it.

    Their tracebacks go: the frames in them hold requests and bytes as they were, and what prints the variables of
    frames would print the keys. An error of somebody else that still shows a secret goes too.
    """
    spellings = _spellings(secrets)
    _cleaned(error, spellings)
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        exc = waiting.pop()
        if id(exc) in seen:
            continue
        seen.add(id(exc))
        exc.with_traceback(None)
        hidden = exc.__suppress_context__
        if exc.__cause__ is not None and not _cleaned(exc.__cause__, spellings):
            exc.__cause__ = None
        if exc.__context__ is not None and not _cleaned(exc.__context__, spellings):
            exc.__context__ = None
        exc.__suppress_context__ = hidden
        waiting += [led for led in (exc.__cause__, exc.__context__) if led is not None]


def _cleaned(exc: BaseException, spellings: list[str]) -> bool:
    """Takes the secrets out of an error of any kind as far as it lets us; whether that is all of them."""
    for name, value in vars(exc).items():
        if isinstance(value, str | bytes) or isinstance(exc, APIError):  # of others we don't know what else they hold
            vars(exc)[name] = _redact(value, spellings)
    args = tuple(_redact(part, spellings) if isinstance(part, str | bytes) else part for part in exc.args)
    if args != exc.args:
        exc.args = args
    shown = f"{exc!r} {exc}"
    return not any(text in shown for text in spellings)


def _spellings(secrets: Iterable[str]) -> list[str]:
    """The secrets as they may be written: plainly, in JSON (by PHP too), in a URL. The longest first."""
    found: set[str] = set()
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            found |= set(_written(secret))
    return sorted(found, key=lambda text: (-len(text), text))


def _written(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield secret.replace("/", "\\/")
    yield quote(secret, safe="")
    yield quote(secret)


def _redact(value: Any, secrets: list[str], depth: int = 0) -> Any:
    if depth > _DEEPEST:
        return "***"
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, "***")
            return value
        case bytes():
            for secret in secrets:
                value = value.replace(secret.encode("utf-8", "replace"), b"***")
            return value
        case list() | tuple():
            return type(value)(_redact(item, secrets, depth + 1) for item in value)
        case dict():
            return {_redact(key, secrets): _redact(item, secrets, depth + 1) for key, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):  # a partial reply, and what is in it
            return replace(value, **{item.name: _redact(getattr(value, item.name), secrets) for item in fields(value)})
        case _:
            return value
