"""Writes requests: messages, content parts, tools, call ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, join_limited
from ...requests import HostedForm, is_custom, read_response_format, with_raw_tools, written_hosted
from ...types import (
    AllowedTools,
    AudioPart,
    Content,
    ContentPart,
    FilePart,
    HostedTool,
    ImagePart,
    MediaPart,
    Message,
    NamedTool,
    ReadToolChoice,
    ReplyWarning,
    TextPart,
    Tool,
    ToolCall,
    audio_format,
    to_base64,
    tool_result_content,
)
from .quirks import ChatQuirks
from .reasoning import effort_members, keep_reasoning_members, reasoning_members
from .unsupported_parts import returned_members, sent_extras

if TYPE_CHECKING:
    from ...requests import Request


# Content parts in the spelling of Chat Completions, which Kimi shares and the Responses API does not.
# https://platform.openai.com/docs/api-reference/chat/create is the format.

_MEDIA = (ImagePart, FilePart, AudioPart)
_WORDS: dict[type[ContentPart], str] = {ImagePart: "an image", FilePart: "a file", AudioPart: "audio"}
_RESPONSES_PARTS = ("input_text", "input_image", "input_file", "output_text")


def encode_part(part: Any, where: str) -> dict[str, Any]:
    """Returns a part as Chat Completions spells it; a dict stays as it is. Raises ConfigError if it has no spelling."""
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart():
            return {"type": "image_url", "image_url": _image(part, where)}
        case FilePart():
            return {"type": "file", "file": _file(part, where)}
        case AudioPart(data=bytes(data), media_type=str(media_type)):
            return {
                "type": "input_audio",
                "input_audio": {"data": to_base64(data), "format": audio_format(media_type)},
            }
        case AudioPart():
            raise ConfigError(f"{where} is audio by {_by(part)}, and Chat Completions takes only its bytes")
    if part.get("type") in _RESPONSES_PARTS:
        raise ConfigError(f"{where} is an {part['type']!r}, which only the adapter 'responses' can send")
    return dict(part)


def _image(part: ImagePart, where: str) -> dict[str, Any]:
    if part.file_id is not None:
        raise ConfigError(f"{where} is an image by file_id, and Chat Completions takes its URL or its bytes")
    url = part.url if part.url is not None else part.data_url
    return {"url": url} if part.detail is None else {"url": url, "detail": part.detail}


def _file(part: FilePart, where: str) -> dict[str, Any]:
    if part.url is not None:
        raise ConfigError(f"{where} is a file by URL, and Chat Completions takes its bytes or a file_id")
    if part.file_id is not None:
        return {"file_id": part.file_id}
    # Bytes without a name are taken for nothing: "Missing required parameter: 'messages[1].content[1].file.file_id'"
    # (openai/openai-agents-python#1513).
    return {"filename": part.name or _name(part), "file_data": part.data_url}


def _name(part: FilePart) -> str:
    return "file.pdf" if part.media_type == "application/pdf" else "file"


def _by(part: MediaPart) -> str:
    return "URL" if part.url is not None else "file_id"


def _what(part: ContentPart) -> str:
    """Returns what error messages call a part."""
    return _WORDS.get(type(part), "text")


def check_media_roles(message: Message, where: str) -> None:
    """Raises ConfigError for an image, file or sound in what the system or the assistant says.

    "Image URLs are only allowed for messages with role 'user'" (openai/openai-node#1030).
    """
    if message.role in ("user", "tool") or isinstance(message.content, str | None):
        return
    for at, part in enumerate(message.content):
        if isinstance(part, _MEDIA):
            raise ConfigError(
                f"{where}.content[{at}] is {_what(part)} in a message of the role {message.role!r}: on this API only"
                " users send such"
            )


def move_result_media(messages: Sequence[Message]) -> tuple[tuple[Message, ...], list[ReplyWarning]]:
    """Moves images in tool results into a user message after them. Returns the messages and the warnings.

    "Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL"
    (OpenHands/OpenHands#7700), and models that take it do not see it (openai/openai-openapi#523). Between the results
    of one turn nothing may stand, so the images follow the last of them.
    """
    warnings: list[ReplyWarning] = []
    return tuple(_moved(messages, warnings)), warnings


def _moved(messages: Sequence[Message], warnings: list[ReplyWarning]) -> Iterator[Message]:
    waiting: list[ContentPart] = []
    for at, message in enumerate(messages):
        is_result = message.role == "tool"
        if waiting and not is_result:
            yield Message("user", tuple(waiting))
            waiting = []
        media = [part for part in _parts(message) if isinstance(part, _MEDIA)] if is_result else []
        if not media:
            yield message
            continue
        texts = [part.text for part in tool_result_content(message) or () if isinstance(part, TextPart)]
        which = f"of the result of {message.tool_call_id}"
        waiting += [TextPart(f"{_count(media)} {which}:"), *media]
        text = "\n".join([*texts, f"({_count(media)}: see the next user message)"])
        yield replace(message, content=text, error=False)
        detail = f"messages[{at}]: {_count(media)} {which} went into a user message"
        warnings.append(ReplyWarning("tool_images_moved", detail))
    if waiting:
        yield Message("user", tuple(waiting))


def _parts(message: Message) -> Sequence[Any]:
    return message.content if isinstance(message.content, tuple) else ()


def _count(media: list[MediaPart]) -> str:
    return ", ".join(_what(part) for part in media)


_SHORT = re.compile(r"[A-Za-z0-9]{9}")
_ALPHABET = digits + ascii_letters
_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}  # what is encrypted comes whole


def ids_changed(
    messages: Iterable[Message], rename: Callable[[list[dict[str, Any]]], Iterable[Mapping[str, Any]]]
) -> list[ReplyWarning]:
    """Returns a warning that lists the ids of calls that `rename` changes in the written messages, if any."""
    before = [_with_ids(message) for message in messages]
    changed: dict[str, str] = {}
    for old, new in zip(before, rename(before), strict=True):
        pairs = zip(old["tool_calls"], new["tool_calls"], strict=True)
        changed.update({call["id"]: made["id"] for call, made in pairs if call["id"] != made["id"]})
    if not changed:
        return []
    shown = join_limited([f"{old!r} as {new!r}" for old, new in changed.items()])
    detail = f"ids of calls are sent in the provider's own style: {shown}"
    return [ReplyWarning("ids_renumbered", detail)]


def _with_ids(message: Message) -> dict[str, Any]:
    """Returns the part of a message that its ids depend on."""
    calls = [{"id": call.id, "function": {"name": call.name}} for call in message.tool_calls]
    return {"role": message.role, "tool_call_id": message.tool_call_id, "tool_calls": calls}


def shorten_call_ids(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Replaces ids of calls by ids of nine letters and digits. Ids in that form stay.

    Mistral refuses others: "Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9". A new id depends
    on the old one alone, so that a conversation that grows keeps its beginning, by which prompts are cached.
    """
    return [_with_short_id(message) for message in messages]


def _with_short_id(message: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(message)
    if isinstance(calls := out.get("tool_calls"), list):
        out["tool_calls"] = [{**call, "id": _short(call["id"])} if call.get("id") else call for call in calls]
    if out.get("tool_call_id"):
        out["tool_call_id"] = _short(out["tool_call_id"])
    return out


def _short(call_id: str) -> str:
    if _SHORT.fullmatch(call_id):
        return call_id
    number = int.from_bytes(sha256(call_id.encode("utf-8", "replace")).digest()[:8])
    made = ""
    for _ in range(9):
        number, rest = divmod(number, len(_ALPHABET))
        made += _ALPHABET[rest]
    return made


def merge_reasoning_details(pieces: Iterable[Any]) -> list[Any]:
    """Joins the pieces of each entry of `reasoning_details`, as an answer that is not streamed has them.

    A stream sends a detail in pieces of the same type and index, one behind the other, the signature with the last.
    Nothing else is changed, and the order is kept, for a signature holds for the whole of it:
    https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning
    """
    out: list[Any] = []
    for piece in pieces:
        if out and _continues(out[-1], piece):
            out[-1] = _joined(out[-1], piece)
        else:
            out.append(dict(piece) if isinstance(piece, Mapping) else piece)
    return out


def _continues(last: Any, piece: Any) -> bool:
    """Whether a piece belongs to the detail before it. Two with ids of their own are two."""
    if not isinstance(last, Mapping) or not isinstance(piece, Mapping) or piece.get("type") not in _TEXTS:
        return False
    if last.get("type") != piece["type"] or last.get("index") != piece.get("index"):
        return False
    ids = last.get("id"), piece.get("id")
    return not last.get("signature") and (None in ids or ids[0] == ids[1])


def _joined(last: Mapping[str, Any], piece: Mapping[str, Any]) -> dict[str, Any]:
    member = _TEXTS[str(piece["type"])]
    said = {name: value for name, value in piece.items() if value is not None or name not in last}
    text = f"{last.get(member) or ''}{piece.get(member) or ''}"
    return {**last, **said, member: text} if member in last or member in piece else {**last, **said}


class ChatRequestWriter:
    """Writes requests: one half of the adapter."""

    quirks: ChatQuirks

    @property
    def hosted_forms(self) -> Mapping[str, HostedForm]:
        """The tools that the provider runs: OpenAI has none on this API."""
        if self.quirks.hosted_tools != "openrouter":
            return {}
        # Late: few programs need the other API with their first provider.
        from ..responses.tools import OPENROUTER

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
