"""Probes for JSON schemas: which tool schemas a server accepts, and whether it enforces a response schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from streamfold import Tool

from ..damage import said
from ..questions import CAPITAL, HELLO, WEATHER, capped, object_schema
from ..values import Answers, Conclusion, ProbeRequest, ProbeResponse
from .judging import (
    ProbeGroup,
    accepted,
    capability,
    doubtful,
    edited,
    refusal,
    set_quirk,
    shown,
    unclear,
    was_refused,
    with_members,
)

_CITY = {"type": "string", "description": "A city."}
_REFS = {**object_schema(place={"$ref": "#/$defs/Place"}), "$defs": {"Place": _CITY}}

# Keywords that servers are known to refuse, each on a property that would be valid without it.
_KEYWORDS: dict[str, dict[str, Any]] = {
    "pattern": {"type": "string", "pattern": "^[A-Z]"},
    "format": {"type": "string", "format": "date"},
    "minLength": {"type": "string", "minLength": 1},
    "maxLength": {"type": "string", "maxLength": 80},
    "minimum": {"type": "integer", "minimum": 0},
    "maximum": {"type": "integer", "maximum": 9},
    "multipleOf": {"type": "integer", "multipleOf": 1},
    "minItems": {"type": "array", "items": {"type": "string"}, "minItems": 0},
    "maxItems": {"type": "array", "items": {"type": "string"}, "maxItems": 9},
    "uniqueItems": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "const": {"const": "yes"},
    "default": {"type": "string", "default": "yes"},
    "title": {"type": "string", "title": "A title"},
    "examples": {"type": "string", "examples": ["yes"]},
    "anyOf": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "oneOf": {"oneOf": [{"type": "string"}, {"type": "null"}]},
    "allOf": {"allOf": [{"type": "string"}]},
    "not": {"type": "string", "not": {"const": "no"}},
    "patternProperties": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
    "propertyNames": {"type": "object", "propertyNames": {"maxLength": 9}},
}
_ANSWER = object_schema(capital={"type": "string"}, population={"type": "integer"})
_NAMED_ANSWER = {"type": "json_schema", "json_schema": {"name": "capital", "schema": _ANSWER}}
_LOOSE = {"type": "object", "properties": {"capital": {"type": "string"}, "note": {"type": "string"}}}


def _tool(*keywords: str) -> Tool:
    properties = {f"p_{keyword.lower()}": _KEYWORDS[keyword] for keyword in keywords}
    return Tool("describe", "Describes something.", {"type": "object", "properties": properties, "required": []})


def _format(schema: dict[str, Any], strict: bool | None = None) -> Any:
    wanted: dict[str, Any] = {"name": "capital", "schema": schema}
    return with_members(
        response_format={
            "type": "json_schema", "json_schema": wanted if strict is None else {**wanted, "strict": strict}
        }
    )  # fmt: skip


def _with_schema(schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a function that restores a tool's original schema, because the profile may have changed the schema."""

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        (tool,) = body["tools"]
        tool["function"]["parameters"] = schema
        return body

    return edit


def _data(text: str) -> Any:
    """Returns the parsed JSON of a text, which may be in a code fence or after reasoning; None for invalid JSON."""
    text = said(text).strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return json.loads(text)
    except ValueError:
        return None


def _judge_schema(seen: ProbeResponse) -> Conclusion:
    """Judges whether a response matches the schema `_ANSWER`."""
    data = _data(seen.text)
    if isinstance(data, dict) and set(data) == {"capital", "population"}:
        return Conclusion("ok", "the response matches the schema")
    if seen.reply.finish_reason == "length":
        return unclear("the response was truncated")
    return doubtful(f"the schema is accepted, but ignored: {shown(seen.text, 60)}")


_LONG_NAME = Tool("look-up_" + "x" * 56, "Looks something up.", {"type": "object", "properties": {}})


SCHEMAS = ProbeGroup("schemas")
STRUCTURED = ProbeGroup("structured output")


@SCHEMAS.probe_many(
    "refs",
    "Is $ref accepted in a tool's schema?",
    edited("refs", "$ref", _with_schema(_REFS), HELLO, (Tool("go", "Goes to a place.", _REFS),)),
    ProbeRequest("inlined", HELLO, (WEATHER,), options=capped(48), when=was_refused("refs")),
    apis=("chat",),
    needs="one_call",
)
def _refs(answers: Answers) -> Conclusion:
    if answers["refs"].fine:
        return Conclusion("ok", "$ref in a schema is accepted")
    why = refusal(answers["refs"])
    if (inlined := answers.get("inlined")) and inlined.fine:
        does = "streamfold replaces references by their definitions: inline_refs = true"
        return set_quirk(why, does, "inline_refs", True)
    return Conclusion("unclear", why)


