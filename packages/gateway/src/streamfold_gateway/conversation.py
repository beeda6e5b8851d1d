"""Changes conversations that most providers would reject."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from streamfold import Message, ReplyWarning
from streamfold.serving import CONTINUE_PROMPT, GO_ON_MESSAGE, is_blank_message
from streamfold.types import TextPart

_REASONING = ("reasoning", "thinking", "redacted_thinking")
_GO_ON_WITH_TEXTS = {"anthropic", "gemini"}  # adapters of APIs that continue a last text of the assistant, or refuse it


def repair_conversation(
    messages: tuple[Message, ...], adapters: Collection[str], *, own: str, continues: bool
) -> tuple[tuple[Message, ...], list[ReplyWarning]]:
    """Removes messages that most providers reject. Returns the new conversation, and warnings about the changes.

    After a broken stream, agents send an assistant message that is empty or has only reasoning (Codex 0.169; Claude
    Code 2.1 after a summary). opencode 1.18 ends the conversation with a partial answer.

    Args:
        own: the adapter of the client's API. Only providers with this API accept an assistant message that has only
            reasoning.
        continues: true if the client's API lets the model continue the last message of the assistant (prefill).
    """
    warnings: list[ReplyWarning] = []
    kept = messages
    if set(adapters) != {own}:
        kept = tuple(message for message in messages if not _is_lone_reasoning(message))
    if len(kept) < len(messages):
        detail = "a turn with only reasoning was dropped, because its text is missing"
        warnings.append(ReplyWarning("reasoning_dropped", detail))
    said = tuple(message for message in kept if not _is_empty(message))
    repaired = ["turns without content were dropped"] if len(said) < len(kept) else []
    unasked = repaired and not any(message.role == "user" for message in said)
    if unasked or (said and not continues and _GO_ON_WITH_TEXTS & {*adapters} and _is_text(said[-1])):
        said = (*said, GO_ON_MESSAGE)
        repaired.append(f'"{CONTINUE_PROMPT}" was added')
    if repaired:
        warnings.append(ReplyWarning("history_repaired", "; ".join(repaired)))
    return said, warnings


def with_one_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Joins the instructions at the start of a conversation into one message. All instructions get the role
    `system`.
    """
    first: list[str] = []
    for message in messages:
        text = text_of(message)
        if message.role not in ("system", "developer") or text is None:
            break
        first.append(text)
    rest = [replace(each, role="system") if each.role == "developer" else each for each in messages[len(first) :]]
    joined = "\n\n".join(filter(None, first))
    return (Message("system", joined), *rest) if joined else tuple(rest)


def text_of(message: Message) -> str | None:
    """Returns the text of a message; None if the message contains anything other than text."""
    content = message.content
    if isinstance(content, str | None):
        return content or ""
    texts = [part.text if isinstance(part, TextPart) else None for part in content]
    return None if None in texts else "\n\n".join(filter(None, texts))


def _is_lone_reasoning(message: Message) -> bool:
    if message.role != "assistant" or message.content or message.tool_calls or message.refusal:
        return False
    parts = [*_list(message.extras.get("output")), *_list(message.extras.get("blocks"))]
    thoughts = [isinstance(part, Mapping) and (part.get("thought") or part.get("type") in _REASONING) for part in parts]
    return bool(thoughts or message.reasoning) and all(thoughts)


def _is_empty(message: Message) -> bool:
    more = message.tool_calls or message.reasoning or message.extras
    return message.role != "tool" and not more and is_blank_message(message)


def _is_text(message: Message) -> bool:
    meant = message.partial or message.paused or message.extras.get("prefix")  # the model must continue it
    return message.role == "assistant" and not (message.tool_calls or meant)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
