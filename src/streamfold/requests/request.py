"""One request, as a value, before any adapter has seen it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..values import (
    ConfigError,
    Message,
    MessageLike,
    Messages,
    ReadToolChoice,
    Tool,
    ToolLike,
    as_tools,
    read_tool_choice,
    user,
)
from .capabilities import Capabilities
from .chatdicts import check_message
from .options import Options

__all__ = ["Request", "read_messages"]


@dataclass(frozen=True, slots=True)
class Request:
    """Model, conversation, tools and options, read and checked.

    Attributes:
        origin: what the messages of the provider that this is for have as their `origin`; None where nobody says.
        names: tools that are called otherwise on the wire: their own names by those. Calls that come are named back.
        answer_tool: the tool that stands for the answer: the arguments of its call are the text of the reply.
        capabilities: what is known of the model at this endpoint.
    """

    model: str
    messages: tuple[MessageLike, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ReadToolChoice = "auto"
    options: Options = field(default_factory=Options)
    origin: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    answer_tool: str | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)

    def came_from_here(self, message: Message) -> bool:
        """Whether the provider that this is for can read what only it can read. Where nobody says, it can."""
        return None in (message.origin, self.origin) or message.origin == self.origin

    @classmethod
    def read(
        cls,
        model: str,
        messages: Messages,
        tools: Iterable[ToolLike] | None,
        tool_choice: Any,
        options: Mapping[str, Any],
    ) -> Request:
        """Reads what a caller wrote. Raises ConfigError where it can't be sent."""
        read_tools = as_tools(tools)
        if not isinstance(model, str):
            raise ConfigError(f"model is the name of a model, not {type(model).__name__}")
        names = [tool.name for tool in read_tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"two tools are called {twice[0]!r}: no call of it could be told from one of the other")
        choice, read = read_tool_choice(tool_choice, read_tools), Options.read(options)
        if not read_tools and choice not in ("auto", "none"):
            how = "write it there too" if "tools" in read.extra_body else "pass tools=, or leave it out"
            where = "no tools but those in extra_body" if "tools" in read.extra_body else "no tools"
            raise ConfigError(f"tool_choice is {tool_choice!r}, and there are {where}: {how}")
        return cls(model, read_messages(messages), read_tools, choice, read)


def read_messages(messages: Messages) -> tuple[MessageLike, ...]:
    """A conversation: a bare string is one user message. Raises ConfigError, naming the message that is not one."""
    if isinstance(messages, str) and messages:
        return (user(messages),)
    if isinstance(messages, Message | Mapping):
        raise ConfigError("messages is a list of messages, or a string: this is a single message; put it into a list")
    if not isinstance(messages, Iterable):
        raise ConfigError(f"messages is a list of messages, or a string, not {type(messages).__name__}")
    read: tuple[Any, ...] = tuple(messages)
    if not read:
        raise ConfigError("messages is empty: there is nothing to answer")
    for position, message in enumerate(read):
        # Items of the Responses API that are no messages have a type instead.
        is_dict = isinstance(message, Mapping) and (message.get("role") or message.get("type"))
        if isinstance(message, str):
            raise ConfigError(f"messages[{position}] is a string, and says not whose: write user({message!r:.40})")
        if not isinstance(message, Message) and not is_dict:
            raise ConfigError(f"messages[{position}] is neither a Message nor a dict with a role: {message!r}")
        if isinstance(message, Mapping):
            check_message(message, f"messages[{position}]")
        else:
            _check_members(message, f"messages[{position}]")
    return read


_ONLY = {"tool_calls": "assistant", "reasoning": "assistant", "refusal": "assistant", "partial": "assistant",
         "tool_call_id": "tool", "error": "tool"}  # fmt: skip


def _check_members(message: Message, where: str) -> None:
    """Raises ConfigError for what no message of this role has: it would be left out, or be refused by the provider."""
    for name, role in _ONLY.items():
        if message.role != role and getattr(message, name) not in (None, False, ()):
            whose = "the assistant" if role == "assistant" else "a tool"
            raise ConfigError(
                f"{where}.{name} is for messages of {whose}, and this one is of the role {message.role!r}"
            )
