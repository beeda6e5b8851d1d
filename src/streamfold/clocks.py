"""Which clock of an answer runs out next. Times are the event loop's; nothing here waits."""

from __future__ import annotations

from math import inf

from .errors import APITimeoutError, TimeoutPhase
from .types import Timeouts

__all__ = ["Clocks"]

_WHAT: dict[TimeoutPhase, str] = {
    "connect": "no connection",
    "first_event": "no event came",
    "read": "no bytes came",
    "stall": "bytes came, but no event,",
    "total": "the answer was not finished",
}


class Clocks:
    """The clocks of one answer. Only time that is spent waiting counts, but for `total`, which counts everything.

    Args:
        now: when the answer was asked for: `total` runs from here, over all attempts and the pauses between them.

    Attributes:
        waiting_since: to be set when a wait for bytes begins. What a slow reader did before that is not the server's
            silence.
    """

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self.timeouts = timeouts
        self.ends = inf if timeouts.total is None else now + timeouts.total
        self._bytes = self._event = self._left = self.waiting_since = now
        self._any_event = self._asked = False

    def start(self, now: float) -> None:
        """A request is sent."""
        self._bytes = self._event = self._left = self.waiting_since = now
        self._any_event, self._asked = False, True

    def pause(self) -> None:
        """Nothing is asked for until the next `start`: only `total` runs."""
        self._any_event = self._asked = False

    def bytes_came(self, now: float) -> None:
        """A wait for bytes ended with some."""
        self._event += self.waiting_since - self._left
        self._bytes = self._left = self.waiting_since = now

    def event_came(self) -> bool:
        """The bytes held an event. Returns whether it was the first one, with which nearer deadlines begin."""
        self._event = self._bytes
        first, self._any_event = not self._any_event, True
        return first

    def due(self) -> float:
        """When the next clock runs out."""
        return self._next()[0]

    def timeout(self, request_id: str | None) -> APITimeoutError:
        """The error for the clock that runs out next."""
        return self.error(self._next()[1], request_id=request_id)

    def error(self, phase: TimeoutPhase, what: str | None = None, *, request_id: str | None = None) -> APITimeoutError:
        """The error for a clock."""
        seconds = getattr(self.timeouts, phase)
        return APITimeoutError(
            f"{what or _WHAT[phase]} within {seconds:g} seconds (timeouts.{phase})",
            phase=phase,
            retryable=phase != "total",
            request_id=request_id,
        )

    def _next(self) -> tuple[float, TimeoutPhase]:
        timeouts, away = self.timeouts, self.waiting_since - self._left
        ends: list[tuple[float, TimeoutPhase]] = [(self.ends, "total")]
        if not self._any_event:
            if timeouts.first_event is not None and self._asked:
                ends.append((self._event + away + timeouts.first_event, "first_event"))
            return min(ends)
        if timeouts.read is not None:
            ends.append((self._bytes + away + timeouts.read, "read"))
        if timeouts.stall is not None:
            ends.append((self._event + away + timeouts.stall, "stall"))
        return min(ends)
