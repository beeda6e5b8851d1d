"""The passes over JSON schemas: what each makes of a schema, what it says about that, and what it leaves alone."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from streamfold import ConfigError, Provider, Tool
from streamfold.adapters import EncodingReport
from streamfold.adapters.anthropic import AnthropicAdapter
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.kimi import KimiAdapter
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.requests.request import Request
from streamfold.requests.schema import Fitted, Subset, drop_keywords, fit_schema, inline_refs, schema_rules
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
        a={"type": "object", "properties": {"b": TEXT}, "description": "mine its"},
        b={"type": "array", "items": TEXT},
        c={"not": TEXT},
    )
    assert changes == [
        "parameters.properties.a: #/$defs/A was inlined (because)",
        "parameters.properties.a.properties.b: #/definitions/B was inlined (because)",
        "parameters.properties.b.items: #/definitions/B was inlined (because)",
        "parameters.properties.c.not: #/definitions/B was inlined (because)",
    ]


def test_recursion_is_reported() -> None:
    """What is part of itself stays a reference, and its definition stays with it."""
    made, changes = inline_refs(TREE)
    node = TREE["$defs"]["Node"]  # type: ignore[index]
    assert made == {**node, "$defs": {"Node": node}}
    assert changes == [
        "parameters: #/$defs/Node was inlined",
        "parameters.properties.kids.items: #/$defs/Node was kept (it is recursive)",
        "parameters.$defs.Node.properties.kids.items: #/$defs/Node was kept (it is recursive)",
    ]
    assert inline_refs(of(me={"$ref": "#"})) == (
        of(me={"$ref": "#"}), ["parameters.properties.me: # was kept (it is recursive)"],
    )  # fmt: skip


@each_row("ref", ["#/$defs/Nobody", "https://example.com/a.json", "other.json#/A", "#/type/3"])
def test_references_that_lead_out(ref: str) -> None:
    schema = of(a={"$ref": ref})
    assert inline_refs(schema) == (
        schema,
        [f"parameters.properties.a: {ref} was kept (the target isn't in this schema)"],
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
            "parameters.properties.minLength: minLength removed (the provider doesn't support it)",
            "parameters.properties.b.if: minLength removed (the provider doesn't support it)",
        ],
    )


# --- Moonshot ---------------------------------------------------------------------------------------------------------

MUST = "Must also fit this JSON schema: "
_ANY = [{"type": kind} for kind in ("string", "number", "boolean", "object", "array", "null")]
KIMI = schema_rules("kimi", None, "").tool


def clean(fitted: Fitted) -> dict[str, Any]:
    """The schema, of which nothing would be refused."""
    assert fitted.problems == []
    return fitted.schema


@each_row(
    ("given", "made", "said"),
    [
        (TEXT, TEXT, []),
        ({"properties": {"b": TEXT}}, of(b=TEXT), ['"type": "object" added']),
        ({"items": TEXT}, {"type": "array", "items": TEXT}, ['"type": "array" added']),
        ({"pattern": "x"}, {"type": "string", "pattern": "x"}, ['"type": "string" added']),
        ({"minimum": 1}, {"type": "number", "minimum": 1}, ['"type": "number" added']),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}, ['"type": "string" added']),
        ({"enum": [1, 2.5]}, {"type": "number", "enum": [1, 2.5]}, ['"type": "number" added']),
        ({"const": True}, {"type": "boolean", "const": True}, ['"type": "boolean" added']),
        (
            {"enum": ["a", None], "title": "A"},
            {"anyOf": [{"type": "null", "enum": [None]}, {"type": "string", "enum": ["a"]}], "title": "A"},
            ["enum became anyOf, with one schema for each type"],
        ),
        (
            {"enum": [{"a": 1}, "b"]},
            {
                "anyOf": [
                    {**of(a={"type": "integer", "const": 1}), "required": ["a"], "additionalProperties": False},
                    {"type": "string", "const": "b"},
                ]
            },
            ["enum became schemas of its values"],
        ),
        ({"type": "object", "additionalProperties": {}}, {"type": "object", "additionalProperties": {}}, []),
        (
            {"type": "array", "items": [TEXT, {"type": "null"}], "maxItems": 2},
            {
                "type": "array",
                "items": {"anyOf": [TEXT, {"type": "null"}]},
                "maxItems": 2,
                "description": MUST + '{"prefixItems": [{"type": "string"}, {"type": "null"}]}',
            },
            ["prefixItems moved into the description"],
        ),
        ({"description": "x"}, {"description": "x", "anyOf": _ANY}, ["anyOf with all types added"]),
        (
            {"type": "string", "anyOf": [{"pattern": "a"}, {"type": "string"}]},
            {"anyOf": [{"type": "string", "pattern": "a"}, {"type": "string"}]},
            ["type moved into the alternatives of anyOf"],
        ),
        (
            {"type": "string", "anyOf": [TEXT, {"type": "number"}]},
            {"anyOf": [TEXT]},
            ["type moved into the alternatives of anyOf"],
        ),
        (
            {"required": ["b"], "anyOf": [{"type": "object", "required": ["c"]}]},
            {
                "anyOf": [
                    {
                        "type": "object",
                        "required": ["b", "c"],
                        "properties": {"b": {"anyOf": _ANY}, "c": {"anyOf": _ANY}},
                    }
                ]
            },
            ["required moved into the alternatives of anyOf"],
        ),
        ({"oneOf": [TEXT, N]}, {"anyOf": [TEXT, N]}, ["oneOf became anyOf"]),
        (
            {"allOf": [{"$ref": "#/$defs/N"}], "description": "How many."},
            {"type": "number", "description": "How many."},
            ["allOf became one schema"],
        ),
        (
            {"type": ["array", "string"], "items": TEXT, "description": "x"},
            {"anyOf": [{"type": "array", "items": TEXT}, TEXT], "description": "x"},
            ["a list of types became anyOf"],
        ),
        (
            {"type": "string", "not": {"const": "x"}},
            {"type": "string", "description": 'Must also fit this JSON schema: {"not": {"const": "x"}}'},
            ["not moved into the description"],
        ),
        (True, {"anyOf": _ANY}, ["true became a schema for any value"]),
        (
            {"$ref": "#/$defs/N", "default": 3, "title": "A"},
            {"$ref": "#/$defs/N"},
            ["title removed (not allowed next to $ref)"],
        ),
        (
            {"$ref": "#/$defs/N", "description": "How many."},
            {"type": "number", "description": "How many."},
            ["#/$defs/N was inlined"],
        ),
        ({"$ref": "#/properties/other"}, {"type": "null"}, ["#/properties/other was inlined"]),
        ({"$ref": "#"}, {"$ref": "#"}, []),
        (
            {"$ref": "https://example.com/x"},
            {"anyOf": _ANY},
            [("https://example.com/x became a schema for any value (its target is missing)")],
        ),
    ],
)
def test_what_kimi_accepts(given: Any, made: dict[str, Any], said: list[str]) -> None:
    """What can be said in Moonshot's flavour is said so, or moved into the description; nothing would be refused."""
    schema = {**of(a=given, other={"type": "null"}, n={"$ref": "#/$defs/N"}), "$defs": {"N": {"type": "number"}}}
    before = copy.deepcopy(schema)
    fitted = fit_schema(schema, KIMI)
    assert clean(fitted)["properties"]["a"] == made
    said = [f"parameters.properties.a: {text}" for text in said]
    assert [change for change in fitted.changes if change in said] == said
    assert schema == before


