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
        found: values that could be read nevertheless.
    """

    def __init__(self, message: str, found: Mapping[str, bytes] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.found = dict(found or {})


@dataclass(frozen=True, slots=True)
class Retention:
    """How much a store keeps. When it is full, the owner with the most records or bytes loses its oldest record.

    So no owner can evict another one that stays within its share.

    Attributes:
        entries: how many records.
        size: bytes of all of them together.
        age: seconds for which a record is kept since it was last used.
        evicts: whether records are removed to stay within the limits. With False, for data to keep, a write to a full
            store raises StoreError instead, records have no expiry on a server (the store deletes those that are
            older than `age` when it writes), and a server that may evict any key is refused with a ConfigError.

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
    """Keeps values by keys, apart for each owner.

    A key is the name of a record, `"a"`, or of a part of one, `"a/b"`. A record is counted and evicted as a whole; its
    age starts anew when it is read or written. All methods but `aclose` raise StoreError, after a bounded time, if the
    store can't be used.

    Attributes:
        name: of this opening of the store, for `runs`.
    """

    name: str

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known."""
        ...

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        """Stores values, all or none. A key that is known gets the new value.

        Args:
            new: only if none of the keys is known. Of several such calls at the same time, one succeeds.
            ahead: seconds for which the records count as in use: others are evicted before them.

        Returns:
            Whether they are stored. Values that are larger than the store are not.

        Raises:
            StoreError: also if the store is full, and its retention evicts nothing.
        """
        ...

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        """Returns the parts of a record whose names sort after `after`, sorted."""
        ...

    async def delete(self, owner: str, key: str) -> bool:
        """Deletes a record. Returns whether there was one."""
        ...

    async def runs(self, name: str) -> bool:
        """Returns whether the opening of that name is still in use: its process runs, and has not closed it."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


def full(store: object) -> StoreError:
    """Returns the error of a write that would exceed the limits of a store that never evicts."""
    return StoreError(f"{store!r} is full, and nothing in it may be removed")


def split_key(key: str) -> tuple[str, str]:
    """Returns the name of a record, and of the part of it that a key means; "" is the record's own value."""
    record, _, part = key.partition("/")
    return record, part


def joined_key(record: str, part: str) -> str:
    """Returns the key of a part of a record."""
    return f"{record}/{part}" if part else record


def by_record(values: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yields the name of each record in values, with its parts by their names."""
    records: dict[str, dict[str, bytes]] = {}
    for key, value in values.items():
        record, part = split_key(key)
        records.setdefault(record, {})[part] = value
    yield from records.items()
