"""The gateway as a server of its own: what `streamfold.toml` says of it, and uvicorn under it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from ..config import Config, read_config
from ..values import ConfigError
from .origins import is_loopback

__all__ = ["Settings", "run", "settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is served, where, and to whom: the table `[gateway]` of the file, and what was said instead.

    Attributes:
        providers: names of providers; empty: all of the file.
        models: further names for models.
        api_key_env: variables with the keys of clients. Without any, everybody who reaches the server may use it.
        open: serve other machines without a key.
        shutdown: seconds that running answers have when the server is told to stop.
    """

    host: str = "127.0.0.1"
    port: int = 8100
    providers: Sequence[str] = ()
    models: dict[str, str] = field(default_factory=dict)
    api_key_env: Sequence[str] = ()
    open: bool = False
    max_body_bytes: int = 32 * 2**20
    max_requests: int = 256
    keepalive: float = 15.0
    repair: bool = False
    shutdown: float = 30.0


def settings(config: Config, **said: Any) -> Settings:
    """The settings of a file, with those on top that were said. Raises ConfigError for a mistake in them."""
    given = {name: value for name, value in said.items() if value is not None}
    made = replace(Settings(), **{**config.gateway(), **given})
    if not made.api_key_env and not made.open and not is_loopback(made.host):
        raise ConfigError(
            f"on {made.host} other machines could use this server, and it asks for no key: set api_key_env in"
            " [gateway], or open = true if that is meant"
        )
    return made


def run(path: str | os.PathLike[str] | None = None, **said: Any) -> None:
    """Serves until the process is told to stop; running answers then have `shutdown` seconds.

    Raises:
        ConfigError: there is nothing to serve, something of it can't be used, or the extra is missing.
    """
    try:
        import uvicorn
        from uvicorn.config import LOGGING_CONFIG
    except ImportError as exc:
        raise ConfigError("the gateway needs its extra: pip install 'streamfold[gateway]'") from exc
    from .app import gateway

    config = read_config(path)
    chosen = settings(config, **said)
    keys = [config.secret(variable) for variable in chosen.api_key_env]
    app = gateway(
        {name: name for name in chosen.providers} or None,
        config=path,
        aliases=chosen.models,
        keys=keys,
        max_body_bytes=chosen.max_body_bytes,
        max_requests=chosen.max_requests,
        keepalive=chosen.keepalive or None,
        repair=chosen.repair,
    )
    logs = deepcopy(LOGGING_CONFIG)
    logs["loggers"]["streamfold"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    uvicorn.run(
        app,
        host=chosen.host,
        port=chosen.port,
        log_config=logs,
        timeout_graceful_shutdown=max(1, round(chosen.shutdown)),
        lifespan="on",
        ws="none",
        server_header=False,
    )
