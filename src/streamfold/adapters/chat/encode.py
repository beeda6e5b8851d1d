"""Encodes messages, content parts, tools and tool call ids for Chat Completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import ConfigError
from ...requests import ITEM_EXTRAS, HostedForm, read_response_format, with_raw_tools, written_hosted
from ...types import (
    TURN_EXTRAS,
    AllowedTools,
    AudioPart,
    FilePart,
    HostedTool,
    ImagePart,
    Message,
    NamedTool,
    ReadToolChoice,
    TextPart,
    Tool,
    ToolCall,
    audio_format,
    to_base64,
    tool_result_content,
)
from ..encoding_report import EncodingReport, has_unmodelled_blocks
from ..prepared_request import without_none
from ..thought_signatures import PLACEHOLDER, unsigned_calls
from .quirks import ChatQuirks
from .reasoning import effort_members, keep_reasoning_members, reasoning_members, should_resend_reasoning

if TYPE_CHECKING:
    from ...requests import Request


# https://platform.openai.com/docs/api-reference/chat/create documents the content parts. Kimi has the same parts, and
# the Responses API has others.

_WORDS: dict[type, str] = {ImagePart: "an image", FilePart: "a file", AudioPart: "audio"}
_RESPONSES_PARTS = ("input_text", "input_image", "input_file", "output_text")


def image_url(part: ImagePart) -> str:
    return part.data_url if part.url is None else part.url


def file_data(part: FilePart) -> dict[str, str]:
    """Returns a file's fields `filename` and `file_data`, for Chat Completions and the Responses API."""
    # OpenAI ignores bytes without a name: "Missing required parameter: 'messages[1].content[1].file.file_id'"
    # (openai/openai-agents-python#1513).
    name = part.name or ("file.pdf" if part.media_type == "application/pdf" else "file")
    return {"filename": name, "file_data": part.data_url}


def check_media_roles(message: Message, where: str) -> None:
    """Raises ConfigError if a system or assistant message contains an image, a file or audio.

    OpenAI refuses such messages with the error "Image URLs are only allowed for messages with role 'user'"
    (openai/openai-node#1030).
    """
    if message.role in ("user", "tool") or isinstance(message.content, str | None):
        return
    for at, part in enumerate(message.content):
        if type(part) in _WORDS:
            raise ConfigError(
                f"{where}.content[{at}] is {_WORDS[type(part)]} in a message of the role {message.role!r}: this"
                " API accepts it only from users"
            )


# The field with the text, by the type of the entry. Encrypted entries aren't split into pieces.
_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}


def merge_reasoning_details(pieces: Iterable[Any]) -> list[Any]:
    """Joins the streamed pieces of each entry in `reasoning_details`.

    Consecutive pieces with the same type and index belong to one entry, and the last piece contains the signature. The
    entries keep their order, because the signatures cover the complete list:
    https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning
    """
    out: list[Any] = []
    for piece in pieces:
        if not out or not _continues(out[-1], piece):
            out.append(dict(piece) if isinstance(piece, Mapping) else piece)
            continue
        last, member = out[-1], _TEXTS[piece["type"]]
        said = {name: value for name, value in piece.items() if value is not None or name not in last}
        if member in last or member in piece:
            before, text = last.get(member) or "", piece.get(member) or ""
            # LiteLLM's signed block may repeat the complete text.
            is_repeated = piece["type"] == "thinking" and piece.get("signature") and text.startswith(before)
            said[member] = text if is_repeated else f"{before}{text}"
        out[-1] = {**last, **said}
    return out


def _continues(last: Any, piece: Any) -> bool:
    if not isinstance(last, Mapping) or not isinstance(piece, Mapping) or piece.get("type") not in _TEXTS:
        return False
    if last.get("type") != piece["type"] or last.get("index") != piece.get("index"):
        return False
    ids = last.get("id"), piece.get("id")
    return not last.get("signature") and (None in ids or ids[0] == ids[1])


