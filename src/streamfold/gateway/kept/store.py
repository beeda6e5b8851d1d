"""Where responses are kept: the interface of a store, and the one in memory."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, Protocol

from .events import FINAL, KeptEvent

__all__ = ["InMemoryResponses", "KeptResponse", "ResponseRetention", "ResponseStore"]


@dataclass(frozen=True, slots=True)
class ResponseRetention:
    """How much is kept. What was not used for longest is given up first; an answer that is under way stays.

    Attributes:
        responses: how many.
        size: bytes of all of them together, events included.
        age: seconds for which one is kept since it was last used.
    """

    responses: int = 1000
    size: int = 256 * 2**20
    age: float = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """A response, and what it answers.

    Attributes:
        owner: whose it is: nobody else gets it.
        items: the input items of its own request.
        previous: the response whose conversation it continues.
        response: the object of the API, as it is so far.
        resumable: whether its events are kept too.
    """

    id: str
    owner: str
    items: Sequence[Any]
    previous: str | None
    response: dict[str, Any]
    resumable: bool = True

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to come."""
        return self.response["status"] in FINAL


class ResponseStore(Protocol):
    """Keeps responses and their events, within limits of its own."""

    async def put(self, kept: KeptResponse) -> None:
        """Keeps a response."""
        ...

    async def append(self, response_id: str, events: Sequence[KeptEvent], response: dict[str, Any] | None) -> None:
        """Adds events to a response, and its new state if they tell one. Of one that is not kept nothing is added."""
        ...

    async def get(self, response_id: str, owner: str) -> KeptResponse | None:
        """Returns a response of this owner; None if there is none."""
        ...

    async def events(self, response_id: str, after: int) -> list[KeptEvent]:
        """Returns the events with a higher number."""
        ...

    async def delete(self, response_id: str, owner: str) -> bool:
        """Forgets a response. Returns whether there was one."""
        ...

    async def cancel(self, response_id: str) -> None:
        """Asks the process that makes a response to give it up."""
        ...

    async def wanted(self, response_id: str) -> bool:
        """Returns whether a response that is made here is to go on: nobody has cancelled or deleted it elsewhere."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


@dataclass(slots=True)
class _Entry:
    kept: KeptResponse
    used: float
    size: int
    events: list[KeptEvent] = field(default_factory=list)


class InMemoryResponses:
    """Keeps responses in this process, until it ends."""

    def __init__(self, limits: ResponseRetention | None = None, *, clock: Callable[[], float] = time) -> None:
        self._limits = limits or ResponseRetention()
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._size = 0

    async def put(self, kept: KeptResponse) -> None:
        """Keeps a response."""
        self._drop(kept.id)
        size = len(json.dumps([kept.items, kept.response]))
        self._entries[kept.id] = _Entry(kept, self._clock(), size)
        self._size += size
        self._forget()

    async def append(self, response_id: str, events: Sequence[KeptEvent], response: dict[str, Any] | None) -> None:
        """Adds events to a response, and its new state if they tell one."""
        entry = self._entries.get(response_id)
        if entry is None:
            return
        entry.events += events
        grown = sum(len(kept.data) for kept in events)
        entry.size += grown
        self._size += grown
        if response is not None:
            entry.kept = replace(entry.kept, response=response)
        self._forget()

    async def get(self, response_id: str, owner: str) -> KeptResponse | None:
        """Returns a response of this owner; None if there is none."""
        self._forget()
        entry = self._entries.get(response_id)
        if entry is None or entry.kept.owner != owner:
            return None
        entry.used = self._clock()
        self._entries.move_to_end(response_id)
        return entry.kept

    async def events(self, response_id: str, after: int) -> list[KeptEvent]:
        """Returns the events with a higher number."""
        entry = self._entries.get(response_id)
        return [kept for kept in entry.events if kept.number > after] if entry else []

    async def delete(self, response_id: str, owner: str) -> bool:
        """Forgets a response. Returns whether there was one."""
        entry = self._entries.get(response_id)
        if entry is None or entry.kept.owner != owner:
            return False
        self._drop(response_id)
        return True

    async def cancel(self, response_id: str) -> None:
        """Does nothing: no other process makes responses that are kept here."""

    async def wanted(self, response_id: str) -> bool:
        """Returns True: who gives a response up is in this process, and tells whoever makes it."""
        return True

    async def aclose(self) -> None:
        """Forgets everything."""
        self._entries.clear()
        self._size = 0

    def _forget(self) -> None:
        oldest = self._clock() - self._limits.age
        for response_id in list(self._entries):
            entry = self._entries[response_id]
            full = len(self._entries) > self._limits.responses or self._size > self._limits.size
            if not full and entry.used >= oldest:
                return
            if entry.kept.ended:
                self._drop(response_id)

    def _drop(self, response_id: str) -> None:
        if (entry := self._entries.pop(response_id, None)) is not None:
            self._size -= entry.size
