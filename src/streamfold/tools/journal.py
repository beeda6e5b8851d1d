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

from ..values import StreamfoldError, ToolCall

__all__ = ["CallInDoubtError", "CallJournal", "FileJournal", "call_key"]


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


def call_key(run_id: str, position: int, call: ToolCall) -> str:
    """Returns the key of a call: the same for every run of the same state, and another for every other call.

    Args:
        position: of the turn in the conversation; ids of calls may come again in later turns.
    """
    return json.dumps([run_id, position, call.id, call.name, call.raw_arguments])
