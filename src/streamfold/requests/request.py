"""`Request`, the parsed request, which is the same for every provider's API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..types import (
    HostedTool,
    Message,
    Messages,
    ReadToolChoice,
    Tool,
    ToolChoice,
    ToolLike,
    as_tools,
    read_tool_choice,
)
from .message_parsing import read_messages
from .model_facts import NO_FAMILY, Capabilities, Family
from .options import Options
from .stored_conversation import StoredConversation


@dataclass(frozen=True, slots=True)
class Request:
    """The model, conversation, tools and options of a request, parsed and validated.

    Attributes:
        model: the model's name, or "" for the model in the provider's configuration.
        origin: the value that `Message.origin` has for messages from this endpoint, or None if unknown.
        names: maps each tool name in the request to the caller's tool name. The tool calls that streamfold delivers
            have the caller's names.
        answer_tool: the name of the tool whose arguments streamfold delivers as the reply's text, to emulate structured
            output. None if there is no such tool.
        refused_schemas: the digests of schemas that the endpoint has refused (see `schema_digest`).
        compact: True to request a summary of the conversation (a compaction) instead of an answer.
        drop_bound_thinking: True if the provider may ignore a turn's thinking because messages before this turn have
            changed.
        renames: maps names of fields in the request body to the names that this model requires, or to None if the
            request must not contain the field.
        capabilities: the model's capabilities at this endpoint.
        family: the other facts about the model at this endpoint.
        stream: True to request a stream. With False, streamfold requests a complete JSON response, if the API supports
            this.
        positions: the index of each message in the caller's list, for errors and warnings. None if each message has the
            same index there.
        conversation: the part of the conversation that the provider has stored, or None if the provider stores nothing.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ReadToolChoice = "auto"
    options: Options = field(default_factory=Options)
    origin: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    answer_tool: str | None = None
    refused_schemas: frozenset[str] = frozenset()
    renames: Mapping[str, str | None] = field(default_factory=dict)
    capabilities: Capabilities = NO_FAMILY.capabilities
    family: Family = NO_FAMILY
    stream: bool = True
    positions: tuple[int, ...] | None = None
    drop_bound_thinking: bool = False
    conversation: StoredConversation | None = None
    compact: bool = False

    @property
    def numbered(self) -> Iterator[tuple[int, Message]]:
        """The messages, each with its index in the caller's list."""
        return enumerate(self.messages) if self.positions is None else zip(self.positions, self.messages, strict=True)

    def unstored(self, instructions: int) -> list[tuple[int, Message]]:
        """Returns the messages that the provider hasn't stored yet, each with its index in the caller's list.

        Args:
            instructions: the number of instruction messages at the beginning of the conversation. Providers never store
                them, and the result doesn't contain them.
        """
        stored = 0 if self.conversation is None else self.conversation.messages
        return list(self.numbered)[instructions + stored :]

    @property
    def follows_stored(self) -> bool:
        """True if only the provider has the beginning of the conversation."""
        return self.conversation is not None and self.conversation.base is not None

    def came_from_here(self, message: Message) -> bool:
        """Returns True if the message comes from this endpoint, which can read its encrypted parts, or if the origin is
        unknown.
        """
        return None in (message.origin, self.origin) or message.origin == self.origin

    @classmethod
    def read(
        cls,
        model: str,
        messages: Messages,
        tools: Iterable[ToolLike] | None,
        tool_choice: ToolChoice,
        options: Mapping[str, Any],
        *,
        stream: bool = True,
    ) -> Request:
        """Parses a caller's request. Raises ConfigError if a part of the request is invalid."""
        read_tools = as_tools(tools)
        if not isinstance(model, str):
            raise ConfigError(f"model must be the name of a model, not {type(model).__name__}")
        names: set[str] = set()
        for tool in read_tools:
            if tool.name in names and not isinstance(tool.hosted, HostedTool):
                raise ConfigError(f"two tools are called {tool.name!r}: tool names must be unique")
            names.add(tool.name)
        conversation = read_messages(messages)
        offered = (*read_tools, *(tool for message in conversation for tool in message.tools))
        choice, read = read_tool_choice(tool_choice, offered), Options.read(options)
        if not offered and choice not in ("auto", "none"):
            problem = "no tools: pass tools=, or remove tool_choice"
            if "tools" in read.extra_body:
                problem = "only tools in extra_body: put tool_choice into extra_body too"
            raise ConfigError(f"tool_choice is {tool_choice!r}, but there are {problem}")
        return cls(model, conversation, read_tools, choice, read, stream=stream)


def with_endpoint_defaults(request: Request, model: str, defaults: Options, origin: str, family: Family) -> Request:
    """Returns a copy of the request with a model, default options, and the facts about the model."""
    return Request(
        model,
        request.messages,
        request.tools,
        request.tool_choice,
        request.options.over(defaults),
        origin,
        request.names,
        request.answer_tool,
        request.refused_schemas,
        request.renames,
        family.capabilities,
        family,
        request.stream,
        compact=request.compact,
    )
