"""A conversation is sent alike, whether its turns are dicts in the shape of Chat Completions or `Message`s."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from every_api import MODELS
from scale import examples
from streamfold import ConfigError, Message, Provider, Tool, ToolCall
from streamfold.types import ResponseFormat

TOOL = Tool("f", "Does it.", {"type": "object", "properties": {"x": {"type": "integer"}}})
ENDPOINTS = [*MODELS.values(), "deepseek:deepseek-chat", "mistral:mistral-large-latest", "groq:openai/gpt-oss-120b"]
TEXTS = st.sampled_from(["", " ", "\n", "Hello", "a\u00e9\U0001f600"])
Turn = tuple[list[dict[str, Any]], list[Message]]


@st.composite
def turns(draw: st.DrawFn, number: int) -> Turn:
    """A user's message and the model's turn behind it, with calls and their results or without, both ways."""
    asked = draw(TEXTS.filter(str.strip))
    content = draw(st.one_of(st.none(), TEXTS))
    reasoning = draw(st.one_of(st.none(), st.sampled_from(["", "Hm."])))
    refusal = draw(st.one_of(st.none(), st.just("No.")))
    calls = tuple(
        ToolCall(f"call_{number}_{at}", "f", {"x": at}, f'{{"x": {at}}}') for at in range(draw(st.integers(0, 2)))
    )
    answers = [draw(TEXTS) for _ in calls]
    answer: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        answer["reasoning_content"] = reasoning
    if refusal is not None:
        answer["refusal"] = refusal
    if calls:
        answer["tool_calls"] = [
            {"id": made.id, "type": "function", "function": {"name": "f", "arguments": made.raw_arguments}}
            for made in calls
        ]
    results = list(zip(calls, answers, strict=True))
    written = [
        {"role": "user", "content": asked},
        answer,
        *({"role": "tool", "tool_call_id": made.id, "content": said} for made, said in results),
    ]
    messages = [
        Message("user", asked),
        Message("assistant", content, calls, reasoning=reasoning, refusal=refusal),
        *(Message("tool", said, tool_call_id=made.id) for made, said in results),
    ]
    return written, messages


@st.composite
def conversations(draw: st.DrawFn) -> Turn:
    """Some turns, and a last question."""
    dicts: list[dict[str, Any]] = []
    messages: list[Message] = []
    if (system := draw(st.one_of(st.none(), TEXTS))) is not None:
        dicts.append({"role": "system", "content": system})
        messages.append(Message("system", system))
    for number in range(draw(st.integers(1, 3))):
        written, made = draw(turns(number))
        dicts += written
        messages += made
    return [*dicts, {"role": "user", "content": "And now?"}], [*messages, Message("user", "And now?")]


def sent(provider: Provider, messages: Any, *, repair: bool) -> Any:
    """The body and the warnings, or why nothing would be sent."""
    try:
        preview = provider.preview(messages, [TOOL], repair_history=repair)
    except ConfigError as error:
        return str(error)
    return preview.body, preview.warnings


SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
MEMBERS = {"name": "point", "schema": SCHEMA, "strict": True, "description": "A point."}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_response_formats_of_both_apis_are_sent_alike(endpoint: str) -> None:
    """A response format in the dicts of Chat Completions and Responses is sent as one of this library's."""
    spellings: list[tuple[Any, list[dict[str, Any]]]] = [
        (
            ResponseFormat(SCHEMA, "point", strict=True, description="A point."),
            [{"type": "json_schema", "json_schema": MEMBERS}, {"type": "json_schema", **MEMBERS}],
        ),
        (ResponseFormat(SCHEMA), [SCHEMA, {"type": "json_schema", "json_schema": {"schema": SCHEMA}}]),
        ("json", [{"type": "json_object"}]),
        (None, [{"type": "text"}]),
    ]
    provider = Provider.from_config(endpoint, api_key="k")
    for ours, theirs in spellings:
        expected = provider.preview("Where? As JSON.", response_format=ours)
        for written in theirs:
            preview = provider.preview("Where? As JSON.", response_format=written)
            assert (preview.body, preview.warnings) == (expected.body, expected.warnings)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@settings(max_examples=examples(120), deadline=None)
@given(conversations(), st.booleans())
def test_dicts_and_messages(endpoint: str, conversation: Turn, repair: bool) -> None:
    """An empty text beside calls, a reasoning of nothing, a refusal: each is the same body, or the same error."""
    provider = Provider.from_config(endpoint, api_key="k")
    dicts, messages = conversation
    assert sent(provider, dicts, repair=repair) == sent(provider, messages, repair=repair)
