"""Parts of a conversation that Chat Completions can't carry, and those that it carries under their own names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...requests import ITEM_EXTRAS, is_custom
from ...types import Message
from ..unsupported_parts import UnsupportedParts, dropped_extra, dropped_media_members, has_unmodelled_blocks
from .quirks import ChatQuirks

if TYPE_CHECKING:
    from ...requests import Request

# The extras of answers, and of items. No request has them unless a quirk says so.
_NOT_SENT = (
    "annotations", "blocks", "citations", "content", "custom_tool_calls", "output", "reasoning_details",
    "reasoning_opaque", "reasoning_parts", "search_results", *ITEM_EXTRAS,
)  # fmt: skip


def sent_extras(message: Message) -> dict[str, Any]:
    """Returns the extras that are sent as they are: members that the caller wrote, not those of an answer."""
    if message.origin is not None:
        return {}
    extras = {name: value for name, value in message.extras.items() if name not in _NOT_SENT}
    if isinstance(extras.get("audio"), list):  # the pieces of an answer
        del extras["audio"]
    return extras


def returned_members(message: Message, request: Request, quirks: ChatQuirks) -> list[str]:
    """Returns which members of an earlier answer are sent back: those that the endpoint wants, and made itself."""
    if not quirks.returned_members or not request.came_from_here(message):
        return []
    return [name for name in quirks.returned_members if isinstance(message.extras.get(name), list)]


def dropped_by_chat(request: Request, quirks: ChatQuirks, back: Sequence[bool]) -> UnsupportedParts:
    """Returns the parts of a conversation that are not sent.

    Args:
        back: for each message, whether its reasoning goes back as a text.
    """
    dropped = UnsupportedParts()
    for at, message in enumerate(request.messages):
        where = f"messages[{at}]"
        if not quirks.message_names and message.name:
            dropped.members.append(f"{where}.name")
        details = message.extras.get("reasoning_details") if quirks.reasoning_details else None
        sent = details if request.came_from_here(message) else None  # instead of the reasoning's text
        if not _is_sent(message.reasoning, sent, takes_text=back[at]):
            dropped.reasoning.append(where)
        as_they_are = {*sent_extras(message), *(("reasoning_details",) if sent else ())}
        as_they_are.update(returned_members(message, request, quirks))
        if quirks.reasoning_field == "reasoning_part" and request.came_from_here(message):
            as_they_are.add("reasoning_parts")  # with the reasoning, or dropped as reasoning
        lost = (name for name in message.extras if name not in as_they_are and says_more(name, message))
        dropped.members += [dropped_extra(where, name, message.extras[name]) for name in lost]
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


def _is_sent(reasoning: str | None, details: Any, *, takes_text: bool) -> bool:
    """Returns whether reasoning is sent: as a text, or in the details that are sent instead of it."""
    if not reasoning:  # an empty one says nothing to a provider that wants none
        return True
    if not details:
        return takes_text
    pieces = [piece for piece in details if isinstance(piece, Mapping)]
    said = "".join(str(piece.get("text") or piece.get("summary") or "") for piece in pieces)
    return "".join(reasoning.split()) in "".join(said.split())


def says_more(name: str, message: Message) -> bool:
    """Returns whether an extra says something that is not also in the text and the calls of the message.

    The items that an answer of the Responses API came as often say nothing more.
    """
    value = message.extras[name]
    if name == "blocks":
        return has_unmodelled_blocks(value)
    if name != "output" or not isinstance(value, list):
        return True
    known = ("message", "function_call", *(("custom_tool_call",) if any(map(is_custom, message.tool_calls)) else ()))
    for item in value:
        if not isinstance(item, Mapping) or item.get("type") not in known:
            return True
        parts = item.get("content")
        if isinstance(parts, list) and any(isinstance(part, Mapping) and part.get("annotations") for part in parts):
            return True
    return False
