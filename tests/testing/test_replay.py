"""Replaying conversations: which recording answers which request, and other libraries' clients."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx_sse
import pytest

from folding import DONE, call, entry, event, fin, text
from sdks import openai
from streamfold import BadRequestError, ConfigError, Provider, run_tools, tool
from streamfold.faults import cut_after, reset, status
from streamfold.recording import (
    Recording,
    RecordTransport,
    ReplayMismatch,
    ReplayTransport,
    SentExchange,
    load_source,
)
from streamfold.recording.request_matching import RecordedRequest, diff_requests
from streamfold.testing.replay_server import serve_replay
from tables import each_row

URL = "http://test/v1/chat/completions"
FIXTURES = Path(__file__).parents[2] / "fixtures"  # all of them: an installed package has two
# httpx leaves generators to the garbage collector when a stream is closed early; trio says so each time.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

TLS = httpx.create_ssl_context()


def asked(model: str, content: str, **rest: Any) -> SentExchange:
    body = {"model": model, "messages": [{"role": "user", "content": content}], **rest}
    return SentExchange("POST", "/v1/chat/completions", json.dumps(body, indent=2))


def answer(name: str, sent: SentExchange | None = None) -> Recording:
    return Recording(f"case/{name}", text(name) + fin("stop") + DONE, sent=sent)


A = answer("a", asked("m", "What is a?"))
B = answer("b", asked("m", "What is b?", temperature=0.5))
FREE = answer("free")


def body(sent: SentExchange | None) -> Any:
    assert sent is not None
    return json.loads(sent.body)


async def post(transport: httpx.AsyncBaseTransport, *bodies: Any, url: str = URL, **request: Any) -> list[bytes]:
    async with httpx.AsyncClient(transport=transport, timeout=30) as client:
        return [(await client.post(url, json=each, **request)).content for each in bodies]


# --- which recording answers -----------------------------------------------------------------------------------------


async def test_in_order() -> None:
    """Each answers its own request, and one without a request answers any. Another address is no other request."""
    transport = ReplayTransport([A, FREE, B])
    url = "https://elsewhere.example/chat/completions?x=1"
    got = await post(transport, body(A.sent), {"any": "thing"}, body(B.sent), url=url)
    assert got == [A.body, FREE.body, B.body]


async def test_differences_that_are_ignored() -> None:
    """Text that matches a pattern of `ignore` may differ: a date in the prompt, the result of a clock tool."""
    recorded = answer("a", asked("m", "Today is 2026-01-31, 10:30. What is a?"))
    today = body(asked("m", "Today is 2026-02-01, 09:05. What is a?"))
    patterns = [r"\d{4}-\d\d-\d\d", re.compile(r"\d\d:\d\d")]
    for match in ("order", "request"):
        assert await post(ReplayTransport([recorded], match=match, ignore=patterns), today) == [recorded.body]
        with pytest.raises(ReplayMismatch):
            await post(ReplayTransport([recorded], match=match, ignore=patterns[:1]), today)
    other = body(asked("m", "Today is 2026-02-01, 09:05. What is b?"))
    with pytest.raises(ReplayMismatch, match="What is b"):
        await post(ReplayTransport([recorded], ignore=patterns), other)
    with pytest.raises(ConfigError, match="ignore: not a regular expression"):
        ReplayTransport([recorded], ignore=["("])


def test_the_difference_to_a_text_with_many_hidden_keys_is_found_at_once() -> None:
    """However many `***` a recorded text has, comparing takes time in proportion to its length."""
    recorded = SentExchange("POST", "/v1/chat/completions", json.dumps({"a": ", ".join(["***"] * 2000) + " end"}))
    for end, same in ((" END", False), (" end", True)):
        sent = json.dumps({"a": ", ".join(["word"] * 20_000) + end}).encode()
        assert (diff_requests(recorded, RecordedRequest("POST", "/v1/chat/completions", sent)) == "") is same


async def test_another_request_than_recorded() -> None:
    """The error shows what is different, and the recording still waits for its request."""
    transport = ReplayTransport([B])
    with pytest.raises(ReplayMismatch) as caught:
        await post(transport, {**body(B.sent), "temperature": 0.7, "tools": []})
    assert str(caught.value) == (
        'this request differs from the recorded request of case/b (match="any" accepts any request, ignore=[...] allows'
        " some differences):\n" + caught.value.diff
    )
    assert caught.value.diff.splitlines() == [
        "--- recorded",
        "+++ sent",
        "@@ -7,4 +7,5 @@",
        "   ],",
        '   "model": "m",',
        '-  "temperature": 0.5',
        '+  "temperature": 0.7,',
        '+  "tools": []',
        " }",
    ]
    assert await post(transport, body(B.sent)) == [B.body]
    with pytest.raises(
        ReplayMismatch, match=r"request was POST \.\.\./completions, but POST \.\.\./responses was sent"
    ):
        await post(ReplayTransport(A), body(A.sent), url="http://test/v1/responses")


async def test_the_provider_tells_of_a_mismatch() -> None:
    """In process the error is our own; it is not retried, and not taken for a failure of the network."""
    transport = ReplayTransport(A)
    async with httpx.AsyncClient(transport=transport) as client:
        provider = Provider.from_config({"base_url": "http://test/v1", "model": "other"}, http_client=client)
        with pytest.raises(ReplayMismatch, match=r'\+  "model": "other"'):
            await provider.chat("What is a?")
    assert len(transport.requests) == 1


async def test_by_request() -> None:
    """Each for its request, whenever and as often as it comes; two for the same one are served one after the other."""
    second = answer("second", A.sent)
    transport = ReplayTransport([A, B, second], match="request")
    wanted = [B, A, second, second, B]
    assert await post(transport, *[body(each.sent) for each in wanted]) == [each.body for each in wanted]
    with pytest.raises(
        ReplayMismatch, match=r"recordings case/a, case/b, case/second has .*; case/b is the most similar:\n"
    ):
        await post(transport, {**body(B.sent), "temperature": 0})
    with pytest.raises(
        ConfigError, match=r"case/free was recorded without its request, so match=.request. can't find it"
    ):
        ReplayTransport([A, FREE], match="request")


async def test_whatever_is_asked() -> None:
    """With "any" nothing is compared; there is no other way than these three."""
    assert await post(ReplayTransport([A, B], match="any"), {}, {}) == [A.body, B.body]
    with pytest.raises(ConfigError, match=r"unknown match 'all'.*Allowed: order, request, any"):
        ReplayTransport(A, match="all")  # type: ignore[arg-type]


async def test_what_stood_for_a_secret_matches_anything() -> None:
    """Keys are not compared: neither those that were taken out, nor those of the new request."""
    recording = answer("x", asked("m", "key *** and ***!", user="***"))
    same = {"model": "m", "messages": [{"role": "user", "content": "key abc and \nxyz!"}], "user": "me"}
    assert await post(ReplayTransport(recording), same) == [recording.body]
    with pytest.raises(ReplayMismatch, match="key abc or xyz!"):
        await post(ReplayTransport(recording), {**same, "messages": [{"role": "user", "content": "key abc or xyz!"}]})


async def test_a_recorded_key_may_change(tmp_path: Path) -> None:
    """A conversation that was recorded with one key is replayed with another one."""
    for transport, key in (
        (RecordTransport(ReplayTransport(FREE), tmp_path, name="x"), "k-1111111"),
        (None, "k-22222"),
    ):
        request = {"model": "m", "input": f"it is {key}", "tools": [{"type": "mcp", "headers": {"X": key}}]}
        url = f"{URL}?key={key}"
        got = await post(transport or ReplayTransport(tmp_path / "x"), request, url=url, headers={"x-api-key": key})
        assert got == [FREE.body]


async def test_long_lines_and_other_bodies_are_told() -> None:
    """A difference stays readable, wherever it is in a long text, also of what is no JSON."""
    image = "data:image/png;base64," + base64.b64encode(bytes(3000)).decode()
    for was, now in ((image, image + "B"), (image + "C" + image, image + "B" + image), ("C" + image, "B" + image)):
        with pytest.raises(ReplayMismatch) as caught:
            await post(ReplayTransport(answer("x", asked("m", was))), body(asked("m", now)))
        lines = caught.value.diff.splitlines()
        assert max(map(len, lines)) < 200
        assert next(line for line in lines if line.startswith("-  ")) != "-" + next(
            line for line in lines if line.startswith("+  ")
        ).removeprefix("+")
    transport = ReplayTransport(answer("x", SentExchange("POST", "/v1/chat/completions", "plain\ntext")))
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(ReplayMismatch, match="-text\n\\+words"):
            await client.post(URL, content=b"plain\nwords")
        assert (await client.post(URL, content=b"plain\ntext")).status_code == 200


async def test_a_mismatch_over_tcp() -> None:
    """A 400 with the difference, which a client takes for a mistake of its own; the recording still waits."""
    async with serve_replay([A, B]) as base_url, httpx.AsyncClient(transport=network()) as client:
        refused = await client.post(f"{base_url}/chat/completions", json=body(B.sent))
        error = refused.json()["error"]
        assert (refused.status_code, error["type"], error["code"]) == (400, "invalid_request_error", "replay_mismatch")
        assert '-      "content": "What is a?",\n+      "content": "What is b?",' in error["message"]
        provider = Provider.from_config({"base_url": base_url, "model": "m"}, http_client=client)
        with pytest.raises(BadRequestError, match="this request differs from the recorded request of case/a"):
            await provider.chat("What is b?")
        assert (await client.post(f"{base_url}/chat/completions", json=body(A.sent))).content == A.body


async def test_a_recording_called_like_its_model() -> None:
    """Over TCP a model's name chooses a recording, but not one that was asked from this very model."""
    first, second = answer("m", asked("m", "1")), answer("m-2", asked("m", "2"))
    async with serve_replay([first, second]) as base_url:
        got = [
            *await post(network(), body(first.sent), body(second.sent), url=f"{base_url}/chat/completions"),
            *await post(network(), {"model": "m-2"}, url=f"{base_url}/chat/completions"),
        ]
    assert got == [first.body, second.body, second.body]


