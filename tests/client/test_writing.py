"""What a model is still writing: shown as it grows, never run, and gone when the answer has ended."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from time import process_time
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint
from pydantic import BaseModel

import scale
from answering_provider import provider
from folding import DONE, call, entry, fin, text
from mirror import serializer
from streamfold import (
    ChatStream,
    ConfigError,
    Fallback,
    IncompleteStreamError,
    PartialToolCall,
    Provider,
    StreamfoldError,
    ToolCall,
    run_tools,
    sync,
)
from streamfold.deltas import Delta, Finish
from streamfold.testing import ScriptedProvider, say
from streamfold.testing import call as scripted_call
from streamfold.types import PartialUpdate, ToolCallDelta
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(httpx|httpcore):ResourceWarning")

CONTENT = 'print("Hallo 👋")\n' * 20
ARGUMENTS = {"files": [{"path": "a.py", "content": CONTENT}, {"path": "b.py", "content": ""}], "count": 12}
TEXT = json.dumps(ARGUMENTS)


def write_files(files: list[dict[str, str]], count: int) -> str:
    """Writes files."""
    return f"{len(files)} {count}"


def client(pieces: Iterable[bytes], gate: Any = None) -> httpx.AsyncClient:
    """A client whose server sends these pieces, one at a time."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
            await checkpoint()
            if gate is not None:
                await gate()

    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body())))


def pieces_of(arguments: str, size: int = 7) -> list[str]:
    bounds = [*range(0, len(arguments), size), len(arguments)]
    return [arguments[a:b] for a, b in pairwise(bounds)]


def chat(*calls: tuple[str, str, str], size: int = 7) -> list[bytes]:
    """The events of an answer with these calls (id, name, arguments), one behind the other."""
    events = [text("I write. ")]
    for at, (call_id, name, arguments) in enumerate(calls):
        events.append(call(entry(at, call_id, name, "")))
        events += [call(entry(at, arguments=piece)) for piece in pieces_of(arguments, size)]
    return [*events, fin("tool_calls"), DONE]


def written(api: str) -> list[bytes]:
    """The same on another API, in the pieces in which a server sends it."""
    deltas: list[Delta] = [ToolCallDelta(0, "call_1", "write_files", "")]
    deltas += [ToolCallDelta(0, arguments=piece) for piece in pieces_of(TEXT)]
    if api == "gemini":
        place = {"name": "write_files", "id": "call_1"}
        parts = [{"functionCall": {**place, "args": ARGUMENTS}}]
        return [_gemini({"content": {"role": "model", "parts": parts}}), _gemini({"finishReason": "STOP"})]
    made = serializer({"kimi": "chat"}.get(api, api))
    return [*(made.feed(delta) for delta in [*deltas, Finish("tool_calls", "tool_calls")]), made.finish()]


def _gemini(candidate: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({'candidates': [candidate]})}\n\n".encode()


@each_row("api", ["chat", "kimi", "responses", "anthropic", "gemini"])
async def test_calls_under_way(api: str) -> None:
    """Name, text and value so far, on every API; they grow with the chunks, and are gone at the end."""
    async with (
        client(written(api)) as http_client,
        provider(http_client, adapter=api).chat_stream("Hello", [write_files], partial_tool_calls=True) as stream,
    ):
        assert stream.partial_tool_calls == ()
        texts, values = [], []
        async for chunk in stream:
            if chunk.finished:
                assert (stream.partial_tool_calls, chunk.tool_calls) == ((), stream.reply.tool_calls)
            elif stream.partial_tool_calls:
                (one,) = stream.partial_tool_calls
                assert (one.name, chunk.delta, chunk.tool_calls) == ("write_files", "", None)
                texts.append(one.text)
                values.append(one.value)
    assert stream.reply.tool_calls == [ToolCall("call_1", "write_files", ARGUMENTS, TEXT)] or api == "gemini"
    if api != "gemini":  # whole calls are all that it sends
        assert list(dict.fromkeys(texts)) == ["", *(TEXT[:end] for end in [*range(7, len(TEXT), 7), len(TEXT)])]
        assert values[0] is None
        assert {"files": [{"path": "a.py", "content": CONTENT[:9]}]} in [
            {"files": [{**file, "content": file.get("content", "")[:9]} for file in value["files"]]}
            for value in values
            if value and len(value.get("files", ())) == 1
        ]


