"""The requests of rows, put together to batches as large as the provider takes them."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from streamfold import ConfigError
from streamfold.adapters import PreparedRequest
from streamfold.types import BatchClient, BatchRequest, ChatParams

from ..rows import Row
from ..settings import JobSettings

# A batch is smaller than most providers take them, so that it fits into memory while it is sent.
_MOST_BYTES = 32 * 2**20


def new_key() -> str:
    """Returns a name for a batch that no other has."""
    return secrets.token_hex(8)


def row_name(key: str, number: int) -> str:
    """Returns the name of a row's request: letters, digits and hyphens, at most 64, as Anthropic wants them."""
    return f"{key}-{number}"


def request_of(client: BatchClient, settings: JobSettings, row: Row) -> BatchRequest:
    """Returns the request of a row. Raises ConfigError if it can't be sent as it is."""
    options: Any = {**settings.options, **row.options}
    tools = row.tools if row.tools is not None else settings.tools
    return client.request(ChatParams.read(row.messages, tools or None, row.tool_choice, options))


@dataclass(slots=True)
class PendingBatch:
    """A batch that is being put together.

    Attributes:
        rows: the numbers and ids of its rows.
        first: its first request.
        file: its lines.
    """

    key: str
    first: PreparedRequest
    file: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    rows: list[tuple[int, str]] = field(default_factory=list)
    size: int = 0

    def add(self, row: Row, line: bytes) -> None:
        """Adds the request of a row."""
        self.file.write(line + b"\n")
        self.rows.append((row.number, row.id))
        self.size += len(line) + 1

    def lines(self) -> bytes:
        """Returns the requests. They can't be read again."""
        with self.file as file:
            file.seek(0)
            return file.read()


class BatchBuilder:
    """The batches that are being put together: one for each model.

    Args:
        client: knows how large a batch may be.
    """

    def __init__(self, client: BatchClient) -> None:
        self._most_rows = client.api.max_rows
        self._most_bytes = min(client.api.max_bytes, _MOST_BYTES)
        self._limit = client.api.max_bytes
        self._open: dict[str, PendingBatch] = {}

    def add(self, row: Row, request: BatchRequest) -> PendingBatch | None:
        """Adds a request. Returns the batch of its model that is full, and to which it did not belong any more.

        Raises:
            ConfigError: the request alone is larger than a batch may be.
        """
        draft, full = self._open.get(request.group) or PendingBatch(new_key(), request.prepared), None
        line = request.line(row_name(draft.key, row.number))
        if len(line) >= self._limit:
            raise ConfigError(f"the request has {len(line)} bytes, and a batch of the provider at most {self._limit}")
        if draft.rows and (len(draft.rows) >= self._most_rows or draft.size + len(line) >= self._most_bytes):
            draft, full = PendingBatch(new_key(), request.prepared), draft
            line = request.line(row_name(draft.key, row.number))
        draft.add(row, line)
        self._open[request.group] = draft
        return full

    def rest(self) -> Iterator[PendingBatch]:
        """Yields the batches that are not full."""
        while self._open:
            yield self._open.pop(next(iter(self._open)))


def lines_of(requests: Iterable[tuple[int, BatchRequest]], key: str) -> tuple[bytes, PreparedRequest | None]:
    """Returns the lines of a batch that was put together before, and its first request."""
    first, lines = None, []
    for number, request in requests:
        first = first or request.prepared
        lines.append(request.line(row_name(key, number)) + b"\n")
    return b"".join(lines), first
