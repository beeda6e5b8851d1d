"""What `Passthrough` keeps of an answer: events that wait, and how much of each text was received and released."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamfold.adapters import Delta
from streamfold.serving import is_complete_object

CALL_HEADER = "\0"  # stands for id and name of a call before its arguments


@dataclass(slots=True)
class FieldProgress:
    """One text of the answer, or the head and the arguments of one call.

    Attributes:
        id, name: of the call, as the server sent them.
        ahead: the text that was received and not released.
        said, shown, passed: how many characters were received, released, and forwarded.
        pieces: of the received arguments.
        late: how many characters at the end need not be released, because the server says that the call is complete.
        custom: a call of a custom tool, in which nothing is repaired.
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
        """Returns whether everything before a position was released."""
        return position <= self.shown + (self.late if self.shown else 0)


@dataclass(slots=True)
class PendingEvent:
    """An event of the server.

    Attributes:
        deltas: what it says, as the serializer is told it.
        payloads: of it; more than one where nothing separates them.
        needs: how far each text_field must have been released before it may be forwarded.
        last: it says how the answer ends, and waits for that.
        has_text: it says something beside calls.
        raw: its bytes.
    """

    deltas: list[Delta] = field(default_factory=list)
    payloads: list[Any] = field(default_factory=list)
    needs: list[tuple[FieldProgress, int]] = field(default_factory=list)
    last: bool = False
    has_text: bool = False
    raw: bytes = b""

    @property
    def ends_call(self) -> bool:
        """True if it has the end of a call, beyond what was released of it."""
        return any(_ends_call(text_field, position) for text_field, position in self.needs)


class Released(NamedTuple):
    """A delta that was released, with its text, what it adds there, and where that ends."""

    delta: Delta
    text_field: FieldProgress | None = None
    text: str = ""
    end: int = 0


def _ends_call(text_field: FieldProgress, position: int) -> bool:
    return bool(text_field.pieces) and position > text_field.shown and is_complete_object("".join(text_field.pieces))
