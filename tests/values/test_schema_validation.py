"""Values validated by a JSON schema, and objects that came as JSON text."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamfold import InvalidReplyError, Reply, StreamDecoder, Tool, extract
from streamfold.testing import ScriptedProvider
from streamfold.types import matches_schema, schema_problems, unwrapped_arguments
from strict_servers.schema_cases import CASES, Case
from support.builders.scale import examples

PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "zone": {"type": "integer"}},
    "required": ["city"],
}
FIND = {
    "$defs": {"Place": PLACE},
    "type": "object",
    "properties": {
        "place": {"$ref": "#/$defs/Place"},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "perhaps": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
        "note": {"type": "string"},
        "either": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "string"}]},
        "any": {},
    },
}
OSLO = {"city": "Oslo", "zone": 1}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_schemas_of_programs(case: Case) -> None:
    """A value that fits a program's schema is accepted, and one that does not is refused as jsonschema refuses it."""
    validator = jsonschema.Draft202012Validator(case.schema)
    for value in (*case.fits, *case.others):
        assert matches_schema(value, case.schema) is validator.is_valid(value), value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.sampled_from([0.5, 1.0, 2.5, "", "a", "ab", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    listed = st.lists(inner, min_size=1, max_size=2)
    words: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "properties": named,
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "additionalProperties": st.booleans() | inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
        "dependentRequired": st.dictionaries(st.sampled_from("ab"), st.lists(st.sampled_from("bc"), max_size=1)),
        "dependentSchemas": st.dictionaries(st.sampled_from("ab"), inner, max_size=1),
        "propertyNames": st.fixed_dictionaries({"maxLength": st.integers(0, 1)}),
        "items": inner | st.booleans(),
        "prefixItems": listed,
        "contains": inner,
        "uniqueItems": st.booleans(),
        "anyOf": listed,
        "oneOf": listed,
        "allOf": listed,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "pattern": st.sampled_from(["a", "^b", "c$"]),
        "multipleOf": st.sampled_from([1, 2, 0.5, 3]),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-2, 5)),
        **dict.fromkeys(
            ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), st.integers(0, 2)
        ),
        "$ref": st.sampled_from(["#", "#/$defs/A", "#/$defs/B"]),
    }
    return st.fixed_dictionaries({}, optional=words) | st.sampled_from(sorted(words)).flatmap(
        lambda word: st.fixed_dictionaries({word: words[word]})
    )


SCHEMAS = st.recursive(
    st.sampled_from([{}, True, False]) | TYPES.map(lambda kind: {"type": kind}), _combined, max_leaves=4
)


def _refers_to_itself(schema: Any, root: Any, seen: tuple[str, ...] = ()) -> bool:
    """Whether a reference leads to itself for the same value, which means nothing."""
    if not isinstance(schema, dict):
        return False
    if (ref := schema.get("$ref")) is not None:
        target = root if ref == "#" else root["$defs"].get(ref[-1])
        if ref in seen or _refers_to_itself(target, root, (*seen, ref)):
            return True
    listed = [inner for name in ("anyOf", "oneOf", "allOf") for inner in schema.get(name, [])]
    listed += schema.get("dependentSchemas", {}).values()
    single = [schema[name] for name in ("not", "if", "then", "else") if name in schema]
    return any(_refers_to_itself(inner, root, seen) for inner in (*listed, *single))


@settings(max_examples=examples(1000), deadline=None)
@given(SCHEMAS, SCHEMAS, SCHEMAS, VALUES)
def test_as_jsonschema(schema: Any, first: Any, second: Any, value: Any) -> None:
    """Any value is accepted or refused by any schema as the package jsonschema does it."""
    whole = {**schema, "$defs": {"A": first, "B": second}} if isinstance(schema, dict) else schema
    assume(isinstance(whole, bool) or not any(_refers_to_itself(each, whole) for each in (whole, first, second)))
    expected = jsonschema.Draft202012Validator(whole).is_valid(value)
    assert matches_schema(value, whole) is expected, schema_problems(value, whole)


def test_forms_that_contain_themselves() -> None:
    """The time for a deep value is linear, also where each form of a union contains the union."""
    both = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    schema = {"anyOf": [{**both, "required": ["x"]}, {**both, "required": ["y"]}, both]}
    value: Any = {}
    for _ in range(60):
        value = {"left": value, "right": {}}
    assert matches_schema(value, schema)
    itself = {"dependentSchemas": {"a": {"$ref": "#"}}, "required": ["b"]}
    assert not matches_schema({"a": 1}, itself)
    assert not matches_schema({"left": 1}, {"$ref": "#/$defs/A", "$defs": {"A": {**both, "required": ["right"]}}})


# --- a reply by a JSON schema -----------------------------------------------------------------------------------------


def test_a_reply_by_a_schema() -> None:
    """An answer is validated by the whole JSON schema, also by the bounds that were moved into a description."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    assert Reply('{"n": 2}').parse_as(schema) == {"n": 2}
    assert Reply('```json\n{"n": 2}\n```').parse_as({"type": "json_schema", "json_schema": {"schema": schema}}) == {
        "n": 2
    }
    with pytest.raises(
        InvalidReplyError, match=r"^the answer does not match the schema: n: must be at least 1\. It was"
    ):
        Reply('{"n": 0}').parse_as(schema)
    with pytest.raises(InvalidReplyError, match="n: is required"):
        Reply("{}").parse_as(schema)
    with pytest.raises(InvalidReplyError, match="the text is not JSON"):
        Reply("two").parse_as(schema)


def test_nulls_of_strict_schemas() -> None:
    """A null at an optional property that takes none is a missing property."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}}
    assert Reply('{"a": null, "b": null}').parse_as(schema) == {"b": None}
    with pytest.raises(InvalidReplyError, match="a: must be of the type string"):
        Reply('{"a": null}').parse_as({**schema, "required": ["a"]})


