"""Opens what several rooms keep things in: an SQLite file of one's own, a file that one process holds, and a Valkey or
Redis server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import random
from threading import RLock
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread

from ..values import ConfigError

if TYPE_CHECKING:
    import sqlite3

    import valkey

__all__ = ["PrivateDatabase", "close_in_thread", "locked_file", "private_database", "shown_server", "valkey_client"]

_PATIENCE = 10  # seconds to wait for another process
_UNVERIFIED = ("ssl_cert_reqs", "ssl_check_hostname")


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


class PrivateDatabase:
    """An SQLite file that only this user may read, for several threads and processes. It is opened when it is needed.

    Args:
        path: the file.
        schema: the statements that make its tables, where they are not there yet.
        patience: seconds to wait for another process, or for another thread of this one.

    Raises:
        ConfigError: there is no folder for the file.

    Attributes:
        lock: held by the thread that uses the file.
    """

    def __init__(self, path: str | os.PathLike[str], schema: str, *, patience: float = _PATIENCE) -> None:
        self.path = Path(path).expanduser()
        if not self.path.parent.is_dir():
            raise ConfigError(f"there is no folder {str(self.path.parent)!r} for the database {self.path.name!r}")
        self._schema = schema
        self._patience = patience
        self.lock = RLock()
        self._open: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self, *, reads: bool = False) -> Iterator[sqlite3.Connection]:
        """Begins a transaction, and commits it, or takes it back if the block raises.

        Args:
            reads: the block only reads: then it does not wait for who writes.

        Raises:
            ConfigError: the file can't be opened, or is not a database.
            sqlite3.Error: it can't be used now.
        """
        with self.lock:
            database = self._open = self._open or private_database(self.path, self._schema, self._patience)
            database.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Closes the file. It is opened again when it is needed again."""
        with self.lock:
            if self._open is not None:
                self._open.close()
                self._open = None


def private_database(path: str | os.PathLike[str], schema: str = "", patience: float = _PATIENCE) -> sqlite3.Connection:
    """Opens an SQLite file that only this user may read, for use by several threads, one at a time.

    Raises:
        ConfigError: it can't be opened, or is not a database.
    """
    import sqlite3  # most programs need none

    with ExitStack() as stack:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            database = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            stack.callback(database.close)
            _write_ahead(database, patience)
            database.execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing, a power cut the last moment
        except (OSError, sqlite3.Error) as exc:
            raise ConfigError(f"the database {str(path)!r} can't be used: {exc}") from exc
        database.executescript(schema)
        stack.pop_all()  # from here on it is the caller's to close
    return database


def _write_ahead(database: sqlite3.Connection, patience: float) -> None:
    """Switches the journal. Of processes that do so at once with a new file, SQLite refuses some without any wait."""
    import sqlite3

    given_up = monotonic() + patience
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > given_up:
                raise
        sleep(random() * 0.02)  # noqa: S311 - not all at once again


async def close_in_thread(close: Callable[[], None]) -> None:
    """Closes something that may block, also when the task has been cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(close)


def valkey_client(url: str, what: str, *, timeout: float) -> valkey.Valkey:
    """Returns the client of a server. It connects when it is first used, and once more if a connection has broken.

    Args:
        url: `valkey://` or `redis://`, with TLS `valkeys://` or `rediss://`. Never shown: it may have a password.
        what: what is kept there, for errors.
        timeout: seconds for a connection or an answer.

    Raises:
        ConfigError: the extra is missing, or the URL can't be used.
    """
    try:
        import valkey
        from valkey.backoff import NoBackoff
        from valkey.retry import Retry
    except ImportError as exc:
        raise ConfigError(f"{what} in Valkey needs its extra: pip install 'streamfold[valkey]'") from exc
    secure: dict[str, Any] = {"ssl_check_hostname": True} if urlsplit(url).scheme in ("valkeys", "rediss") else {}
    if any(name in parse_qs(urlsplit(url).query) for name in _UNVERIFIED):
        raise ConfigError(f"the URL of {what} can't have {' or '.join(_UNVERIFIED)}: certificates are verified")
    try:
        client: valkey.Valkey = valkey.Valkey.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1),  # a connection from before the server was started again is broken
            retry_on_error=[valkey.ConnectionError],
            **secure,
        )
    except ValueError:
        raise ConfigError(f"the URL of {what} in Valkey must be valkey://HOST:PORT or valkeys://HOST:PORT") from None
    return client


def shown_server(url: str) -> str:
    """Returns the address in a URL, without the password."""
    with suppress(ValueError):
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return "valkey://"
