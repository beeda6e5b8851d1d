"""How parts of items, usage, errors and citations are written in responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import ErrorInfo
from ...types import Usage


class PartKind(NamedTuple):
    """How a part of an item is written: its events, its place in the item, and its empty form.

    Attributes:
        events: what the events of its text begin with.
        part_events: what the events of the part itself begin with.
        member: where its text is, in it and in the event that has all of it.
        container: which member of the item lists such parts; its position there is called `number` in events.
        with_logprobs: its events have log probabilities, of which there are never any here.
    """

    item: str
    events: str
    part_events: str
    member: str
    container: str
    number: str
    empty: dict[str, Any]
    with_logprobs: bool = False


TEXT = PartKind(
    "message", "response.output_text", "response.content_part", "text", "content", "content_index",
    {"type": "output_text", "text": "", "annotations": [], "logprobs": []}, True,
)  # fmt: skip
REFUSAL = PartKind(
    "message", "response.refusal", "response.content_part", "refusal", "content", "content_index",
    {"type": "refusal", "refusal": ""},
)  # fmt: skip
# Reasoning that is shown is told as a summary, whatever it is: the one spelling that OpenAI's clients and those of
# https://www.openresponses.org both know.
SUMMARY = PartKind(
    "reasoning", "response.reasoning_summary_text", "response.reasoning_summary_part", "text", "summary",
    "summary_index", {"type": "summary_text", "text": ""},
)  # fmt: skip
# The text itself, where open models show it: https://platform.openai.com/docs/api-reference/responses-streaming.
REASONING_TEXT = PartKind(
    "reasoning", "response.reasoning_text", "response.content_part", "text", "content", "content_index",
    {"type": "reasoning_text", "text": ""},
)  # fmt: skip

PART_KINDS = {str(kind.empty["type"]): kind for kind in (TEXT, REFUSAL, SUMMARY, REASONING_TEXT)}


def written_usage(usage: Usage) -> dict[str, Any]:
    """Returns usage under the names of this wire format, with further members if the server speaks it too.

    The API demands all of these numbers; one that no server sent is 0. The Messages API also has `input_tokens`, but
    counts other tokens by it, and has no total.
    """
    raw = dict(usage.raw) if "input_tokens" in usage.raw and "total_tokens" in usage.raw else {}
    counts = {
        "input_tokens": usage.input_tokens or 0,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": usage.output_tokens or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens or 0,
    }
    for name, value in counts.items():
        inner = raw.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            value = {**value, **{member: number for member, number in inner.items() if number is not None}}
        raw[name] = value
    return raw


def response_error(info: ErrorInfo) -> dict[str, Any]:
    """Returns the error of a response. Its code is required: the server's own, else this API's for such failures."""
    fitting = "rate_limit_exceeded" if info.status == 429 else "server_error" if info.retryable else "upstream_error"
    code = info.code or info.type or fitting
    error: dict[str, Any] = {"code": code, "message": info.message}
    error.update({name: value for name, value in (("type", info.type), ("param", info.param)) if value})
    return error if info.status is None else {**error, "status": info.status}


def error_event(error: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members of the event `error` that comes before `response.failed`, as OpenAI sends both.

    OpenAI's clients for Python and JavaScript raise an error for a member `error` alone, and only return
    `response.failed`. The members beside it are those of the documentation:
    https://platform.openai.com/docs/api-reference/responses-streaming/error
    """
    nested = {"type": error.get("type") or error["code"], "param": None, **error}
    return {name: nested[name] for name in ("code", "message", "param")} | {"error": nested}


def flat_annotation(annotation: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a citation with its members beside its type, not under it as in Chat Completions."""
    inner = annotation.get(str(annotation.get("type")))
    if isinstance(inner, Mapping):
        return {"type": annotation["type"], **inner}
    return dict(annotation)
