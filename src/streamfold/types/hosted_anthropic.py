"""Finds hosted tool steps, citations and files in content blocks of Anthropic's Messages API:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..jsontext import str_or_none
from .hosted_parts import Citation, CitationKind, GeneratedFile, HostedPart, PartKind, TextOffsets

_PLAIN = ("text", "thinking", "redacted_thinking", "tool_use")
_TOOLS = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
    "tool_search": "tool_search",
    "tool_search_tool_bm25": "tool_search",
    "tool_search_tool_regex": "tool_search",
    "advisor": "advisor",
}
_OTHERS: dict[str, tuple[str, PartKind]] = {
    "mcp_tool_use": ("mcp", "call"),
    "mcp_tool_result": ("mcp", "result"),
    "mcp_tool_listing": ("mcp", "listing"),
    "compaction": ("compaction", "state"),
    "fallback": ("fallback", "state"),
    "container_upload": ("code_execution", "file"),
}
_CITED: dict[str, CitationKind] = {
    "web_search_result_location": "url",
    "search_result_location": "url",
    "char_location": "document",
    "page_location": "document",
    "content_block_location": "document",
}


def block_part(block: Mapping[str, Any]) -> HostedPart | None:
    """Converts a content block to a `HostedPart`. Returns None for text, for thinking, and for tool calls that the
    client must run."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind in _PLAIN:
        return None
    part: PartKind
    if kind == "server_tool_use":
        tool, part = _TOOLS.get(str(block.get("name")), "unknown"), "call"
    elif kind in _OTHERS:
        tool, part = _OTHERS[kind]
    elif kind.endswith("_tool_result"):
        tool, part = _TOOLS.get(kind.removesuffix("_tool_result"), "unknown"), "result"
    else:
        tool, part = "unknown", "state"
    return HostedPart(
        tool,
        part,
        "server",
        str_or_none(block.get("id")) or str_or_none(block.get("file_id")),
        str_or_none(block.get("tool_use_id")),
        str_or_none(block.get("name")),
        str_or_none(block.get("server_name")),
        block.get("input"),
        None,
        _error(block),
        block,
    )


def hosted(blocks: list[Mapping[str, Any]]) -> Iterator[HostedPart]:
    for block in blocks:
        if (part := block_part(block)) is not None:
            yield part


def _error(block: Mapping[str, Any]) -> str | None:
    content = block.get("content")
    if isinstance(content, Mapping) and str(content.get("type")).endswith("_error"):
        return str_or_none(content.get("error_code")) or str(content["type"])
    if block.get("is_error") is True:
        parts = content if isinstance(content, list) else [{"text": content}]
        texts = [str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("text")]
        return "".join(texts) or "failed"
    return None


def citations(blocks: list[Mapping[str, Any]], text: str) -> Iterator[Citation]:
    """Yields the citations in text blocks. The position of a citation is the entire text block in which it occurs."""
    places = TextOffsets(text)
    for block in blocks:
        said = block.get("text") if block.get("type") == "text" else None
        if not isinstance(said, str):
            continue
        start = places.next(said)
        found = block.get("citations")
        for citation in found if isinstance(found, list) else ():
            if isinstance(citation, Mapping):
                yield _citation(citation, start, len(said))


def _citation(said: Mapping[str, Any], start: int | None, size: int) -> Citation:
    url = str_or_none(said.get("url")) or str_or_none(said.get("source"))
    kind = _CITED.get(str(said.get("type"))) or ("url" if url else "document")
    title = str_or_none(said.get("title")) or str_or_none(said.get("document_title"))
    quoted = said.get("cited_text")
    end = None if start is None else start + size
    return Citation(kind, url, title, quoted if isinstance(quoted, str) else None, start, end)


def files(blocks: list[Mapping[str, Any]]) -> Iterator[GeneratedFile]:
    for block in blocks:
        content = block.get("content")
        inner = content.get("content") if isinstance(content, Mapping) else None
        if not str(block.get("type")).endswith("code_execution_tool_result"):
            continue
        for output in inner if isinstance(inner, list) else ():
            if isinstance(output, Mapping) and (file_id := str_or_none(output.get("file_id"))):
                yield GeneratedFile(
                    str_or_none(output.get("mime_type")), str_or_none(output.get("filename")), file_id=file_id
                )
