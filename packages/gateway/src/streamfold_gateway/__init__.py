"""An HTTP server that speaks the APIs of OpenAI, Anthropic and Gemini, in front of the configured providers.

With every provider, the gateway sends text to the client as it arrives, and each tool call exactly once.

    gateway(...)              returns an ASGI app, which can be served or mounted
    create_app()              returns the app that `streamfold.toml` describes, for servers with app factories
    streamfold serve          serves that app from the command line, with granian

These modules handle a request, in this order:

    app                       the ASGI app: routes, list of models, health checks
    handler                   the life of one HTTP request
    auth                      checks the client's key, host and origin
    request_body              reads and parses the body, within limits
    apis                      parses the requests of each API, and serializes responses and errors
    models                    finds the provider for the name of a model
    rate_limits               reserves and charges tokens and cost
    answering                 sends the request to the provider and writes the response
    response_stream           the connection to the client during a response
    stored_responses          stores, resumes and cancels responses
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
        from .server import run  # which needs granian, as other servers of the app do not

        return run
    from . import app, factory  # neither settings nor the help of commands need them

    app.Gateway.__module__ = __name__  # from where users import it
    return factory.create_app if name == "create_app" else getattr(app, name)
