"""The passes over JSON schemas: what each makes of a schema, what it says about that, and what it leaves alone."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from streamfold import ConfigError, Tool
from streamfold.adapters import EncodingReport
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.kimi import KimiAdapter
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.requests.request import Request
from streamfold.requests.schema import (
    drop_keywords,
    inline_refs,
    moonshot,
    moonshot_problems,
    openai_strict,
    strict_problems,
)
from streamfold.types.pydantic_support import read_as
from tables import each_row


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}
N, B = {"type": "number"}, {"type": "boolean"}
TREE = {
    "$defs": {"Node": of(value=TEXT, kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})},
    "$ref": "#/$defs/Node",
}


# --- $ref -------------------------------------------------------------------------------------------------------------


def test_references_are_written_out() -> None:
    """Through each other, from `definitions` too, with what stands beside them; definitions go."""
    schema = {
        **of(
            a={"$ref": "#/$defs/A", "description": "mine"},
            b={"type": "array", "items": {"$ref": "#/definitions/B"}},
            c={"not": {"$ref": "#/definitions/B"}},
        ),
        "$defs": {"A": {"type": "object", "description": "its", "properties": {"b": {"$ref": "#/definitions/B"}}}},
        "definitions": {"B": TEXT},
    }
    made, changes = inline_refs(schema, why="because")
    assert made == of(
        a={"type": "object", "properties": {"b": TEXT}, "description": "mine"},
        b={"type": "array", "items": TEXT},
        c={"not": TEXT},
    )
    assert changes == [
        "parameters.properties.a: #/$defs/A is written out (because)",
        "parameters.properties.a.properties.b: #/definitions/B is written out (because)",
        "parameters.properties.b.items: #/definitions/B is written out (because)",
        "parameters.properties.c.not: #/definitions/B is written out (because)",
    ]


def test_recursion_is_reported() -> None:
    """What is part of itself stays a reference, and its definition stays with it."""
    made, changes = inline_refs(TREE)
    node = TREE["$defs"]["Node"]  # type: ignore[index]
    assert made == {**node, "$defs": {"Node": node}}
    assert changes == [
        "parameters: #/$defs/Node is written out",
        "parameters.properties.kids.items: #/$defs/Node stays (it is recursive)",
        "parameters.$defs.Node.properties.kids.items: #/$defs/Node stays (it is recursive)",
    ]
    assert inline_refs(of(me={"$ref": "#"})) == (
        of(me={"$ref": "#"}), ["parameters.properties.me: # stays (it is recursive)"],
    )  # fmt: skip


@each_row("ref", ["#/$defs/Nobody", "https://example.com/a.json", "other.json#/A", "#/type/3"])
def test_references_that_lead_out(ref: str) -> None:
    schema = of(a={"$ref": ref})
    assert inline_refs(schema) == (
        schema,
        [f"parameters.properties.a: {ref} stays (it leads to nothing in this schema)"],
    )


def test_pointers_are_read_as_such() -> None:
    """`~1` is a slash, `~0` a tilde, a number a place in a list."""
    schema = {**of(a={"$ref": "#/$defs/x~1y~0z"}, b={"$ref": "#/properties/c/anyOf/1"}, c={"anyOf": [{}, TEXT]}),
              "$defs": {"x/y~z": {"type": "null"}}}  # fmt: skip
    made, _ = inline_refs(schema)
    assert (made["properties"]["a"], made["properties"]["b"], "$defs" in made) == ({"type": "null"}, TEXT, False)


def test_a_demand_beside_a_reference_holds_as_well() -> None:
    """It does not take the place of the same demand in the definition."""
    schema = {**of(a={"$ref": "#/$defs/A", "minLength": 3}), "$defs": {"A": {"type": "string", "minLength": 5}}}
    made, _ = inline_refs(schema)
    assert made["properties"]["a"] == {"allOf": [{"type": "string", "minLength": 5}, {"minLength": 3}]}


def test_definitions_that_double_are_bounded() -> None:
    """Thirty definitions that each use the next one twice would be a thousand million schemas."""
    defs: dict[str, Any] = {
        f"D{n}": of(a={"$ref": f"#/$defs/D{n + 1}"}, b={"$ref": f"#/$defs/D{n + 1}"}) for n in range(30)
    }
    made, changes = inline_refs({**of(a={"$ref": "#/$defs/D0"}), "$defs": {**defs, "D30": TEXT}})
    assert len(changes) < 5000
    assert any("more than 1000" in change for change in changes)
    assert "$defs" in made


# --- keywords ---------------------------------------------------------------------------------------------------------


def test_keywords_are_dropped_and_names_are_not() -> None:
    """A field may be called as a keyword is."""
    schema = of(minLength={"type": "string", "minLength": 1}, b={"if": {"minLength": 2}})
    assert drop_keywords(schema, {"minLength"}) == (
        of(minLength=TEXT, b={"if": {}}),
        [
            "parameters.properties.minLength: minLength removed (the provider does not take it)",
            "parameters.properties.b.if: minLength removed (the provider does not take it)",
        ],
    )


# --- Moonshot ---------------------------------------------------------------------------------------------------------

_ANY = [{"type": kind} for kind in ("string", "number", "boolean", "object", "array", "null")]
_TYPED = "added (Moonshot wants a type everywhere)"


@each_row(
    ("given", "made", "said"),
    [
        (TEXT, TEXT, []),
        ({"properties": {"b": TEXT}}, of(b=TEXT), [f'"type": "object" {_TYPED}']),
        ({"items": TEXT}, {"type": "array", "items": TEXT}, [f'"type": "array" {_TYPED}']),
        ({"pattern": "x"}, {"type": "string", "pattern": "x"}, [f'"type": "string" {_TYPED}']),
        ({"minimum": 1}, {"type": "number", "minimum": 1}, [f'"type": "number" {_TYPED}']),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}, [f'"type": "string" {_TYPED}']),
        ({"enum": [1, 2.5]}, {"type": "number", "enum": [1, 2.5]}, [f'"type": "number" {_TYPED}']),
        ({"const": True}, {"type": "boolean", "const": True}, [f'"type": "boolean" {_TYPED}']),
        (
            {"enum": ["a", None], "title": "A"},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null", "enum": [None]}], "title": "A"},
            ["enum became anyOf, one for each type (Moonshot wants a type everywhere)"],
        ),
        ({"type": "object", "additionalProperties": {}}, {"type": "object", "additionalProperties": {}}, []),
        (
            {"type": "array", "items": [TEXT, {"type": "null"}]},
            {"type": "array", "items": {"anyOf": [TEXT, {"type": "null"}]}},
            ["items became one anyOf for all positions (Moonshot takes one schema for all items)"],
        ),
        ({"description": "x"}, {"description": "x", "anyOf": _ANY}, [f"anyOf of all types {_TYPED}"]),
        (
            {"type": "string", "anyOf": [{"pattern": "a"}, {"type": "string"}]},
            {"anyOf": [{"type": "string", "pattern": "a"}, {"type": "string"}]},
            ["type moved into the alternatives of anyOf (Moonshot takes no type beside it)"],
        ),
        (
            {"type": "number", "anyOf": [{"type": "integer"}, {"$ref": "#/$defs/N"}]},
            {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/N"}]},
            ["type moved into the alternatives of anyOf (Moonshot takes no type beside it)"],
        ),
        (
            {"$ref": "#/$defs/N", "default": 3, "title": "A"},
            {"$ref": "#/$defs/N"},
            [f"{word} removed (Moonshot takes nothing beside $ref)" for word in ("default", "title")],
        ),
        (
            {"$ref": "#/$defs/N", "description": "How many."},
            {"type": "number", "description": "How many."},
            ["#/$defs/N is written out (Moonshot wants it in $defs, with nothing beside it)"],
        ),
        (
            {"$ref": "#/properties/other"},
            {"type": "null"},
            ["#/properties/other is written out (Moonshot wants it in $defs, with nothing beside it)"],
        ),
    ],
)  # fmt: skip
def test_moonshot_repairs(given: dict[str, Any], made: dict[str, Any], said: list[str]) -> None:
    """What can be said in Moonshot's flavour is said so, and nothing is left to be refused."""
    schema = {**of(a=given, other={"type": "null"}, n={"$ref": "#/$defs/N"}), "$defs": {"N": {"type": "number"}}}
    before = copy.deepcopy(schema)
    fixed, changes = moonshot(schema)
    assert (fixed["properties"]["a"], moonshot_problems(fixed)) == (made, [])
    assert changes == [f"parameters.properties.a: {text}" for text in said]
    assert schema == before


