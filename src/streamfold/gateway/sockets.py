"""WebSockets, which are not served: a client that asks for one is told so at once, and goes on with plain requests.

Codex opens a WebSocket for the Responses API where its provider is said to support them, and takes a 426 for "not
here"; after any other refusal it tries again, seven times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..adapters.emitting import error_body, json_text
from .failures import Refused, refused


def wants_socket(headers: Mapping[str, str]) -> bool:
    """Returns whether a request asks for a WebSocket: a server without them hands it on as any other."""
    return headers.get("upgrade", "").lower() == "websocket"


def no_sockets() -> Refused:
    """Returns the refusal."""
    return refused(426, "WebSockets are not served here: send a POST", connection="close")


async def refuse_socket(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
    """Refuses a WebSocket that the server is ready to open."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1000, "reason": ""})  # a 403
        return
    refusal = no_sockets()
    body = json_text(error_body(refusal.info)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
