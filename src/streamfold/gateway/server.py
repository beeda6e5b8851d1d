"""One process that serves the gateway, with uvicorn: how it starts, drains and stops."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterable
from time import monotonic
from types import FrameType
from typing import Any

import uvicorn

from ..config import GatewaySettings, collect_rarely
from .app import Gateway
from .configured import Page, load_early
from .connections import bounded_protocol, connections_for
from .logs import one_line
from .models import Models
from .server_log import log_config, log_quickly
from .wires import WIRES

_CLOSE = (b"connection", b"close")
_GRACE = 1.0  # seconds for which a connection that was not told to close may still bring a request
FAILED = 3  # the exit code of a server that could not start, as uvicorn's own
log = logging.getLogger("streamfold.gateway")


def run(app: Gateway, chosen: GatewaySettings, page: Page | None = None) -> int:
    """Serves an app in this process until it is told to stop. Returns the exit code of the process."""
    server = Server(app, chosen, page)
    load_early(app)
    collect_rarely()
    log_quickly()
    try:
        server.run()
    except KeyboardInterrupt:
        return 0
    return 0 if server.started else FAILED


class Server(uvicorn.Server):
    """uvicorn's server for one gateway. Told to stop, it goes on for `drain` seconds, and is not ready meanwhile.

    Args:
        page: the page that is served beside the app.
        worker: whether it is one of several processes, whose supervisor says what is served and hears Ctrl-C.
    """

    def __init__(
        self, app: Gateway, chosen: GatewaySettings, page: Page | None = None, *, worker: bool = False
    ) -> None:
        self._gateway = app
        self._chosen = chosen
        self._page = page
        self._worker = worker
        self._ends: float | None = None  # when the server may leave that was told to stop
        self._left: float | None = None  # when it began to leave
        self._connections = connections_for(chosen.max_connections, chosen.max_requests)
        self._http = bounded_protocol(
            head_timeout=chosen.head_timeout,
            max_connections=self._connections,
            most=connections_for(2 * chosen.max_connections, chosen.max_requests),
            busy=app.refuse_connection,
        )
        super().__init__(
            uvicorn.Config(
                page.around(app) if page else app,
                host=chosen.host,
                port=chosen.port,
                http=self._http,
                log_config=log_config(),
                timeout_graceful_shutdown=max(1, round(chosen.shutdown)),
                lifespan="on",
                ws="none",
                server_header=False,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Takes a signal that tells the server to stop."""
        if self._worker and sig == signal.SIGINT:
            return  # a terminal sends it to all processes, and the supervisor hands it on
        if self._chosen.drain and self._ends is None:
            self._gateway.draining = True
            self._ends = monotonic() + self._chosen.drain
        else:  # the second signal does not wait
            self.leave()

    def leave(self) -> None:
        """Stops without a time for load balancers to find out.

        From now on every answer says that its connection will be closed. Connections whose last answer did not are kept
        for a moment more: their clients may be sending the next request. Called again, it closes them at once, and at
        the third time it does not wait for running answers.
        """
        self._gateway.draining = True
        if self._left is None:
            self._left = self._ends = monotonic()
            self.config.encoded_headers.append(_CLOSE)
            self.server_state.default_headers.append(_CLOSE)
        elif not self.should_exit:
            self.should_exit = True
        else:
            self.force_exit = True

    def _stop_accepting(self) -> None:
        for server in self.servers:
            server.close()

    async def on_tick(self, counter: int) -> bool:
        """Looks whether it is time to stop."""
        if self._ends is not None and self._left is None and monotonic() >= self._ends:
            self.leave()
        if self._left is not None:
            self._stop_accepting()
        if self._left is not None and not self.should_exit:
            since, last = monotonic() - self._left, monotonic() - _GRACE
            connections: Iterable[Any] = self.server_state.connections
            waiting = [self._http.waiting.get(connection) for connection in connections]
            quiet = all(began is not None and max(began, self._left) <= last for began in waiting)
            ended = quiet and not self._gateway.running  # also those that go on without their clients
            self.should_exit = ended or since >= self._chosen.shutdown
            if self.should_exit:
                self.config.timeout_graceful_shutdown = max(1, round(self._chosen.shutdown - since))
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen, and says what is served."""
        await super().startup(sockets)
        if not self._worker:
            addresses = [listener.sockets[0].getsockname() for listener in self.servers]
            say_what_is_served(self._gateway.models, addresses, page=self._page.path if self._page else None)
        if self._connections < self._chosen.max_connections:
            log.warning(
                "max_connections is %d instead of %d: the process may not open more files (see ulimit -n)",
                self._connections, self._chosen.max_connections,
            )  # fmt: skip


def say_what_is_served(models: Models, addresses: list[Any], *, page: str | None) -> None:
    """Logs the URLs for clients, the models, and what the configuration of the providers lacks."""
    paths = [wire.path.removeprefix("/v1") for wire in WIRES if wire.path.startswith("/v1/") and wire.asks_model]
    for address in addresses:
        host, port = address[:2]
        host = f"[{host}]" if ":" in host else host
        here = f"http://{host}:{port}"
        log.info("Base URL for clients: %s/v1 (%s, /models); health check: /healthz", here, ", ".join(paths))
        log.info("Base URL for clients of Google's and Anthropic's own: %s", here)
        if page:
            log.info("The last answers as they stream: %s%s", here, page)
    log.info("Models: %s", one_line(", ".join(models.describe())))
    for problem in models.missing():
        log.warning("%s. Its requests get HTTP 500 until the server is started with it", one_line(problem))
