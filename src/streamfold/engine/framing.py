"""Where the events of a body lie, in bytes: for code that cuts, counts or changes events without reading them.

`event_ranges` takes a whole body apart. `EventScanner` does the same while the bytes arrive. Both follow the rules of
`sse.py`: lines end with LF, CRLF or CR, and a blank line ends an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_ENOUGH = len(_BOM + b"data:")  # bytes of a line that are enough to know whether it is data


class EventRange(NamedTuple):
    """The bytes of one event in a body.

    Attributes:
        start, end: of the whole block, its blank lines included.
        payloads: start and end of the value of each data line. Empty for a block of comments, which is not an event.
        ended: whether a blank line ends it; False only for what is left at the end of a body.
    """

    start: int
    end: int
    payloads: tuple[tuple[int, int], ...] = ()
    ended: bool = False


def event_ranges(body: bytes) -> Iterator[EventRange]:
    """Splits a body at its blank lines. The ranges follow each other without gaps, from the first byte to the last.

    >>> [body[r.start : r.end] for body in [b": hi\\n\\ndata: a\\n\\n"] for r in event_ranges(body)]
    [b': hi\\n\\n', b'data: a\\n\\n']
    """
    start, payloads, content, ended = 0, list[tuple[int, int]](), False, False
    for found in _LINE.finditer(body):
        if found.start() == found.end():
            break
        line, begin = found[1], found.start()
        if line and ended:
            yield EventRange(start, begin, tuple(payloads), True)
            start, payloads, content, ended = begin, [], False, False
        if value := _data_value(line):
            payloads.append((begin + value, begin + len(line)))
        content = content or bool(line)
        ended = ended or (content and not line)
    if start < len(body):
        yield EventRange(start, len(body), tuple(payloads), ended)


class EventScanner:
    """Finds where events end in bytes that arrive in pieces. Comments alone are not an event.

    Attributes:
        in_event: whether data of an event has arrived and its end has not.
    """

    def __init__(self) -> None:
        self._line = b""  # the beginning of the line that is arriving
        self._after_cr = False  # an LF that follows belongs to it
        self._has_data = False

    @property
    def in_event(self) -> bool:
        return self._has_data or bool(_data_value(self._line))

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yields the bytes in parts, none of them empty, each with whether it ends an event."""
        start, at = 0, int(self._after_cr and data[:1] == b"\n")
        for end in _LINE_END.finditer(data, at):
            line = self._line + data[at : end.start()]
            self._line, at = b"", end.end()
            if line:
                self._has_data = self._has_data or bool(_data_value(line))
            elif self._has_data:
                self._has_data = False
                yield data[start:at], True
                start = at
        self._line = (self._line + data[at:])[:_ENOUGH]
        self._after_cr = data.endswith(b"\r") if data else self._after_cr
        if start < len(data):
            yield data[start:], False


def _data_value(line: bytes) -> int:
    """Where in a line its data begins; 0 if it is not a data line."""
    name = len(_BOM) if line.startswith(_BOM) else 0
    if line.startswith(b"data:", name):
        return name + (6 if line.startswith(b" ", name + 5) else 5)
    return len(line) if line[name:] == b"data" else 0
