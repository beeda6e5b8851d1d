"""A message in any of its spellings, with what the check of a conversation asks of it.

A `Message`, a dict of Chat Completions, and an item of the Responses API say the same things in three ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..values import Message, MessageLike, Role, TextPart, ToolCall

__all__ = [
    "NOT_ANSWERED",
    "Call",
    "Turn",
    "answering",
    "called",
    "has_reasoning",
    "is_empty",
    "read_turn",
    "renamed",
    "unanswered",
    "with_role",
]

NOT_ANSWERED = "this call was not answered"

# Items of the Responses API that are calls, and those that answer them.
_CALL_ITEMS = ("function_call", "custom_tool_call")
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")


@dataclass(slots=True, eq=False)
class Call:
    """A call, and the result that it is paired with.

    Attributes:
        number: its place among the calls of its turn.
        new_id: the id that it is sent with, if its own can't be.
    """

    turn: Turn
    number: int
    id: str
    result: Turn | None = None
    new_id: str | None = None


@dataclass(slots=True, eq=False)
class Turn:
    """A message with what matters here of any of its spellings.

    Attributes:
        at: its position in the conversation as the caller has it.
        answers: on a result, the id of the call.
        dropped: it is not sent.
        ordered: its results are sent right behind it in the calls' order, because one was elsewhere or nowhere.
        moved: a result that was sent with its turn already.
    """

    at: int
    message: MessageLike
    role: str
    calls: list[Call] = field(default_factory=list)
    answers: str | None = None
    dropped: bool = False
    ordered: bool = False
    moved: bool = False

    @property
    def name(self) -> str:
        """What messages to the caller call it."""
        return f"messages[{self.at}]"


def read_turn(at: int, message: MessageLike) -> Turn:
    """The message at this position."""
    if isinstance(message, Message):
        turn = Turn(at, message, message.role, answers=message.tool_call_id)
        ids = [call.id for call in message.tool_calls]
    elif not message.get("role"):
        kind, call_id = message.get("type"), str(message.get("call_id") or "")
        role = "assistant" if kind in _CALL_ITEMS else "tool" if kind in _RESULT_ITEMS else "user"
        turn = Turn(at, message, role, answers=call_id if role == "tool" else None)
        ids = [call_id] if role == "assistant" else []
    else:
        turn = Turn(at, message, str(message["role"]), answers=message.get("tool_call_id"))
        ids = [str(call.get("id") or "") for call in message.get("tool_calls") or ()]
    turn.calls = [Call(turn, number, call_id) for number, call_id in enumerate(ids)]
    return turn


def is_empty(message: MessageLike) -> bool:
    """Whether an assistant's message without calls says nothing."""
    content: Any
    if isinstance(message, Message):
        content = message.content
        others: tuple[Any, ...] = (message.refusal, message.partial)
    else:
        content = message.get("content")
        others = tuple(message.get(name) for name in ("refusal", "partial", "audio", "function_call"))
    if isinstance(content, list | tuple):
        content = [part for part in content if part not in (TextPart(""), {"type": "text", "text": ""})]
    return not content and not any(others)


def has_reasoning(message: MessageLike) -> bool:
    """Whether the reasoning is there, if only as `""`."""
    if isinstance(message, Message):
        return message.reasoning is not None
    return message.get("reasoning_content") is not None


def called(call: Call) -> str:
    """The name of the tool that is called."""
    message = call.turn.message
    if isinstance(message, Message):
        return message.tool_calls[call.number].name
    if not message.get("role"):
        return str(message.get("name"))
    entry = message["tool_calls"][call.number]
    return str((entry.get("function") or entry.get("custom") or {}).get("name"))


def unanswered(call: Call) -> MessageLike:
    """A result that says that there is none, as an error, so that the model does not take it for one."""
    message, call_id = call.turn.message, call.new_id or call.id
    if isinstance(message, Mapping) and message.get("type") == "custom_tool_call":
        return {"type": "custom_tool_call_output", "call_id": call_id, "output": f"Error: {NOT_ANSWERED}"}
    return Message("tool", NOT_ANSWERED, tool_call_id=call_id, error=True)


def with_role(message: MessageLike, role: Role) -> MessageLike:
    """The message in another role."""
    return replace(message, role=role) if isinstance(message, Message) else {**message, "role": role}


def renamed(turn: Turn) -> MessageLike:
    """The message with the new ids of its calls."""
    message = turn.message
    new_ids = [call.new_id for call in turn.calls]
    if not any(new_ids):
        return message
    if isinstance(message, Message):
        calls = tuple(
            replace(call, id=new_id or call.id) for call, new_id in zip(message.tool_calls, new_ids, strict=True)
        )
        return replace(message, tool_calls=calls, extras=_renamed_items(message.extras, calls))
    if not message.get("role"):
        return {**message, "call_id": new_ids[0]}
    entries = zip(message["tool_calls"], new_ids, strict=True)
    return {**message, "tool_calls": [{**entry, "id": new_id or entry.get("id")} for entry, new_id in entries]}


def _renamed_items(extras: Mapping[str, Any], calls: tuple[ToolCall, ...]) -> Mapping[str, Any]:
    """The extras with the new ids in the items that the message came as: they must still be the message, or its
    reasoning stays behind."""
    items = extras.get("output")
    if not isinstance(items, list) or sum(item.get("type") == "function_call" for item in items) != len(calls):
        return extras
    ids = iter(calls)
    made = [{**item, "call_id": next(ids).id} if item.get("type") == "function_call" else item for item in items]
    return {**extras, "output": made}


def answering(message: MessageLike, new_id: str | None) -> MessageLike:
    """The result with the new id of its call."""
    if new_id is None:
        return message
    if isinstance(message, Message):
        return replace(message, tool_call_id=new_id)
    name: Any = "tool_call_id" if message.get("role") else "call_id"
    return {**message, name: new_id}
