"""The `[expect]` table of a recording: its schema, and a function that converts a reply or an error to this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainValidator

from ..config import StrictTable
from ..errors import StreamError, UpstreamError
from ..types import FinishReason, Reply, WarningCode

_Error: TypeAlias = Literal[
    "IncompleteStreamError", "UpstreamError", "ProtocolError", "EmptyResponseError",
    "ContextLengthError", "ContentFilterError", "UnsupportedOptionError", "ModelNotFoundError",
    "QuotaExceededError",
]  # fmt: skip


class _ExpectedCall(StrictTable):
    name: str
    arguments: str | dict[str, Any]  # the model's text, or its parsed value
    id: str | None = None


class _ExpectedUsage(StrictTable):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Expected(StrictTable):
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    finish_reason: FinishReason | None = None
    raw_finish_reason: str | None = None
    calls: list[_ExpectedCall] = Field(default=[])
    usage: _ExpectedUsage | None = None
    warnings: list[WarningCode] = Field(default=[])
    error: _Error | None = None
    message: str | None = None  # of the error


Expected = Annotated[
    Mapping[str, Any], PlainValidator(lambda value: _Expected.model_validate(value).model_dump(exclude_unset=True))
]


def as_expectation(outcome: Reply | StreamError) -> dict[str, Any]:
    """Converts a reply or an error to an `[expect]` table. Empty fields are left out."""
    if isinstance(outcome, StreamError):
        partial = _members(outcome.partial) if outcome.partial else {}
        found: dict[str, Any] = {"error": type(outcome).__name__, **partial}
        if isinstance(outcome, UpstreamError):  # the server's message; streamfold's messages may change
            found["message"] = outcome.message
    else:
        counts = {name: getattr(outcome.usage, name) for name in _ExpectedUsage.model_fields} if outcome.usage else {}
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
