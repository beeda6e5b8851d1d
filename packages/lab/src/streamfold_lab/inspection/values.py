"""The values of an inspection, which `trace.py` creates."""

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
    """The tool call that a fragment belongs to, and the reason.

    Attributes:
        call: the number of the tool call; None for an empty fragment.
        opens: true if the fragment began the tool call.
        rule: the rule that decided; None for an empty fragment.
        why: the rule as a sentence.
        index, id, name, arguments: the fields of the fragment.
        whole: true if `arguments` is the complete text, not its next piece.
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
        event: the position of the event in `Inspection.events`.
        call: the number of the tool call, if the warning is about one.
    """

    code: WarningCode
    detail: str
    event: int
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One SSE event, or another part of a body.

    Attributes:
        number: 1, 2, 3 for SSE events; None for other parts.
        start, end: the byte range in the body, including the blank line.
        raw: the bytes as text; invalid UTF-8 is replaced by U+FFFD.
        name: the name in its `event:` line.
        data: its data.
        time: seconds from the headers to its last byte, if recorded.
        gap: seconds since the previous event, if recorded.
        piece: the network read (1, 2, 3, ...) that contained its last byte, if recorded.
        deltas: the deltas that the adapter read.
        text, reasoning: the text of the chunks that this event produced.
        placements: the fragments of tool calls, in order. With a dialect, the fragments may be from the text of earlier
            events.
        notes: explanations of deltas without a visible effect.
        finished: true if this event produced the finished chunk.
        error: the error that ended the response at this event, or the reason why the event is unreadable.
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
    """A tool call of the stream, delivered or not.

    Attributes:
        number: 0, 1, 2 in the order in which tool calls began.
        index: the server's index, if its first fragment had one.
        arguments: the text of its fragments, before any repair.
        fragments: the number of its fragments.
        first, last: the positions of its first and last fragment in `Inspection.events`.
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
    """The error at the end of a stream: the name of its class, its message, and whether a retry may help."""

    error: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """An explained stream.

    Attributes:
        name: the name of the recording.
        adapter, dialect: the names of the adapter and the dialect.
        size: the size of the body in bytes.
        pieces: the sizes of the network reads; empty if not recorded.
        events: all events of the body, in order.
        calls: all tool calls, in the order in which they began.
        warnings: warnings, each with its event.
        reply: the reply, or the partial reply before the error.
        failed: the error at the end, if there was one.
        about: other facts about the recording, as text.
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