@SCHEMAS.probe_many(
    "keywords",
    "Which JSON schema keywords are accepted for tools?",
    edited(
        "all", f"{len(_KEYWORDS)} keywords", _with_schema(_tool(*_KEYWORDS).parameters), HELLO, (_tool(*_KEYWORDS),)
    ),
    *(
        edited(
            name, name, _with_schema(_tool(name).parameters), HELLO, (_tool(name),), tokens=16, when=was_refused("all")
        )
        for name in _KEYWORDS
    ),
    apis=("chat",),
    needs="one_call",
)
def _keywords(answers: Answers) -> Conclusion:
    if answers["all"].fine:
        return Conclusion("ok", f"{len(_KEYWORDS)} keywords are accepted")
    bad = tuple(name for name, seen in answers.items() if name != "all" and seen.refused)
    if not bad:
        return Conclusion("unclear", f"{refusal(answers['all'])}; each keyword alone is accepted")
    why = f"{', '.join(bad)}: {refusal(answers[bad[0]])}"
    does = "the keywords are moved into the description: unsupported_keywords"
    return set_quirk(why, does, "unsupported_keywords", list(bad))


SCHEMAS.probe(
    "tool_names",
    "Which tool names are accepted?",
    ProbeRequest("long", HELLO, (_LONG_NAME,), options=capped(48), special="64 characters"),
    needs="one_call",
    refused=("no", "use letters, digits, _ and - in the names of tools"),
)(lambda _: Conclusion("ok", "a name of 64 characters with - and _ is accepted"))


@STRUCTURED.probe_many(
    "json_schema",
    "Does a response follow the requested JSON schema?",
    edited("schema", "response_format: json_schema", _format(_ANSWER), CAPITAL, tokens=128),
    edited(
        "json",
        "response_format: json_object",
        with_members(response_format={"type": "json_object"}),
        CAPITAL,
        tokens=128,
        when=was_refused("schema"),
    ),
    ProbeRequest(
        "tool", CAPITAL, (WEATHER,), "required", capped(), "a forced tool call instead", when=was_refused("json")
    ),
    apis=("chat",),
    whim=True,
)
def _schema(answers: Answers) -> Conclusion:
    seen = answers["schema"]
    if seen.fine:
        found = _judge_schema(seen)
        yes = capability("structured_output", "yes", found.saw)
        return replace(found, settings=(yes,)) if found.verdict == "ok" else found
    why = refusal(seen)
    no = capability("structured_output", "no", why)
    if (plain := answers.get("json")) and plain.fine:
        return set_quirk(why, "JSON mode and an instruction request the schema", "response_format", "json_object")
    if (tool := answers.get("tool")) and tool.fine:
        return set_quirk(why, "structured output is requested as a tool call", "response_format", "tool")
    return Conclusion("set", why, "requests with structured output are rejected before they are sent", (no,))


STRUCTURED.probe(
    "schema_output",
    "Does a response follow the requested JSON schema?",
    ProbeRequest("schema", CAPITAL, options=capped(256, response_format=_NAMED_ANSWER)),
    apis=("responses", "anthropic", "gemini"),
    whim=True,
    refused=("no", ""),
)(_judge_schema)


@STRUCTURED.probe_many(
    "strict_output",
    "Does strict mode accept only a subset of JSON Schema?",
    edited("strict", "strict: true", _format(_ANSWER, strict=True), CAPITAL, tokens=128),
    edited(
        "loose",
        "strict: true, and an optional property",
        _format(_LOOSE, strict=True),
        CAPITAL,
        tokens=128,
        when=accepted("strict"),
    ),
    apis=("chat",),
    needs="json_schema",
)
def _strict(answers: Answers) -> Conclusion:
    strict, loose = answers["strict"], answers.get("loose")
    if strict.refused:
        return Conclusion("ok", f"strict: {refusal(strict)}", "strict is not sent")
    if loose and loose.refused:
        why = f"a schema outside the strict subset is {refusal(loose)}"
        does = "schemas of pydantic models are sent in the strict subset: strict_output = true"
        return set_quirk(why, does, "strict_output", True)
    return Conclusion("ok", "strict is accepted with any schema")


@STRUCTURED.probe(
    "json_mode",
    "Is there a JSON mode?",
    ProbeRequest("json", CAPITAL, options=capped(128, response_format="json")),
    apis=("chat", "responses"),
    whim=True,
    refused=("no", 'response_format "json" fails'),
)
def _json_mode(seen: ProbeResponse) -> Conclusion:
    if isinstance(_data(seen.text), dict):
        return Conclusion("ok", "a JSON object")
    if seen.reply.finish_reason == "length":
        return unclear("the response was truncated")
    return doubtful(f"JSON mode is accepted, but the response isn't a JSON object: {shown(seen.text, 60)}")


@STRUCTURED.probe(
    "says_json",
    'Does JSON mode work without the word "json" in a message?',
    edited(
        "json",
        'response_format: json_object, and no message contains "json"',
        with_members(response_format={"type": "json_object"}),
        HELLO,
        tokens=128,
    ),
    apis=("chat",),
    needs="json_mode",
)
def _says_json(seen: ProbeResponse) -> Conclusion:
    if not seen.refused:
        return Conclusion("ok", 'JSON mode doesn\'t need the word "json" in a message')
    does = 'JSON mode is only sent if a message contains "json": says_json = true'
    return set_quirk(refusal(seen), does, "says_json", True)
