"""An HTTP server that speaks OpenAI's and Anthropic's APIs to its clients, with the configured providers behind it.

Clients get the same stream whatever the provider's is like: text as it arrives, and each tool call once, complete,
after the answer has ended in order.

    gateway(...)              returns an ASGI app, to serve by itself or to mount in another app
    create_app()              the same by `streamfold.toml`, for servers that make their app by a factory
    streamfold serve          serves the same app from the command line, with granian

The way of a request: `app` finds the API by its path, and `handler` does the rest: `access` decides who may ask,
`bodies` reads the body, `wires` and `messages` parse it, `models` finds the provider, `exchange` asks it and writes the
answer through `sink`, while `watching` looks whether the client is still there.
`failures` says how an error looks to a client, `logs` how it looks in the log. `configured` makes the app by the
settings and `serve` serves it: `server` is the main process, and `worker` what runs in each of its worker processes.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import Gateway, gateway
    from .configured import create_app
    from .server import run

__all__ = ["Gateway", "create_app", "gateway", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "run":
        from .server import run  # which needs granian, as other servers of the app do not

        return run
    from . import app, configured  # neither settings nor the help of commands need them

    app.Gateway.__module__ = __name__  # from where users import it
    return configured.create_app if name == "create_app" else getattr(app, name)
