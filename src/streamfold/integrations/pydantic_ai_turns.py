"""Messages of pydantic-ai as turns of streamfold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    FileUrl,
    ImageUrl,
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)

from streamfold import Message, ToolCall
from streamfold.types import AudioPart, FilePart, ImagePart
from streamfold.types import TextPart as Text

KEPT = "streamfold"  # the member of `provider_details` that has the message as streamfold keeps it


def turns(message: ModelMessage) -> Iterator[Message]:
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


def _answer(message: ModelResponse) -> Message:
    """Returns an answer as streamfold keeps it, if it made it and nobody has changed it.

    What tools of a provider did in an answer that another model made can't be sent, which a warning says.
    """
    texts = [part.content for part in message.parts if isinstance(part, TextPart) and part.content]
    text = "".join(texts)
    thoughts = [part.content for part in message.parts if isinstance(part, ThinkingPart)]
    calls = tuple(
        ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict(), part.args_as_json_str())
        for part in message.parts
        if isinstance(part, ToolCallPart)
    )
    if isinstance(kept := (message.provider_details or {}).get(KEPT), dict):
        own = Message.from_dict(kept)
        same = [(call.id, call.name) for call in own.tool_calls] == [(call.id, call.name) for call in calls]
        if (own.content or "") == text and same:
            return own
    known = (TextPart, ThinkingPart, ToolCallPart)
    if lost := sorted({type(part).__name__ for part in message.parts if not isinstance(part, known)}):
        why = f"of an answer that {message.provider_name or 'another model'} gave, streamfold can't send the parts"
        warnings.warn(f"{why} {', '.join(lost)}: they are left out", UserWarning, stacklevel=2)
    said = texts[0] if len(texts) == 1 else tuple(map(Text, texts))
    return Message("assistant", said or None, calls, reasoning="".join(thoughts) if thoughts else None)


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
            return Text(item)
        case TextContent():
            return Text(item.content)
        case BinaryContent():
            kind = ImagePart if item.is_image else AudioPart if item.is_audio else FilePart
            return kind(data=item.data, media_type=item.media_type)
        case FileUrl():
            return _kind_of(item)(url=item.url)
        case UploadedFile():  # Google's ids are addresses
            return _kind_of(item)(**{"url" if "://" in item.file_id else "file_id": item.file_id})
    raise UserError(f"streamfold can't send a {type(item).__name__}")


def _kind_of(item: FileUrl | UploadedFile) -> Any:
    kind = "image" if isinstance(item, ImageUrl) else item.media_type.partition("/")[0]
    return {"image": ImagePart, "audio": AudioPart}.get(kind, FilePart)
