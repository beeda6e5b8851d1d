"""`MemoryStore`: a store in the memory of this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import time
from uuid import uuid4

from .store import TIED, Retention, by_record, full, split_key

_PRUNED = 0.05  # part of the age after which old records are looked for


@dataclass(slots=True)
class _Record:
    used: float
    parts: dict[str, bytes] = field(default_factory=dict)
    size: int = 0

    def growth(self, parts: Mapping[str, bytes]) -> int:
        known = self.parts
        return sum(
            len(value) - len(known[part]) if part in known else len(part) + len(value) for part, value in parts.items()
        )


@dataclass(slots=True)
class _Owner:
    records: OrderedDict[str, _Record] = field(default_factory=OrderedDict)  # most recently used records last
    size: int = 0

    def oldest(self, now: float) -> tuple[float, str]:
        names = (name for name, record in self.records.items() if record.used <= now)
        name = next(names, next(iter(self.records)))  # a few count as used in the future
        return self.records[name].used, name


class MemoryStore:
    """A `Store` in the memory of this process, which loses its values when the process ends.

    Args:
        retention: the limits of the store.
        clock: a function that returns the time in seconds. The store computes the age of records from it.
    """

    def __init__(self, retention: Retention | None = None, *, clock: Callable[[], float] = time) -> None:
        self._retention = retention or Retention()
        self._clock = clock
        self._owners: dict[str, _Owner] = {}
        self._entries = self._size = 0
        self._pruned = 0.0
        self.name = uuid4().hex

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for key in keys:
            name, part = split_key(key)
            record = self._used(owner, name)
            if record is not None and part in record.parts:
                found[key] = record.parts[part]
        return found

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        records = dict(by_record(values))
        for name, parts in records.items() if new else ():
            record = self._used(owner, name)
            if record is not None and not parts.keys().isdisjoint(record.parts):
                return False
        if not self._retention.evicts:
            self._expire()
            entries, size = self._entries, self._size
            for name, parts in records.items():
                record = self._record(owner, name)
                entries += record is None
                size += (record or _Record(0.0)).growth(parts) + (0 if record else len(name))
            if entries > self._retention.entries or size > self._retention.size:
                raise full(self)
        for name, parts in records.items():
            self._add(owner, name, parts, self._clock() + ahead)
        self._expire()
        self._evict()
        return all(self._record(owner, name) is not None for name in records)

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        record = self._used(owner, key)
        return {part: record.parts[part] for part in sorted(record.parts) if part > after} if record else {}

    async def delete(self, owner: str, key: str) -> bool:
        known = self._used(owner, key) is not None
        if known:
            self._drop(owner, key)
        return known

    async def runs(self, name: str) -> bool:
        return name == self.name

    async def aclose(self) -> None:
        """Deletes all records."""
        self._owners.clear()
        self._entries = self._size = 0

    def names(self) -> list[tuple[str, str]]:
        """Returns the owner and the name of every record, in ascending order of size."""
        found = [
            (record.size, owner, name) for owner, kept in self._owners.items() for name, record in kept.records.items()
        ]
        return [(owner, name) for _, owner, name in sorted(found)]

    def record(self, owner: str, name: str) -> dict[str, bytes] | None:
        """Returns the parts of a record, or None if the record doesn't exist."""
        record = self._record(owner, name)
        return dict(record.parts) if record else None

    def forget(self, owner: str, values: Mapping[str, bytes], *, unless_newer: bool = False) -> None:
        """Deletes parts of records. A record without remaining parts is deleted too.

        Args:
            values: maps the key of each part to delete to the value that the caller has written or read.
            unless_newer: True to keep a part if its value is no longer the one in `values`.
        """
        for key in values:
            name, part = split_key(key)
            record = self._record(owner, name)
            known = None if record is None else record.parts.get(part)
            if record is None or known is None or (unless_newer and known is not values[key]):
                continue
            del record.parts[part]
            self._count(owner, record, -len(part) - len(known))
            if not record.parts:
                self._drop(owner, name)

    def __repr__(self) -> str:
        return "<MemoryStore>"

    def _record(self, owner: str, name: str) -> _Record | None:
        kept = self._owners.get(owner)
        return kept.records.get(name) if kept else None

    def _used(self, owner: str, name: str) -> _Record | None:
        record = self._record(owner, name)
        now = self._clock()
        if record is not None and record.used < now - self._retention.age:
            self._drop(owner, name)
            return None
        if record is not None and record.used < now:
            record.used = now
            self._owners[owner].records.move_to_end(name)
        return record

    def _add(self, owner: str, name: str, parts: Mapping[str, bytes], used: float) -> None:
        kept = self._owners.setdefault(owner, _Owner())
        record = kept.records.get(name)
        if record is None:
            record = kept.records[name] = _Record(used)
            self._entries += 1
            self._count(owner, record, len(name))
        self._count(owner, record, record.growth(parts))
        record.parts.update(parts)
        record.used = used
        kept.records.move_to_end(name)

    def _count(self, owner: str, record: _Record, grown: int) -> None:
        record.size += grown
        self._owners[owner].size += grown
        self._size += grown

    def _drop(self, owner: str, name: str) -> None:
        kept = self._owners[owner]
        record = kept.records.pop(name)
        kept.size -= record.size
        self._size -= record.size
        self._entries -= 1
        if not kept.records:
            del self._owners[owner]

    def _expire(self) -> None:
        now, age = self._clock(), self._retention.age
        if not 0 <= now - self._pruned < age * _PRUNED:
            self._pruned = now
            for owner, kept in list(self._owners.items()):
                for name in [name for name, record in kept.records.items() if record.used < now - age]:
                    self._drop(owner, name)

    def _evict(self) -> None:
        now, retention = self._clock(), self._retention
        while self._entries > retention.entries or self._size > retention.size:
            by_size = self._entries <= retention.entries
            shares = {owner: kept.size if by_size else len(kept.records) for owner, kept in self._owners.items()}
            most = max(shares.values())
            tied = [owner for owner, share in shares.items() if share == most][:TIED]
            (_, name), owner = min((self._owners[owner].oldest(now), owner) for owner in tied)
            self._drop(owner, name)
