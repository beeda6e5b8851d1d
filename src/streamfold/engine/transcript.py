"""The last events of an answer, for errors. They are kept in the form in which they were read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .sse import SSEDecoder

__all__ = ["Transcript"]

_MOST = 20  # events


class Transcript:
    """The payloads of the last events."""

    def __init__(self) -> None:
        self._kept: deque[str | bytes] = deque(maxlen=_MOST)

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, payload: str) -> None:
        """Adds an event."""
        self._kept.append(payload)

    def add_bytes(self, data: bytes, start: int, ends: Sequence[int]) -> None:
        """Adds events as bytes: those in `data` from `start` on, each up to its end."""
        if len(ends) > _MOST:
            start = ends[-_MOST - 1]
        self._kept.append(data[start : ends[-1]])

    def payloads(self) -> tuple[str, ...]:
        """Returns the payloads, the oldest first."""
        found: list[str] = []
        for kept in self._kept:
            found += [kept] if isinstance(kept, str) else [event.data for event in SSEDecoder().feed(kept)]
        return tuple(found[-_MOST:])
