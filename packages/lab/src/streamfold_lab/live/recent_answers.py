"""Stores the bytes of the gateway's latest responses. While a response streams, the hooks do as little work as
possible.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic, time
from typing import Literal, TypeAlias

from streamfold import APIError, Hooks, Reply
from streamfold.types import Attempt, RequestInfo

Ending: TypeAlias = Literal["finished", "failed", "left"]

_NOTE = "streamfold_lab.live"
_LARGEST = 16 * 2**20  # the maximum number of stored bytes of one response


@dataclass(slots=True, eq=False)
class WatchedAnswer:
    """One response of a provider, complete or still arriving.

    Attributes:
        number: the number of the response, from 1.
        ending: how the response ended. "left" means that the caller closed the stream before its end.
        version: the value of `RecentAnswers.clock` when the response last changed.
        began: when the request was sent, in seconds since 1970.
        since: when the request was sent, on the monotonic clock.
        pieces: the network reads of the body, each with its arrival time.
        size: the size of the body in bytes, including bytes that are no longer stored.
        dropped: true if no more bytes of the response are stored, because it is too large or too old.
        ended: when the response ended, on the monotonic clock; None while the response arrives.
        failed: the attempts that failed before this response.
    """

    number: int
    info: RequestInfo
    ending: Ending | None = None
    version: int = 0
    began: float = field(default_factory=time)
    since: float = field(default_factory=monotonic)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    size: int = 0
    dropped: bool = False
    ended: float | None = None
    failed: list[Attempt] = field(default_factory=list)
    reply: Reply | None = None
    error: APIError | None = None

    @property
    def state(self) -> Literal["waiting", "streaming", "finished", "failed", "left"]:
        """The present state."""
        return self.ending or ("streaming" if self.size else "waiting")

    def taken(self) -> tuple[bytes, list[tuple[int, float]]]:
        """Returns the stored bytes of the body, and its network reads: for each read, the number of bytes and the
        seconds since the previous read.
        """
        pieces = tuple(self.pieces)  # a copy, because the list may grow meanwhile
        times = [self.since, *(when for when, _ in pieces)]
        waits = [max(0.0, after - before) for before, after in pairwise(times)]
        body = b"".join([piece for _, piece in pieces])
        return body, [(len(piece), wait) for (_, piece), wait in zip(pieces, waits, strict=True)]


class RecentAnswers:
    """Stores the latest responses of all providers that use its `hooks`.

    Args:
        answers: the maximum number of stored responses.
        most_bytes: the maximum size of all stored bodies together, in bytes. The oldest responses are dropped first.

    Attributes:
        clock: the number of changes to the responses so far, so that a browser can request only later changes.
    """

    def __init__(self, answers: int, most_bytes: int) -> None:
        self._most, self._free = answers, most_bytes
        self._watched: OrderedDict[int, WatchedAnswer] = OrderedDict()
        self._sizes: dict[int, int] = {}  # the responses' sizes at the last call of `all`
        self._numbers = 0
        self.clock = 0
        self.hooks = Hooks(
            on_request=self._request,
            on_bytes=self._piece,
            on_retry=self._retry,
            on_finish=self._finish,
            on_error=self._error,
            on_close=self._close,
        )

    def find(self, number: int) -> WatchedAnswer | None:
        """Returns a response by its number, if it is still stored."""
        return self._watched.get(number)

    def all(self) -> list[WatchedAnswer]:
        """Returns the stored responses, the oldest first."""
        for found in self._watched.values():
            if self._sizes.get(found.number) != found.size:  # checked here to save time for each network read
                self._changed(found)
                self._sizes[found.number] = found.size
        return list(self._watched.values())

    def _request(self, info: RequestInfo) -> None:
        found: WatchedAnswer | None = info.notes.get(_NOTE)
        if found is None:
            self._numbers += 1
            found = info.notes[_NOTE] = self._watched[self._numbers] = WatchedAnswer(self._numbers, info)
            if len(self._watched) > self._most:
                self._drop_oldest()
        else:  # another attempt
            self._free += _kept(found)
            found.pieces, found.size, found.dropped = [], 0, found.number not in self._watched
        self._changed(found)

    def _piece(self, info: RequestInfo, data: bytes) -> None:
        found: WatchedAnswer = info.notes[_NOTE]
        found.size += len(data)
        if not found.dropped:
            found.pieces.append((monotonic(), data))
            self._free -= len(data)
            while self._free < 0 and len(self._watched) > 1:
                self._drop_oldest()
            if self._free < 0 or found.size > _LARGEST:
                found.dropped = True

    def _retry(self, info: RequestInfo, attempt: Attempt) -> None:
        found: WatchedAnswer = info.notes[_NOTE]
        found.failed.append(attempt)
        self._changed(found)

    def _finish(self, info: RequestInfo, reply: Reply) -> None:
        found: WatchedAnswer = info.notes[_NOTE]
        found.reply, found.ending, found.ended = reply, "finished", monotonic()
        self._changed(found)

    def _error(self, info: RequestInfo, error: APIError) -> None:
        found: WatchedAnswer = info.notes[_NOTE]
        found.error, found.ending, found.ended = error, "failed", monotonic()
        self._changed(found)

    def _close(self, info: RequestInfo) -> None:
        found: WatchedAnswer | None = info.notes.get(_NOTE)
        if found is not None and found.ended is None:
            found.ending, found.ended = "left", monotonic()
            self._changed(found)

    def _changed(self, found: WatchedAnswer) -> None:
        self.clock = found.version = self.clock + 1

    def _drop_oldest(self) -> None:
        number, oldest = self._watched.popitem(last=False)
        self._sizes.pop(number, None)
        self._free += _kept(oldest)
        oldest.pieces, oldest.dropped = [], True  # it may still be arriving


def _kept(found: WatchedAnswer) -> int:
    return sum(len(piece) for _, piece in found.pieces)
