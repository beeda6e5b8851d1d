"""Parts of a conversation that the Responses API can't carry: reasoning of others, and members that no item has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...requests import CALL_EXTRAS, ITEM_EXTRAS
from ..chat.unsupported_parts import says_more
from ..unsupported_parts import UnsupportedParts, dropped_extra, dropped_media_members, has_unmodelled_blocks
from .encode import ACKNOWLEDGED, original_payload

if TYPE_CHECKING:
    from ...requests import Request


def dropped_by_responses(request: Request, *, stored: bool, plain: bool = False) -> UnsupportedParts:
    """Returns the parts of a conversation that are not sent.

    Args:
        plain: of earlier answers, the texts and calls alone are sent, not their items.
    """
    dropped = UnsupportedParts()
    calls = [call for message in request.messages for call in message.tool_calls]
    computers = {call.id for call in calls if call.kind == "computer"}
    for at, message in enumerate(request.messages):
        where, here = f"messages[{at}]", request.came_from_here(message)
        items = original_payload(message, stored=stored) if here and not plain else None
        if message.reasoning and not any(item.get("type") == "reasoning" for item in items or ()):
            dropped.reasoning.append(where)
        sent = {
            *(ITEM_EXTRAS if here and message.role != "assistant" else ()),
            *(["output", "annotations"] if items is not None else []),  # the items have the citations, too
            *(["output"] if plain and "output" in message.extras and not says_more("output", message) else []),
            *([ACKNOWLEDGED] if message.tool_call_id in computers else []),
            *([] if has_unmodelled_blocks(message.extras.get("blocks")) else ["blocks"]),
        }
        lost = {name: value for name, value in message.extras.items() if name not in sent}
        dropped.members += [dropped_extra(where, name, value) for name, value in lost.items()]
        if message.name:
            dropped.members.append(f"{where}.name")
        dropped.members += dropped_media_members(message, where)
        for number, call in enumerate(message.tool_calls):
            extra = (call.extra or {}).keys()
            if extra and (not here or not extra <= {*CALL_EXTRAS, "pending_safety_checks"}):
                dropped.members.append(f"{where}.tool_calls[{number}].extra")
    return dropped
