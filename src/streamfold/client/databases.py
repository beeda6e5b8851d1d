"""Opens what several rooms keep things in: an SQLite file of one's own, a file that one process holds, and a Valkey or
Redis server."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from ..values import ConfigError

if TYPE_CHECKING:
    import sqlite3

    import valkey

__all__ = ["locked_file", "private_database", "shown_server", "valkey_client"]

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


def private_database(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Opens a database that only this user may read, for use by several threads, one at a time.

    Raises:
        ConfigError: it can't be opened, or is not a database.
    """
    import sqlite3  # most programs need none

    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with ExitStack() as stack:
            database = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            stack.callback(database.close)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing, a power cut the last moment
            stack.pop_all()  # from here on it is the caller's to close
    except (OSError, sqlite3.Error) as exc:
        raise ConfigError(f"the database {str(path)!r} can't be used: {exc}") from exc
    return database


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
