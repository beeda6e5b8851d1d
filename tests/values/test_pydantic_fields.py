"""Our values are fields of a user's pydantic model: what is dumped loads to an equal value, or it is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

import streamfold
from folding import DONE, fin, fold, fragments, text
from streamfold import (
    AllowedTools,
    Cost,
    Limits,
    Message,
    NamedTool,
    PartialToolCall,
    Reply,
    ReplyWarning,
    StreamChunk,
    StreamDecoder,
    Timeouts,
    Timing,
    Tool,
    ToolCall,
    Usage,
    assistant,
    image,
    system,
    tool,
    tool_result,
    types,
    user,
)
from streamfold.types import (
    Attempt,
    AudioPart,
    ExtraPart,
    FilePart,
    ImagePart,
    PartialUpdate,
    Prices,
    RateLimit,
    RateLimitWindow,
    TextPart,
)
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n\xff\xfe"
CALL = ToolCall("a", "f", {"x": [1, {"y": None}]}, '{"x": [1, {"y": null}]}', extra={"s": {"t": 1}})
BROKEN = ToolCall("b", "f", {"_raw": '{"x', "_error": "invalid_json"}, '{"x')
BODY = text("a") + fragments('0 c f {"x":', "0 - - 1}") + fin("tool_calls") + DONE


@tool(needs_approval=True)
def look(place: str) -> str:
    """Looks."""
    return place


def chunks() -> list[StreamChunk]:
    decoder = StreamDecoder("chat", partial_tool_calls=True)
    return [*decoder.feed(BODY), *decoder.close()]


def reply() -> Reply:
    return dataclasses.replace(
        fold(BODY),
        usage=Usage(1, 2, 3, raw={"cost": 0.1}),
        warnings=[ReplyWarning("missing_id", "d")],
        timing=Timing(0.1, 0.2, 0.3),
        rate_limit=RateLimit((RateLimitWindow("tokens", 5.0),), 1.0),
        extras={"blocks": [{"type": "x"}]},
        attempts=(Attempt("a", "b"),),
        origin="chat https://example.com",
    )


VALUES: list[Any] = [
    system("Be kind.", cache="1h"),
    user("a"),
    user("a", "b"),
    user("a", image(PNG), ImagePart(url="https://example.com/a.png", detail="low")),
    user({"type": "text", "text": "as on the wire"}, {"part": "of something else"}),
    user(FilePart(file_id="file_1", name="a.pdf"), AudioPart(data=b"\xff", media_type="audio/wav")),
    assistant("x", tool_calls=[CALL, BROKEN], reasoning=""),
    Message("assistant", None, (CALL,), refusal="no", extras={"output": [{"id": 1}]}, origin="o", partial=True),
    tool_result(CALL, [image(PNG), "see"], error=True),
    *chunks(),
    StreamChunk("x", usage=Usage(1)),
    reply(),
    Reply(),
    CALL,
    BROKEN,
    Usage(1, 2, 3, 0, 0, 0, {"prompt_tokens": 1}),
    look,
    Tool("f", "d", {"type": "object"}, True, cache="5m"),
    NamedTool("f"),
    AllowedTools(("f", "g"), "required"),
    ReplyWarning("missing_id", "d"),
    TextPart("a", cache=True),
    ImagePart(data=PNG, media_type="image/png"),
    FilePart(url="https://example.com/a.pdf"),
    AudioPart(data=b"\x00\xff", media_type="audio/wav"),
    Timing(1.0),
    Attempt("a", "b", "RateLimitError", 1.5),
    Cost(Decimal("0.10"), source="prices", date=date(2026, 1, 2)),
    Prices(1.0, 2.0, tiers=({"above": 10.0, "input": 2.0},), date=date(2026, 1, 2)),
    Limits(text_chars=5),
    Timeouts(total=5.0),
    PartialToolCall("f", '{"x'),
    PartialUpdate(("files", 0), "d", True, {"x": 1}, "f", 0),
    ExtraPart("signature", {"x": 1}),
]


@each_row("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_value_comes_back(value: Any) -> None:
    """What pydantic dumps, as Python data and as JSON, loads to an equal value, and is what the JSON schema says."""
    many = TypeAdapter(list[type(value)])  # type: ignore[misc]
    written = many.dump_json([value])
    assert many.validate_json(written) == [value]
    assert many.validate_python(many.dump_python([value])) == [value]
    assert many.validate_python(many.dump_python([value], mode="json")) == [value]
    assert many.validate_python([value]) == [value]
    assert many.dump_json(many.validate_json(written)) == written
    Draft202012Validator(many.json_schema(mode="validation")).validate(many.dump_python([value], mode="json"))
    many.json_schema(mode="serialization")


def test_a_model_of_a_user() -> None:
    """A conversation and its reply are stored in a model of one's own."""

    class Row(BaseModel):
        messages: list[Message]
        tools: list[Tool] = []
        reply: Reply | None = None
        parts: Sequence[TextPart | ImagePart] = ()

    row = Row(messages=[user("a", image(PNG))], tools=[look], reply=reply(), parts=[TextPart("a"), image(PNG)])
    assert Row.model_validate_json(row.model_dump_json()) == row
    assert Row.model_validate(row.model_dump()) == row
    assert Row.model_json_schema()["properties"].keys() == {"messages", "tools", "reply", "parts"}