class ChatRequestWriter:
    """Encodes requests to Chat Completions."""

    quirks: ChatQuirks

    @property
    def hosted_forms(self) -> Mapping[str, HostedForm]:
        """The hosted tools that the server runs, by kind. In Chat Completions, only OpenRouter runs hosted tools."""
        if self.quirks.hosted_tools != "openrouter":
            return {}
        # A late import, because few programs need the other API.
        from ..responses.tools import OPENROUTER

        return OPENROUTER

    keeps_reasoning: ClassVar[bool] = False  # True to send all earlier reasoning, for every model

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        options = request.options
        back = should_resend_reasoning(request, self.quirks, finished=self.keeps_reasoning)
        messages = self._messages(request, back, report)
        body: dict[str, Any] = {"model": request.model, "messages": messages, "stream": request.stream}
        if request.stream and self.quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:  # an empty list is refused by vLLM
            body["tools"] = [self._tool(tool) for tool in request.tools]
            if request.tool_choice != "auto" or self.quirks.tool_choice_auto:
                body["tool_choice"] = self._tool_choice(request.tool_choice)
        for tool in request.tools:
            if tool.kind != "function" and tool.description:  # a built-in tool is sent by its name alone
                report.members.append(f"the description of the tool {tool.name}")
            if tool.kind != "function" and tool.parameters.get("properties"):
                report.members.append(f"the parameters of the tool {tool.name}")
        said = {
            "temperature": options.temperature,
            "top_p": options.top_p,
            self.quirks.max_tokens_field: options.max_output_tokens,
            "stop": options.stop,
            self.quirks.seed_field: options.seed,
            "parallel_tool_calls": options.parallel_tool_calls,
            **self._effort_members(request),
            "reasoning_split": self.quirks.reasoning_split or None,
            "response_format": encode_response_format(options.response_format),
        }
        body.update({name: value for name, value in said.items() if value is not None})
        if self.quirks.continues == "continue_final_message" and request.messages[-1].partial:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        body.update(keep_reasoning_members(request, back, body))
        body.update(with_raw_tools(body, options.extra_body))
        return body

    def _effort_members(self, request: Request) -> dict[str, Any]:
        return effort_members(request, self.quirks)

    def _messages(self, request: Request, back: list[bool], report: EncodingReport) -> list[dict[str, Any]]:
        unsigned = unsigned_calls(request) if self.quirks.call_signatures else frozenset()
        messages: list[dict[str, Any]] = []
        replaced: list[str] = []
        for number, (at, message) in enumerate(request.numbered):
            where = f"messages[{at}]"
            self._report_unsent(message, where, request, back[number], report)
            if message.reasoning is not None and not back[number]:
                message = replace(message, reasoning=None)
            if number in unsigned:
                replaced.append(where)
                message = _with_placeholder(message, request)
            messages.append(self._message(message, where, request))
        if replaced:
            detail = f"{', '.join(replaced)}: tool calls lack this model's thought signature: a placeholder was sent"
            report.warn("lost_reasoning", detail)
        return messages

    def _report_unsent(
        self, message: Message, where: str, request: Request, back: bool, report: EncodingReport
    ) -> None:
        if message.name and not self.quirks.message_names:
            report.members.append(f"{where}.name")
        here = request.came_from_here(message)
        returned = returned_members(message, request, self.quirks)
        details = returned.get("thinking_blocks") or returned.get("reasoning_details")
        if message.reasoning and not (_says(details, message.reasoning) if details else back):
            report.reasoning.append(where)
        sent = {*sent_extras(message), *returned}
        if self.quirks.reasoning_field == "reasoning_part" and here:
            sent.add("reasoning_parts")  # sent with the reasoning, or reported as reasoning
        extras = message.extras.items()
        report.add_extras(where, {k: value for k, value in extras if k not in sent and says_more(k, message)})
        report.add_media_members(message, where)
        report.add_call_extras(message, where, request, lambda call: True)

    def _message(self, message: Message, where: str, request: Request) -> dict[str, Any]:
        quirks, here = self.quirks, request.came_from_here(message)
        if message.partial and quirks.continues is None:
            raise ConfigError(f"{where} is partial, and this provider can't continue a text: remove partial")
        check_media_roles(message, where)
        content: Any = tool_result_content(message)
        if isinstance(content, tuple):
            content = [self._part(part, f"{where}.content[{at}]") for at, part in enumerate(content)]
        out: dict[str, Any] = {"role": message.role, "content": content, **sent_extras(message)}
        if message.partial and quirks.continues in ("prefix", "partial"):
            out[quirks.continues] = True
        returned = returned_members(message, request, quirks)
        if message.role == "assistant":
            if content is None and message.reasoning and not message.tool_calls:
                out["content"] = ""  # many servers refuse null without tool calls
            reasoning = message.reasoning
            if reasoning is None and message.tool_calls and quirks.reasoning_required:
                reasoning = ""
            if reasoning is not None and "reasoning_details" not in returned:
                parts = message.extras.get("reasoning_parts") if here else None
                out.update(reasoning_members(reasoning, out["content"], quirks, parts))
        out.update(returned)
        if message.name and quirks.message_names:
            out["name"] = message.name
        if message.tool_call_id is not None:
            out["tool_call_id"] = message.tool_call_id
        if message.refusal:
            out["refusal"] = message.refusal
        if message.tool_calls:
            # Gemini refuses a call without its signature, and other servers refuse unknown fields.
            out["tool_calls"] = [_call(call, call.extra if here else None) for call in message.tool_calls]
        return out

    def _part(self, part: Any, where: str) -> dict[str, Any]:
        """Converts a content part to the format of Chat Completions. A dict is sent unchanged."""
        match part:
            case TextPart(text):
                return {"type": "text", "text": text}
            case ImagePart(file_id=str()):
                raise ConfigError(f"{where} is an image by file_id, and Chat Completions accepts only a URL or bytes")
            case ImagePart():
                detail = {} if part.detail is None else {"detail": part.detail}
                return {"type": "image_url", "image_url": {"url": image_url(part), **detail}}
            case FilePart(url=str()):
                raise ConfigError(f"{where} is a file by URL, and Chat Completions accepts only bytes or a file_id")
            case FilePart(file_id=str(file_id)):
                return {"type": "file", "file": {"file_id": file_id}}
            case FilePart():
                return {"type": "file", "file": file_data(part)}
            case AudioPart(data=bytes(data), media_type=str(media_type)):
                return {
                    "type": "input_audio",
                    "input_audio": {"data": to_base64(data), "format": audio_format(media_type)},
                }
            case AudioPart():
                how = "URL" if part.url is not None else "file_id"
                raise ConfigError(f"{where} is audio by {how}, and Chat Completions accepts only its bytes")
        if part.get("type") in _RESPONSES_PARTS:
            raise ConfigError(f"{where} is an {part['type']!r}, which only the adapter 'responses' can send")
        return dict(part)

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if (hosted := written_hosted(tool, self.hosted_forms)) is not None:
            return hosted
        if tool.kind != "function":
            raise ConfigError(f"the tool {tool.name!r} has the kind {tool.kind!r}: this provider has only functions")
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


