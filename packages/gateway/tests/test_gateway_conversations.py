"""A program that has the gateway store its conversation, as it would a provider."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gateways import served
from streamfold import Conversation, Provider, run_tools, system, user
from streamfold.testing import ScriptedProvider, call, say
from streamfold_gateway import gateway

pytestmark = pytest.mark.one_loop  # uvicorn's


def look(n: int) -> str:
    """Looks something up."""
    return f"found {n}"


@pytest.mark.anyio
async def test_a_conversation_that_the_gateway_stores() -> None:
    """The program sends what is new, and the provider behind the gateway, which stores nothing, gets all of it. A
    response that was deleted is sent again."""
    model = ScriptedProvider(call("look", n=1), say("one"), say("two"), say("three"))
    bodies: list[Any] = []

    async def remember(request: httpx.Request) -> None:
        if request.method == "POST":
            bodies.append(json.loads(request.content))

    async with served(gateway({"main": model})) as (client, _):
        client.event_hooks["request"] = [remember]
        settings = {
            "adapter": "responses",
            "base_url": f"{client.base_url}/v1",
            "api_key": "k",
            "model": "main",
            "quirks": {"conversations": "with_instructions"},
        }
        provider, conversation = Provider.from_config(settings, http_client=client), Conversation()
        run = run_tools(provider, [system("Be brief."), user("first")], [look], conversation=conversation)
        first = await run
        history = [system("Be kind."), *run.messages[1:], user("second")]
        second = await provider.chat(history, [look], conversation=conversation)
        history += [second.message, user("third")]
        for known in (first.id, second.id):
            await client.delete(f"/v1/responses/{known}")
        third = await provider.chat(history, [look], conversation=conversation)
    assert [len(body["input"]) for body in bodies] == [1, 1, 1, 1, len(history) - 1]
    assert [warning.code for warning in third.warnings] == ["conversation_restarted"]
    seen = [[(message.role, message.text) for message in sent.messages] for sent in model.requests]
    assert seen[2] == [
        ("system", "Be kind."),
        ("user", "first"),
        ("assistant", ""),
        ("tool", "found 1"),
        ("assistant", "one"),
        ("user", "second"),
    ]
    assert seen[3] == [*seen[2], ("assistant", "two"), ("user", "third")]
