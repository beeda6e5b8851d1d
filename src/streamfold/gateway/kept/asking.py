"""The requests to kept responses, and the ASGI messages by which they are handed on and answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from time import time
from typing import Any, TypeAlias

import anyio
import anyio.to_thread

from ...text import parse_object
from ..bodies import ClientGone, Receive
from ..clients import Client
from ..logs import RequestLog
from ..sink import Send

__all__ = ["Handler", "Request", "Sent", "parsed", "relay", "replayed", "while_there"]

_LARGE = 2**18  # bytes of a body above which it is parsed beside the event loop

Sent: TypeAlias = tuple[int, list[tuple[bytes, bytes]], bytes]  # status, headers and body of a response


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        client: who asks.
    """

    scope: Any
    receive: Receive
    send: Send
    client: Client
    log: RequestLog
    created: int = field(default_factory=lambda: int(time()))

    @property
    def caller(self) -> str:
        """Whose the responses are that this request is about."""
        return self.client.id


Handler: TypeAlias = Callable[[Request], Awaitable[None]]


async def parsed(raw: bytes) -> dict[str, Any] | None:
    """Returns the JSON object in a body; None for anything else, of which the gateway says what is wrong with it."""
    try:
        text = raw.decode("utf-8-sig")
        value = await anyio.to_thread.run_sync(parse_object, text) if len(raw) > _LARGE else parse_object(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def replayed(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that gives a body, and then what comes after it."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return first.pop() if first else await receive()

    return replay


async def relay(send: Send, response: Sent) -> None:
    """Sends a response that was made for somebody else."""
    status, headers, body = response
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def while_there(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Does something for as long as the client is there. Raises ClientGone if it leaves before the end."""
    done = False

    async def watch(scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, tasks.cancel_scope)
        await work
        done = True
        tasks.cancel_scope.cancel()
    if not done:
        raise ClientGone
