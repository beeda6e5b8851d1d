"""Reasoning, texts and errors of Chat Completions under other names and in other places: each is a row."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from streamfold import Provider, QuotaExceededError, Reply, StreamDecoder, UpstreamError, user
from tables import each_row


def whole(choice: dict[str, Any]) -> Reply:
    decoder = StreamDecoder("chat")
    body = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}
    decoder.feed(json.dumps(body).encode())
    decoder.close()
    return decoder.reply


def streamed(*deltas: dict[str, Any]) -> Reply:
    decoder = StreamDecoder("chat")
    for delta in (*deltas, {"content": "Hi"}):
        event = {"id": "c", "choices": [{"index": 0, "delta": delta}]}
        decoder.feed(f"data: {json.dumps(event)}\n\n".encode())
    decoder.feed(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    decoder.close()
    return decoder.reply


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "S"}


@each_row(
    ("member", "value", "extra"),
    [
        ("reasoning_content", "hm", None),
        ("reasoning", "hm", None),
        ("reasoning_text", "hm", None),  # GitHub Copilot
        ("reasoning_content", [{"type": "text", "text": "hm"}], None),
        ("reasoning", {"text": "hm"}, None),
        ("content", [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}], None),  # Mistral
        ("content", [{"type": "reasoning", "summary": [{"text": "hm"}]}], "reasoning_parts"),  # Databricks
        ("reasoning_details", [{"type": "reasoning.text", "text": "hm"}], "reasoning_details"),  # OpenRouter
        ("thinking_blocks", [{"type": "thinking", "thinking": "hm"}], "thinking_blocks"),  # LiteLLM
    ],
)
def test_each_name_of_reasoning(member: str, value: Any, extra: str | None) -> None:
    """It is read as reasoning, streamed and whole; what goes back unchanged is kept."""
    message = {"role": "assistant", member: value}
    content = value if isinstance(value, list) and member == "content" else []
    message["content"] = [*content, {"type": "text", "text": "Hi"}]
    replies = [streamed({member: value}), whole({"index": 0, "finish_reason": "stop", "message": message})]
    assert [(reply.text, reply.reasoning) for reply in replies] == [("Hi", "hm")] * 2
    assert [list(reply.extras) for reply in replies] == [[extra] if extra else []] * 2


@each_row(
    "pieces",
    [
        [("h", {"type": "thinking", "thinking": "h"}), ("m", {"type": "thinking", "thinking": "m", "signature": "S"})],
        [
            ("hm", {"type": "thinking", "thinking": "hm"}),
            (None, {"type": "thinking", "thinking": "", "signature": "S"}),
        ],
        [("hm", {"type": "thinking", "thinking": "hm"}), (None, SIGNED)],  # the signed block repeats the text
    ],
)
def test_signed_thinking_goes_back_to_litellm(pieces: list[tuple[str | None, dict[str, Any]]]) -> None:
    """It is one block again, at the endpoint that it came from, and its reasoning counts as sent."""
    reply = streamed(*({"reasoning_content": text, "thinking_blocks": [piece]} for text, piece in pieces))
    assert (reply.reasoning, reply.warnings) == ("hm", [])
    message = reply.message
    turns = [user("x"), message, user("y")]
    litellm = Provider.from_config("litellm", model="m", api_key="k")
    here = litellm.preview(turns)
    assert here.json()["messages"][1] == {"role": "assistant", "content": "Hi", "thinking_blocks": [SIGNED]}
    assert here.warnings == ()
    turns[1] = replace(message, origin="elsewhere")
    there = litellm.preview(turns)
    assert there.json()["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert [warning.code for warning in there.warnings] == ["reasoning_dropped", "provider_data_dropped"]


PARIS = {"role": "assistant", "content": "Paris."}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "parameters": {"x": 1}}}


@each_row(
    ("choice", "codes"),
    [
        ({"index": 0, "message": PARIS, "delta": {"role": "assistant", "content": ""}}, []),  # Perplexity
        ({"index": 0, "message": PARIS, "delta": {"role": "assistant", "content": None}}, []),
        ({"index": 1, "message": PARIS}, ["extra_choice"]),
        ({"index": 0, "text": "Paris."}, ["malformed_event"]),
    ],
)
def test_a_whole_answer_in_another_place(choice: dict[str, Any], codes: list[str]) -> None:
    reply = whole({"finish_reason": "stop", **choice})
    assert (reply.text, [warning.code for warning in reply.warnings]) == ("Paris.", codes)


def test_arguments_in_parameters() -> None:
    """They are read, streamed and whole, with a warning."""
    message = {"role": "assistant", "content": "Hi", "tool_calls": [CALL]}
    answers = [
        whole({"index": 0, "finish_reason": "tool_calls", "message": message}),
        streamed({"tool_calls": [{"index": 0, **CALL}]}),
    ]
    for reply in answers:
        assert [(call.name, call.arguments) for call in reply.tool_calls] == [("f", {"x": 1})]
        assert {warning.code for warning in reply.warnings} == {"repaired_arguments"}


def base(code: int, text: str) -> dict[str, Any]:
    """An answer of MiniMax with an error: https://platform.minimax.io/docs/api-reference/errorcode."""
    return {"id": "x", "choices": None, "base_resp": {"status_code": code, "status_msg": text}}


@each_row(
    ("body", "message", "code", "retryable", "quota"),
    [
        (base(1002, "rate limit"), "rate limit", "1002", True, False),
        (base(1013, "internal error"), "internal error", "1013", True, False),
        (base(1004, "not authorized"), "not authorized", "1004", False, False),
        (base(1008, "insufficient balance"), "insufficient balance", "1008", False, True),
        ({"Response": {"Error": {"Code": "FailedOperation", "Message": "no"}}}, "no", "FailedOperation", False, False),
    ],
)
def test_errors_in_unusual_places(body: Any, message: str, code: str, retryable: bool, quota: bool) -> None:
    """They have the server's message and their meaning, as an event and as a whole body."""
    data = json.dumps(body).encode()
    for sent in (data, b"data: " + data + b"\n\n"):
        decoder = StreamDecoder("chat")
        decoder.feed(sent)
        try:
            decoder.close()
        except UpstreamError as error:
            found = error
        assert (found.message, found.code, found.retryable) == (message, code, retryable)
        assert isinstance(found, QuotaExceededError) is quota


@each_row("reason", ["NO_IMAGE", "IMAGE_OTHER", "OTHER"])
def test_known_words_of_gemini_are_no_unknown_reasons(reason: str) -> None:
    decoder = StreamDecoder("gemini")
    parts = {"content": {"role": "model", "parts": [{"text": "Hi"}]}}
    event = {"candidates": [{**parts, "finishReason": reason}]}
    decoder.feed(f"data: {json.dumps(event)}\n\n".encode())
    decoder.close()
    assert (decoder.reply.finish_reason, decoder.reply.raw_finish_reason) == ("unknown", reason)
    assert decoder.reply.warnings == []
