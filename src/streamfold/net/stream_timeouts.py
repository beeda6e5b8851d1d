"""The timeouts of one answer: which one runs out next. Times are the event loop's; nothing here waits.

`first_event` and `stall` measure how long the reader waits for the next part of the answer, whatever else arrives:
comments, pings and metadata do not restart them. `read` measures how long it waits for bytes of any kind. Time that the
reader itself takes between two chunks counts only for `total`.
"""

from __future__ import annotations

from math import inf

from ..values import APITimeoutError, TimeoutPhase, Timeouts

_WHAT: dict[TimeoutPhase, str] = {
    "connect": "no connection",
    "first_event": "nothing of the answer arrived",
    "read": "no bytes arrived",
    "stall": "the server sent bytes, but nothing of the answer",
    "total": "the answer was not finished",
}


class StreamTimeouts:
    """The deadlines of one answer over all attempts.

    Args:
        now: when the answer was asked for: `total` starts here and includes the pauses between attempts.

    Attributes:
        ends: when `total` runs out.
    """

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self.timeouts = timeouts
        self.ends = inf if timeouts.total is None else now + timeouts.total
        self._answer_due = inf  # when the next part of the answer must have arrived
        self._asked = now  # when the reader asked for the next bytes
        self._begun = False  # whether anything of the answer has arrived

    def start(self, now: float) -> None:
        """Starts the clocks of an attempt, when its request is sent."""
        self._asked, self._begun = now, False
        self._answer_due = _after(now, self.timeouts.first_event)

    def pause(self) -> None:
        """Stops all clocks but `total` until the next `start`."""
        self._begun, self._answer_due = False, inf

    def read(self, now: float, *, progress: bool) -> None:
        """Notes that the reader asks for more bytes.

        Args:
            progress: whether the bytes since the last call contained a part of the answer.
        """
        self._asked = now
        if progress:
            stall = self.timeouts.stall
            self._begun, self._answer_due = True, inf if stall is None else now + stall

    def expired(self, now: float) -> bool:
        """Whether the reader has waited too long, although bytes keep arriving."""
        return now >= self._answer_due or now >= self.ends

    def due(self) -> float:
        """Returns when the next clock runs out."""
        due = min(self.ends, self._answer_due)
        return min(due, _after(self._asked, self.timeouts.read)) if self._begun else due

    def timeout(self, request_id: str | None) -> APITimeoutError:
        """Returns the error for the clock that runs out next."""
        return self.error(self._next()[1], request_id=request_id)

    def error(self, phase: TimeoutPhase, what: str | None = None, *, request_id: str | None = None) -> APITimeoutError:
        """Returns the error for a clock."""
        seconds = getattr(self.timeouts, phase)
        return APITimeoutError(
            f"{what or _WHAT[phase]} within {seconds:g} seconds (timeouts.{phase})",
            phase=phase,
            retryable=phase != "total",
            request_id=request_id,
        )

    def _next(self) -> tuple[float, TimeoutPhase]:
        ends: list[tuple[float, TimeoutPhase]] = [(self.ends, "total")]
        ends.append((self._answer_due, "stall" if self._begun else "first_event"))
        if self._begun:
            ends.append((_after(self._asked, self.timeouts.read), "read"))
        return min(ends)


def _after(now: float, seconds: float | None) -> float:
    return inf if seconds is None else now + seconds
