"""A schema that an endpoint refuses: sent once more in fewer words, and remembered for that schema and that owner."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from streamfold import BadRequestError, Provider, Tool
from streamfold.client import requests_of
from tables import each_row

ODD = {
    "type": "object",
    "properties": {"a": {"type": "string", "x-odd": 1, "minLength": 2}, "b": {"$ref": "#/$defs/B"}},
    "required": ["a"],
    "$defs": {"B": {"type": "number"}},
}
SENT = {
    "type": "object",
    "properties": {
        "a": {
            "type": "string",
            "description": 'Must be at least 2 characters. Must also fit this JSON schema: {"x-odd": 1}',
        },
        "b": {"type": "number"},
    },
    "required": ["a"],
}
FINE = {"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}}
REFUSALS = [
    "Invalid schema for function 'odd': In context=('properties', 'a'), 'x-odd' is not permitted.",
    "tools.0.custom.input_schema.properties.a: Extra inputs are not permitted",
    "tools.0.custom: For 'string' type, property 'x-odd' is not supported",
    "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'a'>",
    "GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[a]: unknown field",
    "JSON schema conversion failed: unknown keyword x-odd",
    "Failed to convert the grammar from XGrammar",
]


def provider_before(says: str, bodies: list[dict[str, Any]], refuses: Callable[[str], bool]) -> Provider:
    """A provider whose server refuses bodies, by their text."""

    def handle(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if refuses(request.content.decode()):
            return httpx.Response(400, json={"error": {"message": says, "type": "invalid_request_error"}})
        message = {"role": "assistant", "content": "{}"}
        return httpx.Response(200, json={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    client = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    return Provider.from_config({"base_url": "http://test/v1", "model": "m", "max_retries": 0}, http_client=client)


@each_row("says", REFUSALS)
async def test_a_tool_is_sent_in_fewer_words(says: str) -> None:
    """The refused tool alone is sent otherwise, with a warning; the next request is sent so at once."""
    bodies: list[dict[str, Any]] = []
    provider = provider_before(says, bodies, lambda text: '"x-odd":1' in text)
    tools = [Tool("odd", parameters=ODD, strict=None)]
    reply = await provider.chat("Hi", tools, stream=False)
    assert bodies[-1]["tools"][0]["function"]["parameters"] == SENT
    assert [warning.code for warning in reply.warnings] == ["schema_changed"]
    await provider.chat("Hi", tools, stream=False)
    assert len(bodies) == 3
    await provider.chat("Hi", [Tool("odd", parameters=FINE)], stream=False)
    assert bodies[-1]["tools"][0]["function"]["parameters"] == FINE


async def test_a_schema_is_learned_for_its_owner() -> None:
    """What one owner's request was refused for changes nothing for another one."""
    bodies: list[dict[str, Any]] = []
    provider = provider_before(REFUSALS[0], bodies, lambda text: '"x-odd":1' in text)
    for owner, count in (("a", 2), ("a", 1), ("b", 2)):
        bodies.clear()
        with requests_of(owner):
            await provider.chat("Hi", [Tool("odd", parameters=ODD)], stream=False)
        assert len(bodies) == count


async def test_only_the_tool_that_is_named() -> None:
    bodies: list[dict[str, Any]] = []
    provider = provider_before("tools.1.custom.input_schema: bad", bodies, lambda text: '"x-odd":1' in text)
    await provider.chat("Hi", [Tool("fine", parameters=FINE), Tool("odd", parameters=ODD)], stream=False)
    assert [tool["function"]["parameters"] for tool in bodies[-1]["tools"]] == [FINE, SENT]


async def test_a_response_format_is_asked_for_in_another_way() -> None:
    """The schema goes into an instruction."""
    bodies: list[dict[str, Any]] = []
    says = "Invalid schema for response_format 'answer': In context=(), 'x-odd' is not permitted."
    provider = provider_before(says, bodies, lambda text: "response_format" in text)
    reply = await provider.chat("Hi", response_format=ODD, stream=False)
    assert "x-odd" in bodies[-1]["messages"][0]["content"]
    assert [warning.code for warning in reply.warnings] == ["response_format_changed"]


@each_row("options", [{"unsupported_options": "strict"}, {}])
async def test_a_refusal_that_can_not_be_helped(options: dict[str, Any]) -> None:
    """Where the shorter form is refused too, and where nothing may be changed, the refusal is the error."""
    bodies: list[dict[str, Any]] = []
    provider = provider_before(REFUSALS[0], bodies, lambda text: True)
    with pytest.raises(BadRequestError, match="Invalid schema for function"):
        await provider.chat("Hi", [Tool("odd", parameters=ODD)], stream=False, **options)
    assert len(bodies) == (1 if options else 2)
