"""Content parts in the spelling of Chat Completions, which Kimi shares and the Responses API does not.

https://platform.openai.com/docs/api-reference/chat/create is the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...errors import ConfigError
from ...types import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    ReplyWarning,
    TextPart,
    audio_format,
    to_base64,
    tool_result_content,
)

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
