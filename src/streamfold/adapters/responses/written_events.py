"""What is told of the events that an emitter has written, to whoever keeps them: they are written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

_RESPONSE = b'"response":'
_BEGINNINGS = ("response.created", "response.in_progress")


@dataclass(frozen=True, slots=True)
class WrittenEvent:
    """An event that an emitter has written.

    Attributes:
        number: its `sequence_number`.
        data: as clients get it, with the comments before it.
        state: the JSON of the response, if the event has it; else empty.
        last: whether the answer ends with it.
        chars: characters of a text or of arguments that it adds.
    """

    number: int
    data: bytes
    state: bytes = b""
    last: bool = False
    chars: int = 0


EventListener: TypeAlias = Callable[[WrittenEvent], None]


def written_event(number: int, kind: str, out: Sequence[bytes], *, delta: str, has_response: bool) -> WrittenEvent:
    """Returns what is told of the event that was written last.

    Args:
        out: the events and comments that have been written.
        delta: what it adds to a text.
        has_response: whether its last member is the response as it is so far.
    """
    data = out[-1]
    if not has_response:
        return WrittenEvent(number, data, chars=len(delta))
    state = data[data.index(_RESPONSE) + len(_RESPONSE) : -len(b"}\n\n")]
    comments = [*takewhile(lambda written: written.startswith(b": "), reversed(out[:-1]))]
    return WrittenEvent(number, b"".join([*reversed(comments), data]), state, kind not in _BEGINNINGS)
