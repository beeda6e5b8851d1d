"""Thinking that is bound to its conversation, from a client of the Messages API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from binding_server import BETA, BindingServer
from gateways import MESSAGES
from served_apps import client_of
from streamfold import Provider
from streamfold_gateway import gateway

pytestmark = pytest.mark.one_loop


@asynccontextmanager
async def before(server: BindingServer) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway in front of a server."""
    async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as upstream:
        main = Provider.from_config("anthropic:claude-fable-5-2", api_key="k", http_client=upstream)
        async with client_of(gateway({"main": main})) as client:
            yield client


async def ask(client: httpx.AsyncClient, system: str, *messages: Any, **rest: Any) -> httpx.Response:
    """Sends a conversation, of which every other message is an answer."""
    headers = {"anthropic-beta": BETA} if rest.pop("beta", False) else {}
    talk = [{"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(messages)]
    body = {"model": "main", "max_tokens": 100, "system": system, "messages": talk, "thinking": {"type": "adaptive"}}
    return await client.post(MESSAGES, json={**body, **rest}, headers=headers)


async def test_a_changed_system_prompt() -> None:
    """It is refused once, sent again, and remembered for that conversation; a client's own option is passed on."""
    server = BindingServer()
    async with before(server) as client:
        first = (await ask(client, "10:00", "Hi")).json()["content"]
        assert [block["type"] for block in first] == ["thinking", "text"]
        assert (await ask(client, "10:00", "Hi", first, "Now?")).status_code == 200
        assert (server.refused, len(server.bodies)) == (0, 2)
        second = await ask(client, "10:01", "Hi", first, "Now?")
        assert (second.status_code, server.refused, len(server.bodies)) == (200, 1, 4)
        third = await ask(client, "10:01", "Hi", first, "Now?", second.json()["content"], "And?")
        assert (third.status_code, server.refused, len(server.bodies)) == (200, 1, 5)
        other = (await ask(client, "10:00", "Hello")).json()["content"]
        own = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
        refused = await ask(client, "10:01", "Hello", other, "Now?", thinking=own, beta=True)
        assert (refused.status_code, server.refused) == (400, 2)
        assert "The `system` differs" in refused.json()["error"]["message"]