async def test_calls_under_way_belong_to_the_chunk() -> None:
    """Where the whole answer arrives in one read, `partial_tool_calls` still has only the pieces that were returned."""
    body = b"".join(chat(("call_1", "write_files", TEXT)))
    async with (
        client([body]) as http_client,
        provider(http_client).chat_stream("Hello", [write_files], partial_tool_calls=True) as stream,
    ):
        texts = [[call.text for call in stream.partial_tool_calls] async for _ in stream]
    assert texts == [[], *([TEXT[:end]] for end in [0, *range(7, len(TEXT), 7), len(TEXT)]), []]


async def test_a_number_is_there_when_it_is_complete() -> None:
    """1 may be the beginning of 18."""
    assert PartialToolCall("f", '{"a":"x","b":1').value == {"a": "x"}
    assert PartialToolCall("f", '{"a":"x","b":18}').value == {"a": "x", "b": 18}
    assert PartialToolCall("f", "").value is None
    assert PartialToolCall("f", "no JSON").value is None


async def test_nothing_is_shown_that_was_not_asked_for() -> None:
    """Without the option a call makes no chunks, and `partial_tool_calls` is there all the same, at any time."""
    seen: list[tuple[PartialToolCall, ...]] = []

    async def gate() -> None:
        seen.append(stream.partial_tool_calls)

    events = chat(("a", "write_files", TEXT))
    async with (
        client(events, gate) as http_client,
        provider(http_client).chat_stream("Hello", [write_files]) as stream,
    ):
        chunks = [chunk async for chunk in stream]
    assert [chunk.delta for chunk in chunks] == ["I write. ", ""]
    assert seen[3] == (PartialToolCall("write_files", TEXT[:14]),)
    assert [len(one) for one in seen] == [0, *[1] * (len(events) - 3), 1, 0][: len(seen)]


@pytest.mark.parametrize("fragments", [True, False])
async def test_an_answer_that_breaks_off(fragments: bool) -> None:
    """The error has what was being written, beside the text; it is no call."""
    events = chat(("a", "write_files", TEXT), ("b", "other", "{}"))[:5]
    async with client(events) as http_client:
        with pytest.raises(IncompleteStreamError) as caught:
            await provider(http_client).chat("Hello", [write_files], partial_tool_calls=fragments)
    assert caught.value.partial_tool_calls == (PartialToolCall("write_files", TEXT[:21]),)
    assert caught.value.partial is not None
    assert (caught.value.partial.text, caught.value.partial.tool_calls) == ("I write. ", [])


async def test_secrets_are_not_in_it() -> None:
    """A key that the model repeats is taken out of an error, as everywhere."""
    events = chat(("a", "write_files", '{"x":"sk-canary-0123456789",'))[:-2]
    async with client(events) as http_client:
        with pytest.raises(IncompleteStreamError) as caught:
            await provider(http_client).chat("Hello", [write_files])
    assert caught.value.partial_tool_calls[0].text == '{"x":"***",'


async def test_calls_that_may_not_come_are_not_shown() -> None:
    """After `tool_choice="none"` nobody gets them."""
    async with (
        client(chat(("a", "write_files", TEXT))) as http_client,
        provider(http_client).chat_stream(
            "Hello", [write_files], tool_choice="none", partial_tool_calls=True
        ) as stream,
    ):
        async for _ in stream:
            assert stream.partial_tool_calls == ()


