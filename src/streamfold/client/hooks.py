"""Hooks: functions of the application that streamfold calls while it requests and reads an answer. streamfold writes
its own log messages in such hooks, too.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..net import Redactor

if TYPE_CHECKING:
    from ..errors import APIError
    from ..requests import Request
    from ..types import Attempt, Reply

_logger = logging.getLogger("streamfold")


class _UnconfiguredHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        configured = logging.getLogger().handlers or any(handler is not self for handler in _logger.handlers)
        if not configured and logging.lastResort is not None:
            logging.lastResort.handle(record)


_logger.addHandler(_UnconfiguredHandler(logging.ERROR))


@dataclass(slots=True, eq=False)
class RequestInfo:
    """Describes the request for which streamfold calls a hook. All hooks of one request receive the same object.

    Attributes:
        provider: the provider's name.
        adapter: the name of the wire format.
        url: the URL of the request. Values from environment variables appear as `${NAME}`.
        request: the model, messages, tools and options as the application passed them.
        sent: the request after streamfold has adapted it to the endpoint, or None before the first HTTP request.
        dialect: the format in which the model writes tool calls into its text, if the server doesn't parse them.
        redactor: removes the request's secrets, such as the API key, from texts.
        notes: a dict in which hooks can store their own state.
    """

    provider: str
    adapter: str
    url: str
    request: Request = field(repr=False)
    dialect: str | None = None
    sent: Request | None = field(default=None, repr=False)
    redactor: Redactor = field(default_factory=Redactor, repr=False)
    notes: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def model(self) -> str:
        """The requested model."""
        return self.request.model


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that streamfold calls while an answer is requested and read. Each function's first argument is a
    `RequestInfo`.

        provider = Provider.from_config("kimi", hooks=Hooks(on_finish=lambda info, reply: print(reply.usage)))

    Hooks are synchronous functions and must not block. streamfold logs an exception in a hook with its traceback and
    continues the request.

    Attributes:
        on_request: called before each HTTP request, also before retries.
        on_bytes: called with the bytes of each network read. The hook must be fast. The bytes may contain secrets that
            the server echoes.
        sending: returns a context manager, such as a tracing span. streamfold enters it after `on_request`, and exits
            it when the response headers have arrived or the request has failed.
        on_first_chunk: called with the number of seconds from the request to the first chunk.
        on_retry: called with the failed `Attempt` before a retry.
        on_finish: called with the `Reply` when the answer is complete.
        on_error: called with the error when the answer failed.
        on_close: called last, even if the program didn't read the whole answer.

    Raises:
        ConfigError: a hook isn't a function, or is an async function.
    """

    on_request: Callable[[RequestInfo], object] | None = None
    on_first_chunk: Callable[[RequestInfo, float], object] | None = None
    on_retry: Callable[[RequestInfo, Attempt], object] | None = None
    on_finish: Callable[[RequestInfo, Reply], object] | None = None
    on_error: Callable[[RequestInfo, APIError], object] | None = None
    on_close: Callable[[RequestInfo], object] | None = None
    on_bytes: Callable[[RequestInfo, bytes], object] | None = None
    sending: Callable[[RequestInfo], AbstractContextManager[object]] | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            hook = getattr(self, each.name)
            if hook is None:
                continue
            if not callable(hook):
                raise ConfigError(f"Hooks.{each.name} must be a function, not {type(hook).__name__}")
            if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
                raise ConfigError(
                    f"Hooks.{each.name} must be a synchronous function: an async function would never be awaited"
                )


def read_hooks(given: Hooks | Iterable[Hooks]) -> tuple[Hooks, ...]:
    """Validates the argument `hooks=`, and returns it as a tuple of hooks. Raises ConfigError."""
    hooks: tuple[Any, ...] = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in hooks:
        if not isinstance(each, Hooks):
            kind = type(each).__name__
            raise ConfigError(f"hooks must be Hooks or a list of Hooks, not {kind}: pass Hooks(on_finish=...)")
    return hooks


class Notifier:
    def __init__(self, info: RequestInfo, hooks: Iterable[Hooks]) -> None:
        self.info = info
        self._hooks = (_LOG if _logger.isEnabledFor(logging.INFO) else _QUIET, *hooks)

    @property
    def tap(self) -> Callable[[bytes], None] | None:
        """A function that passes each piece of the response body to all `on_bytes` hooks, or None if no hook is set."""
        wanted = [hooks.on_bytes for hooks in self._hooks if hooks.on_bytes is not None]

        def tap(data: bytes) -> None:
            for hook in wanted:
                with _logged_failure(self.info, "on_bytes"):
                    hook(self.info, data)

        return tap if wanted else None

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Combines the context managers of all `sending` hooks, and logs their exceptions."""
        entered: list[AbstractContextManager[object]] = []
        for hooks in self._hooks:
            if hooks.sending is None:
                continue
            with _logged_failure(self.info, "sending"):
                around = hooks.sending(self.info)
                around.__enter__()
                entered.append(around)
        try:
            yield
        finally:
            for around in reversed(entered):
                with _logged_failure(self.info, "sending"):
                    around.__exit__(None, None, None)

    def notify(self, name: str, *details: object) -> None:
        """Calls the hook with this name in each `Hooks` object, and logs its exceptions."""
        for hooks in self._hooks:
            if (hook := getattr(hooks, name)) is not None:
                with _logged_failure(self.info, name):
                    hook(self.info, *details)


@contextmanager
def _logged_failure(info: RequestInfo, name: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        _logger.exception("%s: the hook %s failed", info.provider, name)


# The log contains names, numbers and error messages without secrets, but neither prompts nor answers.


def _log_request(info: RequestInfo) -> None:
    messages, tools = len(info.request.messages), len(info.request.tools)
    _logger.debug(
        "%s: POST %s model=%s messages=%d tools=%d", info.provider, info.url, _one_line(info.model), messages, tools
    )


def _log_first_chunk(info: RequestInfo, seconds: float) -> None:
    _logger.debug("%s: first chunk after %.3f s", info.provider, seconds)


def _log_retry(info: RequestInfo, attempt: Attempt) -> None:
    _logger.warning(
        "%s: %s: %s; next try in %.3g s", info.provider, attempt.error, _one_line(attempt.problem), attempt.pause or 0.0
    )


def _log_finish(info: RequestInfo, reply: Reply) -> None:
    for warning in reply.warnings:
        _logger.info("%s: warning %s", info.provider, warning.code)  # the detail may quote the answer
    timing, usage = reply.timing, reply.usage
    _logger.debug(
        "%s: finished reason=%s calls=%d seconds=%.3f input_tokens=%s output_tokens=%s request_id=%s",
        info.provider, reply.finish_reason, len(reply.tool_calls), (timing and timing.total) or 0.0,
        usage and usage.input_tokens, usage and usage.output_tokens, reply.request_id and _one_line(reply.request_id),
    )  # fmt: skip


def _log_error(info: RequestInfo, error: APIError) -> None:
    _logger.debug("%s: %s: %s", info.provider, type(error).__name__, _one_line(error.message))


_LOG = Hooks(_log_request, _log_first_chunk, _log_retry, _log_finish, _log_error)
_QUIET = Hooks(on_retry=_log_retry)  # the only warning


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
