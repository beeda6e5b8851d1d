"""Content parts as blocks of the Messages API: https://docs.anthropic.com/en/api/messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import ConfigError
from ...types import AudioPart, FilePart, ImagePart, Message, TextPart, to_base64, tool_result_content
from ..content_blocks import cache_mark, readable_part
from .prompt_caching import cache_last_block, with_cache_control

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def content_blocks(message: Message, where: str) -> list[dict[str, Any]]:
    """Returns the blocks of a message's content; empty texts are left out, because the API refuses them.

    Raises:
        ConfigError: the API has no block for a part.
    """
    return cache_last_block(list(_blocks(message, where)), cache_mark(message, where))


def _blocks(message: Message, where: str) -> Iterator[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        if content:
            yield {"type": "text", "text": content}
        return
    for at, part in enumerate(content or ()):
        block = _block(part, f"{where}.content[{at}]")
        if block.get("type") != "text" or block.get("text"):
            yield block


def result_block(message: Message, call_id: str, where: str) -> dict[str, Any]:
    """Returns the block of a tool's result. The API takes images and documents in it, but only text in an error."""
    mark = with_cache_control(cache_mark(message, where))
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, **mark}
    is_text = isinstance(message.content, str | None) or all(isinstance(part, TextPart) for part in message.content)
    if message.error and is_text:
        block["is_error"] = True
    elif message.error:
        message = Message("tool", tool_result_content(message), tool_call_id=message.tool_call_id)
    if isinstance(message.content, str):
        return {**block, "content": message.content} if message.content else block
    blocks = list(_blocks(message, where))
    return {**block, "content": blocks} if blocks else block  # an empty list is refused


def _block(part: Any, where: str) -> dict[str, Any]:
    match part := readable_part(part, where):
        case TextPart(text):
            return {"type": "text", "text": text, **with_cache_control(part.cache)}
        case ImagePart():
            return {"type": "image", "source": _image_source(part, where), **with_cache_control(part.cache)}
        case FilePart():
            title = {} if part.name is None else {"title": part.name}
            return {
                "type": "document",
                "source": _document_source(part, where),
                **title,
                **with_cache_control(part.cache),
            }
        case AudioPart():
            raise ConfigError(f"{where} is audio, which the Messages API can't carry")
        case Mapping():
            return dict(part)  # a block of this API, or of a server that has more of them
    raise ConfigError(f"{where}: unknown content part {part!r:.80}")


def _image_source(part: ImagePart, where: str) -> dict[str, Any]:
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    if part.url is not None:
        return {"type": "url", "url": part.url}
    if part.media_type not in _IMAGES:
        raise ConfigError(f"{where} is an image of the type {part.media_type}. Allowed: {', '.join(_IMAGES)}")
    return {"type": "base64", "media_type": part.media_type, "data": to_base64(part.data or b"")}


def _document_source(part: FilePart, where: str) -> dict[str, Any]:
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    if part.url is not None:
        return {"type": "url", "url": part.url}
    data, kind = part.data or b"", part.media_type or ""
    if kind == "application/pdf":
        return {"type": "base64", "media_type": kind, "data": to_base64(data)}
    if kind.startswith("text/") or kind == "application/json":
        try:
            return {"type": "text", "media_type": "text/plain", "data": data.decode()}
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{where} is a file of the type {kind}, and not UTF-8 text: {exc}") from None
    raise ConfigError(f"{where} is a file of the type {kind or 'unknown'}. Allowed: application/pdf, text/*")