# --- where recordings come from --------------------------------------------------------------------------------------


async def test_a_conversation_by_its_first_recording(tmp_path: Path) -> None:
    """A path is that recording and those that followed it; what else has such a name is none of them."""
    for names in (range(12), range(3)):
        async with httpx.AsyncClient(
            transport=RecordTransport(ReplayTransport([FREE] * 12), tmp_path, name="x")
        ) as client:
            for number in names:
                await client.post(URL, json={"n": number})
    Recording("other", FREE.body).save(tmp_path / "x-13")
    assert [each.name.partition("/")[2] for each in load_source(tmp_path / "x")] == ["x", "x-2", "x-3"]
    assert [each.name.partition("/")[2] for each in load_source(tmp_path / "x-2.sse")] == ["x-2", "x-3"]
    assert [each.name.partition("/")[2] for each in load_source(tmp_path / "x-9")] == ["x-9", "x-10", "x-11", "x-12"]
    await post(RecordTransport(ReplayTransport([FREE] * 2), tmp_path, name="gpt-4"), {}, {})
    assert [each.name.partition("/")[2] for each in load_source(tmp_path / "gpt-4")] == ["gpt-4", "gpt-4-2"]
    assert [each.name for each in load_source([tmp_path / "x"])] == [f"{tmp_path.name}/x"]


