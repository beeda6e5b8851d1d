"""Types of answers: what is asked for, and what the answer is read as, on every API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, RootModel

import streamfold.sync
from streamfold import ConfigError, InvalidReplyError, Message, extract
from streamfold.testing import ScriptedProvider, say, usage
from streamfold.types import TextPart

PROVIDERS = ["openai", "openai-responses", "anthropic", "gemini", "kimi", "deepseek"]


class City(BaseModel):
    name: str


class River(BaseModel):
    length: float


@dataclass
class Point:
    x: int
    label: str | None = None


class Row(TypedDict):
    cities: list[City]
    note: NotRequired[str]


TYPES: list[tuple[Any, str, Any]] = [
    (City, '{"name": "Oslo"}', City(name="Oslo")),
    (Point, '{"x": 1, "label": null}', Point(1)),
    (Row, '{"cities": [{"name": "Oslo"}]}', {"cities": [City(name="Oslo")]}),
    (list[City], '{"value": [{"name": "Oslo"}]}', [City(name="Oslo")]),
    (list[City], '[{"name": "Oslo"}]', [City(name="Oslo")]),
    (list[Row], '{"value": [{"cities": []}]}', [{"cities": []}]),
    (City | River, '{"value": {"length": 2}}', River(length=2.0)),
    (City | None, '{"value": null}', None),
    (int, '{"value": 3}', 3),
    (RootModel[list[int]], '{"value": [3]}', RootModel[list[int]]([3])),
]


@pytest.mark.one_loop
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_each_type_on_each_api(provider: str) -> None:
    """The schema that is sent is that of an object, and the value is of the type; a misfit is asked for again."""
    for form, text, value in TYPES:
        model = ScriptedProvider('{"wrong": 1}', [say(text), usage(3, 4)], provider=provider)
        found, reply = await extract(model, form, "Which?", with_reply=True)
        assert found == value
        assert type(found) is type(value)
        assert reply.parse_as(form) == value
        assert '"object"' in str(model.requests[0].body).replace("'", '"').replace('"OBJECT"', '"object"')


@pytest.mark.one_loop
async def test_what_all_attempts_cost() -> None:
    """The reply beside a value has the tokens and the cost of every attempt; so does that of a synchronous provider."""
    prices = {"input": 1_000_000, "output": 0}
    turns = [[say('{"nme": 1}'), usage(2, 1)], [say('{"name": "Oslo"}'), usage(3, 1)]]
    value, reply = await extract(ScriptedProvider(*turns, prices=prices), City, "Which?", with_reply=True)
    assert (value, reply.text) == (City(name="Oslo"), '{"name": "Oslo"}')
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (5, 2)
    assert reply.cost is not None
    assert reply.cost.amount == 5
    with streamfold.sync.Provider(ScriptedProvider(*turns, prices=prices)) as provider:
        again, same = provider.extract(City, "Which?", with_reply=True)
    assert (again, same.usage, same.cost) == (value, reply.usage, reply.cost)
    assert await ScriptedProvider(turns[1]).extract(City, "Which?") == value


@pytest.mark.one_loop
async def test_what_is_no_type() -> None:
    """It is an error before anything is sent, in both functions, and says what to pass."""
    for wrong in (5, City(name="x"), print):
        with pytest.raises(ConfigError, match="is not a type that pydantic can validate"):
            await extract(ScriptedProvider(), wrong, "Which?")
        with pytest.raises(ConfigError, match=r'^response_format must be "json", a JSON schema or a type: '):
            await ScriptedProvider().chat("Which?", response_format=wrong)
    with pytest.raises(ConfigError, match="needs a type or a JSON schema, not 'json'"):
        await extract(ScriptedProvider(), "json", "Which?")


def test_the_text_of_a_message() -> None:
    """All of its text, in whatever form the content is."""
    parts = [TextPart("a"), {"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": "b"}]
    assert [Message("user", content).text for content in ("ab", parts, None)] == ["ab", "ab", ""]


@pytest.mark.one_loop
async def test_a_misfit_names_the_type() -> None:
    """Of a type without a name, the error says "answer"."""
    reply = await ScriptedProvider('{"value": ["x"]}').chat("Which?")
    with pytest.raises(InvalidReplyError, match="the answer does not match answer: 0: "):
        reply.parse_as(list[int])
