"""The gateway as a server of its own: the settings of `streamfold.toml`, and uvicorn."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from copy import deepcopy
from time import monotonic
from types import FrameType
from typing import Any, Protocol

from ..client import Hooks
from ..config import Config, GatewaySettings, read_config
from ..values import ConfigError
from .access import is_loopback
from .logs import one_line
from .models import Models
from .wires import WIRES

__all__ = ["run", "settings"]

log = logging.getLogger("streamfold.gateway")


def settings(config: Config, **overrides: Any) -> GatewaySettings:
    """Returns the settings of a file with the overrides that are not None on top.

    Raises:
        ConfigError: a mistake in them; or other machines could use the server without a key.
    """
    made = config.gateway(**overrides)
    if not made.api_key_env and not made.open and not is_loopback(made.host):
        raise ConfigError(
            f"other machines could use a server on {made.host}, and it asks for no key: set api_key_env in [gateway],"
            " or open = true if that is intended"
        )
    return made


class Page(Protocol):
    """A page beside the gateway."""

    @property
    def hooks(self) -> Hooks:
        """What it wants to know of the providers' answers."""
        ...

    def around(self, app: Any) -> Any:
        """Returns an ASGI app that serves the page, and everything else by `app`."""
        ...


def run(
    path: str | os.PathLike[str] | None = None,
    page: Callable[[Config, GatewaySettings], Page] | None = None,
    **overrides: Any,
) -> None:
    """Serves until the process is told to stop; running answers then get `shutdown` seconds.

    Args:
        path: the configuration file; None: the one that is found.
        page: makes the page that is served if the settings say so (`ui`).
        overrides: see `GatewaySettings`; those that are not None replace what the file says.

    Raises:
        ConfigError: there is nothing to serve, something in the settings can't be used, or the extra is missing.
    """
    try:
        import uvicorn
    except ImportError as exc:
        raise ConfigError("the gateway needs its extra: pip install 'streamfold[gateway]'") from exc
    from .app import gateway
    from .connections import bounded_protocol, connections_for

    config = read_config(path)
    chosen = settings(config, **overrides)
    beside = page(config, chosen) if page is not None and chosen.ui else None
    app = gateway(
        {name: name for name in chosen.providers} or None,
        config=path,
        keys=[config.secret(variable) for variable in chosen.api_key_env],
        hooks=beside.hooks if beside else (),
        **chosen.options(),
    )
    connections = connections_for(chosen.max_connections, chosen.max_requests)

    class Server(uvicorn.Server):
        told_to_stop: tuple[float, int] | None = None  # when the server may stop, and the signal

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.draining = True
            if chosen.drain and self.told_to_stop is None:
                self.told_to_stop = monotonic() + chosen.drain, sig
            else:  # the second signal does not wait
                super().handle_exit(sig, frame)

        async def on_tick(self, counter: int) -> bool:
            if self.told_to_stop is not None and monotonic() >= self.told_to_stop[0]:
                self.handle_exit(self.told_to_stop[1], None)
            return await super().on_tick(counter)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for listener in self.servers:
                _say_what_is_served(app.models, listener.sockets[0].getsockname(), ui=beside is not None)
            if connections < chosen.max_connections:
                log.warning(
                    "max_connections is %d instead of %d: the process may not open more files (see ulimit -n)",
                    connections, chosen.max_connections,
                )  # fmt: skip

    server = Server(
        uvicorn.Config(
            beside.around(app) if beside else app,
            host=chosen.host,
            port=chosen.port,
            http=bounded_protocol(head_timeout=chosen.head_timeout, max_connections=connections),
            log_config=_log_config(),
            timeout_graceful_shutdown=max(1, round(chosen.shutdown)),
            lifespan="on",
            ws="none",
            server_header=False,
        )
    )
    try:
        server.run()
    except KeyboardInterrupt:
        return
    if not server.started:
        raise SystemExit(3)  # the log says why, as when the port is taken


def _say_what_is_served(models: Models, address: Any, *, ui: bool) -> None:
    host, port = address[:2]
    host = f"[{host}]" if ":" in host else host
    paths = [wire.path.removeprefix("/v1") for wire in WIRES if wire.path.startswith("/v1/") and wire.asks_model]
    here = f"http://{host}:{port}"
    log.info("Base URL for clients: %s/v1 (%s, /models); health check: /healthz", here, ", ".join(paths))
    log.info("Base URL for clients of Google's and Anthropic's own: %s", here)
    if ui:
        log.info("The last answers as they stream: %s/ui", here)
    log.info("Models: %s", one_line(", ".join(models.describe())))
    for problem in models.missing():
        log.warning("%s. Its requests get HTTP 500 until the server is started with it", one_line(problem))


def _log_config() -> dict[str, Any]:
    """uvicorn's logging with ours beside it, every record on one line."""
    from uvicorn.config import LOGGING_CONFIG

    made: dict[str, Any] = deepcopy(LOGGING_CONFIG)
    made["filters"] = {"one_line": {"()": OneLine}}
    made["filters"]["without_query"] = {"()": WithoutQuery}
    for handler in made["handlers"].values():
        handler["filters"] = ["one_line"]
    made["handlers"]["access"]["filters"].append("without_query")
    # Retries and warnings of the client library are in the gateway's own lines too, with the request's id.
    made["loggers"]["streamfold"] = {"handlers": ["default"], "level": "ERROR", "propagate": False}
    made["loggers"]["streamfold.gateway"] = {"level": "INFO"}
    # For programs: each line is a JSON object, and nothing else.
    made["formatters"]["bare"] = {"format": "%(message)s"}
    made["handlers"]["bare"] = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "bare"}
    made["loggers"]["streamfold.gateway.requests"] = {"handlers": ["bare"], "level": "INFO", "propagate": False}
    return made


class OneLine(logging.Filter):
    """Escapes line ends and control characters in the messages of other modules, which quote providers."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("streamfold"):
            record.msg, record.args = one_line(record.getMessage()), ()
        return True


class WithoutQuery(logging.Filter):
    """Leaves the query out of uvicorn's lines about requests: Google's clients may send their key in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args)
        return True