def test_definitions_of_kimi() -> None:
    """The older name of `$defs` is changed, recursion and all; the root is never a reference."""
    schema = {"definitions": {"Node": of(kids={"items": {"$ref": "#/definitions/Node"}})}, "$ref": "#/definitions/Node"}
    fitted = fit_schema({**schema, "$schema": "https://json-schema.org/draft-07/schema"}, KIMI)
    node = of(kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    assert clean(fitted) == {**node, "$defs": {"Node": node}}
    assert fitted.changes[0] == "parameters: definitions renamed to $defs"
    assert "parameters: $schema removed" in fitted.changes


@each_row(
    ("schema", "made"),
    [
        (
            {"type": "object", "anyOf": [of(a=TEXT), {**of(b=N), "required": ["b"]}]},
            {**of(a=TEXT, b=N), "description": "Must also fit this JSON schema: ..."},
        ),
        (
            {**of(), "required": ["b"], "additionalProperties": False},
            {**of(), "required": [], "additionalProperties": False},
        ),
        (
            {**of(), "required": ["b"], "additionalProperties": N},
            {**of(b=N), "required": ["b"], "additionalProperties": N},
        ),
        ({"required": ["b"]}, {**of(b={"anyOf": _ANY}), "required": ["b"]}),
        ({}, {"type": "object"}),
    ],
)
def test_the_root_of_kimi(schema: dict[str, Any], made: dict[str, Any]) -> None:
    """It is an object; what required says beyond the listed properties is listed."""
    fitted = clean(fit_schema(schema, KIMI))
    if "description" in fitted:
        fitted["description"] = fitted["description"][:32] + "..."
    assert fitted == made


def test_a_tool_without_an_object() -> None:
    """Arguments are an object: a tool whose schema is a text or a list is an error before anything is sent."""
    for adapter in (KimiAdapter, ChatAdapter, ResponsesAdapter, AnthropicAdapter):
        for schema in (TEXT, {"type": "array", "items": TEXT}):
            with pytest.raises(
                ConfigError, match='schema of the tool \'pick\': parameters: the root has "type": "object"'
            ):
                adapter().rewrite(Request.read("kimi-k2", "x", [Tool("pick", parameters=schema)], "auto", {}))


def test_on_the_hosted_api_of_kimi() -> None:
    """Tools and the form of the answer are fitted, and the reply says what was changed."""
    wanted = {"$schema": "x", "type": "object", "properties": {"a": {"minimum": 1}}}
    tools = [Tool("pick", parameters=of(a={"enum": ["x"]}))]
    request, warnings = KimiAdapter().rewrite(Request.read("kimi-k2", "x", tools, "auto", {"response_format": wanted}))
    body = KimiAdapter().encode(request, EncodingReport())
    assert body["tools"][0]["function"]["parameters"] == of(a={"type": "string", "enum": ["x"]})
    assert body["response_format"]["json_schema"]["schema"] == of(a={"type": "number", "minimum": 1})
    assert [(warning.code, warning.detail) for warning in warnings] == [
        ("schema_changed", 'the tool pick: parameters.properties.a: "type": "string" added'),
        (
            "schema_changed",
            'answer: response_format: $schema removed; response_format.properties.a: "type": "number" added',
        ),
    ]


# --- Claude -----------------------------------------------------------------------------------------------------------

CLAUDE = schema_rules("claude", None, "")


@each_row(
    ("given", "made"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 5},
            {"type": "integer", "description": "Must be at least 1; at most 5."},
        ),
        (
            {"type": "string", "minLength": 2, "description": "A name."},
            {"type": "string", "description": "A name. Must be at least 2 characters."},
        ),
        ({"type": "array", "items": TEXT, "minItems": 1}, {"type": "array", "items": TEXT, "minItems": 1}),
        (
            {"type": "array", "items": TEXT, "minItems": 2, "uniqueItems": True},
            {"type": "array", "items": TEXT, "description": "Must be at least 2 items; without repetitions."},
        ),
        ({"type": "string", "format": "uri"}, {"type": "string", "format": "uri"}),
        ({"type": "string", "format": "color"}, {"type": "string", "description": "Must be in the format color."}),
        ({"type": "string", "pattern": "^(?=a)"}, {"type": "string", "description": "Must be of the pattern ^(?=a)."}),
        ({"oneOf": [TEXT, N]}, {"anyOf": [TEXT, N]}),
        ({"allOf": [of(a=TEXT), of(b=N)]}, {**of(a=TEXT, b=N), "additionalProperties": False}),
        (of(a=TEXT), {**of(a=TEXT), "additionalProperties": False}),
    ],
)
def test_what_claude_is_held_to(given: dict[str, Any], made: dict[str, Any]) -> None:
    """Constraints that structured outputs lack are said in the description."""
    assert clean(fit_schema(of(x=given), CLAUDE.format))["properties"]["x"] == made


