"""Hosted tools, citations and files in Gemini's responses: https://ai.google.dev/api/generate-content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..jsontext import int_or_none, str_or_none
from .hosted_parts import Citation, CitationKind, GeneratedFile, HostedPart, UTF8Offsets
from .media_types import from_base64

# https://ai.google.dev/api/caching#ToolType
_TOOLS = {
    "GOOGLE_SEARCH_WEB": "web_search",
    "GOOGLE_SEARCH_IMAGE": "web_search",
    "URL_CONTEXT": "web_fetch",
    "GOOGLE_MAPS": "maps",
    "FILE_SEARCH": "file_search",
}
_SOURCES: dict[str, CitationKind] = {"web": "url", "image": "url", "retrievedContext": "file", "maps": "place"}
_WORKED = ("OUTCOME_OK", "OUTCOME_UNSPECIFIED", "1", "0")


def part_of(part: Mapping[str, Any]) -> HostedPart | None:
    """Converts a part of a Gemini response to a `HostedPart`. Returns None for text, function calls and media."""
    match part:
        case {"executableCode": Mapping() as said}:
            return HostedPart(
                "code_execution", "call", id=str_or_none(said.get("id")), input=said.get("code"), raw=part
            )
        case {"codeExecutionResult": Mapping() as said}:
            outcome = str_or_none(said.get("outcome"))
            error = None if outcome in (None, *_WORKED) else outcome
            call = str_or_none(said.get("id"))
            return HostedPart("code_execution", "result", id=call, call_id=call, status=outcome, error=error, raw=part)
        case {"toolCall": Mapping() as said}:
            kind = _TOOLS.get(str(said.get("toolType")), "unknown")
            name, written = str_or_none(said.get("toolType")), said.get("args")
            return HostedPart(kind, "call", id=str_or_none(said.get("id")), name=name, input=written, raw=part)
        case {"toolResponse": Mapping() as said}:
            kind, call = _TOOLS.get(str(said.get("toolType")), "unknown"), str_or_none(said.get("id"))
            return HostedPart(kind, "result", id=call, call_id=call, name=str_or_none(said.get("toolType")), raw=part)
    return None


def hosted(parts: list[Mapping[str, Any]]) -> Iterator[HostedPart]:
    # Google itself ran the functions whose response is in the answer (server-side MCP).
    found = [part.get("functionResponse") for part in parts]
    ran = {(str_or_none(one.get("id")), str_or_none(one.get("name"))) for one in found if isinstance(one, Mapping)}
    for part in parts:
        match part:
            case {"functionCall": Mapping() as said} if (
                str_or_none(said.get("id")),
                str_or_none(said.get("name")),
            ) in ran:
                name = str_or_none(said.get("name"))
                yield HostedPart(
                    "mcp", "call", id=str_or_none(said.get("id")), name=name, input=said.get("args"), raw=part
                )
            case {"functionResponse": Mapping() as said}:
                call = str_or_none(said.get("id"))
                yield HostedPart("mcp", "result", id=call, call_id=call, name=str_or_none(said.get("name")), raw=part)
            case _ if (hosted_part := part_of(part)) is not None:
                yield hosted_part


def citations(grounding: Mapping[str, Any], recited: Mapping[str, Any], text: str) -> Iterator[Citation]:
    """Yields the citations that belong to a passage of the answer's text, then the citations without a passage.

    Args:
        grounding: Gemini's `groundingMetadata` objects. Positions in `groundingMetadata` count UTF-8 bytes, and Gemini
            omits the position 0.
        recited: Gemini's `citationMetadata` objects. `citationMetadata` lists the sources from which the answer repeats
            text verbatim.
    """
    sources = [_source(chunk) for chunk in _dicts(grounding.get("groundingChunks"))]
    place, used = UTF8Offsets(text), set[int]()
    for support in _dicts(grounding.get("groundingSupports")):
        segment = support.get("segment")
        start, end = _span(segment if isinstance(segment, Mapping) else {}, text, place)
        for number in support.get("groundingChunkIndices") or ():
            if isinstance(number, int) and 0 <= number < len(sources):
                used.add(number)
                kind, url, title, quoted = sources[number]
                yield Citation(kind, url, title, quoted, start, end)
    for number, (kind, url, title, quoted) in enumerate(sources):
        if number not in used:
            yield Citation(kind, url, title, quoted)
    for source in _dicts(recited.get("citationSources") or recited.get("citations")):
        start, end = _span(source, text, place)
        yield Citation("url", str_or_none(source.get("uri")), str_or_none(source.get("title")), None, start, end)


def _span(segment: Mapping[str, Any], text: str, place: UTF8Offsets) -> tuple[int | None, int | None]:
    end = int_or_none(segment.get("endIndex"))
    if end is None:
        return None, None
    start = int_or_none(segment.get("startIndex")) or 0
    found = place(start), place(end)
    said = segment.get("text")
    if isinstance(said, str) and said and text[found[0] : found[1]] != said:
        # Google counted positions in another text: in one part, or in the text with its thoughts.
        at = text.find(said)
        return (at, at + len(said)) if at >= 0 and text.find(said, at + 1) < 0 else (None, None)
    return found


ABOUT_TEXT = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


def join_about_text(before: Mapping[str, Any], new: Mapping[str, Any], shift: int) -> dict[str, Any]:
    """Joins the grounding metadata of two responses that belong to one answer.

    Args:
        before, new: the metadata of the first and the second response, such as `groundingMetadata`, or {} if the
            response contains none.
        shift: the length, in UTF-8 bytes, of the text before the second response. Each response counts its positions
            from 0.
    """
    first = len(_dicts(before.get("groundingChunks")))
    joined: dict[str, Any] = {**before}
    for name, value in new.items():
        if name == "groundingSupports":
            value = [_moved_support(support, first, shift) for support in _dicts(value)]
        elif name in ("citationSources", "citations"):
            value = [_moved(source, shift) for source in _dicts(value)]
        earlier = before.get(name)
        joined[name] = [*earlier, *value] if isinstance(earlier, list) and isinstance(value, list) else value
    return joined


def _moved_support(support: Mapping[str, Any], first: int, shift: int) -> dict[str, Any]:
    segment, numbers = support.get("segment"), support.get("groundingChunkIndices")
    moved = dict(support)
    if isinstance(segment, Mapping):
        moved["segment"] = _moved(segment, shift)
    if isinstance(numbers, list):
        moved["groundingChunkIndices"] = [number + first if isinstance(number, int) else number for number in numbers]
    return moved


def _moved(span: Mapping[str, Any], shift: int) -> dict[str, Any]:
    # Google omits the start 0, and omits both positions for a source without a passage.
    end = int_or_none(span.get("endIndex"))
    if end is None or not shift:
        return dict(span)
    return {**span, "startIndex": (int_or_none(span.get("startIndex")) or 0) + shift, "endIndex": end + shift}


def _source(chunk: Mapping[str, Any]) -> tuple[CitationKind, str | None, str | None, str | None]:
    for member, kind in _SOURCES.items():
        if isinstance(said := chunk.get(member), Mapping):
            url = (
                str_or_none(said.get("uri")) or str_or_none(said.get("sourceUri")) or str_or_none(said.get("imageUri"))
            )
            title = str_or_none(said.get("title")) or str_or_none(said.get("domain"))
            quoted = said.get("text")
            return kind, url, title, quoted if isinstance(quoted, str) and quoted else None
    return "url", None, None, None


def files(parts: list[Mapping[str, Any]]) -> Iterator[GeneratedFile]:
    """Yields the images, audio and other files of an answer, without the images inside the model's thoughts."""
    for part in parts:
        match part:
            case {"thought": True}:
                continue
            case {"inlineData": {"data": str(data), **said}}:
                try:
                    read = from_base64(data.translate(_STANDARD))
                except ValueError:
                    continue
                yield GeneratedFile(str_or_none(said.get("mimeType")), str_or_none(said.get("displayName")), read)
            case {"fileData": {"fileUri": str(uri), **said}}:
                yield GeneratedFile(str_or_none(said.get("mimeType")), str_or_none(said.get("displayName")), url=uri)


_STANDARD = str.maketrans("-_", "+/")


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
