"""The interface of all stores, the limits of a store, and helper functions for keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..errors import ConfigError, StreamfoldError

TIED = 50  # owners with equally much, among which the oldest record is looked for


class StoreError(StreamfoldError):
    """A store can't be used, or it is full and isn't allowed to delete old records.

    Attributes:
        found: the values that the store read before it failed.
    """

    def __init__(self, message: str, found: Mapping[str, bytes] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.found = dict(found or {})


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of a store. If a store is full, it deletes the least recently used record of the owner that has the
    most records or bytes. So an owner can't displace the records of an owner that uses less.

    Attributes:
        entries: the maximum number of records.
        size: the maximum size of all records together, in bytes.
        age: the number of seconds after its last use at which a record expires.
        evicts: True if a full store may delete records. False for data that the store must keep until it expires. With
            False, a write to a full store raises StoreError, and using a server that may evict keys raises ConfigError.

    Raises:
        ConfigError: a limit isn't greater than 0.
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

    A key is the name of a record (`"a"`) or of a part of a record (`"a/b"`). The limits of a store apply to complete
    records: a store counts and deletes records, not parts. Reading or writing a record resets its age. If the store
    can't be used, all methods except `aclose` raise StoreError after a limited time.

    Attributes:
        name: the argument of `runs` that identifies this open store.
    """

    name: str

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of the keys that exist, by key."""
        ...

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        """Stores all values, or none of them. The new value of an existing key replaces the old value.

        Args:
            new: True to store the values only if none of the keys exists. If several calls with `new=True` run at once
                for the same keys, one call succeeds.
            ahead: the number of seconds for which these records count as just used, so that a full store deletes other
                records first.

        Returns:
            True if the values were stored. False if `new` is true and a key exists, or if the values are larger than
            the limit of the store.

        Raises:
            StoreError: the store can't be used, or is full and doesn't evict records.
        """
        ...

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        """Returns the parts of a record whose names sort after the string `after`, ordered by name."""
        ...

    async def delete(self, owner: str, key: str) -> bool:
        """Deletes a record. Returns True if the record existed."""
        ...

    async def runs(self, name: str) -> bool:
        """Returns True if the process that opened the store with this name is running and hasn't closed it."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


def full(store: object) -> StoreError:
    """Returns the StoreError for a write to a full store that must not delete records."""
    return StoreError(f"{store!r} is full, and its records must not be removed")


def split_key(key: str) -> tuple[str, str]:
    """Splits a key into the names of the record and of the part. The part "" means the value of the record itself."""
    record, _, part = key.partition("/")
    return record, part


def joined_key(record: str, part: str) -> str:
    """Returns the key that `split_key` splits into this record and this part."""
    return f"{record}/{part}" if part else record


def by_record(values: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Groups values by record. Yields the name of each record, and its values by part name."""
    records: dict[str, dict[str, bytes]] = {}
    for key, value in values.items():
        record, part = split_key(key)
        records.setdefault(record, {})[part] = value
    yield from records.items()
