"""Providers that refuse what Google and Anthropic refuse, behind every API of the gateway: three turns, no 400."""

from __future__ import annotations

from typing import Any

import pytest

from every_api import APIS, scripted, through
from streamfold import Message, Provider, Tool, image, system, tool_result, user
from streamfold.testing import call, say, think
from strict_rules import PLACEHOLDER, PROBLEMS, strict
from tables import each_row

# One event loop: what is tried here is the same on both
pytestmark = [pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"), pytest.mark.one_loop]

TIME = Tool("get_time", "The time.", {"type": "object", "properties": {"city": {"type": "string"}}})
PNG = b"\x89PNG\r\n\x1a\n"


async def talk(model: Provider) -> None:
    """Three turns of two or three calls, answered in another order, with an image, a failure, and a word beside."""
    messages: list[Message] = [system("Be short."), user("Hi")]
    for number in range(4):
        reply = await model.chat(messages, [TIME], reasoning_effort="high")
        results = [tool_result(made, f"{made.id} is noon") for made in reply.tool_calls[2:]]
        for first, second in [reply.tool_calls[:2]] if reply.tool_calls else []:
            results += [tool_result(second, ["look", image(PNG)]), tool_result(first, "no clock", error=True)]
        messages += [reply.message, *results]
        if number == 1:
            messages.append(user("Go on."))
    assert reply.text == "Done."
    await model.chat([*messages, user("Thanks.")], [TIME], reasoning_effort="high")


@each_row("cached", ["memory", False])
@each_row("provider", PROBLEMS)
@each_row("client", APIS)
async def test_no_refusal_over_three_turns(client: str, provider: str, cached: Any) -> None:
    """Signatures are on their parts, results in order and alone, roles right, whatever the client's API can carry."""
    refused: list[str] = []
    calls = [call("get_time", city="Oslo"), call("get_time", city="Rome")]
    turns = [
        strict(provider, refused, think("Hm."), say("Wait."), *calls),
        strict(provider, refused, *calls, call("get_time", city="Lima")),
        strict(provider, refused, think("So."), *calls),
        strict(provider, refused, "Done."),
        strict(provider, refused, "You are welcome."),
    ]
    inner = scripted(provider, *turns)
    async with through(client, inner, turn_cache=cached) as (model, _):
        await talk(model)
    assert refused == []
    inner.assert_done()
    if client == "gemini" or (cached and client != "kimi"):  # it keeps them, or the gateway remembers
        assert PLACEHOLDER not in str([sent.body for sent in inner.requests])
