"""The conversation: one message per turn, in a form that loses nothing on the way to any wire and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .types import ToolCall

__all__ = ["Message", "MessageLike", "Messages", "Role", "assistant", "system", "tool_result", "user"]

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Attributes:
        content: text, or content parts in the shape of Chat Completions; None where there is none.
        tool_calls: an assistant's calls; their `raw_arguments` go back to the model byte for byte.
        tool_call_id: on a tool's message, the id of the call that it answers.
        reasoning: an assistant's reasoning. `""` (it reasoned, and what is not shown) and None (it did not) differ.
        extras: what else the wire carried for this turn, by its name there.
        partial: an assistant's last turn that the model is to continue, on the wires that can do that.
    """

    role: Role
    content: str | Sequence[Mapping[str, Any]] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    partial: bool = False


MessageLike: TypeAlias = Message | Mapping[str, Any]
Messages: TypeAlias = str | Iterable[MessageLike]


def system(content: str) -> Message:
    """Instructions for the whole conversation."""
    return Message("system", content)


def user(content: str | Sequence[Mapping[str, Any]]) -> Message:
    """What the user says: text, or content parts in the shape of Chat Completions."""
    return Message("user", content)


def assistant(
    content: str | None = None,
    *,
    tool_calls: Iterable[ToolCall] = (),
    reasoning: str | None = None,
    partial: bool = False,
) -> Message:
    """A turn of the model. A `Reply` gives its own as `reply.message`.

    Args:
        partial: the model is to continue this text (Kimi's partial mode); the answer does not repeat it.
    """
    return Message("assistant", content, tuple(tool_calls), reasoning=reasoning, partial=partial)


def tool_result(call: ToolCall, content: Any) -> Message:
    """What a tool answered to `call`: a string as it is, anything else as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return Message("tool", text, tool_call_id=call.id)
