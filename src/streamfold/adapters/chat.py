"""OpenAI's Chat Completions, and what a hundred servers have made of it.

https://platform.openai.com/docs/api-reference/chat-streaming is the format. Deviations that are read here, always,
because they are harmless for everybody else, each have a comment with the server they come from. Deviations in what may
be *sent* are `ChatQuirks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ..deltas import Call, Delta, Done, Extra, Failure, Finish, Meta, Reasoning, Refusal, Text, Usage, Warn
from ..errors import ConfigError, error_info
from ..history import HistoryRules
from ..jsontext import parse_event
from ..messages import Content, Message, MessageLike, result_content
from ..request import read_response_format
from ..tools import AllowedTools, NamedTool, ReadToolChoice, Tool
from ..types import FinishReason, ProtocolWarning
from .chatcontent import chat_part, only_users_hold_media, results_without_media
from .prepare import Rules, prepare, schema_passes
from .values import ERROR_KEYS, count, index, is_done, keep, word

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ..request import Request

__all__ = ["ChatAdapter", "ChatQuirks"]


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


class ChatAdapter:
    """Requests and events of Chat Completions."""

    name = "chat"
    path = "/chat/completions"
    Quirks = ChatQuirks
    takes_partial = False

    def __init__(self, quirks: ChatQuirks | None = None) -> None:
        self.quirks = quirks or ChatQuirks()

    def history_rules(self, request: Request) -> HistoryRules:
        """What this wire demands of a conversation."""
        return HistoryRules(wants_reasoning=self.quirks.reasoning_required)

    def prepare(self, request: Request) -> tuple[Request, list[ProtocolWarning]]:
        """The request as this wire takes it, and what was changed. Raises ConfigError for what it would refuse."""
        moved: list[ProtocolWarning] = []
        if not self.quirks.result_images:
            messages, moved = results_without_media(request.messages)
            if moved:  # what can't be sent is told with the positions that the caller knows
                self._messages(request)
            request = replace(request, messages=messages)
        request, changes = prepare(request, self._rules())
        return request, moved + changes

    def _rules(self) -> Rules:
        quirks = self.quirks
        return Rules(
            response_format=quirks.response_format,
            strict_tools=True,
            strict_output=quirks.strict_output,
            passes=schema_passes(inline=quirks.inline_refs, unsupported=quirks.unsupported_keywords),
        )

    # --- requests -------------------------------------------------------------------------------------------------

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
        strict = {} if read.strict is None else {"strict": read.strict}
        return {"type": "json_schema", "json_schema": {"name": read.name, "schema": dict(read.schema), **strict}}

    # --- answers --------------------------------------------------------------------------------------------------

    def decode(self, event: ServerSentEvent) -> list[Delta]:
        """The facts of one event. Raises ValueError if it is not a chunk of this format."""
        data = event.data
        if not data or data.isspace():
            return [Failure(error_info(None))] if event.event == "error" else []
        if is_done(data):
            return [Done()]
        out: list[Delta] = []
        for payload in self._payloads(data, out, failed=event.event == "error"):
            if isinstance(payload, Done):
                out.append(payload)
            else:
                self._chunk(payload, out, failed=event.event == "error")
        return out

    def decode_body(self, body: Any) -> list[Delta]:
        """The facts of a whole completion, or of an error, that came as a plain JSON body."""
        out: list[Delta] = []
        # A body that is no completion is an error in words of its own: {"code": 1302, "msg": "..."}.
        self._chunk(body, out, failed=not (isinstance(body, dict) and body.get("choices")))
        out.append(Done())
        return out

    def _payloads(self, data: str, out: list[Delta], *, failed: bool) -> Iterator[Any]:
        try:
            yield parse_event(data)
            return
        except ValueError:
            if failed:  # `event: error` with plain words
                yield data
                return
            if "\n" not in data:
                raise
        # Zhipu's older servers put no blank line between events, so that their payloads arrive as lines of one event.
        # Pretty-printed JSON parsed above; here each line must be a payload of its own.
        payloads = [Done() if is_done(line) else parse_event(line) for line in data.split("\n") if line.strip()]
        out.append(Warn("unseparated_events", "several payloads came without a blank line between them"))
        yield from payloads

    def _chunk(self, chunk: Any, out: list[Delta], *, failed: bool) -> None:
        if failed or not isinstance(chunk, dict):
            if not failed and not isinstance(chunk, list):
                raise ValueError(f"a JSON object was expected, not {type(chunk).__name__}")
            out.append(Failure(error_info(chunk), chunk))
            return
        out.append(Meta(word(chunk.get("id")), word(chunk.get("model")), chunk.get("created")))
        usage = _object(chunk.get("usage"))
        finish: str | None = None
        failure = self._failure(chunk)
        choices = chunk.get("choices") or []
        if not isinstance(choices, list):
            raise ValueError(f"choices must be a list, not {type(choices).__name__}")
        for choice in choices:
            if not isinstance(choice, dict):
                raise ValueError(f"a choice must be an object, not {choice!r}")
            if number := index(choice.get("index")):
                out.append(
                    Warn("extra_choice", f"choice {number} was sent and is ignored: one stream carries one answer")
                )
                continue
            # Perplexity and Writer repeat in `message` what is in `delta`; a server that only pretends to stream sends
            # `message` alone. Azure's content filter sends `delta: null` or no delta at all beside a finish reason.
            delta = choice.get("delta")
            if delta is None:
                delta = choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta, out)
            finish = choice.get("finish_reason") or finish
            # Moonshot puts it inside the choice (fixtures/kimi/usage_in_choice).
            usage = usage or _object(choice.get("usage"))
            if error := choice.get("error"):  # OpenRouter
                failure = failure or Failure(error_info(error), error)
        if not usage and isinstance(groq := chunk.get("x_groq"), dict):
            usage = _object(groq.get("usage"))
            if error := groq.get("error"):
                failure = failure or Failure(error_info(error), chunk)
        if usage:
            out.append(self._usage(usage))
        if finish and not isinstance(finish, str):
            raise ValueError(f"a finish reason must be a word, not {finish!r}")
        reason = _FINISH_REASONS.get(finish.lower(), "unknown") if finish else None
        if reason == "error" and not failure:
            failure = Failure(
                error_info({"message": f"the provider ended with finish reason {finish!r}", "type": finish})
            )
        if failure:  # an error beats the finish reason that came with it
            out.append(failure)
        elif reason and reason != "error" and finish:
            out.append(Finish(reason, finish))

    def _failure(self, chunk: dict[str, Any]) -> Failure | None:
        if error := chunk.get("error"):
            return Failure(error_info(error if isinstance(error, Mapping) else chunk), chunk)
        if chunk.get("object") == "error":  # older vLLM: the chunk is the error
            return Failure(error_info(chunk), chunk)
        if not chunk.get("choices") and any(chunk.get(key) for key in ERROR_KEYS):
            return Failure(error_info(chunk), chunk)
        base = chunk.get("base_resp")  # MiniMax: a status of its own beside the choices, 0 when all is well
        if isinstance(base, dict) and base.get("status_code"):
            return Failure(error_info({"message": base.get("status_msg"), "code": base["status_code"]}), chunk)
        return None

    def _delta(self, delta: dict[str, Any], out: list[Delta]) -> None:
        self._reasoning(delta, out)
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                out.append(Text(content))
            else:
                _parts(content, out)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            out.append(Refusal(refusal))
        entries = delta.get("tool_calls")
        if isinstance(entries, list | dict) and entries:
            for entry in [entries] if isinstance(entries, dict) else entries:
                if isinstance(entry, dict):
                    self._call(entry, out)
        elif function := delta.get("function_call"):  # the form before `tool_calls`; there was never more than one
            self._call({"index": 0, "function": function}, out)
        for name in ("annotations", "audio", "reasoning_details"):
            value = delta.get(name)
            for item in value if isinstance(value, list) else [value] if value else ():
                out.append(Extra(name, keep(item)))

    def _reasoning(self, delta: dict[str, Any], out: list[Delta]) -> None:
        # Servers that send two of these send the same text in both.
        said = None
        for name in ("reasoning_content", "reasoning", "thinking", "thought"):
            text = delta.get(name)
            if isinstance(text, str):
                said = text
                if text:
                    break
        if not said and (details := delta.get("reasoning_details")) and isinstance(details, list):
            texts = [item.get("text") or item.get("summary") for item in details if isinstance(item, dict)]
            said = "".join(text for text in texts if isinstance(text, str))
        if said is not None:
            out.append(Reasoning(said))

    def _call(self, entry: dict[str, Any], out: list[Delta]) -> None:
        if entry.get("type") == "custom":  # free text for a tool of another kind: not a function, nothing to parse
            out.append(Extra("custom_tool_calls", entry))
            return
        function = entry.get("function")
        if not isinstance(function, dict):  # `"function": null` between two fragments
            function = {}
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            out.append(Warn("repaired_arguments", "the arguments came as an object instead of its text"))
            arguments = json.dumps(arguments, ensure_ascii=False)
        signature = entry.get(
            "extra_content"
        )  # Gemini refuses the next turn without it: ai.google.dev, thought signatures
        out.append(
            Call(
                index(entry.get("index")),
                word(entry.get("id")),
                word(function.get("name")),
                arguments or "",
                extra={"extra_content": signature} if signature else None,
            )
        )

    def _usage(self, usage: dict[str, Any]) -> Usage:
        prompt = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
        completion = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
        return Usage(
            input_tokens=count(usage, "prompt_tokens", "input_tokens"),
            output_tokens=count(usage, "completion_tokens", "output_tokens"),
            total_tokens=count(usage, "total_tokens"),
            # In the details (OpenAI), on top (Moonshot), or under a name of its own (DeepSeek).
            cached_tokens=count(
                {**usage, **(prompt if isinstance(prompt, dict) else {})}, "cached_tokens", "prompt_cache_hit_tokens"
            ),
            reasoning_tokens=count(
                {**usage, **(completion if isinstance(completion, dict) else {})}, "reasoning_tokens"
            ),
            raw=usage,
        )


# Beside OpenAI's own words: https://openrouter.ai/docs/api-reference/overview (error), https://docs.z.ai (sensitive,
# network_error), https://api-docs.deepseek.com (insufficient_system_resource), Mistral (model_length), vLLM and SGLang
# (abort), and the words of engines that leak through compatible fronts, some in capitals. A word that nobody knows is
# "unknown"; it is never taken for "stop".
_FINISH_REASONS: dict[str, FinishReason | Literal["error"]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "error": "error",
    "abort": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}


def _parts(content: Any, out: list[Delta]) -> None:
    """Content as a list of parts: Mistral's reasoning models, with the reasoning among them."""
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str():
                out.append(Text(part))
            case {"type": "thinking", "thinking": str(text)}:
                out.append(Reasoning(text))
            case {"type": "thinking", "thinking": list(pieces)}:
                texts = (piece.get("text") for piece in pieces if isinstance(piece, dict))
                out.append(Reasoning("".join(text for text in texts if isinstance(text, str))))
            case {"type": "refusal", "refusal": str(text)}:
                out.append(Refusal(text))
            case {"text": str(text)}:
                out.append(Text(text))
            case dict():
                out.append(Extra("content", keep(part)))


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and value else None
