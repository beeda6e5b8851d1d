"""The last events of an answer, for errors."""

from __future__ import annotations

_MOST = 20  # events


class Transcript:
    """The payloads of the last events."""

    def __init__(self) -> None:
        self._payloads: list[str] = []  # a deque is 600 bytes

    def __bool__(self) -> bool:
        return bool(self._payloads)

    def add(self, payload: str) -> None:
        """Adds an event."""
        self._payloads.append(payload)
        if len(self._payloads) > _MOST:
            del self._payloads[0]

    def payloads(self) -> tuple[str, ...]:
        """Returns the payloads, the oldest first."""
        return tuple(self._payloads)