def test_moonshot_definitions() -> None:
    """The older name of `$defs` is changed, recursion and all; the root is never a reference."""
    schema = {"definitions": {"Node": of(kids={"items": {"$ref": "#/definitions/Node"}})}, "$ref": "#/definitions/Node"}
    fixed, changes = moonshot({**schema, "$schema": "https://json-schema.org/draft-07/schema"})
    node = of(kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    assert (fixed, moonshot_problems(fixed)) == ({**node, "$defs": {"Node": node}}, [])
    assert changes[:2] == [
        "parameters: definitions renamed to $defs (Moonshot's name for it)",
        "parameters: $schema removed (Moonshot refuses it)",
    ]


@each_row(
    ("schema", "problem"),
    [
        ({"type": "string"}, 'parameters: the root needs "type": "object"'),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, None),
        ({"anyOf": [of(), of()]}, 'parameters: the root can\'t be an "anyOf": make it an object'),
        ({"type": "object", "anyOf": [of(), of()]}, 'parameters: the root can\'t be an "anyOf": make it an object'),
        (
            of(a={"anyOf": [{"type": "object", "required": ["b"]}]}),
            'parameters.properties.a.anyOf[0]: "required" names b, which "properties" does not list',
        ),
        (
            {**of(), "required": ["b"], "additionalProperties": False},
            'parameters: "required" names b, which "properties" does not list',
        ),
        (
            of(a={"required": ["b"], "anyOf": [{"type": "object", "required": ["c"]}]}),
            'parameters.properties.a: required may not stand both beside "anyOf" and in an alternative',
        ),
        (of(a={"type": "string", "anyOf": [{"type": "number"}]}), 'parameters.properties.a: "type" may not stand'),
        (of(a={"$ref": "#"}), 'parameters.properties.a: a "$ref" must lead into "#/$defs"'),
        (of(a={"$ref": "#/$defs/Nowhere"}), "parameters.properties.a: '#/$defs/Nowhere' leads to nothing"),
        (of(a={"$ref": "https://example.com/x"}), 'parameters.properties.a: a "$ref" must lead into "#/$defs"'),
    ],
)  # fmt: skip
def test_moonshot_leaves_what_would_mean_something_else(schema: dict[str, Any], problem: str | None) -> None:
    """It stays as it is, and is an error that names the place before anything is sent."""
    fixed, _ = moonshot(schema)
    if problem is None:
        assert "type" not in fixed or moonshot_problems(fixed)
        problem = "parameters"
    with pytest.raises(ConfigError, match="the schema of the tool 'pick' would be refused: parameters"):
        KimiAdapter().rewrite(Request.read("kimi-k2", "x", [Tool("pick", parameters=schema)], "auto", {}))
    assert any(text.startswith(problem) for text in moonshot_problems(fixed))


