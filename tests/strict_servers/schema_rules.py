"""Endpoints that hold schemas to their maker's subset, and what a body says of a schema."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from .replies import reply
from .rules import ERRORS, Refusal, Rule, read_rule
from .schema_checks import CHECKS

ROWS = Path(__file__).parent / "schemas.toml"
USES = ("tool", "strict", "format", "format_loose")


@dataclass(frozen=True)
class Sent:
    """A schema in a body, and its use there: one of `USES`."""

    use: str
    schema: Any


@dataclass(frozen=True)
class SchemaEndpoint:
    """A row: the rules of an endpoint for each use of a schema."""

    name: str
    api: str
    errors: str
    model: str
    profile: str
    docs: str
    rules: Mapping[str, tuple[Rule, ...]]
    settings: Mapping[str, Any]

    def refusal(self, body: Mapping[str, Any]) -> Refusal | None:
        """Returns what the endpoint answers to a body with a schema that it refuses, or None."""
        for sent in schemas_of(self.api, body):
            for rule in self.rules[sent.use]:
                place = CHECKS[rule.check](sent.schema, **rule.params)
                if place is not None:
                    words = rule.says.replace("{at}", place)
                    return Refusal(rule, rule.status, ERRORS[self.errors](rule.status, words), place)
        return None


def load_schema_endpoints(*paths: Path) -> dict[str, SchemaEndpoint]:
    """Reads rows; those of other files may use the groups of the first one."""
    own = tomllib.loads(ROWS.read_text("utf-8"))
    rows: dict[str, SchemaEndpoint] = {}
    for path in paths or (ROWS,):
        table = tomllib.loads(path.read_text("utf-8"))
        groups = own["groups"] | table["groups"]
        for name, row in table["rows"].items():
            listed = {use: row.get(use, row.get("format", []) if use == "format_loose" else []) for use in USES}
            rules = {
                use: tuple(read_rule(rule, row) for group in names for rule in groups[group])
                for use, names in listed.items()
            }
            profile = row.get("profile", name)
            rows[name] = SchemaEndpoint(
                name, row["api"], row["errors"], row["model"], profile, row["docs"], rules, row.get("settings", {})
            )
    return rows


def schemas_of(api: str, body: Mapping[str, Any]) -> Iterator[Sent]:
    """Yields the schemas that a body has, tools first."""
    match api:
        case "chat":
            for tool in body.get("tools") or ():
                function = tool.get("function") or {}
                yield Sent("strict" if function.get("strict") else "tool", function.get("parameters", {}))
            given = (body.get("response_format") or {}).get("json_schema")
            if given is not None:
                yield Sent("format" if given.get("strict") else "format_loose", given.get("schema"))
        case "responses":
            for tool in body.get("tools") or ():
                yield Sent("strict" if tool.get("strict") else "tool", tool.get("parameters", {}))
            given = (body.get("text") or {}).get("format") or {}
            if given.get("type") == "json_schema":
                yield Sent("format" if given.get("strict") else "format_loose", given.get("schema"))
        case "anthropic":
            for tool in body.get("tools") or ():
                yield Sent("strict" if tool.get("strict") else "tool", tool.get("input_schema"))
            given = (body.get("output_config") or {}).get("format")
            if given:
                yield Sent("format", given.get("schema"))
        case "gemini":
            for tool in body.get("tools") or ():
                for function in tool.get("functionDeclarations") or ():
                    if "parametersJsonSchema" in function or "parameters" in function:
                        yield Sent("tool", function.get("parametersJsonSchema", _plain(function.get("parameters"))))
            config = body.get("generationConfig") or {}
            if "responseJsonSchema" in config or "responseSchema" in config:
                yield Sent("format", config.get("responseJsonSchema", _plain(config.get("responseSchema"))))


def _plain(schema: Any) -> Any:
    """A schema in Google's older form as JSON schema: types in lower case, `nullable` as a list of types."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {key: _plain(value) for key, value in schema.items() if key != "nullable"}
    if isinstance(made.get("type"), str):
        made["type"] = made["type"].lower()
        if schema.get("nullable"):
            made["type"] = [made["type"], "null"]
    return made


class SchemaTransport(httpx.MockTransport):
    """Answers as an endpoint would that looks at schemas alone; keeps each body with its refusal."""

    def __init__(self, endpoint: SchemaEndpoint, answer: Any, tool: str = "") -> None:
        self.received: list[tuple[Mapping[str, Any], Refusal | None]] = []
        text = json.dumps(answer)

        def handle(request: httpx.Request) -> httpx.Response:
            body = json.loads(request.content)
            refusal = endpoint.refusal(body)
            self.received.append((body, refusal))
            if refusal:
                return httpx.Response(refusal.status, json=refusal.body)
            calls = [("call_1", tool, text)] if tool and isinstance(answer, dict) else []
            return httpx.Response(200, json=reply(endpoint.api, "" if calls else text, "", calls))

        super().__init__(handle)
