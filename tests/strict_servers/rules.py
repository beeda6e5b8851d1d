"""Rules of endpoints as data: what each one refuses, with the words it refuses it in and the page that says so."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from . import chat, gemini, messages, responses

Body = Mapping[str, Any]
Check = Callable[..., str | None]  # the place of the first fault, or None

HERE = Path(__file__).parent
ROWS = HERE / "histories.toml"
CHECKS: dict[str, Mapping[str, Check]] = {
    "chat": chat.CHECKS,
    "responses": responses.CHECKS,
    "anthropic": messages.CHECKS,
    "gemini": gemini.CHECKS,
}
PLAIN = ("check", "says", "source", "checked", "status", "basis")


@dataclass(frozen=True)
class Refusal:
    """The answer of a server that refuses a request."""

    rule: Rule
    status: int
    body: Mapping[str, Any]
    place: str


@dataclass(frozen=True)
class Rule:
    """One thing that an endpoint refuses: a check of the body, its parameters, and where the rule is written.

    Attributes:
        basis: "documented" (the maker's page or source), "reported" (an answer in a public report) or "inferred".
    """

    check: str
    says: str
    source: str
    checked: date
    basis: str
    status: int = 400
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Endpoint:
    """A row: an endpoint with a model, its wire format, the form of its errors, and its rules."""

    name: str
    api: str
    errors: str
    model: str
    profile: str
    docs: str
    rules: tuple[Rule, ...]
    images: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def refusal(self, body: Body) -> Refusal | None:
        """Returns what the endpoint answers to a body that it refuses, or None if it accepts it."""
        for rule in self.rules:
            place = CHECKS[self.api][rule.check](body, **rule.params)
            if place is not None:
                words = _words(rule.says, place, body)
                return Refusal(rule, rule.status, ERRORS[self.errors](rule.status, words), place)
        return None


def _words(says: str, place: str, body: Body) -> str:
    """Fills in the place of a fault, its index and roles, and the value that stands there."""
    steps = [int(step) if step.isdigit() else step for step in re.findall(r"[A-Za-z_]+|\d+", place)]
    value: Any = body
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            value = ""
    index = next((step for step in steps if isinstance(step, int)), 0)
    turns = body.get("messages") or body.get("input") or body.get("contents") or []
    near = [each.get("role", "") if isinstance(each, Mapping) else "" for each in turns][max(index - 1, 0) : index + 1]
    if isinstance(value, Mapping):
        value = value.get("call_id") or value.get("tool_call_id") or ""
    filled = {"at": place, "index": index, "value": value, "length": len(str(value)), "role": "", "before": ""}
    filled |= {"role": near[-1], "before": near[0]} if near else {}
    for name, text in filled.items():
        says = says.replace(f"{{{name}}}", str(text))
    return says


def load_endpoints(*paths: Path) -> dict[str, Endpoint]:
    """Reads the rows of files. A group of rules that several rows share is a table below `groups` of the first file."""
    tables = [tomllib.loads(path.read_text("utf-8")) for path in paths or (ROWS,)]
    groups = tomllib.loads(ROWS.read_text("utf-8"))["groups"]
    rows: dict[str, Endpoint] = {}
    for table in tables:
        for name, row in table["rows"].items():
            listed = [rule for group in row.get("groups", ()) for rule in groups[group]] + row.get("rules", [])
            without = row.get("without", ())
            rules = tuple(read_rule(rule, row) for rule in listed if rule["check"] not in without)
            rows[name] = Endpoint(
                name,
                row["api"],
                row["errors"],
                row["model"],
                row.get("profile", name),
                row["docs"],
                rules,
                row.get("images", False),
                row.get("settings", {}),
                row.get("options", {}),
            )
    return rows


def read_rule(rule: Mapping[str, Any], row: Mapping[str, Any]) -> Rule:
    """Reads a rule; what it doesn't say is that of its row."""
    params = {key: value for key, value in rule.items() if key not in PLAIN}
    source = rule.get("source", row["docs"])
    reported = re.search(r"/(issues|pull)/\d+|err\.dmxapi", source) is not None
    return Rule(
        rule["check"],
        rule["says"],
        source,
        rule.get("checked", row["checked"]),
        rule.get("basis", "reported" if reported else "documented"),
        rule.get("status", 400),
        params,
    )


def _openai(status: int, words: str, code: object = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": words, "type": kind, "param": None, "code": code}}


# How each maker writes an error, by the name that rows use.
ERRORS: dict[str, Callable[[int, str], dict[str, Any]]] = {
    "openai": _openai,
    "deepseek": lambda status, words: _openai(status, words, "invalid_request_error"),
    "anthropic": lambda status, words: {"type": "error", "error": {"type": "invalid_request_error", "message": words}},
    "bedrock": lambda status, words: {"message": words},
    "cerebras": lambda status, words: {
        "message": words,
        "type": "invalid_request_error",
        "param": "validation_error",
        "code": "wrong_api_format",
    },
    "cloudflare": lambda status, words: {
        "errors": [{"message": f"AiError: Bad input: Error: {words}", "code": 5006}],
        "success": False,
        "result": {},
        "messages": [],
    },
    "cohere": lambda status, words: {"id": "0f1e", "message": f"invalid request: {words}"},
    "copilot": lambda status, words: {"error": {"message": words, "code": "invalid_request_body"}},
    "dashscope": lambda status, words: _openai(
        status, f"<400> InternalError.Algo.InvalidParameter: {words}", "invalid_parameter_error"
    ),
    "databricks": lambda status, words: {"error_code": "BAD_REQUEST", "message": words},
    "google": lambda status, words: {"error": {"code": status, "message": words, "status": "INVALID_ARGUMENT"}},
    "hunyuan": lambda status, words: {"error": {"message": words, "type": "invalid_request_error", "code": "400"}},
    "kimi": lambda status, words: {"error": {"message": words, "type": "invalid_request_error"}},
    "llamacpp": lambda status, words: {"error": {"code": status, "message": words, "type": "invalid_request_error"}},
    "lmstudio": lambda status, words: {"error": words},
    "minimax": lambda status, words: {
        "type": "error",
        "error": {"type": "bad_request_error", "message": f"invalid params, {words} (2013)", "http_code": "400"},
    },
    "mistral": lambda status, words: {
        "object": "error",
        "message": words,
        "type": "invalid_request_message_order",
        "param": None,
        "code": "3230",
    },
    "openrouter": lambda status, words: {
        "error": {"message": "Provider returned error", "code": status, "metadata": {"raw": words}}
    },
    "perplexity": lambda status, words: {"error": {"message": words, "type": "invalid_message", "code": status}},
    "qianfan": lambda status, words: {
        "error": {"code": "invalid_messages", "message": words, "type": "invalid_request_error"}
    },
    "siliconflow": lambda status, words: {"code": 20015, "message": words, "data": None},
    "vllm": lambda status, words: {
        "error": {"message": words, "type": "BadRequestError", "param": None, "code": status}
    },
    "volcengine": lambda status, words: {
        "error": {"code": "MissingParameter", "message": words, "param": "messages", "type": "BadRequest"}
    },
    "xai": lambda status, words: {"code": "Client specified an invalid argument", "error": words},
    "zai": lambda status, words: {"error": {"code": "1214", "message": words}},
}


def check_names(endpoints: Iterable[Endpoint]) -> list[str]:
    """Returns the checks of rows that no wire format has; an empty list if all exist."""
    return [f"{row.name}: {rule.check}" for row in endpoints for rule in row.rules if rule.check not in CHECKS[row.api]]
