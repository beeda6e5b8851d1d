"""Recording: what is written of an exchange, what is not, and what is left if it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, product
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import scale
from folding import DONE, call, entry, fin, fold, text
from streamfold import ConfigError, Provider, StreamChunk, StreamError
from streamfold.faults import cut_after, reset, status
from streamfold.recording import (
    Cut,
    FaultTransport,
    Recording,
    RecordingDraft,
    RecordTransport,
    ReplayTransport,
    SentExchange,
    find_recording,
    split_body,
)
from streamfold.testing.replay_server import serve_replay

BODY = text("Hel") + text("lo") + fin("stop") + DONE
HELLO = Recording("case/hello", BODY)
URL = "https://provider.example/v1/chat/completions"
# httpx leaves generators to the garbage collector when a stream is closed early; trio says so each time.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

TLS = httpx.create_ssl_context()
OLD = Recording("old/x", b"data: old\n\n", origin="before", cuts=(Cut(4, 0.0), Cut(7, 1.0)), expect={"text": "old"})


class Scripted(httpx.AsyncBaseTransport):
    """Answers every request with these pieces; a callable among them is awaited."""

    def __init__(self, *script: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.script = script
        self.status = status
        self.headers = headers or {"content-type": "text/event-stream"}
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(self.status, headers=self.headers, stream=_Script(self.script))

    async def aclose(self) -> None:
        self.closed = True


class _Script(httpx.AsyncByteStream):
    def __init__(self, script: Iterable[Any]) -> None:
        self._script = iter(script)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for item in self._script:
            if isinstance(item, bytes):
                return item
            if isinstance(item, Exception):
                raise item
            await item()
        raise StopAsyncIteration


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def post(transport: httpx.AsyncBaseTransport, url: str = URL, **request: Any) -> bytes:
    async with httpx.AsyncClient(transport=transport, timeout=30) as client:
        return (await client.post(url, **(request or {"json": {"model": "m"}}))).content


def network() -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(verify=TLS)


async def chunks(base_url: str, transport: httpx.AsyncBaseTransport) -> list[StreamChunk]:
    async with httpx.AsyncClient(transport=transport) as client:
        provider = Provider.from_config({"base_url": base_url, "model": "m"}, http_client=client)
        return [chunk async for chunk in provider.chat_stream("Hello!")]


# --- what is written -------------------------------------------------------------------------------------------------


async def test_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Body and pieces as they came, the headers that matter, the request, where and when, and what it folds to."""
    clock = count(100)
    monkeypatch.setattr("streamfold.recording.record.anyio.current_time", lambda: next(clock) / 4)
    kept = {"content-type": "text/event-stream", "x-request-id": "r1"}
    headers = {**kept, "set-cookie": "a=b", "openai-organization": "o", "date": "today"}
    made = [BODY[:100], b"", BODY[100:300], BODY[300:]]
    transport = RecordTransport(Scripted(*made, headers=headers), tmp_path / "new", name="case/hello")
    assert await post(transport, json={"model": "m", "messages": ["ü"]}) == BODY
    recording = Recording.load(tmp_path / "new/case/hello")
    assert recording == Recording(
        name="case/hello",
        body=BODY,
        headers=kept,
        cuts=(Cut(100, 0.25), Cut(200, 0.5), Cut(len(BODY) - 300, 0.25)),
        source="recorded",
        origin="https://provider.example, recorded on its way through httpx",
        date=datetime.now(UTC).date().isoformat(),
        request="POST /v1/chat/completions for the model 'm'",
        conversation=recording.conversation,
        sent=SentExchange("POST", "/v1/chat/completions", '{\n  "model": "m",\n  "messages": [\n    "ü"\n  ]\n}'),
        expect={"text": "Hello", "finish_reason": "stop", "raw_finish_reason": "stop"},
    )
    assert list(files(tmp_path)) == ["new/case/hello.sse", "new/case/hello.toml"]


