"""Written again, an answer is right for readers that go one by one: a call is complete where the next one begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import call_streams
import scale
from folding import DONE, call, entry, fin, fragments, random_cut, text
from mirror import openai_chat, openai_done, payloads, read, serializer
from streamfold import Reply
from streamfold.recording import Recording
from streamfold.serving import ReplyWriter
from streamfold_repair.rewriter import StreamRewriter
from streamfold_repair.stream_repair import RepairSettings
from tables import each_row

FOLDER = Path(__file__).parents[3] / "fixtures"
UNKNOWN = "gemini-interactions"  # answers of a wire format that is passed through unchanged
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse") if file.parent.name != UNKNOWN)
APIS = ("chat", "responses", "anthropic", "gemini")


def one_by_one(body: bytes) -> list[list[str]]:
    """Id, name and arguments of each call; a piece belongs to the call that began last, whatever number it has."""
    calls: list[list[str]] = []
    theirs = False  # a tool that the server runs itself has an input, too
    for payload in payloads(body):
        for choice in payload.get("choices", ()):
            for made in choice["delta"].get("tool_calls") or ():
                if made.get("id"):
                    calls.append([made["id"], made["function"]["name"], ""])
                calls[-1][2] += made["function"].get("arguments") or ""
        match payload:
            case {"type": "response.output_item.added", "item": {"type": "function_call"} as item}:
                calls.append([item["call_id"], item["name"], item["arguments"]])
            case {"type": "response.output_item.done", "item": {"type": "custom_tool_call"} as item}:
                calls.append([item["call_id"], item["name"], item["input"]])
            case {"type": "response.function_call_arguments.delta", "delta": piece}:
                calls[-1][2] += piece
            case {"type": "content_block_start", "content_block": block}:
                theirs = block["type"] != "tool_use"
                calls += [] if theirs else [[block["id"], block["name"], ""]]
            case {"delta": {"type": "input_json_delta", "partial_json": piece}} if not theirs:
                calls[-1][2] += piece
        for candidate in payload.get("candidates", ()):
            for part in candidate.get("content", {}).get("parts", ()):
                if said := part.get("functionCall"):
                    calls.append([said.get("id", ""), said["name"], json.dumps(said["args"])])
    return calls


def means(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def check_one_by_one(out: bytes, reply: Reply, api: str) -> None:
    """The calls that such a reader finds are those of the reply."""
    ids = api != "gemini"
    found = [(made[0] if ids else "", made[1], means(made[2])) for made in one_by_one(out)]
    wanted = [(one.id if ids else "", one.name, means(one.raw_arguments)) for one in reply.tool_calls]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


def whole_streams(server: str, count: int) -> Iterator[tuple[int, call_streams.Stream]]:
    """Streams that number, name and repeat their calls in any way, and hand them out in an order that they say."""
    for seed, stream in call_streams.with_objects(server, range(count)):
        right = stream.expected
        if right.error is None and right.ordered and not right.safe:
            yield seed, stream


def is_nothing(reply: Reply) -> bool:
    """Returns whether a reply has neither text, reasoning nor calls."""
    return not (reply.text or reply.refusal or reply.reasoning or reply.tool_calls)


def said(reply: Reply) -> list[str]:
    """The text and the refusal, which some APIs have no place for but the text, without blanks that nobody needs."""
    return sorted("".join((reply.text + (reply.refusal or "")).split()))


@each_row("server", sorted(call_streams.APIS))
@each_row("api", APIS)
def test_calls_whose_fragments_are_mixed(api: str, server: str) -> None:
    """Each call is whole before the next one begins, on every API, whatever habits the server has."""
    for seed, stream in whole_streams(server, scale.pick(2000, 80)):
        made = StreamRewriter(server, ReplyWriter(serializer(api)))
        out = b"".join(map(made.feed, random_cut(stream.body, Random(seed))))
        out += made.close(interrupted=stream.interrupted)
        if made.error is None and made.reply.finish_reason not in ("length", "content_filter"):
            check_one_by_one(out, made.reply, api)
            if is_nothing(made.reply):  # its calls were dropped: what is left is an answer of nothing
                continue
            assert said(read(api, out)) == said(made.reply), seed


# A whole call in one event, which goes on as it came: who reads the pieces alone has none of it from any server.
WITHOUT_PIECES = ("responses/done_without_added",)


@each_row("name", [*scale.some([name for name in NAMES if name not in WITHOUT_PIECES], 60), *WITHOUT_PIECES])
def test_recordings_under_the_repair(name: str) -> None:
    """The same for the bundled recordings, repaired on their own API."""
    recording = Recording.load(FOLDER / name)
    repair = RepairSettings(dialect=recording.dialect or None).stream(recording.adapter, {"model": "m", "stream": True})
    out = repair.feed(recording.body) + repair.close(interrupted=recording.interrupted)
    reply = repair.repaired.reply
    if name in WITHOUT_PIECES:
        assert out == recording.body
    elif reply is not None and reply.finish_reason not in ("length", "content_filter"):
        check_one_by_one(out.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), reply, recording.adapter)


def test_openai_helper_and_accumulator() -> None:
    """OpenAI's own helper calls a call done when the next one begins: each has all of its arguments then, once."""
    for seed, stream in whole_streams("chat", scale.pick(400, 20)):
        repair = RepairSettings().stream("chat", {"model": "m", "stream": True})
        out = repair.feed(stream.body) + repair.close(interrupted=stream.interrupted)
        reply = repair.repaired.reply
        if reply is None or reply.finish_reason != "tool_calls":
            continue
        wanted = [(one.name, one.arguments) for one in reply.tool_calls]
        assert [(name, means(text)) for name, text in openai_done(out)] == wanted, seed
        message = openai_chat(out).choices[0].message
        assert [(one.function.name, means(one.function.arguments)) for one in message.tool_calls or ()] == wanted, seed


def test_an_end_is_held_back_until_something_else_comes() -> None:
    """The last call of an answer that breaks off never looks whole, and one behind which something came is whole."""
    made = StreamRewriter("chat", ReplyWriter(serializer("chat")))
    steps = [
        (call(entry(0, "a", "f", '{"x":1}')), [["a", "f", '{"x":1']]),
        (call(entry(1, "b", "f", '{"y"')), [["a", "f", '{"x":1}'], ["b", "f", '{"y']]),
        (call(entry(2, "c", "f", '{"z":3}')), [["a", "f", '{"x":1}'], ["b", "f", '{"y']]),
        (call(entry(1, arguments=":2}")), [["a", "f", '{"x":1}'], ["b", "f", '{"y":2']]),
    ]
    out = b""
    for body, calls in steps:
        out += made.feed(body)
        assert one_by_one(out) == calls
    assert one_by_one(out + made.feed(text("Hm."))) == [
        ["a", "f", '{"x":1}'],
        ["b", "f", '{"y":2}'],
        ["c", "f", '{"z":3}'],
    ]


def test_arguments_that_go_on_behind_the_next_call() -> None:
    """White space is left out; anything else ends the answer with an error, because it would be the next call's."""
    begun = fragments('0 a f {"x":1}', '1 b f {"y":2}')
    for more, fails in ((" \n", False), ("}", True)):
        made = StreamRewriter("chat", ReplyWriter(serializer("chat")))
        out = made.feed(begun + call(entry(0, arguments=more)) + fin("tool_calls") + DONE) + made.close()
        assert (made.error is not None) is fails
        assert one_by_one(out)[0] == ["a", "f", '{"x":1}']
