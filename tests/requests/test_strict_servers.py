"""Conversations for Anthropic and Google: by the official types, and before servers that refuse what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter

from conversation_strategies import conversation
from every_api import scripted
from scale import some
from streamfold import ConfigError, Message, Provider, Reply, Tool, tool_result, user
from streamfold.testing import call, say, think
from strict_rules import PROBLEMS, strict
from tables import each_row

PATHS = {"anthropic": "https://api.test/v1", "gemini": "https://api.test/v1beta"}


def body_of(api: str, talk: dict[str, Any]) -> dict[str, Any]:
    provider = Provider.from_config({"adapter": api, "base_url": PATHS[api], "model": "m", "api_key": "k"})
    found = provider.preview(talk["messages"], talk["tools"], tool_choice=talk["tool_choice"], **talk["options"])
    return json.loads(found.body)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """A validated value as it was; pydantic checks what is iterable only when it is iterated over."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list) or hasattr(value, "__next__") else value


# --- sixty conversations ----------------------------------------------------------------------------------------------


@each_row("number", some(range(60), 20))
@each_row("api", PROBLEMS)
def test_a_conversation_that_every_api_takes(api: str, number: int) -> None:
    """It breaks none of the rules of the API, and the official types know all of its body."""
    body = body_of(api, conversation(number, plain=True))
    assert PROBLEMS[api](body) == []
    _check_types(api, body)


@each_row("number", some(range(60), 20))
@each_row("api", PROBLEMS)
def test_a_conversation_with_everything(api: str, number: int) -> None:
    """It is sent by the rules, or refused with the place or the option that the API can't carry."""
    talk = conversation(number)
    try:
        body = body_of(api, talk)
    except ConfigError as exc:
        refused = str(exc)
    else:
        refused = ""
    if refused:
        assert any(word in refused for word in ("messages[", "parallel_tool_calls", "'seed'", "response_format"))
        return
    extra = talk["options"].get("extra_body", {})
    assert PROBLEMS[api](body) == []
    left_out = {*extra, "temperature", "top_p"}  # the newest types have no sampling: the newest version refuses it
    _check_types(api, {name: value for name, value in body.items() if name not in left_out})


@cache
def _anthropic_type() -> TypeAdapter[Any]:
    return TypeAdapter(pytest.importorskip("anthropic.types.message_create_params").MessageCreateParamsStreaming)


def _check_types(api: str, body: dict[str, Any]) -> None:
    if api == "anthropic":
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


# --- histories of other APIs, and three turns with parallel calls ----------------------------------------------------

TIME = Tool("get_time", "The time.", {"type": "object", "properties": {"city": {"type": "string"}}})
ELSEWHERE = ("chat", "responses", "anthropic", "gemini")


def calls(name: str) -> list[Any]:
    """Two calls with ids of their own, one of which Anthropic would not take."""
    return [call("get_time", call_id=f"{name}|{city}", city=city) for city in ("Oslo", "Rome")]


def results(reply: Reply) -> list[Message]:
    """The results of its calls, in the wrong order."""
    return [tool_result(made, f"{made.id} is noon") for made in reversed(reply.tool_calls)]


async def turns_of(api: str) -> list[Message]:
    """What another endpoint of an API has answered: a turn with calls and their results, one without, an open loop."""
    steps = [think("Hm."), say("Wait.")]
    model = scripted(api, [*steps, *calls(api)], [think("So."), "Done."], [*steps, *calls(f"{api}2")])
    talk = [user("Hi")]
    for _ in range(3):
        reply = await model.chat(talk, [TIME], reasoning_effort="high")
        talk += [replace(reply.message, origin=f"{api} https://elsewhere.test/v1"), *results(reply)]
        talk += [] if reply.tool_calls else [user("And now?")]
    return talk


@each_row("api", PROBLEMS)
@each_row("came", [*ELSEWHERE, "all of them"])
async def test_no_refusal_over_three_turns(api: str, came: str) -> None:
    """A history from elsewhere, an open tool loop of elsewhere, then three turns with parallel calls: no 400."""
    talk: list[Message] = []
    for name in ELSEWHERE if came == "all of them" else [came]:
        talk += await turns_of(name)
    refused: list[str] = []
    turns = [strict(api, refused, think("Hm."), say("Wait."), *calls(str(number))) for number in range(3)]
    model = scripted(api, *turns, strict(api, refused, "Done."))
    for _ in range(4):
        reply = await model.chat(talk, [TIME], repair_history=True, reasoning_effort="high")
        talk += [reply.message, *results(reply)]
    assert refused == []
    model.assert_done()