@each_row(
    "given",
    [
        {"type": "object", "additionalProperties": N},
        {"type": "object", "additionalProperties": True},
        {"type": "object"},
        {**of(a=TEXT), "additionalProperties": True},
        {**of(a=TEXT), "required": ["b"]},
        {"type": "object", "patternProperties": {"^a": N}},
        {"$ref": "#"},
        {},
    ],
)
def test_what_claude_can_not_be_held_to(given: dict[str, Any]) -> None:
    """An object of any members would be an empty one if it were closed: another way is taken, with a warning."""
    schema = {**of(x=given), "required": ["x"]}
    assert fit_schema(schema, CLAUDE.format).problems
    adapter = AnthropicAdapter()
    request, warnings = adapter.rewrite(
        Request.read("claude-opus-4-8", "x", [Tool("f", parameters=schema, strict=True)], "auto", {})
    )
    assert (request.tools[0].strict, request.tools[0].parameters) == (None, schema)
    assert [warning.code for warning in warnings] == ["option_dropped"]
    request, warnings = adapter.rewrite(Request.read("claude-opus-4-8", "x", None, "auto", {"response_format": schema}))
    assert "output_config" not in adapter.encode(request, EncodingReport())
    assert [warning.code for warning in warnings] == ["response_format_changed"]
    with pytest.raises(ConfigError):
        adapter.rewrite(
            Request.read(
                "claude-opus-4-8",
                "x",
                [Tool("f", parameters=schema, strict=True)],
                "auto",
                {"unsupported_options": "strict"},
            )
        )


