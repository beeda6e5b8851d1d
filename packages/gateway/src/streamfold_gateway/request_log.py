"""The gateway's request log: text lines for people, and one JSON object per request for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal, TypeAlias

from streamfold import APIError, ConfigError, Cost, Reply, ReplyWarning, Usage
from streamfold.stores import StoreError
from streamfold.types import Attempt

from .http_errors import HTTPError

# One JSON object for each request.
requests_log = logging.getLogger("streamfold.gateway.requests")


TOKEN_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of one client request.

    Attributes:
        id: the id of the response, as in the header `X-Request-Id`.
        api: the name of the adapter of the client's API, such as "chat".
        model: the model name that the client sent.
        how: "completed": the client got a complete response; "answered": the gateway responded without calling a model;
            "refused": the gateway rejected the request; "failed": the provider or the gateway failed; "disconnected":
            the client disconnected; "stopped": the server stopped.
        status: the HTTP status; 499 if the client disconnected.
        seconds: seconds from the request to the end of the response.
        first: seconds from the request to the first chunk of the response.
        provider: the provider that sent the response or the error.
        finish_reason: the finish reason of the response.
        usage, cost: the usage and the cost of the response, which may be incomplete; None if unknown.
        key: the name of the client's key.
        error: the class name of the error.
        warnings: the codes of the response's warnings, without duplicates.
        attempts: the names of the providers that failed before `provider` handled the request.
    """

    id: str
    api: str
    model: str
    how: Literal["completed", "answered", "refused", "failed", "disconnected", "stopped"]
    status: int
    seconds: float
    first: float | None = None
    provider: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    key: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Converts the outcome to JSON data, without unknown values."""
        said: dict[str, Any] = {"id": self.id, "api": self.api, "key": self.key, "model": self.model}
        said["outcome"] = self.how
        said |= {"status": self.status, "seconds": round(self.seconds, 4)}
        said["first_seconds"] = None if self.first is None else round(self.first, 4)
        said |= {"provider": self.provider, "finish_reason": self.finish_reason, "error": self.error}
        for name in TOKEN_COUNTS:
            said[name] = getattr(self.usage, name, None)
        if self.cost is not None:
            said |= {"cost": float(self.cost.amount), "currency": self.cost.currency}
            said["cost_estimated"] = self.cost.estimated or None
        said |= {"warnings": list(self.warnings) or None, "failed_attempts": list(self.attempts) or None}
        return {name: value for name, value in said.items() if value is not None}


Observer: TypeAlias = Callable[[RequestOutcome], None]


def log_json(outcome: RequestOutcome) -> None:
    """Writes a request's outcome as one line of JSON to the logger `streamfold.gateway.requests`."""
    requests_log.info("%s", json.dumps(outcome.to_dict()))


log = logging.getLogger("streamfold.gateway")

# The details of these warnings are about options and settings; other details may quote the conversation.
_WITHOUT_TEXTS = (
    "option_dropped", "option_changed", "forced_choice_dropped", "tool_choice_changed", "response_format_changed",
    "tool_dropped", "tool_renamed", "cache_prefix_changed", "turn_cache_failed", "usage_invalid",
    "usage_estimated", "input_maybe_truncated",
)  # fmt: skip
_LONGEST = 2000  # maximum length of a text in the log


def one_line(text: str) -> str:
    r"""Converts a text to one line for the log: escapes unprintable characters, and truncates a long text.

    >>> one_line("a\nb \x1b[2J")
    'a\\nb \\x1b[2J'
    """
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


