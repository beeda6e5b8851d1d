"""A call that is being written, and when its arguments are whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...jsontext import parse_object


def is_complete_object(arguments: str) -> bool:
    """Whether a text is the arguments of a call to clients that parse it. A lost piece may have left an object.

    No text at all is one too: it is written as an empty object.
    """
    if not arguments.strip():
        return True
    try:
        return isinstance(parse_object(arguments), dict)
    except ValueError:
        return False


@dataclass(slots=True, eq=False)
class SerializedCall:
    """A call that is being written.

    Attributes:
        number: its place among the calls, from 0.
        item: the id of its item where it came from, if it had one.
        pieces: the pieces of the arguments so far.
        written: how many of the pieces have been written; none before id and name are known.
        opened: whether its id and name have been written.
        closed: nothing of it is to come.
        custom: it is of a custom tool, and its arguments are any text: see `StreamSerializer.reserve`.
    """

    number: int
    id: str = ""
    name: str = ""
    item: str | None = None
    extra: dict[str, Any] | None = None
    pieces: list[str] = field(default_factory=list)
    written: int = 0
    opened: bool = False
    closed: bool = False
    custom: bool = False

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        if self.written == len(self.pieces) > 1:
            self.pieces, self.written = ["".join(self.pieces)], 1
        return "".join(self.pieces)

    @property
    def size(self) -> int:
        """The characters of the arguments so far."""
        return sum(map(len, self.pieces))
