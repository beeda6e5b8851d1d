"""Other people's clients over a `RepairTransport`: every answer is right, and nothing that was right is lost."""

from __future__ import annotations

import gzip
import json
import logging
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

import corpus
import scale
from client_readers import so_far
from fixture_answers import is_right, request_of, stored
from folding import DONE, bytewise, call, chunk, entry, fin, text
from folding import event as sse
from mirror import payloads, read
from repaired_clients import MESSAGES, ask, openai_client
from sdks import anthropic, openai
from streamfold import ConfigError, Limits, ProtocolError, Reply, StreamError, ToolCall
from streamfold.recording import Recording
from streamfold.serving import ApiFormat, ReplyWriter, serialize_reply
from streamfold.serving.chat import ChatSerializer
from streamfold.serving.responses import ResponsesSerializer
from streamfold_repair import httpx2 as over_httpx2
from streamfold_repair.httpx import Repaired, RepairTransport
from streamfold_repair.rewriter import StreamRewriter
from streamfold_repair.stream_repair import RepairSettings, UnreadError
from tables import each_row

pytestmark = pytest.mark.one_loop  # the clients have asyncio's events in them
FOLDER = Path(__file__).parents[3] / "fixtures"
RECORDINGS = {
    f"{file.parent.name}/{file.stem}": Recording.load(file.with_suffix("")) for file in sorted(FOLDER.glob("*/*.sse"))
}
UNKNOWN = "interactions"  # a wire format that is passed through unchanged
NAMES = [name for name, recording in RECORDINGS.items() if recording.adapter != UNKNOWN]
CITY = '{"city":"Paris"}'
CUT = text("Hel")


@pytest.mark.filterwarnings("ignore:Pydantic serializer")  # OpenAI's client, about items that are not OpenAI's
@each_row("name", NAMES)  # all of them: the guide counts them
async def test_a_client_sees_what_the_answer_means(name: str) -> None:
    """Each kind of broken stream is right behind other people's clients, and each healthy one stays so."""
    recording = RECORDINGS[name]
    settings = {"dialect": recording.dialect or None}
    seen = await ask(recording.adapter, recording.body, request=request_of(recording), **settings)
    assert is_right(recording, seen), seen


@each_row(
    "name",
    ["anthropic/web_search", "openai/responses_custom_tool", "openai/responses_web_search", "gemini/code_execution"],
)
@each_row("kind", ["list", "half a surrogate pair"])
def test_a_value_of_another_type_is_no_error_of_ours(name: str, kind: str) -> None:
    """For any value in a field of the server's event, the repaired stream continues or ends with an error event."""
    recording, odd = RECORDINGS[name], {"list": [], "half a surrogate pair": "\ud800\n"}[kind]
    events = payloads(recording.body)
    for at, event in enumerate(events):
        for path in _paths(event):
            payload = inner = deepcopy(event)
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = odd
            changed = [*events[:at], payload, *events[at + 1 :]]
            names = [f"event: {one['type']}\n" if "type" in one else "" for one in events]
            text = "".join([f"{head}data: {json.dumps(one)}\n\n" for head, one in zip(names, changed, strict=True)])
            body = text.encode()
            assert written(body, [body], recording.adapter), path


@each_row("api", ["chat", "responses", "anthropic", "gemini"])
@each_row("kind", ["list", "half a surrogate pair"])
def test_a_value_of_another_type_in_a_whole_answer(api: ApiFormat, kind: str) -> None:
    """It is repaired, left as it is, or one of our errors."""
    odd: Any = {"list": [], "half a surrogate pair": "\ud800"}[kind]
    calls = [ToolCall("a", "f", {"x": 1}, '{"x":1}')]
    answer = serialize_reply(Reply("Hi", tool_calls=calls, finish_reason="tool_calls"), api, id="i", model="m").body
    for path in _paths(answer):
        body = inner = deepcopy(answer)
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = odd
        with suppress(StreamError, UnreadError):
            assert RepairSettings().whole(api, {}).repair(json.dumps(body).encode()), path


def _paths(value: Any) -> list[tuple[Any, ...]]:
    named = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for name, inner in named for path in [(name,), *((name, *rest) for rest in _paths(inner))]]


def written(body: bytes, pieces: list[bytes], adapter: str, **settings: Any) -> bytes:
    repair = RepairSettings(**settings).stream(adapter, {"model": "m"})
    return b"".join([repair.feed(piece) for piece in pieces]) + repair.close()


@each_row("name", scale.some(NAMES, 25))
def test_any_cut_gives_the_same_bytes(name: str) -> None:
    """How the network cut an answer can't be seen in what is written."""
    recording = RECORDINGS[name]
    body, adapter, dialect = recording.body, recording.adapter, recording.dialect or None
    whole = written(body, [body], adapter, dialect=dialect)
    assert written(body, list(bytewise(body)), adapter, dialect=dialect) == whole


APIS = ("responses", "anthropic", "gemini")
WHERE_OURS_DIFFERS = {  # member of the client's object: why
    "role": "repeated by servers, and joined by OpenAI's client",
    "index": "positions that OpenAI's client demands",
    "status": "calls that OpenAI's programs make stay in_progress there",
}


@each_row("name", scale.some(corpus.names(*(f"corpus/{api}/*.sse" for api in APIS)), 40))
async def test_a_healthy_answer_loses_nothing(name: str) -> None:
    """Of an answer with nothing to mend, the client's own object is the same with and without the repairs."""
    adapter, body = name.split("/")[1], (corpus.folder() / name).read_bytes()
    bare, ours = await ask(adapter, body, repaired=False), await ask(adapter, body)
    if bare.error is not None or (ours.extensions and ours.extensions["streamfold"].warnings):
        return
    if ours.error is not None and not bare.text and not bare.whole.get("parts", True):
        return  # no answer at all, of which the client says nothing
    if "partial_args" in repr(bare.whole):
        return  # calls in pieces, which the client leaves to the program
    assert ours.error is None
    assert [*differences(bare.whole, ours.whole)] == []


