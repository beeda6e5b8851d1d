"""The state of `Passthrough`: the delayed SSE events, and how much of each text was received and released."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamfold.adapters import Delta
from streamfold.serving import is_complete_object

CALL_HEADER = "\0"  # stands for id and name of a call before its arguments


@dataclass(slots=True)
class FieldProgress:
    """How much of one text, or of one tool call's arguments, was received, released and forwarded.

    Attributes:
        id, name: the tool call's id and name, as the server sent them.
        ahead: the received text that isn't released yet.
        said, shown, passed: the numbers of characters that were received, released, and forwarded.
        pieces: the pieces in which the arguments were received.
        late: the number of characters at the end that needn't be released, because the server has marked the tool call
            as complete.
        custom: true if this is a call of a custom tool. Such calls are never repaired.
    """

    id: str | None = None
    name: str | None = None
    ahead: str = ""
    said: int = 0
    shown: int = 0
    passed: int = 0
    pieces: list[str] = field(default_factory=list)
    late: int = 0
    custom: bool = False

    def may_show(self, position: int) -> bool:
        """Returns whether the complete text before a position was released."""
        return position <= self.shown + (self.late if self.shown else 0)


@dataclass(slots=True)
class PendingEvent:
    """An SSE event from the server that hasn't been forwarded yet.

    Attributes:
        deltas: the deltas of the event, as the serializer takes them.
        payloads: the JSON payloads of the event. There are several payloads if the server omitted the blank line
            between two events.
        needs: for each text, the position up to which the text must be released before the event may be forwarded.
        last: true if the event ends the response.
        has_text: true if the event contains anything other than tool calls.
        raw: the bytes of the event.
    """

    deltas: list[Delta] = field(default_factory=list)
    payloads: list[Any] = field(default_factory=list)
    needs: list[tuple[FieldProgress, int]] = field(default_factory=list)
    last: bool = False
    has_text: bool = False
    raw: bytes = b""

    @property
    def ends_call(self) -> bool:
        """True if the event contains the end of a tool call that isn't released yet."""
        return any(_ends_call(text_field, position) for text_field, position in self.needs)


class Released(NamedTuple):
    """A released delta, the text that the delta adds, and the end position of this text."""

    delta: Delta
    text_field: FieldProgress | None = None
    text: str = ""
    end: int = 0


def _ends_call(text_field: FieldProgress, position: int) -> bool:
    return bool(text_field.pieces) and position > text_field.shown and is_complete_object("".join(text_field.pieces))