# --- watch ------------------------------------------------------------------------------------------------------------


async def watched(stream: ChatStream, path: str = "files[].content", **options: Any) -> list[PartialUpdate]:
    seen: list[PartialUpdate] = []
    stream.watch(path, seen.append, **options)
    async with stream:
        assert [chunk.delta async for chunk in stream if chunk.delta or not chunk.finished] == ["I write. "]
    return seen


def check(seen: list[PartialUpdate], tool: str | None = "write_files", number: int | None = 0) -> None:
    """The files as they should have been shown."""
    first, second = ([one for one in seen if one.path == ("files", at, "content")] for at in (0, 1))
    assert [*first, *second] == seen
    assert "".join(one.delta for one in first) == CONTENT
    assert [one.done for one in first] == [*[False] * (len(first) - 1), True]
    assert (first[-1].value, second) == (CONTENT, [PartialUpdate(("files", 1, "content"), "", True, "", tool, number)])


async def test_a_file_as_it_is_written() -> None:
    """Each piece at once, under the place that it has, and the whole at its end; the chunks stay what they are."""
    async with client(chat(("a", "write_files", TEXT))) as http_client:
        seen = await watched(provider(http_client).chat_stream("Hello", [write_files]))
    assert len(seen) > 40
    check(seen)


@each_row(
    "events",
    [
        [call(entry(1, "b", "g", "")), call(entry(0, "a", "f", '{"x":"f"}')), call(entry(1, arguments='{"x":"g"}'))],
        [call(entry(1, "b", "g", '{"x":"g"}')), call(entry(0, "a", "f", '{"x":"f"}'))],
        [call(entry(0, "a", "f", '{"x":"f"}')), call(entry(2, "b", "g", '{"x":"g"}'))],
        [call(entry(1, "a", "f", '{"x":"f"}')), call(entry(2, "b", "g", '{"x":"g"}'))],
    ],
    ids=["mixed", "the second first", "a gap", "from one"],
)
async def test_the_number_of_a_call_is_its_place(events: list[bytes]) -> None:
    """`update.call` is the position in `reply.tool_calls`, in whatever order the calls began."""
    async with client([text("I write. "), *events, fin("tool_calls"), DONE]) as http_client:
        stream = provider(http_client).chat_stream("Hello")
        seen = await watched(stream, "x")
    assert {one.call: one.tool for one in seen} == {0: "f", 1: "g"}
    assert [one.name for one in stream.reply.tool_calls] == ["f", "g"]
    assert [one.value for one in sorted(seen, key=lambda one: one.call or 0) if one.done] == ["f", "g"]


async def test_parallel_calls_and_one_tool() -> None:
    """Each call is read by itself, also where their fragments are mixed; `tool` chooses."""
    one, other = '{"x":"first"}', '{"x":"second"}'
    events = [text("I write. "), call(entry(0, "a", "f", "")), call(entry(1, "b", "g", ""))]
    for a, b in zip(pieces_of(one, 3), pieces_of(other, 3), strict=False):
        events += [call(entry(1, arguments=b)), call(entry(0, arguments=a))]
    events += [call(entry(0, arguments=one[15:])), fin("tool_calls"), DONE]
    async with client(events) as http_client:
        seen = await watched(provider(http_client).chat_stream("Hello"), "x")
        chosen = await watched(provider(http_client).chat_stream("Hello"), "x", tool="g")
    assert {(each.tool, each.call, each.value) for each in seen if each.done} == {("f", 0, "first"), ("g", 1, "second")}
    assert {each.tool for each in chosen} == {"g"}
    assert "".join(each.delta for each in chosen) == "second"


@each_row("api", ["chat", "kimi", "responses", "anthropic", "gemini"])
async def test_every_api(api: str) -> None:
    """In pieces, or at the end where a server sends whole calls."""
    seen: list[PartialUpdate] = []
    async with client(written(api)) as http_client, provider(http_client, adapter=api) as model:
        stream = model.chat_stream("Hello", [write_files])
        stream.watch("files[].content", seen.append)
        async for _ in stream:
            pass
    check(seen)


