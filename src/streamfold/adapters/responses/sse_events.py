"""What is told of the events that an emitter has written, to whoever keeps them: they are written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

_RESPONSE = b'"response":'
_BEGINNINGS = ("response.created", "response.in_progress")


@dataclass(frozen=True, slots=True)
class SerializedEvent:
    """An event that an emitter has written.

    Attributes:
        number: its `sequence_number`.
        data: as clients get it, with the comments before it.
        state: the JSON of the response, if the event has it, as a part of `data`; else empty.
        last: whether the answer ends with it.
        chars: characters of a text or of arguments that it adds.
    """

    number: int
    data: bytes
    state: bytes | memoryview = b""
    last: bool = False
    chars: int = 0


EventListener: TypeAlias = Callable[[SerializedEvent], None]


def serialize_event(number: int, kind: str, out: Sequence[bytes], *, delta: str, has_response: bool) -> SerializedEvent:
    """Returns what is told of the event that was written last.

    Args:
        out: the events and comments that have been written.
        delta: what it adds to a text.
        has_response: whether its last member is the response as it is so far.
    """
    if not has_response:
        return SerializedEvent(number, out[-1], chars=len(delta))
    comments = [*takewhile(lambda written: written.startswith(b": "), reversed(out[:-1]))]
    data = b"".join([*reversed(comments), out[-1]])
    begin = data.index(_RESPONSE, sum(map(len, comments))) + len(_RESPONSE)
    return SerializedEvent(number, data, memoryview(data)[begin : -len(b"}\n\n")], kind not in _BEGINNINGS)
