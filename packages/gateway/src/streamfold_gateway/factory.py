"""Creates the gateway's ASGI app from `streamfold.toml`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from streamfold import ConfigError, Hooks
from streamfold.config import Config, RateLimitSettings, read_config, variable_value
from streamfold.net import is_loopback, make_client

from .app import Gateway
from .auth import make_key, read_keys
from .config import GatewaySettings


def settings(config: Config, **overrides: Any) -> GatewaySettings:
    """Returns the gateway settings of a configuration file. Values in `overrides` take precedence, except None.

    Raises:
        ConfigError: a setting is invalid, or clients on other machines could use the server without a key.
    """
    made = config.package_table("gateway", GatewaySettings, **overrides)
    if not made.needs_key and not made.open and not is_loopback(made.host):
        raise ConfigError(
            f"other machines could use a server on {made.host} without a key: set api_key_env in [gateway], or"
            " open = true if that is intended"
        )
    if made.workers > 1 and made.ui:
        raise ConfigError(f"ui: the page needs a single worker process, but workers is {made.workers}: set workers = 1")
    if made.workers > 1 and os.name != "posix":
        raise ConfigError("workers: only on POSIX systems can processes share a port: set workers = 1")
    return made


def with_shared_stores(chosen: GatewaySettings, folder: Path) -> GatewaySettings:
    """Returns settings for several worker processes. Each store in memory is replaced with an SQLite file in `folder`,
    which the processes share.
    """
    in_process = (True, "memory")
    kept: dict[str, Any] = {}
    if chosen.turn_cache in in_process:
        kept["turn_cache"] = f"sqlite:///{folder / 'turns.db'}"
    if chosen.responses in in_process:
        kept["responses"] = f"sqlite:///{folder / 'responses.db'}"
    return chosen.model_copy(update=kept)


class GatewayPage(Protocol):
    """A web page that the server serves in addition to the gateway's endpoints."""

    @property
    def hooks(self) -> Hooks:
        """The hooks of all providers, which collect the data for the page."""
        ...

    @property
    def path(self) -> str:
        """The URL path of the page, including a token if the page needs one."""
        ...

    def around(self, app: Any) -> Any:
        """Returns an ASGI app that serves the page, and passes all other requests to `app`."""
        ...


def app_from_settings(config: Config, chosen: GatewaySettings, page: GatewayPage | None = None) -> Gateway:
    """Returns the gateway's app for validated settings.

    Args:
        page: a web page. Its hooks are added to all providers.

    Raises:
        ConfigError: there are no providers, or a setting is invalid.
    """
    keys = [variable_value(variable, "gateway: api_key_env") for variable in chosen.api_key_env]
    named = [
        make_key(name, variable_value(given.key_env, f"gateway.keys.{name}.key_env"), given)
        for name, given in chosen.keys.items()
    ]
    return Gateway(
        {name: name for name in chosen.providers} or None,
        chosen,
        read_keys(keys) + read_keys(named),
        config=config,
        rate_limits=config.rate_limits() or RateLimitSettings(),
        hooks=page.hooks if page else (),
        loopback_only=not chosen.needs_key and not chosen.open,
    )


def create_app(path: str | os.PathLike[str] | None = None) -> Gateway:
    """Returns the ASGI app that a configuration file describes. ASGI servers can call this function as an app factory.

    Example: `granian --interface asgi --factory streamfold_gateway:create_app`. The environment variable
        `STREAMFOLD_CONFIG` names the file. If the variable isn't set, streamfold searches for the file. Server settings
        of `[gateway]` (`host`, `port`, `drain`, ...) have no effect. Without keys and without `open = true`, the app
        accepts only requests to loopback addresses.

    Args:
        path: the path of the configuration file; None: streamfold searches for the file.

    Raises:
        ConfigError: there are no providers, or a setting is invalid.
    """
    config = read_config(path)
    return app_from_settings(config, config.package_table("gateway", GatewaySettings))


async def preload(app: Gateway) -> None:
    """Imports the HTTP libraries and loads prices, so that the first request is as fast as later ones."""
    for transport in ("httpx", "aiohttp"):
        with suppress(ConfigError):  # aiohttp may be missing; a provider that needs it reports that
            await make_client(transport).aclose()
    app.models.price()