MARKUP = {
    "hermes": '<tool_call>\n{"name": "write_files", "arguments": %s}\n</tool_call>',
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_files:0<|tool_call_argument_begin|>%s"
    "<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_files<｜tool▁sep｜>%s"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "mistral": '[TOOL_CALLS][{"name": "write_files", "arguments": %s}]',
}


@each_row("dialect", MARKUP)
async def test_calls_in_markup(dialect: str) -> None:
    """They are read as far as the dialect knows them: as they come, or when they are complete."""
    events = [*map(text, ["I write. ", *pieces_of(MARKUP[dialect] % TEXT)]), fin("stop"), DONE]
    texts: list[str] = []
    async with client(events) as http_client:
        model = provider(http_client, dialect=dialect)
        seen = await watched(model.chat_stream("Hello", [write_files]))
        async with model.chat_stream("Hello", [write_files], partial_tool_calls=True) as stream:
            async for _ in stream:
                texts += [writing.text for writing in stream.partial_tool_calls]
    check(seen)
    assert len(seen) > 40 or dialect == "mistral"
    assert texts[-1].strip() == TEXT
    assert [(one.name, one.arguments) for one in stream.reply.tool_calls] == [("write_files", ARGUMENTS)]


async def test_an_answer_that_breaks_off_in_markup() -> None:
    """The error has what was being written there, too."""
    markup = MARKUP["kimi"].partition("%s")[0] + TEXT[:30]
    async with client([text(markup)]) as http_client:
        with pytest.raises(IncompleteStreamError) as caught:
            await provider(http_client, dialect="kimi", max_retries=0).chat("Hello", [write_files])
    assert caught.value.partial_tool_calls == (PartialToolCall("write_files", TEXT[:30]),)


@each_row("fence", ["", "```json\n", "  \n"])
async def test_a_structured_answer(fence: str) -> None:
    """The text of the answer is read where it is JSON; a fence round it does not matter."""
    end = "\n```" if fence.strip() else ""
    events = [*map(text, pieces_of(fence + TEXT + end, 3)), fin("stop"), DONE]
    seen: list[PartialUpdate] = []
    async with client(events) as http_client:
        stream = provider(http_client).chat_stream("Hello", response_format="json")
        stream.watch("files[].content", seen.append)
        async for _ in stream:
            pass
    check(seen, None, None)


async def test_a_structured_answer_that_comes_as_a_call() -> None:
    """Some endpoints take a form as a tool; the answer is read as it is written, and once."""

    class Files(BaseModel):
        files: list[dict[str, str]]
        count: int

    seen: list[PartialUpdate] = []
    async with ScriptedProvider(
        say(ARGUMENTS), provider="anthropic:claude-sonnet-4-5", quirks={"response_format": "tool"}
    ) as model:
        stream = model.chat_stream("Hello", response_format=Files)
        stream.watch("files[].content", seen.append)
        async for _ in stream:
            pass
    assert json.loads(stream.reply.text) == ARGUMENTS
    check(seen, None, None)


async def test_fallbacks_and_tool_runs() -> None:
    """The option goes where options go; what failed before is not shown."""
    async with client([]) as broken, client(chat(("a", "write_files", TEXT))) as http_client:
        model = Fallback(provider(broken, max_retries=0), provider(http_client))
        check(await watched(model.chat_stream("Hello", [write_files])))
    scripted = ScriptedProvider(scripted_call("write_files", files=[], count=1), "Done.")
    async with scripted, run_tools(scripted, "Hello", [write_files], partial_tool_calls=True) as run:
        grown = [chunk.details.call async for chunk in run if chunk.details and chunk.details.call]
    assert {call.tool for call in grown} == {"write_files"}
    scripted = ScriptedProvider(
        *[scripted_call("write_files", files=[{"content": "x"}], count=at) for at in (1, 2)], "Done."
    )
    seen: list[PartialUpdate] = []
    async with scripted, run_tools(scripted, "Hello", [write_files]) as run:
        run.watch("files[].content", seen.append)
        assert [chunk.finished async for chunk in run if not chunk.delta] == [True, True, True]
        assert run.partial_tool_calls == ()
    assert [one.value for one in seen if one.done] == ["x", "x"]
    assert run.reply.text == "Done."


