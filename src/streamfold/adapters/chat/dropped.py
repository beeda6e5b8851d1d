"""Parts of a conversation that Chat Completions can't carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...values import Message, MessageLike
from ..dropped import DroppedParts, dropped_media_members
from .quirks import ChatQuirks

if TYPE_CHECKING:
    from ...requests import Request

__all__ = ["dropped_by_chat"]


def dropped_by_chat(request: Request, quirks: ChatQuirks) -> DroppedParts:
    """What Chat Completions can't carry of a conversation. Dicts are sent as they are."""
    dropped = DroppedParts()
    for at, message in enumerate(request.messages):
        where = f"messages[{at}]"
        if not quirks.message_names and _is_named_result(message):  # its id says whose result it is
            dropped.members.append(f"{where}.name")
        if not isinstance(message, Message):
            continue
        details = message.extras.get("reasoning_details") if quirks.reasoning_details else None
        sent = details if request.came_from_here(message) else None  # instead of the reasoning's text
        if not _is_told(message.reasoning, sent, takes_text=quirks.reasoning_field is not None):
            dropped.reasoning.append(where)
        lost = [name for name, value in message.extras.items() if _says_more(name, value)]
        dropped.members += [f"{where}.{name}" for name in lost if not (name == "reasoning_details" and sent)]
        dropped.members += dropped_media_members(message, where)
        if not request.came_from_here(message):
            calls = enumerate(message.tool_calls)
            dropped.members += [f"{where}.tool_calls[{number}].extra" for number, call in calls if call.extra]
    for tool in request.tools:
        if tool.kind != "function" and tool.description:  # declared by its name alone
            dropped.members.append(f"the description of the tool {tool.name}")
        if tool.kind != "function" and tool.parameters.get("properties"):
            dropped.members.append(f"the parameters of the tool {tool.name}")
    return dropped


def _is_named_result(message: MessageLike) -> bool:
    if isinstance(message, Message):
        return message.role == "tool" and bool(message.name)
    return message.get("role") == "tool" and bool(message.get("name"))


def _is_told(reasoning: str | None, details: Any, *, takes_text: bool) -> bool:
    """Whether reasoning is sent: as a text, or in the details that are sent instead of it."""
    if not reasoning:  # an empty one says nothing to a provider that wants none
        return True
    if not details:
        return takes_text
    pieces = [piece for piece in details if isinstance(piece, Mapping)]
    said = "".join(str(piece.get("text") or piece.get("summary") or "") for piece in pieces)
    return "".join(reasoning.split()) in "".join(said.split())


def _says_more(name: str, value: Any) -> bool:
    """Whether something is in it that is not also in the text and the calls of the message.

    The items that an answer of the Responses API came as are often just these.
    """
    if name != "output" or not isinstance(value, list):
        return True
    for item in value:
        if not isinstance(item, Mapping) or item.get("type") not in ("message", "function_call"):
            return True
        parts = item.get("content")
        if any(isinstance(part, Mapping) and part.get("annotations") for part in parts or ()):
            return True
    return False
