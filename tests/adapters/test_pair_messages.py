"""The pair on the Messages API: what we write is what our decoder reads, and what Anthropic's own client reads."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
import scale
from anthropic_sdk import anthropic_message
from folding import bytewise
from mirror import payloads, read, whole
from planned_calls import PlannedCall, planned_calls
from sdks import anthropic
from streamfold import Reply, ReplyWarning, StreamDecoder, ToolCall, Usage
from streamfold.deltas import Delta, Failure, Finish, ReasoningDelta, TextDelta
from streamfold.errors import ErrorInfo
from streamfold.serving import DeltaOrder, ReplyWriter
from streamfold.serving.anthropic import AnthropicSerializer, anthropic_error_body
from streamfold.serving.reply_deltas import end_deltas
from streamfold.types import ExtraPart, ToolCallDelta
from tables import each_row

pieces = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), max_size=4)
counts = st.integers(0, 10**6)
usages = st.none() | st.builds(Usage, counts, counts, st.none(), st.none(), st.none())


def emit(deltas: list[Delta], **options: Any) -> bytes:
    made = AnthropicSerializer(**{"id": "msg_0", "model": "m", **options})
    return made.feed_all(deltas) + made.finish()


def fragments(calls: list[PlannedCall], rng: random.Random, *, mixed: bool) -> list[Delta]:
    """The fragments of calls; mixed, those of all calls in any order."""
    waiting: list[list[Delta]] = [
        [ToolCallDelta(at, call.id, call.name, ""), *(ToolCallDelta(at, arguments=piece) for piece in call.pieces)]
        for at, call in enumerate(calls)
    ]
    if not mixed:
        return [part for call in waiting for part in call]
    out: list[Delta] = [call.pop(0) for call in waiting]
    while any(waiting):
        out.append(rng.choice([call for call in waiting if call]).pop(0))
    return out


def said(message: anthropic.types.Message) -> tuple[str, str, list[tuple[str, str, Any]]]:
    text = "".join(block.text for block in message.content if block.type == "text")
    thought = "".join(block.thinking for block in message.content if block.type == "thinking")
    calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
    return text, thought, calls


@settings(deadline=None, max_examples=scale.examples(60))
@given(pieces, pieces, planned_calls(), pieces, usages, st.booleans(), st.integers(0, 2**32))
def test_what_is_written_is_read(
    thoughts: list[str],
    texts: list[str],
    calls: list[PlannedCall],
    late: list[str],
    usage: Usage | None,
    mixed: bool,
    seed: int,
) -> None:
    """Thinking, text and calls are equal for our decoder at any cut, and for Anthropic's client."""
    rng = random.Random(seed)
    made = fragments(calls, rng, mixed=mixed)
    reason: Any = "tool_calls" if calls else "stop"
    deltas = [*map(ReasoningDelta, thoughts), *map(TextDelta, texts), *made, *map(TextDelta, late)]
    body = emit([*deltas, *([usage] if usage else []), Finish(reason, reason)])
    expected = ("".join([*texts, *late]), "".join(thoughts), [(call.id, call.name, call.arguments) for call in calls])
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randint(0, 30)))
    for cut in (None, bytewise(body), [body[a:b] for a, b in pairwise([0, *cuts, len(body)])]):
        reply = read("anthropic", body, cut)
        assert (reply.text, reply.reasoning) == expected[:2]
        assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == expected[2]
        assert reply.finish_reason == reason
        if usage:
            assert reply.usage
            assert (reply.usage.input_tokens, reply.usage.output_tokens) == (usage.input_tokens, usage.output_tokens)
    message = anthropic_message(body)
    assert said(message) == expected
    assert message.stop_reason == ("tool_use" if calls else "end_turn")


@settings(deadline=None, max_examples=scale.examples(60))
@given(pieces, pieces, planned_calls(), st.sampled_from(["stop", "length", "content_filter"]))
def test_whole_and_streamed_say_the_same(
    thoughts: list[str], texts: list[str], calls: list[PlannedCall], reason: Any
) -> None:
    """The message that is not streamed has the blocks that Anthropic's client makes of the stream."""
    made = [ToolCall(call.id, call.name, call.arguments, "".join(call.pieces)) for call in calls]
    if reason != "stop":
        made = []  # calls of an answer that was cut are not handed out
    reason = "tool_calls" if made else reason
    reply = Reply("".join(texts), "".join(thoughts), tool_calls=made, finish_reason=reason, reasoned=bool(thoughts))
    body = emit([*map(ReasoningDelta, thoughts), *map(TextDelta, texts), *end_deltas(reply)])
    at_once = anthropic.types.Message.model_validate(whole("anthropic", reply, id="msg_0", model="m"))
    streamed = anthropic_message(body)
    assert said(at_once) == said(streamed)
    assert (at_once.stop_reason, at_once.usage) == (streamed.stop_reason, streamed.usage)


def test_one_block_is_open_at_a_time() -> None:
    """A change of kind stops the block before the next one starts, numbered from 0; nothing empty opens one."""
    deltas: list[Delta] = [
        ReasoningDelta("a"), TextDelta(""), TextDelta("b"), ToolCallDelta(0, "x", "f", "{"), ToolCallDelta(1, "y", "g",
         "{}"), ToolCallDelta(0, arguments="}"),
        TextDelta("c"), Finish("tool_calls", "tool_calls"),
    ]  # fmt: skip
    opened = None
    indexes = []
    for payload in payloads(emit(deltas)):
        match payload["type"]:
            case "content_block_start":
                assert opened is None
                opened = payload["index"]
                indexes.append(opened)
            case "content_block_delta":
                assert payload["index"] == opened
            case "content_block_stop":
                assert payload["index"] == opened
                opened = None
    assert indexes == [0, 1, 2, 3, 4]


