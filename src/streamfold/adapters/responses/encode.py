"""Requests of the Responses API: the conversation as a flat list of items, sent whole each time.

https://platform.openai.com/docs/api-reference/responses/create is the format. By default nothing is left with the
provider: `store` is false, and reasoning comes back encrypted, to be sent again with the next request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError
from ...requests import HostedForm, read_response_format, with_raw_tools, written_hosted
from ...types import AllowedTools, HostedTool, Message, NamedTool, ReadToolChoice, Tool, ToolCall
from .hosted_tools import HOSTED_FORMS
from .items import check_message, message_items, plain_items

if TYPE_CHECKING:
    from ...requests import Options, Request


@dataclass(frozen=True, slots=True)
class ResponsesQuirks:
    """Differences between servers in the request.

    Attributes:
        store: sent as `store`. None leaves it out: OpenAI then keeps the response for 30 days.
        encrypted_reasoning: whether encrypted reasoning is requested when nothing is stored. Never for OpenAI's models
            without reasoning, which answer "Encrypted content is not supported with this model".
        system_as_instructions: the system messages at the start of the conversation become `instructions`, for servers
            that want them there. Otherwise they are input items like all others: each keeps its role and its place, and
            OpenAI does not carry `instructions` over to the next response of a stored conversation.
        hosted_tools: in whose words tools that the provider runs are written.
        strict_output: a `response_format` that is a pydantic model is sent in the subset of OpenAI's strict mode, which
            guarantees a fitting answer.
        says_json: JSON mode is refused unless a message says "json" (OpenAI, Azure).
        returned_items: which items of earlier answers are sent back. "plain": messages, as their text alone, and calls,
            for servers whose input has no other items (Perplexity, by the types of its SDK).
        format_member: the member of the request that says which format the answer has.
        tool_choice: whether `tool_choice` is sent. If not, tools that it excludes are left out.
    """

    store: bool | None = False
    encrypted_reasoning: bool = True
    system_as_instructions: bool = False
    strict_output: bool = True
    hosted_tools: Literal["openai", "xai", "openrouter", "perplexity"] = "openai"
    says_json: bool = True
    returned_items: Literal["all", "plain"] = "all"
    format_member: Literal["text", "response_format"] = "text"
    tool_choice: bool = True


# Each of them lets the provider go on with what it has kept.
_NEED_STORE = ("previous_response_id", "conversation", "background")


_NEVER_REASONS = re.compile(r"(?:.*/)?(?:gpt-3|gpt-4|chatgpt-4o)")


class ResponsesRequestWriter:
    """Writes requests: one half of the adapter."""

    quirks: ResponsesQuirks

    def encode(self, request: Request) -> dict[str, Any]:
        """Returns the JSON body. Raises ConfigError for what this wire format can't carry."""
        options = request.options
        store = self._store(options)
        stored = store is not False
        instructions, messages = self._instructions(request.messages)
        calls = [call for message in request.messages for call in message.tool_calls]
        others = {call.id: call for call in calls if call.kind != "function"}
        body: dict[str, Any] = {
            "model": request.model,
            "input": [item for at, message in messages for item in self._message(message, at, request, stored, others)],
            "stream": request.stream,
        }
        if request.tools:
            body["tools"] = [self._tool(tool) for tool in request.tools]
        if request.tools and self.quirks.tool_choice:
            body["tool_choice"] = self._tool_choice(request.tool_choice, request.tools)
        said = {
            "instructions": instructions,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "max_output_tokens": options.max_output_tokens,
            "parallel_tool_calls": options.parallel_tool_calls,
            "reasoning": {"effort": options.reasoning_effort} if options.reasoning_effort else None,
            self.quirks.format_member: self._format(options.response_format),
            "store": store,
            "include": ["reasoning.encrypted_content"] if store is False and self._encrypts(request) else None,
        }
        body.update({name: value for name, value in said.items() if value is not None})
        for name, value in with_raw_tools(body, options.extra_body).items():
            if name == "include" and isinstance(value, list) and value:
                value = list(dict.fromkeys([*body.get("include", ()), *value]))
            # `{"reasoning": {"summary": "auto"}}` is no reason to drop the effort.
            mix = name in ("reasoning", "text") and name in body and isinstance(value, Mapping)
            body[name] = {**body[name], **value} if mix else value
        return body

    def stores(self, request: Request) -> bool:
        """Whether the provider may look up items by their ids."""
        return self._store(request.options) is not False

    def _encrypts(self, request: Request) -> bool:
        known = request.capabilities.reasoning
        reasons = not _NEVER_REASONS.match(request.model) if known == "unknown" else known == "yes"
        return self.quirks.encrypted_reasoning and reasons

    def _store(self, options: Options) -> bool | None:
        extra = options.extra_body
        if "store" in extra:
            wanted: bool | None = extra["store"]
            return wanted
        return None if extra and any(extra.get(name) for name in _NEED_STORE) else self.quirks.store

    def _instructions(self, messages: Sequence[Message]) -> tuple[str | None, list[tuple[int, Message]]]:
        """Returns the text of `instructions`, and the other messages, each with its position."""
        numbered = list(enumerate(messages))
        if not self.quirks.system_as_instructions:
            return None, numbered
        texts = list(_opening_texts(numbered))
        return "\n\n".join(texts) or None, numbered[len(texts) :]

    def _message(
        self, message: Message, position: int, request: Request, stored: bool, others: Mapping[str, ToolCall]
    ) -> Iterator[dict[str, Any]]:
        check_message(message, f"messages[{position}]")
        here = request.came_from_here(message)
        if self.quirks.returned_items == "plain":
            return plain_items(message, position, came_from_here=here)
        return message_items(message, position, stored=stored, came_from_here=here, others=others)

    @property
    def hosted_forms(self) -> Mapping[str, HostedForm]:
        """The tools that the provider runs."""
        return HOSTED_FORMS[self.quirks.hosted_tools]

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if (hosted := written_hosted(tool, self.hosted_forms)) is not None:
            return hosted
        if tool.kind != "function":
            raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: write it as HostedTool")
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            # Left out it is not false here: the API makes a strict schema of any, in which all that was optional is
            # required (https://platform.openai.com/docs/guides/function-calling#strict-mode).
            "strict": bool(tool.strict),
            **tool.extra,
        }

    def _tool_choice(self, choice: ReadToolChoice, tools: Sequence[Tool]) -> str | dict[str, Any]:
        known = {tool.name: tool for tool in tools}
        match choice:
            case NamedTool(_, hosted=HostedTool(raw)):
                return self._chosen(HostedTool(raw))
            case NamedTool(name):
                return self._chosen(known.get(name) or Tool(name))
            case AllowedTools(names, mode):
                chosen = [self._chosen(known.get(name) or Tool(name)) for name in names]
                return {"type": "allowed_tools", "mode": mode, "tools": chosen}
            case _:
                return choice

    def _chosen(self, tool: Tool | HostedTool) -> dict[str, Any]:
        """Returns what a choice says of a tool: its type, and which of that type. Nested as in Chat it is refused."""
        written = tool.raw if isinstance(tool, HostedTool) else self._tool(tool)
        return {name: written[name] for name in ("type", "name", "server_label") if name in written}

    def _format(self, wanted: Any) -> dict[str, Any] | None:
        read = read_response_format(wanted)
        if read is None:
            return None
        nested = self.quirks.format_member == "response_format"  # as in Chat Completions
        if read.schema is None:
            return {"type": "json_object"} if nested else {"format": {"type": "json_object"}}
        said = {"description": read.description, "strict": read.strict}
        given = {name: value for name, value in said.items() if value is not None}
        schema = {"name": read.name, "schema": dict(read.schema), **given}
        if nested:
            return {"type": "json_schema", "json_schema": schema}
        return {"format": {"type": "json_schema", **schema}}


def _opening_texts(messages: list[tuple[int, Message]]) -> Iterator[str]:
    for at, message in messages:
        check_message(message, f"messages[{at}]")
        if message.role not in ("system", "developer") or not isinstance(message.content, str):
            return
        yield message.content