def test_a_folder(tmp_path: Path) -> None:
    """All that is in it, by name, numbers by their value."""
    for name in ("x-10", "x-9", "x", "b"):
        FREE.save(tmp_path / name)
    assert [each.name.partition("/")[2] for each in load_source(tmp_path)] == ["b", "x", "x-9", "x-10"]
    tmp_path.joinpath("empty").mkdir()
    with pytest.raises(ConfigError, match=r"there is no recording in .*empty"):
        load_source(tmp_path / "empty")
    with pytest.raises(ConfigError, match="no recording was passed"):
        load_source([])


async def test_the_loop_over_tools_from_a_recording(tmp_path: Path) -> None:
    """A conversation with tools is recorded turn by turn, and plays again; a changed prompt is noticed."""
    turns = [
        Recording("t/1", call(entry(0, "a", "double", '{"n": 4}')) + fin("tool_calls") + DONE),
        Recording("t/2", text("It is 8.") + fin("stop") + DONE),
    ]

    @tool
    async def double(n: int) -> int:
        """Twice the number."""
        return 2 * n

    async def run(transport: httpx.AsyncBaseTransport, question: str) -> str:
        async with httpx.AsyncClient(transport=transport) as client:
            provider = Provider.from_config({"base_url": "http://test/v1", "model": "m"}, http_client=client)
            async with run_tools(provider, question, [double]) as turns_run:
                async for _ in turns_run:
                    pass
            return turns_run.reply.text

    assert await run(RecordTransport(ReplayTransport(turns), tmp_path, name="x"), "Twice 4?") == "It is 8."
    assert await run(ReplayTransport(tmp_path / "x"), "Twice 4?") == "It is 8."
    assert await run(ReplayTransport(tmp_path, match="request"), "Twice 4?") == "It is 8."
    with pytest.raises(ReplayMismatch, match=r'-      "content": "Twice 4\?",\n\+      "content": "Twice 5\?"'):
        await run(ReplayTransport(tmp_path / "x"), "Twice 5?")


# --- other libraries' clients ----------------------------------------------------------------------------------------

Playing = Callable[..., Any]


def network() -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(verify=TLS)


@asynccontextmanager
async def in_process(source: Any, **options: Any) -> AsyncIterator[tuple[str, httpx.AsyncClient]]:
    async with httpx.AsyncClient(transport=ReplayTransport(source, **options)) as client:
        yield "http://test/v1", client


@asynccontextmanager
async def over_tcp(source: Any, **options: Any) -> AsyncIterator[tuple[str, httpx.AsyncClient]]:
    async with serve_replay(source, **options) as url, httpx.AsyncClient(transport=network(), timeout=30) as client:
        yield url, client


@pytest.fixture(params=[in_process, over_tcp])
def playing(request: pytest.FixtureRequest) -> Playing:
    made: Playing = request.param
    return made


