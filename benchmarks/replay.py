"""A server that sends the payloads, in a process of its own and as cheaply as Python can: the client is measured.

A response is rendered once and then written in one go, so that it costs hardly anything while a client is reading. How
it is cut is in the path, `/PAYLOAD/DELIVERY/SIZE/v1/...`, and whatever is behind that is the client's business:

    one     one event in each HTTP chunk, many of them in each TCP segment: a server that is ahead of its client
    bulk    HTTP chunks of 16 KiB: a proxy in between
    live    one event in each HTTP chunk and each TCP segment, then a pause: a model at work
    paced-N as soon as N clients have asked: 20 events per second for each, which say when they were sent

A request for one event that does not ask for a stream gets "Hello" as one JSON object.

    python benchmarks/replay.py

prints its port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from time import monotonic

from payloads import payload

BULK = 16 * 1024  # bytes
PAUSE = 0.002  # seconds between the events of a live answer
PACE = 0.05  # seconds between those of a paced one
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
WHOLE = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9},
    }
).encode()
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE)


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@cache
def rendered(name: str, delivery: str, size: int) -> tuple[bytes, ...]:
    """The segments of a response."""
    events = payload(name, size).events
    if delivery == "bulk":
        body = b"".join(events)
        pieces = [body[at : at + BULK] for at in range(0, len(body), BULK)]
    else:
        pieces = list(events)
    chunks = [http_chunk(piece) for piece in pieces]
    if delivery == "live":
        return (HEAD + chunks[0], *chunks[1:-1], chunks[-1] + LAST)
    return (HEAD + b"".join(chunks) + LAST,)


def stamped() -> bytes:
    """An event whose text is the time at which it is sent, by a clock that all processes here share."""
    choice = {"index": 0, "delta": {"content": f"{monotonic():.6f} "}, "finish_reason": None}
    line = json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]})
    return http_chunk(f"data: {line}\n\n".encode())


class Pacer:
    """Sends the events of all paced answers, each at its own moment, with one timer for all of them.

    Nothing is sent before all of the streams are there, and their events are spread evenly over the time between two.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.Transport, int]] = []
        self._due: deque[tuple[float, asyncio.Transport, int]] = deque()

    def add(self, transport: asyncio.Transport, events: int, streams: int) -> None:
        self._waiting.append((transport, events))
        if len(self._waiting) == streams:
            begin = asyncio.get_running_loop().time() + PACE
            # All have the same pace, so that whoever was sent to goes to the end of the queue.
            self._due.extend(
                (begin + PACE * number / streams, *waiting) for number, waiting in enumerate(self._waiting)
            )
            self._waiting.clear()
            self._send()

    def _send(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._due and self._due[0][0] <= now:
            due, transport, left = self._due.popleft()
            if transport.is_closing():
                continue
            if left:
                transport.write(stamped())
                self._due.append((due + PACE, transport, left - 1))
            else:
                end = {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
                transport.write(http_chunk(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode()) + LAST)
        if self._due:
            asyncio.get_running_loop().call_at(self._due[0][0], self._send)


class Connection(asyncio.Protocol):
    """Answers the requests of one connection, one after another."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, rest = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        body, self._received = rest[:length], rest[length:]
        path = lines[0].split()[1]
        if path.endswith("/1/v1/chat/completions") and b'"stream":true' not in body.replace(b" ", b""):
            self._transport.write(JSON)  # nobody wants a stream of one event
        else:
            self._answer(path)

    def _answer(self, path: str) -> None:
        try:
            _, name, delivery, size, *_ = path.split("/")
            if delivery.startswith("paced-"):
                self._transport.write(HEAD)
                self._pacer.add(self._transport, int(size), int(delivery.removeprefix("paced-")))
                return
            segments = rendered(name, delivery, int(size))
        except (KeyError, ValueError):
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        if len(segments) == 1:
            self._transport.write(segments[0])
        else:
            self._next(iter(segments).__next__, asyncio.get_running_loop().time())

    def _next(self, segment: Callable[[], bytes], due: float) -> None:
        with suppress(StopIteration):
            self._transport.write(segment())
            due = max(due + PAUSE, asyncio.get_running_loop().time())
            asyncio.get_running_loop().call_at(due, self._next, segment, due)


def allow_sockets() -> None:
    """As many open files as the system lets us have: the usual limit is just below a thousand streams."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def main() -> None:
    allow_sockets()
    loop = asyncio.get_running_loop()
    pacer = Pacer()
    server = await loop.create_server(lambda: Connection(pacer), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)
        server.close()


if __name__ == "__main__":
    asyncio.run(main())
