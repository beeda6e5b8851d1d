"""The replay server, over real sockets on the loopback interface."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import anyio
import anyio.abc
import httpx
import pytest

from folding import DONE, chunk, fin, fold, text
from streamfold import ConfigError
from streamfold.recording import Cut, Recording, find_recording
from streamfold.testing.replay_server import serve_replay
from tables import each_row

A = Recording("case/a", text("A") + fin("stop") + DONE, headers={"x-request-id": "r1", "content-length": "1"})
B = Recording("case/b", text("B") + fin("stop") + DONE)
SLOW = Recording("case/slow", text("slow") + DONE, cuts=(Cut(len(text("slow")), 0.0), Cut(len(DONE), 3600.0)))


def client(base_url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=30)


async def ask(base_url: str, model: str = "m", path: str = "chat/completions") -> httpx.Response:
    async with client(base_url) as http:
        return await http.post(path, json={"model": model})


async def connect(base_url: str) -> anyio.abc.SocketStream:
    where = urlsplit(base_url)
    assert where.port
    return await anyio.connect_tcp("127.0.0.1", where.port)


def request_for(model: str) -> bytes:
    body = json.dumps({"model": model}).encode()
    return b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def rest(stream: anyio.abc.SocketStream) -> bytes:
    """What comes until the other side closes."""
    got = b""
    while True:
        try:
            got += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return got


async def raw(base_url: str, request: bytes) -> bytes:
    """What the server answers to these bytes, until it closes."""
    async with await connect(base_url) as stream:
        await stream.send(request)
        return await rest(stream)


async def test_answers_in_order() -> None:
    """Two requests over one client get the two recordings, on both paths, below any prefix."""
    async with serve_replay([A, B]) as base_url, client(base_url) as http:
        first = await http.post("chat/completions", json={"model": "m"})
        second = await http.post(base_url + "/deeper/responses?x=1", content=b"not JSON")
    assert (first.status_code, first.content) == (200, A.body)
    assert (first.headers["content-type"], first.headers["x-request-id"]) == ("text/event-stream", "r1")
    assert "content-length" not in first.headers
    assert second.content == B.body


async def test_the_paths_of_all_apis() -> None:
    """Anthropic's and Gemini's too, whose model stands in the path."""
    async with serve_replay([A, B]) as base_url, client(base_url) as http:
        named = await http.post(f"models/{B.name.rpartition('/')[2]}:streamGenerateContent?alt=sse", json={})
        first = await http.post("messages", json={"model": "m"})
    assert (named.content, first.content) == (B.body, A.body)


async def test_one_request_too_many() -> None:
    """When all were sent, the server says so instead of beginning anew."""
    async with serve_replay(A) as base_url:
        assert (await ask(base_url)).content == A.body
        refused = await ask(base_url)
    assert refused.status_code == 404
    assert refused.json()["error"]["message"] == (
        "every recording was sent once. To get a recording again, send its name as the model: case/a"
    )


@pytest.mark.parametrize("model", ["case/b", "b"])
async def test_chosen_by_model(model: str) -> None:
    """A recording that is named as the model is sent as often as it is asked for, and the order goes on without it."""
    async with serve_replay([A, B]) as base_url:
        asked = [(await ask(base_url, name)).content for name in (model, model, "m", model, "m")]
    assert asked == [B.body, B.body, A.body, B.body, B.body]


async def test_one_http_chunk_per_piece() -> None:
    """Each piece is a chunk of its own, and the last chunk closes the body."""
    async with serve_replay(A) as base_url:
        answer = await raw(base_url, b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"content-type: text/event-stream",
        b"x-request-id: r1",
        b"transfer-encoding: chunked",
        b"connection: close",
    ]
    assert (
        body
        == b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (text("A"), fin("stop"), DONE)) + b"0\r\n\r\n"
    )


async def test_demo_at_a_pace() -> None:
    """The demonstration, at a pace, folds to what it shows."""
    recording = find_recording("demo/parallel_calls")
    async with serve_replay(recording, speed=5000) as base_url:
        reply = fold((await ask(base_url)).content)
    assert [call.id for call in reply.tool_calls] == [call["id"] for call in recording.expect["calls"]]


@pytest.mark.parametrize("model", ["slow", "large"])
async def test_client_that_leaves_early(model: str) -> None:
    """It ends its own connection, whether the server was waiting or sending; the next client is served."""
    large = Recording("case/large", b"".join(chunk({"content": "x" * 1000}) for _ in range(2000)) + DONE)
    async with serve_replay([SLOW, large, A]) as base_url:
        async with client(base_url) as http, http.stream("POST", "responses", json={"model": model}) as response:
            assert response.status_code == 200
        async with await connect(base_url) as stream:
            await stream.send(request_for(model))
            assert await stream.receive()
        assert (await ask(base_url, "a")).content == A.body


async def test_leaving_ends_what_is_being_sent() -> None:
    """At the end of the context a connection that is still being served is closed, without waiting for its pace."""
    with anyio.fail_after(60):
        async with serve_replay(SLOW, speed="recorded") as base_url:
            stream = await connect(base_url)
            await stream.send(request_for("slow"))
            got = await stream.receive()
        got += await rest(stream)
        await stream.aclose()
        assert not got.endswith(b"0\r\n\r\n")
        with pytest.raises(OSError):
            await connect(base_url)


async def test_clients_at_the_same_time() -> None:
    """A slow answer keeps nobody else waiting."""
    quick = Recording("case/quick", B.body, cuts=(Cut(len(B.body), 0.0),))
    with anyio.fail_after(60):
        async with (
            serve_replay([SLOW, quick], speed="recorded") as base_url,
            client(base_url) as http,
            http.stream("POST", "responses", json={"model": "slow"}) as response,
        ):
            assert response.status_code == 200
            assert (await ask(base_url, "quick")).content == B.body


async def test_unknown_path() -> None:
    """Another path or method is a 404 with a JSON error in the provider's shape."""
    async with serve_replay(A) as base_url, client(base_url) as http:
        answers = [await http.post("embeddings", json={}), await http.get("chat/completions"), await http.get("/")]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
        error = answers[0].json()["error"]
        assert error["message"].startswith(
            "POST /v1/embeddings is not supported. Supported: POST <anything>/chat/completions or"
        )
        assert (await ask(base_url)).content == A.body


