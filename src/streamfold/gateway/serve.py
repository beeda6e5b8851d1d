"""The gateway as a server of its own: what `streamfold.toml` says of it, and uvicorn under it."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

from ..config import Config, GatewaySettings, read_config
from ..values import ConfigError
from .origins import is_loopback

__all__ = ["run", "settings"]


def settings(config: Config, **overrides: Any) -> GatewaySettings:
    """Returns the settings of a file with the overrides that are not None on top.

    Raises:
        ConfigError: a mistake in them; or other machines could use the server without a key.
    """
    made = config.gateway(**overrides)
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
        aliases=chosen.aliases,
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