@pytest.mark.one_loop
async def test_extract_by_a_schema() -> None:
    """It asks again with the error, as for a type."""
    provider = ScriptedProvider('{"zone": 1}', '{"city": "Oslo"}')
    assert await extract(provider, PLACE, "Which?") == {"city": "Oslo"}
    assert "city: is required" in provider.requests[1].messages[-1].text


# --- objects that came as text ----------------------------------------------------------------------------------------

TEXT = json.dumps(OSLO)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"place": TEXT}, {"place": OSLO}),
        ({"place": f" {TEXT}\n"}, {"place": OSLO}),
        ({"places": json.dumps([OSLO])}, {"places": [OSLO]}),
        ({"places": [TEXT, OSLO]}, {"places": [OSLO, OSLO]}),
        ({"places": json.dumps([TEXT])}, {"places": [OSLO]}),
        ({"perhaps": TEXT}, {"perhaps": OSLO}),
        ({"note": TEXT}, {"note": TEXT}),  # a string is accepted
        ({"either": TEXT}, {"either": TEXT}),
        ({"any": TEXT}, {"any": TEXT}),
        ({"unknown": TEXT}, {"unknown": TEXT}),
        ({"place": '{"zone": 1}'}, {"place": '{"zone": 1}'}),  # it would not fit
        ({"place": "[1]"}, {"place": "[1]"}),
        ({"place": '{"city": "Oslo"'}, {"place": '{"city": "Oslo"'}),
        ({"place": "Oslo"}, {"place": "Oslo"}),
        ({"place": json.dumps({"city": TEXT})}, {"place": {"city": TEXT}}),  # the string inside stays one
    ],
)
def test_arguments_as_text(arguments: dict[str, Any], read: dict[str, Any]) -> None:
    """JSON text is read as its value only where the schema accepts no string, and only if the value fits."""
    made, paths = unwrapped_arguments(arguments, FIND)
    assert made == read
    assert bool(paths) is (read != arguments)


def _draw_pair(draw: st.DrawFn, definitions: dict[str, Any], depth: int = 0) -> tuple[dict[str, Any], Any, Any]:
    """Draws a schema, a value that fits, and the value with some of its objects and lists as JSON text."""
    kind = draw(st.sampled_from(["text", "number", "object", "list", "object", "list"][: 6 if depth < 3 else 2]))
    if kind == "text":
        text = draw(st.sampled_from(["", "a", '{"a": 1}', "[1]", '"x"']))
        return {"type": "string"}, text, text
    if kind == "number":
        return {"type": "integer"}, 7, 7
    value: Any
    written: Any
    if kind == "object":
        names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=2))
        inner = {name: _draw_pair(draw, definitions, depth + 1) for name in names}
        value, written = ({name: pair[at] for name, pair in inner.items()} for at in (1, 2))
        properties = {name: pair[0] for name, pair in inner.items()}
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": names}
        schema |= draw(st.sampled_from([{}, {"additionalProperties": False}]))
    else:
        items, value, written = _draw_pair(draw, definitions, depth + 1)
        count = draw(st.integers(0, 2))
        schema, value, written = {"type": "array", "items": items}, [value] * count, [written] * count
    schema = draw(st.sampled_from([schema, {"anyOf": [{"type": "null"}, schema]}, {"allOf": [schema]}]))
    if draw(st.booleans()):
        definitions[f"D{len(definitions)}"] = schema
        schema = {"$ref": f"#/$defs/D{len(definitions) - 1}"}
    return schema, value, json.dumps(written) if draw(st.booleans()) else written


@settings(max_examples=examples(1000), deadline=None)
@given(st.data())
def test_any_arguments_as_text(data: st.DataObject) -> None:
    """Whichever objects and lists of fitting arguments came as JSON text, also inside each other: they are read."""
    definitions: dict[str, Any] = {}
    drawn = {name: _draw_pair(data.draw, definitions) for name in ("a", "b")}
    schema = {"type": "object", "properties": {name: pair[0] for name, pair in drawn.items()}, "$defs": definitions}
    value, written = ({name: pair[at] for name, pair in drawn.items()} for at in (1, 2))
    made, paths = unwrapped_arguments(written, schema)
    assert made == value
    assert bool(paths) is (written != value)
    assert unwrapped_arguments(value, schema) == (value, [])


def test_a_call_with_arguments_as_text() -> None:
    """The call has the value and a warning, and `raw_arguments` is the model's own text."""
    raw = json.dumps({"place": TEXT, "note": TEXT})
    call = {"index": 0, "id": "c", "function": {"name": "find", "arguments": raw}}
    event = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    decoder = StreamDecoder("chat", tools=[Tool("find", "Finds.", FIND)])
    decoder.feed(f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())
    [made] = decoder.reply.tool_calls
    assert (made.arguments, made.raw_arguments) == ({"place": OSLO, "note": TEXT}, raw)
    assert json.loads(made.arguments_json) == made.arguments
    assert [(each.code, each.detail) for each in decoder.reply.warnings] == [
        ("arguments_unwrapped", "find: a string with JSON was converted to its value: place")
    ]