def test_moonshot_lists_required_fields() -> None:
    """A field that is required and nowhere listed may be anything, or what all other fields are."""
    fixed, changes = moonshot({"required": ["a"], "properties": {"b": {"required": ["c"], "additionalProperties": N}}})
    assert fixed["properties"]["b"] == {
        "type": "object", "required": ["c"], "additionalProperties": N, "properties": {"c": N},
    }  # fmt: skip
    assert [one["type"] for one in fixed["properties"]["a"]["anyOf"]] == [
        "string", "number", "boolean", "object", "array", "null",
    ]  # fmt: skip
    assert moonshot_problems(fixed) == []
    assert changes == [
        "parameters: a added to properties (Moonshot wants required fields listed there)",
        'parameters: "type": "object" added (Moonshot wants a type everywhere)',
        "parameters.properties.b: c added to properties (Moonshot wants required fields listed there)",
        'parameters.properties.b: "type": "object" added (Moonshot wants a type everywhere)',
        "parameters.properties.a: anyOf of all types added (Moonshot wants a type everywhere)",
    ]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = of(a=schema)
    return schema


def test_moonshot_on_the_hosted_api() -> None:
    """Tools and the form of the answer go through the pass, and the reply says what was changed."""
    wanted = {"$schema": "x", "type": "object", "properties": {"a": {"minimum": 1}}}
    tools = [Tool("pick", parameters=of(a={"enum": ["x"]}))]
    request, warnings = KimiAdapter().rewrite(Request.read("kimi-k2", "x", tools, "auto", {"response_format": wanted}))
    body = KimiAdapter().encode(request, EncodingReport())
    assert body["tools"][0]["function"]["parameters"] == of(a={"type": "string", "enum": ["x"]})
    assert body["response_format"]["json_schema"]["schema"] == of(a={"type": "number", "minimum": 1})
    number = f'response_format.properties.a: "type": "number" {_TYPED}'
    assert [(warning.code, warning.detail) for warning in warnings] == [
        ("schema_changed", f'the tool pick: parameters.properties.a: "type": "string" {_TYPED}'),
        (
            "schema_changed",
            f"answer: response_format: $schema removed (Moonshot refuses it); {number}",
        ),
    ]


