"""Finds messages whose reasoning the provider has signed, and removes the reasoning. The provider verifies the
signature in each request. The provider refuses reasoning that another model wrote, or that follows a changed
conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..types import Message
from .message_digests import digest_parts

_SIGNED = ("thinking", "redacted_thinking")  # block types of Anthropic's API
_DETAILS = ("thinking_blocks", "reasoning_details")  # the fields of LiteLLM and OpenRouter with such blocks


def signed_turn(message: Message) -> str | None:
    """Returns a digest that identifies an assistant message with signed reasoning. Returns None for other messages.

    Other messages of the conversation don't affect the digest.
    """
    signed = []
    for name in ("blocks", *_DETAILS):
        blocks = message.extras.get(name)
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, Mapping) and (payload := block.get("signature") or block.get("data")):
                signed.append(payload)
    return digest_parts(message.text, signed) if signed else None


def without_signed_reasoning(message: Message) -> Message:
    extras = {name: value for name, value in message.extras.items() if name not in _DETAILS}
    if isinstance(blocks := extras.get("blocks"), list):
        extras["blocks"] = [block for block in blocks if not is_thinking_block(block)]
    return replace(message, extras=extras, reasoning=None)


def is_thinking_block(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in _SIGNED
