"""The pair: what we write we read, on both APIs. Answers through serializers and decoders, requests through encoders
and parsers, and OpenAI's own client reads what we write as we do."""

from __future__ import annotations

import random
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import scale
from folding import bytewise, fold_error, random_cut
from mirror import (
    APIS,
    check_open_responses,
    check_response_events,
    emit,
    emit_chunks,
    emit_reply,
    facts,
    on,
    openai_chat,
    openai_response,
    read,
    serializer,
    whole,
)
from planned_calls import planned_calls
from streamfold import Reply, StreamChunk, StreamDecoder, StreamError, UpstreamError, Usage
from streamfold.deltas import Delta, Finish, Meta, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from streamfold.recording import Recording
from streamfold.serving.reply_deltas import error_delta
from streamfold.serving.reply_writer import chunk_deltas
from streamfold.serving.responses.serializer import ResponsesSerializer
from streamfold.serving.stream_serializer import json_text
from tables import each_row

FOLDER = Path(__file__).parents[2] / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))

pieces = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), max_size=4)
counts = st.none() | st.integers(0, 10**6)


def _counts_reasoning_beside(usage: Usage) -> bool:
    """Whether the reasoning can only be beside the output: by the total (xAI), or because it is more (DeepInfra)."""
    reasoning = usage.reasoning_tokens or 0
    both = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return reasoning > 0 and (usage.total_tokens == both + reasoning or reasoning > (usage.output_tokens or inf))


usages = st.builds(Usage, counts, counts, counts, counts, counts, counts).filter(
    lambda usage: not _counts_reasoning_beside(usage)
)
reasons = st.sampled_from(["stop", "tool_calls", "length", "content_filter"])


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Delta], dict[str, Any]]:
    """The deltas of an answer, with the calls in pieces that may be mixed, and what they say."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    texts, reasonings, calls = draw(pieces), draw(pieces), draw(planned_calls())
    refusal = draw(st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=9))
    waiting = [
        [
            ToolCallDelta(number, call.id, call.name, ""),
            *(ToolCallDelta(number, arguments=piece) for piece in call.pieces),
        ]
        for number, call in enumerate(calls)
    ]
    said: list[Delta] = [Meta("id_1", "m-1", 7), *map(ReasoningDelta, reasonings)]
    if not reasonings and (reasoned := draw(st.booleans())):
        said.append(ReasoningDelta(""))
    else:
        reasoned = bool(reasonings)
    late = [TextDelta(text) for text in texts[draw(st.integers(0, 4)) :]]
    said += map(TextDelta, texts[: len(texts) - len(late)])
    if draw(st.booleans()):
        said += [part for call in waiting for part in call]
    else:
        said += [call.pop(0) for call in waiting]
        while any(waiting):
            said.append(rng.choice([call for call in waiting if call]).pop(0))
    said += late
    if refusal:
        said.append(RefusalDelta(refusal))
    usage = draw(st.none() | usages)
    reason = draw(reasons)
    said += [usage] if usage else []
    said.append(Finish(reason, reason))
    cut = reason in ("length", "content_filter")
    handed = [] if cut else [(call.id, call.name, "".join(call.pieces)) for call in calls]
    told = {
        "text": "".join(texts),
        "reasoning": "".join(reasonings),
        "reasoned": reasoned,
        "refusal": refusal,
        "calls": handed,
        "finish_reason": reason if cut else "tool_calls" if handed else "stop",
        "usage": usage,
        "id": "id_1",
        "model": "m-1",
    }
    return said, told


def calls_of(deltas: list[Delta]) -> bool:
    return any(isinstance(delta, ToolCallDelta) for delta in deltas)


WHITE_SPACE_BEHIND_A_CALL: tuple[list[Delta], dict[str, Any]] = (
    [Meta("id_1", "m-1", 7), TextDelta("Hi"), ToolCallDelta(0, "a", "f", "{}"), TextDelta("\n"), Finish("stop",
     "stop")],
    {"text": "Hi\n", "reasoning": "", "reasoned": False, "refusal": None, "calls": [("a", "f", "{}")],
     "finish_reason": "tool_calls", "usage": None, "id": "id_1", "model": "m-1"},
)  # fmt: skip


@pytest.mark.parametrize("api", APIS)
@settings(deadline=None, max_examples=scale.examples(80))
@example(WHITE_SPACE_BEHIND_A_CALL, 0)
@given(answers(), st.integers(0, 2**32))
def test_what_is_written_is_read(api: str, answer: tuple[list[Delta], dict[str, Any]], seed: int) -> None:
    """Text, reasoning, refusal, calls with ids and raw arguments, finish reason, usage and ids, at any cut."""
    deltas, told = answer
    expected = on(api, told)
    if api == "responses" and calls_of(deltas) and not told["text"].strip():
        expected["text"] = ""  # also where the calls were cut off
    body = emit(api, deltas)
    rng = random.Random(seed)
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randint(0, 30)))
    for cut in (None, [body[start:end] for start, end in pairwise([0, *cuts, len(body)])]):
        reply = read(api, body, cut)
        assert facts(reply) == expected
        mark = {"leaked_markup"} if "<think>" in told["text"] else set[str]()  # that the text is by chance
        assert {warning.code for warning in reply.warnings} <= {"calls_dropped", "empty_answer", *mark}


@settings(deadline=None, max_examples=scale.examples(60))
@given(answers())
def test_openai_reads_a_completion_as_we_do(answer: tuple[list[Delta], dict[str, Any]]) -> None:
    """`client.chat.completions.stream` makes the same completion of it."""
    deltas, told = answer
    if told["finish_reason"] in ("length", "content_filter"):
        return  # it raises for them
    message = openai_chat(emit("chat", deltas)).choices[0].message
    assert (message.content or "", message.refusal) == (told["text"], told["refusal"])
    assert (getattr(message, "reasoning_content", None) or "") == told["reasoning"]
    made = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    assert made == told["calls"]


@settings(deadline=None, max_examples=scale.examples(60))
@given(answers())
def test_openai_reads_a_response_as_we_do(answer: tuple[list[Delta], dict[str, Any]]) -> None:
    """Every event fits OpenAI's types and those of Open Responses, and `client.responses.stream` agrees."""
    deltas, told = answer
    body = emit("responses", deltas)
    check_open_responses(body)
    assert check_response_events(body)["output"] == [
        item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) | _unparsed(item)
        for item in openai_response(body).output
    ]
    assert read("responses", body).tool_calls == read("responses", emit("responses", deltas)).tool_calls
    assert (told["id"], "m-1") == (openai_response(body).id, openai_response(body).model)


