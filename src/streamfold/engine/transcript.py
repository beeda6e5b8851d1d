"""The last events of an answer, for errors. They are kept in the form in which they were read."""

from __future__ import annotations

from collections.abc import Sequence

from .sse import SSEDecoder

_MOST = 20  # events


class Transcript:
    """The payloads of the last events."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, str | bytes]] = []  # how many events, and what they were; a deque is 600 bytes
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, payload: str) -> None:
        """Adds an event."""
        kept = self._kept
        kept.append((1, payload))
        self._count += 1
        if self._count > _MOST:
            self._forget()

    def add_bytes(self, data: bytes, start: int, ends: Sequence[int]) -> None:
        """Adds events as bytes: those in `data` from `start` on, each up to its end."""
        count = len(ends)
        if count > _MOST:
            start, count = ends[-_MOST - 1], _MOST
        self._kept.append((count, data[start : ends[-1]]))
        self._count += count
        self._forget()

    def _forget(self) -> None:
        """Lets go of events that are not among the last any more."""
        kept = self._kept
        while self._count - kept[0][0] >= _MOST:
            self._count -= kept.pop(0)[0]

    def payloads(self) -> tuple[str, ...]:
        """Returns the payloads, the oldest first."""
        found: list[str] = []
        for _, kept in self._kept:
            found += [kept] if isinstance(kept, str) else [event.data for event in SSEDecoder().feed(kept)]
        return tuple(found[-_MOST:])
