"""The values of an inspection: made once, by `trace.py`, and read-only afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from streamfold import Reply, WarningCode
from streamfold.adapters import Delta
from streamfold.engine import MatchRule

EventKind: TypeAlias = Literal[
    "event",
    "comment",  # lines without data: they keep a connection open and say nothing
    "body",  # the whole body, where it is no event stream
    "rest",  # the beginning of an event, at the end of the body
    "unread",  # it came when the answer had ended already
    "end",  # no bytes at all: what happened when there were no more
]


@dataclass(frozen=True, slots=True)
class FragmentPlacement:
    """Where one fragment of a tool call went, and why.

    Attributes:
        call: the number of the call, or None if the fragment says nothing and went nowhere.
        opens: whether the call began with it.
        rule: which rule of `calls.py` placed it; None if it went nowhere.
        why: the same as a sentence.
        index, id, name, arguments: as in the fragment.
        whole: `arguments` is all of the text again, not its next piece.
    """

    call: int | None
    opens: bool
    rule: MatchRule | None
    why: str
    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class LocatedWarning:
    """A warning and its cause.

    Attributes:
        event: the position, in `Inspection.events`, of the event at which it was first noticed.
        call: the number of the call that it is about, if it is about one.
    """

    code: WarningCode
    detail: str
    event: int
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or another part of a body.

    Attributes:
        number: 1, 2, 3 for events; None for everything else.
        start, end: the position of its bytes in the body, including the blank line.
        raw: those bytes as text; bytes that are not UTF-8 are replaced by U+FFFD.
        name: the name in its `event:` line.
        data: its payload.
        time: seconds from the headers to its last byte, if recorded; gap: since the event before.
        piece: the number (1, 2, 3) of the network read with its last byte, if recorded.
        deltas: the facts that the adapter read in it.
        text, reasoning: the text of the chunks that came out with it.
        placements: the fragments of calls, in order. With a dialect they may come from the text of earlier events.
        notes: explanations of facts that had no visible effect yet.
        finished: whether the finished chunk came out with it.
        error: the error in which it ended the answer, or the reason why it can't be read.
    """

    number: int | None
    kind: EventKind
    start: int
    end: int
    raw: str
    name: str = ""
    data: str = ""
    time: float | None = None
    gap: float | None = None
    piece: int | None = None
    deltas: tuple[Delta, ...] = ()
    text: str = ""
    reasoning: str = ""
    placements: tuple[FragmentPlacement, ...] = ()
    notes: tuple[str, ...] = ()
    finished: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A call of the stream, delivered or not.

    Attributes:
        number: 0, 1, 2 in the order in which calls were opened.
        index: the server's number for it, if its first fragment had one.
        arguments: the text of its pieces, before any repair.
        fragments: the number of its fragments.
        first, last: the positions, in `Inspection.events`, of the events with its first and its last fragment.
    """

    number: int
    index: int | None
    id: str
    name: str
    arguments: str
    fragments: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """The error in which a stream ended: the name of its class, its message, and whether a retry may help."""

    error: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """A stream, explained.

    Attributes:
        name: of the recording.
        adapter, dialect: the names of the adapter and the dialect.
        size: bytes of the body.
        pieces: the sizes of the network reads; empty if not recorded.
        events: everything in the body, in order.
        calls: all calls in the stream, in the order in which they were opened.
        warnings: mistakes of the server, with the event at which each was noticed.
        reply: the answer, or the part of it before the error.
        failed: the error, if it ended in one.
        about: other facts about the recording, in words.
    """

    name: str
    adapter: str
    dialect: str | None
    size: int
    events: tuple[Event, ...]
    calls: tuple[TracedCall, ...]
    warnings: tuple[LocatedWarning, ...]
    reply: Reply
    failed: StreamFailure | None = None
    pieces: tuple[int, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def count(self) -> int:
        """The number of events."""
        return sum(event.number is not None for event in self.events)

    @property
    def duration(self) -> float | None:
        """Seconds from the headers to the last byte, if times were recorded."""
        return max((event.time for event in self.events if event.time is not None), default=None)
