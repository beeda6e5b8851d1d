"""Checks of a body of Gemini's generateContent. Each returns the place of the first fault, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Part = Mapping[str, Any]
DATA = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "toolCall", "toolResponse",
)  # fmt: skip


def contents_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the contents."""
    return list(body.get("contents") or [])


def parts_of(content: Mapping[str, Any]) -> list[Part]:
    """Returns the parts of a content."""
    return list(content.get("parts") or [])


def _parts(body: Mapping[str, Any], member: str = "") -> Iterator[tuple[str, int, Part]]:
    for index, content in enumerate(contents_of(body)):
        for place, part in enumerate(parts_of(content)):
            if not member or member in part:
                yield f"contents[{index}].parts[{place}]", index, part


def not_empty(body: Mapping[str, Any]) -> str | None:
    """A request without contents."""
    return None if contents_of(body) else "contents"


def roles(body: Mapping[str, Any]) -> str | None:
    """A role other than user and model."""
    known = ("user", "model")
    return next(
        (f"contents[{i}].role" for i, each in enumerate(contents_of(body)) if each.get("role") not in known), None
    )


def parts_present(body: Mapping[str, Any]) -> str | None:
    """A content without parts, or a part without data or with two kinds of it."""
    for index, content in enumerate(contents_of(body)):
        if not parts_of(content):
            return f"contents[{index}].parts"
    for at, _, part in _parts(body):
        if sum(part.get(name) is not None for name in DATA) != 1:
            return f"{at}.data"
    return None


def text_not_blank(body: Mapping[str, Any], role: str = "user") -> str | None:
    """A part with an empty text that carries no signature."""
    contents = contents_of(body)
    for at, index, part in _parts(body, "text"):
        if contents[index].get("role") == role and not part["text"] and not part.get("thoughtSignature"):
            return at
    return None


def first_is_user(body: Mapping[str, Any]) -> str | None:
    """A conversation that begins with the model."""
    contents = contents_of(body)
    return "contents[0]" if contents and contents[0].get("role") == "model" else None


def last_is_user(body: Mapping[str, Any]) -> str | None:
    """A conversation that ends with the model."""
    contents = contents_of(body)
    return f"contents[{len(contents) - 1}]" if contents and contents[-1].get("role") == "model" else None


def _kinds(content: Mapping[str, Any], member: str) -> list[Part]:
    return [part for part in parts_of(content) if member in part]


def calls_placed(body: Mapping[str, Any]) -> str | None:
    """A turn with calls that does not stand behind a user's turn or behind results."""
    contents = contents_of(body)
    for index, content in enumerate(contents):
        if _kinds(content, "functionCall") and (not index or contents[index - 1].get("role") != "user"):
            return f"contents[{index}]"
    return None


def responses_match(body: Mapping[str, Any]) -> str | None:
    """Results that are not as many as the calls of the turn directly before, by name, or have no such turn."""
    contents = contents_of(body)
    for index, content in enumerate(contents):
        calls = _kinds(content, "functionCall")
        behind = _kinds(contents[index + 1], "functionResponse") if index + 1 < len(contents) else []
        names = sorted(str(part["functionCall"].get("name")) for part in calls)
        if calls and names != sorted(str(part["functionResponse"].get("name")) for part in behind):
            return f"contents[{index}]"
        if _kinds(content, "functionResponse") and not (index and _kinds(contents[index - 1], "functionCall")):
            return f"contents[{index}]"
    return None


def responses_alone(body: Mapping[str, Any]) -> str | None:
    """Results in one content with text or media."""
    for index, content in enumerate(contents_of(body)):
        results = _kinds(content, "functionResponse")
        if results and len(results) < len(parts_of(content)):
            return f"contents[{index}]"
    return None


def response_object(body: Mapping[str, Any]) -> str | None:
    """A result that is no object."""
    for at, _, part in _parts(body, "functionResponse"):
        if not isinstance(part["functionResponse"].get("response"), dict):
            return f"{at}.function_response.response"
    return None


def arguments_object(body: Mapping[str, Any]) -> str | None:
    """A call whose args are no object."""
    for at, _, part in _parts(body, "functionCall"):
        if not isinstance(part["functionCall"].get("args", {}), dict):
            return f"{at}.function_call.args"
    return None


def calls_signed(body: Mapping[str, Any]) -> str | None:
    """A turn with calls, of the current turn, whose first call has no thought signature."""
    contents = contents_of(body)
    start = 0
    for index, content in enumerate(contents):
        if content.get("role") == "user" and not _kinds(content, "functionResponse"):
            start = index
    for index in range(start, len(contents)):
        calls = _kinds(contents[index], "functionCall")
        if contents[index].get("role") == "model" and calls and not calls[0].get("thoughtSignature"):
            return f"contents[{index}]"
    return None


def no_call_ids(body: Mapping[str, Any]) -> str | None:
    """The member `id` of a call or a result, for platforms that don't know it."""
    for at, _, part in _parts(body):
        if "id" in (part.get("functionCall") or {}) or "id" in (part.get("functionResponse") or {}):
            return at
    return None


def function_names(body: Mapping[str, Any], pattern: str) -> str | None:
    """The name of a function with other characters."""
    for at, _, part in _parts(body):
        for member in ("functionCall", "functionResponse"):
            if member in part and not re.fullmatch(pattern, str(part[member].get("name"))):
                return f"{at}.{member}.name"
    for tool in body.get("tools") or []:
        for index, function in enumerate(tool.get("functionDeclarations") or []):
            if not re.fullmatch(pattern, str(function.get("name"))):
                return f"tools[0].function_declarations[{index}].name"
    return None


def system_not_blank(body: Mapping[str, Any]) -> str | None:
    """A system instruction without text."""
    system = body.get("systemInstruction")
    blank = system is not None and not any(str(part.get("text") or "").strip() for part in parts_of(system))
    return "systemInstruction" if blank else None


CHECKS: Mapping[str, Callable[..., str | None]] = {
    check.__name__: check
    for check in (
        not_empty, roles, parts_present, text_not_blank, first_is_user, last_is_user, calls_placed, responses_match,
        responses_alone, response_object, arguments_object, calls_signed, no_call_ids, function_names, system_not_blank,
    )
}  # fmt: skip
