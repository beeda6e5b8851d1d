"""How fast a job asks: so many requests and tokens a minute, and not at all while the provider wants a pause.

Each limit is a line of reservations (the generic cell rate algorithm): a request takes the next free moment, and the
moment after it moves on by what the request needs. Only one request waits at the gate at a time, so that a new rate or
a pause counts for all others at once.
"""

from __future__ import annotations

import anyio

from ..values import ConfigError, Usage

__all__ = ["Pace"]

_LEARNED = 0.1  # the weight of one answer in the mean


class Pace:
    """The pace of one job.

    Args:
        rpm: requests a minute; None for no limit.
        tpm: tokens a minute, of input and output together; None for no limit. A request reserves the mean of the
            answers so far, and what it really used is settled when it is known.

    Raises:
        ConfigError: a limit is not above 0.
    """

    def __init__(self, rpm: float | None = None, tpm: float | None = None) -> None:
        for name, value in (("rpm", rpm), ("tpm", tpm)):
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be greater than 0, not {value:g}")
        self._request = 60 / rpm if rpm else 0.0  # seconds that one takes
        self._token = 60 / tpm if tpm else 0.0
        self._requests_from = self._tokens_from = self._rests_until = 0.0
        self._mean = 1000.0  # tokens of an answer
        self._gate = anyio.Lock()

    async def wait(self) -> float:
        """Waits until the next request may be sent. Returns the tokens that were reserved for it."""
        async with self._gate:
            for seconds in iter(self._to_wait, 0.0):
                await anyio.sleep(seconds)
            now = anyio.current_time()
            self._requests_from = max(self._requests_from, now) + self._request
            self._tokens_from = max(self._tokens_from, now) + self._mean * self._token
            return self._mean

    def _to_wait(self) -> float:
        moment = max(self._requests_from, self._tokens_from, self._rests_until)
        return min(max(moment - anyio.current_time(), 0.0), 1.0)

    def settle(self, reserved: float, usage: Usage | None) -> None:
        """Corrects a reservation by what an answer really used."""
        used = usage.total_tokens if usage and usage.total_tokens is not None else None
        if used is None and usage is not None and usage.input_tokens is not None:
            used = usage.input_tokens + (usage.output_tokens or 0)
        if used is not None:
            self._tokens_from += (used - reserved) * self._token
            self._mean += (used - self._mean) * _LEARNED

    def rest(self, seconds: float) -> None:
        """Sends nothing for a while: the provider said that there were too many requests."""
        self._rests_until = max(self._rests_until, anyio.current_time() + seconds)
