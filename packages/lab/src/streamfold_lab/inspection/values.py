"""The data types of an inspection, which `trace.py` creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from streamfold import Reply, WarningCode
from streamfold.adapters import Delta
from streamfold.engine import MatchRule

EventKind: TypeAlias = Literal[
    "event",
    "comment",  # lines without data, which keep the connection open
    "body",  # the whole body, if it isn't an event stream
    "rest",  # an incomplete event at the end of the body
    "unread",  # bytes that arrived after the end of the reply
    "end",  # no bytes: the effects of the end of the body
]


@dataclass(frozen=True, slots=True)
class FragmentPlacement:
    """The decoder's decision that a fragment belongs to a tool call, and the reason for it.

    Attributes:
        call: the number of the tool call; None for an empty fragment.
        opens: true if the fragment began the tool call.
        rule: the name of the decoder's rule that assigned the fragment; None for an empty fragment.
        why: the reason as a sentence.
        index, id, name, arguments: the fields of the fragment.
        whole: true if the fragment contains the complete arguments, false if it contains their next piece.
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
    """A warning, and the event and tool call that caused it.

    Attributes:
        event: the position of the event in `Inspection.events`.
        call: the number of the tool call that the warning is about; None for other warnings.
    """

    code: WarningCode
    detail: str
    event: int
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One SSE event of a response body, or bytes of the body that aren't an SSE event.

    Attributes:
        number: the number of the SSE event, from 1; None for other bytes.
        start, end: the event's byte range in the body, including the blank line after the event.
        raw: the event's bytes as text. U+FFFD replaces invalid UTF-8.
        name: the name in the event's `event:` line.
        data: the data in the event's `data:` lines.
        time: seconds from the response headers to the event's last byte; None if not recorded.
        gap: seconds since the previous event; None if not recorded.
        piece: the number of the network read, from 1, that contained the event's last byte; None if not recorded.
        deltas: the deltas (pieces of the reply) that the adapter parsed from the event.
        text, reasoning: the text and the reasoning of the chunks that this event produced.
        placements: the tool calls to which the decoder assigned the event's fragments, in order. With a dialect (tool
            calls in the text), the fragments may come from earlier events.
        notes: the reasons why text of this event isn't in its chunks.
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
    """A tool call in the stream, even if the decoder didn't deliver it.

    Attributes:
        number: the number of the tool call, from 0, in the order in which tool calls began.
        index: the index that the server sent in the first fragment; None if it sent none.
        arguments: the arguments as the fragments contain them, before any repair.
        fragments: the number of the tool call's fragments.
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
    """The error that ended a stream: the name of its class, its message, and whether a retry may help."""

    error: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """An explained stream.

    Attributes:
        name: the name of the recording.
        adapter, dialect: the names of the adapter and the dialect.
        size: the size of the response body in bytes.
        pieces: the number of bytes of each network read; empty if not recorded.
        events: all events of the response body, in order.
        calls: all tool calls, in the order in which they began.
        warnings: all warnings, each with the event that caused it.
        reply: the reply; for a failed stream, the partial reply before the error.
        failed: the error that ended the stream; None if the stream is complete.
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
        """The number of SSE events in the body."""
        return sum(event.number is not None for event in self.events)

    @property
    def duration(self) -> float | None:
        """Seconds from the response headers to the last byte; None if the recording has no times."""
        return max((event.time for event in self.events if event.time is not None), default=None)