@pytest.mark.slow
@pytest.mark.parametrize("cuts", ["recorded", "events", "bytes:97", "random:1"])
async def test_recorded_from_a_server_and_replayed(tmp_path: Path, cuts: str) -> None:
    """The same bytes in the same pieces, and the same chunks, in a process and over TCP."""
    source = find_recording("demo/parallel_calls")
    async with serve_replay(source, cuts=cuts, speed=5000) as base_url:
        live = await chunks(base_url, RecordTransport(network(), tmp_path, name="x"))
    recording = Recording.load(tmp_path / "x")
    assert recording.body == source.body
    assert [cut.size for cut in recording.cuts] == [len(piece) for piece in split_body(source, cuts)]
    assert all(cut.delay >= 0 for cut in recording.cuts)
    assert {**recording.expect, "usage": None} == {**source.expect, "usage": None, "calls": recording.expect["calls"]}
    assert await chunks("http://test/v1", ReplayTransport(tmp_path / "x", speed="recorded")) == live
    async with serve_replay(recording, speed="recorded") as base_url:
        assert await chunks(base_url, network()) == live


async def test_nothing_is_held_back(tmp_path: Path) -> None:
    """A piece is handed on before the next one is there."""
    go_on = anyio.Event()
    transport = RecordTransport(Scripted(text("one"), go_on.wait, text("two")), tmp_path, name="x")
    async with httpx.AsyncClient(transport=transport) as client, client.stream("POST", URL) as response:
        got = []
        with anyio.fail_after(30):
            async for piece in response.aiter_raw():
                got.append(piece)
                go_on.set()
    assert got == [text("one"), text("two")]


async def test_expectations_are_what_the_decoder_says(tmp_path: Path) -> None:
    """Whatever the answer is, also one of an error, `[expect]` is what the body folds to, on either API."""
    made = {"id": "a", "name": "f", "arguments": '{"x": 1}'}
    calls = call(entry(0, *made.values())) + fin("tool_calls") + DONE
    error = b'{"error": {"message": "slow down", "type": "rate_limit_error"}}'
    responses = b'data: {"type": "response.failed", "response": {"error": {"message": "no", "code": "x"}}}\n\n'
    cases: list[tuple[bytes, int, str, dict[str, Any]]] = [
        (calls, 200, URL, {"calls": [made], "finish_reason": "tool_calls", "raw_finish_reason": "tool_calls"}),
        (error, 429, URL, {"error": "UpstreamError", "message": "slow down"}),
        (text("Hel"), 200, URL, {"error": "IncompleteStreamError", "text": "Hel"}),
        (responses, 200, "https://x.example/v1/responses", {"error": "UpstreamError", "message": "no"}),
    ]
    for number, (body, code, url, expect) in enumerate(cases):
        await post(RecordTransport(Scripted(body, status=code), tmp_path, name=f"x{number}"), url)
        recording = Recording.load(tmp_path / f"x{number}")
        assert recording.status == code
        assert recording.expect == expect == recording.expectation()
        assert recording.complete


async def test_an_api_that_nobody_knows(tmp_path: Path) -> None:
    """It is recorded all the same, and nothing is expected of it."""
    await post(RecordTransport(Scripted(b"anything"), tmp_path, name="x"), "https://x.example/v1/embeddings")
    recording = Recording.load(tmp_path / "x")
    assert (recording.body, recording.adapter, recording.complete, recording.expect) == (b"anything", "none", True, {})


async def test_an_empty_answer(tmp_path: Path) -> None:
    """An answer without a body is one too, and is replayed at any speed."""
    assert await post(RecordTransport(Scripted(status=204), tmp_path, name="x")) == b""
    recording = Recording.load(tmp_path / "x")
    assert (recording.status, recording.body, recording.cuts) == (204, b"", ())
    assert recording.expect == {"error": "EmptyResponseError"}
    assert await post(ReplayTransport(recording, speed="recorded")) == b""


# --- names -----------------------------------------------------------------------------------------------------------


async def test_names(tmp_path: Path) -> None:
    """One after the other; the same name replaces what was there, no name replaces nothing."""
    for _ in range(2):
        async with httpx.AsyncClient(
            transport=RecordTransport(ReplayTransport([HELLO] * 3), tmp_path, name="a")
        ) as client:
            for number in range(3):
                await client.post(URL, json={"n": number})
    assert sorted(path.stem for path in tmp_path.glob("*.sse")) == ["a", "a-2", "a-3"]
    assert json.loads((Recording.load(tmp_path / "a-2").sent or OLD.sent).body) == {"n": 1}
    for _ in range(2):
        async with httpx.AsyncClient(transport=RecordTransport(ReplayTransport([HELLO] * 3), tmp_path)) as client:
            await client.post(URL, json={"model": "org/model:free"})
            await client.get(URL)
    assert sorted(path.stem for path in tmp_path.glob("*.sse")) == [
        *["a", "a-2", "a-3", "completions", "completions-2", "org-model-free", "org-model-free-2"]
    ]


