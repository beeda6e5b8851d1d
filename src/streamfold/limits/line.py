"""A script on a Valkey or Redis server, asked without a thread and, where nobody needs the answer, without a wait.

The client opens a connection, with all that its URL asks for. From then on its socket is used as it is: it belongs to
no event loop, so that any task of asyncio or trio may take it from those that are idle.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha1
from ssl import SSLWantReadError
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    import socket

    import valkey

_MOST_OWED = 10_000  # commands that are kept for a server that is away
_MOST_LATE = 8  # connections whose answers are still hoped for
_UNREAD = 32  # answers that nobody needs, until it is worth looking for them


class ScriptError(Exception):
    """The server has answered with an error; its words."""


@dataclass(slots=True, eq=False)
class Command:
    """A command of the script.

    Args:
        key: what it is about.
        words: its name and its arguments.
        unwanted: what has to be done instead if nobody waits for the answer any more; None: nobody ever does.
    """

    key: bytes
    words: tuple[bytes, ...]
    unwanted: Callable[[bytes], Command | None] | None = None
    waited_for: bool = False
    answer: bytes | None = None


@dataclass(slots=True, eq=False)
class _Connection:
    opened: valkey.Connection  # closes the socket when it is forgotten
    socket: socket.socket
    unread: deque[Command] = field(default_factory=deque)
    data: bytes = b""

    def next_answer(self) -> bytes | None:
        """Returns the next answer without its length; None: it has not come yet."""
        head, ended, rest = self.data.partition(b"\r\n")
        if not ended:
            return None
        if not head.startswith(b"$") or head == b"$-1":
            self.data = rest
            return head
        length = int(head[1:])
        if len(rest) < length + 2:
            return None
        self.data = rest[length + 2 :]
        return rest[:length]


class ScriptLine:
    """Runs a script.

    Args:
        client: opens connections.
        timeout: seconds for an answer.
    """

    def __init__(self, client: valkey.Valkey, script: str, *, timeout: float) -> None:
        self._pool = client.connection_pool
        self._script = script.encode()
        self._digest = sha1(self._script, usedforsecurity=False).hexdigest().encode()
        self._timeout = timeout
        self._known = True  # the script, to the server
        self._pid = os.getpid()
        self._idle: list[_Connection] = []  # `append` and `pop` are atomic: threads may share a store
        self._late: list[_Connection] = []
        self._owed: deque[Command] = deque(maxlen=_MOST_OWED)

    async def ask(self, command: Command) -> bytes:
        """Returns the answer to a command. Cancellation waits for it; asyncio's own does not.

        Raises:
            ScriptError: the server refuses.
            OSError, valkey.ValkeyError: there is no answer.
        """
        command.waited_for = True
        while True:
            self._hope()
            connection, fresh = self._found(), False
            if connection is None:
                connection, fresh = await anyio.to_thread.run_sync(self._open), True
            try:
                answer = await self._answer(connection, command)
            except OSError as error:
                if fresh or isinstance(error, TimeoutError):
                    raise
                continue  # a connection from before the server was started again
            if not answer.startswith(b"-"):
                return answer
            if not answer.startswith(b"-NOSCRIPT"):
                raise ScriptError(answer[1:].decode("utf-8", "replace"))

    async def tell(self, command: Command) -> None:
        """Sends a command whose answer nobody needs. If it turns out to be lost, it is sent again before the next."""
        if not self._told(command):
            self._send(await anyio.to_thread.run_sync(self._open), command)

    def tell_now(self, command: Command) -> None:
        """As `tell`, blocking."""
        if not self._told(command):
            self._send(self._open(), command)

    async def aclose(self) -> None:
        """Waits for what was told, and closes the connections."""
        while (connection := self._found()) is not None:
            with suppress(OSError), anyio.move_on_after(self._timeout, shield=True):
                while not self._read(connection):
                    await anyio.wait_readable(connection.socket)
            self._drop(connection)
        while self._late:
            self._drop(self._late.pop())

    def _told(self, command: Command) -> bool:
        while (connection := self._found()) is not None:
            with suppress(OSError):
                self._send(connection, command)
                return True
        return False

    async def _answer(self, connection: _Connection, command: Command) -> bytes:
        while self._owed:
            owed = self._owed.popleft()
            try:
                self._send(connection, owed, idle=False)
            except OSError:
                self._owed.appendleft(owed)
                raise
        self._send(connection, command, idle=False)
        try:
            with anyio.move_on_after(self._timeout, shield=True):
                while not self._read(connection):
                    await anyio.wait_readable(connection.socket)
            complete = self._read(connection)  # also if only this process was late
        except OSError:
            raise
        except BaseException:
            command.waited_for = False
            self._late.append(connection)
            raise
        if not complete:
            command.waited_for = False
            self._late.append(connection)
            raise TimeoutError(f"no answer within {self._timeout * 1000:.0f} ms")
        self._idle.append(connection)
        return command.answer or b""

    def _found(self) -> _Connection | None:
        if self._pid != os.getpid():  # a fork: they are the parent's
            self._pid, self._idle, self._late = os.getpid(), [], []
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _open(self) -> _Connection:
        connection = self._pool.make_connection()
        connection.connect()
        connection._sock.setblocking(False)
        return _Connection(connection, connection._sock)

    def _send(self, connection: _Connection, command: Command, *, idle: bool = True) -> None:
        run = (b"EVALSHA", self._digest) if self._known else (b"EVAL", self._script)
        self._known = True
        words = (*run, b"1", command.key, *command.words)
        data = b"".join([b"*%d\r\n" % len(words), *[b"$%d\r\n%b\r\n" % (len(word), word) for word in words]])
        connection.unread.append(command)
        try:
            connection.socket.sendall(data)
            if idle and len(connection.unread) > _UNREAD:
                self._read(connection)
        except OSError as error:  # also if it takes nothing more
            if connection.unread:
                connection.unread.pop()
            self._drop(connection)
            raise ConnectionError(str(error)) from error
        if idle:
            self._idle.append(connection)

    def _read(self, connection: _Connection) -> bool:
        """Reads what is there. Returns whether all is answered."""
        try:
            while connection.unread:
                answer = connection.next_answer()
                if answer is not None:
                    self._answered(connection.unread.popleft(), answer)
                    continue
                try:
                    data = connection.socket.recv(65536)
                except (BlockingIOError, SSLWantReadError):
                    return False
                if not data:
                    raise ConnectionError("the server has closed the connection")
                connection.data += data
        except OSError:
            self._drop(connection)
            raise
        return True

    def _answered(self, command: Command, answer: bytes) -> None:
        failed = answer.startswith(b"-")
        if answer.startswith(b"-NOSCRIPT"):
            self._known = False
        if command.waited_for:
            command.answer = answer
        elif command.unwanted is None and failed:
            self._owed.append(command)
        elif command.unwanted is not None and not failed and (instead := command.unwanted(answer)) is not None:
            self._owed.append(instead)

    def _hope(self) -> None:
        """Looks for answers that came late."""
        late, self._late = self._late, []
        for connection in late:
            with suppress(OSError):
                (self._idle if self._read(connection) else self._late).append(connection)
        while len(self._late) > _MOST_LATE:
            self._drop(self._late.pop(0))

    def _drop(self, connection: _Connection) -> None:
        self._owed.extend(command for command in connection.unread if command.unwanted is None)
        connection.unread.clear()
        connection.opened.disconnect()  # type: ignore[no-untyped-call]
