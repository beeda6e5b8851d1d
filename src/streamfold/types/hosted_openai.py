"""Hosted tools, citations and files in Responses API responses, from OpenAI and from xAI:
https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ..jsontext import int_or_none, parse_object, str_or_none
from .hosted_parts import Citation, CitationKind, GeneratedFile, HostedPart, PartKind, Runner, TextOffsets
from .media_types import media_type_of, read_data_url


class _Item(NamedTuple):
    kind: str
    part: PartKind = "call"
    input: str = ""  # the field that the model wrote


_TEXTS = ("message", "reasoning")
PLAIN_ITEMS = (*_TEXTS, "function_call")  # not hosted tools
_ITEMS = {
    "web_search_call": _Item("web_search", "both", "action"),
    "file_search_call": _Item("file_search", "both", "queries"),
    "code_interpreter_call": _Item("code_execution", "both", "code"),
    "image_generation_call": _Item("image_generation", "both"),
    "search_results": _Item("web_search", "both", "queries"),  # this and the next two are types of Perplexity's SDK
    "fetch_url_results": _Item("web_fetch", "both"),
    "sandbox_results": _Item("code_execution", "both", "code"),
    "mcp_list_tools": _Item("mcp", "listing"),
    "mcp_call": _Item("mcp", "both", "arguments"),
    "mcp_approval_request": _Item("mcp", "approval", "arguments"),
    "custom_tool_call": _Item("custom", "call", "input"),
    "apply_patch_call": _Item("apply_patch", "call", "operation"),
    "apply_patch_call_output": _Item("apply_patch", "result"),
    "shell_call": _Item("shell", "call", "action"),
    "shell_call_output": _Item("shell", "result"),
    "local_shell_call": _Item("shell", "call", "action"),
    "computer_call": _Item("computer", "call", "action"),
    "tool_search_call": _Item("tool_search", "call", "arguments"),
    "tool_search_output": _Item("tool_search", "result"),
    "program": _Item("program", "call", "code"),
    "program_output": _Item("program", "result"),
    "compaction": _Item("compaction", "state"),
    "additional_tools": _Item("additional_tools", "state"),
    "configuration_update": _Item("configuration_update", "state"),
}
_OF_CLIENT = ("mcp_approval_request", "apply_patch_call", "local_shell_call", "computer_call")
# https://docs.x.ai/docs/guides/tools/overview: xAI runs these itself, and sends them as calls of custom tools.
_XAI_TOOLS = frozenset(
    ["x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video", "view_image"]
)
_CITED: dict[str, CitationKind] = {
    "url_citation": "url",
    "file_citation": "file",
    "container_file_citation": "file",
    "file_path": "file",
}


def runs_at_client(item: Mapping[str, Any], called: Collection[str] | None = None) -> bool:
    """Returns True if the client must run the tool call in an output item and send its result.

    Args:
        called: the ids of the tool calls in `Reply.tool_calls`, if known.
    """
    match item.get("type"):
        case "custom_tool_call" if called is not None:
            return str(item.get("call_id")) in called
        case "custom_tool_call":
            return str(item.get("name")) not in _XAI_TOOLS
        case "shell_call":
            environment = item.get("environment")
            return not isinstance(environment, Mapping) or environment.get("type") in (None, "local")
        case "tool_search_call":
            return item.get("execution") == "client"
        case kind:
            return kind in _OF_CLIENT


def item_part(item: Mapping[str, Any], called: Collection[str] | None = None) -> HostedPart | None:
    """Converts an output item to a `HostedPart`. Returns None for text, reasoning and function calls."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind in PLAIN_ITEMS:
        return None
    part: PartKind = "call" if kind.endswith("_call") else "result" if kind.endswith("_output") else "state"
    found = _ITEMS.get(kind) or _Item("unknown", part)
    written = item.get(found.input)
    if found.input == "arguments" and isinstance(written, str) and written[:1] == "{":
        with suppress(ValueError):
            written = parse_object(written)
    runs: Runner = "client" if runs_at_client(item, called) else "server"
    return HostedPart(
        found.kind,
        found.part,
        runs,
        str_or_none(item.get("id")),
        str_or_none(item.get("call_id")),
        str_or_none(item.get("name")),
        str_or_none(item.get("server_label")),
        written,
        str_or_none(item.get("status")),
        _error(item),
        item,
    )


def hosted(items: list[Mapping[str, Any]], called: Collection[str] | None) -> Iterator[HostedPart]:
    for item in items:
        if (part := item_part(item, called)) is not None:
            yield part


def arguments_text(part: HostedPart) -> str:
    """Returns the input of a tool that the client runs: the model's text, or the provider's object as JSON text."""
    said = part.raw.get("arguments")
    return said if isinstance(said, str) else json.dumps(part.input, ensure_ascii=False)


