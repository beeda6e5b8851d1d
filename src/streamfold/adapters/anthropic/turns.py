"""The conversation as turns of the Messages API: `user` and `assistant` alternate, results come first in their turn.

https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use#handling-tool-use-and-tool-result-content-blocks
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from ...values import ConfigError, Message, TextPart
from .content import content_blocks, result_block
from .quirks import AnthropicQuirks

__all__ = ["assistant_blocks", "changed_ids", "read_turns", "split_system", "wire_id"]

_ID = re.compile(r"[a-zA-Z0-9_-]+")


def split_system(messages: Sequence[Message]) -> tuple[list[Message], list[tuple[int, Message]]]:
    """Returns the system messages that open the conversation, and the other messages with their positions."""
    opening: list[Message] = []
    for message in messages:
        if message.role not in ("system", "developer"):
            break
        opening.append(message)
    return opening, list(enumerate(messages))[len(opening) :]


def read_turns(messages: Sequence[tuple[int, Message]], request: Any, quirks: AnthropicQuirks) -> list[dict[str, Any]]:
    """Returns the turns. Neighbours of one role are one turn: several servers refuse two user turns in a row.

    Raises:
        ConfigError: the API would refuse the conversation.
    """
    turns: list[dict[str, Any]] = []
    for at, message in messages:
        role, blocks = _turn(message, at, request, quirks)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role != "system":
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":  # sorted() keeps the order of equals
            turn["content"] = sorted(turn["content"], key=lambda block: block.get("type") != "tool_result")
    if not turns or turns[0]["role"] == "assistant":
        raise ConfigError("messages: the Messages API needs a conversation that begins with a user message")
    _check_end(turns, quirks)
    return turns


def _turn(message: Message, at: int, request: Any, quirks: AnthropicQuirks) -> tuple[str, list[dict[str, Any]]]:
    where = f"messages[{at}]"
    match message.role:
        case "assistant":
            return "assistant", list(assistant_blocks(message, where, request, quirks))
        case "tool":
            return "user", [result_block(message, wire_id(message.tool_call_id or ""), where)]
        case "system" | "developer":
            return "system" if quirks.inline_system else "user", list(content_blocks(message, where))
    return "user", list(content_blocks(message, where))


def _check_end(turns: list[dict[str, Any]], quirks: AnthropicQuirks) -> None:
    last = turns[-1]
    if last["role"] != "assistant":
        return
    if not quirks.prefill:
        raise ConfigError(
            "messages: the last message is the assistant's, and this model continues no text: add a user message"
        )
    text = last["content"][-1]
    if text.get("type") == "text":  # "final assistant content cannot end with trailing whitespace"
        text["text"] = text["text"].rstrip()


# --- the assistant's turns --------------------------------------------------------------------------------------------


def assistant_blocks(message: Message, where: str, request: Any, quirks: AnthropicQuirks) -> Iterator[dict[str, Any]]:
    """Yields the blocks of an assistant's turn: those that it came as, if it came from here, else new ones."""
    came_as = as_it_came(message) if request.came_from_here(message) else None
    if came_as is not None:
        yield from _sent(came_as, message, quirks)
        return
    if quirks.thinking_history == "required" and (message.tool_calls or message.reasoning):
        yield {"type": "thinking", "thinking": message.reasoning or "", "signature": ""}
    yield from content_blocks(message, where)
    for call in message.tool_calls:
        given = {"_raw": call.raw_arguments} if call.error else call.arguments
        extra = call.extra if call.extra and request.came_from_here(message) else {}
        yield {"type": "tool_use", "id": wire_id(call.id), "name": call.name, "input": given, **extra}


def as_it_came(message: Message) -> list[Mapping[str, Any]] | None:
    """Returns the blocks that the answer came as, unless the message has been changed since."""
    blocks = message.extras.get("blocks")
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        return None
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    called = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    parts = message.content
    said = parts if isinstance(parts, str | None) else "".join(p.text for p in parts if isinstance(p, TextPart))
    return blocks if text == (said or "") and called == [call.id for call in message.tool_calls] else None


def _sent(blocks: list[Mapping[str, Any]], message: Message, quirks: AnthropicQuirks) -> Iterator[dict[str, Any]]:
    needs_thinking = quirks.thinking_history == "required" and message.tool_calls
    if needs_thinking and not any(block.get("type") in ("thinking", "redacted_thinking") for block in blocks):
        yield {"type": "thinking", "thinking": message.reasoning or "", "signature": ""}
    for block in blocks:
        match block.get("type"):
            case "text" if not block.get("text"):
                continue
            case "thinking":
                signature = block.get("signature")
                if signature or quirks.thinking_history == "required":
                    yield {**block, "thinking": block.get("thinking", ""), "signature": signature or ""}
            case "tool_use":
                yield {**block, "id": wire_id(str(block.get("id")))}
            case _:
                yield dict(block)


# --- ids --------------------------------------------------------------------------------------------------------------


def wire_id(call_id: str) -> str:
    """Returns the id of a call as the API accepts it. One bad id in the history makes every later request a 400.

    >>> wire_id("toolu_1"), wire_id("functions.f:0")
    ('toolu_1', 'functions_f_0_d6bdd4de')
    """
    if _ID.fullmatch(call_id):
        return call_id
    mark = sha256(call_id.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', call_id)}_{mark}"


def changed_ids(messages: Sequence[Message]) -> list[str]:
    """Returns the ids of calls that are sent in another form."""
    ids = (call.id for message in messages for call in message.tool_calls)
    return [call_id for call_id in dict.fromkeys(ids) if wire_id(call_id) != call_id]
