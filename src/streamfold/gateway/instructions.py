"""Instructions of a conversation, as most models want them: one system message, at its beginning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from ..values import Message, TextPart

__all__ = ["text_of", "with_one_system"]

_ROLES = ("system", "developer")  # two words for the same; only OpenAI's newer models know the second


def with_one_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the conversation with its first instructions joined, and the role `system` for all of them."""
    first = [text_of(message) for message in takewhile(_is_instruction, messages)]
    rest = tuple(replace(each, role="system") if each.role in _ROLES else each for each in messages[len(first) :])
    text = "\n\n".join(filter(None, first))
    return (Message("system", text), *rest) if text else rest


def text_of(message: Message) -> str | None:
    """Returns the text of a message; None if there is anything else in it."""
    content = message.content
    if isinstance(content, str | None):
        return content or ""
    return _joined(content)


def _is_instruction(message: Message) -> bool:
    return message.role in _ROLES and text_of(message) is not None


def _joined(parts: Iterable[object]) -> str | None:
    texts = [part.text if isinstance(part, TextPart) else None for part in parts]
    return None if None in texts else "\n\n".join(text for text in texts if text)
