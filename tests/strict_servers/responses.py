"""Checks of a Responses body. Each returns the place of the first fault, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Item = Mapping[str, Any]


def items_of(body: Mapping[str, Any]) -> list[Item]:
    """Returns the input items; a string is one message of the user."""
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given or [])


def kind_of(item: Item) -> str:
    """Returns the type of an item; a message may be written without one."""
    return str(item.get("type") or ("message" if "role" in item else ""))


def _each(body: Mapping[str, Any], *kinds: str) -> Iterator[tuple[str, Item]]:
    for index, item in enumerate(items_of(body)):
        if kind_of(item) in kinds:
            yield f"input[{index}]", item


def not_empty(body: Mapping[str, Any]) -> str | None:
    """A request without input."""
    return None if items_of(body) or body.get("previous_response_id") else "input"


def item_types(body: Mapping[str, Any], allowed: Sequence[str]) -> str | None:
    """An item of an unknown type."""
    return next((f"input[{i}]" for i, item in enumerate(items_of(body)) if kind_of(item) not in allowed), None)


def roles(body: Mapping[str, Any], allowed: Sequence[str]) -> str | None:
    """A message of an unknown role."""
    return next((at for at, item in _each(body, "message") if item.get("role") not in allowed), None)


def part_types(body: Mapping[str, Any]) -> str | None:
    """A part that the role can't have: the assistant writes output_text and refusal, all others input_*."""
    for at, item in _each(body, "message"):
        content = item.get("content")
        if isinstance(content, str):
            continue
        if not isinstance(content, list):
            return f"{at}.content"
        output = item.get("role") == "assistant"
        for place, part in enumerate(content):
            kind = str(part.get("type"))
            if (kind in ("output_text", "refusal")) != output or (not output and not kind.startswith("input_")):
                return f"{at}.content[{place}].type"
    return None


def message_members(body: Mapping[str, Any], allowed: Sequence[str]) -> str | None:
    """A member of a message that the reference doesn't have, such as `name`."""
    for at, item in _each(body, "message"):
        for name in item:
            if name not in allowed:
                return f"{at}.{name}"
    return None


def call_ids(body: Mapping[str, Any], limit: int) -> str | None:
    """A call_id that is missing, empty or too long."""
    for at, item in _each(body, "function_call", "function_call_output"):
        if not item.get("call_id") or len(str(item["call_id"])) > limit:
            return f"{at}.call_id"
    return None


def unique_calls(body: Mapping[str, Any]) -> str | None:
    """Two calls, or two outputs, with one call_id."""
    seen: set[tuple[str, str]] = set()
    for at, item in _each(body, "function_call", "function_call_output"):
        key = (kind_of(item), str(item.get("call_id")))
        if key in seen:
            return f"{at}.call_id"
        seen.add(key)
    return None


def outputs(body: Mapping[str, Any]) -> str | None:
    """A call without an output."""
    answered = {item.get("call_id") for _, item in _each(body, "function_call_output")}
    return next((at for at, item in _each(body, "function_call") if item.get("call_id") not in answered), None)


def outputs_known(body: Mapping[str, Any]) -> str | None:
    """An output whose call is not before it."""
    known: set[object] = set()
    for at, item in _each(body, "function_call", "function_call_output"):
        if kind_of(item) == "function_call":
            known.add(item.get("call_id"))
        elif item.get("call_id") not in known:
            return at
    return None


def output_types(body: Mapping[str, Any]) -> str | None:
    """An output that is neither a string nor a list of input parts."""
    for at, item in _each(body, "function_call_output"):
        output = item.get("output")
        good = isinstance(output, str) or (
            isinstance(output, list) and all(str(part.get("type")).startswith("input_") for part in output)
        )
        if not good:
            return f"{at}.output"
    return None


def arguments_string(body: Mapping[str, Any]) -> str | None:
    """Arguments that are not a string."""
    return next((at for at, item in _each(body, "function_call") if not isinstance(item.get("arguments"), str)), None)


def item_ids(body: Mapping[str, Any], prefixes: Mapping[str, str], limit: int = 64) -> str | None:
    """An item's own id that begins with another prefix than its type has, or is too long."""
    for index, item in enumerate(items_of(body)):
        prefix = prefixes.get(kind_of(item))
        own = item.get("id")
        if prefix and own is not None and (not str(own).startswith(prefix) or len(str(own)) > limit):
            return f"input[{index}].id"
    return None


def function_names(body: Mapping[str, Any], pattern: str) -> str | None:
    """The name of a function with other characters."""
    for at, item in _each(body, "function_call"):
        if not re.fullmatch(pattern, str(item.get("name"))):
            return f"{at}.name"
    for index, tool in enumerate(body.get("tools") or []):
        if tool.get("type") == "function" and not re.fullmatch(pattern, str(tool.get("name"))):
            return f"tools[{index}].name"
    return None


def reasoning_followed(body: Mapping[str, Any]) -> str | None:
    """A reasoning item without the item that it led to."""
    items = items_of(body)
    for index, item in enumerate(items):
        if kind_of(item) == "reasoning":
            behind = items[index + 1] if index + 1 < len(items) else {}
            if kind_of(behind) in ("", "function_call_output") or behind.get("role") in ("user", "system", "developer"):
                return f"input[{index}]"
    return None


def reasoning_shape(body: Mapping[str, Any]) -> str | None:
    """A reasoning item without its `summary`, or one that no id or encrypted content makes readable."""
    for at, item in _each(body, "reasoning"):
        if not isinstance(item.get("summary"), list) or not (item.get("id") or item.get("encrypted_content")):
            return at
    return None


CHECKS: Mapping[str, Callable[..., str | None]] = {
    check.__name__: check
    for check in (
        not_empty, item_types, roles, part_types, message_members, call_ids, unique_calls, outputs, outputs_known,
        output_types, arguments_string, item_ids, function_names, reasoning_followed, reasoning_shape,
    )
}  # fmt: skip
