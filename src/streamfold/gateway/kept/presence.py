"""Tells processes of one machine which of them still run. The system knows it: a killed process holds no lock."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from ...stores import locked_file

__all__ = ["Presence"]


class Presence:
    """Says that this process runs, by a file beside a database that it holds locked.

    Args:
        database: what the processes have in common.

    Attributes:
        name: of this process, for the others.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self.name = uuid4().hex
        self._file = locked_file(self._path(self.name), "xb")

    def runs(self, name: str) -> bool:
        """Returns whether the process of that name still runs. The file of one that does not is removed."""
        if name == self.name:
            return True
        try:
            locked_file(self._path(name), "r+b").close()
        except FileNotFoundError:
            return False
        except OSError:  # it is held
            return True
        with suppress(OSError):  # another process removes it too
            self._path(name).unlink()
        return False

    def close(self) -> None:
        """Says that this process is done."""
        self._file.close()
        with suppress(OSError):
            self._path(self.name).unlink()

    def _path(self, name: str) -> Path:
        return self._database.with_name(f".{self._database.name}-{name}.lock")
