"""Digests of messages, to recognize messages that a client sends again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from ..types import AudioPart, FilePart, ImagePart, Message, TextPart, ToolCall


def digest_parts(*parts: Any) -> str:
    """Returns a digest of JSON data. The order of object keys doesn't affect the digest."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=repr)
    return blake2b(text.encode(), digest_size=20).hexdigest()


def content_values(message: Message) -> list[Any]:
    content = message.content
    if isinstance(content, str | None):
        return [content] if content else []
    return [part_value(part) for part in content]


def part_value(part: Any) -> Any:
    match part:
        case TextPart(text) | {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return text
        case ImagePart() | FilePart() | AudioPart():
            data = blake2b(part.data, digest_size=20).hexdigest() if part.data is not None else None
            more = [getattr(part, name, None) for name in ("detail", "name")]
            return [type(part).__name__, data, part.url, part.file_id, part.media_type, *more]
        case Mapping():
            return {name: value for name, value in part.items() if name != "cache_control"}
    return part


def call_values(call: ToolCall) -> list[Any]:
    """Returns a tool call as JSON data. The result doesn't depend on how the arguments' JSON text is formatted."""
    return [call.id, call.name, call.kind, {"_raw": call.raw_arguments} if call.error else _plain(call.arguments)]


def _plain(value: Any) -> Any:
    # Numbers are normalised, because JavaScript writes `1.0` as `1`.
    match value:
        case float() if value.is_integer():
            return int(value)
        case Mapping():
            return {name: _plain(member) for name, member in value.items()}
        case list():
            return [_plain(member) for member in value]
    return value
