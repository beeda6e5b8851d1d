"""An answer that is kept while it is made: what the gateway writes is kept, and whoever wants to may read along."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio

from .asking import Sent
from .events import EventReader, KeptEvent, broken_off
from .store import KeptResponse, ResponseStore

__all__ = ["Attached", "Running"]

_logger = logging.getLogger("streamfold.gateway")


class Running:
    """An answer that goes on without its client. It takes the place of the client: the gateway writes to `send`.

    Args:
        kept: the response before it has begun.
        about: members of the response that the gateway's emitter does not know.

    Attributes:
        kept: the response as it is so far.
        events: those that have come.
        refused: the response with an error that came instead of an answer; None too where nobody waits for it.
        ended: whether nothing more will come.
    """

    def __init__(self, store: ResponseStore, kept: KeptResponse, about: Mapping[str, Any]) -> None:
        self._store = store
        self._about = about
        self._reader = EventReader(about)
        self._head: Mapping[str, Any] = {}
        self._gone = anyio.Event()
        self._changed = anyio.Event()
        self._taking = anyio.Lock()  # an answer has one end, whoever comes first: its provider, or who cancels it
        self.kept = kept
        self.events: list[KeptEvent] = []
        self.refused: Sent | None = None
        self.ended = False

    async def receive(self) -> Any:
        """Waits until the answer is to be given up, and says that the client is gone."""
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Takes what the gateway sends."""
        if message["type"] == "http.response.start":
            self._head = message
        elif self._head["status"] != 200 and not self._about["background"]:
            async with self._taking:
                await self._store.delete(self.kept.id, self.kept.owner)  # first: whoever is told may ask for it
                self.refused = self._head["status"], self._head["headers"], message["body"]
                self._tell(ended=True)
        elif self._head["status"] != 200:
            await self._end_with("failed", error=_error_in(message["body"]))
        else:
            async with self._taking:
                await self._take(list(self._reader.feed(message.get("body", b""))))

    async def finish(self) -> None:
        """Ends the answer as it is, if it has no end yet."""
        await self._end_with("failed", error={"code": "server_error", "message": "the answer broke off"})

    async def cancel(self) -> None:
        """Gives the answer up, with what had come of it, and closes the provider's connection."""
        await self._end_with("cancelled")
        self._gone.set()

    def log_failure(self) -> None:
        """Logs the exception that is being handled: there is no client to tell of it."""
        _logger.exception("%s: failed: unexpected error", self.kept.id)

    async def next_change(self, after: int) -> None:
        """Waits until there is an event with a higher number, or the end."""
        changed = self._changed
        if not self.ended and (not self.events or self.events[-1].number <= after):
            await changed.wait()

    async def _take(self, read: list[tuple[KeptEvent, dict[str, Any] | None]]) -> None:
        if not read or self.ended:
            return
        events = [kept for kept, _ in read]
        states = [state for _, state in read if state is not None]
        await self._store.append(self.kept.id, events, states[-1] if states else None)
        self.kept = replace(self.kept, response=states[-1]) if states else self.kept
        self.events += events
        self._tell(ended=events[-1].last)

    async def _end_with(self, status: str, **members: Any) -> None:
        async with self._taking:
            response, last = broken_off(self.kept.response, self.events, status, **members)
            await self._take([(last, response)])

    def _tell(self, *, ended: bool) -> None:
        self.ended = ended
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class Attached:
    """Passes an answer on to its client, and keeps it when it is whole.

    Args:
        send: to the client.
        kept: the response before it has begun.
    """

    def __init__(self, send: Any, store: ResponseStore, kept: KeptResponse, about: Mapping[str, Any]) -> None:
        self._send = send
        self._store = store
        self._kept = kept
        self._about = about
        self._reader = EventReader(about)
        self._head: dict[str, Any] = {}
        self._events: list[KeptEvent] = []

    async def send(self, message: Any) -> None:
        """Takes what the gateway sends."""
        if message["type"] == "http.response.start":
            self._head = message
            if self._streams or message["status"] != 200:
                await self._send(message)
        elif self._head["status"] != 200:
            await self._send(message)
        elif self._streams:
            await self._send({**message, "body": await self._events_in(message.get("body", b""))})
        else:
            await self._whole(message)

    @property
    def _streams(self) -> bool:
        return any(name == b"content-type" and value.startswith(b"text/event") for name, value in self._head["headers"])

    async def _events_in(self, data: bytes) -> bytes:
        read = list(self._reader.feed(data))
        self._events += [kept for kept, _ in read]
        if read and read[-1][0].last:
            await self._keep(read[-1][1] or {}, resumable=True)
        return b"".join(kept.data for kept, _ in read) if read else data

    async def _whole(self, message: Any) -> None:
        response = {**json.loads(message["body"]), **self._about}
        await self._keep(response, resumable=False)
        body = json.dumps(response, ensure_ascii=False).encode()
        sizes = [(b"content-length", str(len(body)).encode())]
        headers = [pair for pair in self._head["headers"] if pair[0] != b"content-length"]
        await self._send({**self._head, "headers": headers + sizes})
        await self._send({**message, "body": body})

    async def _keep(self, response: dict[str, Any], *, resumable: bool) -> None:
        kept = self._kept
        await self._store.put(replace(kept, id=response["id"], response=response, resumable=resumable))
        await self._store.append(response["id"], self._events, None)


def _error_in(body: bytes) -> dict[str, Any]:
    error = json.loads(body).get("error") or {}
    return {"code": error.get("code") or error.get("type") or "server_error", "message": error.get("message", "")}