async def test_misuse() -> None:
    """It is refused where it happens, with what is wrong."""
    async with client(chat(("a", "f", "{}"))) as http_client, provider(http_client).chat_stream("Hello") as stream:
        with pytest.raises(ConfigError, match="not a path such as"):
            stream.watch("files[", print)
        with pytest.raises(ConfigError, match="an async function"):
            stream.watch("files", anyio.sleep)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="not str"):
            stream.watch("files", "print")  # type: ignore[arg-type]
        await anext(stream)
        with pytest.raises(StreamfoldError, match="before the stream is read"):
            stream.watch("files", print)


async def test_a_function_that_raises() -> None:
    """Its exception is the reader's; the stream can still be read."""
    async with client(chat(("a", "f", '{"x":"ab"}'), size=99)) as http_client:
        stream = provider(http_client).chat_stream("Hello")
        stream.watch("x", lambda _: 1 / 0)
        async with stream:
            with pytest.raises(ZeroDivisionError):
                async for _ in stream:
                    pass
            assert [chunk.finished async for chunk in stream] == [True]
    assert stream.reply.tool_calls[0].arguments == {"x": "ab"}


async def test_a_whole_that_differs_is_the_truth() -> None:
    """What was shown is not taken back: the call at the end is what counts."""
    seen: list[PartialUpdate] = []
    events = [call(entry(0, "a", "f", '{"x":"ab"}')), call(entry(0, arguments='{"x":"ab"}')), fin("stop"), DONE]
    async with client(events) as http_client:
        stream = provider(http_client).chat_stream("Hello")
        stream.watch("x", seen.append)
        async with stream:
            async for _ in stream:
                pass
    assert [one.value for one in seen] == ["ab"]
    assert stream.reply.tool_calls[0].arguments == {"x": "ab"}


async def test_a_large_argument() -> None:
    """1 MB in 20,000 pieces: the path is shown before 1 KB has come, and the last value is the argument."""
    content = 'def f(x):\n    return "é" + x\n' * scale.pick(36000, 3600)
    pieces = pieces_of(json.dumps({"path": "src/a.py", "content": content}), 62)
    events = [call(entry(0, "a", "write", "")), *(call(entry(0, arguments=piece)) for piece in pieces)]
    sent = 0
    shown_at: list[int] = []
    last: list[Any] = []

    def counted() -> Iterable[bytes]:
        nonlocal sent
        for at, piece in enumerate([*events, fin("tool_calls"), DONE]):
            sent += len(pieces[at]) if at < len(pieces) else 0
            yield piece

    async with client(counted()) as http_client:
        stream = provider(http_client).chat_stream("Hello")
        stream.watch("path", lambda _: shown_at.append(sent))
        stream.watch("content", lambda update: last.append(update.value) if update.done else None)
        async for _ in stream:
            pass
    assert len(pieces) > scale.pick(20_000, 2_000)
    assert shown_at[0] < 1000
    assert last == [content] == [stream.reply.tool_calls[0].arguments["content"]]


