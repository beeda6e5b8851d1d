"""Files of several processes: locks, temporary names, which process still runs, abandoned files."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO


def locked_file(path: Path, mode: str) -> IO[bytes]:
    """Opens a file and locks it until it is closed, also by the end of the process.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it can't be opened.
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
        raise BlockingIOError(f"{path} is held by another process") from error
    return file


class ProcessLiveness:
    """Says that this process runs, by a file beside a database that it holds locked.

    Args:
        database: what the processes have in common.
        name: of this process, for the others.
    """

    def __init__(self, database: Path, name: str) -> None:
        self._path = _path(database, name)
        self._file = locked_file(self._path, "xb")

    @staticmethod
    def runs(database: Path, name: str) -> bool:
        """Returns whether the process of that name still runs. The file of one that does not is removed."""
        path = _path(database, name)
        try:
            locked_file(path, "r+b").close()
        except FileNotFoundError:
            return False
        except OSError:  # it is held
            return True
        with suppress(OSError):  # another process removes it too
            path.unlink()
        return False

    def close(self) -> None:
        """Says that this process is done."""
        self._file.close()
        with suppress(OSError):
            self._path.unlink()


def _path(database: Path, name: str) -> Path:
    return database.with_name(f".{database.name}-{name}.lock")


# Temporary files beside their target, and locks on folders.
# A temporary name is hidden and contains the id of its process and of the system that the id is valid in. A process
# that is killed can't clean up, so the next one that writes into the same folder does. It leaves alone what a
# process of another container or machine has written: whether that runs can't be known here.

_NAME = re.compile(r"\..+\.(?P<system>[0-9a-f]{12})-(?P<process>\d+)-[0-9a-f]{8}\.tmp", re.DOTALL)


def _system() -> str:
    """Returns what tells apart the systems whose process ids have nothing to do with each other."""
    known = socket.gethostname()
    with suppress(OSError):  # not Linux
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        known += f" {boot} {Path('/proc/self/ns/pid').readlink()}"
    return sha256(known.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def temporary_path(target: Path) -> Path:
    """Returns an unused name beside `target` that no recording can have."""
    return target.with_name(f".{target.name}.{_system()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from saving into a folder. Does nothing where folders can't be locked (Windows)."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            flock(handle, LOCK_EX)
        yield
    finally:
        os.close(handle)


def clear_leftovers(folder: Path) -> None:
    """Removes temporary files of processes that are not running. Where that can't be known, they stay."""
    here = _system()
    for path in folder.glob(".*.tmp"):
        found = _NAME.fullmatch(path.name)
        if found is None or found["system"] != here or _may_run(int(found["process"])):
            continue
        with suppress(OSError):  # another process clears it too, or it belongs to another user
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _may_run(process: int) -> bool:
    if os.name != "posix":
        return True  # unknown: on Windows signal 0 is Ctrl-C
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
