"""The reply that a recording folds to, in the form of `[expect]`."""

from __future__ import annotations

from typing import Any

from ..errors import StreamError, UpstreamError
from ..types import Reply
from .recording import Recording

_COUNTED = (
    "input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens",
)  # fmt: skip


def expected(recording: Recording) -> dict[str, Any]:
    """Returns the reply that a recording folds to, in the form of `[expect]`, without empty members.

    Raises:
        ConfigError: unknown adapter.
    """
    try:
        return as_expectation(recording.reply())
    except StreamError as error:
        return as_expectation(error)


def as_expectation(outcome: Reply | StreamError) -> dict[str, Any]:
    """Returns the outcome of an answer in the form of `[expect]`."""
    if isinstance(outcome, StreamError):
        partial = _members(outcome.partial) if outcome.partial else {}
        found: dict[str, Any] = {"error": type(outcome).__name__, **partial}
        if isinstance(outcome, UpstreamError):  # the server's own words; ours may be reworded
            found["message"] = outcome.message
    else:
        counts = {name: getattr(outcome.usage, name) for name in _COUNTED} if outcome.usage else {}
        found = {
            **_members(outcome),
            "finish_reason": outcome.finish_reason,
            "raw_finish_reason": outcome.raw_finish_reason,
            "warnings": [warning.code for warning in outcome.warnings],
            "usage": {name: count for name, count in counts.items() if count is not None},
        }
    return {key: value for key, value in found.items() if value not in (None, "", [], {})}


def _members(reply: Reply) -> dict[str, Any]:
    return {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "refusal": reply.refusal,
        "calls": [{"id": call.id, "name": call.name, "arguments": call.raw_arguments} for call in reply.tool_calls],
    }
