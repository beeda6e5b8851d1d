"""Conversations that are cut to a number of tokens."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamfold.sync
from streamfold import (
    ConfigError,
    Message,
    ModelNotFoundError,
    Provider,
    ToolCall,
    assistant,
    system,
    tool_result,
    trim_history,
    user,
)
from streamfold.requests import Request, estimated_tokens
from streamfold.testing import ScriptedProvider

CALL = ToolCall("c1", "look", {}, "{}")
TALK = [
    system("Be brief."),
    user("one " * 40),
    Message("assistant", None, (CALL,)),
    tool_result(CALL, "found " * 40),
    assistant("two " * 40),
    user("three " * 40),
    assistant("four " * 40),
    user("five"),
]


def tokens(messages: list[Message]) -> int:
    return estimated_tokens(Request("", tuple(messages)))


@pytest.mark.one_loop
async def test_the_oldest_turns_go_first() -> None:
    """A question goes with its answer and with the calls and results between; system and last question stay."""
    for limit, left in ((1000, TALK), (tokens(TALK) - 1, [TALK[0], *TALK[5:]]), (30, [TALK[0], TALK[-1]])):
        assert await trim_history(TALK, limit) == left
        assert streamfold.sync.trim_history(TALK, limit) == left
    assert await trim_history(TALK, 1) == [TALK[0], TALK[-1]]
    assert len(TALK) == 8


@pytest.mark.one_loop
async def test_a_long_run_of_tools() -> None:
    """Behind the last question, calls go with their results, and the last ones stay: the model has to answer them."""
    calls = [ToolCall(f"c{number}", "look", {}, "{}") for number in range(5)]
    rounds = [[Message("assistant", None, (call,)), tool_result(call, "x" * 400)] for call in calls]
    talk = [user("Look."), *(message for each in rounds for message in each)]
    left = await trim_history(talk, tokens(talk) // 2)
    assert left == [talk[0], *talk[-len(left) + 1 :]]
    assert 2 < len(left) < len(talk)
    assert await trim_history(talk, 1) == [talk[0], *rounds[-1]]


@given(st.lists(st.sampled_from("suat"), min_size=1, max_size=12), st.integers(1, 60))
def test_what_is_left_is_a_part_in_order(roles: list[str], limit: int) -> None:
    """Whatever the turns: nothing is reordered, system messages and the last question stay, no result lost its call."""
    talk: list[Message] = []
    for number, role in enumerate(roles):
        call = ToolCall(f"c{number}", "look", {}, "{}")
        made: dict[str, list[Message]] = {
            "s": [system("s" * 9)],
            "u": [user("u" * 40)],
            "a": [assistant("a" * 40)],
            "t": [Message("assistant", None, (call,)), tool_result(call, "t" * 40)],
        }
        talk += made[role]
    left = streamfold.sync.trim_history(talk, limit)
    assert [message for message in talk if any(message is each for each in left)] == left
    assert [message for message in left if message.role == "system"] == [one for one in talk if one.role == "system"]
    assert [one for one in talk if one.role == "user"][-1:] == [one for one in left if one.role == "user"][-1:]
    asked = {call.id for message in left for call in message.tool_calls}
    assert {message.tool_call_id for message in left if message.role == "tool"} == asked


@pytest.mark.one_loop
async def test_counts_of_the_provider() -> None:
    """Where the API counts tokens, its counts decide, with few requests."""
    asked: list[Any] = []

    def count(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        return httpx.Response(200, json={"input_tokens": len(request.content)})

    talk = [message for number in range(50) for message in (user(f"{number}" * 50), assistant("x" * 50))]
    talk.append(user("last"))
    async with httpx.AsyncClient(transport=httpx.MockTransport(count)) as client:
        model = Provider.from_config("anthropic:claude-haiku-4-5", api_key="k", http_client=client)
        left = await trim_history(talk, 2000, model=model)
    assert len(asked[-1]) <= 2000
    assert left[-1] == talk[-1]
    assert 3 < len(left) < len(talk)
    assert len(asked) < 6
    assert await trim_history(talk, 30, model=ScriptedProvider()) == talk[-1:]


@pytest.mark.one_loop
async def test_a_server_without_counts() -> None:
    """A server that speaks the API, and doesn't have its request for counts, is no reason to fail: estimates decide."""
    answers = {
        "Unknown request URL": TALK[:1] + TALK[5:],
        "The model 'gpt-5.6' does not exist": None,  # that one can be told, and no answer would come either
    }
    for message, left in answers.items():
        reply = httpx.Response(404, json={"error": {"message": message, "code": left is None and "model_not_found"}})
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _, reply=reply: reply)) as client:
            model = Provider.from_config("openai-responses:gpt-5.6", api_key="k", http_client=client)
            if left is not None:
                assert await trim_history(TALK, tokens(TALK) - 1, model=model) == left
                continue
            with pytest.raises(ModelNotFoundError):
                await trim_history(TALK, tokens(TALK) - 1, model=model)


@pytest.mark.one_loop
async def test_wrong_arguments() -> None:
    """They are errors before anything is counted."""
    for limit in (0, True, "9"):
        with pytest.raises(ConfigError, match="max_tokens must be a whole number greater than 0"):
            await trim_history("Hi", limit)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="trim_history\\(\\) needs a model, not a name"):
        await trim_history("Hi", 5, model="kimi")  # type: ignore[arg-type]
