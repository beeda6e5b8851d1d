"""Valkey or Redis servers of one's own, for the tests of what they keep."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def valkey_program() -> str:
    """The server, or a skip: valkey-server or redis-server on PATH, or what STREAMFOLD_VALKEY names."""
    pytest.importorskip("valkey")
    program = os.environ.get("STREAMFOLD_VALKEY") or shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        pytest.skip("needs valkey-server or redis-server on PATH, or STREAMFOLD_VALKEY")
    return program


class ValkeyServer:
    """A server on a socket in a folder of its own. What it keeps is gone when it is killed, unless it is told to."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._socket = folder / "socket"
        self._command = [valkey_program(), "--port", "0", "--unixsocket", str(self._socket), "--dir", str(folder)]
        self._command += ["--save", "", *options]
        self.url = f"unix://{self._socket}"

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        import valkey

        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        client = valkey.Valkey.from_url(self.url)
        for _ in range(1000):
            try:
                client.ping()
                break
            except valkey.AuthenticationError:
                break
            except valkey.ConnectionError:
                time.sleep(0.01)
        client.close()

    @property
    def pid(self) -> int:
        """The process of the server."""
        return self._process.pid

    def kill(self) -> None:
        """Ends the server at once."""
        self._process.kill()
        self._process.wait(10)
        self._socket.unlink(missing_ok=True)


@contextmanager
def valkey_server(folder: Path, *options: str) -> Iterator[ValkeyServer]:
    """A server that runs during the block."""
    server = ValkeyServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
