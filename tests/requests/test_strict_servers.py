"""Conversations for Anthropic and Google: by the official types, and before servers that refuse what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from conversation_strategies import conversation
from folding import event
from scale import some
from streamfold import ConfigError, Message, Provider, StreamDecoder, Tool, tool_result, user
from strict_rules import anthropic_problems, google_problems
from tables import each_row

PROBLEMS: dict[str, Callable[..., list[str]]] = {"anthropic": anthropic_problems, "gemini": google_problems}
PATHS = {"anthropic": "https://api.test/v1", "gemini": "https://api.test/v1beta"}


def provider(wire: str, client: httpx.AsyncClient | None = None) -> Provider:
    config = {"adapter": wire, "base_url": PATHS[wire], "model": "m", "api_key": "k", "max_retries": 0}
    return Provider.from_config(config, http_client=client)


def body_of(wire: str, talk: dict[str, Any]) -> dict[str, Any]:
    options = talk["options"]
    found = provider(wire).preview(talk["messages"], talk["tools"], tool_choice=talk["tool_choice"], **options)
    return json.loads(found.body)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """A validated value as it was; pydantic checks what is iterable only when it is iterated over."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list) or hasattr(value, "__next__") else value


# --- sixty conversations ----------------------------------------------------------------------------------------------


@each_row("number", some(range(60), 20))
@each_row("wire", PROBLEMS)
def test_a_conversation_that_every_wire_takes(wire: str, number: int) -> None:
    """It breaks none of the rules of the API, and the official types know all of its body."""
    body = body_of(wire, conversation(number, plain=True))
    assert PROBLEMS[wire](body) == []
    _check_types(wire, body)


@each_row("number", some(range(60), 20))
@each_row("wire", PROBLEMS)
def test_a_conversation_with_everything(wire: str, number: int) -> None:
    """It is sent by the rules, or refused with the place or the option that the wire can't carry."""
    talk = conversation(number)
    try:
        body = body_of(wire, talk)
    except ConfigError as exc:
        refused = str(exc)
    else:
        refused = ""
    if refused:
        assert any(word in refused for word in ("messages[", "parallel_tool_calls", "'seed'", "response_format"))
        return
    extra = talk["options"].get("extra_body", {})
    assert PROBLEMS[wire](body) == []
    left_out = {*extra, "temperature", "top_p"}  # the newest types have no sampling: the newest version refuses it
    _check_types(wire, {name: value for name, value in body.items() if name not in left_out})


@cache
def _anthropic_type() -> TypeAdapter[Any]:
    return TypeAdapter(pytest.importorskip("anthropic.types.message_create_params").MessageCreateParamsStreaming)


def _check_types(wire: str, body: dict[str, Any]) -> None:
    if wire == "anthropic":
        assert plain(_anthropic_type().validate_python(body)) == body
        return
    google = pytest.importorskip("google.genai.types")
    read = {
        "contents": [google.Content.model_validate(content) for content in body["contents"]],
        "tools": [google.Tool.model_validate(tool) for tool in body.get("tools", [])],
    }
    assert all(read["contents"])
    known = {"contents", "tools", "systemInstruction", "toolConfig", "generationConfig"}
    assert body.keys() <= known
    for name, kind in (
        ("systemInstruction", "Content"),
        ("toolConfig", "ToolConfig"),
        ("generationConfig", "GenerationConfig"),
    ):
        if name in body:
            getattr(google, kind).model_validate(body[name])


# --- histories of other wires, and three turns with parallel calls ----------------------------------------------------

TIME = Tool("get_time", "The time.", {"type": "object", "properties": {"city": {"type": "string"}}})
THOUGHT, SIGNED = "c2lnbmVkIHRob3VnaHQ=", "c2lnbmVkIGNhbGw="


def sse(*payloads: dict[str, Any]) -> bytes:
    return b"".join(map(event, payloads))


def anthropic_answer(turn: int, finished: bool = False) -> bytes:
    opened = {"type": "content_block_start"}
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"type": "thinking", "thinking": "", "signature": THOUGHT}, {"type": "thinking_delta", "thinking": "Hm."}),
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Wait."}),
    ]
    if not finished:
        given = {"type": "input_json_delta", "partial_json": '{"city":"Oslo"}'}
        names = [f"toolu_{turn}a", f"toolu_{turn}b"]
        blocks += [({"type": "tool_use", "id": name, "name": "get_time", "input": {}}, given) for name in names]
    events = [{"type": "message_start", "message": {"id": f"msg_{turn}", "content": []}}]
    for at, (begun, delta) in enumerate(blocks):
        events.append({**opened, "index": at, "content_block": begun})
        events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    reason = "end_turn" if finished else "tool_use"
    return sse(*events, {"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"})