def differences(bare: Any, ours: Any, path: str = "") -> Any:
    """The members of the bare object that ours has not."""
    if isinstance(bare, dict) and isinstance(ours, dict):
        for name, value in bare.items():
            if name not in WHERE_OURS_DIFFERS:
                yield from differences(value, ours.get(name), f"{path}.{name}")
    elif isinstance(bare, list) and isinstance(ours, list) and len(bare) == len(ours):
        for number, pair in enumerate(zip(bare, ours, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif bare != ours:
        yield path, bare, ours


async def test_members_without_a_delta_stay() -> None:
    """Fingerprints, log probabilities, tiers and whatever else a server adds reach the program, each on its chunk."""
    logprobs = {"content": [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    choice = {"index": 0, "delta": {"content": "Hi"}, "logprobs": logprobs, "finish_reason": None}
    first = {"id": "c1", "created": 7, "model": "m-1", "system_fingerprint": "fp", "service_tier": "flex"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost": 0.5}
    body = sse({**first, "choices": [choice], "provider": "Acme"}) + chunk({}, "stop", usage=usage) + DONE
    stream = await openai_client(RepairTransport(stored(httpx, body))).chat.completions.create(
        model="m", messages=MESSAGES, stream=True
    )
    chunks = [one async for one in stream]
    assert [one.system_fingerprint for one in chunks] == ["fp", "fp"]
    assert (chunks[0].id, chunks[0].created, chunks[0].model, chunks[0].service_tier) == ("c1", 7, "m-1", "flex")
    assert chunks[0].choices[0].logprobs is not None
    assert chunks[0].choices[0].logprobs.model_dump(exclude_unset=True) == logprobs
    assert chunks[0].model_extra == {"provider": "Acme"}
    assert chunks[1].choices[0].finish_reason == "stop"
    assert chunks[1].usage is not None
    assert chunks[1].usage.model_extra == {"cost": 0.5}


@each_row("name", ["responses/pieces_lost_a_brace", "anthropic/parallel_calls", "gemini/native_parallel_calls"])
def test_a_repaired_answer_has_the_usage_that_the_provider_wrote(name: str) -> None:
    """Its own object, with the members that no other provider has: what is billed is not counted anew."""
    recording = RECORDINGS[name]
    told = payloads(recording.body)
    usage = [usage for one in told if (usage := _usage(one))][-1]
    usage |= {"cost": 0.5, "told": {"by": "Acme"}}
    body = b"".join(sse(one) for one in told)
    assert [_usage(one) for one in payloads(written(body, [body], recording.adapter)) if _usage(one)][-1] == usage


def _usage(event: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = event.get("response", event)
    return found.get("usage") or found.get("usageMetadata") or {}


async def test_a_cut_stream_is_an_error_of_the_client() -> None:
    """A stream that ends too early raises the client's own error, behind the text that had come."""
    stream = await openai_client(RepairTransport(stored(httpx, CUT))).chat.completions.create(
        model="m", messages=MESSAGES, stream=True
    )
    assert (await anext(stream)).choices[0].delta.content == "Hel"
    with pytest.raises(openai.APIError, match="before the response was complete"):
        await anext(stream)
    started = sse({"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {}}})
    with pytest.raises(anthropic.APIStatusError, match="before the response was complete"):
        raise (await ask("anthropic", started)).error or AssertionError
    created = sse({"type": "response.created", "response": {"id": "r1", "model": "m"}})
    with pytest.raises(openai.APIError, match="before the response was complete"):
        raise (await ask("responses", created)).error or AssertionError


async def test_fragments_of_a_call_go_out_as_they_come() -> None:
    """What a call writes is seen when the next piece has come; its end waits for the end of the answer."""
    repair = RepairSettings().stream("chat", {"model": "m"})
    parts = ['{"text":', '"a long', " story", '"}']
    seen = [repair.feed(call(entry(0, "a", "write", parts[0], type="function")))]
    seen += [repair.feed(call(entry(0, None, None, part))) for part in parts[1:]]
    shown = [_arguments(one) for one in seen]
    assert shown == ["", *parts[:3]]
    end = repair.feed(fin("tool_calls") + DONE)
    assert _arguments(end) == parts[3]
    whole = RepairSettings(partial_tool_calls=False).stream("chat", {"model": "m"})
    assert whole.feed(call(entry(0, "a", "write", "{}"))) == b""
    assert _arguments(whole.feed(fin("tool_calls") + DONE)) == "{}"


def _arguments(body: bytes) -> str:
    payloads = [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: {")]
    deltas = [choice["delta"] for payload in payloads for choice in payload["choices"]]
    return "".join(one["function"]["arguments"] for delta in deltas for one in delta.get("tool_calls", ()))


async def test_a_call_that_reached_the_limit_can_not_be_run() -> None:
    """An answer that is cut off inside a call ends with `length`, and with nothing that a program could run."""
    body = call(entry(0, "a", "f", '{"city":"Pa')) + fin("length") + DONE
    seen = await ask("chat", body, partial_tool_calls=False)
    assert (seen.finish, seen.calls) == ("length", [])
    started = {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 1}}}
    block = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    events: list[Any] = [
        started,
        {"type": "content_block_start", "index": 0, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"city":"Pa'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    half = b"".join(sse(one) for one in events)
    assert isinstance((await ask("anthropic", half)).error, anthropic.APIError)  # its tool runner would run it
    assert (await ask("anthropic", half, partial_tool_calls=False)).finish == "max_tokens"


class Breaking(httpx.AsyncByteStream, httpx.SyncByteStream):
    """A body whose connection breaks."""

    def __init__(self, body: bytes, error: Exception) -> None:
        self._body, self._error, self.closed = body, error, False

    async def __aiter__(self) -> Any:
        yield self._body
        raise self._error

    def __iter__(self) -> Any:
        yield self._body
        raise self._error

    async def aclose(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True


class Pieces(httpx.AsyncByteStream, httpx.SyncByteStream):
    """A body that comes in pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> Any:
        for piece in self._pieces:
            yield piece

    def __iter__(self) -> Any:
        yield from self._pieces


def breaking(body: bytes, error: Exception) -> tuple[httpx.AsyncClient, Breaking]:
    stream = Breaking(body, error)
    mock = httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))
    return httpx.AsyncClient(transport=RepairTransport(mock)), stream


REQUEST: Any = {"url": "http://test/v1/chat/completions", "json": {"stream": True}}


@pytest.mark.parametrize("error", [httpx.ReadTimeout("slow"), httpx.ReadError("reset")], ids=repr)
async def test_a_broken_connection_stays_an_error_of_the_client(error: Exception) -> None:
    """What breaks in the middle is raised as the client raises it; behind the finish reason nothing is lost by it."""
    client, stream = breaking(CUT, error)
    with pytest.raises(type(error)):
        await client.post(**REQUEST)
    assert stream.closed
    for nothing in (b"", b": hi\n\n", b"data: {}\n\n"):
        with pytest.raises(type(error)):
            await breaking(nothing, error)[0].post(**REQUEST)
    answer = await breaking(CUT + fin("stop"), httpx.ReadTimeout("slow"))[0].post(**REQUEST)
    assert answer.text.endswith("data: [DONE]\n\n")
    begun = call({"type": "function", **entry(0, "c", "f", '{"x":')})
    async with breaking(CUT + begun, error)[0].stream("POST", **REQUEST) as got:
        pieces = got.aiter_raw()
        assert [await anext(pieces), await anext(pieces)] == [CUT, begun]  # what waits comes before the error
        with pytest.raises(type(error)):
            await anext(pieces)


async def test_what_is_left_of_a_body_can_be_read() -> None:
    """The async client of openai reads on behind [DONE], from the stream itself, so that its connection serves on."""
    pieces = [CUT + fin("stop") + DONE, b": the end\n\n"]
    below = httpx.MockTransport(lambda _: httpx.Response(200, stream=Pieces(pieces)))
    async with httpx.AsyncClient(transport=RepairTransport(below)) as client, client.stream("POST", **REQUEST) as got:
        first = await anext(got.aiter_raw())
        rest = [[data async for data in got.stream] for _ in range(2)]
    with httpx.Client(transport=RepairTransport(below)) as client, client.stream("POST", **REQUEST) as got:
        again = next(got.iter_raw())
        left = [[*got.stream] for _ in range(2)]
    assert first == again == pieces[0]
    assert rest == left == [[pieces[1]], []]


def test_synchronous_clients_are_served_too() -> None:
    """The same transport repairs the answers of a synchronous client."""
    body = call(entry(1, "a", "f", "{}")) + call(entry(1, None, None, CITY)) + fin("tool_calls") + DONE
    http = httpx.Client(transport=RepairTransport(stored(httpx, body)))
    client = openai.OpenAI(api_key="sk-none", base_url="http://test/v1", http_client=http)  # type: ignore[arg-type]
    with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
        for _ in stream:
            pass
        calls = stream.get_final_completion().choices[0].message.tool_calls
    assert [one.function.arguments for one in calls or ()] == [CITY]
    broken = httpx.MockTransport(lambda _: httpx.Response(200, stream=Breaking(CUT, httpx.ReadError("reset"))))
    with httpx.Client(transport=RepairTransport(broken)) as plain, pytest.raises(httpx.ReadError, match="reset"):
        plain.post(**REQUEST)


@each_row(
    ("url", "body", "status"),
    [
        ("http://test/v1/embeddings", {"stream": True}, 200),
        ("http://test/v1beta/interactions", {"stream": True}, 200),
        ("http://test/v1/chat/completions", {"stream": True, "n": 2}, 200),
        ("http://test/v1/chat/completions", {"stream": True}, 429),
        ("http://test/v1/chat/completions", ["no object"], 200),
    ],
)
async def test_everything_else_is_untouched(url: str, body: Any, status: int) -> None:
    """Other requests, several choices that were asked for, and error responses pass through byte by byte."""
    below = stored(httpx, CUT, status=status)
    async with httpx.AsyncClient(transport=RepairTransport(below)) as client:
        answer = await client.post(url, json=body, headers={"x-mine": "1"})
    assert (answer.content, answer.status_code) == (CUT, status)
    assert "streamfold" not in answer.extensions
    assert json.loads(below.requests[0].content) == body
    assert below.requests[0].headers["x-mine"] == "1"


async def test_what_was_mended_is_told_without_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """The response and the log say what was mended; a key that a server echoes is in neither line of the log."""
    body = chunk({"content": "Hi"}) + sse({"error": {"message": "bad key sk-none"}})
    with caplog.at_level(logging.INFO, "streamfold.repair"):
        seen = await ask("chat", body)
        mended = await ask("chat", call(entry(0, None, "f", CITY)) + fin("tool_calls") + DONE)
    assert str(seen.error) == "bad key sk-none"  # the client's own, from the server it chose
    repaired = mended.extensions["streamfold"]
    assert isinstance(repaired, Repaired)
    assert [warning.code for warning in repaired.warnings] == ["missing_id"]
    assert repaired.reply is not None
    assert [one.name for one in repaired.reply.tool_calls] == ["f"]
    assert "missing_id" in caplog.text
    assert "bad key ***" in caplog.text
    assert "sk-none" not in caplog.text


async def test_a_compressed_answer_is_read() -> None:
    """Clients ask for compression, so an answer may come compressed; it goes on as it is read."""
    body = gzip.compress(text("Hi") + fin("stop") + DONE)
    mock = httpx.MockTransport(lambda _: httpx.Response(200, headers={"content-encoding": "gzip"}, content=body))
    async with httpx.AsyncClient(transport=RepairTransport(mock)) as client:
        answer = await client.post(**REQUEST)
    assert '"Hi"' in answer.text
    assert "content-encoding" not in answer.headers


async def test_whole_answers_are_mended_too() -> None:
    """A completion that is not streamed: markup becomes a call, an error in a 200 a status, the rest stays."""
    message = {"role": "assistant", "content": '<tool_call>{"name":"f","arguments":{}}</tool_call>', "mine": 1}
    whole = {"id": "c1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "x": 2}
    made = await _whole(whole, dialect="hermes", tools=[{"type": "function", "function": {"name": "f"}}])
    assert made["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert made["choices"][0]["message"]["content"] is None
    assert made["choices"][0]["finish_reason"] == "tool_calls"
    assert (made["x"], made["choices"][0]["message"]["mine"]) == (2, 1)
    assert await _whole(whole) == whole


@each_row(
    ("body", "status"),
    [
        ({"error": {"message": "no"}}, 422),
        ({"error": {"message": "no", "code": 429}}, 422),
        ({"error": {"message": "no", "code": 503}}, 422),
        ({"error": {"message": "no", "code": 403}}, 403),
    ],
)
async def test_an_answer_that_can_not_be_read_is_not_asked_for_again(body: Any, status: int) -> None:
    """An error in a 200 that is no stream becomes a status, but none with which SDKs send the request again."""
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=body)

    client = openai_client(RepairTransport(httpx.MockTransport(answer))).with_options(max_retries=2)
    with pytest.raises(openai.APIStatusError) as failed:
        await client.chat.completions.create(model="m", messages=MESSAGES)
    assert (failed.value.status_code, len(asked)) == (status, 1)


@pytest.mark.parametrize("said", ["x", [1]])
async def test_a_whole_call_without_an_object_for_its_arguments(said: Any) -> None:
    """Where a call has an object instead of a text, nobody would see that it is broken: the answer is an error."""
    block = {"type": "tool_use", "id": "t", "name": "f", "input": said}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [block], "stop_reason": "tool_use"}
    repair = RepairSettings().whole("anthropic", {})
    body = json.dumps({**message, "usage": {"input_tokens": 1, "output_tokens": 1}}).encode()
    with pytest.raises(ProtocolError, match="the arguments of f aren't a complete JSON object") as failed:
        repair.repair(body)
    assert failed.value.partial is not None
    assert failed.value.partial.tool_calls == []


# --- numbers, members and ends of a server's own ----------------------------------------------------------------------

NAN, INFINITE = float("nan"), float("-inf")


def messages_events(
    *blocks: dict[str, Any], reason: str | None = "end_turn", **of_the_end: Any
) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}, **of_the_end}
    return [
        {"type": "message_start", "message": message},
        *blocks,
        *([end] if reason else []),
        {"type": "message_stop"},
    ]


@each_row(
    ("api", "events"),
    [
        ("chat", [{"choices": [{"delta": {"content": "A"}, "logprobs": {"content": [{"logprob": INFINITE}]}}]}]),
        ("chat", [{"choices": [{"delta": {"content": "A", "annotations": [{"score": NAN}]}}], "score": NAN}]),
        ("chat", [{"choices": [{"delta": {"content": "A"}}], "usage": {"prompt_tokens": 1, "cost": NAN}}]),
        ("responses", [{"type": "response.output_text.delta", "delta": "A", "score": NAN},
                       {"type": "response.output_item.done", "item": {"type": "web_search_call", "id": "w", "x": NAN}},
                       {"type": "response.completed", "response": {"id": "r", "status": "completed", "cost": NAN}}]),
        ("anthropic", messages_events(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "A", "x": NAN}},
            {"type": "content_block_stop", "index": 0}, context_management={"x": NAN})),
        ("gemini", [{"candidates": [{"content": {"parts": [{"text": "A"}, {"inlineData": {"x": NAN}}]}, "x": NAN}]}]),
    ],
    ids=["log probability", "members", "usage", "responses", "messages", "gemini"],
)  # fmt: skip
def test_numbers_that_json_does_not_have(api: str, events: list[dict[str, Any]]) -> None:
    """The answer is written with them as the server wrote it, or with null."""
    ends = {"chat": fin("stop") + DONE, "gemini": sse({"candidates": [{"finishReason": "STOP"}]})}
    repair = RepairSettings().stream(api, {"stream": True})
    out = repair.feed(b"".join(map(sse, events)) + ends.get(api, b"")) + repair.close()
    assert repair.repaired.error is None
    assert read(api, out).text == "A"


MADE_UP = {
    "chat": text("Hi") + DONE,
    "responses": sse({"type": "response.output_text.delta", "delta": "Hi"}) + DONE,
    "anthropic": b"".join(map(sse, messages_events(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}, reason=None))),
    "anthropic, with a call": b"".join(map(sse, messages_events(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"x":1}'}},
        {"type": "content_block_stop", "index": 0}, reason=None))),
    "anthropic, a word of its own": b"".join(map(sse, messages_events(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"x":1}'}},
        {"type": "content_block_stop", "index": 0}, reason="weird"))),
    "gemini": sse({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}) + DONE,
}  # fmt: skip


@each_row("name", MADE_UP)
def test_no_finish_reason_is_made_up(name: str) -> None:
    """Without `fill_finish_reason` what is written ends as the server's answer does."""
    api, body = name.partition(",")[0], MADE_UP[name]
    repair = RepairSettings().stream(api, {"stream": True})
    made, said = read(api, repair.feed(body) + repair.close()), read(api, body)
    assert (made.text, made.tool_calls, made.raw_finish_reason) == (said.text, said.tool_calls, said.raw_finish_reason)
    mending = RepairSettings(fill_finish_reason=True).stream(api, {"stream": True})
    mended = read(api, mending.feed(body) + mending.close())
    assert mended.raw_finish_reason is not None


@each_row("kind", ["text", "thinking"])
@each_row("stops", [True, False])
def test_an_empty_block_stays(kind: str, stops: bool) -> None:
    """Some programs need a block in each turn. It is written where it stands, with the members that it has."""
    blocks = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": kind, kind: "", "mine": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: ""}},
        {"type": "content_block_stop", "index": 0},
    ]
    repair = RepairSettings().stream("anthropic", {"stream": True})
    out = repair.feed(b"".join(map(sse, messages_events(*(blocks if stops else blocks[:1]))))) + repair.close()
    started = [one["content_block"] for one in payloads(out) if one["type"] == "content_block_start"]
    assert [(one["type"], one[kind], one["mine"]) for one in started] == [(kind, "", 1)]
    assert [one["type"] for one in payloads(out)].count("content_block_stop") == 1


def many_members(api: str, count: int) -> bytes:
    """An answer each of whose events has a member that no other has."""
    events: list[dict[str, Any]] = []
    for at in range(count):
        own = {f"member_{at}": f"value {at}"}
        match api:
            case "chat":
                events.append({"choices": [{"index": 0, "delta": {"content": "A", **own}, **own}], **own})
            case "responses":
                events.append({"type": "response.output_text.delta", "delta": "A", "item_id": "m", **own})
            case "anthropic":
                delta = {"type": "text_delta", "text": "A", **own}
                events.append({"type": "content_block_delta", "index": 0, "delta": delta, **own})
                events.append({"type": "message_delta", "delta": own, "usage": own, **own})
            case _:
                parts = [{"text": "A", **own}]
                events.append({"candidates": [{"content": {"parts": parts}, **own}], "usageMetadata": own, **own})
    if api == "anthropic":
        events = messages_events(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, *events
        )
    return b"".join(map(sse, events))


@each_row("api", ["chat", "responses", "anthropic", "gemini"])
def test_a_member_of_one_event_is_written_once(api: str) -> None:
    """What is written grows as what is read does, whatever members its events have."""
    sizes = []
    for count in (50, 100, 200):
        repair = RepairSettings().stream(api, {"stream": True})
        out = repair.feed(many_members(api, count)) + repair.close()
        assert out.count(b'"member_7"') <= many_members(api, count).count(b'"member_7"')
        sizes.append(len(out))
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


async def _whole(body: Any, dialect: str | None = None, **request: Any) -> Any:
    below = stored(httpx, json.dumps(body).encode(), "application/json")
    async with httpx.AsyncClient(transport=RepairTransport(below, dialect=dialect)) as client:
        answer = await client.post("http://test/v1/chat/completions", json={"model": "m", **request})
    answer.raise_for_status()
    return answer.json()


async def test_hosted_tools_of_responses_keep_their_place() -> None:
    """Items of tools that the server runs itself go through with all of their events, between what is mended."""
    item = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}
    done = {**item, "status": "completed", "action": {"type": "search", "query": "q"}}
    body = b"".join(
        sse(one)
        for one in (
            {"type": "response.created", "response": {"id": "r1", "model": "m", "metadata": {"a": "b"}}},
            {"type": "response.output_item.added", "output_index": 4, "item": item},
            {"type": "response.web_search_call.searching", "output_index": 4, "item_id": "ws_1"},
            {"type": "response.output_item.done", "output_index": 4, "item": done},
            {"type": "response.output_text.delta", "output_index": 5, "item_id": "msg_1", "delta": "Hi"},
            {"type": "response.completed", "response": {"id": "r1", "model": "m", "status": "completed", "output": []}},
        )
    )
    seen = await ask("responses", body)
    assert seen.error is None
    assert [(one["type"], one["id"]) for one in seen.whole["output"]] == [
        ("web_search_call", "ws_1"),
        ("message", "msg_1"),
    ]
    assert seen.whole["output"][0]["action"]["query"] == "q"
    assert seen.whole["metadata"] == {"a": "b"}


async def test_settings_are_checked_where_they_are_given() -> None:
    """A mistake is an error when the transport is made, not when an answer comes."""
    with pytest.raises(ConfigError, match="Allowed: anthropic, chat"):
        RepairTransport(adapter="carrier-pigeon")
    with pytest.raises(ConfigError, match="dialect"):
        RepairTransport(dialect="klingon")


async def test_limits_hold() -> None:
    """An answer beyond the limits ends with an error."""
    seen = await ask("chat", text("x" * 50) + fin("stop") + DONE, limits=Limits(text_chars=10))
    assert isinstance(seen.error, openai.APIError)
    assert "limits.text_chars" in str(seen.error)


@pytest.mark.parametrize("size", [1, 40, 10_000])
def test_an_event_that_is_too_large_is_not_passed_on_in_part(size: int) -> None:
    """The error behind it can be read, and nothing of the event is joined with it."""
    repair = RepairSettings(limits=Limits(event_bytes=1000)).stream("chat", {"model": "m"})
    body = text("Hi") + text("x" * 2000)
    out = b"".join([repair.feed(body[at : at + size]) for at in range(0, len(body), size)]) + repair.close()
    first, error = payloads(out)
    assert first["choices"][0]["delta"]["content"] == "Hi"
    assert "limits.event_bytes" in error["error"]["message"]


async def test_an_adapter_that_is_named_reads_every_path() -> None:
    """Where a server has paths of its own, the wire format is named."""
    below = stored(httpx, call(entry(0, None, "f", CITY)) + fin("stop") + DONE)
    async with httpx.AsyncClient(transport=RepairTransport(below, adapter="chat")) as client:
        answer = await client.post("http://test/generate", json={"stream": True})
    assert '"finish_reason":"tool_calls"' in answer.text


def noted(body: bytes) -> list[tuple[str, str]]:
    """What each chunk says in its delta, in order, but for calls: members with their values, and log probabilities."""
    out: list[tuple[str, str]] = []
    for payload in payloads(body):
        for choice in payload.get("choices", ()):
            told = {**choice["delta"], "logprobs": choice.get("logprobs")}
            out += [(name, str(value)) for name, value in told.items() if value and name not in ("role", "tool_calls")]
    return out


@each_row("first", ["", "{}", '{"x":1}', None])
def test_members_behind_the_beginning_of_a_call(first: str | None) -> None:
    """Whatever waits for a call waits with the members of its event: nothing is said twice, elsewhere or not at all."""
    head = b"" if first is None else call(entry(0, "c", "f", first))
    details = [{"type": "reasoning.text", "text": "hm "}], [{"type": "reasoning.text", "text": "so ", "signature": "s"}]
    body = (
        head
        + chunk({"reasoning_details": details[0]})
        + chunk({"content": "One"}).replace(b'"finish_reason"', b'"logprobs": {"content": ["One"]}, "finish_reason"')
        + chunk({"reasoning_details": details[1]})
        + chunk({"content": "Two"}).replace(b'"finish_reason"', b'"logprobs": {"content": ["Two"]}, "finish_reason"')
    )
    body += call(entry(0, arguments="" if first == '{"x":1}' else "{}")) if head else b""
    body += fin("tool_calls" if head else "stop") + DONE
    for pieces in ([body], [body[at : at + 1] for at in range(len(body))]):
        out = written(body, pieces, "chat")
        reply, said = read("chat", out), noted(out)
        assert (reply.text, reply.reasoning) == ("OneTwo", "hm so ")
        assert [value for name, value in said if name == "reasoning_details"] == [
            str(details[0] if first is None else [{"index": 0, **details[0][0]}]),
            str([{"index": 1, **details[1][0]}]),
        ]
        for word in ("One", "Two"):
            assert said[said.index(("content", word)) + 1] == ("logprobs", str({"content": [word]}))


def test_blocks_behind_a_call_without_arguments() -> None:
    """Citations stay in their text, and blocks of the server's own tools behind the call that came first."""
    starts = [
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
        {"type": "text", "text": ""},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    ]
    cited = {"type": "citations_delta", "citation": {"type": "page_location", "cited_text": "x"}}
    deltas: list[list[dict[str, Any]]] = [[], [{"type": "text_delta", "text": "One"}, cited], []]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}]
    for at, start in enumerate(starts):
        events.append({"type": "content_block_start", "index": at, "content_block": start})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas[at]]
        events.append({"type": "content_block_stop", "index": at})
    events += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    body = b"".join(map(sse, events))
    out = [one for one in payloads(written(body, [body], "anthropic")) if one["type"].startswith("content_block")]
    kinds = [one["content_block"]["type"] for one in out if one["type"] == "content_block_start"]
    assert kinds == ["tool_use", "text", "server_tool_use"]
    assert [(one["index"], one["delta"]["type"]) for one in out if one["type"] == "content_block_delta"][-2:] == [
        (1, "text_delta"),
        (1, "citations_delta"),
    ]


NO_ANSWERS = [
    ("application/json", b"{}"),
    ("application/json", b'{ "foo" : "bar" }'),
    ("application/json", b'{"object":"list","data":[]}'),
    ("application/json", b"[1, 2]"),
    ("application/json", b'"text"'),
    ("application/json", b"not json"),
    ("text/html; charset=utf-8", b"<html><body>no</body></html>"),
    ("application/octet-stream", b"\x00\xff\x01"),
    ("text/event-stream", b'event: completion\r\ndata: {"foo":true}\r\n\r\ndata: [DONE]\r\n\r\n'),
    ("text/event-stream", b": hello\n\ndata: {}\n\n"),
]


@each_row("path", ["chat/completions", "responses", "messages", "models/m:streamGenerateContent"])
@each_row("stream", [False, True])
def test_a_body_that_is_no_answer_goes_through(path: str, stream: bool) -> None:
    """Pages, files, lists and the bodies of tests come out byte by byte, with status and headers, in any coding."""
    for kind, body in NO_ANSWERS:
        for coding, raw in (("", body), ("gzip", gzip.compress(body))):
            headers = {"content-type": kind, "x-mine": "1", **({"content-encoding": coding} if coding else {})}
            if kind != "text/event-stream":
                headers["content-length"] = str(len(raw))
            answer = httpx.Response(200, headers=headers, stream=Whole(raw))
            below = httpx.MockTransport(lambda _, answer=answer: answer)
            request = {"url": f"http://test/v1/{path}", "json": {"stream": stream}}
            with httpx.Client(transport=RepairTransport(below)) as client, client.stream("POST", **request) as got:
                # Events are decoded on their way; of all else the server's own coding stays.
                events = kind == "text/event-stream"
                sent = b"".join(got.iter_bytes() if events else got.iter_raw())
            assert sent == (body if events else raw), (kind, coding)
            assert (got.status_code, got.headers["content-type"], got.headers["x-mine"]) == (200, kind, "1")


def test_a_whole_answer_to_a_request_for_a_stream() -> None:
    """It is written as the stream that was asked for."""
    message = {"role": "assistant", "content": "Hi"}
    whole = {"id": "c1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    below = httpx.MockTransport(lambda _: httpx.Response(200, json=whole))
    with httpx.Client(transport=RepairTransport(below)) as client:
        answer = client.post("http://test/v1/chat/completions", json={"model": "m", "stream": True})
    assert answer.headers["content-type"] == "text/event-stream"
    assert next(one["choices"][0]["delta"].get("content") for one in payloads(answer.content)) == "Hi"


def test_a_stream_that_was_read_below_stays_read() -> None:
    """A cache has read it: the response is closed from the start, as it was, and mended all the same."""
    for body, end in ((CUT + fin("stop") + DONE, b"data: [DONE]\n\n"), (CUT, b"}\n\n")):
        events = {"headers": {"content-type": "text/event-stream"}, "content": body}
        below = httpx.MockTransport(lambda _, events=events: httpx.Response(200, **events))
        with httpx.Client(transport=RepairTransport(below)) as client, client.stream("POST", **REQUEST) as got:
            assert got.is_closed
            assert got.content.startswith(CUT)
            assert got.content.endswith(end)
        assert (got.extensions["streamfold"].error is None) == (got.content == body)


class Whole(httpx.SyncByteStream):
    """A body as it comes over the network: it can be read once."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Any:
        yield self._data


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_a_whole_answer_that_is_right_is_the_very_response(library: Any) -> None:
    """Where nothing is mended nothing is written again: coding, length and headers are the server's own."""
    message = {"role": "assistant", "content": "Hi"}
    whole = {"id": "c1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    body = gzip.compress(json.dumps(whole, indent=1).encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip", "content-length": str(len(body))}
    transport = {httpx: RepairTransport, httpx2: over_httpx2.RepairTransport}[library]

    class Once(library.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> Any:
            yield body

    below = library.MockTransport(lambda _: library.Response(200, headers=headers, stream=Once()))
    async with library.AsyncClient(transport=transport(below)) as client:
        async with client.stream("POST", "http://test/v1/chat/completions", json={"model": "m"}) as answer:
            assert b"".join([data async for data in answer.aiter_raw()]) == body
        plain = await client.post("http://test/v1/chat/completions", json={"model": "m"})
    assert plain.json() == whole
    assert plain.headers["content-length"] == str(len(body))
    assert plain.extensions["streamfold"].reply.text == "Hi"


ITEMS: list[dict[str, Any]] = [
    {"id": "cu", "type": "computer_call", "call_id": "c", "status": "completed", "actions": [{"type": "screenshot"}]},
    {"id": "ct", "type": "custom_tool_call", "call_id": "x", "name": "exec", "input": "ls", "status": "completed"},
    {"id": "ap", "type": "mcp_approval_request", "name": "pay", "arguments": "{}", "server_label": "s"},
    {"id": "sh", "type": "shell_call", "call_id": "s", "status": "completed", "action": {"commands": ["ls"]}},
    {"id": "fc", "type": "function_call", "call_id": "f", "status": "completed", "name": "f", "arguments": "{}"},
]


def test_calls_that_are_no_functions_are_not_written_as_functions() -> None:
    """A computer, a shell, a custom tool and an approval stay the items that they are, each once, for every reader."""
    response = {"id": "r", "object": "response", "created_at": 0, "model": "m", "status": "completed", "output": ITEMS}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "output": []}}]
    for at, item in enumerate(ITEMS):
        events += [
            {"type": f"response.output_item.{how}", "output_index": at, "item": item} for how in ("added", "done")
        ]
    events.append({"type": "response.completed", "response": response})
    body = b"".join(sse({"sequence_number": number, **one}) for number, one in enumerate(events))

    def written(out: bytes) -> list[str]:
        return [one["item"]["type"] for one in payloads(out) if one["type"] == "response.output_item.done"]

    repair = RepairSettings().stream("responses", {})
    assert written(repair.feed(body) + repair.close()) == [item["type"] for item in ITEMS]
    gateway = StreamRewriter("responses", ReplyWriter(ResponsesSerializer(id="r", model="m")))
    assert written(gateway.feed(body) + gateway.close()) == [item["type"] for item in ITEMS]
    chat = StreamRewriter("responses", ReplyWriter(ChatSerializer(id="r", model="m")))
    said = [one["choices"][0]["delta"].get("tool_calls") for one in payloads(chat.feed(body) + chat.close())]
    found = [(call["index"], call[call["type"]]["name"]) for calls in said for call in calls or ()]
    assert sorted(found) == [(0, "exec"), (1, "f")]
    whole = json.dumps(response).encode()
    assert RepairSettings().whole("responses", {}).repair(whole) == whole


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("has_ids", [True, False])
def test_messages_that_are_written_again_keep_what_they_are(has_ids: bool, is_mixed: bool) -> None:
    """Phases and citations survive, and texts stay apart, also without ids and where the pieces are mixed."""
    cited = {"type": "url_citation", "url": "https://x.test", "title": "t", "start_index": 0, "end_index": 1}
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "assistant", "status": "completed", "phase": phase}
        | {"content": [{"type": "output_text", "text": text, "annotations": [cited]}]}
        | ({"id": f"msg_{phase}"} if has_ids else {})
        for text, phase in (("abc", "commentary"), ("xyz", "final_answer"))
    ]
    response = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": items}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "output": []}}] * 2
    done: list[dict[str, Any]] = []
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item.get("id"), "content_index": 0}
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}})
        events += [{"type": "response.output_text.delta", **place, "delta": piece} for piece in ["abc", "xyz"][at]]
        done += [events.pop(), {"type": "response.output_item.done", "output_index": at, "item": item}]
        if not is_mixed:
            events, done = events + done, []
    events += [*done, {"type": "response.completed", "response": response}]
    numbers = [0, *range(len(events) - 1)]  # the first event comes twice: all behind it is written again
    body = b"".join(sse({"sequence_number": number, **one}) for number, one in zip(numbers, events, strict=True))
    repair = RepairSettings().stream("responses", {})
    out = repair.feed(body) + repair.close()
    assert out != body
    found = payloads(out)[-1]["response"]["output"]
    assert [{**one, "id": None} for one in found] == [{**one, "id": None} for one in items]