# --- OpenAI's strict mode ---------------------------------------------------------------------------------------------


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1)] = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, Field(min_length=2)]


class Home(BaseModel):
    """Who lives there."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Cat | None = None
    first: Cat = Field(description="The first one.")
    tags: list[str] = []


def test_strict() -> None:
    """Closed objects, every field required, null for what was optional, and no word that strict mode does not know."""
    made, changes = openai_strict(Home.model_json_schema())
    lives = {"minimum": 1, "title": "Lives", "type": ["integer", "null"]}
    kind = {"const": "cat", "title": "Kind", "type": "string"}
    cat = {"properties": {"kind": kind, "lives": lives}, "required": ["kind", "lives"], "title": "Cat",
           "type": "object", "additionalProperties": False}  # fmt: skip
    assert made["properties"] == {
        "pet": {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "title": "Pet"},
        "other": {"anyOf": [{"$ref": "#/$defs/Cat"}, {"type": "null"}]},
        "first": {**cat, "description": "The first one."},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}, "title": "Tags"},
    }
    assert (made["required"], made["additionalProperties"]) == (["pet", "other", "first", "tags"], False)
    assert made["$defs"]["Cat"] == cat
    assert made["$defs"]["Dog"]["properties"]["name"] == {"title": "Name", "type": "string"}
    assert strict_problems(made) == []
    assert "parameters.properties.pet: oneOf became anyOf (strict mode has no oneOf)" in changes
    assert "parameters.properties.pet: discriminator removed (strict mode does not take it)" in changes
    assert "parameters.$defs.Dog.properties.name: minLength removed (strict mode does not take it)" in changes
    assert "parameters: other, tags may be null and must be there (strict mode has no optional)" in changes
    # What comes back of it fits the model again.
    said = {"pet": {"kind": "cat", "lives": None}, "other": None, "first": {"kind": "cat", "lives": 3}, "tags": None}
    assert read_as(Home, said) == Home(pet=Cat(kind="cat"), first=Cat(kind="cat", lives=3))


@each_row(
    ("given", "made"),
    [
        (TEXT, {"type": ["string", "null"]}),
        ({"type": ["string", "number"]}, {"type": ["string", "number", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "null"}, {"type": "null"}),
        ({"type": "string", "enum": ["a"]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"enum": ["a", None]}, {"enum": ["a", None]}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"anyOf": [TEXT, {"type": "number"}]}, {"anyOf": [TEXT, {"type": "number"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/A", "default": 1}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}),
        ({"allOf": [TEXT], "title": "x"}, {"anyOf": [{"type": "string", "title": "x"}, {"type": "null"}]}),
        ({"type": "string", "format": "color"}, {"type": ["string", "null"]}),
        ({"type": "string", "format": "date"}, {"type": ["string", "null"], "format": "date"}),
    ],
)
def test_strict_optional(given: dict[str, Any], made: dict[str, Any]) -> None:
    """Each kind of schema has its own way to take a null as well."""
    schema = {**of(a=given, b={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}}
    fixed, _ = openai_strict(schema)
    assert (fixed["properties"]["a"], strict_problems(fixed)) == (made, [])


@each_row(
    ("schema", "problem"),
    [
        (TEXT, 'parameters: the root is a plain "type": "object"'),
        ({"anyOf": [of(), of()]}, 'parameters: the root is a plain "type": "object"'),
        ({"type": "object"}, "parameters: an object whose fields are not listed"),
        (of(a={"type": "object", "additionalProperties": TEXT}), "parameters.properties.a: an object whose fields"),
        ({**of(a=TEXT), "additionalProperties": TEXT}, "parameters: fields beside the listed ones"),
        (of(a={}), "parameters.properties.a.anyOf[0]: strict mode takes no value of any type"),
        (of(a={"type": "array"}), 'parameters.properties.a: an array needs "items"'),
        (of(a={"type": "array", "prefixItems": [TEXT]}), "parameters.properties.a: prefixItems can't be said"),
        (of(a={"allOf": [of(), of()]}), "parameters.properties.a"),
        (of(a=True), "parameters.properties.a: True is no schema"),
        ("x", "parameters: must be a JSON schema"),
    ],
)
def test_strict_leaves_what_would_mean_something_else(schema: Any, problem: str) -> None:
    fixed = openai_strict(schema)[0] if isinstance(schema, dict) else schema
    assert strict_problems(fixed)[0].startswith(problem)


@pytest.mark.parametrize("adapter", [ChatAdapter, ResponsesAdapter])
def test_strict_tools(adapter: type[ChatAdapter]) -> None:
    """A tool that is to be strict is sent so, or is an error that says why it can't be; the others stay as they are."""
    tools = [Tool("a", parameters=of(x=TEXT), strict=True), Tool("b", parameters=of(x=TEXT))]
    request, warnings = adapter().rewrite(Request.read("m", "x", tools, "auto", {}))
    assert request.tools[0].parameters == {
        **of(x={"type": ["string", "null"]}), "required": ["x"], "additionalProperties": False,
    }  # fmt: skip
    assert request.tools[1] is tools[1]
    assert [warning.code for warning in warnings] == ["schema_changed"]
    assert warnings[0].detail.startswith("the tool a: parameters: x may be null")
    with pytest.raises(ConfigError, match="the tool 'c' would be refused: parameters: an object whose fields"):
        adapter().rewrite(Request.read("m", "x", [Tool("c", parameters={"type": "object"}, strict=True)], "auto", {}))