def _unparsed(item: Any) -> dict[str, Any]:
    """A message without what the client adds to its parts."""
    if item.type != "message":
        return {}
    return {"content": [part.model_dump(exclude_none=True, exclude={"parsed"}) for part in item.content]}


# --- fixtures ---------------------------------------------------------------------------------------------------------


def play(name: str) -> tuple[Recording, list[StreamChunk], Reply | StreamError]:
    recording = Recording.load(FOLDER / name)
    decoder = StreamDecoder(recording.adapter, **recording.options())
    chunks: list[StreamChunk] = []
    try:
        chunks += decoder.feed(recording.body)
        chunks += decoder.close(interrupted=recording.interrupted)
    except StreamError as error:
        return recording, chunks, error
    return recording, chunks, decoder.reply


@pytest.mark.parametrize("api", APIS)
@each_row("name", scale.some(NAMES, 50))
def test_a_recorded_answer_written_again(name: str, api: str) -> None:
    """Every fixture, emitted as chunks and a reply on either API, is read back as what it was, at any cut."""
    _, chunks, outcome = play(name)
    if isinstance(outcome, StreamError):
        made = serializer(api)
        body = b"".join([made.feed_all(chunk_deltas(chunk)) for chunk in chunks]) + made.feed(error_delta(outcome))
        check_error(api, body, outcome)
        return
    body = emit_chunks(api, chunks, outcome, fill_finish_reason=api == "responses")  # the gateway's
    expected = written(on(api, facts(outcome))) | {"id": outcome.id or "id_0", "model": outcome.model or "m"}
    if outcome.finish_reason == "tool_calls" and not outcome.tool_calls:
        expected["finish_reason"] = "stop"  # nobody writes a reason that promises calls where there are none
    rng = random.Random(name)
    for cut in (None, bytewise(body), *(random_cut(body, rng) for _ in range(scale.pick(20, 2)))):
        assert written(facts(read(api, body, cut))) == expected
    if api == "responses":
        items = {item["type"] for item in outcome.extras.get("output", [])}
        if not items & (ITEMS_OF_OPENAI | ITEMS_OF_OTHERS):
            check_open_responses(body)
        check_response_events(body)
        if not items & ITEMS_OF_OTHERS:
            openai_response(body)
    else:
        assert body.endswith(b"data: [DONE]\n\n")
        # OpenAI's types of chunks do not have what its API sends for custom tools (openai/openai-python#2530).
        if outcome.finish_reason in ("stop", "tool_calls") and all(c.kind == "function" for c in outcome.tool_calls):
            openai_chat(body)
    again = emit_reply(api, outcome, fill_finish_reason=api == "responses")
    assert written(facts(read(api, again))) == expected


def written(told: dict[str, Any]) -> dict[str, Any]:
    """What is told, with arguments as a whole call has them: no text at all is written as an empty object."""
    return told | {"calls": [(call_id, name, raw or "{}") for call_id, name, raw in told["calls"]]}


def check_error(api: str, body: bytes, error: StreamError) -> None:
    """An error is read back as one: its message, its words where it had some, whether to ask again, and the partial."""
    assert error.partial is not None
    for cut in (None, bytewise(body)):
        again = fold_error(body, cut, adapter=api)
        assert isinstance(again, UpstreamError)
        assert (again.message, again.retryable) == (error.message, error.retryable)
        assert again.partial is not None
        assert (again.partial.text.strip(), again.partial.reasoning) == (
            error.partial.text.strip(),
            error.partial.reasoning,
        )
        if isinstance(error, UpstreamError) and api == "chat":
            assert (again.type, again.code, again.status_code) == (error.type, error.code, error.status_code)


ITEMS_OF_OPENAI = {"custom_tool_call", "web_search_call"}  # openresponses.org's types don't have them
ITEMS_OF_OTHERS = {"search_results"}  # Perplexity's; OpenAI's types don't have it either


@each_row("name", scale.some(NAMES, 50))
def test_a_recorded_answer_as_one_body(name: str) -> None:
    """The JSON bodies of both APIs say what the streams say."""
    outcome = play(name)[2]
    if isinstance(outcome, StreamError):
        return
    body = json_text(whole("chat", outcome, id=outcome.id or "id_0", model=outcome.model or "m", created=1)).encode()
    assert facts(read("chat", body)) == facts(read("chat", emit_reply("chat", outcome, id="id_0")))
    made = serializer("responses", id="id_0", fill_finish_reason=True)
    assert isinstance(made, ResponsesSerializer)
    streamed = emit_reply("responses", outcome, id="id_0", fill_finish_reason=True)
    emit_into(made, outcome)
    assert facts(read("responses", json_text(made.response).encode())) == facts(read("responses", streamed))


def emit_into(made: ResponsesSerializer, reply: Reply) -> None:
    from streamfold.serving.reply_deltas import reply_deltas

    made.feed_all(reply_deltas(reply))
    made.finish()
