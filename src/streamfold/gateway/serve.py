"""The gateway as a server of its own, by the settings of `streamfold.toml`: one process, or several workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..client import Hooks
from ..config import Config, GatewaySettings, RateLimitSettings, read_config
from ..values import ConfigError
from .access import is_loopback
from .keys import Client, read_keys

if TYPE_CHECKING:
    from .app import Gateway

__all__ = ["Page", "configured_app", "create_app", "run", "settings"]


def settings(config: Config, **overrides: Any) -> GatewaySettings:
    """Returns the settings of a file with the overrides that are not None on top.

    Raises:
        ConfigError: a mistake in them; or other machines could use the server without a key.
    """
    made = config.gateway(**overrides)
    if not made.needs_key and not made.open and not is_loopback(made.host):
        raise ConfigError(
            f"other machines could use a server on {made.host}, and it asks for no key: set api_key_env in [gateway],"
            " or open = true if that is intended"
        )
    if made.workers > 1 and made.ui:
        raise ConfigError(
            f"ui: the page shows the answers of one process, and workers is {made.workers}; set one of them"
        )
    if made.workers > 1 and os.name != "posix":
        raise ConfigError("workers: several processes can share a port on POSIX systems only; start several gateways")
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


def create_app(path: str | os.PathLike[str] | None = None) -> Gateway:
    """Returns the ASGI app of a configuration file, for servers that make their app by a factory.

    As in `uvicorn --factory streamfold.gateway:create_app --workers 4`. The file is the one that `STREAMFOLD_CONFIG`
    names, or that is found. Keys of `[gateway]` that are the server's (`host`, `port`, `drain`, ...) have no effect.
    Without a key, and without `open = true`, requests are answered only on loopback addresses.

    Args:
        path: the configuration file; None: the one that is found.

    Raises:
        ConfigError: there is nothing to serve, or something in the settings can't be used.
    """
    config = read_config(path)
    return configured_app(config, config.gateway(), path)


def configured_app(
    config: Config, chosen: GatewaySettings, path: str | os.PathLike[str] | None, page: Page | None = None
) -> Gateway:
    """Returns the app that settings describe.

    Args:
        path: the file that `config` was read from, if one was named.
        page: the page that is shown beside it.

    Raises:
        ConfigError: there is nothing to serve, or something in the settings can't be used.
    """
    from .app import gateway

    made = gateway(
        {name: name for name in chosen.providers} or None,
        config=path,
        keys=_clients(config, chosen),
        rate_limits=config.rate_limits() or RateLimitSettings(),
        hooks=page.hooks if page else (),
        **chosen.options(),
    )
    made.access.loopback_only = not chosen.needs_key and not chosen.open
    return made


def _clients(config: Config, chosen: GatewaySettings) -> list[Client]:
    """Whose keys the environment holds."""
    named = {
        name: {"key": config.secret(given.key_env, f"gateway.keys.{name}.key_env"), **dict(given.options())}
        for name, given in chosen.keys.items()
    }
    return read_keys([config.secret(variable) for variable in chosen.api_key_env]) + read_keys(named)


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
        from . import server, workers
    except ImportError as exc:
        if (exc.name or "").partition(".")[0] != "uvicorn":
            raise
        raise ConfigError("the gateway needs its extra: pip install 'streamfold[gateway]'") from exc

    config = read_config(path)
    chosen = settings(config, **overrides)
    if chosen.workers > 1:
        ended = workers.run(path, overrides)
    else:
        beside = page(config, chosen) if page is not None and chosen.ui else None
        ended = server.run(configured_app(config, chosen, path, beside), chosen, beside)
    if ended:
        raise SystemExit(ended)  # the log says why, as when the port is taken