@pytest.mark.parametrize("name", ["", "../x", "/x", "a/../b", "a b", ".x", "x.sse", "x.toml", "a//b"])
def test_bad_names(tmp_path: Path, name: str) -> None:
    """A name leads nowhere else, and is no suffix."""
    with pytest.raises(ConfigError, match="a recording can't be called"):
        RecordTransport(Scripted(), tmp_path, name=name)


async def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    """The request is not even sent, and an answer that can't be kept is an error that says so."""
    tmp_path.joinpath("file").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"recordings can't be saved in .*file"):
        await post(RecordTransport(Scripted(AssertionError("sent")), tmp_path / "file"))
    tmp_path.joinpath("x.toml").mkdir()
    with pytest.raises(ConfigError, match=r"the recording .*x can't be written"):
        await post(RecordTransport(Scripted(BODY), tmp_path, name="x"))
    assert list(files(tmp_path)) == ["file"]
    for bad in ({"secrets": ["abc"]}, {"adapter": "chatt"}):
        with pytest.raises(ConfigError, match=r"a secret must have at least 4 characters|unknown adapter 'chatt'"):
            RecordTransport(Scripted(), tmp_path, **bad)


# --- no secrets ------------------------------------------------------------------------------------------------------

KEY = "sk-canary-0123456789abcdefghij"
COOKIE = "cookie-canary-1"
ANSWERED = "cookie-canary-2"
GIVEN = 'given/"canary"/ü'
LOOKS_LIKE = "ghp_canary0123456789abcdefghij"
CANARIES = [KEY, COOKIE, ANSWERED, GIVEN, json.dumps(GIVEN)[1:-1], LOOKS_LIKE, "canary-in-mcp-1", "canary-in-url-1"]
REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": f"my keys are {KEY} and {GIVEN} and {LOOKS_LIKE}"}],
    "tools": [
        {"type": "mcp", "authorization": "canary-in-mcp-1", "headers": {"X-Any": "canary-in-mcp-1"}},
        {"type": "function", "function": {"parameters": {"properties": {"password": {"type": "string"}}}}},
    ],
}


def echo() -> bytes:
    """An answer that says all of them, some over several events, some with escapes, some in calls that are mixed."""
    out = b"".join(text(f"[{canary}]") for canary in CANARIES)
    for canary in (KEY, GIVEN, LOOKS_LIKE):
        out += b"".join(text(canary[at : at + 5]) for at in range(0, len(canary), 5)) + text(";")
    arguments = json.dumps({"key": KEY, "more": GIVEN})
    out += call(entry(0, "a", "f", arguments[:20])) + call(entry(1, "b", "g", '{"k": 1'))
    out += call(entry(0, arguments=arguments[20:])) + call(entry(1, arguments="}"))
    out += text("escaped ").replace(b"escaped ", b"\\u0073" + KEY[1:].encode())
    return out + fin("tool_calls") + DONE


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, 7, 64, 100_000])
async def test_no_canary_is_in_the_files(tmp_path: Path, cut: int) -> None:
    """However network and events cut it: not in the bytes, not in what they fold to, not in the description."""
    body = echo()
    made = [body[start : start + cut] for start in range(0, len(body), cut)]
    headers = {
        "content-type": "text/event-stream",
        "set-cookie": f"s={ANSWERED}; Domain=example.com",
        "x-request-id": KEY,
        "server": LOOKS_LIKE,
    }
    transport = RecordTransport(Scripted(*made, headers=headers), tmp_path, name="x", secrets=[GIVEN, ""])
    sent = {"authorization": f"Bearer {KEY}", "cookie": f"a=1; b={COOKIE}; c=2"}
    url = f"{URL}?api-key=canary-in-url-1&api-version=1"
    assert await post(transport, url, json=REQUEST, headers=sent) == body
    written = b"\n".join(files(tmp_path).values())
    assert [canary for canary in CANARIES if canary.encode() in written] == []
    assert b"canary" not in written
    recording = Recording.load(tmp_path / "x")
    assert recording.sent is not None
    assert recording.sent.path == "/v1/chat/completions?api-key=***&api-version=1"
    reply = fold(recording.body, split_body(recording))
    assert reply.text == "[***]" * len(CANARIES) + "***;***;***;***"
    assert [made.arguments for made in reply.tool_calls] == [{"key": "***", "more": "***"}, {"k": 1}]
    asked = json.loads(recording.sent.body)
    assert asked["messages"][0]["content"] == "my keys are *** and *** and ***"
    assert asked["tools"][0] == {"type": "mcp", "authorization": "***", "headers": "***"}
    assert asked["tools"][1] == REQUEST["tools"][1]