def test_signed_thinking() -> None:
    """Each block of thinking ends with its signature, also one whose text the provider does not show."""
    deltas: list[Delta] = [
        ReasoningDelta("a"), ExtraPart("signature", "1"), ReasoningDelta("b"), ExtraPart("signature", "2"),
         TextDelta("c"),
        ExtraPart("signature", "3"), Finish("stop", "stop"),
    ]  # fmt: skip
    blocks = [block.model_dump(exclude_none=True) for block in anthropic_message(emit(deltas)).content]
    kinds = [(block.get("thinking"), block.get("signature"), block.get("text")) for block in blocks]
    assert kinds == [("a", "1", None), ("b", "2", None), (None, None, "c"), ("", "3", None)]
    hidden = anthropic_message(emit(deltas, thinking=False))
    assert [block.type for block in hidden.content] == ["text"]


def test_a_string_that_stopped_the_answer() -> None:
    """The provider says which; the client gets it with the reason that goes with it."""
    deltas: list[Delta] = [TextDelta("a"), ExtraPart("stop_sequence", "END"), Finish("stop", "stop_sequence")]
    message = anthropic_message(emit(deltas))
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    reply = Reply("a", finish_reason="stop", extras={"stop_sequence": ["END"]})
    body = whole("anthropic", reply, id="m", model="m")
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "END")


def test_the_blocks_of_an_answer_come_as_they_came() -> None:
    """Signed and hidden thinking in its place, for a client that sends it back."""
    blocks = [
        {"type": "thinking", "thinking": "a", "signature": "1"},
        {"type": "redacted_thinking", "data": "?"},
        {"type": "text", "text": "b"},
        {"type": "tool_use", "id": "x", "name": "f", "input": {"y": [1]}, "caller": {"type": "direct"}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "z"}},
        {"type": "text", "text": "cited", "citations": [{"type": "char_location", "cited_text": "z"}]},
    ]
    decoder = StreamDecoder("anthropic", partial_tool_calls=True)
    answer = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "tool_use"}
    chunks = [*decoder.feed(json.dumps(answer).encode()), *decoder.close()]

    def body(**options: Any) -> dict[str, Any]:
        made, order = AnthropicSerializer(id="m", model="m", **options), DeltaOrder(whole_calls=True)
        return made.serialize_whole(
            [*(delta for chunk in chunks for delta in order.feed(chunk)), *order.end(decoder.reply)]
        )

    assert body()["content"] == blocks
    assert body(thinking=False)["content"] == blocks[2:]


@pytest.mark.parametrize("info", [ErrorInfo("no"), ErrorInfo("no", "overloaded_error"), ErrorInfo("no", status=429)])
def test_an_answer_that_fails_raises_in_the_client(info: ErrorInfo) -> None:
    """It ends with an error event, which Anthropic's client raises; ours names the kind."""
    body = emit([TextDelta("a"), Failure(info)])
    assert [payload["type"] for payload in payloads(body)][-1] == "error"
    with pytest.raises(anthropic.APIError, match="no"):
        anthropic_message(body)
    assert anthropic_error_body(info)["error"]["type"] in ("api_error", "overloaded_error", "rate_limit_error")


def test_warnings_are_comments() -> None:
    """They stand where no client trips over them."""
    reply = Reply("a", warnings=[ReplyWarning("option_dropped", "x: not sent")], finish_reason="stop")
    body = emit([TextDelta("a"), *end_deltas(reply)])
    assert b": streamfold warning option_dropped: x: not sent" in body
    assert said(anthropic_message(body))[0] == "a"


RECORDED = [
    *sorted((Path(__file__).parents[2] / "fixtures" / "anthropic").glob("*.sse")),
    *corpus.names("corpus/anthropic/*.sse"),
]


@each_row("recorded", RECORDED, ids=lambda path: Path(path).stem)
def test_blocks_pass_through(recorded: Path | str) -> None:
    """An answer of this API that is written again has the same blocks in the same order.

    Texts with their citations, thinking with its signature or redacted, the tools that the server ran and what they
    found: all that its client has to send back.
    """
    path = recorded if isinstance(recorded, Path) else corpus.folder() / recorded
    decoder, again = StreamDecoder("anthropic", partial_tool_calls=True), StreamDecoder("anthropic")
    writer, body = ReplyWriter(AnthropicSerializer(id="msg_0", model="m")), b""
    for piece in bytewise(path.read_bytes()) if path.stat().st_size < 5000 else [path.read_bytes()]:
        body += b"".join(map(writer.feed, decoder.feed(piece)))
    body += b"".join(map(writer.feed, decoder.close()))
    if decoder.reply.finish_reason == "length" and "calls_dropped" in {w.code for w in decoder.reply.warnings}:
        return  # it ends with an error: a call that is cut has no block that could be written
    again.feed(body + writer.finish(decoder.reply))
    again.close()
    blocks = decoder.reply.extras.get("blocks", [])
    assert again.reply.extras.get("blocks", []) == [block for block in blocks if block.get("text") != ""]
    handed_out = [[(call.id, call.arguments) for call in one.reply.tool_calls] for one in (decoder, again)]
    assert handed_out[0] == handed_out[1]
