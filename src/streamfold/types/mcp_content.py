"""Converts tool descriptions, results and prompts from MCP servers to streamfold's types, without importing the MCP
SDK.

A value may be an object of the MCP SDK or a mapping. The names of attributes are in camel case in version 1 of the SDK,
and in snake case in version 2. See https://modelcontextprotocol.io/specification/2025-11-25/server/tools
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .content import AudioPart, ContentPart, FilePart, ImagePart
from .media_types import from_base64


def mcp_member(value: Any, *names: str) -> Any:
    """Returns the value of the first of the given names that an object or a mapping contains. Returns None if it
    contains none of them."""
    for name in names:
        if isinstance(value, Mapping):
            if name in value:
                return value[name]
        elif hasattr(value, name):
            return getattr(value, name)
    return None


class McpContent(NamedTuple):
    """The result of an MCP tool, converted to content that `tool_result` accepts."""

    content: Any  # text, a list of texts and parts, or JSON data
    error: bool


def read_mcp_result(value: object) -> McpContent | None:
    """Converts a `CallToolResult` of the MCP SDK. Returns None for any other object.

    Structured content is used only if the result has no content blocks, because MCP servers repeat structured content
    as text.
    """
    blocks = getattr(value, "content", None)
    if not isinstance(blocks, list) or not (hasattr(value, "isError") or hasattr(value, "is_error")):
        return None
    failed = bool(mcp_member(value, "isError", "is_error"))
    structured = mcp_member(value, "structuredContent", "structured_content")
    if not blocks and structured is not None:
        return McpContent(structured, failed)
    return McpContent(mcp_content(blocks), failed)


def mcp_content(blocks: Iterable[Any]) -> str | list[str | ContentPart]:
    """Converts the content blocks of an MCP tool result. Returns one text if all blocks are texts, otherwise a list of
    texts and content parts."""
    parts = [_part(block) for block in blocks]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _part(block: Any) -> str | ContentPart:
    match mcp_member(block, "type"):
        case "text":
            return str(mcp_member(block, "text"))
        case "image" | "audio" as kind:
            media_type = mcp_member(block, "mimeType", "mime_type") or f"{kind}/unknown"
            return _media(mcp_member(block, "data"), str(media_type), None)
        case "resource_link":
            return f"{mcp_member(block, 'name')}: {mcp_member(block, 'uri')}"
        case "resource":
            return mcp_resource(mcp_member(block, "resource"))
        case kind:
            return f"(content of the type {kind!r}, which is not supported)"


def mcp_resource(contents: Any) -> str | ContentPart:
    if (text := mcp_member(contents, "text")) is not None:
        return str(text)
    media_type = mcp_member(contents, "mimeType", "mime_type") or "application/octet-stream"
    name = PurePosixPath(urlsplit(str(mcp_member(contents, "uri"))).path).name
    return _media(mcp_member(contents, "blob"), str(media_type), name or None)


def _media(data: Any, media_type: str, name: str | None) -> str | ContentPart:
    try:
        content = from_base64(data)
    except (TypeError, ValueError):
        return f"(content of the type {media_type}, which is not base64)"
    if media_type.startswith("image/"):
        return ImagePart(content, media_type=media_type)
    if media_type.startswith("audio/"):
        return AudioPart(content, media_type=media_type)
    return FilePart(content, media_type=media_type, name=name)