async def test_bytes_change_only_where_a_key_stood(tmp_path: Path) -> None:
    """What is around a key stays as it was, in pieces that add up, each as late as it was."""
    before, after = b'data:  {"a" : 1.0,"x":"', b'", "b":1e5 }\r\n\r\ndata: nothing\n\n'
    body = before + KEY.encode() + after
    cut = len(before) + 5
    made = [body[:10], body[10:cut], body[cut : cut + 5], body[cut + 5 :]]
    await post(RecordTransport(Scripted(*made), tmp_path, name="x"), headers={"api-key": KEY}, json={})
    recording = Recording.load(tmp_path / "x")
    assert recording.body == before + b"***" + after
    assert [cut.size for cut in recording.cuts] == [10, len(before) - 10 + 3, len(after)]


async def test_placeholders_are_no_secrets(tmp_path: Path) -> None:
    """A local server's key that is a plain word is left in the texts that have the word; so is prose about keys."""
    said = text("EMPTY is empty, 4096 tokens. Use bearer authentication, sk-learn or a task-based key: sk-... ")
    headers = {"authorization": "Bearer EMPTY", "x-max-tokens": "4096", "x-token-budget": "4096"}
    await post(RecordTransport(Scripted(said), tmp_path, name="x"), headers=headers, json={})
    assert Recording.load(tmp_path / "x").body == said


# --- compressed bodies -----------------------------------------------------------------------------------------------


async def test_compressed_bodies_are_kept_without_compression(tmp_path: Path) -> None:
    """What is replayed is what a reader saw, in pieces that could be read when those of the network were there."""
    packer = zlib.compressobj(wbits=31)
    events = [text("one"), text("two"), fin("stop") + DONE]
    made = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events]
    made = [made[0][:5], made[0][5:], made[1], made[2] + packer.flush()]
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    assert await post(RecordTransport(Scripted(*made, headers=headers), tmp_path, name="x")) == b"".join(events)
    recording = Recording.load(tmp_path / "x")
    assert (recording.body, recording.encoding, recording.complete) == (b"".join(events), "gzip", True)
    assert [cut.size for cut in recording.cuts] == [len(event) for event in events]
    assert await post(ReplayTransport(recording)) == b"".join(events)


async def test_compressed_bodies_that_cannot_be_read(tmp_path: Path) -> None:
    """A compression that nobody knows may hide a key: nothing of the body is kept. One that breaks is kept so far."""
    headers = {"content-encoding": "x-strange"}
    await post(RecordTransport(Scripted(b"?" + KEY.encode(), headers=headers), tmp_path, name="x"))
    recording = Recording.load(tmp_path / "x")
    assert (recording.body, recording.complete) == (b"", False)
    why = "the response has the unknown content-encoding 'x-strange'"
    assert recording.ended == f"the body is compressed (x-strange) and can't be read: {why}"
    made = [b"no gzip", b"at all"]
    transport = RecordTransport(Scripted(*made, headers={"content-encoding": "gzip"}), tmp_path, name="y")
    async with httpx.AsyncClient(transport=transport) as client, client.stream("POST", URL) as response:
        assert [piece async for piece in response.stream] == made  # what is handed on is what came
    assert Recording.load(tmp_path / "y").complete is False


