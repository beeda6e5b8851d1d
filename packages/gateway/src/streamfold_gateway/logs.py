"""The gateway's log: one plain line for each fact, and nothing that a client or a provider says can forge one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from streamfold import APIError, ConfigError, Reply, ReplyWarning
from streamfold.stores import StoreError
from streamfold.types import Attempt

from .http_errors import HTTPError
from .request_outcome import Observer, RequestOutcome

log = logging.getLogger("streamfold.gateway")

_LONGEST = 2000  # characters of one text in the log


def one_line(text: str) -> str:
    r"""Returns a text fit for one line of a log: what is not printable is escaped, and a long text is cut.

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
    """Writes what happens to one request, each line with its id and the model that was asked for.

    Attributes:
        key: the name of the client's key; None if it has none.
    """

    id: str
    api: str = "-"
    observers: Sequence[Observer] = ()
    model: str = "-"
    key: str | None = None
    _began: float = field(default_factory=monotonic)

    def completed(self, reply: Reply) -> None:
        """The client got a whole answer."""
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
        """The client got an answer that no model gave."""
        self._ended("answered", 200)
        self._line(logging.INFO, f"answered {self._after}: {note}")

    def failed(self, refusal: HTTPError) -> None:
        """The client got an error instead of an answer, or at the end of one. The cause of the refusal says why."""
        cause = refusal.__cause__
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
        """The client left before the end."""
        self._ended("disconnected", 499)
        self._line(logging.INFO, f"client disconnected {self._after}")

    def stopped(self) -> None:
        """The server stops before the end."""
        self._ended("stopped", 503)
        self._line(logging.WARNING, f"failed {self._after}: the server is shutting down")

    @property
    def _after(self) -> str:
        return f"after {monotonic() - self._began:.2f} s"

    def _attempts(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            self._line(logging.WARNING, f"attempt failed: {attempt.provider}: {attempt.problem}")

    def _ended_with(self, refusal: HTTPError) -> None:
        cause = refusal.__cause__
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
        if codes := _codes(warnings):
            # Their details may quote the answer; the client has them. What was given back is nothing to look after.
            level = logging.INFO if codes == ("turn_restored",) else logging.WARNING
            self._line(level, f"warnings: {', '.join(codes)}")

    def _line(self, level: int, text: str) -> None:
        log.log(level, "%s %s: %s", self.id, one_line(self.model), one_line(text))


def _codes(warnings: Iterable[ReplyWarning]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(warning.code for warning in warnings))


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)
