"""The interface of all stores: values with an owner, an age and a size."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..errors import ConfigError, StreamfoldError

TIED = 50  # owners with equally much, among which the oldest record is looked for


class StoreError(StreamfoldError):
    """A store can't be used, or is full.

    Attributes:
        found: values that could still be read.
    """

    def __init__(self, message: str, found: Mapping[str, bytes] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.found = dict(found or {})


@dataclass(frozen=True, slots=True)
class Retention:
    """How much a store keeps. When it is full, the owner with the most records or bytes loses its oldest record.

    So an owner can't evict records of another owner that stays within its share.

    Attributes:
        entries: maximum number of records.
        size: maximum size of all records in bytes.
        age: seconds after its last use until a record expires.
        evicts: whether records are removed to stay within the limits. With False, for data that must not be lost, a
            write to a full store raises StoreError, and a server that may evict keys raises ConfigError. Only the store
            itself then deletes records older than `age`.

    Raises:
        ConfigError: a number is not greater than 0.
    """

    entries: int = 40_000
    size: int = 64 * 2**20
    age: float = 24 * 3600.0
    evicts: bool = True

    def __post_init__(self) -> None:
        for name in ("entries", "size", "age"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name!r} of a store must be greater than 0, not {getattr(self, name)!r}")


class Store(Protocol):
    """Stores values by key, separately for each owner.

    A key names a record, `"a"`, or a part of a record, `"a/b"`. A record is counted and evicted as a whole. Reading or
    writing a record resets its age. If the store can't be used, all methods except `aclose` raise StoreError after a
    bounded time.

    Attributes:
        name: identifies this open store object, for `runs`.
    """

    name: str

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of the keys that exist."""
        ...

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        """Stores all values, or none of them. The value of an existing key is replaced.

        Args:
            new: store only if none of the keys exists. Of several such calls at the same time, one succeeds.
            ahead: seconds for which the records count as in use: others are evicted before them.

        Returns:
            Whether the values were stored. Values larger than the store are not stored.

        Raises:
            StoreError: also if the store is full and its retention doesn't evict.
        """
        ...

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        """Returns the parts of a record whose names sort after `after`, sorted."""
        ...

    async def delete(self, owner: str, key: str) -> bool:
        """Deletes a record. Returns whether the record existed."""
        ...

    async def runs(self, name: str) -> bool:
        """Returns whether the open store object of that name still exists: its process runs and hasn't closed it."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


def full(store: object) -> StoreError:
    """Returns the error of a write that would exceed the limits of a store that never evicts."""
    return StoreError(f"{store!r} is full, and its records must not be removed")


def split_key(key: str) -> tuple[str, str]:
    """Splits a key into the names of the record and of its part; "" is the record's own value."""
    record, _, part = key.partition("/")
    return record, part


def joined_key(record: str, part: str) -> str:
    """Returns the key of a part of a record."""
    return f"{record}/{part}" if part else record


def by_record(values: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yields the name of each record in `values`, with its parts by name."""
    records: dict[str, dict[str, bytes]] = {}
    for key, value in values.items():
        record, part = split_key(key)
        records.setdefault(record, {})[part] = value
    yield from records.items()