# --- how it ended ----------------------------------------------------------------------------------------------------


def ended(folder: Path) -> tuple[bytes, bool, bool, str]:
    recording = Recording.load(folder / "x")
    return recording.body, recording.complete, recording.broken, recording.ended


async def test_a_connection_that_broke(tmp_path: Path) -> None:
    """What had come is kept, it is not complete, and it breaks off again when it is replayed."""
    error = httpx.ReadError(f"reset by {KEY}")
    with pytest.raises(httpx.ReadError):
        await post(RecordTransport(Scripted(text("Hel"), error), tmp_path, name="x"))
    assert ended(tmp_path) == (text("Hel"), False, True, "ReadError: reset by ***")
    with pytest.raises(httpx.RemoteProtocolError):
        await post(ReplayTransport(tmp_path / "x"))


async def test_a_reader_that_left(tmp_path: Path) -> None:
    """Closed half-way it is not complete; closed after the answer's own end it is."""
    for body, told in ((text("Hel"), (False, True, "closed by the reader")), (BODY, (True, False, ""))):
        transport = RecordTransport(Scripted(body, anyio.sleep_forever), tmp_path, name="x")
        async with httpx.AsyncClient(transport=transport) as client:
            response = await client.send(client.build_request("POST", URL, json={}), stream=True)
            async with aclosing(aiter(response.stream)) as raw:
                assert await anext(raw) == body
            assert files(tmp_path).keys() <= {"x.toml"}
            await response.aclose()
        assert ended(tmp_path) == (body, *told)
        tmp_path.joinpath("x.sse").unlink()


async def test_a_reader_that_was_cancelled(tmp_path: Path) -> None:
    """It is written down although the task has no time to wait."""
    transport = RecordTransport(Scripted(text("Hel"), anyio.sleep_forever), tmp_path, name="x")
    with anyio.move_on_after(0.05):
        await post(transport)
    assert ended(tmp_path) == (text("Hel"), False, True, "cancelled: the reader did not wait any longer")


async def test_an_answer_that_was_abandoned(tmp_path: Path) -> None:
    """Neither read nor closed: it is written when the transport is closed."""
    inner = Scripted(BODY)
    async with httpx.AsyncClient(transport=RecordTransport(inner, tmp_path, name="x")) as client:
        await client.send(client.build_request("POST", URL, json={}), stream=True)
        assert files(tmp_path) == {}
    assert ended(tmp_path) == (b"", False, True, "abandoned: neither read to its end nor closed")
    assert inner.closed


@pytest.mark.slow
async def test_a_provider_records_what_it_got(tmp_path: Path) -> None:
    """Retries and failures are exchanges too, and replayed they give what they gave."""
    faults = [status(429, retry_after=0, times=1), reset(times=1), cut_after(events=2)]
    transport = RecordTransport(FaultTransport(ReplayTransport([HELLO] * 2), faults), tmp_path, name="x")

    async def error(transport: httpx.AsyncBaseTransport) -> StreamError:
        with pytest.raises(StreamError) as caught:
            await chunks("https://provider.example/v1", transport)
        return caught.value

    live = await error(transport)
    assert [Recording.load(tmp_path / name).status for name in ("x", "x-2", "x-3")] == [429, 200, 200]
    assert Recording.load(tmp_path / "x-3").ended.startswith("RemoteProtocolError: peer closed connection")
    replayed = await error(ReplayTransport(tmp_path / "x"))
    assert type(replayed) is type(live)
    assert replayed.partial is not None
    assert replayed.partial.text == "Hello"


# --- killed ----------------------------------------------------------------------------------------------------------

