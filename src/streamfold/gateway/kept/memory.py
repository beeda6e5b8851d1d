"""How much all answers under way may hold together: events, and what has come of the answers themselves."""

from __future__ import annotations

from typing import Protocol

_PIECE = 64  # bytes that a piece of a text takes beside its characters, as long as it is a piece
_GATHERED = 2  # places that gather the pieces: what is written, and the reply
_WRITTEN = 5  # times that a whole text is there at the end: itself, in the three events that complete it, in the last
_SMALL = 2**18  # bytes of an answer that never waits for room


class Held(Protocol):
    """An answer under way.

    Attributes:
        held: bytes of events that it holds.
        chars, pieces: the text that has come, and in how many pieces.
        waits: whether it can wait for room: it goes on without its client.
        stuck: whether it waits for somebody who reads slowly.
        over: whether its last event has been written.
    """

    held: int
    chars: int
    pieces: int
    waits: bool
    stuck: bool
    over: bool

    def forget_events(self) -> None: ...

    def wake(self) -> None: ...


class Memory:
    """How many bytes all answers under way may hold together.

    The largest ones give their events up first. If that is not enough, answers that nobody waits for stop reading what
    their providers send, all but the first of them, until there is room. So what they hold together is the bound, one
    answer, and a little for each.

    Args:
        size: the bound.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._events = 0
        self._making: dict[Held, None] = {}  # the oldest first
        self._full = False  # somebody waits for room

    def add(self, making: Held) -> None:
        """Counts an answer from now on."""
        self._making[making] = None

    def remove(self, making: Held) -> None:
        """Counts an answer no more."""
        if making in self._making:
            del self._making[making]
            self._events -= making.held
            self.wake()

    def count(self, making: Held, more: int) -> None:
        """Counts bytes of events, and makes room as far as nobody waits for them."""
        making.held += more
        if making not in self._making:
            return
        self._events += more
        if more > 0 and self._events > self._size:
            for each in sorted(self._making, key=lambda making: making.held, reverse=True):
                each.forget_events()
                if self._events <= self._size:
                    break
        elif more < 0:
            self.wake()

    def has_room(self, making: Held) -> bool:
        """Returns whether an answer that nobody waits for may go on."""
        if not _takes_turns(making) or sum(map(_weight, self._making)) <= self._size:
            return True
        first = next(each for each in self._making if each is making or (_takes_turns(each) and not each.stuck))
        self._full = self._full or first is not making
        return first is making

    def wake(self) -> None:
        """Has all answers look whether they may go on."""
        if self._full:
            self._full = False
            for each in self._making:
                each.wake()


def _takes_turns(making: Held) -> bool:
    return making.waits and not making.over and _weight(making) > _SMALL


def _weight(making: Held) -> int:
    gathered = _GATHERED * (making.chars + _PIECE * making.pieces) + _WRITTEN * making.chars
    return making.held + (gathered if making.waits else 0)
