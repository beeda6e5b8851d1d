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

from ..text import canonical_json
from ..values import ConfigError, StreamfoldError, ToolCall

__all__ = [
    "CallInDoubtError",
    "CallJournal",
    "FileJournal",
    "journal_key",
    "kept_approval",
    "new_approval",
    "process_journal",
]

_MOST_KEPT = 10_000  # entries of a journal in memory; the oldest are dropped, and an approval before its use is


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
        return self._directory / f"{hashlib.sha256(key.encode()).hexdigest()}.{kind}"

    def _create(self, path: Path) -> bool:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            path.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _write(self, path: Path, text: str) -> None:
        fresh = path.with_suffix(f".{secrets.token_hex(8)}")
        fresh.touch(mode=0o600)
        fresh.write_text(text, "utf-8")
        fresh.replace(path)  # a reader sees all of it or nothing

    def _read(self, path: Path) -> str | None:
        try:
            return path.read_text("utf-8")
        except FileNotFoundError:
            return None


class _MemoryJournal:
    """A journal of this process, for signed approvals where no other one is given. It forgets what is old."""

    def __init__(self) -> None:
        self._kept: dict[str, str | None] = {}

    async def claim(self, key: str) -> bool:
        if key in self._kept:
            return False
        self._keep(key, None)
        return True

    async def finish(self, key: str, result: str) -> None:
        self._keep(key, result)

    async def result(self, key: str) -> str | None:
        return self._kept.get(key)

    def _keep(self, key: str, value: str | None) -> None:
        self._kept[key] = value
        while len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]


_of_process = _MemoryJournal()


def process_journal() -> CallJournal:
    """Returns the journal of all signed approvals of this process for which there is no other."""
    return _of_process


def _call_key(run_id: str, position: int, call: ToolCall) -> str:
    """Returns the key of a call: the same for every run of the same state, and another for every other call.

    Args:
        position: of the turn in the conversation; ids of calls may come again in later turns.
    """
    return json.dumps([run_id, position, *_identity(call)])


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
