"""One request, as a value, before any adapter has seen it."""

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
    """Model, conversation, tools and options, read and checked.

    Attributes:
        model: "" stands for the provider's configured model, until the provider fills it in.
        origin: the `origin` of messages that this endpoint wrote; None if unknown.
        names: the tools' own names by the names that they are sent under. Calls are delivered under their own names.
        answer_tool: the tool that stands for the answer: the arguments of its call are the text of the reply.
        refused_schemas: digests of schemas that the endpoint has refused (`schema_digest`).
        drop_bound_thinking: the provider is asked to leave out thinking that it would refuse, because what was sent
            before it has changed.
        renames: names of members of the body, and what this model calls them instead; None: they are left out.
        capabilities: what the model can do at this endpoint.
        family: what else is known of it there.
        stream: False: the answer comes in one piece, where the wire format has that.
        positions: of the messages in the caller's list, for errors and warnings. None: the messages are that list.
        conversation: what the endpoint has stored of the messages; None: it isn't asked to store any.
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
    capabilities: Capabilities = field(default_factory=lambda: NO_FAMILY.capabilities)
    family: Family = NO_FAMILY
    stream: bool = True
    positions: tuple[int, ...] | None = None
    drop_bound_thinking: bool = False
    conversation: StoredConversation | None = None

    @property
    def numbered(self) -> Iterator[tuple[int, Message]]:
        """The messages, each with its position in the caller's list."""
        return enumerate(self.messages) if self.positions is None else zip(self.positions, self.messages, strict=True)

    def unstored(self, instructions: int) -> list[tuple[int, Message]]:
        """Returns the messages that the endpoint doesn't have, each with its position in the caller's list.

        Args:
            instructions: how many messages at the beginning are not in a stored conversation. They aren't returned.
        """
        stored = 0 if self.conversation is None else self.conversation.messages
        return list(self.numbered)[instructions + stored :]

    @property
    def follows_stored(self) -> bool:
        """True if the endpoint alone has the beginning of the conversation."""
        return self.conversation is not None and self.conversation.base is not None

    def came_from_here(self, message: Message) -> bool:
        """Returns whether this endpoint can read the parts of a message that only its author can. True if unknown."""
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
        """Returns the request that a caller wrote. Raises ConfigError if something in it can't be sent."""
        read_tools = as_tools(tools)
        if not isinstance(model, str):
            raise ConfigError(f"model is the name of a model, not {type(model).__name__}")
        names: set[str] = set()
        for tool in read_tools:
            if tool.name in names and not isinstance(tool.hosted, HostedTool):
                raise ConfigError(f"two tools are called {tool.name!r}: their calls could not be distinguished")
            names.add(tool.name)
        conversation = read_messages(messages)
        offered = (*read_tools, *(tool for message in conversation for tool in message.tools))
        choice, read = read_tool_choice(tool_choice, offered), Options.read(options)
        if not offered and choice not in ("auto", "none"):
            how = "write it there too" if "tools" in read.extra_body else "pass tools=, or leave it out"
            where = "no tools but those in extra_body" if "tools" in read.extra_body else "no tools"
            raise ConfigError(f"tool_choice is {tool_choice!r}, and there are {where}: {how}")
        return cls(model, conversation, read_tools, choice, read, stream=stream)


def with_endpoint_defaults(request: Request, model: str, defaults: Options, origin: str, family: Family) -> Request:
    """Returns the request with its model, with default options, and with what is known of them at an endpoint."""
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
    )
