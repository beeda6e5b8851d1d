"""An HTTP server that speaks the APIs of OpenAI, Anthropic and Gemini, in front of the configured providers.

With every provider, the gateway sends text to the client as it arrives, and each tool call exactly once.

    gateway(...)              returns an ASGI app, which can be served or mounted
    create_app()              returns the app that `streamfold.toml` describes, for servers with app factories
    streamfold serve          serves that app from the command line, with granian

These modules handle a request, in this order:

    app                       the ASGI app: routes, list of models, health checks
    handler                   calls the other modules, and sends the request to its provider
    auth                      checks the client's key, host and origin
    request_body              receives and parses the body, within limits
    client_members            removes fields that the client may not send
    models                    finds the provider for the name of a model
    apis, conversation        parse the requests of each API, adapt them to providers, serialize responses and errors
    rate_limits               reserves and charges tokens and cost
    response_stream           sends the response to the client
    stored_responses          stores, resumes and cancels responses
    websockets                the Responses API over WebSockets
    http_errors, request_log, metrics

`factory` creates the app from the settings (`config`). `server` is the main process of `streamfold serve`, and `worker`
is a worker process.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import Gateway, gateway
    from .factory import create_app
    from .server import run

__all__ = ["Gateway", "create_app", "gateway", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "run":
        from .server import run  # imported late, because other ASGI servers don't need granian

        return run
    from . import app, factory  # imported late, because `--help` and the settings don't need them

    app.Gateway.__module__ = __name__  # the module from which users import it
    return factory.create_app if name == "create_app" else getattr(app, name)
