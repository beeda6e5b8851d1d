"""Hosted tools, citations and files in responses of Google's Interactions API.

A call of the hosted tool `X` is a step of type `X_call`, followed by a step of type `X_result`:
https://ai.google.dev/gemini-api/docs/interactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..jsontext import int_or_none, str_or_none
from .hosted_parts import Citation, CitationKind, GeneratedFile, HostedPart, PartKind, TextOffsets, UTF8Offsets
from .media_types import from_base64

STEP_MEDIA = ("image", "audio", "video", "document")
_PLAIN = ("thought", "model_output", "function_call", "user_input")
STEP_TOOLS = {
    "google_search": "web_search",
    "google_maps": "maps",
    "url_context": "web_fetch",
    "code_execution": "code_execution",
    "file_search": "file_search",
    "retrieval": "retrieval",
    "mcp_server_tool": "mcp",
    "tool_search": "tool_search",
    "processing": "processing",
    "function": "function",  # a managed agent's function, which the server runs
}
_CITED: dict[str, CitationKind] = {"url_citation": "url", "file_citation": "file", "place_citation": "place"}
_STANDARD = str.maketrans("-_", "+/")


def part_of(step: Mapping[str, Any]) -> HostedPart | None:
    """Converts a step of the Interactions API to a `HostedPart`. Returns None for thoughts, text and function calls."""
    kind = step.get("type")
    return None if not isinstance(kind, str) or kind in _PLAIN else _part(step, kind)


def _part(step: Mapping[str, Any], kind: str) -> HostedPart:
    name, _, end = kind.rpartition("_")
    tool = STEP_TOOLS.get(name, "unknown")
    part: PartKind = "call" if end == "call" else "result" if end == "result" else "state"
    return HostedPart(
        tool,
        "state" if tool == "processing" else part,
        "server",
        str_or_none(step.get("id")),
        str_or_none(step.get("call_id")),
        str_or_none(step.get("name")),
        str_or_none(step.get("server_name")),
        step.get("arguments"),
        str_or_none(step.get("status")),
        _error(step),
        step,
    )


def _error(step: Mapping[str, Any]) -> str | None:
    if step.get("is_error") is not True:
        return None
    result = step.get("result")
    parts = result if isinstance(result, list) else [{"text": result}]
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str)) or "failed"


def server_call_ids(steps: Iterable[Mapping[str, Any]]) -> set[str]:
    """Returns the ids of the function calls that the server ran. The steps contain a result for each of these calls."""
    results = (step for step in steps if step.get("type") == "function_result")
    return {call_id for step in results if (call_id := str_or_none(step.get("call_id")))}


def hosted(steps: list[Mapping[str, Any]]) -> Iterator[HostedPart]:
    ran = server_call_ids(steps)
    for step in steps:
        if step.get("type") == "function_call" and step.get("id") in ran:
            yield _part(step, "function_call")
        elif (part := part_of(step)) is not None:
            yield part


def contents(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    found = step.get("content") if step.get("type") == "model_output" else None
    yield from (one for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()


def step_text(step: Mapping[str, Any]) -> str:
    texts = (one.get("text") for one in contents(step) if one.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def citations(steps: list[Mapping[str, Any]], text: str) -> Iterator[Citation]:
    """Yields the citations. Google counts their positions in UTF-8 bytes, from the beginning of the step's text."""
    places = TextOffsets(text)
    for step in steps:
        if not (said := step_text(step)):
            continue
        start, place = places.next(said), UTF8Offsets(said)
        for content in contents(step):
            found = content.get("annotations")
            for annotation in found if isinstance(found, list) else ():
                if isinstance(annotation, Mapping) and (cited := _citation(annotation, start, place)) is not None:
                    yield cited


def _citation(annotation: Mapping[str, Any], start: int | None, place: UTF8Offsets) -> Citation | None:
    url = str_or_none(annotation.get("url")) or str_or_none(annotation.get("document_uri"))
    kind = _CITED.get(str(annotation.get("type"))) or ("url" if url else None)
    if kind is None:  # not a source, such as word timings of speech
        return None
    names = (str_or_none(annotation.get(name)) for name in ("title", "file_name", "name"))
    title, end = next(filter(None, names), None), int_or_none(annotation.get("end_index"))
    if start is None or end is None:
        return Citation(kind, url, title)
    begin = int_or_none(annotation.get("start_index")) or 0
    return Citation(kind, url, title, None, start + place(begin), start + place(end))


def files(steps: list[Mapping[str, Any]]) -> Iterator[GeneratedFile]:
    for content in (content for step in steps for content in contents(step)):
        if content.get("type") not in STEP_MEDIA:
            continue
        media_type = str_or_none(content.get("mime_type"))
        if isinstance(data := content.get("data"), str) and data:
            try:
                yield GeneratedFile(media_type, None, from_base64(data.translate(_STANDARD)))
            except ValueError:
                continue
        elif url := str_or_none(content.get("uri")):
            yield GeneratedFile(media_type, url=url)
