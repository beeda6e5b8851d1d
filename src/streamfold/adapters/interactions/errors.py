"""Parses the JSON errors of the Interactions API. The codes of these errors are Google's error codes in lower case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import ErrorInfo
from ..gemini import ERROR_CODES, read_google_error

_CODES = {status: code.lower() for status, code in ERROR_CODES.items()} | {502: "bad_gateway"}
# The error codes in https://cloud.google.com/apis/design/errors#handling_errors, and those of one of Google's proxies.
_STATUS = {code: status for status, code in _CODES.items()} | {
    "failed_precondition": 400,
    "out_of_range": 400,
    "already_exists": 409,
    "too_many_requests": 429,
    "unknown": 500,
    "data_loss": 500,
    "service_unavailable": 503,
    "gateway_timeout": 504,
}


def read_interactions_error(body: Any, status: int | None = None) -> ErrorInfo:
    """Parses an error of the Interactions API, whose field `code` may be a word or an HTTP status."""
    info = read_google_error(body, status)
    if info.status is not None:
        return info
    return replace(info, status=_STATUS.get((info.code or "").lower()))


def failed_interaction(interaction: Mapping[str, Any]) -> ErrorInfo:
    """Returns the first error that a failed interaction contains: in its field `error`, in its list `errors`, or in its
    steps."""
    steps = interaction.get("steps")
    said = [interaction.get("error"), interaction.get("errors")]
    said += [step.get("error") for step in steps or () if isinstance(step, Mapping)] if isinstance(steps, list) else []
    found = next((error[0] if isinstance(error, list) else error for error in said if error), None)
    return read_interactions_error({"error": found or "the interaction failed, and the server gave no reason"})


def interactions_error_body(info: ErrorInfo) -> dict[str, Any]:
    """Returns an error in this API's JSON format, for an error response or for the data of an `error` event."""
    code = info.code if info.code in _STATUS else _CODES.get(info.status or 500, "internal")
    return {"error": {"code": code, "message": info.message}}
