"""Every failure raises a StreamfoldError that has the provider's message and the partial answer. The table of
failures names a test for each kind of failure.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from answers_by_api import APIS, Answer, error_event, random_answer, status_body, told
from scale import pick
from servers import END, STREAM, answer, framed, sends, serving
from streamfold import APIError, Reply
from tables import each_row

BOUND_BY = [
    "project/test_failures.py::test_the_table_is_true",
    "project/test_failures.py::test_every_test_that_is_named_exists",
    "project/test_failures.py::test_every_error_of_a_request_is_in_the_table",
    "net/test_odd_servers.py",
]
pytestmark = [pytest.mark.transports, pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")]
MESSAGE = 'Zu viel los 日本 <b>&amp; %s {} "quoted" \\ path'
CLOCKS = {"connect": 5.0, "first_event": 5.0, "read": 5.0, "stall": 5.0}
JSON = "Content-Type: application/json"


async def ask(sent: bytes, api: str, **options: Any) -> Reply | Exception:
    """What comes of an answer of these bytes, after which the server hangs up."""
    async with serving(sends(sent)) as server, server.provider(adapter=api, timeouts=CLOCKS) as provider:
        with anyio.fail_after(30):
            try:
                return await provider.chat("Hi", **options)
            except Exception as error:  # whatever it is: that is the question
                return error


def check(failure: Any, message: str = "", partial: str = "") -> None:
    assert isinstance(failure, APIError), repr(failure)
    assert failure.provider
    assert isinstance(failure.retryable, bool)
    assert message in str(failure)
    assert message in failure.message
    if partial:
        assert failure.partial is not None
        assert failure.partial.text == partial
    if failure.partial is not None:
        assert failure.partial.tool_calls == []


STATUSES = [
    "400 Bad Request", "401 No", "402 Pay", "403 No", "404 No", "409 Conflict", "413 Big", "418 I'm a teapot",
    "422 No", "429 Slow", "451 Law", "499 ", "500 Oh", "503 Busy", "529 Full", "599 ?",
]  # fmt: skip


@each_row("status", STATUSES)
async def test_a_status_with_a_message(status: str) -> None:
    """Any status of an error, in the words of any API."""
    for api in APIS:
        check(await ask(answer(status, status_body(api, MESSAGE), JSON), api), MESSAGE)


BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", ""),
    "text": (MESSAGE.encode(), "Zu viel los"),
    "page": (b"<!doctype html><html><title>Bad Gateway</title><h1>Bad Gateway</h1></html>", ""),
    "bytes": (bytes(range(256)) * 9, ""),
    "latin-1": ('{"error": {"message": "Zu sp\xe4t"}}'.encode("latin-1"), "Zu sp"),
    "a string": (b'"too busy"', "too busy"),
    "error is text": (b'{"error": "too busy"}', "too busy"),
    "detail": (b'{"detail": "too busy"}', "too busy"),
    "details": (b'{"detail": [{"loc": ["body"], "msg": "too busy"}]}', "too busy"),
    "message": (b'{"object": "error", "message": "too busy"}', "too busy"),
    "list": (b'[{"error": {"code": 503, "message": "too busy", "status": "UNAVAILABLE"}}]', "too busy"),
    "deep": (b'{"error":' * 3000 + b"1" + b"}" * 3000, ""),
    "half": (b'{"error": {"message": "too bu', "too bu"),
    "large": (b'{"error": {"message": "too busy", "more": "' + b"x" * 300_000 + b'"}}', ""),
    "null": (b"null", ""),
    "odd": (b'{"error": {"message": {"a": ["too busy"]}, "code": [1], "type": 5}}', "too busy"),
}


@each_row("body", BODIES)
async def test_a_status_with_any_body(body: str) -> None:
    """Whatever stands in for an error object: ours, with what can be read of it."""
    for api in APIS:
        check(await ask(answer("503 Busy", BODIES[body][0], JSON), api), BODIES[body][1])


@each_row("api", APIS)
async def test_an_error_inside_the_stream(api: str) -> None:
    """The message that the server sent in its stream, and the text that came before it."""
    stream = told(api, Answer(("Half ", "an ans"), (("id-0", "f", {"x": 1}),)), random.Random(5))
    for at in range(1, stream.end + 1, 1 if api == "gemini" else 3):
        body = framed(*stream.events[:at], error_event(api, MESSAGE)) + END
        check(await ask(STREAM + body, api), MESSAGE, stream.text_before(at))


@each_row("api", APIS)
async def test_an_error_as_the_whole_answer(api: str) -> None:
    """A status of 200 whose body is an error object, or one event with it."""
    check(await ask(answer("200 OK", status_body(api, MESSAGE), JSON), api), MESSAGE)
    check(await ask(STREAM + framed(error_event(api, MESSAGE)) + END, api), MESSAGE)


Damage = Callable[[bytes, random.Random], bytes]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def leave_out(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data)), rng.randint(1, 30)
    return data[:at] + data[at + size :]


def put_in(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    odd = [
        b"\r\n\r\n",
        b"\0\0",
        b"HTTP/1.1 200 OK\r\n",
        b"ffffffffffffffffff\r\n",
        b"-1\r\n",
        b"\xff\xfe",
        rng.randbytes(20),
    ]
    return data[:at] + rng.choice(odd) + data[at:]


def again(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data)), rng.randint(1, 200)
    return data[: at + size] + data[at:]


HEADS = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-16\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Encoding: nonsense\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 999 \xff\xfe\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: \xff://[\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: minus one\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 200_000 + b"\r\n",
    b"HTTP/9.9 200 OK\r\n",
    b"SSH-2.0-OpenSSH_9.9\r\n",
    b"\x16\x03\x01\x02\x00\x01",
    b"HTTP/1.1 429 \r\nRetry-After: in a while\r\nx-ratelimit-reset-requests: \xff\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    b"HTTP/1.1 103 Early Hints\r\n",
]


@each_row("head", range(len(HEADS)))
async def test_an_odd_head(head: int) -> None:
    """Before a good body: the answer, or one of our errors."""
    body = told("chat", Answer(("Hi",), ()), random.Random(0)).body
    found = await ask(HEADS[head] + b"Connection: close\r\n\r\n" + body, "chat")
    if not isinstance(found, Reply):
        check(found)


@each_row("damage", [cut, flip, leave_out, put_in, again])
@each_row("api", APIS)
async def test_bytes_that_are_damaged(api: str, damage: Damage) -> None:
    """Anywhere in a response, its head included: an answer, or one of our errors, and nothing of other libraries."""
    for seed in range(pick(60, 5)):
        rng = random.Random(f"{api} {seed} {damage.__name__}")
        stream = told(api, random_answer(rng), rng)
        found = await ask(damage(STREAM + framed(*stream.events) + END, rng), api)
        if not isinstance(found, Reply):
            check(found)