def test_what_a_reply_cost() -> None:
    """The cost of a stored reply is the one that it had, however it was found out."""

    class Pricing:
        def cost(self, reply: Reply) -> Cost:
            return Cost(Decimal("0.25"), estimated=True)

    priced = dataclasses.replace(reply(), pricing=Pricing())
    replies = TypeAdapter(Reply)
    loaded = replies.validate_json(replies.dump_json(priced))
    assert loaded.cost == priced.cost == Cost(Decimal("0.25"), estimated=True)
    assert replies.validate_python(replies.dump_python(priced)).pricing is priced.pricing
    assert replies.validate_json(replies.dump_json(loaded)).cost == priced.cost


def test_functions_of_tools() -> None:
    """A tool keeps its function in Python. In JSON it has none, and still needs approval."""
    tools = TypeAdapter(Tool)
    kept = tools.validate_python(tools.dump_python(look))
    assert (kept.function, kept.model, kept.spread) == (look.function, look.model, look.spread)
    loaded = tools.validate_json(tools.dump_json(look))
    assert (loaded.function, loaded.model, loaded.needs_approval) == (None, None, True)
    as_dict = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    assert tools.validate_python(as_dict) == Tool("f", parameters={"type": "object"})


@each_row(
    ("value", "place"),
    [
        (
            assistant("x", tool_calls=[ToolCall("a", "f", {"d": b""}, "x")]),
            r"tool_calls\[0\]\.arguments\.d",
        ),
        (Message("user", "x", extras={"x": (1, 2)}), "Message.extras.x is not JSON data, but tuple"),
        (ToolCall("a", "f", {"x": float("inf")}, "x"), "ToolCall.arguments.x is not JSON data, but inf"),
        (Usage(raw={"x": [float("nan")]}), r"Usage\.raw\.x\[0\]"),
        (Reply(extras={"x": [{1: 2}]}), r"Reply\.extras\.x\[0\] has the key 1"),
        (Tool("f", parameters={"x": object()}), "parameters.x is not JSON data"),
        (Tool("f", needs_approval=lambda call: True), "has a function as needs_approval"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold(value: Any, place: str) -> None:
    """A value that would come back as another one is not written as JSON; the error names the place."""
    with pytest.raises(PydanticSerializationError, match=place):
        TypeAdapter(type(value)).dump_json(value)


@each_row(
    ("kind", "value"),
    [
        (Message, {"role": "usr", "content": "x"}),
        (Message, {"role": "user", "content": [{"part": "image"}]}),
        (Message, {"role": "user", "content": [{"part": "image", "url": "x", "detail": 5}]}),
        (Message, {"role": "user", "content": [{"part": "image", "url": "x", "media_type": 5}]}),
        (Message, {"role": "assistant", "tool_calls": [{"id": "a"}]}),
        (Message, "x"),
        (ImagePart, {"part": "file", "url": "https://example.com/a"}),
        (TextPart, {"part": "text"}),
        (Tool, {"name": ""}),
        (Tool, {"name": "f", "cache": "2m"}),
        (Tool, {"type": "functoin"}),
        (Tool, 5),
        (ToolCall, {"id": "a", "name": "f"}),
        (Reply, {"finish_reason": "done"}),
        (Reply, {"pricing": 5}),
        (StreamChunk, {"details": 5}),
        (Usage, {"input_tokens": "many"}),
        (Prices, {"input": -1}),
    ],
    ids=repr,
)
def test_what_does_not_fit(kind: type, value: Any) -> None:
    """Data that is not such a value is a ValidationError, and nothing else."""
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(value)


def test_all_public_values() -> None:
    """Every public dataclass has a schema; exceptions are what belongs to one running request."""
    without = []
    for name in [*streamfold.__all__, *types.__all__]:
        kind = getattr(streamfold, name, None) or getattr(types, name)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            try:
                TypeAdapter(kind).json_schema()
            except Exception:  # whatever pydantic raises
                without.append(name)
    local = {"CustomTool", "HostedTool"}  # they may have a function
    running = {
        "Hooks",
        "BatchRequest",
        "RequestInfo",
        "DialectContext",
        "ModelInfo",
        "BackendInfo",
        "ChatParams",
        *local,
    }  # 3.12 has one for the last
    assert running - set(without) <= {"ChatParams"}
    assert set(without) <= running
