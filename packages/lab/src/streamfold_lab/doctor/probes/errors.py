"""Probes for error responses: how a server rejects invalid requests."""

from __future__ import annotations

from ..questions import LINE, capped
from ..values import Conclusion, ProbeRequest, ProbeResponse
from .judging import ProbeGroup, shown, with_members


def _error_shape(seen: ProbeResponse, what: str) -> Conclusion:
    status = seen.recording.status if seen.recording else 0
    body = getattr(seen.error, "body", None)
    error = body.get("error") if isinstance(body, dict) else None
    if status >= 500:
        return Conclusion("fault", f"{what} gets status {status}: {shown(seen.said)}", "the request may be retried")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return Conclusion("ok", f"status {status}: {shown(seen.said)}")
    saw = f"status {status} without an error object: {shown(seen.said)}"
    return Conclusion("handled", saw, "streamfold finds the message anyway")


ERRORS = ProbeGroup("errors")


@ERRORS.probe(
    "unknown_model",
    "How is an unknown model rejected?",
    ProbeRequest(
        "model",
        LINE,
        options=capped(16),
        special="model: no-such-model",
        edit=with_members(model="no-such-model"),
        patience=1,
    ),
    apis=("chat", "kimi", "responses", "anthropic"),
)
def _unknown_model(seen: ProbeResponse) -> Conclusion:
    if seen.fine:
        return Conclusion("handled", "any model name is accepted", "a misspelled name isn't detected")
    return _error_shape(seen, "an unknown model")


@ERRORS.probe(
    "malformed",
    "How is a malformed request rejected?",
    ProbeRequest(
        "malformed",
        LINE,
        options=capped(16),
        special="the conversation is a number",
        patience=1,
        edit=lambda body: {**body, **{key: 7 for key in ("messages", "input", "contents") if key in body}},
    ),
)
def _malformed(seen: ProbeResponse) -> Conclusion:
    if seen.fine:
        return Conclusion("handled", "a malformed request is accepted")
    return _error_shape(seen, "a malformed request")
