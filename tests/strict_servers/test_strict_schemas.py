"""The checks of schemas: each rule has a schema that it accepts and one that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from .rules import Rule
from .schema_cases import CASES, Case
from .schema_checks import CHECKS
from .schema_matrix import accepts
from .schema_rules import SchemaEndpoint, Sent, load_schema_endpoints, schemas_of

ROWS = load_schema_endpoints()
S = {"type": "string"}
GOOD: dict[str, Any] = {
    "type": "object",
    "properties": {"a": S},
    "required": ["a"],
    "additionalProperties": False,
}


def _with(**members: Any) -> dict[str, Any]:
    """A good schema whose only property has other members."""
    return {**GOOD, "properties": {"a": members}}


def _deep(levels: int) -> dict[str, Any]:
    made = GOOD
    for _ in range(levels):
        made = {**GOOD, "properties": {"a": made}}
    return made


def _many(count: int, schema: Mapping[str, Any] = S, required: bool = True) -> dict[str, Any]:
    names = [f"p{number}" for number in range(count)]
    return {**GOOD, "properties": dict.fromkeys(names, schema), "required": names if required else []}


def _refused(rule: Rule) -> Any:
    """Returns a schema that a rule refuses."""
    limit = int(rule.params.get("limit", 0))
    loop = {**GOOD, "properties": {"a": {"$ref": "#"}}}
    match rule.check:
        case "root_object":
            return {"$ref": "#/$defs/A", "$defs": {"A": GOOD}}
        case "root_without":
            return {**GOOD, rule.params["keywords"][0]: [GOOD]}
        case "without":
            return _with(type=(rule.params.get("types") or ["string"])[0], **{rule.params["keywords"][0]: 1})
        case "at_most":
            return _with(type="array", items=S, **{rule.params["keyword"]: int(rule.params["value"]) + 1})
        case "closed":
            return {**GOOD, "additionalProperties": True}
        case "all_required" | "some_required":
            return {**GOOD, "required": []}
        case "required_known":
            return {**GOOD, "required": ["a", "b"]}
        case "typed":
            return _with(description="Anything")
        case "type_alone":
            return _with(type="object", anyOf=[S])
        case "types_alone":
            return _with(type=["array", "string"], items=S)
        case "siblings":
            return {**_with(**{"$ref": "#/$defs/A", "minLength": 1}), "$defs": {"A": S}}
        case "no_booleans":
            return {**GOOD, "properties": {"a": True}}
        case "has_properties" | "root_has_properties":
            return {"type": "object"}
        case "has_items":
            return _with(type="array")
        case "formats":
            return _with(type="string", format="color")
        case "plain_patterns":
            return _with(type="string", pattern="^(?=a)b$")
        case "whole_patterns":
            return _with(type="string", pattern="[0-9]")
        case "plain_enums":
            return _with(enum=[{"a": 1}])
        case "enums_of_one_type":
            return _with(enum=["a", 1])
        case "local_references":
            return _with(**{"$ref": "https://example.com/a.json"})
        case "no_recursion":
            return loop
        case "property_names":
            return {**GOOD, "properties": {"@type": S}}
        case "reserved_names":
            return {**GOOD, "properties": {rule.params["names"][0]: S}}
        case "definitions_at_root":
            return _with(type="object", **{"$defs": {"A": S}})
        case "depth":
            return _deep(limit + 1)
        case "properties":
            return _many(limit + 1)
        case "enum_values":
            return _with(enum=[str(number) for number in range(limit + 1)])
        case "choices":
            return _with(anyOf=[S] * (limit + 1))
        case "characters":
            return _with(type="string", description="x" * limit)
        case "optional":
            return _many(limit + 1, required=False)
        case "unions":
            return _many(limit + 1, {"type": ["string", "null"]})
        case "no_refs_in_all_of":
            return {**_with(allOf=[{"$ref": "#/$defs/A"}]), "$defs": {"A": S}}
    raise AssertionError(f"no example for {rule.check}")


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_each_rule_accepts_one_schema_and_refuses_another(row: SchemaEndpoint) -> None:
    """A rule lets a plain closed object pass and refuses its bad example."""
    rules = [rule for listed in row.rules.values() for rule in listed]
    assert [rule.check for rule in rules if CHECKS[rule.check](GOOD, **rule.params) is not None] == []
    assert [rule.check for rule in rules if CHECKS[rule.check](_refused(rule), **rule.params) is None] == []
    assert all(rule.source.startswith("https://") and rule.says for rule in rules)


def test_a_refusal_has_the_form_of_the_maker() -> None:
    """Moonshot's answer to a type beside anyOf, as it is in public reports."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {**GOOD, "anyOf": [{"required": ["a"]}]}}}
    refusal = ROWS["kimi"].refusal({"tools": [tool]})
    assert refusal is not None
    assert refusal.body == {
        "error": {
            "message": "tools.function.parameters is not a valid moonshot flavored json schema, details: <At path"
            " 'root': when using anyOf, type should be defined in anyOf items instead of the parent schema>",
            "type": "invalid_request_error",
        }
    }


def test_schemas_are_found_in_each_wire_format() -> None:
    """Tools, strict tools and formats of all four bodies, Google's older form as JSON schema."""
    function = {"name": "f", "parameters": GOOD}
    named = {"name": "f", "schema": GOOD}
    bodies: dict[str, dict[str, Any]] = {
        "chat": {
            "tools": [{"function": function}, {"function": {**function, "strict": True}}],
            "response_format": {"json_schema": {**named, "strict": True}},
        },
        "responses": {
            "tools": [function, {**function, "strict": True}],
            "text": {"format": {**named, "type": "json_schema", "strict": True}},
        },
        "anthropic": {
            "tools": [{"input_schema": GOOD}, {"input_schema": GOOD, "strict": True}],
            "output_config": {"format": {"schema": GOOD}},
        },
    }
    for api, body in bodies.items():
        assert list(schemas_of(api, body)) == [Sent("tool", GOOD), Sent("strict", GOOD), Sent("format", GOOD)]
    older = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
    config = {"responseSchema": older}
    found = list(schemas_of("gemini", {"generationConfig": config}))
    assert found == [Sent("format", {"type": "object", "properties": {"a": {"type": ["string", "null"]}}})]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_has_values_that_fit_and_values_that_do_not(case: Case) -> None:
    """The values of a case are right under its own schema."""
    validator = Draft202012Validator(case.schema)
    assert [value for value in case.fits if not validator.is_valid(value)] == []
    assert [value for value in case.others if validator.is_valid(value)] == []


def test_a_strict_form_of_a_schema_accepts_the_same_values() -> None:
    """Absent members may be null, a list may be the only member of an object; another meaning is not the same."""
    strict = {**GOOD, "properties": {"a": S, "b": {"type": ["string", "null"]}}, "required": ["a", "b"]}
    assert accepts(strict, {"a": "x"})
    assert not accepts(strict, {"a": 1})
    assert not accepts(strict, {"b": "x"}, filled=False)
    wrapped = {"type": "object", "properties": {"items": {"type": "array", "items": GOOD}}, "required": ["items"]}
    assert accepts(wrapped, [{"a": "x"}], listed=True)
    assert not accepts({"type": "object", "additionalProperties": False}, {"a": "x"})
    tree = {**GOOD, "properties": {"a": S, "b": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["a", "b"]}
    assert accepts(tree, {"a": "x", "b": {"a": "y"}})


def test_there_are_sixty_schemas() -> None:
    """Sixty, with names of their own."""
    assert len(CASES) == len({case.name for case in CASES}) == 60
