"""Removes secrets from exceptions and tracebacks. Many tools print the local variables in tracebacks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, TypeVar

from ..errors import APIError, StreamError, StreamfoldError
from .redaction import Redactor, redacted_events
from .transport_errors import is_network_error

F = TypeVar("F", bound=Callable[..., Any])

# Packages whose frames may contain headers or data from a server.
_PACKAGES = {
    "httpx", "httpcore", "httpx_aiohttp", "aiohttp", "anyio", "h11", "h2", "hpack", "hyperframe", "asyncio",
    "contextlib", "json", "trio", "ssl", "yarl", "socksio", "pydantic", "botocore", "google", "httpx2", "httpcore2",
}  # fmt: skip


def redact_error(error: APIError, redactor: Redactor) -> None:
    """Removes secrets from an error and from its causes, and removes local variables from their tracebacks.

    If an exception of another library still contains a secret, it is dropped from the chain of causes.
    """
    clear_frames(error)
    for exc in _chain(error):
        hidden = exc.__suppress_context__
        if exc.__cause__ is not None and not _clean(exc.__cause__, redactor):
            exc.__cause__ = None
        if exc.__context__ is not None and not _clean(exc.__context__, redactor):
            exc.__context__ = None
        exc.__suppress_context__ = hidden
    if isinstance(error, StreamError):
        error.transcript = tuple(redacted_events(error.transcript, redactor))
    _clean(error, redactor)


def _clean(exc: BaseException, redactor: Redactor) -> bool:
    for name, value in vars(exc).items():
        # Other attributes of other libraries' exceptions stay unchanged.
        if isinstance(value, str | bytes) or isinstance(exc, APIError):
            vars(exc)[name] = redactor.value(value)
    args = tuple(redactor.value(part) if isinstance(part, str | bytes) else part for part in exc.args)
    if args != exc.args:
        exc.args = args
    return not redactor.spans(f"{exc!r} {exc}")


def clear_frames(error: BaseException) -> None:
    """Removes the local variables of streamfold's functions, and all frames of HTTP libraries, from tracebacks.

    Functions that are still running keep their variables. Exceptions that `raise ... from None` hides are dropped.

    Frames of HTTP libraries, and streamfold's frames in network errors, are removed from the traceback instead of
    cleared. httpcore raises one error in several tasks, so these frames may belong to suspended coroutines. Clearing
    such a frame would end its coroutine.
    """
    for exc in _chain(error):
        if exc.__suppress_context__ and exc.__cause__ is None:
            exc.__context__ = None
            exc.__suppress_context__ = True
        shared = isinstance(exc, Exception) and not isinstance(exc, StreamfoldError) and is_network_error(exc)
        kept: list[TracebackType] = []
        step: TracebackType | None = exc.__traceback__
        while step is not None:
            package = step.tb_frame.f_globals.get("__name__", "").partition(".")[0]
            if package == "streamfold" and not shared:
                _clear(step.tb_frame)
            if package not in _PACKAGES and not (package == "streamfold" and shared):
                kept.append(step)
            step = step.tb_next
        for one, following in zip(kept, [*kept[1:], None], strict=False):
            one.tb_next = following
        exc.__traceback__ = kept[0] if kept else None


def _clear(frame: FrameType) -> None:  # separate, so that a test can look at frames that aren't cleared
    with suppress(RuntimeError):  # it is running
        frame.clear()


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        exc = waiting.pop()
        if id(exc) in seen:
            continue
        seen.add(id(exc))
        yield exc
        waiting += [led for led in (exc.__cause__, exc.__context__) if led is not None]
        if isinstance(exc, BaseExceptionGroup):
            waiting += exc.exceptions


def scrubs_traceback(function: F) -> F:
    """Decorates a public function. Tracebacks then don't contain the function's arguments, which may be API keys."""
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call(*args: Any, **options: Any) -> Any:
            try:
                return await function(*args, **options)
            except BaseException as exc:
                args = ()
                options.clear()
                clear_frames(exc)
                raise

    else:

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            try:
                return function(*args, **options)
            except BaseException as exc:
                args = ()
                options.clear()
                clear_frames(exc)
                raise

    return call  # type: ignore[return-value]