@each_row(
    ("request_bytes", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"POST /v1/responses HTTP/2\r\n\r\n", 400),
        (b"POST /v1/responses HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
        (b"POST /v1/responses HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /v1/responses HTTP/1.1\r\nx: " + b"y" * 70_000, 431),
    ],
)
async def test_unreadable_request(request_bytes: bytes, status: int) -> None:
    """What is no request is refused with the status that says so."""
    async with serve_replay(A) as base_url:
        answer = await raw(base_url, request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


async def test_client_that_says_nothing_whole() -> None:
    """Half a request and then the end is nobody's error."""
    async with serve_replay(A) as base_url:
        for half in (b"", b"POST /v1/resp", b"POST /v1/responses HTTP/1.1\r\ncontent-length: 9\r\n\r\n{}"):
            async with await connect(base_url) as stream:
                if half:
                    await stream.send(half)
        assert (await ask(base_url)).content == A.body


async def test_broken_recording_breaks() -> None:
    """A recording of a connection that broke off ends without the last chunk."""
    async with serve_replay(Recording("case/broken", text("half"), broken=True)) as base_url:
        with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
            await ask(base_url)


async def test_recorded_status() -> None:
    """A recorded refusal is a refusal."""
    refusal = Recording(
        "case/429", b'{"error":{"message":"slow down"}}', status=429, headers={"content-type": "application/json"}
    )
    async with serve_replay(refusal) as base_url:
        answer = await ask(base_url)
    assert (answer.status_code, answer.reason_phrase) == (429, "Too Many Requests")
    assert answer.json()["error"]["message"] == "slow down"


async def test_error_of_the_caller() -> None:
    """An exception in the block comes out as it is, not wrapped in a group."""
    with pytest.raises(ZeroDivisionError):
        async with serve_replay(A):
            raise ZeroDivisionError


async def test_loopback_only() -> None:
    """It does not listen where others could hear."""
    for host in ("0.0.0.0", "192.0.2.1", "example.org", ""):
        with pytest.raises(ConfigError, match="on loopback addresses"):
            async with serve_replay(A, host=host):
                pytest.fail("it listens")
    with pytest.raises(ConfigError, match="no recording was passed"):
        async with serve_replay([]):
            pytest.fail("it serves nothing")
