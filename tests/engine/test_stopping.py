"""`stop` that a model does not take: the reader ends the answer there, however the bytes were cut."""

from __future__ import annotations

import json
from typing import Any

import anyio.lowlevel
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folding import DONE
from scale import examples
from streamfold import Provider, Reply, StreamDecoder, Usage
from streamfold.deltas import Block, ReasoningDelta, StopSequenceHit, TextDelta
from streamfold.engine.accumulator import StreamAccumulator
from streamfold.engine.pipeline import Pipeline
from streamfold.engine.stop_sequences import StopSequences
from streamfold.serving import serialize_reply
from streamfold.types import ToolCallDelta
from tables import each_row


def cut(pieces: list[str], stops: list[str]) -> tuple[str, str | None]:
    """The text that is handed out, and the text at which it ended."""
    reader, out = StopSequences(stops), []
    for piece in pieces:
        out += reader.feed(TextDelta(piece))
    out += reader.finish()
    ends = [delta.text for delta in out if isinstance(delta, StopSequenceHit)]
    return "".join(delta.text for delta in out if isinstance(delta, TextDelta)), ends[0] if ends else None


@settings(max_examples=examples(300))
@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.data())
def test_any_cut_of_the_text(text: str, stops: list[str], data: st.DataObject) -> None:
    """The text that is whole first counts. Nothing behind its beginning is handed out, and nothing before is lost."""
    whole = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    wanted = (text[: min(whole)[1]], text[min(whole)[1] : min(whole)[0]]) if whole else (text, None)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert cut(pieces, stops) == cut(list(text), stops) == cut([text], stops) == wanted


def test_what_may_be_a_beginning_is_held_back() -> None:
    """Until it is known that it is none; it does not reach across a call or reasoning."""
    reader = StopSequences(["END"])
    assert list(reader.feed(TextDelta("one EN"))) == [TextDelta("one ")]
    assert list(reader.feed(TextDelta("E"))) == [TextDelta("EN")]
    assert list(reader.feed(ToolCallDelta(0, "a", "f"))) == [TextDelta("E"), ToolCallDelta(0, "a", "f")]
    assert list(reader.feed(TextDelta("E"))) == []
    assert list(reader.feed(ReasoningDelta("hm"))) == [TextDelta("E"), ReasoningDelta("hm")]
    assert list(reader.finish()) == []


def chunk(delta: str, finish: str = "null") -> bytes:
    return f'data: {{"id":"c","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}\n\n'.encode()


BODY = (
    chunk('{"content":"one "}')
    + chunk('{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}')
    + chunk('{"content":"two EN"}') + chunk('{"content":"D three"}') + chunk("{}", '"tool_calls"')
    + b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":9}}\n\n' + DONE
)  # fmt: skip


@each_row("dialect", [None, "hermes", "think"])
@each_row("size", [1, 2, 7, len(BODY)])
def test_any_cut_of_the_bytes(size: int, dialect: str | None) -> None:
    """The reply ends before the text, in order, without calls that were begun and with an unknown usage."""
    decoder = StreamDecoder("chat", dialect=dialect, stop=["END"])
    chunks = [one for at in range(0, len(BODY), size) for one in decoder.feed(BODY[at : at + size])] + decoder.close()
    assert "".join(one.delta for one in chunks) == decoder.reply.text == "one two "
    assert (chunks[-1].finished, chunks[-1].finish_reason, chunks[-1].usage) == (True, "stop", None)
    assert (decoder.stopped, decoder.reply.tool_calls) == (True, [])
    assert [warning.code for warning in decoder.reply.warnings] == ["calls_dropped"]
    whole = StreamDecoder("chat", dialect=dialect, stop=["nowhere"])
    whole.feed(BODY)
    whole.close()
    assert (whole.reply.text, len(whole.reply.tool_calls), whole.stopped) == ("one two END three", 1, False)


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "gemini"])
def test_usage_of_an_answer_in_one_piece(api: Any) -> None:
    """A body in one piece says what it cost, also if its text is cut at a stop sequence."""
    usage = Usage(100, 20, 120)
    whole = Reply("one END two", finish_reason="stop", usage=usage, id="a", model="m")
    decoder = StreamDecoder(api, stop=["END"])
    decoder.feed(json.dumps(serialize_reply(whole, api, model="m").body).encode())
    decoder.close()
    found = decoder.reply.usage
    assert (decoder.reply.text, decoder.stopped) == ("one ", True)
    assert found is not None
    assert (found.input_tokens, found.output_tokens) == (100, 20)


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # of trio, where nothing reads an iterator on
async def test_the_rest_is_not_read() -> None:
    """The connection is closed where the answer ends: what the model writes on is not waited for."""
    read: list[int] = []

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self):  # type: ignore[no-untyped-def]
            for number in range(10_000):
                await anyio.lowlevel.checkpoint()  # as a network is waited for, so that the wait can be ended
                read.append(number)
                yield chunk(f'{{"content":"{number} "}}')

    def answer(request: httpx.Request) -> httpx.Response:
        assert b'"stop"' not in request.content
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Endless())

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = Provider.from_config("openai:o3", api_key="k", http_client=client)
        reply = await provider.chat("count", stop="7 ")
    assert reply.text == "0 1 2 3 4 5 6 "
    assert len(read) < 5_000  # the network is read in blocks
    assert [warning.code for warning in reply.warnings] == ["option_emulated"]
    assert reply.message.content == reply.text


def test_one_list_of_blocks_behind_a_stop() -> None:
    """What the rest of the event says of blocks reaches the blocks of the answer, which begin anew there."""
    fold = StreamAccumulator()
    pipeline = Pipeline(fold, StopSequences(["END"]))
    before = Block(0, "text", {"type": "text", "text": "a END"}, "text")
    behind = Block(1, "other", {"type": "server_tool_use", "id": "s"}, whole=True)
    pipeline.feed([before, behind], "", [])
    assert (fold.finished, fold.blocks.content({})) == (True, [{"type": "server_tool_use", "id": "s"}])
