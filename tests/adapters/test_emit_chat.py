"""Chat Completions, written: deltas in, the very events out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, fold, fold_error
from mirror import comments, emit, emit_reply, openai_chat, payloads, read, serializer, whole
from streamfold import (
    APIConnectionError,
    APITimeoutError,
    EmptyResponseError,
    IncompleteStreamError,
    NamedTool,
    ProtocolError,
    RateLimitError,
    Reply,
    ReplyWarning,
    ServerError,
    ToolCall,
    UpstreamError,
    Usage,
)
from streamfold.deltas import (
    Delta,
    ExtraPart,
    Failure,
    Finish,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    Warn,
)
from streamfold.errors import ErrorInfo
from streamfold.serving.chat.serializer import ChatSerializer
from streamfold.serving.reply_deltas import error_delta
from tables import each_row


def deltas(body: bytes) -> list[Any]:
    """The deltas of a body's chunks, and the finish reasons and usages among them."""
    found: list[Any] = []
    for payload in payloads(body):
        for choice in payload.get("choices", ()):
            found += [choice["delta"]] if choice["delta"] or not choice["finish_reason"] else []
            found += [choice["finish_reason"]] if choice["finish_reason"] else []
        found += [payload["usage"]] if payload.get("usage") else []
    return found


def test_a_whole_stream_to_the_byte() -> None:
    """The role comes with the first delta; then text, the finish reason, and `[DONE]`."""
    made = ChatSerializer(id="chatcmpl-1", model="main", created=7)
    begin = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"main","choices":'
    assert made.feed(TextDelta("Hé")) == (
        begin + '[{"index":0,"delta":{"role":"assistant","content":"Hé"},"finish_reason":null}]}\n\n'.encode()
    )
    assert made.feed(TextDelta("!")) == begin + b'[{"index":0,"delta":{"content":"!"},"finish_reason":null}]}\n\n'
    assert made.feed(Finish("stop", "stop")) == b""
    assert made.feed(Usage(1, 2, 3)) == b""
    assert made.finish() == begin + b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n' + DONE


def test_usage_is_sent_where_it_was_asked_for() -> None:
    """As a last chunk without choices; all others have a null. Nobody is told a usage that no server sent."""
    said: list[Delta] = [TextDelta("Hi"), Usage(1, 2, 3, 1), Finish("stop", "stop")]
    chunks = payloads(emit("chat", said))
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None, None]
    assert (chunks[-1]["choices"], chunks[-1]["usage"]) == (
        [],
        {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}},
    )
    assert not any("usage" in chunk for chunk in payloads(emit("chat", said, include_usage=False)))
    assert all(chunk["choices"] and chunk["usage"] is None for chunk in payloads(emit("chat", [TextDelta("Hi")])))