def gemini_answer(turn: int, finished: bool = False) -> bytes:
    parts: list[dict[str, Any]] = [{"text": "Hm.", "thought": True}, {"text": "Wait."}]
    if finished:
        parts.append({"text": "", "thoughtSignature": THOUGHT})
    else:
        parts.append(
            {
                "functionCall": {"name": "get_time", "args": {"city": "Oslo"}, "id": f"{turn}a"},
                "thoughtSignature": SIGNED,
            }
        )
        parts.append({"functionCall": {"name": "get_time", "args": {"city": "Rome"}, "id": f"{turn}b"}})
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    return sse(*chunks, {"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}]})


def chat_answer(turn: int, finished: bool = False) -> bytes:
    calls = [
        {"index": at, "id": f"functions.get_time:{turn}{at}", "function": {"name": "get_time", "arguments": "{}"}}
        for at in range(2)
    ]
    deltas: list[Any] = [
        {"reasoning_content": "Hm."},
        {"content": "Wait."},
        *([] if finished else [{"tool_calls": calls}]),
    ]
    last = {"choices": [{"delta": {}, "finish_reason": "stop" if finished else "tool_calls"}]}
    return sse(*({"choices": [{"delta": delta}]} for delta in deltas), last) + b"data: [DONE]\n\n"


def responses_answer(turn: int, finished: bool = False) -> bytes:
    items: list[dict[str, Any]] = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gA",
        },
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]},
    ]
    names = [] if finished else [f"call|{turn}a", f"call|{turn}b"]
    items += [
        {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "get_time", "arguments": "{}"}
        for name in names
    ]
    return sse({"type": "response.completed", "response": {"status": "completed", "output": items}})


ANSWERS = {"chat": chat_answer, "responses": responses_answer, "anthropic": anthropic_answer, "gemini": gemini_answer}


def turn_of(wire: str, turn: int, *, finished: bool = False) -> list[Message]:
    """A turn that another endpoint of a wire has written, with the results of its calls in the wrong order."""
    decoder = StreamDecoder(wire)
    decoder.feed(ANSWERS[wire](turn, finished))
    decoder.close()
    message = replace(decoder.reply.message, origin=f"{wire} https://elsewhere.test/v1")
    assert len(message.tool_calls) == (0 if finished else 2)
    return [message, *(tool_result(call, f"{call.id} is noon") for call in reversed(message.tool_calls))]


@each_row("wire", PROBLEMS)
@each_row("came", [*ANSWERS, "all of them"])
async def test_no_refusal_over_three_turns(wire: str, came: str) -> None:
    """A history from elsewhere, an open tool loop of elsewhere, then three turns with parallel calls: no 400."""
    refused: list[list[str]] = []
    answers = 0

    def serve(request: httpx.Request) -> httpx.Response:
        nonlocal answers
        found = PROBLEMS[wire](json.loads(request.content), (THOUGHT, SIGNED))
        if found:
            refused.append(found)
            return httpx.Response(400, json={"error": {"message": "; ".join(found)}})
        answers += 1
        return httpx.Response(
            200, content=ANSWERS[wire](answers, answers == 4), headers={"Content-Type": "text/event-stream"}
        )

    talk: list[Message] = []
    for name in ANSWERS if came == "all of them" else [came]:
        talk += [user("Hi"), *turn_of(name, 7), *turn_of(name, 8, finished=True)]
    talk += [user("And now?"), *turn_of(next(iter(ANSWERS)) if came == "all of them" else came, 9)]
    async with httpx.AsyncClient(transport=httpx.MockTransport(serve)) as client:
        model = provider(wire, client)
        for _ in range(4):
            reply = await model.chat(talk, [TIME], repair=True)
            results = [tool_result(call, "noon") for call in reversed(reply.tool_calls)]
            talk += [reply.message, *results] if results else [reply.message, user("Thanks.")]
    assert refused == []
    assert answers == 4