def sdk(base_url: str, client: httpx.AsyncClient, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=base_url, api_key="sk-test", http_client=client, **{"max_retries": 0, **options})


async def sdk_calls(client: openai.AsyncOpenAI) -> dict[str, str]:
    """The calls of an answer, put together as the SDK's users do it."""
    found: dict[int, list[str]] = {}
    stream = await client.chat.completions.create(model="x", messages=[{"role": "user", "content": "Hi"}], stream=True)
    async for chunk in stream:
        for each in chunk.choices[0].delta.tool_calls or [] if chunk.choices else []:
            assert each.function is not None
            found.setdefault(each.index, []).append((each.function.name or "") + (each.function.arguments or ""))
    return {made[0]: "".join(made[1:]) for made in found.values()}


@each_row("cuts", ["recorded", "bytes:5"])
async def test_openai_chat(playing: Playing, cuts: str) -> None:
    """The OpenAI SDK reads Chat Completions from a recording, mixed calls included."""
    recording = Recording.load(FIXTURES / "kimi/parallel_calls")
    async with playing(recording, cuts=cuts) as (base_url, client):
        calls = await sdk_calls(sdk(base_url, client))
    assert [json.loads(arguments) for arguments in calls.values()] == [
        json.loads(each["arguments"]) for each in recording.expect["calls"]
    ]


async def test_openai_responses(playing: Playing) -> None:
    """It reads the Responses API from one too."""
    recording = Recording.load(FIXTURES / "aimock/responses_interleaved")
    async with playing(recording) as (base_url, client):
        stream = await sdk(base_url, client).responses.create(model="x", input="Hi", stream=True)
        said = [event.delta async for event in stream if event.type == "response.output_text.delta"]
    assert "".join(said) == recording.expect["text"]


@pytest.mark.slow
async def test_openai_gets_the_faults(playing: Playing) -> None:
    """Its retries see a refusal, and its reader the end of the connection."""
    async with playing(FREE, faults=[status(429, retry_after=0, times=1)]) as (base_url, client):
        stream = await sdk(base_url, client, max_retries=1).chat.completions.create(model="x", messages=[], stream=True)
        assert [chunk.choices[0].delta.content async for chunk in stream] == ["free", None]
    async with playing(FREE, faults=[status(500)]) as (base_url, client):
        with pytest.raises(openai.InternalServerError, match="injected by a fault"):
            await sdk(base_url, client).chat.completions.create(model="x", messages=[], stream=True)
    for fault, kind in ((reset(after_events=1), httpx.ReadError), (cut_after(events=1), httpx.RemoteProtocolError)):
        got: list[str | None] = []
        async with playing(FREE, faults=[fault]) as (base_url, client):
            stream = await sdk(base_url, client).chat.completions.create(model="x", messages=[], stream=True)
            with pytest.raises((kind, openai.APIConnectionError)):
                await read_into(got, stream)
        assert got == ["free"]


async def read_into(got: list[str | None], stream: Any) -> None:
    async for chunk in stream:
        got.append(chunk.choices[0].delta.content)


async def test_openai_is_recorded(playing: Playing, tmp_path: Path) -> None:
    """What the SDK received is recorded, and replays to it; another question is a mismatch that it does not retry."""
    live: list[str | None] = []
    async with (
        playing(FREE) as (base_url, client),
        httpx.AsyncClient(transport=RecordTransport(client._transport, tmp_path, name="x")) as recording,
    ):
        made = sdk(base_url, recording).chat.completions
        await read_into(live, await made.create(model="x", messages=[], stream=True))
    recorded = Recording.load(tmp_path / "x")
    assert (recorded.body, recorded.complete) == (FREE.body, True)
    assert b"sk-test" not in tmp_path.joinpath("x.toml").read_bytes()
    async with playing(tmp_path / "x") as (base_url, client):
        again: list[str | None] = []
        made = sdk(base_url, client).chat.completions
        with pytest.raises((ReplayMismatch, openai.BadRequestError), match="temperature"):
            await made.create(model="x", messages=[], stream=True, temperature=1)
        await read_into(again, await made.create(model="x", messages=[], stream=True))
    assert again == live == ["free", None]


async def test_httpx_sse(playing: Playing) -> None:
    """A reader of server-sent events gets the events."""
    recording = Recording("case/events", b": hi\n\n" + event({"n": 1}) + event({"n": 2}) + DONE)
    async with (
        playing(recording, cuts="bytes:3") as (base_url, client),
        httpx_sse.aconnect_sse(client, "POST", f"{base_url}/chat/completions", json={}) as source,
    ):
        assert [event.data async for event in source.aiter_sse()] == ['{"n": 1}', '{"n": 2}', "[DONE]"]
