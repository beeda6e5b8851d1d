"""The pair on Gemini's API: what we write is what our decoder reads, and what Google's own client reads."""

from __future__ import annotations

import json
import random
import re
from base64 import b64decode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scale
from folding import bytewise, fold_error
from google_sdk import google_answer, google_client
from mirror import payloads, read
from planned_calls import PlannedCall, planned_calls
from sdks import genai
from streamfold import Reply, ReplyWarning, StreamDecoder, UpstreamError, Usage
from streamfold.adapters.gemini import gemini_error_body, read_google_error
from streamfold.deltas import Delta, Failure, Finish, ReasoningDelta, RefusalDelta, TextDelta
from streamfold.errors import ErrorInfo
from streamfold.serving.gemini import GeminiSerializer
from streamfold.serving.reply_deltas import end_deltas
from streamfold.types import ExtraPart, ToolCallDelta
from tables import each_row

pieces = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), max_size=4)
counts = st.integers(0, 10**6)
usages = st.none() | st.builds(Usage, counts, counts, st.none(), st.none(), st.none())
SIGNATURE = "c2lnbmVk"


def emit(*deltas: Delta, **options: Any) -> bytes:
    made = GeminiSerializer(**{"id": "r-1", "model": "m-1", **options})
    return made.feed_all(deltas) + made.finish()


def whole(*deltas: Delta) -> dict[str, Any]:
    return GeminiSerializer(id="r-1", model="m-1").serialize_whole(deltas)


def handed_on(calls: list[PlannedCall]) -> list[Delta]:
    return [ToolCallDelta(at, call.id, call.name, "".join(call.pieces), True) for at, call in enumerate(calls)]


@settings(deadline=None, max_examples=scale.examples(40))
@given(pieces, pieces, planned_calls(), pieces, usages, st.integers(0, 2**32))
def test_what_is_written_is_read(
    thoughts: list[str], texts: list[str], calls: list[PlannedCall], late: list[str], usage: Usage | None, seed: int
) -> None:
    """Thoughts, text and calls are equal for our decoder at any cut and in each framing, and for Google's client."""
    rng = random.Random(seed)
    reason: Any = "tool_calls" if calls else "stop"
    said: list[Delta] = [
        *map(ReasoningDelta, thoughts),
        *map(TextDelta, texts),
        *handed_on(calls),
        *map(TextDelta, late),
    ]
    said += [*([usage] if usage else []), Finish(reason, reason)]
    body = emit(*said)
    expected = ("".join([*texts, *late]), "".join(thoughts), [(call.id, call.name, call.arguments) for call in calls])
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randint(0, 30)))
    array, single = emit(*said, framing="array"), json.dumps(whole(*said)).encode()
    for source, cut in [
        (body, None),
        (body, bytewise(body)),
        (body, [body[a:b] for a, b in pairwise([0, *cuts, len(body)])]),
        (array, None),
        (array, bytewise(array)),
        (single, None),
    ]:
        reply = read("gemini", source, cut)
        assert (reply.text, reply.reasoning) == expected[:2]
        assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == expected[2]
        assert (reply.finish_reason, reply.id, reply.model) == (reason, "r-1", "m-1")
        if usage:
            assert reply.usage
            assert (reply.usage.input_tokens, reply.usage.output_tokens) == (usage.input_tokens, usage.output_tokens)
    answer = google_answer(body)
    assert (answer.text, answer.thoughts, answer.calls) == expected
    assert (answer.finish_reason, answer.ids, answer.models) == ("STOP", {"r-1"}, {"m-1"})
    assert len(json.loads(array)) == len(payloads(body))


