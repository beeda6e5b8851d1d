"""Parses conversations: every accepted form of a message becomes a `Message` here, and nowhere else.

A message may be a `Message`, a dict in the shape of Chat Completions, or an item of the Responses API. Members that a
`Message` has no field for are kept in its `extras`, so that they are sent where they were written for.
https://platform.openai.com/docs/api-reference/chat/create is the shape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, get_args

from ..text import read_arguments
from ..values import ConfigError, Message, Messages, Role, ToolCall, did_you_mean, user
from .content_parsing import read_content, read_part
from .item_parsing import is_item, read_items
from .object_reader import ObjectReader, kind_of

_ROLES = get_args(Role)
_SAYS_NOTHING: tuple[Any, ...] = ([], {})  # `annotations: []`, as the dump of an answer has it


def read_messages(messages: Messages) -> tuple[Message, ...]:
    """Returns a conversation as messages; a string is one user message.

    Raises:
        ConfigError: something in it is not a message; the error begins with its path.
    """
    if isinstance(messages, str) and messages:
        return (user(messages),)
    if isinstance(messages, Message | Mapping):
        raise ConfigError("messages is a list of messages, or a string: this is a single message; put it into a list")
    if not isinstance(messages, Iterable):
        raise ConfigError(f"messages is a list of messages, or a string, not {type(messages).__name__}")
    read = list(messages)
    if not read:
        raise ConfigError("messages is empty: there is nothing to answer")
    return tuple(read_message_list(read))


def read_message_list(messages: Iterable[Any]) -> Iterator[Message]:
    """Yields the messages of a list; consecutive items of one turn of the model become one message."""
    numbered = ((f"messages[{at}]", message) for at, message in enumerate(messages))
    for are_items, run in groupby(numbered, lambda entry: is_item(entry[1])):
        if are_items:
            yield from read_items(run)
        else:
            yield from (_read(message, where) for where, message in run)


def _read(message: Any, where: str) -> Message:
    if isinstance(message, Message):
        return _checked(message, where)
    if isinstance(message, str):
        raise ConfigError(f"{where} is a string, which has no role: write user({message!r:.40})")
    if not isinstance(message, Mapping):
        raise ConfigError(f"{where} must be a Message or a dict with a role, not {kind_of(message)}: {message!r:.80}")
    return _from_dict(message, where)


_ONLY = {"tool_calls": "assistant", "reasoning": "assistant", "refusal": "assistant", "partial": "assistant",
         "tool_call_id": "tool", "error": "tool"}  # fmt: skip


def _checked(message: Message, where: str) -> Message:
    """Returns a `Message` whose dict parts are read. Raises ConfigError for a member that its role can't have."""
    for name, role in _ONLY.items():
        if message.role != role and getattr(message, name) not in (None, False, ()):
            raise ConfigError(f"{where}.{name} is only allowed for the role {role!r}, and this is {message.role!r}")
    content = message.content
    if isinstance(content, str | None) or not any(isinstance(part, Mapping) for part in content):
        return message
    parts = tuple(read_part(part, f"{where}.content[{at}]") for at, part in enumerate(content))
    return replace(message, content=parts)


def _from_dict(given: Mapping[str, Any], where: str) -> Message:
    role = given.get("role")
    if not role:
        raise ConfigError(f"{where}.role is missing. Allowed: {', '.join(_ROLES)}")
    if role not in _ROLES:
        hint = did_you_mean(str(role), _ROLES)
        raise ConfigError(f"{where}.role: unknown role {role!r}{hint}. Allowed: {', '.join(_ROLES)}")
    fields = ObjectReader({name: value for name, value in given.items() if name != "role"}, where)
    content = read_content(fields.any("content"), f"{where}.content")
    members: dict[str, Any] = {"name": fields.text("name")}
    calls = _calls(fields.any("tool_calls"), role, f"{where}.tool_calls")
    if role == "tool":
        members["tool_call_id"] = fields.text("tool_call_id")
        if not members["tool_call_id"]:
            raise ConfigError(f"{where} has no tool_call_id, which says which call it answers")
    elif role == "assistant":
        members["refusal"], members["partial"] = fields.text("refusal"), bool(fields.flag("partial"))
        members["reasoning"] = _reasoning(fields)
    extras = {name: value for name, value in fields.rest().items() if value not in _SAYS_NOTHING}
    return Message(role, content, calls, extras=extras, **members)


def _reasoning(fields: ObjectReader) -> str | None:
    """Takes the reasoning under either of its names. A server may send the same text under both."""
    first, second = fields.text("reasoning_content"), fields.any("reasoning")
    if isinstance(second, str) and (first is None or first == second):
        return second
    if second is not None:
        fields.put("reasoning", second)
    return first


def _calls(calls: Any, role: str, where: str) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list | tuple):
        raise ConfigError(f"{where} must be a list of tool calls, not {kind_of(calls)}")
    if calls and role != "assistant":
        raise ConfigError(f"{where} is only allowed for the role 'assistant', and this is {role!r}")
    return tuple(_call(call, f"{where}[{at}]") for at, call in enumerate(calls))


def _call(call: Any, where: str) -> ToolCall:
    """Returns one call. What else the entry has is its `extra`, by the names on the wire."""
    if not isinstance(call, Mapping):
        raise ConfigError(f"{where} is a tool call and must be an object, not {kind_of(call)}")
    fields = ObjectReader(call, where)
    call_id = fields.string("id")
    fields.any("index")  # of a fragment: what put the call together left it there
    if fields.any("type") == "custom" and isinstance(call.get("custom"), Mapping):
        custom = fields.inner("custom")
        name, text = custom.string("name"), custom.text("input") or ""
        return ToolCall(call_id, name, {"input": text}, text, {**custom.rest(), **fields.rest()} or None, "custom")
    if not isinstance(call.get("function"), Mapping):
        raise ConfigError(f"{where} is a tool call without a function: {dict(call)!r:.120}")
    function = fields.inner("function")
    name, arguments = function.string("name"), function.any("arguments")
    if not isinstance(arguments, str | Mapping | None):
        raise ConfigError(f"{where}.function.arguments must be a string of JSON, not {kind_of(arguments)}")
    raw = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) else arguments or ""
    extra = fields.rest()
    if more := function.rest():
        extra["function"] = more
    return ToolCall(call_id, name, read_arguments([raw], repair=False).value, raw, extra or None)