async def test_a_mended_answer_can_be_read_in_pieces() -> None:
    """As any answer from the network."""
    asked = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [asked]}
    body = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    below = stored(httpx, json.dumps(body).encode(), "application/json")
    url, request = "http://test/v1/chat/completions", {"model": "m", "messages": []}
    async with (
        httpx.AsyncClient(transport=RepairTransport(below)) as client,
        client.stream("POST", url, json=request) as response,
    ):
        mended = json.loads(b"".join([piece async for piece in response.aiter_raw()]))
    assert mended["choices"][0]["message"]["tool_calls"][0]["id"]


@each_row(
    "ending",
    [
        {"type": "response.failed", "response": {"status": "failed", "error": {"code": "busy", "message": "too busy"}}},
        {"type": "error", "code": "busy", "message": "too busy", "param": None},
        {"type": "error", "error": {"type": "server_error", "code": "busy", "message": "too busy", "param": None}},
    ],
)
def test_a_servers_own_failure_is_forwarded(ending: dict[str, Any]) -> None:
    """Nothing is wrong with it, so that a client reads of it what it would read without us."""
    started = {"id": "r", "object": "response", "model": "m", "status": "in_progress", "output": []}
    body = sse({"type": "response.created", "sequence_number": 0, "response": started})
    body += sse({"sequence_number": 1, **ending})
    repair = RepairSettings().stream("responses", {"model": "m", "stream": True})
    assert repair.feed(body) + repair.close() == body
    assert str(repair.repaired.error) == "too busy"