def encode_response_format(wanted: Any) -> dict[str, Any] | None:
    """Converts the option `response_format` to the format of Chat Completions."""
    read = read_response_format(wanted)
    if read is None:
        return None
    if read.schema is None:
        return {"type": "json_object"}
    more = without_none(description=read.description, strict=read.strict)
    return {"type": "json_schema", "json_schema": {"name": read.name, "schema": dict(read.schema), **more}}


def _call(call: ToolCall, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    extra = dict(extra or {})
    if call.kind == "custom":
        custom = {"name": call.name, "input": call.raw_arguments}
        return {"id": call.id, **extra, "type": "custom", "custom": custom}
    # Servers parse this text for their chat template, and an empty text isn't JSON.
    function = {"name": call.name, "arguments": call.raw_arguments or "{}", **extra.pop("function", {})}
    return {"id": call.id, "type": "function", "function": function, **extra}


def _with_placeholder(message: Message, request: Request) -> Message:
    first, *others = message.tool_calls
    if not request.came_from_here(message):  # only the endpoint that wrote the extras can read them
        first, others = replace(first, extra=None), [replace(call, extra=None) for call in others]
    extra = {**(first.extra or {}), "extra_content": {"google": {"thought_signature": PLACEHOLDER}}}
    return replace(message, tool_calls=(replace(first, extra=extra), *others), origin=message.origin and request.origin)


# --- fields of messages -----------------------------------------------------------------------------------------------

# The extras of responses and of items. Requests contain them only if a quirk says so.
_NOT_SENT = (
    "annotations", "citations", "content", "continuation_token", "custom_tool_calls", "interaction_id",
    "reasoning_details", "reasoning_opaque", "reasoning_parts", "search_results", "thinking_blocks", *TURN_EXTRAS,
    *ITEM_EXTRAS,
)  # fmt: skip


def sent_extras(message: Message) -> dict[str, Any]:
    """Returns the entries of `Message.extras` that the caller has set. In requests, they are fields of the message."""
    if message.origin is not None:
        return {}
    extras = {name: value for name, value in message.extras.items() if name not in _NOT_SENT}
    if isinstance(extras.get("audio"), list):  # the pieces of a streamed response
        del extras["audio"]
    return extras


def returned_members(message: Message, request: Request, quirks: ChatQuirks) -> dict[str, Any]:
    """Returns the fields of this message that the endpoint sent and expects back in later requests."""
    if not request.came_from_here(message):
        return {}
    out: dict[str, Any] = {}
    if quirks.reasoning_details and (details := message.extras.get("reasoning_details")):
        out["reasoning_details"] = merge_reasoning_details(details)
    for name in quirks.returned_members:
        pieces = message.extras.get(name)
        if name == "thinking_blocks" and isinstance(pieces, list):
            out[name] = merge_reasoning_details(pieces)
        elif isinstance(pieces, list):
            is_text = all(isinstance(piece, str) for piece in pieces)
            out[name] = "".join(pieces) if is_text else pieces[-1]
    return out


def _says(details: Any, reasoning: str) -> bool:
    pieces = [piece for piece in details if isinstance(piece, Mapping)]
    said = "".join(str(piece.get("text") or piece.get("summary") or piece.get("thinking") or "") for piece in pieces)
    return "".join(reasoning.split()) in "".join(said.split())


def says_more(name: str, message: Message) -> bool:
    """Returns True if this entry of `Message.extras` contains more than the message's text and tool calls.

    Output items of the Responses API, in the entry `output`, often contain only the text and the tool calls.
    """
    value = message.extras[name]
    if name == "blocks":
        return has_unmodelled_blocks(value)
    if name != "output" or not isinstance(value, list):
        return True
    custom = any(call.kind == "custom" for call in message.tool_calls)
    known = ("message", "function_call", *(("custom_tool_call",) if custom else ()))
    for item in value:
        if not isinstance(item, Mapping) or item.get("type") not in known:
            return True
        parts = item.get("content")
        if isinstance(parts, list) and any(isinstance(part, Mapping) and part.get("annotations") for part in parts):
            return True
    return False
