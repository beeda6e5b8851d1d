"""Helpers of the adapters for APIs whose messages are lists of content blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..requests import read_part
from ..types import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    TextPart,
    ToolCall,
    continuation_token,
    read_cache_control,
)

if TYPE_CHECKING:
    from ..requests import Request

_FOREIGN = ("image_url", "input_audio", "file", "refusal", "video_url",
            "input_text", "input_image", "input_file", "output_text")  # fmt: skip


def blocks_of(message: Message, request: Request) -> list[dict[str, Any]] | None:
    """Returns the content blocks from which a message was read. Returns None if another endpoint wrote the message."""
    blocks = message.extras.get("blocks")
    if not request.came_from_here(message) or not isinstance(blocks, list):
        return None
    return blocks if all(isinstance(block, dict) for block in blocks) else None


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """Returns a tool call's arguments as a dict. If the arguments aren't a JSON object, the dict has their text under
    the key `_raw`.

    >>> arguments_object(ToolCall("a", "f", {"_raw": "{", "_error": "invalid_json"}, "{"))
    {'_raw': '{'}
    """
    return {"_raw": call.raw_arguments} if call.error else call.arguments


def read_foreign_part(part: Mapping[str, Any], where: str) -> ContentPart | Mapping[str, Any]:
    """Converts a content part in another API's format to a streamfold content part. Converts `cache_control`, too.

    Raises:
        ConfigError: the content part has fields that streamfold doesn't support.
    """
    read: ContentPart | Mapping[str, Any] = part
    if "cache_control" in part and part.get("type") in ("text", *_FOREIGN):
        mark = read_cache_control(part["cache_control"], f"{where}.cache_control")
        read = read_part({name: value for name, value in part.items() if name != "cache_control"}, where)
        read = part if isinstance(read, Mapping) else replace(read, cache=mark)
    if isinstance(read, Mapping) and read.get("type") in _FOREIGN:
        raise ConfigError(
            f"{where} is {dict(part)!r:.120}, a content part of another API, which this API doesn't support"
        )
    return read


def read_parts(message: Message, where: str) -> list[tuple[str, Any]]:
    """Returns the content parts of a message, each with its path. If the content is a string, returns it as one text
    part."""
    content = message.content
    parts = (TextPart(content),) if isinstance(content, str) else content or ()
    places = [(f"{where}.content[{at}]", part) for at, part in enumerate(parts)]
    return [(place, read_foreign_part(part, place) if isinstance(part, Mapping) else part) for place, part in places]


def read_text_and_media(message: Message, where: str, api: str) -> Iterator[TextPart | MediaPart]:
    """Yields the content parts of a message. Raises ConfigError if a content part is neither text nor media.

    Args:
        api: the API's name for the error message.
    """
    for place, part in read_parts(message, where):
        match part:
            case {"type": "text", "text": str(text)}:
                yield TextPart(text)
            case TextPart() | ImagePart() | FilePart() | AudioPart():
                yield part
            case _:
                raise ConfigError(f"{place} is {part!r:.120}, a part that {api} doesn't support")


def continued_turn(request: Request) -> Message | None:
    """Returns the last message of a request if it is an incomplete response with a continuation token from Google,
    otherwise None.

    https://ai.google.dev/gemini-api/docs/generate-content/long-decode describes this token for Gemini's API. Google's
    own client (https://github.com/googleapis/python-genai) sends the token of the Interactions API in the same way.
    """
    last = request.messages[-1]
    return last if last.paused and request.came_from_here(last) and continuation_token(last.extras) else None
