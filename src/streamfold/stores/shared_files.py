"""Locks files, so that a process can find out which other processes are still running."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO


def locked_file(path: Path, mode: str) -> IO[bytes]:
    """Opens a file and locks it for this process. The lock is released when the file is closed or the process ends.

    Raises:
        BlockingIOError: another process holds the lock.
        OSError: the file can't be opened.
    """
    file: IO[bytes] = path.open(mode)
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise BlockingIOError(f"{path} is locked by another process") from error
    return file


class ProcessLiveness:
    """Creates and locks a file next to a shared database, so that other processes can see that this process is running.

    Args:
        name: a name for this process.
    """

    def __init__(self, database: Path, name: str) -> None:
        self._path = _path(database, name)
        self._file = locked_file(self._path, "xb")

    @staticmethod
    def runs(database: Path, name: str) -> bool:
        """Returns True if the process with this name is still running. If the process has ended, removes its file."""
        path = _path(database, name)
        try:
            locked_file(path, "r+b").close()
        except FileNotFoundError:
            return False
        except OSError:  # another process holds the lock
            return True
        with suppress(OSError):  # another process may have removed it
            path.unlink()
        return False

    def close(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._path.unlink()


def _path(database: Path, name: str) -> Path:
    return database.with_name(f".{database.name}-{name}.lock")
