"""The gateway as a server of its own, by the settings of `streamfold.toml`: one process, or several workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from streamfold.config import read_config

from .app import Gateway
from .config import GatewaySettings
from .configured import GatewayPage, app_from_settings


def create_app(path: str | os.PathLike[str] | None = None) -> Gateway:
    """Returns the ASGI app of a configuration file, for servers that make their app by a factory.

    As in `granian --interface asgi --factory streamfold_gateway:create_app`. The file is that which `STREAMFOLD_CONFIG`
    names, or that is found. Keys of `[gateway]` that are the server's (`host`, `port`, `drain`, ...) have no effect.
    Without a key, and without `open = true`, requests are answered only on loopback addresses.

    Args:
        path: the configuration file; None: the one that is found.

    Raises:
        ConfigError: there is nothing to serve, or something in the settings can't be used.
    """
    config = read_config(path)
    return app_from_settings(config, config.package_table("gateway", GatewaySettings))


def run(
    path: str | os.PathLike[str] | None = None,
    page: Callable[[GatewaySettings], GatewayPage] | None = None,
    **overrides: Any,
) -> None:
    """Serves until the process is told to stop; running answers then get `shutdown` seconds.

    Args:
        path: the configuration file; None: the one that is found.
        page: makes the page that is served if the settings say so (`ui`).
        overrides: see `GatewaySettings`; those that are not None replace what the file says.

    Raises:
        ConfigError: there is nothing to serve, or something in the settings can't be used.
    """
    from .server import run_server  # other servers of the app need no granian

    run_server(path, page, overrides)
