"""Conversations as they are kept in JSON files: in our own form or Chat Completions', alone or with their tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...requests import Request
from ...values import ConfigError, Message, MessageLike, nearest

__all__ = ["Conversation", "read_conversation"]

_KEYS = ("messages", "tools", "tool_choice", "options")
_OUR_MEMBERS = ("extras", "origin", "error")


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is to be asked.

    Attributes:
        options: those of `Provider.chat_stream` that are data, `model` and `repair` among them.
    """

    messages: tuple[MessageLike, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Any = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def request(self, model: str) -> Request:
        """The conversation as a request, read and checked. Raises ConfigError: no provider could be asked this."""
        options = {name: value for name, value in self.options.items() if name not in ("model", "repair")}
        return Request.read(model, self.messages, list(self.tools), self.tool_choice, options)


def read_conversation(data: Any, where: str = "the conversation") -> Conversation:
    """A list of messages, or an object with `messages`, `tools`, `tool_choice` and `options`.

    A message is what `Message.to_dict` writes, or a dict of Chat Completions.

    Raises:
        ConfigError: it is none of these; the message begins with `where`.
    """
    if isinstance(data, list):
        data = {"messages": data}
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where} must be a list of messages, or an object with messages, not {_word(data)}")
    for key in data:
        if key not in _KEYS:
            raise ConfigError(f"{where} has the key {key!r}{nearest(str(key), _KEYS)}: allowed are {', '.join(_KEYS)}")
    messages, tools, options = (
        data.get(key, empty) for key, empty in (("messages", []), ("tools", []), ("options", {}))
    )
    for key, value, kind in (("messages", messages, list), ("tools", tools, list), ("options", options, dict)):
        if not isinstance(value, kind):
            allowed = "a list" if kind is list else "an object"
            raise ConfigError(f"{where}: {key} must be {allowed}, not {_word(value)}")
    read = tuple(_read_message(message, f"messages[{at}]") for at, message in enumerate(messages))
    conversation = Conversation(read, tuple(tools), data.get("tool_choice", "auto"), options)
    conversation.request("any")  # what nobody can be asked is told once, and not for each provider
    return conversation


def _read_message(data: Any, where: str) -> MessageLike:
    if isinstance(data, Mapping) and _is_ours(data):
        return Message.from_dict(data, where=where)
    try:
        return Message.from_dict(data, where=where)
    except ConfigError:
        return data  # type: ignore[no-any-return]  # a dict of Chat Completions, or what `Request.read` refuses


def _is_ours(data: Mapping[str, Any]) -> bool:
    """Whether it has what only `Message.to_dict` writes."""
    content, calls = data.get("content"), data.get("tool_calls")
    return (
        any(name in data for name in _OUR_MEMBERS)
        or any(isinstance(part, Mapping) and "part" in part for part in (content if isinstance(content, list) else ()))
        or any(
            isinstance(call, Mapping) and "raw_arguments" in call for call in (calls if isinstance(calls, list) else ())
        )
    )


def _word(value: Any) -> str:
    names = {str: "a string", dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
