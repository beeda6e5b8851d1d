"""What a passage keeps of an answer: the events that were heard, and how far each of its texts was said and shown."""

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
        id, name: of the call, as the server said them.
        ahead: what was said and may not be shown yet.
        said, shown, passed: so many characters; `passed` are those in events that went on.
        pieces: of the arguments that were said.
        late: so many characters at the end need not have been shown: the server says that the call is whole.
        custom: it is a call of a custom tool, of which nothing is mended.
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
        """Whether all before a position may be shown."""
        return position <= self.shown + (self.late if self.shown else 0)


@dataclass(slots=True)
class PendingEvent:
    """An event of the server.

    Attributes:
        deltas: what it says, as the serializer is told it.
        payloads: of it; more than one where nothing separates them.
        needs: how far each lane must have been shown before it may go on.
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
        """Whether it brings the end of a call, behind what may be shown of it."""
        return any(_ends_call(lane, position) for lane, position in self.needs)


class Released(NamedTuple):
    """What may be shown: a delta, its lane, what it adds there, and where that ends."""

    delta: Delta
    lane: FieldProgress | None = None
    text: str = ""
    end: int = 0


def _ends_call(lane: FieldProgress, position: int) -> bool:
    return bool(lane.pieces) and position > lane.shown and is_complete_object("".join(lane.pieces))
