"""Conversations of clients of one API, as most models of other providers want them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from ..requests import GO_ON, says_nothing
from ..values import Message, ProtocolWarning, TextPart

_REASONING = ("reasoning", "thinking", "redacted_thinking")
_SPOKEN = ("user", "system", "developer")
_ROLES = ("system", "developer")  # two words for the same; only OpenAI's newer models know the second


def for_others(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], list[ProtocolWarning]]:
    """Returns a conversation with one system message, and without turns of nothing but reasoning.

    Clients keep the reasoning of an answer that broke off, or whose calls they took out, as a turn of its own: Codex
    0.169 does, and Claude Code 2.1 after it has summarised a conversation. Other APIs refuse such a turn.
    """
    kept = tuple(message for message in messages if not _is_lone_reasoning(message))
    if len(kept) == len(messages):
        return _with_one_system(messages), []
    detail = "a turn of nothing but reasoning was not sent: its answer broke off, or was left out by the client"
    return _with_one_system(kept), [ProtocolWarning("reasoning_dropped", detail)]


def without_empty_turns(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], list[ProtocolWarning]]:
    """Returns a conversation without turns of users and systems that say nothing.

    Clients send a prompt that was left empty, and most providers refuse one. Those of the assistant are checked by what
    the provider accepts.
    """
    kept = tuple(message for message in messages if message.role not in _SPOKEN or not says_nothing(message))
    if len(kept) == len(messages):
        return messages, []
    detail = "turns without content were not sent"
    if not any(message.role == "user" for message in kept):
        kept, detail = (*kept, Message("user", GO_ON)), f'{detail}; "{GO_ON}" was added'
    return kept, [ProtocolWarning("history_repaired", detail)]


def _with_one_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
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


def _is_lone_reasoning(message: Message) -> bool:
    if message.role != "assistant" or message.content or message.tool_calls or message.refusal:
        return False
    parts = [*_list(message.extras.get("output")), *_list(message.extras.get("blocks"))]
    kinds = [part.get("type") if isinstance(part, Mapping) else None for part in parts]
    return bool(kinds or message.reasoning) and all(kind in _REASONING for kind in kinds)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_instruction(message: Message) -> bool:
    return message.role in _ROLES and text_of(message) is not None


def _joined(parts: Iterable[object]) -> str | None:
    texts = [part.text if isinstance(part, TextPart) else None for part in parts]
    return None if None in texts else "\n\n".join(text for text in texts if text)