@pytest.mark.thorough  # a ratio is measured: nothing for a machine that is busy
def test_what_a_watcher_costs() -> None:
    """All of a stream of 1 MB in 20,000 pieces takes less than twice the time that it takes without one."""
    content = 'def f(x):\n    return "é" + x\n' * 36000
    events = [call(entry(0, "a", "write", ""))]
    events += [call(entry(0, arguments=piece)) for piece in pieces_of(json.dumps({"content": content}), 62)]

    async def read(watch: bool) -> float:
        async with client([*events, fin("tool_calls"), DONE]) as http_client:
            stream = provider(http_client).chat_stream("Hello")
            if watch:
                stream.watch("content", lambda _: None)
            began = process_time()
            async for _ in stream:
                pass
            return process_time() - began

    with_, without = (min(anyio.run(read, watch) for _ in range(5)) for watch in (True, False))
    assert with_ < 2 * without, f"{with_:.3f} s beside {without:.3f} s"


def test_without_async() -> None:
    """The functions are called in the thread that reads, as the pieces come; `partial_tool_calls` is there too."""
    threads: set[int] = set()
    seen: list[PartialUpdate] = []

    def show(update: PartialUpdate) -> None:
        threads.add(threading.get_ident())
        seen.append(update)

    http_client = client(chat(("a", "write_files", TEXT)))
    config = {"base_url": "http://test/v1", "model": "m", "api_key": "k"}
    with sync.Provider(Provider.from_config(config, http_client=http_client)) as model:
        stream = model.chat_stream("Hello", [write_files])
        stream.watch("files[].content", show)
        assert [chunk.delta for chunk in stream] == ["I write. ", ""]
        check(seen)
        seen.clear()
        stream = model.chat_stream("Hello", [write_files])
        stream.watch("files[].content", show)
        assert stream.read().tool_calls[0].arguments == ARGUMENTS
        check(seen)
        with model.chat_stream("Hello", [write_files], partial_tool_calls=True) as stream:
            assert [one.text for _ in stream for one in stream.partial_tool_calls][-1] == TEXT
            assert stream.partial_tool_calls == ()
    assert threads == {threading.get_ident()}


@each_row("size", [1, 7, 99, 100, 101, 1000])
@each_row("lead", ["```json\n", "\n\n``` \n", "`" * 99 + "\n", "", " \n"])
async def test_an_answer_in_a_fence_however_it_is_cut(size: int, lead: str) -> None:
    """The first line decides whether there is a fence, not the size of the first chunk."""
    said = {"title": "x", "files": [{"path": "a", "content": "long " * 60}]}
    body = lead + json.dumps(said) + ("\n```" if "`" in lead else "")
    events = [text(body[at : at + size]) for at in range(0, len(body), size)]
    for reads in ([*events, fin("stop"), DONE], [b"".join([*events, fin("stop"), DONE])]):
        seen: list[str] = []
        async with client(reads) as http_client:
            stream = provider(http_client).chat_stream("?", coalesce=True)
            stream.watch("files[].content", lambda update, seen=seen: seen.append(update.delta))  # type: ignore[misc]
            async for _ in stream:
                pass
        assert "".join(seen) == "long " * 60


async def test_what_is_shown_of_a_call_only_grows() -> None:
    """Half a character at the end waits for its other half, and a number inside a string is no number."""
    pieces = ['{"a":"x', "<ud83d>", "<udc4b> -", "1", '2 y"}']
    events = [call(entry(0, "a", "f", "")), *(call(entry(0, arguments=piece)) for piece in pieces), fin("stop"), DONE]
    events = [one.replace(b"<ud83d>", b"\\ud83d").replace(b"<udc4b>", b"\\udc4b") for one in events]
    shown: list[PartialToolCall] = []
    async with client(events) as http_client, provider(http_client).chat_stream("?", partial_tool_calls=True) as stream:
        async for _ in stream:
            shown += stream.partial_tool_calls
    texts = [one.text for one in shown]
    values = [(one.value or {}).get("a", "") for one in shown]
    for said in (texts, values):
        assert all(after.startswith(before) for before, after in pairwise(said))
    assert values[-1] == "x👋 -12 y"