def test_names_and_roots_of_claudes_tools() -> None:
    """Names that are refused, and unions at the root, are said in the description; more is accepted, never less."""
    odd = {**of(**{"@type": TEXT, "a": N}), "required": ["@type"], "additionalProperties": False}
    fitted = fit_schema(odd, CLAUDE.tool)
    assert clean(fitted) == {
        **of(a=N),
        "required": [],
        "additionalProperties": TEXT,
        "description": MUST + '{"properties": {"@type": {"type": "string"}}, "required": ["@type"]}',
    }  # fmt: skip
    assert fit_schema(fitted.schema, CLAUDE.format).problems
    union = {**of(a=TEXT, b=N), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    fitted = fit_schema(union, CLAUDE.tool)
    assert clean(fitted) == {
        **of(a=TEXT, b=N),
        "description": 'Must also fit this JSON schema: {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}',
    }


# --- others -----------------------------------------------------------------------------------------------------------


@each_row(
    ("subset", "given", "made"),
    [
        ({"refused": ("anyOf",)}, {"anyOf": [N, {"type": "null"}]}, {"type": ["number", "null"]}),
        ({"refused": ("anyOf",)}, {"anyOf": [{"const": 1}, {"enum": [2]}]}, {"enum": [1, 2]}),
        (
            {"refused": ("anyOf",)},
            {"anyOf": [of(a=N), of(a=TEXT)]},
            {**of(a={"type": ["number", "string"]}), "description": "..."},
        ),
        ({"refused": ("anyOf",)}, {"anyOf": [N, {"type": "number", "minimum": 1}]}, {"description": "..."}),
        ({"patterns": "whole"}, {"pattern": "[0-9]{3}"}, {"pattern": "^.*[0-9]{3}.*$"}),
        ({"patterns": "whole"}, {"pattern": "^a"}, {"pattern": "^a.*$"}),
        ({"patterns": "whole"}, {"pattern": "a|b"}, {"description": "..."}),
        ({"needs_items": True}, {"type": "array"}, {"type": "array", "items": {}}),
        (
            {"references": "none"},
            {"$ref": "#/$defs/Node"},
            of(kids={"type": "array", "items": {"type": "object", "description": "..."}}),
        ),
        (
            {"recursion": False},
            {"$ref": "#/$defs/Node"},
            of(kids={"type": "array", "items": {"type": "object", "description": "..."}}),
        ),
    ],
)
def test_other_subsets(subset: dict[str, Any], given: dict[str, Any], made: dict[str, Any]) -> None:
    """What a subset lacks is said in other words, as far as it has some."""
    schema = {**of(x=given), "$defs": {"Node": of(kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})}}
    found = clean(fit_schema(schema, Subset(**subset)))["properties"]["x"]

    def short(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        return {name: "..." if name == "description" else short(value) for name, value in node.items()}

    assert short(found) == made


def test_changes_come_in_the_order_of_the_keywords() -> None:
    """The same schema gives the same warnings in each process, however its strings are hashed."""
    names = ["title", "examples", "deprecated", "readOnly", "writeOnly", "$comment"]
    schema = {
        "$defs": {"A": {"type": "string"}},
        "properties": {
            "a": {"$ref": "#/$defs/A", **dict.fromkeys(names, "")},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}], **dict.fromkeys(names, "")},
        },
    }
    fitted = fit_schema(schema, Subset(beside_ref=(), beside_any_of=()))
    assert fitted.changes == [
        f"parameters.properties.{name}: {keyword} removed (not allowed next to {beside})"
        for name, beside in (("a", "$ref"), ("b", "anyOf"))
        for keyword in names
    ]