def test_passes_by_quirk() -> None:
    """A server that takes no `$ref`, or not every keyword, gets what it takes; tools and answers alike."""
    quirks = ChatQuirks(inline_refs=True, unsupported_keywords=("title", "default"))
    options = {"response_format": Home}
    request, warnings = ChatAdapter(quirks).rewrite(Request.read("m", "x", [Tool.from_model(Home)], "auto", options))
    body = str(ChatAdapter(quirks).encode(request, EncodingReport()))
    assert ("$ref" in body, "'title'" in body, "'default'" in body, "$defs" in body) == (False,) * 4
    assert [warning.code for warning in warnings] == ["schema_changed", "schema_changed"]
    assert (
        "parameters.properties.pet.oneOf[0]: #/$defs/Cat is written out (the provider takes no $ref)"
        in warnings[0].detail
    )


# --- any schema -------------------------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "type", "items"])
_leaves = st.sampled_from(
    [{}, TEXT, {"type": "integer", "minimum": 1}, {"enum": ["x", 1]}, {"const": None}, {"$ref": "#/$defs/D"}, True,
     {"$ref": "#/$defs/D", "description": "y"}, {"$ref": "#"}, {"type": ["string", "null"]}]
)  # fmt: skip
_schemas = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda p: {"type": "object", "properties": p}, st.dictionaries(_names, inner, max_size=3)),
        st.builds(lambda p, r: {"properties": p, "required": r}, st.dictionaries(_names, inner), st.lists(_names)),
        st.builds(lambda i: {"type": "array", "items": i}, inner),
        st.builds(lambda k, p: {k: p}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1)),
        st.builds(lambda p: {"type": "object", "anyOf": p}, st.lists(inner, min_size=1)),
    ),
    max_leaves=8,
)


@given(_schemas, _schemas)
def test_any_schema(properties: Any, definition: Any) -> None:
    """No pass fails, changes what it was given, or changes something and is silent; twice is no worse than once."""
    schema = {"type": "object", "properties": {"p": properties}, "$defs": {"D": definition}}
    before = copy.deepcopy(schema)
    passes = [(inline_refs, strict_problems), (moonshot, moonshot_problems), (openai_strict, strict_problems)]
    for one, problems in passes:
        made, changes = one(schema)  # type: ignore[operator]
        assert schema == before
        assert changes or made == schema
        if one is not inline_refs:  # what is recursive is unrolled once more
            assert len(problems(one(made)[0])) <= len(problems(made))  # type: ignore[operator]


# --- schemas that are too deep ----------------------------------------------------------------------------------------


@each_row("adapter", [ChatAdapter, ResponsesAdapter, KimiAdapter])
@each_row("levels", [100, 260, 520, 5000])
def test_a_schema_that_is_nested_too_deeply_is_a_config_error(adapter: Any, levels: int) -> None:
    """A schema of an MCP server may be of any depth: it is sent, or refused with a ConfigError, never a crash."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    for strict in (None, True):
        request = Request.read("m", "x", [Tool("deep", parameters=schema, strict=strict)], "auto", {})
        with suppress(ConfigError):
            adapter().prepare(request)
    with suppress(ConfigError):
        adapter().prepare(Request.read("m", "x", None, "auto", {"response_format": schema}))
