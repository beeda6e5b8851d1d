"""What the Responses API can't carry of a conversation: others' reasoning, and members that it has no item for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...values import Message
from ..dropped import DroppedParts, dropped_media_members
from .items import as_it_came, is_item
from .output import CALL_EXTRAS

if TYPE_CHECKING:
    from ...requests import Request

__all__ = ["dropped_by_responses"]

_REASONING = ("reasoning_content", "reasoning")
# Of a dict of Chat Completions; `read_message` reads them, or refuses them by name.
_READ = ("role", "content", "tool_calls", "tool_call_id", "refusal", "partial", "function_call", *_REASONING)


def dropped_by_responses(request: Request, *, stored: bool) -> DroppedParts:
    """What stays behind. Items of this API are sent as they are."""
    dropped = DroppedParts()
    for at, message in enumerate(request.messages):
        where = f"messages[{at}]"
        if isinstance(message, Message):
            _of_message(message, where, dropped, came_from_here=request.came_from_here(message), stored=stored)
        elif not is_item(message):
            _of_dict(message, where, dropped)
    return dropped


def _of_message(message: Message, where: str, dropped: DroppedParts, *, came_from_here: bool, stored: bool) -> None:
    items = as_it_came(message, stored=stored) if came_from_here else None
    if message.reasoning and not any(item.get("type") == "reasoning" for item in items or ()):
        dropped.reasoning.append(where)
    dropped.members += [f"{where}.{name}" for name in message.extras if items is None or name != "output"]
    if message.name and message.role == "tool":  # the id says whose result it is
        dropped.members.append(f"{where}.name")
    dropped.members += dropped_media_members(message, where)
    for number, call in enumerate(message.tool_calls):
        extra = call.extra or {}
        if extra and (not came_from_here or not extra.keys() <= set(CALL_EXTRAS)):
            dropped.members.append(f"{where}.tool_calls[{number}].extra")


def _of_dict(message: Mapping[str, Any], where: str, dropped: DroppedParts) -> None:
    if any(message.get(name) for name in _REASONING):
        dropped.reasoning.append(where)
    # A name on any message but a tool's is refused.
    dropped.members += [f"{where}.{name}" for name, value in message.items() if value and name not in _READ]
    for number, entry in enumerate(message.get("tool_calls") or ()):
        dropped.members += _of_entry(entry, f"{where}.tool_calls[{number}]")


def _of_entry(entry: Mapping[str, Any], where: str) -> Iterator[str]:
    # The index is that of a fragment: what put the call together left it there.
    yield from (f"{where}.{name}" for name in entry if name not in ("id", "type", "function", "index"))
    function = entry.get("function")
    if isinstance(function, Mapping):
        yield from (f"{where}.function.{name}" for name in function if name not in ("name", "arguments"))
