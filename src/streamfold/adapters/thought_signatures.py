"""Gemini's thought signatures on both of Google's APIs: find, write, and the documented placeholder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..types import Message, ReplyWarning

if TYPE_CHECKING:
    from ..requests import Request


SIGNATURE = "thoughtSignature"


def signature_of(extra: Mapping[str, Any] | None) -> str | None:
    """Returns the signature of a call from its extras: of this API, or of Google's endpoint for Chat Completions.

    >>> signature_of({"extra_content": {"google": {"thought_signature": "c2ln"}}})
    'c2ln'
    """
    match extra:
        case {"thoughtSignature": str(found)} | {"extra_content": {"google": {"thought_signature": str(found)}}} if (
            found
        ):
            return found
    return None


# Thought signatures of Gemini's calls on Google's endpoint for Chat Completions.
# https://ai.google.dev/gemini-api/docs/thought-signatures#openai: the first call of each answer of the current turn
# must come back with its signature, in `extra_content`.

# Accepted where the real signature is not at hand: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
_PLACEHOLDER: dict[str, Any] = {"google": {"thought_signature": "skip_thought_signature_validator"}}


def sign_open_calls(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Puts the documented placeholder on calls of the current turn whose signature is missing."""
    messages, changed = list(request.messages), list[str]()
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.role == "user":
            break
        if message.tool_calls and not _is_signed(message, request):
            messages[at] = _signed(message, request)
            changed.append(f"messages[{at}]")
    if not changed:
        return request, []
    detail = (
        f"{', '.join(reversed(changed))}: calls without the thought signature of this model: a placeholder was sent"
    )
    return replace(request, messages=tuple(messages)), [ReplyWarning("lost_reasoning", detail)]


def _is_signed(message: Message, request: Request) -> bool:
    match message.tool_calls[0].extra:
        case {"extra_content": {"google": {"thought_signature": str(signature)}}}:
            return bool(signature) and request.came_from_here(message)
    return False


def _signed(message: Message, request: Request) -> Message:
    calls = list(message.tool_calls)
    if not request.came_from_here(message):
        calls = [replace(call, extra=None) for call in calls]
    calls[0] = replace(calls[0], extra={**(calls[0].extra or {}), "extra_content": _PLACEHOLDER})
    # What only another endpoint could read has been dropped, so that the rest may go as if it came from here.
    return replace(message, tool_calls=tuple(calls), origin=message.origin and request.origin)
