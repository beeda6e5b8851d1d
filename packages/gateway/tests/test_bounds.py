"""What one client may take of the gateway, so that the others are served too."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, call, entry, fin, fold, text
from gateways import CHAT, PATHS, asking, behind
from mirror import APIS, comments, read
from streamfold import Message, Provider
from streamfold.recording import Recording, ReplayTransport
from streamfold_gateway import gateway
from tables import each_row

HELLO = text("Hello") + fin("stop") + DONE
CALL = b'{"index":0,"id":"a","extra_content":{"x":NaN},"function":{"name":"f","arguments":"{}"}}'
BOTH = pytest.mark.parametrize("api", APIS)


def scope_of(body_length: int) -> dict[str, Any]:
    headers = [(b"content-length", str(body_length).encode())]
    return {"type": "http", "method": "POST", "path": CHAT, "headers": headers, "query_string": b"", "root_path": ""}


def app_behind(upstream: httpx.AsyncClient, **options: Any) -> Any:
    provider = Provider.from_config({"base_url": "http://u/v1", "model": "m"}, http_client=upstream)
    return gateway({"main": provider}, **options)


async def status_of(app: Any, pieces: list[bytes], *, silent_after: bool = False) -> int:
    """The status of the answer to a request whose body comes in these pieces, and then stops or ends."""
    sent: list[Any] = []
    left = list(pieces)

    async def receive() -> Any:
        if not left:
            await anyio.sleep_forever()
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left) or silent_after}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope_of(sum(map(len, pieces))), receive, send)
    status: int = sent[0]["status"]
    return status


# --- bodies -----------------------------------------------------------------------------------------------------------


async def test_adversary_20_a_body_that_does_not_come() -> None:
    """A client has a clock for its body, and takes nobody's place until the body is there."""
    transport = ReplayTransport([Recording("test", HELLO)] * 2)
    async with httpx.AsyncClient(transport=transport) as upstream:
        app = app_behind(upstream, max_requests=1, body_timeout=0.2)
        statuses: list[int] = []

        async def never_ends() -> None:
            statuses.append(await status_of(app, [b"{"], silent_after=True))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(never_ends)
            await anyio.wait_all_tasks_blocked()
            assert app.running == 0
            assert await status_of(app, [json.dumps(asking(CHAT)).encode()]) == 200
        assert statuses == [408] * 5


async def test_a_body_that_keeps_coming_gets_more_time() -> None:
    """The clock moves on with the bytes, so that a slow line can send a large body."""
    transport = ReplayTransport([Recording("test", HELLO)])
    body = json.dumps(asking(CHAT)).encode() + b" " * 2**20
    pieces = [body[at : at + 2**17] for at in range(0, len(body), 2**17)]
    async with httpx.AsyncClient(transport=transport) as upstream:
        app = app_behind(upstream, body_timeout=0.001)
        assert await status_of(app, pieces) == 200


async def test_bytes_of_all_bodies_together() -> None:
    """Bodies that are waited for and bodies that are being answered share one allowance; it comes back afterwards."""
    transport = ReplayTransport([Recording("test", HELLO)] * 2)
    async with httpx.AsyncClient(transport=transport) as upstream:
        app = app_behind(upstream, max_total_body_bytes=1000, body_timeout=0.2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: status_of(app, [b" " * 950], silent_after=True))
            await anyio.wait_all_tasks_blocked()
            assert await status_of(app, [json.dumps(asking(CHAT)).encode()]) == 503
        for _ in range(2):
            assert await status_of(app, [json.dumps(asking(CHAT)).encode()]) == 200


