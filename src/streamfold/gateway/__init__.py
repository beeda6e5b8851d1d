"""An HTTP server for clients that speak either OpenAI wire, with the configured providers behind it.

Whatever a provider's stream is like, what goes out is what this library makes of it: texts as they come, and calls
whole, once, after the answer ended in order. Needs the extra `gateway`.

    gateway(...)              an ASGI app, to be served by itself or mounted in another
    streamfold serve          the same from the command line, with uvicorn
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..values import ConfigError

if TYPE_CHECKING:
    from .app import Gateway, gateway
    from .serve import run

__all__ = ["Gateway", "gateway", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import app, serve
    except ImportError as exc:
        if (exc.name or "").partition(".")[0] != "starlette":
            raise
        raise ConfigError("the gateway needs its extra: pip install 'streamfold[gateway]'") from exc
    return serve.run if name == "run" else getattr(app, name)
