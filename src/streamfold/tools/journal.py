"""A record of the calls that were started, shared by every process that may run them: each call runs once.

The state of a paused run is text, and text can be copied: a button that is pressed twice resumes the same state twice.
Whoever claims a call here first runs it; the others get its result.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from ..stores import Retention, Store, open_store
from ..text import canonical_json
from ..values import ConfigError, StreamfoldError, ToolCall

_YEARS = 10 * 365 * 86_400.0
_FOREVER = Retention(entries=10**9, size=2**40, age=_YEARS)


class CallJournal(Protocol):
    """Which calls were started, and their results. Shared by all processes that resume the same runs."""

    async def claim(self, key: str) -> bool:
        """Returns True to exactly one caller for each key."""
        ...

    async def finish(self, key: str, result: str) -> None:
        """Stores the result of a call that was claimed."""
        ...

    async def result(self, key: str) -> str | None:
        """Returns the result that was stored; None if there is none."""
        ...


class CallInDoubtError(StreamfoldError):
    """A call was started by another run of the same state and has no result: it runs now, or its process has ended.

    It is not run again. Resume later, when the other run has stored the result.

    Attributes:
        call: the call.
    """

    def __init__(self, call: ToolCall) -> None:
        super().__init__(f"the call {call.id!r} of {call.name} was started by another run and has no result yet")
        self.call = call


class FileJournal:
    """A journal in a folder, for processes that share a file system. Two small files for each call; none is deleted.

    Args:
        directory: made if it does not exist.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)

    async def claim(self, key: str) -> bool:
        """Returns True to exactly one caller for each key, by creating its file."""
        return await anyio.to_thread.run_sync(self._create, self._path(key, "claim"))

    async def finish(self, key: str, result: str) -> None:
        """Stores the result of a call that was claimed."""
        await anyio.to_thread.run_sync(self._write, self._path(key, "result"), result)

    async def result(self, key: str) -> str | None:
        """Returns the result that was stored; None if there is none."""
        return await anyio.to_thread.run_sync(self._read, self._path(key, "result"))

    def _path(self, key: str, kind: str) -> Path:
        return self._directory / _name(key, kind)

    def _make(self, path: Path) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=False)

    def _create(self, path: Path) -> bool:
        try:
            self._make(path)
        except FileExistsError:
            return False
        return True

    def _write(self, path: Path, text: str) -> None:
        fresh = path.with_suffix(f".{secrets.token_hex(8)}")
        self._make(fresh)
        fresh.write_bytes(text.encode("utf-8", "surrogatepass"))
        fresh.replace(path)  # a reader sees all of it or nothing

    def _read(self, path: Path) -> str | None:
        try:
            return path.read_bytes().decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            return None


class StoreJournal:
    """A journal in a store: in an SQLite file, or on a Valkey or Redis server for processes on several machines.

    A store that can't be used fails the run: only it can tell whether a call was started.

    Args:
        store: the store, or its name, as for `streamfold.stores.open_store`. One by its name keeps calls for ten years.
            One of your own must keep them for as long as a state may be resumed.
        owner: whose calls these are.
    """

    def __init__(self, store: Store | str, *, owner: str = "") -> None:
        self.store = open_store(store, _FOREVER, table="calls") if isinstance(store, str) else store
        self._owner = owner

    async def claim(self, key: str) -> bool:
        """Returns True to exactly one caller for each key. Raises StoreError."""
        return await self.store.put(self._owner, {_name(key, "claim"): b""}, new=True)

    async def finish(self, key: str, result: str) -> None:
        """Stores the result of a call that was claimed. Raises StoreError."""
        await self.store.put(self._owner, {_name(key, "result"): result.encode("utf-8", "surrogatepass")})

    async def result(self, key: str) -> str | None:
        """Returns the result that was stored; None if there is none. Raises StoreError."""
        record = _name(key, "result")
        found = (await self.store.get(self._owner, [record])).get(record)
        return None if found is None else found.decode("utf-8", "surrogatepass")


def _name(key: str, kind: str) -> str:
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}.{kind}"


def _call_key(run_id: str, position: int, call: ToolCall) -> str:
    """Returns the key of a call: the same for every run of the same state, and another for every other call.

    Args:
        position: of the turn in the conversation; ids of calls may come again in later turns.
    """
    return json.dumps([run_id, position, *_identity(call)])


def needed_journal(journal: CallJournal | None) -> CallJournal:
    """Returns the journal that signed approvals are kept in. Raises ConfigError if there is none."""
    if journal is None:
        raise ConfigError(
            "signed approvals need a journal, which keeps that each is good once: pass the same journal= to each run,"
            ' as FileJournal("calls"), or StoreJournal("memory") within one process'
        )
    return journal


async def new_approval(journal: CallJournal, run_id: str, call: ToolCall) -> str:
    """Returns a nonce for the one approval of a call of the model. The journal keeps it."""
    nonce = secrets.token_hex(16)
    await journal.finish(_approval_key(run_id, call), nonce)
    return nonce


async def kept_approval(journal: CallJournal, run_id: str, call: ToolCall) -> str | None:
    """Returns the nonce of a call that was made before; None if the journal keeps none."""
    return await journal.result(_approval_key(run_id, call))


async def journal_key(journal: CallJournal, run_id: str, position: int, call: ToolCall, nonce: str | None) -> str:
    """Returns the key under which a call is claimed: that of its approval, if it was approved with a nonce.

    Where a conversation comes from outside, its positions and its spellings do too: an approval is then good for one
    call, wherever that stands and however it is written.

    Raises:
        ConfigError: the journal keeps another nonce, or none.
    """
    if nonce is None:
        return _call_key(run_id, position, call)
    if await kept_approval(journal, run_id, call) != nonce:
        raise ConfigError(
            f"the approval of the call {call.id!r} of {call.name} is not the one that was asked for here; the run that"
            " asks for an approval and the run that uses it need the same journal"
        )
    return json.dumps(["approved", run_id, nonce])


def _approval_key(run_id: str, call: ToolCall) -> str:
    return json.dumps(["approval", run_id, *_identity(call)])


def _identity(call: ToolCall) -> list[str]:
    return [call.id, call.name, canonical_json(call.arguments)]
