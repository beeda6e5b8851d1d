"""Requests of Chat Completions: https://platform.openai.com/docs/api-reference/chat/create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...requests import HostedForm, is_custom, read_response_format, with_raw_tools, written_hosted
from ...types import (
    AllowedTools,
    Content,
    HostedTool,
    Message,
    NamedTool,
    ReadToolChoice,
    Tool,
    ToolCall,
    tool_result_content,
)
from .content import check_media_roles, encode_part
from .history import merge_reasoning_details, shorten_call_ids
from .quirks import ChatQuirks
from .reasoning import keep_reasoning_members, reasoning_members
from .thinking import effort_members
from .unsupported_parts import returned_members, sent_extras

if TYPE_CHECKING:
    from ...requests import Request


class ChatRequestWriter:
    """Writes requests: one half of the adapter."""

    quirks: ChatQuirks

    @property
    def hosted_forms(self) -> Mapping[str, HostedForm]:
        """The tools that the provider runs: OpenAI has none on this API."""
        if self.quirks.hosted_tools != "openrouter":
            return {}
        # Late: few programs need the other API with their first provider.
        from ..responses.hosted_tools import OPENROUTER

        return OPENROUTER

    @property
    def takes_partial(self) -> bool:
        """Whether the last message may be a text that is to be continued."""
        return self.quirks.continues is not None

    def encode(self, request: Request) -> dict[str, Any]:
        """Returns the JSON body. Raises ConfigError for what this wire format can't carry."""
        options = request.options
        messages = self._messages(request)
        if self.quirks.call_ids == "nine_alphanumeric":
            messages = shorten_call_ids(messages)
        body: dict[str, Any] = {"model": request.model, "messages": messages, "stream": request.stream}
        if request.stream and self.quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:  # an empty list is refused by vLLM
            body["tools"] = [self._tool(tool) for tool in request.tools]
            body["tool_choice"] = self._tool_choice(request.tool_choice)
        said = {
            "temperature": options.temperature,
            "top_p": options.top_p,
            self.quirks.max_tokens_field: options.max_output_tokens,
            "stop": options.stop,
            self.quirks.seed_field: options.seed,
            "parallel_tool_calls": options.parallel_tool_calls,
            **effort_members(request, self.quirks),
            "reasoning_split": self.quirks.reasoning_split or None,
            "response_format": self._response_format(options.response_format),
        }
        body.update({name: value for name, value in said.items() if value is not None})
        if self.quirks.continues == "continue_final_message" and request.messages[-1].partial:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        body.update(keep_reasoning_members(request, body))
        body.update(with_raw_tools(body, options.extra_body))
        return body

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        return [self._message(message, f"messages[{at}]", request) for at, message in enumerate(request.messages)]

    def _message(self, message: Message, where: str, request: Request) -> dict[str, Any]:
        if message.partial and not self.takes_partial:
            raise ConfigError(f"{where} is partial, and this provider continues no text: leave partial out")
        check_media_roles(message, where)
        out: dict[str, Any] = {"role": message.role, "content": self._content(tool_result_content(message), where)}
        out.update(sent_extras(message))
        if message.partial and self.quirks.continues == "prefix":
            out["prefix"] = True
        if message.role == "assistant":
            out.update(self._sent_reasoning(message, request, out["content"]))
        for name in returned_members(message, request, self.quirks):
            pieces = message.extras[name]
            is_text = all(isinstance(piece, str) for piece in pieces)
            out[name] = "".join(pieces) if is_text else pieces[-1]
        if message.name and self.quirks.message_names:
            out["name"] = message.name
        if message.tool_call_id is not None:
            out["tool_call_id"] = message.tool_call_id
        if message.refusal:
            out["refusal"] = message.refusal
        if message.tool_calls:
            # Gemini refuses a call without its signature, and others an unknown member.
            came_from_here = request.came_from_here(message)
            out["tool_calls"] = [_call(call, call.extra if came_from_here else None) for call in message.tool_calls]
        return out

    def _sent_reasoning(self, message: Message, request: Request, content: Any) -> dict[str, Any]:
        """Returns the members for an assistant's reasoning: its details where they came from, else its text."""
        details = message.extras.get("reasoning_details")
        if self.quirks.reasoning_details and details and request.came_from_here(message):
            return {"reasoning_details": merge_reasoning_details(details)}
        reasoning = message.reasoning
        if reasoning is None and message.tool_calls and self.quirks.reasoning_required:
            reasoning = ""
        parts = message.extras.get("reasoning_parts") if request.came_from_here(message) else None
        return {} if reasoning is None else reasoning_members(message, reasoning, content, self.quirks, parts)

    def _content(self, content: Content, where: str) -> str | list[dict[str, Any]] | None:
        if not isinstance(content, tuple):
            return content
        return [self._part(part, f"{where}.content[{at}]") for at, part in enumerate(content)]

    def _part(self, part: Any, where: str) -> dict[str, Any]:
        return encode_part(part, where)

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if (hosted := written_hosted(tool, self.hosted_forms)) is not None:
            return hosted
        if tool.kind != "function":
            raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: this provider has only functions")
        function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        if tool.strict is not None:
            function["strict"] = tool.strict
        own = tool.extra.get("function")
        return {"type": "function", **tool.extra, "function": {**function, **own} if own else function}

    def _tool_choice(self, choice: ReadToolChoice) -> str | dict[str, Any]:
        match choice:
            case NamedTool(_, hosted=HostedTool(raw)):
                return dict(raw)
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


def _call(call: ToolCall, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns a call of an earlier turn, with the members that its provider wants back."""
    extra = dict(extra or {})
    if is_custom(call):
        custom = {"name": call.name, "input": call.raw_arguments}
        return {"id": call.id, **extra, "type": "custom", "custom": custom}
    # Servers parse this text for their chat template, and no text at all does not parse.
    function = {"name": call.name, "arguments": call.raw_arguments or "{}", **extra.pop("function", {})}
    return {"id": call.id, "type": "function", "function": function, **extra}
