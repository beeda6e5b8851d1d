"""Several calls where the request allows one: a warning on every wire format."""

from __future__ import annotations

import random
from typing import Any

import httpx

from answers_by_api import APIS, Answer, told
from streamfold import Provider, Tool
from tables import each_row

TOOLS = [Tool(name, "", {"type": "object", "properties": {}}) for name in "fg"]
MODELS = {"chat": "m", "responses": "m", "anthropic": "claude-sonnet-5", "gemini": "gemini-3-flash-preview"}
ROWS = [(api, number, allowed) for api in APIS for number in (1, 2) for allowed in (False, True, None)]


@each_row(("api", "number", "allowed"), ROWS)
async def test_several_calls_where_one_is_allowed(api: str, number: int, allowed: bool | None) -> None:
    """The reply has them all, and says so, whether or not the server could be told."""
    calls: Any = tuple((f"id-{at}", "fg"[at], {"x": at}) for at in range(number))
    body = told(api, Answer((), calls), random.Random(1)).body
    answer = httpx.Response(200, content=body, headers={"Content-Type": "text/event-stream"})
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda request: answer)) as client:
        spec = {"adapter": api, "base_url": "http://test/v1", "model": MODELS[api], "api_key": "k"}
        provider = Provider.from_config(spec, http_client=client)
        reply = await provider.chat("Hello", TOOLS, parallel_tool_calls=allowed)
    found = [warning.code for warning in reply.warnings]
    assert len(reply.tool_calls) == number
    assert found.count("parallel_calls_unmet") == (number == 2 and allowed is False)
