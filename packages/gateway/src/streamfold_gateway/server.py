"""`streamfold serve`: runs the gateway in one or several granian worker processes that share one port.

Each worker creates its app from the last valid configuration. A configuration reload starts new workers.
"""

from __future__ import annotations

import logging
import logging.config
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import anyio
from granian import Granian
from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels

from streamfold import ConfigError
from streamfold.config import Config, read_config, set_variable, tune_gc_for_server
from streamfold.limits import count_memory_in

from .config import GatewaySettings
from .factory import GatewayPage, app_from_settings, preload, settings, with_shared_stores
from .metrics import METRICS_FOLDER
from .worker import METRICS, STOPPING, Worker, log_config, stop_signals

_CONNECTIONS = 2**20  # per worker: in practice, open files and `max_requests` are the limits
_FAILED = 3  # the exit code of a server that can't listen on its port
_LATE = 10  # seconds after `drain` and `shutdown` until a worker is killed

log = logging.getLogger("streamfold.gateway")


def run(
    path: str | os.PathLike[str] | None = None,
    page: Callable[[GatewaySettings], GatewayPage] | None = None,
    **overrides: Any,
) -> None:
    """Runs the server until the process receives a stop signal. Then the server waits up to `shutdown` seconds for
    responses in flight.

    On SIGHUP, the server reloads the configuration.

    Args:
        path: the configuration file; None: streamfold searches for the file.
        page: creates the page that the server serves if the setting `ui` is true.
        overrides: settings, see `GatewaySettings`. They take precedence over the configuration file, except None.

    Raises:
        ConfigError: there are no providers, no provider has all its settings, or a setting is invalid.
        SystemExit: the port is unavailable, or worker processes crash repeatedly. The log contains the reason.
    """
    with TemporaryDirectory(prefix="streamfold-serve-", ignore_cleanup_errors=True) as folder:
        shared = Path(folder)
        (shared / METRICS).mkdir()
        set_variable(METRICS_FOLDER, str(shared / METRICS))  # before prometheus-client is imported
        factory = WorkerFactory(path, page, overrides, shared)
        factory.read()
        chosen = factory.settings
        server = Granian(
            "streamfold_gateway",
            address=chosen.host,
            port=chosen.port,
            interface=Interfaces.ASGI,
            workers=chosen.workers,
            runtime_mode=RuntimeModes.st,
            http=HTTPModes.http1,
            websockets=chosen.websockets,
            backlog=2048,
            backpressure=_CONNECTIONS,
            http1_settings=HTTP1Settings(header_read_timeout=ceil(chosen.head_timeout * 1000)),
            log_level=LogLevels.warning,
            log_dictconfig=log_config(),
            respawn_failed_workers=True,
            respawn_interval=0,  # a stopping worker itself waits for the worker that replaces it
            workers_kill_timeout=ceil(chosen.drain + chosen.shutdown) + _LATE,
        )
        server.on_startup(factory.handle_signals)
        server.on_reload(factory.read_again)
        tune_gc_for_server()
        try:
            server.serve(target_loader=factory, wrap_loader=False)
        except SystemExit:
            if not stop_signals(shared):
                raise


@dataclass
class WorkerFactory:
    """Creates the app in a worker process. granian copies this object to the process by fork or pickle.

    Attributes:
        path: the path of the configuration file; None: streamfold searches for the file.
        page: creates the page that the server serves if the setting `ui` is true.
        overrides: settings that take precedence over the configuration file.
        shared: the folder that the workers share while the server runs.
        generation: the number of configuration reloads so far.
        config: the last valid configuration.
        settings: the settings of that configuration, with the IP address and the port on which the server listens.
    """

    path: str | os.PathLike[str] | None
    page: Callable[[GatewaySettings], GatewayPage] | None
    overrides: Mapping[str, Any]
    shared: Path
    generation: int = 0
    config: Config = field(init=False)
    settings: GatewaySettings = field(init=False)

    def __call__(self) -> Worker:
        """Returns the app of the current worker process. Raises SystemExit if the server is stopping."""
        if stop_signals(self.shared):
            raise SystemExit
        if self.settings.workers > 1:
            count_memory_in(f"sqlite:///{self.shared / 'limits.db'}")
        page = self.page(self.settings) if self.page is not None and self.settings.ui else None
        gateway = app_from_settings(self.config, self.settings, page)
        tune_gc_for_server()
        return Worker(gateway, self.settings, self.shared, self.generation, page)

    def read(self) -> None:
        """Loads and validates the configuration. After a ConfigError the previous configuration remains in use."""
        config = read_config(self.path)
        chosen = settings(config, **self.overrides)
        if self.generation:
            bound = {name: getattr(self.settings, name) for name in ("host", "port", "workers")}
        else:
            bound = dict(zip(("host", "port"), _free_address(chosen.host, chosen.port), strict=True))
        chosen = chosen.model_copy(update=bound)
        if chosen.workers > 1:
            chosen = with_shared_stores(chosen, self.shared)
        app = app_from_settings(config, chosen)
        app.models.check_usable()

        async def try_app() -> None:
            await preload(app)  # forked workers share what this loads
            await app.aclose()

        anyio.run(try_app)
        self.config, self.settings = config, chosen

    def read_again(self) -> None:
        """Reloads the configuration for new workers. If it is invalid, the previous configuration remains in use."""
        self.generation += 1
        try:
            self.read()
            log.info("the configuration was reloaded; new workers start")
        except ConfigError as exc:
            log.error("the configuration was not reloaded: %s", exc)

    def handle_signals(self) -> None:
        """Installs handlers that pass stop signals to the workers immediately, even during a reload."""
        stops: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def stop(number: int, frame: FrameType | None) -> None:
            with (self.shared / STOPPING).open("ab") as signals:
                signals.write(b".")
            stops[number](number, frame)
            for worker in multiprocessing.active_children():
                worker.terminate()

        for number in stops:
            signal.signal(number, stop)


def _free_address(host: str, port: int) -> tuple[str, int]:
    """Returns the address and port to listen on. Raises SystemExit if another server uses the port.

    granian itself wouldn't notice the other server, because it allows its sockets to share a port with other sockets of
    the same user.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)  # granian takes one
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if os.name == "posix":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return str(address[0]), int(probe.getsockname()[1])
    except OSError as exc:
        logging.config.dictConfig(log_config())
        log.error("can't listen on %s:%d: %s", host, port, exc)
        raise SystemExit(_FAILED) from None