@dataclass(slots=True)
class RequestLog:
    """Writes the log lines of one request. Each line contains the request's id and model.

    Attributes:
        key: the name of the client's key; None if it has no name.
    """

    id: str
    api: str = "-"
    observers: Sequence[Observer] = ()
    model: str = "-"
    key: str | None = None
    _began: float = field(default_factory=monotonic)

    def completed(self, reply: Reply) -> None:
        cost = reply.cost
        self._ended(
            "completed",
            200,
            first=reply.timing and reply.timing.first_chunk,
            provider=reply.provider,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            cost=cost,
            warnings=_codes(reply.warnings),
            attempts=tuple(attempt.provider for attempt in reply.attempts),
        )
        self._attempts(reply.attempts)
        self._warnings(reply.warnings)
        usage, tokens = reply.usage, "usage unknown"
        if usage is not None:
            tokens = f"{_count(usage.input_tokens)} input and {_count(usage.output_tokens)} output tokens"
        provider = f" by {reply.provider}" if reply.provider else ""
        money = "" if cost is None else f", {cost}"
        self._line(logging.INFO, f"completed{provider} {self._after}: {reply.finish_reason}, {tokens}{money}")

    def answered(self, note: str) -> None:
        """Logs a response for which the gateway called no model, such as a token count."""
        self._ended("answered", 200)
        self._line(logging.INFO, f"answered {self._after}: {note}")

    def failed(self, refusal: HTTPError) -> None:
        """Logs an error that the client receives as an HTTP response or at the end of a stream, with the exception that
        caused it.
        """
        cause = refusal.cause
        how = f"{self._after} (HTTP {refusal.status})"
        self._ended_with(refusal)
        match cause:
            case APIError():
                self._attempts(cause.attempts)
                self._warnings(cause.warnings)
                self._line(logging.WARNING, f"failed {how}: {type(cause).__name__}: {cause}")
            case ConfigError() | StoreError() if refusal.status >= 500:
                self._line(logging.ERROR, f"failed {how}: {cause}")
            case None | ConfigError():
                self._line(logging.INFO, f"refused {how}: {refusal.info.message}")
            case _:
                line = "%s %s: failed %s: unexpected error"
                log.error(line, self.id, one_line(self.model), how, exc_info=cause)

    def disconnected(self) -> None:
        self._ended("disconnected", 499)
        self._line(logging.INFO, f"client disconnected {self._after}")

    def stopped(self) -> None:
        self._ended("stopped", 503)
        self._line(logging.WARNING, f"failed {self._after}: the server is shutting down")

    @property
    def _after(self) -> str:
        return f"after {monotonic() - self._began:.2f} s"

    def _attempts(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            self._line(logging.WARNING, f"attempt failed: {attempt.provider}: {attempt.problem}")

    def _ended_with(self, refusal: HTTPError) -> None:
        cause = refusal.cause
        how: Any = "refused" if refusal.status < 500 and not isinstance(cause, APIError) else "failed"
        error = None if cause is None else type(cause).__name__
        if not isinstance(cause, APIError):
            self._ended(how, refusal.status, error=error)
            return
        attempts, warnings = tuple(attempt.provider for attempt in cause.attempts), _codes(cause.warnings)
        used = {} if cause.partial is None else {"usage": cause.partial.usage, "cost": cause.partial.cost}
        self._ended(
            how, refusal.status, provider=cause.provider, error=error, attempts=attempts, warnings=warnings, **used
        )

    def _ended(self, how: Any, status: int, **members: Any) -> None:
        if self.observers:
            outcome = RequestOutcome(
                self.id, self.api, self.model, how, status, monotonic() - self._began, key=self.key, **members
            )
            for observe in self.observers:
                observe(outcome)

    def _warnings(self, warnings: Iterable[ReplyWarning]) -> None:
        warnings = tuple(warnings)
        if codes := _codes(warnings):
            # Restored messages need no attention.
            level = logging.INFO if codes == ("turn_restored",) else logging.WARNING
            details: dict[str, str] = {
                warning.code: f" ({warning.detail})" for warning in warnings if warning.code in _WITHOUT_TEXTS
            }
            self._line(level, "warnings: " + ", ".join(f"{code}{details.get(code, '')}" for code in codes))

    def _line(self, level: int, text: str) -> None:
        log.log(level, "%s %s: %s", self.id, one_line(self.model), one_line(text))


def _codes(warnings: Iterable[ReplyWarning]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(warning.code for warning in warnings))


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)