def item_message(item_id: str, said: str, phase: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said, "annotations": []}]
    about = {"role": "assistant", "status": "completed", "phase": phase}
    return {"id": item_id, "type": "message", **about, "content": content}


FINAL_CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "c1",
    "name": "f",
    "arguments": CITY,
    "status": "completed",
}
FINAL_SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
FINAL_FIRST, FINAL_LAST = (
    item_message("m_1", "Let me look.", "commentary"),
    item_message("m_2", "Done.", "final_answer"),
)


@pytest.mark.parametrize("fragments", [True, False])
@each_row(
    ("streamed", "items"),
    [
        ([], [FINAL_FIRST, FINAL_CALL, FINAL_LAST]),
        ([], [FINAL_FIRST, FINAL_SEARCH, FINAL_CALL, FINAL_LAST]),
        ([FINAL_FIRST], [FINAL_FIRST, FINAL_CALL, FINAL_LAST]),
    ],
)
def test_items_that_only_the_final_list_has(streamed: list[Any], items: list[Any], fragments: bool) -> None:
    """A stream is written again with the items of its final list in their order, with their ids and phases."""
    begun = {"id": "r", "object": "response", "status": "in_progress", "model": "m", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(streamed):
        events += [
            {"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}},
            {"type": "response.output_text.delta", "output_index": at, "item_id": item["id"], "content_index": 0}
            | {"delta": item["content"][0]["text"]},
            {"type": "response.output_item.done", "output_index": at, "item": item},
        ]
    events.append({"type": "response.completed", "response": {**begun, "status": "completed", "output": items}})
    body = b"".join(sse({**one, "sequence_number": number}) for number, one in enumerate(events))
    made = payloads(written(body, [body], "responses", partial_tool_calls=fragments))
    assert made[-1]["response"]["output"] == items
    done = [one["item"] for one in made if one["type"] == "response.output_item.done"]
    assert done == items
    added = [one["item"] for one in made if one["type"] == "response.output_item.added"][len(streamed) :]
    assert [one.get("phase") for one in added] == [one.get("phase") for one in items[len(streamed) :]]
    texts = [one["delta"] for one in made if one["type"] == "response.output_text.delta"]
    assert texts == ["Let me look.", "Done."]


def begun_block(at: int, block: dict[str, Any], *pieces: dict[str, Any]) -> list[dict[str, Any]]:
    deltas = [{"type": "content_block_delta", "index": at, "delta": piece} for piece in pieces]
    return [{"type": "content_block_start", "index": at, "content_block": block}, *deltas]


def output_text(at: int, item: str, said: str, kind: str = "output_text") -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": at, "item_id": item, "content_index": 0, "delta": said}


START = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "usage": {"input_tokens": 1},
}
INPUT = {"type": "input_json_delta", "partial_json": '{"city":"Paris"}'}
BROKEN_OFF: dict[str, tuple[str, list[dict[str, Any]], tuple[str, str]]] = {  # API, events, text and refusal
    "behind a call of Messages": (
        "anthropic",
        [
            {"type": "message_start", "message": START},
            *begun_block(0, {"type": "tool_use", "id": "c1", "name": "f", "input": {}}, INPUT),
            {"type": "content_block_stop", "index": 0},
            *begun_block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "After."}),
        ],
        ("After.", ""),
    ),
    "behind a call of Responses": (
        "responses",
        [
            {"type": "response.created", "response": {"id": "r", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**FINAL_CALL, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": CITY},
            {"type": "response.output_item.done", "output_index": 0, "item": FINAL_CALL},
            output_text(1, "m_1", "After."),
            output_text(2, "m_2", "No.", "refusal"),
        ],
        ("After.", "No."),
    ),
    "white space alone": (
        "responses",
        [{"type": "response.created", "response": {"id": "r", "output": []}}, output_text(0, "m_1", "\n")],
        ("\n", ""),
    ),
    "behind a call of Gemini": (
        "gemini",
        [
            {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"city": "Paris"}}}]}}]},
            {"candidates": [{"content": {"parts": [{"text": "After."}]}}]},
        ],
        ("After.", ""),
    ),
    "beside a whole call of Chat Completions": (
        "chat",
        [
            {"id": "x", "object": "chat.completion.chunk", "choices": [
                {"index": 0, "delta": {"content": "Before.", "tool_calls": [entry(0, "c1", "f", CITY)]}}
            ]},
        ],
        ("Before.", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("first", [b"extra: 1\n", b""], ids=["written again", "as it came"])
@pytest.mark.parametrize("name", BROKEN_OFF)
def test_what_came_before_the_connection_broke_is_passed_on(name: str, first: bytes) -> None:
    """Nothing that was received is missing before the exception, whatever waited for the end of a call."""
    api, events, (said, refused) = BROKEN_OFF[name]
    names = [f"event: {one['type']}\n".encode() if "type" in one else b"" for one in events]
    body = first + b"".join(line + sse(one) for line, one in zip(names, events, strict=True))
    repair = RepairSettings().stream(api, {"model": "m"})
    came = repair.feed(body)
    repair.close(interrupted="the connection broke")
    seen = so_far(api, came + repair.left)
    assert (seen.text, seen.refusal) == (said, refused)
    assert repair.repaired.reply is None


@pytest.mark.parametrize("choices", [[], [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]])
def test_usage_is_written_beside_a_choice_where_it_came_so(choices: list[Any]) -> None:
    """Clients of a server that sends usage beside a choice take the choice of every chunk."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    end = {"id": "x", "object": "chat.completion.chunk", "choices": choices, "usage": usage}
    body = b"extra: 1\n" + text("Hi") + fin("stop") + sse(end) + DONE
    repair = RepairSettings().stream("chat", {"model": "m", "stream_options": {"include_usage": True}})
    made = payloads(repair.feed(body) + repair.close())
    counted = [one for one in made if one.get("usage")]
    assert [one["usage"] for one in counted] == [usage]
    assert bool(counted[0]["choices"]) == bool(choices)
    assert [one["choices"][0]["finish_reason"] for one in made if one["choices"]] == [None, "stop"]
