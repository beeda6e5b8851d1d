"""Finds hosted tool steps, citations and files in `Reply.extras`, for every API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from . import hosted_anthropic, hosted_gemini, hosted_interactions, hosted_openai
from .hosted_parts import Citation, GeneratedFile, HostedPart

# The extras that contain the answer in the API's format: the blocks of Anthropic and Gemini, the items of the Responses
# API, the steps of the Interactions API.
TURN_EXTRAS = ("blocks", "output", "steps")


def _items(extras: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = extras.get(name)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _blocks(extras: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], bool]:
    blocks = _items(extras, "blocks")
    return blocks, bool(blocks) and not any("type" in block for block in blocks)


def _only(extras: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = _items(extras, name)
    return found[-1] if found else {}


def live_part(value: Any, name: str = "blocks") -> HostedPart | None:
    """Converts a content block or part to a `HostedPart`, to display it while the answer streams.

    Args:
        name: the key in `Reply.extras` under which the block is stored.
    """
    if not isinstance(value, Mapping):
        return None
    if name == "steps":
        return hosted_interactions.part_of(value)
    kind = value.get("type")
    if not isinstance(kind, str):
        return hosted_gemini.part_of(value)
    return hosted_anthropic.block_part(value)


def hosted_kind(value: Any, name: str = "blocks") -> str:
    """Returns the kind of hosted tool to which an entry of `Reply.extras` belongs, or `""` if the entry belongs to
    none."""
    if not isinstance(value, Mapping) or value.get("type") in hosted_openai.PLAIN_ITEMS:
        return ""
    part = None if name == "steps" else hosted_openai.item_part(value)
    if part is None or part.kind == "unknown":
        part = live_part(value, name)
    return "" if part is None else part.kind


def hosted_parts(extras: Mapping[str, Any], called: Collection[str] | None = None) -> tuple[HostedPart, ...]:
    """Returns the steps of all hosted tools, in order. `called` contains the ids of the tool calls in
    `Reply.tool_calls`, if known.
    """
    blocks, of_gemini = _blocks(extras)
    read = hosted_gemini.hosted(blocks) if of_gemini else hosted_anthropic.hosted(blocks)
    steps = hosted_interactions.hosted(_items(extras, "steps"))
    return (*hosted_openai.hosted(_items(extras, "output"), called), *read, *steps)


def call_order(extras: Mapping[str, Any]) -> list[str | None]:
    return hosted_openai.call_order(_items(extras, "output"))


def citations_in(extras: Mapping[str, Any], text: str) -> tuple[Citation, ...]:
    blocks, of_gemini = _blocks(extras)
    grounding, recited = _only(extras, "groundingMetadata"), _only(extras, "citationMetadata")
    annotations, listed = _items(extras, "annotations"), extras.get("citations")
    results, urls = _items(extras, "search_results"), listed if isinstance(listed, list) else ()
    return (
        *hosted_openai.citations(_items(extras, "output"), annotations, text),
        *(() if annotations else hosted_openai.listed_sources(results, urls)),
        *(() if of_gemini else hosted_anthropic.citations(blocks, text)),
        *hosted_gemini.citations(grounding, recited, text),
        *hosted_interactions.citations(_items(extras, "steps"), text),
    )


def files_in(extras: Mapping[str, Any]) -> tuple[GeneratedFile, ...]:
    blocks, of_gemini = _blocks(extras)
    return (
        *hosted_openai.files(_items(extras, "output")),
        *(hosted_gemini.files(blocks) if of_gemini else hosted_anthropic.files(blocks)),
        *hosted_interactions.files(_items(extras, "steps")),
    )


def phases_in(extras: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(hosted_openai.phases(_items(extras, "output")))


def count_requests(extras: Mapping[str, Any]) -> dict[str, int]:
    """Returns the number of times that the provider ran each kind of hosted tool. Functions that the server runs aren't
    counted.
    """
    parts = [part for part in hosted_parts(extras, ()) if part.kind != "function"]
    ran = [part for part in parts if part.part == "both" or (part.part == "call" and part.runs == "server")]
    return dict(Counter(part.kind for part in ran))


def text_in(extras: Mapping[str, Any]) -> str:
    """Returns the complete text in the output items of a Responses API response, or `""` if they contain no text."""
    return hosted_openai.text(_items(extras, "output"))


# https://docs.anthropic.com/en/api/handling-stop-reasons
# https://ai.google.dev/gemini-api/docs/generate-content/long-decode
PAUSED = ("pause_turn", "compaction", "CONTINUATION")
# The extras that say how a response ended and how to continue it.
RESPONSE_STATES = ("stop_reason", "finishReason", "continuationToken", "continuation_token")


def is_paused(extras: Mapping[str, Any]) -> bool:
    """Returns True if the model hasn't finished its turn, so that another request must continue the answer."""
    if continuation_token(extras) is not None:  # the Interactions API sends it only for a paused answer
        return "continuation_token" in extras or _says_paused(extras, "finishReason")
    return _says_paused(extras, "stop_reason")


def _says_paused(extras: Mapping[str, Any], name: str) -> bool:
    said = extras.get(name)
    return isinstance(said, list) and any(reason in PAUSED for reason in said)


def continuation_token(extras: Mapping[str, Any]) -> str | None:
    """Returns the token that a Gemini API or Interactions API request must contain to continue the answer, or None."""
    for name in ("continuationToken", "continuation_token"):
        said = extras.get(name)
        if isinstance(said, list) and said and isinstance(said[-1], str):
            return said[-1]
    return None


def join_extras(before: Mapping[str, Any], new: Mapping[str, Any], text_before: str) -> dict[str, Any]:
    """Merges the `Reply.extras` of several responses that belong to one answer.

    Args:
        before: the extras of the earlier responses.
        new: the extras of the next response, without `blocks`, which streamfold joins while they arrive.
        text_before: the text of the earlier responses. The length of this text is added to all text positions in `new`.
    """
    joined = {**{name: values for name, values in before.items() if name not in RESPONSE_STATES}, **new}
    shift = len(text_before.encode("utf-8", "surrogatepass"))
    for name in hosted_gemini.ABOUT_TEXT:
        if name in new:
            joined[name] = [hosted_gemini.join_about_text(_only(before, name), _only(new, name), shift)]
    return joined
