"""Messages of pydantic-ai as turns of streamfold."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BaseToolCallPart,
    BinaryContent,
    CachePoint,
    FileUrl,
    ImageUrl,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_core import to_json

from streamfold import Message, ToolCall, types

KEPT = "streamfold"  # the member of `provider_details`


def to_messages(message: ModelMessage) -> Iterator[Message]:
    """Yields the turns of one message: a request may be several."""
    if isinstance(message, ModelResponse):
        yield _answer(message)
        return
    files: list[Any] = []
    for part in message.parts:
        match part:
            case SystemPromptPart():
                yield Message("system", part.content)
            case UserPromptPart():
                yield Message("user", _content(part.content))
            case ToolReturnPart():
                text, content = part.model_response_str_and_user_content()
                files += content
                yield Message("tool", text, tool_call_id=part.tool_call_id, error=part.outcome != "success")
            case _:
                raise UserError(f"a {type(part).__name__} can't be sent: let an Agent prepare the messages")
    if files:
        yield Message("user", _content(files))


def kept(message: Message, parts: Sequence[ModelResponsePart]) -> dict[str, Any]:
    """Returns what `provider_details` of an answer has of streamfold: its message, and a hash of the parts shown."""
    return {KEPT: {"message": message.to_dict(), "shown": _shown(parts)}}


def _answer(message: ModelResponse) -> Message:
    """Returns an answer as a turn: the message that streamfold kept if no part has changed since, else its parts.

    Of changed parts, the calls that are still the same keep their kind and what the provider wants back with them. What
    tools of a provider did can't be sent then, nor for another model's answer; a warning says so.
    """
    own: Message | None = None
    if isinstance(details := (message.provider_details or {}).get(KEPT), dict):
        own = Message.from_dict(details["message"])
        if details["shown"] == _shown(message.parts):
            return own
    texts = [part.content for part in message.parts if isinstance(part, TextPart) and part.content]
    thoughts = [part.content for part in message.parts if isinstance(part, ThinkingPart)]
    calls = tuple(_call(part, own) for part in message.parts if isinstance(part, ToolCallPart))
    known = (TextPart, ThinkingPart, ToolCallPart)
    if lost := sorted({type(part).__name__ for part in message.parts if not isinstance(part, known)}):
        who = message.provider_name or "another model"
        why = f"of an answer that {who} gave{' and that was changed' if own else ''}, streamfold can't send the parts"
        warnings.warn(f"{why} {', '.join(lost)}: they are left out", UserWarning, stacklevel=2)
    said = texts[0] if len(texts) == 1 else tuple(map(types.TextPart, texts))
    reasoning = "".join(thoughts) if thoughts else None
    return Message("assistant", said or None, calls, reasoning=reasoning, origin=own.origin if own else None)


def _call(part: ToolCallPart, own: Message | None) -> ToolCall:
    """Returns a call: the kept one if it has the same name and arguments."""
    before = next((call for call in (own.tool_calls if own else ()) if call.id == part.tool_call_id), None)
    if before and (before.name, _value(before.arguments_json)) == (part.tool_name, _value(part.args)):
        return before
    return ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict(), part.args_as_json_str())


def _shown(parts: Sequence[ModelResponsePart]) -> str:
    """Returns a hash of what parts show. Empty texts show nothing, and arguments are compared as JSON values."""
    seen = [_content_of(part) for part in parts if not (isinstance(part, TextPart) and not part.content)]
    return sha256(to_json(seen, bytes_mode="base64", fallback=repr)).hexdigest()


def _content_of(part: ModelResponsePart) -> tuple[Any, ...]:
    match part:
        case BaseToolCallPart():
            return part.part_kind, part.tool_call_id, part.tool_name, _value(part.args)
        case NativeToolReturnPart():
            return part.part_kind, part.tool_call_id, part.tool_name, part.content
    content = part.content
    return part.part_kind, content.data if isinstance(content, BinaryContent) else content


def _value(arguments: str | Mapping[str, Any] | None) -> str:
    """Returns arguments as JSON text that is the same for the same value; a text that isn't JSON unchanged."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(value or {}, sort_keys=True)


def _content(content: str | Sequence[Any]) -> Any:
    if isinstance(content, str):
        return content
    parts: list[Any] = []
    for item in content:
        if not isinstance(item, CachePoint):
            parts.append(_part(item))
        elif parts:  # it marks what stands before it
            parts[-1] = replace(parts[-1], cache=item.ttl)
        else:
            raise UserError("a CachePoint can't be the first content of a user prompt: it marks what stands before it")
    return tuple(parts)


def _part(item: Any) -> Any:
    match item:
        case str():
            return types.TextPart(item)
        case TextContent():
            return types.TextPart(item.content)
        case BinaryContent():
            kind = types.ImagePart if item.is_image else types.AudioPart if item.is_audio else types.FilePart
            return kind(data=item.data, media_type=item.media_type)
        case FileUrl():
            return _kind_of(item)(url=item.url)
        case UploadedFile():  # Google's ids are addresses
            return _kind_of(item)(**{"url" if "://" in item.file_id else "file_id": item.file_id})
    raise UserError(f"streamfold can't send a {type(item).__name__}")


def _kind_of(item: FileUrl | UploadedFile) -> Any:
    kind = "image" if isinstance(item, ImageUrl) else item.media_type.partition("/")[0]
    return {"image": types.ImagePart, "audio": types.AudioPart}.get(kind, types.FilePart)
