"""Thought signatures: a member of the part that they sign, https://ai.google.dev/gemini-api/docs/thought-signatures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
