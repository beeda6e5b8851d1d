"""What a request refers to, written into its input: the conversation that it continues, and items by their ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..failures import Refused, refused
from .store import KeptResponse, ResponseStore

__all__ = ["Conversation", "input_items", "listed_item", "not_found"]

_LONGEST = 1000  # responses of one conversation
_ITEM_ID = re.compile(r"[a-z]+_(.+)_\d+")  # of an item that an emitter has named after its response


def not_found(response_id: str) -> Refused:
    """Returns the refusal for a response that does not exist, or belongs to somebody else."""
    return refused(404, f"there is no response {response_id[:200]!r} here: it has expired, or was never kept")


def input_items(given: Any) -> list[Any]:
    """Returns the input of a request as items."""
    if isinstance(given, str) and given:
        return [{"type": "message", "role": "user", "content": given}]
    return list(given) if isinstance(given, list) else []


def listed_item(item: Any, item_id: str) -> dict[str, Any]:
    """Returns an input item as the API lists it: with an id, and its text as a part."""
    made = {"id": item_id, "type": "message", **item} if isinstance(item, Mapping) else {"id": item_id}
    if made.get("type") == "message" and isinstance(text := made.get("content"), str):
        kind = "output_text" if made.get("role") == "assistant" else "input_text"
        made["content"] = [{"type": kind, "text": text}]
    return made


class Conversation:
    """Finds what requests of one client refer to.

    Args:
        owner: the client.
    """

    def __init__(self, store: ResponseStore, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def before(self, response_id: str) -> list[Any]:
        """Returns the items of a response and of all that it continues: inputs and outputs, the first ones first.

        Raises:
            Refused: one of them is not kept here, or is still under way.
        """
        turns: list[KeptResponse] = []
        wanted: str | None = response_id
        while wanted is not None:
            kept = await self._store.get(wanted, self._owner)
            if kept is None or len(turns) == _LONGEST:
                raise refused(
                    400,
                    f"previous_response_id: there is no response {wanted[:200]!r} here: it has expired, was never kept,"
                    " or belongs to somebody else; send the whole conversation as input",
                    "previous_response_not_found",
                )
            if not kept.ended:
                raise refused(400, f"previous_response_id: the response {wanted!r} is still under way")
            turns.append(kept)
            wanted = kept.previous
        return [item for kept in reversed(turns) for item in (*kept.items, *_answered(kept))]

    async def resolved(self, items: list[Any]) -> list[Any]:
        """Returns items with those in the place of references that are kept here. Other references stay."""
        return [await self._item(item) for item in items]

    async def _item(self, item: Any) -> Any:
        if not isinstance(item, Mapping) or item.get("type") != "item_reference":
            return item
        item_id = item.get("id")
        made = _ITEM_ID.fullmatch(item_id) if isinstance(item_id, str) else None
        kept = await self._store.get(f"resp_{made[1]}", self._owner) if made else None
        output = kept.response["output"] if kept else []
        return next((found for found in output if found.get("id") == item_id), item)


def _answered(kept: KeptResponse) -> list[Any]:
    """The output of a response, without calls that were cut off: they can't be answered."""
    calls = ("function_call", "custom_tool_call")
    output: list[Any] = kept.response["output"]
    return [item for item in output if not (item["type"] in calls and item.get("status") == "incomplete")]
