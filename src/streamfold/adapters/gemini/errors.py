"""Parses the JSON errors of Google's APIs: https://cloud.google.com/apis/design/errors.

An error has a code such as `RESOURCE_EXHAUSTED`. The details of an error contain the time to wait before a retry and
the name of the exceeded quota.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...errors import ErrorInfo, error_info
from ...jsontext import parse_event

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_RETRY_IN = re.compile(r"retry in (\d+(?:\.\d+)?(?:ms|s))", re.IGNORECASE)
_DAILY = re.compile("PerDay|Daily", re.IGNORECASE)
_RPC = "type.googleapis.com/google.rpc."
_BAD_REQUEST = "INVALID_ARGUMENT"
# https://cloud.google.com/apis/design/errors#handling_errors
ERROR_CODES = {
    400: _BAD_REQUEST,
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_DEEPEST = 3  # some proxies put the JSON text of an error into the message of another


def read_google_error(body: Any, status: int | None = None) -> ErrorInfo:
    """Parses an error of a Google API, which may be inside a list or, as JSON text, inside another error's message."""
    body = _unwrapped(body)
    info = error_info(body, status=status)
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return info
    word = error.get("status")
    info = replace(info, code=word if isinstance(word, str) and word.isupper() else info.code)
    details = [detail for detail in error.get("details") or () if isinstance(detail, Mapping)]
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        return replace(info, type="authentication_error")
    used_up = any(detail.get("reason") == "INSUFFICIENT_QUOTA" for detail in details)
    used_up = used_up or any(_DAILY.search(name) for detail in details for name in _quotas(detail))  # a daily quota
    if info.status in (402, 429) and used_up:
        return replace(info, type="insufficient_quota", code="insufficient_quota")
    return replace(info, retry_after=_delay(details, info.message), retry=True if info.status == 499 else info.retry)


def _unwrapped(body: Any) -> Any:
    for _ in range(_DEEPEST):
        if isinstance(body, list) and body:
            body = body[0]
        error = body.get("error") if isinstance(body, Mapping) else None
        message = error.get("message") if isinstance(error, Mapping) else None
        if not isinstance(message, str) or not message.lstrip().startswith(("{", "[")):
            return body
        try:
            inner = parse_event(message)
        except ValueError:
            return body
        if not (isinstance(inner, list) or (isinstance(inner, Mapping) and "error" in inner)):
            return body
        body = inner
    return body


def _quotas(detail: Mapping[str, Any]) -> Iterator[str]:
    violations = detail.get("violations")
    for violation in violations if isinstance(violations, list) else ():
        if isinstance(violation, Mapping) and isinstance(name := violation.get("quotaId"), str):
            yield name
    metadata = detail.get("metadata")
    if isinstance(metadata, Mapping) and isinstance(name := metadata.get("quota_limit"), str):
        yield name


def _delay(details: list[Mapping[str, Any]], message: str) -> float | None:
    given = next((text for detail in details if isinstance(text := detail.get("retryDelay"), str)), None)
    found = _RETRY_IN.search(message)
    match = _DURATION.fullmatch(given or (found[1] if found else ""))
    return None if match is None else float(match[1]) * (0.001 if match[2] == "ms" else 1)


def gemini_error_body(info: ErrorInfo) -> dict[str, Any]:
    """Returns an error in Gemini's JSON format, for an error response or for the last event of a failed stream."""
    status = info.status or (500 if info.retryable or not (info.type or info.code) else 400)
    word = info.code if info.code in ERROR_CODES.values() else ERROR_CODES.get(status)
    details: list[dict[str, Any]] = []
    reason = re.sub(r"\W+", "_", (info.code or info.type or "").upper())
    if reason and reason != word:
        details.append({"@type": f"{_RPC}ErrorInfo", "reason": reason, "domain": "streamfold"})
    if info.quota:  # Gemini CLI then doesn't wait for the quota
        violation = {"quotaId": "RequestsPerDay", "quotaMetric": "streamfold/account"}
        details.append({"@type": f"{_RPC}QuotaFailure", "violations": [violation]})
    if info.retry_after is not None:
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{info.retry_after:g}s"})
    error = {"code": status, "message": info.message, "status": word or ("INTERNAL" if status >= 500 else _BAD_REQUEST)}
    return {"error": {**error, "details": details} if details else error}