def test_what_else_a_server_says_of_usage() -> None:
    """It is kept, where it is in the words of this API."""
    raw = {"prompt_tokens": 1, "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 9}, "cost": 0.5}
    usage = payloads(emit("chat", [Usage(1, 2, 3, 9, raw=raw)]))[-1]["usage"]
    assert usage == {**raw, "completion_tokens": 2, "total_tokens": 3}
    other = payloads(emit("chat", [Usage(1, 2, 3, raw={"input_tokens": 1, "cost": 1})]))[-1]["usage"]
    assert other == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def test_a_call_opens_once() -> None:
    """With index, id, type, name and first arguments in one entry; later ones have index and arguments alone."""
    said: list[Delta] = [
        ToolCallDelta(0, "a", "f", ""),
        ToolCallDelta(0, arguments='{"x"'),
        ToolCallDelta(1, "b", "g", "{}"),
        ToolCallDelta(0, "a", "f", ":1}"),  # said again, and written once
    ]
    assert deltas(emit("chat", [*said, Finish("tool_calls", "tool_calls")])) == [
        {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        "tool_calls",
    ]


def test_a_call_waits_for_its_id_and_name() -> None:
    """What came before them is the beginning of its arguments; an id that never comes is made, a name is not."""
    said: list[Delta] = [ToolCallDelta(0, name="f", arguments='{"x"'), ToolCallDelta(0, id="late", arguments=":1}")]
    assert [call.id for call in fold(emit("chat", [*said, Finish("stop", "stop")])).tool_calls] == ["late"]
    nameless: list[Delta] = [
        ToolCallDelta(0, arguments="{}"),
        ToolCallDelta(1, name="g", arguments="{}"),
        Finish("stop", "stop"),
    ]
    assert fold(emit("chat", nameless)).tool_calls == [ToolCall("call_0_1", "g", {}, "{}")]


def test_a_whole_call_after_pieces() -> None:
    """It adds what the pieces lack; where it differs from them, what was written stays."""
    more: list[Delta] = [
        ToolCallDelta(0, "a", "f", '{"x"'),
        ToolCallDelta(0, arguments='{"x":1}', whole=True),
        ToolCallDelta(0, arguments="}"),
    ]
    assert fold(emit("chat", [*more, Finish("stop", "stop")])).tool_calls == [ToolCall("a", "f", {"x": 1}, '{"x":1}')]
    other: list[Delta] = [ToolCallDelta(0, "a", "f", '{"y":1}'), ToolCallDelta(0, arguments='{"x":1}', whole=True)]
    assert fold(emit("chat", [*other, Finish("stop", "stop")])).tool_calls == [ToolCall("a", "f", {"y": 1}, '{"y":1}')]


@each_row("character", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_no_character_ends_a_line_that_is_none(character: str) -> None:
    """A client that splits lines at all that Python's `splitlines` takes for an end reads it as well."""
    said: list[Delta] = [
        TextDelta(f"a{character}b"),
        ToolCallDelta(0, "c", "f", json.dumps({"x": character}, ensure_ascii=False)),
    ]
    body = emit("chat", [*said, Warn("text_mismatch", f"x{character}y"), Finish("tool_calls", "tool_calls")])
    lines = body.decode().splitlines()
    assert [json.loads(line[6:]) for line in lines if line.startswith("data: {")] == payloads(body)
    assert all(not line or line.startswith(("data: ", ": ")) for line in lines)
    assert fold(body).text == f"a{character}b"


def test_half_a_character_is_written_as_json_can() -> None:
    """Halves of a surrogate pair in two pieces are one character to whoever joins them."""
    assert fold(emit("chat", [TextDelta("\ud83d"), TextDelta("\udc4b"), Finish("stop", "stop")])).text == "\U0001f44b"


def test_what_is_beside_the_text() -> None:
    """Reasoning, even empty, refusals, citations and sound have members of their own."""
    said: list[Delta] = [
        ReasoningDelta(""),
        RefusalDelta("No."),
        ExtraPart("annotations", {"type": "url_citation", "url": "u", "title": "t"}),
        ExtraPart("annotations", [{"type": "url_citation", "url": "u", "title": "t"}, {"type": "other"}], whole=True),
        ExtraPart("audio", {"id": "audio_1"}),
        ExtraPart("output", {"type": "reasoning"}),
    ]
    assert deltas(emit("chat", said)) == [
        {"role": "assistant", "reasoning_content": ""},
        {"refusal": "No."},
        {"annotations": [{"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}]},
        {"annotations": [{"type": "other"}]},
        {"audio": {"id": "audio_1"}},
    ]


def test_details_of_reasoning_do_not_repeat_it() -> None:
    """Their text has been said; what has none goes on, and what is lost with a signature is told."""
    said: list[Delta] = [
        ReasoningDelta("Hm."),
        ExtraPart("reasoning_details", {"type": "reasoning.text", "text": "Hm.", "signature": "S"}),
        ExtraPart("reasoning_details", {"type": "reasoning.summary", "summary": "Hm."}),
        ExtraPart("reasoning_details", {"type": "reasoning.encrypted", "data": "E"}),
        Finish("stop", "stop"),
    ]
    body = emit("chat", said)
    assert fold(body).reasoning == "Hm."
    assert fold(body).extras == {"reasoning_details": [{"type": "reasoning.encrypted", "data": "E"}]}
    assert [line.partition(": ")[0] for line in comments(body)] == ["streamfold warning provider_data_dropped"]


@each_row(
    ("finish", "calls", "choice", "word"),
    [
        (Finish("stop", "eos"), False, "auto", "stop"),
        (Finish("stop", "stop"), True, "auto", "tool_calls"),
        (Finish("tool_calls", "stop"), True, "required", "tool_calls"),
        (Finish("tool_calls", "tool_calls"), True, NamedTool("f"), "stop"),
        (Finish("tool_calls", "tool_calls"), True, "none", "stop"),
        (Finish("length", "max_tokens"), False, "auto", "length"),
        (Finish("content_filter", "sensitive"), False, "auto", "content_filter"),
        (Finish("unknown", "steered"), False, "auto", "steered"),
        (None, False, "auto", None),
    ],
)
def test_the_finish_reason(finish: Finish | None, calls: bool, choice: Any, word: str | None) -> None:
    """OpenAI's word for it, streamed or not; a word that nobody knows is handed on, and none is invented."""
    said, reply = _ended(finish, calls=calls)
    assert _reasons_of(emit("chat", said, tool_choice=choice, include_usage=False)) == ([word] if word else [])
    body = whole("chat", reply, id="c", model="m", tool_choice=choice)
    assert body["choices"][0]["finish_reason"] == word
    assert bool(body["choices"][0]["message"].get("tool_calls")) == (calls and choice != "none")


@each_row(
    ("finish", "calls", "choice", "word"),
    [
        (None, False, "auto", "stop"),
        (None, True, "auto", "tool_calls"),
        (None, True, NamedTool("f"), "stop"),
        (Finish("unknown", ""), True, "auto", "tool_calls"),
        (Finish("unknown", "steered"), False, "auto", "steered"),
    ],
)
def test_a_missing_finish_reason_is_mended(finish: Finish | None, calls: bool, choice: Any, word: str) -> None:
    """For clients that want one, as the gateway asks for; the server's own word stays."""
    said, reply = _ended(finish, calls=calls)
    assert _reasons_of(emit("chat", said, tool_choice=choice, include_usage=False, fill_finish_reason=True)) == [word]
    body = whole("chat", reply, id="c", model="m", tool_choice=choice, fill_finish_reason=True)
    assert body["choices"][0]["finish_reason"] == word


def _ended(finish: Finish | None, *, calls: bool) -> tuple[list[Delta], Reply]:
    """A short answer as deltas and as a reply."""
    said: list[Delta] = [
        TextDelta("Hi"),
        *([ToolCallDelta(0, "a", "f", "{}")] if calls else []),
        *([finish] if finish else []),
    ]
    return said, Reply("Hi", tool_calls=[ToolCall("a", "f", {}, "{}")] if calls else [], **_reasons(finish))


def _reasons_of(body: bytes) -> list[str]:
    choices = [choice for chunk in payloads(body) for choice in chunk["choices"]]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


def _reasons(finish: Finish | None) -> Any:
    return {} if finish is None else {"finish_reason": finish.reason, "raw_finish_reason": finish.raw}


def test_a_completion() -> None:
    """The body of an answer that is not streamed."""
    reply = Reply(
        reasoning="Hm.",
        reasoned=True,
        tool_calls=[ToolCall("functions.f:0", "f", {}, "", {"extra_content": {"s": 1}})],
        finish_reason="tool_calls",
        usage=Usage(1, 2, 3),
        extras={"audio": [{"id": "a", "data": "AA"}, {"data": "BB"}], "annotations": [{"type": "x"}]},
    )
    assert whole("chat", reply, id="chatcmpl-1", model="main", created=7) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "main",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "refusal": None,
                    "reasoning_content": "Hm.",
                    "tool_calls": [
                        {
                            "id": "functions.f:0",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                            "extra_content": {"s": 1},
                        }
                    ],
                    "annotations": [{"type": "x"}],
                    "audio": {"id": "a", "data": "AABB"},
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


def test_an_error_ends_the_stream() -> None:
    """As an event with an error object; nothing that looks like an end in order comes after it."""
    made = serializer("chat")
    body = made.feed(TextDelta("Hel")) + made.feed(Failure(ErrorInfo("overloaded", "server_error", "busy", 503)))
    assert payloads(body)[-1] == {
        "error": {"message": "overloaded", "type": "server_error", "param": None, "code": "busy", "status": 503}
    }
    assert made.feed(TextDelta("lo")) + made.feed(Finish("stop", "stop")) + made.finish() == b""
    assert b"[DONE]" not in body
    assert fold_error(body).message == "overloaded"


ERRORS: list[tuple[Any, ErrorInfo]] = [
    (UpstreamError("m", type="t", code="c", status_code=503), ErrorInfo("m", "t", "c", 503)),
    (UpstreamError("m"), ErrorInfo("m")),
    (IncompleteStreamError("m", retryable=True), ErrorInfo("m", "server_error")),
    (EmptyResponseError("m", retryable=True), ErrorInfo("m", "server_error")),
    (ProtocolError("m"), ErrorInfo("m", "upstream_error")),
    (APIConnectionError("m", retryable=True), ErrorInfo("m", "server_error")),
    (APITimeoutError("m", phase="stall", retryable=True), ErrorInfo("m", "timeout_error")),
    (APITimeoutError("m", phase="total", retryable=False), ErrorInfo("m", "upstream_error")),
    (
        RateLimitError("m", status_code=429, code="rate_limit_exceeded", retryable=True),
        ErrorInfo("m", None, "rate_limit_exceeded", 429),
    ),
    (ServerError("m", status_code=502, retryable=True), ErrorInfo("m", "server_error", None, 502)),
]


@each_row("api", ["chat", "responses"])
@each_row(("error", "info"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_error_keeps_its_kind(error: Any, info: ErrorInfo, api: str) -> None:
    """The message, the words that classify it, and whether to ask again come through."""
    assert error_delta(error) == Failure(info)
    again = fold_error(serializer(api).feed(Failure(info)), adapter=api)
    assert isinstance(again, UpstreamError)
    assert (again.message, again.retryable) == (error.message, error.retryable or info.retryable)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_warnings_are_comments(api: str) -> None:
    """What was mended is said before the end, on one line each, where no reader of events trips over it."""
    said: list[Delta] = [
        TextDelta("Hi"),
        Warn("missing_id", "f came\nwithout an id"),
        Warn("missing_id", "f came\nwithout an id"),
        Warn("duplicate_id", "x"),
        Finish("stop", "stop"),
    ]
    body = emit(api, said)
    assert comments(body) == [
        "streamfold warning missing_id: f came without an id",
        "streamfold warning duplicate_id: x",
    ]
    assert read(api, body).warnings == []
    reply = Reply("Hi", finish_reason="stop", warnings=[ReplyWarning("missing_id", "x")])
    assert comments(emit_reply(api, reply)) == ["streamfold warning missing_id: x"]


@each_row("api", ["chat", "responses"])
@each_row("delta", [ToolCallDelta(None, "a", "f", "{}"), TextDelta("x", whole=True)])
def test_what_was_not_sorted_is_refused(api: str, delta: Delta) -> None:
    """A caller that forgot the engine is told so, and does not write nonsense."""
    with pytest.raises(TypeError, match="a serializer needs the deltas of DeltaOrder"):
        serializer(api).feed(delta)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_name_in_pieces_is_refused(api: str) -> None:
    """What was written of a name can't be taken back: the engine joins it first. The same name again says nothing."""
    made = serializer(api)
    body = made.feed_all([ToolCallDelta(0, "a", "get_", ""), ToolCallDelta(0, name="get_", arguments="{}")])
    with pytest.raises(TypeError, match="a serializer needs the deltas of DeltaOrder"):
        made.feed(ToolCallDelta(0, name="weather"))
    assert body.count(b'"get_"') == 1


def test_ids_of_the_answer() -> None:
    """A `Meta` before anything is written says who is speaking; later ones, and empty members, change nothing."""
    made = serializer("chat", include_usage=False)
    body = made.feed_all(
        [Meta(None, "k2", "x"), Meta("c1", None, 3.5), TextDelta("Hi"), Meta("c2", "other", 4), StreamEnd()]
    )
    assert {(chunk["id"], chunk["model"], chunk["created"]) for chunk in payloads(body + made.finish())} == {
        ("c1", "k2", 3)
    }


def test_openai_reads_it() -> None:
    """OpenAI's own client makes the same completion of it."""
    said: list[Delta] = [
        ReasoningDelta("Hm."),
        TextDelta("Hi"),
        ToolCallDelta(0, "functions.f:0", "f", '{"x":'),
        ToolCallDelta(0, arguments="1}"),
        Usage(1, 2, 3),
        Finish("tool_calls", "tool_calls"),
    ]
    made = openai_chat(emit("chat", said))
    message = made.choices[0].message
    assert (message.content, message.reasoning_content, made.choices[0].finish_reason) == ("Hi", "Hm.", "tool_calls")
    assert [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls] == [
        ("functions.f:0", "f", '{"x":1}')
    ]
    assert made.usage.total_tokens == 3


def test_the_texts_of_a_whole_answer_are_joined_once() -> None:
    """Each piece is not added to all that came before it: at 60 MB that held up every other client for seconds."""

    class Piece(str):
        __slots__ = ()

        def __radd__(self, before: str) -> str:
            raise AssertionError("joined one by one")

    written = ChatSerializer(id="c", model="m")
    body = written.serialize_whole(
        [
            TextDelta(Piece("Hel")),
            TextDelta(Piece("lo")),
            RefusalDelta(Piece("N")),
            RefusalDelta(Piece("o")),
            Finish("stop", "stop"),
        ]
    )
    message = body["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == ("Hello", "No")
