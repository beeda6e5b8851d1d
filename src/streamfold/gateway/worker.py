"""One of several processes that serve a port: what it is made from, and how it takes its share of the connections."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep
from typing import Any, ClassVar

import anyio

from ..config import GatewaySettings, collect_rarely, read_config, set_variable
from ..limits import count_memory_in
from .configured import configured_app, load_early, settings
from .metrics import METRICS_FOLDER
from .server import Server, say_what_is_served
from .server_log import log_quickly

log = logging.getLogger("streamfold.gateway")

_GRACE = 0.005  # seconds in which a worker with fewer connections may take the next one
_LOOK = 0.5  # seconds between two looks at the supervisor
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that the supervisor takes. They are held back from a worker until it has handlers of its own."""
_REST = 1.0  # seconds without new connections when one could not be accepted


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a worker is made from, in its own process.

    Attributes:
        path: the configuration file, if one was named.
        overrides: settings on top of it.
        shared: folder for what the workers share while the server runs.
    """

    path: str | os.PathLike[str] | None
    overrides: Mapping[str, Any]
    shared: Path

    @property
    def metrics(self) -> Path:
        """The folder of what the workers count."""
        return self.shared / "metrics"

    def settings(self) -> GatewaySettings:
        """Returns the settings of a worker. Raises ConfigError for a mistake in them."""
        chosen = settings(read_config(self.path), **self.overrides)
        return chosen.model_copy(update=_shared_stores(chosen, self.shared))

    def check(self, *, say: list[Any] | None = None) -> None:
        """Makes an app and forgets it, so that mistakes are known before a worker is started.

        What the first requests would load is loaded too: workers share it, if they are copies of this process.

        Args:
            say: the addresses at which to say that its models are served.

        Raises:
            ConfigError: there is nothing to serve, or something in the settings can't be used.
        """
        app = configured_app(read_config(self.path), self.settings(), self.path)
        if say is not None:
            say_what_is_served(app.models, say, page=None)
        load_early(app)
        anyio.run(app.aclose)


@dataclass(frozen=True, slots=True)
class Share:
    """How many connections each worker has, in memory that all of them share.

    Attributes:
        counts: of all workers; `NONE` for those that take no connections.
        place: of this worker.
    """

    NONE: ClassVar[int] = -1

    counts: Any
    place: int

    def set(self, count: int) -> None:
        """Says how many connections this worker has."""
        self.counts[self.place] = count

    def is_least(self) -> bool:
        """Returns whether no other worker has fewer."""
        mine = self.counts[self.place]
        return not any(self.NONE < count < mine for count in self.counts)


def work(recipe: Recipe, sockets: list[socket.socket], says: Connection, share: Share) -> None:
    """Is a worker: serves on sockets that are open already, until it is told to stop or its supervisor has died."""
    for sig in (signal.SIGINT, signal.SIGHUP):  # what a terminal sends to all is for the supervisor
        signal.signal(sig, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    set_variable(METRICS_FOLDER, str(recipe.metrics))
    count_memory_in(f"sqlite:///{recipe.shared / 'limits.db'}")
    chosen = recipe.settings()
    app = configured_app(read_config(recipe.path), chosen, recipe.path)
    load_early(app)  # again, where this is no copy of a process that has done it
    server = _WorkingServer(app, chosen, worker=True)
    server.says, server.share = says, share
    signal.signal(signal.SIGUSR1, lambda *_: server.leave())
    threading.Thread(target=_stop_with_the_supervisor, daemon=True).start()
    collect_rarely()
    log_quickly()
    server.run(sockets)


class _WorkingServer(Server):
    """The server of a worker, which says when it is ready, and leaves connections to workers that have fewer.

    Left to the system, one worker would get nearly all of them while it is not busy: answers that are mostly waited for
    would gather there, until it refuses what is too much for it, while the others have nothing to do.
    """

    says: Connection
    share: Share

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept connections."""
        self._open = list(sockets or [])
        self._accepting: set[asyncio.Task[Any]] = set()
        await super().startup([])
        self.share.set(0)
        for shared in self._open:
            shared.setblocking(False)
            self._listen(shared)
        self.says.send(True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops to accept connections, and waits for the running answers."""
        self._stop_accepting()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Tells the other workers how many connections this one has."""
        if self._open:
            self.share.set(len(self.server_state.connections))
        return await super().on_tick(counter)

    def _stop_accepting(self) -> None:
        while self._open:
            asyncio.get_running_loop().remove_reader(self._open.pop())
        self.share.set(Share.NONE)

    def _listen(self, shared: socket.socket) -> None:
        if shared in self._open:
            asyncio.get_running_loop().add_reader(shared, self._connection_waits, shared)

    def _connection_waits(self, shared: socket.socket) -> None:
        """Takes a connection; where another worker has fewer of them, only if that one does not soon."""
        self.share.set(len(self.server_state.connections) + len(self._accepting))
        if self.share.is_least():
            self._accept(shared)
        else:
            loop = asyncio.get_running_loop()
            loop.remove_reader(shared)
            loop.call_later(_GRACE, self._take_what_waits, shared)

    def _take_what_waits(self, shared: socket.socket) -> None:
        if shared in self._open:
            self._listen(shared)
            self._accept(shared)

    def _accept(self, shared: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = shared.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was faster, or the client has left again
        except OSError as exc:  # too many open files, above all
            log.error("no connections are accepted for %g s: %s", _REST, exc)
            loop.remove_reader(shared)
            loop.call_later(_REST, self._listen, shared)
            return
        task = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def _protocol(self) -> asyncio.Protocol:
        made: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = made(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


def _stop_with_the_supervisor() -> None:
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return
    # A pipe to it would be held open by workers that are its copies; and it may have died before this looks.
    while os.getppid() == supervisor.pid:
        sleep(_LOOK)
    log.error("the supervisor has died: this worker stops too")
    os.kill(os.getpid(), signal.SIGTERM)


def _shared_stores(chosen: GatewaySettings, folder: Path) -> dict[str, Any]:
    """What is kept in the process, in files instead: clients do not know which worker will answer them."""
    in_process = (True, "memory")
    kept: dict[str, Any] = {}
    if chosen.turn_cache in in_process:
        kept["turn_cache"] = f"sqlite:///{folder / 'turns.db'}"
    if chosen.responses in in_process:
        kept["responses"] = f"sqlite:///{folder / 'responses.db'}"
    return kept
