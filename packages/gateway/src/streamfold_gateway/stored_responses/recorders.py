"""Answers that are kept while they are made, and how much all of them may hold together.

Each listens to its emitter, which writes each event once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamfold.serving import ResponsesSerializer, SerializedEvent
from streamfold.stores import StoreError

from .events import StoredEvent
from .store import ResponseStore, StoredResponse

_PIECE = 64  # bytes that a piece of a text takes beside its characters, as long as it is a piece
_GATHERED = 2  # places that gather the pieces: what is written, and the reply
_WRITTEN = 5  # times that a whole text is there at the end: itself, in the three events that complete it, in the last
_SMALL = 2**18  # bytes of an answer that never waits for room
_AT_THE_END = 4  # times that a text is written again when it ends: in its three events, and in the response
TOO_LONG = "response_not_kept: it is too long for the store, so that nothing can refer to it"
NO_EVENTS = "response_not_resumable: it is too long to keep its events"


class Recorder:
    """An answer that is being made and kept.

    Args:
        kept: the response before it has begun.
        about: members of the response that say how it is kept.

    Attributes:
        emitter: writes the answer; None before it has begun.
        events: those that are held.
        held: how many bytes they are.
        chars, pieces: the text that has come, and in how many pieces.
        waits: whether it can wait for room: it goes on without its client.
        stuck: whether it waits for somebody who reads slowly.
        resumable: whether they are kept.
        state: the JSON of the response as it is so far, a part of an event.
        over: whether the event that ends it has been written.
    """

    waits = False

    def __init__(
        self, responses: ResponseStore, memory: RecorderMemory, kept: StoredResponse, about: Mapping[str, Any]
    ) -> None:
        self.about = about
        self.kept = kept
        self.emitter: ResponsesSerializer | None = None
        self.events: list[StoredEvent] = []
        self.held = self.chars = self.pieces = 0
        self.stuck = False
        self.resumable = kept.resumable
        self.state: bytes | memoryview = b""
        self.over = False
        self._responses = responses
        self._memory = memory
        memory.add(self)

    def note(self, event: SerializedEvent) -> None:
        """Takes an event that has been written."""
        if self.over:
            return
        if event.state:
            self.state, self.over = event.state, event.last
        if event.chars:
            self.chars, self.pieces = self.chars + event.chars, self.pieces + 1
        if self._holds:
            self.events.append(StoredEvent(event.number, event.data))
            self._count(len(event.data))
        to_come = _AT_THE_END * self.chars if event.chars else 0
        if self.resumable and self.held + to_come > self._responses.most:
            self.forget_events()

    def close(self) -> None:
        """Counts it no more."""
        self._memory.remove(self)

    def forget_events(self) -> None:
        """Keeps the response alone from now on."""
        self.resumable = False
        self._release()

    @property
    def _holds(self) -> bool:
        return self.resumable

    def wake(self) -> None:
        """Looks whether it may go on."""

    @property
    def weight(self) -> int:
        """The bytes of it that are held: events and, of one that goes on without its client, what has come of it."""
        gathered = _GATHERED * (self.chars + _PIECE * self.pieces) + _WRITTEN * self.chars
        return self.held + (gathered if self.waits else 0)

    @property
    def takes_turns(self) -> bool:
        """Whether it waits for room where there is none."""
        return self.waits and not self.over and self.weight > _SMALL

    def _count(self, more: int) -> None:
        self._memory.count(self, more)

    def _release(self) -> None:
        self.events = []
        self._count(-self.held)

    async def _put(self, state: bytes | memoryview, events: list[StoredEvent], **how: Any) -> bool:
        kept = replace(self.kept, resumable=self.resumable)
        return await self._responses.put(kept, state, events if self.resumable else (), **how)


class AttachedRecorder(Recorder):
    """An answer that is kept when it is whole, and given up with its client."""

    async def save(self) -> str:
        """Keeps the response. Returns what its client is to be told of that; "" if all of it is kept."""
        streamed = self.kept.resumable
        try:
            for _ in range(2):
                if len(self.state) <= self._responses.most and await self._put(self.state, self.events, ended=True):
                    return NO_EVENTS if streamed and not self.resumable else ""
                self.forget_events()
        except StoreError as error:
            return f"response_not_kept: {error.message}"
        return TOO_LONG


class RecorderMemory:
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
        self._making: dict[Recorder, None] = {}  # the oldest first
        self._full = False  # somebody waits for room

    def add(self, making: Recorder) -> None:
        """Counts an answer from now on."""
        self._making[making] = None

    def remove(self, making: Recorder) -> None:
        """Counts an answer no more."""
        if making in self._making:
            del self._making[making]
            self._events -= making.held
            self.wake()

    def count(self, making: Recorder, more: int) -> None:
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

    def has_room(self, making: Recorder) -> bool:
        """Returns whether an answer that nobody waits for may go on."""
        if not making.takes_turns or sum(each.weight for each in self._making) <= self._size:
            return True
        first = next(each for each in self._making if each is making or (each.takes_turns and not each.stuck))
        self._full = self._full or first is not making
        return first is making

    def wake(self) -> None:
        """Has all answers look whether they may go on."""
        if self._full:
            self._full = False
            for each in self._making:
                each.wake()
