"""Messages of LangChain, with the shapes that other makers have left in them, as turns of streamfold."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from streamfold import Message, ToolCall
from streamfold.types import TextPart

from .langchain_blocks import content_of

KEPT = "streamfold"  # the member of `additional_kwargs` that has the message as streamfold keeps it


def to_messages(message: BaseMessage) -> Iterator[Message]:
    match message:
        case AIMessage():
            yield _answer(message)
        case HumanMessage():
            blocks = _blocks(message)
            results = [block for block in blocks if block.get("type") == "tool_result"]  # as Anthropic writes them
            for result in results:
                yield _tool(result.get("content"), str(result.get("tool_use_id")), failed=bool(result.get("is_error")))
            rest = [block for block in blocks if block not in results]
            if rest or not results:
                yield Message("user", content_of(rest if results else message.content), name=message.name)
        case SystemMessage():
            developer = message.additional_kwargs.get("__openai_role__") == "developer"
            yield Message("developer" if developer else "system", content_of(message.content))
        case ToolMessage():
            yield _tool(message.content, message.tool_call_id, failed=message.status == "error")
        case ChatMessage():
            role: Any = message.role  # any text; `Message` checks it
            yield Message(role, content_of(message.content))
        case _:
            raise TypeError(f"a message of LangChain was expected, not {type(message).__name__}")


def _tool(content: Any, call_id: str, *, failed: bool) -> Message:
    return Message("tool", content_of(content), tool_call_id=call_id, error=failed)


def _answer(message: AIMessage) -> Message:
    """Returns an answer as streamfold keeps it, if it made it and nobody has changed it."""
    blocks = _blocks(message)
    calls = [_call_of(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    known = {call.id for call in calls}
    for block in blocks:  # as Anthropic writes them
        if block.get("type") == "tool_use" and block.get("id") not in known:
            calls.append(_call_of(block.get("id"), block["name"], block.get("input") or {}))
    text = "".join(str(block.get("text") or "") for block in blocks)
    if isinstance(kept := message.additional_kwargs.get(KEPT), dict):
        own = Message.from_dict(kept)
        runnable = [(call.id, call.name, call.arguments) for call in own.tool_calls if call.error is None]
        if (own.content or "") == text and runnable == [(call.id, call.name, call.arguments) for call in calls]:
            return own
    reasoning = message.additional_kwargs.get("reasoning_content")
    if reasoning is None:
        thoughts = [block.get("reasoning") or block.get("thinking") for block in blocks]
        reasoning = "".join(thought for thought in thoughts if isinstance(thought, str)) or None
    if lost := sorted({str(block.get("type")) for block in blocks} - _SAID):
        why = "of an answer that another model gave, streamfold can't send the blocks"
        warnings.warn(f"{why} {', '.join(lost)}: they are left out", UserWarning, stacklevel=2)
    texts = [block["text"] for block in blocks if block.get("type") == "text" and block.get("text")]
    said = tuple(map(TextPart, texts)) if len(texts) > 1 else text or None
    return Message("assistant", said, tuple(calls), reasoning=reasoning)


_SAID = {"text", "tool_use", "tool_call", "function_call", "invalid_tool_call", "reasoning", "thinking"}


def _call_of(call_id: str | None, name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(call_id or "", name, arguments, json.dumps(arguments, ensure_ascii=False))


def _blocks(message: BaseMessage) -> list[dict[str, Any]]:
    content = message.content if isinstance(message.content, list) else [message.content]
    return [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
