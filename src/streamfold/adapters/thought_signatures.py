"""Gemini's thought signatures, in Gemini's own API and in Google's Chat Completions API.

Gemini 3 signs its tool calls, and refuses a request in which a recent tool call lacks its signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..requests import Request

SIGNATURE = "thoughtSignature"


def signature_of(extra: Mapping[str, Any] | None) -> str | None:
    """Returns the thought signature in a tool call's extras, or None. Accepts the formats of both APIs.

    >>> signature_of({"extra_content": {"google": {"thought_signature": "c2ln"}}})
    'c2ln'
    """
    match extra:
        case {"thoughtSignature": str(found)} | {"extra_content": {"google": {"thought_signature": str(found)}}} if (
            found
        ):
            return found
    return None


# Accepted where the real signature is missing: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
PLACEHOLDER = "skip_thought_signature_validator"


def unsigned_calls(request: Request) -> frozenset[int]:
    """Returns the indexes of assistant messages that Google's Chat Completions API would refuse.

    This API requires a signature, in `extra_content`, for the first tool call of each assistant message after the last
    user message: https://ai.google.dev/gemini-api/docs/thought-signatures#openai
    """
    found = set()
    positions = [position for position, _ in request.numbered]
    for at in range(len(request.messages) - 1, -1, -1):
        message = request.messages[at]
        was_moved = at > 0 and positions[at] == positions[at - 1]  # an image of the tool result before it
        if message.role == "user" and not was_moved:
            break
        if not message.tool_calls:
            continue
        match message.tool_calls[0].extra:
            case {"extra_content": {"google": {"thought_signature": str(signature)}}} if signature:
                signed = request.came_from_here(message)
            case _:
                signed = False
        if not signed:
            found.add(at)
    return frozenset(found)