def call_order(items: list[Mapping[str, Any]]) -> list[str | None]:
    return [
        str_or_none(item.get("call_id")) or str_or_none(item.get("id"))
        for item in items
        if item.get("type") not in _TEXTS
    ]


def _error(item: Mapping[str, Any]) -> str | None:
    match item.get("error"):
        case str(text) if text:
            return text
        case {"message": str(text)} if text:
            return text
        case {"type": str(text)} | {"code": str(text)}:
            return text
    return "failed" if item.get("status") == "failed" else None


def _texts(items: list[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    for item in items:
        content = item.get("content") if item.get("type") == "message" else None
        for part in [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and isinstance(text := part.get("text"), str):
                found = part.get("annotations")
                yield text, found if isinstance(found, list) else []


def text(items: list[Mapping[str, Any]]) -> str:
    return "".join(said for said, _ in _texts(items))


def citations(items: list[Mapping[str, Any]], annotations: list[Any], text: str) -> Iterator[Citation]:
    """Yields the citations. OpenAI counts their positions in characters, from the beginning of the annotated part."""
    if not items:
        yield from _cited(annotations, 0, len(text))
        return
    places, said = TextOffsets(text), list(_texts(items))
    if annotations and not any(found for _, found in said) and len(said) == 1:
        said = [(said[0][0], annotations)]  # the annotations arrived only in separate events
    for part, found in said:
        yield from _cited(found, places.next(part), len(part))


def _cited(annotations: list[Any], offset: int | None, size: int) -> Iterator[Citation]:
    for annotation in annotations:
        kind = _CITED.get(str(annotation.get("type"))) if isinstance(annotation, Mapping) else None
        if kind is None:
            continue
        inner = annotation.get(annotation["type"])
        said: Mapping[str, Any] = inner if isinstance(inner, Mapping) else annotation  # nested in Chat Completions
        start, end = int_or_none(said.get("start_index")), int_or_none(said.get("end_index"))
        placed = offset is not None and start is not None and end is not None and start <= end <= size
        title = str_or_none(said.get("title")) or str_or_none(said.get("filename"))
        quoted = said.get("content") or said.get("cited_text")
        yield Citation(
            kind,
            str_or_none(said.get("url")),
            title,
            quoted if isinstance(quoted, str) else None,
            offset + start if placed else None,  # type: ignore[operator]
            offset + end if placed else None,  # type: ignore[operator]
        )


def listed_sources(results: list[Mapping[str, Any]], urls: Any) -> Iterator[Citation]:
    """Yields the sources that Perplexity lists in addition to an answer's text. The text of the answer cites each
    source by its number.
    """
    titles = {url: str_or_none(result.get("title")) for result in results if (url := str_or_none(result.get("url")))}
    for url in dict.fromkeys([*titles, *(url for url in urls if isinstance(url, str))]):
        yield Citation("url", url, titles.get(url))


def phases(items: list[Mapping[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "message" and (phase := str_or_none(item.get("phase"))):
            yield phase


def files(items: list[Mapping[str, Any]]) -> Iterator[GeneratedFile]:
    """Yields the files: https://platform.openai.com/docs/guides/tools-code-interpreter#work-with-files."""
    for item in items:
        if item.get("type") == "image_generation_call" and (data := _bytes(item.get("result"))):
            yield GeneratedFile(_image_type(item, data), data=data)
        if item.get("type") == "code_interpreter_call":
            for output in item.get("outputs") or ():
                if isinstance(output, Mapping) and (url := str_or_none(output.get("url"))):
                    yield _at(url)
    for _, cited in _texts(items):
        for found in cited:
            if isinstance(found, Mapping) and found.get("type") in ("container_file_citation", "file_path"):
                name, container = str_or_none(found.get("filename")), str_or_none(found.get("container_id"))
                yield GeneratedFile(name=name, file_id=str_or_none(found.get("file_id")), container_id=container)


def _at(url: str) -> GeneratedFile:
    if url[:5] == "data:":
        with suppress(ValueError):
            data, kind = read_data_url(url)
            return GeneratedFile(kind, data=data)
    return GeneratedFile(url=url)


def _bytes(result: Any) -> bytes:
    try:
        return b64decode(result + "=" * (-len(result) % 4)) if isinstance(result, str) else b""
    except ValueError:
        return b""


def _image_type(item: Mapping[str, Any], data: bytes) -> str:
    if said := str_or_none(item.get("output_format")):
        return f"image/{said}"
    found = media_type_of(data, None)
    return found if found.startswith("image/") else "image/png"
