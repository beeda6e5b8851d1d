"""Requests of Chat Completions: https://platform.openai.com/docs/api-reference/chat/create."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError
from ...messages import Content, Message, MessageLike, result_content
from ...request import read_response_format
from ...tools import AllowedTools, NamedTool, ReadToolChoice, Tool
from .content import chat_part, only_users_hold_media

if TYPE_CHECKING:
    from ...request import Request

__all__ = ["ChatQuirks", "RequestWriter"]


@dataclass(frozen=True, slots=True)
class ChatQuirks:
    """What differs between servers in the request.

    Attributes:
        max_tokens_field: what the output limit is called. OpenAI's reasoning models refuse the old name, many
            compatible servers ignore the new one.
        stream_usage: whether `stream_options.include_usage` may be sent. Without it OpenAI sends no usage; a few
            servers refuse the member, others send usage unasked.
        reasoning_field: what reasoning is called in the history that is sent back; None: it stays out, because many
            servers refuse a member that they do not know.
        reasoning_required: a turn with calls is refused without that member, so that it is sent at least empty. So does
            DeepSeek while it thinks (https://api-docs.deepseek.com/guides/thinking_mode).
        result_images: whether a tool's message may hold images. OpenAI takes them from users alone, so that they are
            sent in a user's message after the results.
        response_format: how an answer that fits a schema is asked for: by the schema; by JSON mode and an instruction,
            for servers that know no more (DeepSeek); or by a tool that the model must call, for those that have tools
            and no JSON mode. Its arguments are then the text of the answer, and come at the end in one piece.
        strict_output: a `response_format` that is a pydantic model is sent in the subset of OpenAI's strict mode, which
            makes it sure to fit. Not for all: Groq, for one, answers a 400 for the models that have no such mode.
        inline_refs: the server takes no `$ref` in a schema.
        unsupported_keywords: keywords that the server refuses in a schema.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    response_format: Literal["json_schema", "json_object", "tool"] = "json_schema"
    strict_output: bool = False
    inline_refs: bool = False
    unsupported_keywords: tuple[str, ...] = ()
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    reasoning_required: bool = False
    result_images: bool = False


class RequestWriter:
    """The half of the adapter that writes requests."""

    quirks: ChatQuirks
    takes_partial = False

    def encode(self, request: Request) -> dict[str, Any]:
        """The JSON body for a streamed answer. Raises ConfigError for what this wire can't carry."""
        options = request.options
        body: dict[str, Any] = {
            "model": request.model,
            "messages": self._messages(request),
            "stream": True,
        }
        if self.quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:  # an empty list is refused by vLLM
            body["tools"] = [self._tool(tool) for tool in request.tools]
            body["tool_choice"] = self._tool_choice(request.tool_choice)
        said = {
            "temperature": options.temperature,
            "top_p": options.top_p,
            self.quirks.max_tokens_field: options.max_output_tokens,
            "stop": options.stop,
            "seed": options.seed,
            "parallel_tool_calls": options.parallel_tool_calls,
            "reasoning_effort": options.reasoning_effort,
            "response_format": self._response_format(options.response_format),
        }
        body.update({name: value for name, value in said.items() if value is not None})
        body.update(options.extra_body)
        return body

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        return [self._message(message, f"messages[{at}]", request) for at, message in enumerate(request.messages)]

    def _message(self, message: MessageLike, where: str, request: Request) -> dict[str, Any]:
        if not isinstance(message, Message):
            if not message.get("role"):
                raise ConfigError(f"an item of the Responses API can't be sent to this provider: {dict(message)!r}")
            return self._dict_message(message, where)
        if message.partial and not self.takes_partial:
            raise ConfigError("a partial assistant message can't be sent: this provider continues no text")
        only_users_hold_media(message, where)
        out: dict[str, Any] = {"role": message.role, "content": self._content(result_content(message), where)}
        field, reasoning = self.quirks.reasoning_field, message.reasoning
        if reasoning is None and message.tool_calls and self.quirks.reasoning_required:
            reasoning = ""
        if field and reasoning is not None and message.role == "assistant":
            out[field] = reasoning
        if message.name:
            out["name"] = message.name
        if message.tool_call_id is not None:
            out["tool_call_id"] = message.tool_call_id
        if message.refusal:
            out["refusal"] = message.refusal
        if message.tool_calls:
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    # Servers parse this text for their chat template, and no text at all does not parse.
                    "function": {"name": call.name, "arguments": call.raw_arguments or "{}"},
                    # Gemini refuses a call without its signature, and others an unknown member.
                    **((request.came_from_here(message) and call.extra) or {}),
                }
                for call in message.tool_calls
            ]
        return out

    def _dict_message(self, message: Mapping[str, Any], where: str) -> dict[str, Any]:
        out, content = dict(message), message.get("content")
        if isinstance(content, list | tuple):
            out["content"] = self._content(tuple(content), where)
        return out

    def _content(self, content: Content, where: str) -> str | list[dict[str, Any]] | None:
        if not isinstance(content, tuple):
            return content
        return [self._part(part, f"{where}.content[{at}]") for at, part in enumerate(content)]

    def _part(self, part: Any, where: str) -> dict[str, Any]:
        return chat_part(part, where)

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if tool.kind != "function":
            raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: this provider has only functions")
        function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        if tool.strict is not None:
            function["strict"] = tool.strict
        return {"type": "function", "function": function}

    def _tool_choice(self, choice: ReadToolChoice) -> str | dict[str, Any]:
        match choice:
            case NamedTool(name):
                return {"type": "function", "function": {"name": name}}
            case AllowedTools(names, mode):
                tools = [{"type": "function", "function": {"name": name}} for name in names]
                return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
            case _:
                return choice

    def _response_format(self, wanted: Any) -> dict[str, Any] | None:
        read = read_response_format(wanted)
        if read is None:
            return None
        if read.schema is None:
            return {"type": "json_object"}
        said = {"description": read.description, "strict": read.strict}
        given = {name: value for name, value in said.items() if value is not None}
        return {"type": "json_schema", "json_schema": {"name": read.name, "schema": dict(read.schema), **given}}