KILLED = """
    import os, pathlib, signal, sys
    import anyio, httpx
    from streamfold.recording import RecordTransport

    folder, steps = sys.argv[1], int(sys.argv[2])
    replace = pathlib.Path.replace

    def counted(path, target):
        global steps
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1
        return replace(path, target)

    pathlib.Path.replace = counted

    class Body(httpx.AsyncByteStream):
        async def __aiter__(self):
            yield b"data: new\\n\\n"
            if steps < 0:
                print("reading", flush=True)
                await anyio.sleep_forever()

    async def main():
        inner = httpx.MockTransport(lambda request: httpx.Response(200, stream=Body()))
        async with httpx.AsyncClient(transport=RecordTransport(inner, folder, name="x")) as client:
            await client.post("http://test/other", json={"model": "m"})

    anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(("steps", "old"), scale.some(list(product([-1, 0, 1, 2, 3], [True, False])), 4))
def test_killed_while_recording(tmp_path: Path, steps: int, old: bool) -> None:
    """After kill -9 there is the old recording, or one that can be read and says that it is not complete."""
    folder = tmp_path / "old"
    folder.mkdir()
    if old:
        OLD.save(folder / "x")
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder), str(steps)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if steps < 0:
            assert process.stdout.readline() == b"reading\n"
            process.kill()
        assert process.wait(60) == (0 if steps == 3 else -signal.SIGKILL)
    if not old and steps < 2:
        assert not list(folder.glob("*.sse"))
        return
    recording = Recording.load(folder / "x")
    if steps < 1:
        assert recording == OLD
    else:
        assert recording.body == (OLD.body if steps == 1 else b"data: new\n\n")
        assert recording.complete is (steps == 3)
        assert ("the process ended while this recording was being written" in recording.ended) is (steps < 3)
    assert files(folder).keys() - {"x.sse", "x.toml"} == {
        name for name in files(folder) if name.startswith(".") and name.endswith(".tmp")
    }


def test_a_draft_takes_the_place_of_a_whole_conversation(tmp_path: Path) -> None:
    """What the older one had more is gone, what only looks like it stays; one that can't be read is replaced too."""
    for name, conversation in (("x", "a"), ("x-2", "a"), ("x-3", "b")):
        replace(OLD, conversation=conversation).save(tmp_path / name)
    for damage in ("", "no TOML"):
        if damage:
            (tmp_path / "x.toml").write_text(damage, "utf-8")
        draft = RecordingDraft(tmp_path, "x")
        draft.folder.mkdir()
        HELLO.save(draft.folder / "x")
        assert draft.problem() is None
        assert draft.keep() == [tmp_path / "x"]
        draft.discard()
        assert {path.name for path in tmp_path.iterdir()} == {"x.sse", "x.toml", "x-3.sse", "x-3.toml"}
        assert Recording.load(tmp_path / "x").body == BODY


# --- the two files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        "plain",
        "two\nlines",
        "\n\n",
        "it's '''quoted'''\n",
        "ends with '",
        "line\n'",
        'back\\slash "quoted"\n',
        "tab\tand \x00\x07\x1b\x7f control\n",
        "carriage\r\nreturn",
        "𝄞 ü\u2028 \ufeff\n\x85",
    ],
)
def test_any_text_survives(tmp_path: Path, odd: str) -> None:
    """What is saved is loaded again, whatever is in it."""
    recording = Recording(
        f"{tmp_path.name}/x",
        odd.encode(),
        status=201,
        headers={"x odd.name": odd},
        notes=odd,
        sent=SentExchange("POST", "/x", odd),
        expect={"text": odd, "calls": [{"name": odd, "arguments": odd}] * 2, "warnings": ["missing_id"]},
        cuts=(Cut(len(odd.encode()), 1e-7),),
    )
    recording.save(tmp_path / "x")
    assert Recording.load(tmp_path / "x") == recording
    assert sorted(files(tmp_path)) == ["x.sse", "x.toml"]


def test_saving_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be written leaves no trace."""
    OLD.save(tmp_path / "x")
    before, write = files(tmp_path), Path.write_bytes
    calls: Callable[[], int] = count().__next__

    def full(path: Path, data: bytes) -> int:
        if calls() == 2:
            write(path, data[:3])
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        HELLO.save(tmp_path / "x")
    assert files(tmp_path) == before


# --- several recorders -----------------------------------------------------------------------------------------------


async def test_recorders_without_a_name_take_different_names(tmp_path: Path) -> None:
    """Two recorders in one folder at the same time: each answer is kept, under a name of its own."""
    began, go_on = anyio.Semaphore(0), anyio.Event()

    async def wait() -> None:
        began.release()
        await go_on.wait()

    bodies = [text(word) + fin("stop") + DONE for word in ("ONE", "TWO")]
    transports = [RecordTransport(Scripted(made[:20], wait, made[20:]), tmp_path) for made in bodies]
    async with anyio.create_task_group() as tasks:
        for transport in transports:
            tasks.start_soon(post, transport)
        for _ in transports:
            await began.acquire()
        go_on.set()
    assert sorted(path.name for transport in transports for path in transport.written) == ["m", "m-2"]
    assert {Recording.load(tmp_path / name).body for name in ("m", "m-2")} == set(bodies)


SAVING = """
import random, sys
from streamfold.recording import Cut, Recording