@BOTH
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_never_reads(api: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It loses its place after a while, and the provider's connection is closed."""
    transport = ReplayTransport([Recording("test", HELLO)])
    body = json.dumps(asking(PATHS[api], stream=stream)).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if not messages:
            await anyio.sleep_forever()
        return messages.pop()

    async def send(_: Any) -> None:
        await anyio.sleep_forever()

    caplog.set_level(logging.INFO, "streamfold.gateway")
    async with httpx.AsyncClient(transport=transport) as upstream:
        app = app_behind(upstream, send_timeout=0.05)
        with anyio.fail_after(5):
            await app({**scope_of(len(body)), "path": PATHS[api]}, receive, send)
        assert (app.running, transport.open_streams) == (0, 0)
    assert "client disconnected" in caplog.text


# --- numbers ----------------------------------------------------------------------------------------------------------


@each_row(
    ("path", "members"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "x"}] * 4}),
        (CHAT, {"messages": [{"role": "assistant", "tool_calls": [{}, {}, {}]}]}),
        (PATHS["responses"], {"input": [{"role": "user", "content": "x"}] * 4}),
        (PATHS["responses"], {"tools": [{"type": "function", "name": "f", "parameters": {"properties": {"a": {}}}}]}),
    ],
)
async def test_objects_in_a_request(path: str, members: Any) -> None:
    """Messages, calls, tools and what is in them are counted before anything is done with them."""
    async with behind(HELLO, max_objects=4) as client:
        answer = await client.post(path, json=asking(path, **members))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "too many JSON objects: 5; allowed are 4"


SHAPES: dict[str, bytes] = {
    "empty lists": b"[],",
    "nested lists": b"[[[[]]]],",
    "empty objects": b"{},",
    "objects with a member": b'{"a":1},',
    "strings": b'"0123456789abcde",',
    "numbers": b"1,",
    "strings with escapes": b'"a","\\\\",',
}


@each_row("unit", SHAPES)
async def test_a_body_is_bounded_by_what_it_becomes(unit: str) -> None:
    """Its lists, objects and entries are counted before it is parsed: a short text can become a large value."""
    body = b'{"model":"main","messages":[{"role":"user","content":"Hi"}],"x":[' + SHAPES[unit] * 20_000 + b"0]}"
    async with behind(HELLO, HELLO, max_body_bytes=max(2 * len(body), 600_000)) as client:
        refused = await client.post(CHAT, content=body)
    async with behind(HELLO, max_body_bytes=200 * len(body)) as client:
        answered = await client.post(CHAT, content=body)
    message = "the parsed request body is larger than the allowed"
    assert (refused.status_code, answered.status_code) == (413, 200)
    assert refused.json()["error"]["message"].startswith(message)


async def test_a_long_text_is_not_counted_as_structure() -> None:
    """Brackets, commas and quotes in a string are text, also in a body that is almost as large as allowed."""
    content = '[{"a": "\\",},]' * 50_000
    body = json.dumps(asking(CHAT, content)).encode()
    async with behind(HELLO, max_body_bytes=len(body) + 1000) as client:
        answer = await client.post(CHAT, content=body)
        sent = json.loads(client.upstream.requests[0].content)  # type: ignore[attr-defined]
    assert answer.status_code == 200
    assert sent["messages"][0]["content"] == content


async def test_what_bodies_become_counts_together() -> None:
    """Until each is answered: then its memory is free again."""
    body = b'{"model":"main","messages":[{"role":"user","content":"Hi"}],"x":[' + b"[]," * 1000 + b"0]}"
    async with behind(HELLO, HELLO, max_total_body_bytes=50_000) as client:
        assert (await client.post(CHAT, content=body)).status_code == 503
    async with behind(HELLO, HELLO, max_total_body_bytes=150_000) as client:
        assert [(await client.post(CHAT, content=body)).status_code for _ in range(2)] == [200, 200]


