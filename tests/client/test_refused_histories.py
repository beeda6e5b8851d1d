"""A refusal whose words say what is wrong with the conversation: it is sent once more as the server accepts it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from streamfold import BadRequestError, Provider, ToolCall, assistant, system, tool_result, user
from streamfold.client import requests_of
from streamfold.config import learned_rules
from streamfold.types import Message
from tables import each_row

LONG, BROKEN = ToolCall("x" * 50, "f", {}, "{}"), ToolCall("a", "f", {"_raw": "{", "_error": "invalid_json"}, "{")
DONE = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
LATE = [user("Hi"), assistant("Yes?"), system("Be brief.")]
# The words, a conversation that they are about, and what makes the server accept it.
REFUSALS: dict[str, tuple[str, list[Any], Any]] = {
    "system message": ("System message must be at the beginning.", LATE, lambda sent: sent[2]["role"] == "user"),
    "alternating": (
        "Conversation roles must alternate user/assistant/user/assistant/...",
        [user("a"), user("b")], lambda sent: [each["content"] for each in sent] == ["a\n\nb"],
    ),
    "alternating at Perplexity": (
        "After the (optional) system message(s), user and assistant roles should be alternating.",
        [user("a"), user("b")], lambda sent: [each["content"] for each in sent] == ["a\n\nb"],
    ),
    "successive": (
        "deepseek-reasoner does not support successive user or assistant messages (messages[1] and messages[2]).",
        [user("a"), user("b")], lambda sent: [each["content"] for each in sent] == ["a\n\nb"],
    ),
    "system inside": (
        "invalid params, chat content has invalid message role: system (2013)", LATE,
        lambda sent: sent[2]["role"] == "user",
    ),
    "last": ("Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
             [user("Hi"), assistant("Yes?")], lambda sent: sent[-1]["content"] == "Continue."),
    "behind a result": (
        "Unexpected role 'user' after role 'tool'",
        [user("Hi"), assistant(tool_calls=[LONG]), tool_result(LONG, "1"), user("So?")],
        lambda sent: [each["role"] for each in sent[2:]] == ["tool", "assistant", "user"],
    ),
    "ids": (
        ("Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a"
        " string with length 50 instead."),
        [user("Hi"), assistant(tool_calls=[LONG]), tool_result(LONG, "1")],
        lambda sent: len(sent[2]["tool_call_id"]) == 40 and sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"],
    ),
    "lists": ("messages[0]: invalid type: sequence, expected a string", [user("a", "b")],
              lambda sent: sent[0]["content"] == "a\nb"),
    "blanks": ("messages: text content blocks must contain non-whitespace text", [user("a"), user(" ")],
               lambda sent: len(sent) == 1),
    "arguments": (
        "Expecting ',' delimiter: line 1 column 54 (char 53)",
        [user("Hi"), assistant(tool_calls=[BROKEN]), tool_result(BROKEN, "No.")],
        lambda sent: sent[1]["tool_calls"][0]["function"]["arguments"] == '{"_raw": "{"}',
    ),
    "names": ("Invalid 'messages[0].name': string does not match pattern.", [Message("user", "Hi", name="A B")],
              lambda sent: sent[0]["name"] == "A_B"),
}  # fmt: skip


def strict(words: str, accepts: Any, seen: list[Any]) -> httpx.MockTransport:
    """A server that refuses conversations with the same words until they are as it accepts them."""

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content)["messages"])
        return httpx.Response(200, json=DONE) if accepts(seen[-1]) else httpx.Response(400, json={"message": words})

    return httpx.MockTransport(handle)


async def send(provider: Provider, messages: list[Any], owner: str = "") -> list[str]:
    with requests_of(owner):
        reply = await provider.chat(messages, stream=False)
    return [warning.code for warning in reply.warnings]


@each_row("name", REFUSALS)
async def test_a_refused_history_is_sent_as_the_words_demand(name: str) -> None:
    """Once more, with a warning, and at once the next time, but not for another owner."""
    words, messages, accepts = REFUSALS[name]
    seen: list[Any] = []
    async with httpx.AsyncClient(transport=strict(words, accepts, seen)) as client:
        spec = {"base_url": "http://test/v1", "model": "m", "max_retries": 0}
        provider = Provider.from_config(spec, http_client=client)
        assert await send(provider, messages)
        assert len(seen) == 2
        assert await send(provider, messages)
        assert len(seen) == 3
        await send(provider, messages, owner="another")
        assert len(seen) == 5


async def test_a_refusal_that_no_rule_helps_against_is_an_error() -> None:
    """The conversation is as the words demand already: nothing is sent again."""
    seen: list[Any] = []
    transport = strict("System message must be at the beginning.", lambda sent: False, seen)
    async with httpx.AsyncClient(transport=transport) as client:
        provider = Provider.from_config({"base_url": "http://test/v1", "model": "m"}, http_client=client)
        with pytest.raises(BadRequestError):
            await provider.chat([system("Be brief."), user("Hi")], stream=False)
    assert len(seen) == 1


@each_row("words", ["The server is overloaded", "max_tokens is too large", "Unknown parameter: 'seed'."])
def test_other_errors_teach_nothing(words: str) -> None:
    """Rules are read from words about a conversation alone."""
    assert learned_rules(words) == {}
