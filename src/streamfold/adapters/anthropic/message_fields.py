"""What a message of the Messages API says beside its blocks: counts, and why it ended."""

from __future__ import annotations

from typing import Any

from ...deltas import Finish
from ...jsontext import count_or_none
from ...types import FinishReason, Usage, unlisted_steps
from .decode import STOP_REASONS

_STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "unknown": "end_turn",
}
_OWN_REASONS = frozenset(STOP_REASONS) - {"content_filter"}
# What the schema of a whole answer requires in blocks, with what stands for nothing. Clients send it back.
REQUIRED_MEMBERS: dict[str, dict[str, Any]] = {
    "tool_use": {"caller": {"type": "direct"}},
}
_DETAILS: dict[str, type] = {"cache_creation": dict, "server_tool_use": dict, "inference_geo": str, "service_tier": str}


def usage_details(usage: Usage) -> dict[str, Any]:
    """Returns the members of a whole answer's usage that are null where nobody counted.

    https://platform.claude.com/docs/en/api/messages
    """
    said = {name: (kind, usage.raw.get(name)) for name, kind in _DETAILS.items()}
    details = {name: value if isinstance(value, kind) else None for name, (kind, value) in said.items()}
    return {**details, "output_tokens_details": None}


def written_usage(usage: Usage | None) -> dict[str, Any]:
    """Returns the four counts, which clients demand (0 if no server sent one), and others where they are known.

    Those of an answer with a compaction are as Anthropic sent them: clients take the top level for the context's size.
    """
    usage = usage or Usage()
    if unlisted_steps(usage.raw):
        counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        steps = {"iterations": usage.raw["iterations"]}
        return {**{name: count_or_none(usage.raw, name) or 0 for name in counts}, **steps, **_further_counts(usage)}
    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
        **_further_counts(usage),
    }


def _further_counts(usage: Usage) -> dict[str, Any]:
    """Returns the tokens of reasoning, and how many requests the server's tools made."""
    found: dict[str, Any] = {}
    if usage.reasoning_tokens is not None:
        found["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    requests = {f"{kind}_requests": usage.tools[kind] for kind in ("web_search", "web_fetch") if kind in usage.tools}
    return {**found, "server_tool_use": requests} if requests else found


def stop_reason_of(finish: Finish, *, calls: bool) -> str:
    """Returns the stop reason of a message."""
    reason, raw = finish.reason, finish.raw
    if raw in _OWN_REASONS and (reason == "unknown" or (finish.cut and STOP_REASONS.get(raw) == reason)):
        return raw  # the server's own word: `pause_turn` asks the client to send the message back
    if finish.cut:
        return _STOP_REASONS[reason]
    return "tool_use" if calls else "end_turn" if reason == "tool_calls" else _STOP_REASONS[reason]