number, times, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for turn in range(times):
    body = b"data: w%d\\n\\n" % number * random.Random(f"{number} {turn}").randint(1, 3000)
    Recording("x", body, cuts=(Cut(len(body), 0.1),), notes=f"w{number}").save(path)
"""


@pytest.mark.slow
def test_savers_and_readers_of_one_name(tmp_path: Path) -> None:
    """While processes save under one name, every load finds a whole recording or one that says that it is not."""
    if os.name != "posix":
        pytest.skip("folders can't be locked here")
    path = tmp_path / "x"
    Recording("x", b"data: w0\n\n", notes="w0").save(path)
    savers = [subprocess.Popen([sys.executable, "-c", SAVING, str(each), "60", str(path)]) for each in (1, 2)]
    while any(saver.poll() is None for saver in savers):
        recording = Recording.load(path)
        assert not recording.complete or recording.notes.encode() in recording.body
    assert [saver.returncode for saver in savers] == [0, 0]
    recording = Recording.load(path)
    assert recording.complete
    assert recording.notes.encode() in recording.body
    assert sorted(files(tmp_path)) == ["x.sse", "x.toml"]


async def test_long_names(tmp_path: Path) -> None:
    """A long model name gives a shorter file name; a long name of one's own is refused before anything is sent."""
    transport = RecordTransport(Scripted(BODY), tmp_path)
    assert await post(transport, json={"model": "m" * 300}) == BODY
    assert [path.name for path in transport.written] == ["m" * 100]
    with pytest.raises(ConfigError, match="may have at most 180 characters"):
        RecordTransport(Scripted(BODY), tmp_path, name="n" * 200)


async def test_without_the_package_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder says which extra it needs before anything is sent; replaying needs none."""
    Recording("case/x", BODY).save(tmp_path / "x")
    monkeypatch.setattr("streamfold.recording.recording.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'streamfold\[testing\]'"):
        RecordTransport(Scripted(BODY), tmp_path)
    assert await post(ReplayTransport(tmp_path / "x")) == BODY


async def test_a_recorder_under_a_provider_knows_its_secrets(tmp_path: Path) -> None:
    """The values of headers, key and variables that a provider knows are in no file, in no spelling."""
    secret = "zq9Xw7Lp+Kd3/Rt5=Mn8&Vb2"
    escaped = "".join(f"\\u{ord(char):04x}" for char in secret)
    arguments = json.dumps({"plain": secret}), '{"k":"' + secret.replace("+", "\\u002B") + '"}', f'{{"k":"{escaped}"}}'
    for place in ({"api_key": secret}, {"headers": {"X-Team": secret}}, {"base_url": f"https://a.test/{secret}/v1"}):
        for written in arguments:
            made = call(entry(0, "c", "f", written)) + text(secret[:9]) + text(secret[9:]) + fin("tool_calls") + DONE
            transport = RecordTransport(Scripted(made), tmp_path / "out", name="x")
            spec = {"base_url": "https://a.test/v1", "model": "m", **place}
            if "base_url" in place:
                os.environ["RECORDED_SECRET"] = secret
                spec["base_url"] = "https://a.test/${RECORDED_SECRET}/v1"
            async with httpx.AsyncClient(transport=transport) as client:
                await Provider.from_config(spec, http_client=client).chat("Hello")
            os.environ.pop("RECORDED_SECRET", None)
            reply = fold(Recording.load(tmp_path / "out/x").body)
            assert secret not in reply.text
            assert secret not in reply.tool_calls[0].arguments.values()
            everything = b"".join(files(tmp_path / "out").values()).decode()
            for spelling in (secret, secret[9:], escaped, secret.replace("/", "%2F")):
                assert spelling not in everything
