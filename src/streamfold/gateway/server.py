"""One process that serves the gateway, with uvicorn: how it starts, drains and stops."""

from __future__ import annotations

import logging
import signal
import socket
from time import monotonic
from types import FrameType
from typing import Any

import uvicorn

from ..config import GatewaySettings
from .app import Gateway
from .configured import Page
from .connections import bounded_protocol, connections_for
from .logs import one_line
from .models import Models
from .server_log import log_config
from .wires import WIRES

__all__ = ["Server", "run", "say_what_is_served"]

FAILED = 3  # the exit code of a server that could not start, as uvicorn's own
log = logging.getLogger("streamfold.gateway")


def run(app: Gateway, chosen: GatewaySettings, page: Page | None = None) -> int:
    """Serves an app in this process until it is told to stop. Returns the exit code of the process."""
    server = Server(app, chosen, page)
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
        self._told_to_stop: tuple[float, int] | None = None  # when the server may stop, and the signal
        self._connections = connections_for(chosen.max_connections, chosen.max_requests)
        super().__init__(
            uvicorn.Config(
                page.around(app) if page else app,
                host=chosen.host,
                port=chosen.port,
                http=bounded_protocol(head_timeout=chosen.head_timeout, max_connections=self._connections),
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
        if self._chosen.drain and self._told_to_stop is None:
            self._gateway.draining = True
            self._told_to_stop = monotonic() + self._chosen.drain, sig
        else:  # the second signal does not wait
            self.leave(sig)

    def leave(self, sig: int) -> None:
        """Stops without a time for load balancers to find out: running answers are finished, and no more are begun."""
        self._gateway.draining = True
        super().handle_exit(sig, None)

    async def on_tick(self, counter: int) -> bool:
        """Looks whether it is time to stop."""
        if self._told_to_stop is not None and monotonic() >= self._told_to_stop[0]:
            self.leave(self._told_to_stop[1])
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen, and says what is served."""
        await super().startup(sockets)
        if not self._worker:
            addresses = [listener.sockets[0].getsockname() for listener in self.servers]
            say_what_is_served(self._gateway.models, addresses, ui=self._page is not None)
        if self._connections < self._chosen.max_connections:
            log.warning(
                "max_connections is %d instead of %d: the process may not open more files (see ulimit -n)",
                self._connections, self._chosen.max_connections,
            )  # fmt: skip


def say_what_is_served(models: Models, addresses: list[Any], *, ui: bool) -> None:
    """Logs the URLs for clients, the models, and what the configuration of the providers lacks."""
    paths = [wire.path.removeprefix("/v1") for wire in WIRES if wire.path.startswith("/v1/") and wire.asks_model]
    for address in addresses:
        host, port = address[:2]
        host = f"[{host}]" if ":" in host else host
        here = f"http://{host}:{port}"
        log.info("Base URL for clients: %s/v1 (%s, /models); health check: /healthz", here, ", ".join(paths))
        log.info("Base URL for clients of Google's and Anthropic's own: %s", here)
        if ui:
            log.info("The last answers as they stream: %s/ui", here)
    log.info("Models: %s", one_line(", ".join(models.describe())))
    for problem in models.missing():
        log.warning("%s. Its requests get HTTP 500 until the server is started with it", one_line(problem))