def test_an_answer_that_is_not_streamed() -> None:
    """It is one object that fits Google's types, with neighbouring texts joined and signed parts left alone."""
    signed = {"text": "", "thoughtSignature": SIGNATURE}
    said: list[Delta] = [
        ReasoningDelta("a"), ReasoningDelta("b"), TextDelta("c"), TextDelta("d"), ExtraPart("blocks", {"text": "cd"}),
         ExtraPart("blocks", signed),
        Usage(3, 5, 8, reasoning_tokens=2, cached_tokens=1), Finish("stop", "stop"),
    ]  # fmt: skip
    answer = whole(*said)
    genai.types.GenerateContentResponse.model_validate(answer)
    assert answer == {
        "candidates": [{"content": {"role": "model", "parts": [
            {"text": "ab", "thought": True}, {"text": "cd"}, signed,
        ]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 3, "totalTokenCount": 8,
                          "thoughtsTokenCount": 2, "cachedContentTokenCount": 1},
        "modelVersion": "m-1", "responseId": "r-1",
    }  # fmt: skip


def test_events_look_as_googles() -> None:
    """Lines end with CR LF, and there is nothing but data: no names of events, no comments."""
    warned = ReplyWarning("option_dropped", "x: not sent")
    body = emit(TextDelta("a\u2028b"), *end_deltas(Reply("ab", warnings=[warned], finish_reason="stop")))
    assert re.fullmatch(rb"(data: \{[^\r\n]*\}\r\n\r\n)+", body)
    assert payloads(body)[-1]["streamfoldWarnings"] == ["streamfold warning option_dropped: x: not sent"]
    assert google_answer(body).text == "a\u2028b"


def test_white_space_keeps_a_stream_alive() -> None:
    """It may stand between the events, and between the chunks of an array."""
    for framing in ("events", "array"):
        made = GeminiSerializer(id="r-1", model="m-1", framing=framing)
        body = (
            made.keep_alive + made.feed(TextDelta("a")) + made.keep_alive + made.feed(TextDelta("b")) + made.keep_alive
        )
        body += made.feed(Finish("stop", "stop")) + made.finish()
        assert read("gemini", body).text == "ab"
        if framing == "events":
            assert google_answer(body).text == "ab"


def test_a_call_is_written_when_it_is_complete() -> None:
    """Until then neither it nor the text behind it is written, so that they keep their order."""
    made = GeminiSerializer(id="r-1", model="m-1")
    assert (
        made.feed(ToolCallDelta(0, "a", "f", '{"x":'))
        == made.feed(ToolCallDelta(0, arguments="1}"))
        == made.feed(TextDelta("late"))
        == b""
    )
    first, second = payloads(made.feed(ToolCallDelta(0, arguments='{"x":1}', whole=True)))
    assert first["candidates"][0]["content"]["parts"] == [{"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}}]
    assert second["candidates"][0]["content"]["parts"] == [{"text": "late"}]


def test_a_call_that_was_cut() -> None:
    """Half a call is left out; where the finish reason does not say so, it is Google's word for a malformed call."""
    half = ToolCallDelta(0, "a", "f", '{"x', True)
    assert google_answer(emit(TextDelta("a"), half, Finish("length", "length"))).calls == []
    answer = google_answer(emit(TextDelta("a"), half, TextDelta("b"), Finish("tool_calls", "tool_calls")))
    assert (answer.text, answer.calls, answer.finish_reason) == ("ab", [], "MALFORMED_FUNCTION_CALL")


@pytest.mark.parametrize("framing", ["events", "array"])
def test_signatures_are_on_their_parts(framing: Any) -> None:
    """On the call that was signed, and behind a text that was; of Google's own API and of its compatible one."""
    calls = [
        ToolCallDelta(0, "a", "f", "{}", True, {"thoughtSignature": "MQ=="}),
        ToolCallDelta(1, "b", "f", "{}", True),
        ToolCallDelta(2, "c", "f", "{}", True, {"extra_content": {"google": {"thought_signature": "Mg=="}}}),
    ]
    blocks = [
        {"text": "hi", "thoughtSignature": "MA=="},
        {"functionCall": {}},
        {"text": "", "thoughtSignature": "Mw=="},
    ]
    body = emit(
        TextDelta("hi"),
        *(ExtraPart("blocks", block) for block in blocks),
        *calls,
        Finish("stop", "STOP"),
        framing=framing,
    )
    found = [
        (part.get("functionCall", {}).get("id"), part.get("thoughtSignature"))
        for chunk in (payloads(body) if framing == "events" else json.loads(body))
        for part in chunk["candidates"][0]["content"]["parts"]
        if part != {"text": ""}
    ]
    assert found == [(None, None), (None, "MA=="), ("a", "MQ=="), ("b", None), ("c", "Mg=="), (None, "Mw==")]
    if framing == "events":
        assert google_answer(body).signatures == [b64decode(text) for text in ("MA==", "MQ==", "Mg==", "Mw==")]


def test_parts_that_only_google_makes() -> None:
    """Code, media and grounding pass through; a call that Google ran itself does not, and neither does its result."""
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    ran = [{"functionCall": {"name": "f"}}, {"functionResponse": {"name": "f", "response": {}}}]
    grounding = {"webSearchQueries": ["x"]}
    extras = [*(ExtraPart("blocks", block) for block in (code, *ran)), ExtraPart("groundingMetadata", grounding)]
    candidate = whole(*extras, TextDelta("a"), Finish("stop", "STOP"))["candidates"][0]
    assert candidate["content"]["parts"] == [code, {"text": "a"}]
    assert candidate["groundingMetadata"] == grounding


def test_thoughts_are_for_clients_that_asked_for_them() -> None:
    """Others get none, nor their signatures."""
    said = [
        ReasoningDelta("Hm"),
        ExtraPart("blocks", {"text": "Hm", "thought": True, "thoughtSignature": SIGNATURE}),
        TextDelta("a"),
    ]
    assert google_answer(emit(*said, Finish("stop", "STOP"))).thoughts == "Hm"
    shown = google_answer(emit(*said, Finish("stop", "STOP"), thinking=False))
    assert (shown.thoughts, shown.signatures, shown.text) == ("", [], "a")


@each_row(
    ("finish", "word"),
    [
        (Finish("stop", "end_turn"), "STOP"),
        (Finish("tool_calls", "tool_calls"), "STOP"),
        (Finish("length", "max_tokens"), "MAX_TOKENS"),
        (Finish("content_filter", "refusal"), "SAFETY"),
        (Finish("content_filter", "RECITATION"), "RECITATION"),
        (Finish("unknown", "OTHER"), "OTHER"),
        (Finish("unknown", "pause_turn"), "OTHER"),
        (None, "OTHER"),
    ],
)
def test_finish_reasons(finish: Finish | None, word: str) -> None:
    """Google's own words where the provider has used them; an end that nobody knows is no STOP."""
    assert google_answer(emit(TextDelta("a"), *([finish] if finish else []))).finish_reason == word


def test_a_prompt_that_was_blocked() -> None:
    """It has no candidate, and says why."""
    blocked = {"blockReason": "PROHIBITED_CONTENT"}
    body = emit(ExtraPart("promptFeedback", blocked), Usage(3, 0, 3), Finish("content_filter", "PROHIBITED_CONTENT"))
    (chunk,) = payloads(body)
    assert ("candidates" in chunk, chunk["promptFeedback"]) == (False, blocked)
    assert google_answer(body).block_reason == "PROHIBITED_CONTENT"
    reply = read("gemini", body)
    assert (reply.finish_reason, reply.raw_finish_reason) == ("content_filter", "PROHIBITED_CONTENT")


def test_a_refusal_is_text() -> None:
    """This API has no other place for it."""
    assert google_answer(emit(RefusalDelta("No."), Finish("stop", "stop"))).text == "No."


@pytest.mark.parametrize("framing", ["events", "array"])
def test_an_answer_that_fails(framing: Any) -> None:
    """It ends with an error that our decoder and Google's client raise; a call that was open is not written."""
    info = ErrorInfo("overloaded", "overloaded_error", status=503)
    body = emit(TextDelta("a"), ToolCallDelta(0, "x", "f", "{}"), TextDelta("b"), Failure(info), framing=framing)
    assert b"functionCall" not in body
    error = fold_error(body, adapter="gemini")
    assert isinstance(error, UpstreamError)
    assert (error.message, error.status_code, error.partial and error.partial.text) == ("overloaded", 503, "ab")
    if framing == "events":
        with pytest.raises(genai.errors.APIError, match="overloaded") as caught:
            google_answer(body)
        assert (caught.value.code, caught.value.status) == (503, "UNAVAILABLE")


@each_row(
    ("info", "word"),
    [
        (ErrorInfo("no", status=429, retry_after=1.5), "RESOURCE_EXHAUSTED"),
        (ErrorInfo("no", "invalid_request_error"), "INVALID_ARGUMENT"),
        (ErrorInfo("no", "server_error"), "INTERNAL"),
        (ErrorInfo("no", code="insufficient_quota", status=429), "RESOURCE_EXHAUSTED"),
        (ErrorInfo("no", code="UNAVAILABLE", status=503), "UNAVAILABLE"),
        (ErrorInfo("no", status=422), "INVALID_ARGUMENT"),
        (ErrorInfo("no", status=529), "INTERNAL"),
        (ErrorInfo("no"), "INTERNAL"),
    ],
)
def test_errors_in_googles_shape(info: ErrorInfo, word: str) -> None:
    """Status, message, wait and whether it is worth another try survive the way there and back."""
    body = gemini_error_body(info)
    assert body["error"]["status"] == word
    back = read_google_error(body, body["error"]["code"])
    assert (back.message, back.retry_after, back.quota) == (info.message, info.retry_after, info.quota)
    assert back.retryable == (info.retryable or info == ErrorInfo("no"))


def test_after_none_no_call_is_written() -> None:
    """Whoever made it."""
    assert google_answer(emit(TextDelta("a"), ToolCallDelta(0, "x", "f", "{}", True), tool_choice="none")).calls == []


@pytest.mark.parametrize("framing", ["events", "array"])
def test_a_cut_body_has_no_end(framing: Any) -> None:
    """Cut between any two chunks, it is not finished for anybody who reads finish reasons."""
    made = GeminiSerializer(id="r-1", model="m-1", framing=framing)
    chunks = [made.feed(delta) for delta in (TextDelta("a"), ToolCallDelta(0, "x", "f", "{}", True), TextDelta("b"))]
    for count in range(1, 4):
        decoder = StreamDecoder("gemini")
        decoder.feed(b"".join(chunks[:count]))
        assert fold_error(b"".join(chunks[:count]), adapter="gemini")


def test_what_a_client_sends_back_is_what_it_got() -> None:
    """The contents that Google's client keeps of a chat have each signature on its part, and none is left out."""
    call = ToolCallDelta(0, "a", "f", '{"x":1}', True, {"thoughtSignature": SIGNATURE})
    with google_client(emit(call, Finish("stop", "STOP"))) as client:
        chat = client.chats.create(model="m")
        list(chat.send_message_stream("?"))
    user, *said = chat.get_history(curated=True)
    parts = [part for content in said for part in content.parts or ()]
    assert (user.role, parts[0].thought_signature) == ("user", b64decode(SIGNATURE))