def test_every_subset_has_a_source() -> None:
    """A rule that nobody can look up again is no fact."""
    for name in ("any", "openai", "azure", "claude", "kimi", "gemini", "databricks", "llamacpp"):
        rules = schema_rules(name, None, "")
        for subset in (rules.tool, rules.strict, rules.format, rules.loose):
            assert subset is None or (subset.source.startswith("https://") and subset.checked)
    with pytest.raises(ConfigError, match=r"the quirk schemas can't be 'opnai' \(did you mean 'openai'"):
        schema_rules("opnai", None, "")


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = of(a=schema)
    return schema


# --- OpenAI's strict mode ---------------------------------------------------------------------------------------------

OPENAI = schema_rules("openai", None, "").format


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
    fitted = fit_schema(Home.model_json_schema(), OPENAI)
    made = clean(fitted)
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
    name = {"title": "Name", "type": "string", "description": "Must be at least 2 characters."}
    assert made["$defs"]["Dog"]["properties"]["name"] == name
    assert "parameters.properties.pet: oneOf became anyOf" in fitted.changes
    assert "parameters.properties.pet: discriminator removed" in fitted.changes
    assert "parameters.$defs.Dog.properties.name: minLength moved into the description" in fitted.changes
    assert "parameters: other, tags became required and nullable" in fitted.routine
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
        ({"enum": ["a", None]}, {"anyOf": [{"type": "null", "enum": [None]}, {"type": "string", "enum": ["a"]}]}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"anyOf": [TEXT, {"type": "number"}]}, {"anyOf": [TEXT, {"type": "number"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/A", "default": 1}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}),
        ({"allOf": [TEXT], "title": "x"}, {"anyOf": [{"type": "string", "title": "x"}, {"type": "null"}]}),
        (
            {"type": "string", "format": "color"},
            {"type": ["string", "null"], "description": "Must be in the format color."},
        ),
        ({"type": "string", "format": "date"}, {"type": ["string", "null"], "format": "date"}),
    ],
)
def test_strict_optional(given: dict[str, Any], made: dict[str, Any]) -> None:
    """Each kind of schema has its own way to take a null as well."""
    schema = {**of(a=given, b={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}}
    assert clean(fit_schema(schema, OPENAI))["properties"]["a"] == made


@each_row(
    ("schema", "problem"),
    [
        (TEXT, 'parameters: the root has "type": "object"'),
        ({"type": "object", "additionalProperties": TEXT}, "parameters: an object without listed"),
        (of(a={"type": "object", "additionalProperties": TEXT}), "parameters.properties.a: an object without listed"),
        ({**of(a=TEXT), "additionalProperties": TEXT}, "parameters: additional properties"),
        ({**of(a=TEXT), "required": ["b"]}, 'parameters: "required" names b'),
        (of(a={}), "parameters.properties.a.anyOf[0]: a value of any type"),
        (of(a={"type": "array"}), "parameters.properties.a.items: a value of any type"),
        (of(a=True), "parameters.properties.a: a value of any type"),
    ],
)
def test_strict_leaves_what_would_mean_something_else(schema: Any, problem: str) -> None:
    assert fit_schema(schema, OPENAI).problems[0].startswith(problem)


def test_strict_says_what_it_can() -> None:
    """Tuples as lists, unions at the root as one object, conjunctions as one schema: more is accepted, never less."""
    fitted = clean(fit_schema({"anyOf": [of(a=TEXT), of(b=TEXT)]}, OPENAI))
    assert fitted["properties"] == {"a": {"type": ["string", "null"]}, "b": {"type": ["string", "null"]}}
    point = {"type": "array", "prefixItems": [N, N], "minItems": 2, "maxItems": 2}
    fitted = clean(fit_schema(of(a=point, b={"allOf": [of(x=N), of(y=N)]}), OPENAI))
    assert {**fitted["properties"]["a"], "description": ""} == {
        "type": ["array", "null"], "items": N, "minItems": 2, "maxItems": 2, "description": "",
    }  # fmt: skip
    assert list(fitted["properties"]["b"]["anyOf"][0]["properties"]) == ["x", "y"]


@pytest.mark.parametrize("adapter", [ChatAdapter, ResponsesAdapter])
def test_strict_tools(adapter: type[ChatAdapter]) -> None:
    """A tool that is to be strict is sent so, or without strict and with a warning; the others stay as they are."""
    tools = [Tool("a", parameters=of(x=TEXT), strict=True), Tool("b", parameters=of(x=TEXT))]
    request, warnings = adapter().rewrite(Request.read("m", "x", tools, "auto", {}))
    assert request.tools[0].parameters == {
        **of(x={"type": ["string", "null"]}), "required": ["x"], "additionalProperties": False,
    }  # fmt: skip
    assert request.tools[1] is tools[1]
    assert [warning.code for warning in warnings] == ["schema_changed"]
    assert warnings[0].detail.startswith("the tool a: parameters: additionalProperties set to false")
    loose = Tool("c", parameters=of(x={"type": "object"}), strict=True)
    request, warnings = adapter().rewrite(Request.read("m", "x", [loose], "auto", {}))
    assert (request.tools[0].strict, request.tools[0].parameters) == (None, loose.parameters)
    assert [warning.code for warning in warnings] == ["option_dropped"]
    assert warnings[0].detail.startswith("strict was not sent for tools[0] (parameters.properties.x: an object without")


def test_passes_by_quirk() -> None:
    """A server that takes no `$ref`, or not every keyword, gets what it takes; tools and answers alike."""
    quirks = ChatQuirks(inline_refs=True, unsupported_keywords=("title", "default"))
    options = {"response_format": Home}
    request, warnings = ChatAdapter(quirks).rewrite(Request.read("m", "x", [Tool.from_model(Home)], "auto", options))
    body = str(ChatAdapter(quirks).encode(request, EncodingReport()))
    assert ("$ref" in body, "'title'" in body, "'default'" in body, "$defs" in body) == (False,) * 4
    assert [warning.code for warning in warnings] == ["schema_changed", "schema_changed"]
    assert (
        "parameters.properties.pet.oneOf[0]: #/$defs/Cat was inlined (the provider doesn't support $ref)"
        in warnings[0].detail
    )


# --- any schema -------------------------------------------------------------------------------------------------------

SUBSETS = [
    subset
    for name in (
        "openai",
        "azure",
        "claude",
        "gemini",
        "kimi",
        "cerebras",
        "groq",
        "databricks",
        "deepseek",
        "llamacpp",
    )
    for rules in [schema_rules(name, None, "")]
    for subset in (rules.tool, rules.strict, rules.format)
    if subset is not None
]
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
    made, changes = inline_refs(schema)
    assert schema == before
    assert changes or made == schema
    for subset in SUBSETS:
        fitted = fit_schema(schema, subset)
        assert schema == before
        assert fitted.changes or fitted.routine or fitted.schema == schema
        if not fitted.problems:
            assert fit_schema(fitted.schema, subset).problems == []


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


@each_row("spec", ["zai:glm-5.3", "openrouter:z-ai/glm-5.3", "vllm:qwen3.6", "sglang:kimi-k3"])
def test_references_in_tools(spec: str) -> None:
    """They are written out, with a warning, for models and engines that don't follow them; what is recursive stays."""
    place = {"type": "object", "properties": {"city": TEXT, "next": {"$ref": "#/$defs/Place"}}}
    tool = Tool("find", "Finds.", {**of(a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/Place"}), "$defs": {
        "A": {"type": "object", "properties": {"n": {"type": "integer"}}}, "Place": place,
    }})  # fmt: skip
    preview = Provider.from_config(spec, api_key="k", base_url="https://h.example/v1").preview("Hi", [tool])
    sent = preview.json()["tools"][0]["function"]["parameters"]
    assert sent["properties"]["a"] == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert sent["properties"]["b"]["type"] == "object"
    assert sent["$defs"] == {"Place": place}
    assert [each.code for each in preview.warnings] == ["schema_changed"]
