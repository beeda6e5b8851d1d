"""Errors: how a server refuses what it can't do."""

from __future__ import annotations

from ..questions import LINE, capped
from ..values import Ask, Outcome, Seen
from .judging import Theme, shown, with_members


def _error_shape(seen: Seen, what: str) -> Outcome:
    status = seen.recording.status if seen.recording else 0
    body = getattr(seen.error, "body", None)
    error = body.get("error") if isinstance(body, dict) else None
    has_message = isinstance(error, dict) and isinstance(error.get("message"), str)
    if status >= 500:
        return Outcome("fault", f"{what} is answered with status {status}: {shown(seen.said)}", "it may be retried")
    if has_message:
        return Outcome("ok", f"status {status}: {shown(seen.said)}")
    return Outcome("handled", f"status {status}, and no error object: {shown(seen.said)}", "the message is found")


ERRORS = Theme("errors")


@ERRORS.one(
    "unknown_model",
    "How is an unknown model refused?",
    Ask(
        "model",
        LINE,
        options=capped(16),
        special="model: no-such-model",
        edit=with_members(model="no-such-model"),
        patience=1,
    ),
    wires=("chat", "kimi", "responses", "anthropic"),
)
def _unknown_model(seen: Seen) -> Outcome:
    if seen.fine:
        return Outcome("handled", "any name of a model is accepted", "a misspelled name is not noticed")
    return _error_shape(seen, "an unknown model")


@ERRORS.one(
    "malformed",
    "How is a malformed request refused?",
    Ask(
        "malformed",
        LINE,
        options=capped(16),
        special="the conversation is a number",
        patience=1,
        edit=lambda body: {**body, **{key: 7 for key in ("messages", "input", "contents") if key in body}},
    ),
)
def _malformed(seen: Seen) -> Outcome:
    if seen.fine:
        return Outcome("handled", "a malformed request is answered all the same")
    return _error_shape(seen, "a malformed request")
