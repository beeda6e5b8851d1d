"""The plain dicts of Chat Completions that callers write by hand: checked before anything is sent.

A dict is sent as it is, with every member that we do not know, because a hundred servers have their own. What we know
has a shape, and a mistake in it is named with its path: https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ..values import ConfigError, nearest

__all__ = ["check_message"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_INNER = {"image_url": "url", "input_audio": "data", "file": None, "video_url": "url"}
_PARTS = ("text", "image_url", "input_audio", "file", "refusal", "video_url")
# The Responses API's own names, which its adapter takes as they are.
_OTHER_PARTS = ("input_text", "input_image", "input_file", "output_text")
# What other APIs and libraries call them.
_FOREIGN = {
    "image": "image_url", "image_file": "image_url", "audio": "input_audio", "document": "file", "pdf": "file",
    "tool_use": "tool_calls beside the content", "tool_result": 'a message with the role "tool"',
}  # fmt: skip


def check_message(message: Mapping[str, Any], where: str) -> None:
    """Raises ConfigError that begins with `where` and names the member, unless it is a message or an item.

    >>> check_message({"role": "user", "content": [{"type": "text"}]}, "messages[0]")
    Traceback (most recent call last):
    streamfold.values.errors.ConfigError: messages[0].content[0].text is missing: it must be a string
    """
    role = message.get("role")
    if not role and message.get("type"):
        return  # an item of the Responses API that is no message
    if role not in _ROLES:
        raise ConfigError(
            f"{where}: {role!r} is the role of nobody{nearest(str(role), _ROLES)}: there are {', '.join(_ROLES)}"
        )
    content = message.get("content")
    if isinstance(content, list | tuple):
        for at, part in enumerate(content):
            _check_part(part, f"{where}.content[{at}]")
    elif not isinstance(content, str | None):
        raise ConfigError(f"{where}.content must be a string, a list of parts or null, not {_kind(content)}")
    for name in ("name", "tool_call_id", "refusal", "reasoning_content"):
        if not isinstance(message.get(name), str | None):
            raise ConfigError(f"{where}.{name} must be a string, not {_kind(message[name])}")
    if role == "tool" and not message.get("tool_call_id"):
        raise ConfigError(f"{where} has no tool_call_id: nothing says which call it answers")
    if (calls := message.get("tool_calls")) is not None:
        _check_calls(calls, role, f"{where}.tool_calls")


def _check_part(part: Any, where: str) -> None:
    if not isinstance(part, Mapping):
        raise ConfigError(f"{where} is a content part: an object with a type, not {_kind(part)}: {part!r:.80}")
    kind = part.get("type")
    if not isinstance(kind, str):
        missing = "is missing" if kind is None else f"must be a string, not {_kind(kind)}"
        raise ConfigError(f"{where}.type {missing}: it is one of {', '.join(_PARTS)}")
    if kind in _FOREIGN:
        raise ConfigError(f"{where}.type is {kind!r}, another API's word: in Chat Completions it is {_FOREIGN[kind]}")
    if kind not in (*_PARTS, *_OTHER_PARTS):
        if close := get_close_matches(kind, _PARTS, n=1, cutoff=0.8):
            raise ConfigError(f"{where}.type is {kind!r}; did you mean {close[0]!r}?")
        return  # a part that one server has and others do not
    if kind in ("text", "refusal", "input_text", "output_text"):
        _need(part, kind.removeprefix("input_").removeprefix("output_"), where)
    elif kind in _INNER:
        _check_inner(part, kind, where)


def _check_inner(part: Mapping[str, Any], kind: str, where: str) -> None:
    inner, wanted = part.get(kind), _INNER[kind]
    if isinstance(inner, str) and kind.endswith("_url"):
        return  # several servers take the URL itself
    if not isinstance(inner, Mapping):
        found = "is missing" if inner is None else f"is {_kind(inner)}"
        raise ConfigError(f"{where}.{kind} {found}: it must be an object")
    if wanted:
        _need(inner, wanted, f"{where}.{kind}")
        if kind == "input_audio":
            _need(inner, "format", f"{where}.{kind}")
    elif not any(inner.get(name) for name in ("file_id", "file_data", "file_url")):
        raise ConfigError(f"{where}.file needs a file_id or file_data")


def _check_calls(calls: Any, role: str, where: str) -> None:
    if not isinstance(calls, list | tuple):
        raise ConfigError(f"{where} must be a list of tool calls, not {_kind(calls)}")
    if calls and role != "assistant":
        raise ConfigError(f"{where}: only an assistant calls tools, and this is a message of the role {role!r}")
    for at, call in enumerate(calls):
        if not isinstance(call, Mapping):
            raise ConfigError(f"{where}[{at}] is a tool call and must be an object, not {_kind(call)}")
        _need(call, "id", f"{where}[{at}]")
        inner = call.get("type") or "function"
        if inner == "custom" and isinstance(call.get("custom"), Mapping):
            continue
        function = call.get("function")
        if not isinstance(function, Mapping):
            raise ConfigError(f"{where}[{at}] is a tool call without a function: {dict(call)!r:.120}")
        _need(function, "name", f"{where}[{at}].function")
        arguments = function.get("arguments")
        if not isinstance(arguments, str | Mapping | None):
            raise ConfigError(
                f"{where}[{at}].function.arguments must be a string with JSON in it, not {_kind(arguments)}"
            )


def _need(data: Mapping[str, Any], name: str, where: str) -> None:
    value = data.get(name)
    if not isinstance(value, str):
        found = "is missing" if value is None else f"is {_kind(value)}"
        raise ConfigError(f"{where}.{name} {found}: it must be a string")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
    return type(value).__name__
