"""The provider's batches in the ledger of a job: noted before they are created, so that none is created twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from ..ledger import Ledger

_TABLE = (
    "CREATE TABLE IF NOT EXISTS batch (key TEXT PRIMARY KEY, id TEXT, account TEXT NOT NULL, file TEXT,"
    " state TEXT NOT NULL, created REAL NOT NULL, asked REAL, model TEXT NOT NULL, rows INTEGER NOT NULL,"
    " word TEXT NOT NULL, finished INTEGER NOT NULL) WITHOUT ROWID"
)


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch of the provider.

    Attributes:
        key: our own name for it, by which it is found again.
        account: a digest of the base URL and the key that it belongs to.
        model: the model of its requests.
        rows: how many requests it has.
        created: when it was noted, in seconds since 1970.
        state: "creating": noted, and perhaps created; "created": the provider has it; "done": its results are in the
            ledger.
        file: the id of the uploaded file with its requests.
        asked: when the provider was asked to create it; None if it was not, or refused.
        id: the provider's name for it.
        word: the provider's last word for how it is.
        finished: how many requests are done, as the provider says.
    """

    key: str
    account: str
    model: str
    rows: int
    created: float
    state: str = "creating"
    file: str | None = None
    asked: float | None = None
    id: str | None = None
    word: str = ""
    finished: int = 0


_NAMES = tuple(field.name for field in fields(ProviderBatch))
_SAVE = f"INSERT OR REPLACE INTO batch ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"  # noqa: S608
_ALL = f"SELECT {', '.join(_NAMES)} FROM batch ORDER BY created, key"  # noqa: S608 - names of our own
_OF_ROW = "UPDATE row SET batch = ? WHERE n = ?"


class BatchStore:
    """Reads and writes the batches of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def all(self) -> list[ProviderBatch]:
        """Returns all batches in the order of their creation."""
        if not self._ledger.select("SELECT 1 FROM sqlite_master WHERE name = 'batch'"):
            return []
        return [ProviderBatch(*row) for row in self._ledger.select(_ALL)]

    def open(self) -> list[ProviderBatch]:
        """Returns the batches whose results are still to come."""
        return [batch for batch in self.all() if batch.state != "done"]

    def rows_of(self, batch: ProviderBatch) -> list[tuple[int, str]]:
        """Returns the numbers and ids of the rows of a batch, in their order."""
        return [
            (number, name)
            for number, name in self._ledger.select("SELECT n, id FROM row WHERE batch = ? ORDER BY n", (batch.key,))
        ]

    async def begin(self, batch: ProviderBatch, rows: Iterable[tuple[int, str]]) -> None:
        """Notes a batch and marks its rows as sent, both or neither. When it returns, that is on disk."""
        self._ledger.note(_TABLE, ())
        self._ledger.note(_SAVE, _values(batch))
        for number, name in rows:
            self._ledger.sent(number, name)
            self._ledger.note(_OF_ROW, (batch.key, number))
        await self._ledger.written()

    async def save(self, batch: ProviderBatch, **changes: Any) -> ProviderBatch:
        """Notes what has changed of a batch, and returns it. When it returns, that is on disk."""
        changed = replace(batch, **changes)
        if changed != batch:
            self._ledger.note(_SAVE, _values(changed))
            await self._ledger.written()
        return changed


def _values(batch: ProviderBatch) -> tuple[Any, ...]:
    return tuple(getattr(batch, name) for name in _NAMES)
