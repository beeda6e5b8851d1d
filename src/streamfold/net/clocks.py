"""Which clock of an answer runs out next. Times are the event loop's; nothing here waits."""

from __future__ import annotations

from math import inf

from ..values import APITimeoutError, TimeoutPhase, Timeouts

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
    """

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self.timeouts = timeouts
        self.ends = inf if timeouts.total is None else now + timeouts.total
        self._since = now  # when the wait began that goes on, or the last one did
        self._waited = 0.0  # seconds of waiting before that, since the request was sent or the last event came
        self._any_event = self._asked = False

    def start(self, now: float) -> None:
        """A request is sent."""
        self._since, self._waited = now, 0.0
        self._any_event, self._asked = False, True

    def pause(self) -> None:
        """Nothing is asked for until the next `start`: only `total` runs."""
        self._any_event = self._asked = False

    def wait_begins(self, now: float) -> None:
        """From here on the server is silent. What a slow reader did before that is not its silence."""
        self._since = now

    def wait_ends(self, now: float) -> None:
        """Something came."""
        self._waited += now - self._since
        self._since = now

    def event_came(self) -> bool:
        """There was an event in it. Returns whether it was the first one, with which nearer deadlines begin."""
        self._waited = 0.0
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
        timeouts, since = self.timeouts, self._since
        ends: list[tuple[float, TimeoutPhase]] = [(self.ends, "total")]
        if not self._any_event:
            if timeouts.first_event is not None and self._asked:
                ends.append((since + timeouts.first_event - self._waited, "first_event"))
            return min(ends)
        if timeouts.read is not None:
            ends.append((since + timeouts.read, "read"))
        if timeouts.stall is not None:
            ends.append((since + timeouts.stall - self._waited, "stall"))
        return min(ends)