@pytest.mark.slow
@each_row(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
async def test_deep_nesting(opening: bytes, closing: bytes) -> None:
    """A body is answered or refused with a 400 at every depth."""
    async with behind(*[HELLO] * 80) as client:
        for depth in (50, *range(225, 255), *range(460, 500), 2000, 100_000):
            nested = opening * depth + b"0" + closing * depth
            body = b'{"model":"main","messages":[{"role":"user","content":"Hi"}],"x":' + nested + b"}"
            status = (await client.post(CHAT, content=body)).status_code
            assert (depth, status) == (depth, 400 if depth > 50 and status != 200 else 200)


async def test_adversary_19_a_model_name_as_long_as_a_body() -> None:
    """It is refused by its length, and neither compared with other names nor sent back."""
    body = b'{"model":"' + b"abcdefghij" * 100_000 + b'","messages":[{"role":"user","content":"x"}]}'
    async with behind(HELLO) as client:
        answer = await client.post(CHAT, content=body)
        assert (await client.get(f"/v1/models/{'m' * 5000}")).status_code == 404
    assert (answer.status_code, len(answer.content) < 500) == (400, True)


@each_row(
    ("allowed", "fits", "refused"),
    [
        (["*"], ["main", "main:any", "small"], []),
        ([], ["main", "small"], ["main:any"]),
        (["main:k2*"], ["main", "main:k2.6", "small"], ["main:K2", "main:other"]),
    ],
)
async def test_models_that_clients_may_ask_for(allowed: list[str], fits: list[str], refused: list[str]) -> None:
    """Other models of a provider are allowed by pattern; its own one and those of aliases always are."""
    async with behind(*[HELLO] * 3, allow_models=allowed, aliases={"small": "main:tiny"}) as client:
        for name in [*fits, *refused]:
            answer = await client.post(CHAT, json=asking(CHAT, model=name))
            listed = await client.get(f"/v1/models/{name}")
            assert (answer.status_code, listed.status_code) == ((200, 200) if name in fits else (404, 404))


# --- numbers that JSON does not have ----------------------------------------------------------------------------------


@BOTH
@each_row("written", ["NaN", "Infinity", "-Infinity", "1e400"])
async def test_infinity_in_a_request(api: str, written: str) -> None:
    """It is no JSON, and refused as such wherever it stands."""
    for member in ("temperature", "unknown"):
        body = json.dumps(asking(PATHS[api], **{member: "*"})).replace('"*"', written)
        async with behind(HELLO) as client:
            answer = await client.post(PATHS[api], content=body)
            assert answer.status_code == 400
            assert client.upstream.requests == []  # type: ignore[attr-defined]


@BOTH
@each_row("stream", [True, False])
@each_row(
    ("where", "body"),
    [
        ("usage", b'{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"t":NaN}}'),
        ("annotations", b'{"content":"hi","annotations":[{"x":1e400}]},"finish_reason":"stop"}]}'),
        ("tool_calls[0]", b'{"content":"hi","tool_calls":[%s]},"finish_reason":"tool_calls"}]}' % CALL),
    ],
)  # fmt: skip
async def test_adversary_32_infinity_in_an_answer(api: str, stream: bool, where: str, body: bytes) -> None:
    """A good answer stays one: the number becomes null, and a warning names its place."""
    async with behind(b'data: {"choices":[{"delta":%s\n\n' % body + DONE) as client:
        answer = await client.post(PATHS[api], json=asking(PATHS[api], stream=stream))
    assert answer.status_code == 200
    assert read(api, answer.content).text == "hi"
    told = " ".join(comments(answer.content)) if stream else answer.headers["x-streamfold-warnings"]
    assert f"provider_data_dropped: {where}: JSON can't express NaN and Infinity" in told
    assert b"NaN" not in answer.content.replace(b"express NaN", b"")


@BOTH
async def test_infinity_in_what_is_written_live(api: str) -> None:
    """A call is written with its first piece, and what its provider wants back has null in place of the number."""
    head = b'{"index":0,"id":"a","extra_content":{"x":NaN},"function":{"name":"f","arguments":"{\\"x\\":"}}'
    body = b'data: {"choices":[{"delta":{"tool_calls":[%s]}}]}\n\n' % head + call(entry(0, arguments="1}"))
    async with behind(body + fin("tool_calls") + DONE) as client:
        answer = await client.post(PATHS[api], json=asking(PATHS[api], stream=True))
    assert [made.arguments for made in read(api, answer.content).tool_calls] == [{"x": 1}]
    assert b"NaN" not in answer.content.replace(b"express NaN", b"")


async def test_infinity_goes_back_as_null() -> None:
    """A conversation can go on with an answer that has numbers which no request may have."""
    annotations = b'data: {"choices":[{"delta":{"content":"hi","annotations":[{"x":NaN}]},"finish_reason":"stop"}]}\n\n'
    reply = fold(annotations + DONE)
    assert reply.message.extras == {"annotations": [{"x": None}]}
    assert Message.from_json(reply.message.to_json()) == reply.message
