"""Errors of Google's APIs: which exception, whether to ask again, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import corpus
from folding import assert_any_cut, assert_any_cut_error, codes, event
from streamfold import IncompleteStreamError, QuotaExceededError, RateLimitError, ServerError
from streamfold.adapters.gemini.errors import read_google_error
from streamfold.errors import status_error
from tables import each_row


@each_row("name", corpus.names("corpus/gemini/errors/*.json"))
def test_recorded(name: str) -> None:
    """Recorded error bodies, with the class and the wait that were derived independently.

    The class may be one below: the contract has `ContextLengthError` and others caught as what they were before.
    """
    cases = {Path(case["file"]).stem: case for case in corpus.read_json("corpus/gemini/errors.json")}
    case, body = cases[Path(name).stem], corpus.read_json(name)
    info = read_google_error(body, case["http_status"])
    error = status_error(info)
    assert case["expected_class"] in [kind.__name__ for kind in type(error).__mro__]
    assert error.retryable is case["expected_retryable"]
    assert info.retry_after == case.get("expected_retry_after")
    assert error.status_code == case["http_status"]
    assert info.code == case["status"] or case["expected_class"] == "AuthenticationError"


def google(code: int, status: str, message: str = "m", *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def test_a_daily_quota_is_not_waited_for() -> None:
    """Although a delay stands beside it."""
    quota = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    info = read_google_error(google(429, "RESOURCE_EXHAUSTED", "m", quota, {"retryDelay": "20s"}), 429)
    error = status_error(info)
    assert isinstance(error, QuotaExceededError)
    assert not error.retryable


@each_row(
    ("message", "details", "seconds"),
    [
        ("m", [{"retryDelay": "900ms"}], 0.9),
        ("Please retry in 2.5s.", [], 2.5),
        ("m", [{"retryDelay": "soon"}], None),
        ("m", [], None),
    ],
)
def test_how_long_to_wait(message: str, details: list[dict[str, Any]], seconds: float | None) -> None:
    """The details say it, or the message does."""
    info = read_google_error(google(429, "RESOURCE_EXHAUSTED", message, *details), 429)
    assert info.retry_after == seconds
    assert isinstance(status_error(info), RateLimitError)


def test_errors_in_wrapping() -> None:
    """As a list of one, and as text inside the message of another."""
    inner = google(503, "UNAVAILABLE", "overloaded")
    for body in ([inner], {"error": {"message": json.dumps(inner)}}, {"error": {"message": json.dumps([inner])}}):
        info = read_google_error(body, 503)
        assert (info.message, info.code) == ("overloaded", "UNAVAILABLE")
        assert isinstance(status_error(info), ServerError)


def test_cancelled_at_the_server() -> None:
    """499 is worth another try."""
    assert status_error(read_google_error(google(499, "CANCELLED"), 499)).retryable


@each_row("indent", [None, 2])
@each_row("end", [b"", b"\r\n"])
def test_an_error_behind_the_events_that_is_none(indent: int | None, end: bytes) -> None:
    """Google's may stand there bare, over several lines (a fixture of its own clients); cut off, it says nothing."""
    said = event({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]})
    bare = json.dumps({"error": {"code": 499, "message": "cancelled", "status": "CANCELLED"}}, indent=indent).encode()
    error = assert_any_cut_error(said + bare + end, adapter="gemini")
    assert (error.message, error.partial and error.partial.text) == ("cancelled", "Hi")
    assert type(assert_any_cut_error(said + bare[:-3], adapter="gemini")) is IncompleteStreamError
    stop = event({"candidates": [{"finishReason": "STOP"}]})
    assert codes(assert_any_cut(said + stop + bare + end, adapter="gemini"))[-1] == "error_after_finish"
