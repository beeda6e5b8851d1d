"""Replaces the references in a request with stored items: each `previous_response_id` and each item reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio

from streamfold.serving import json_text

from ..http_errors import http_error
from .store import ResponseStore

_LONGEST = 1000  # responses of one conversation
_PATIENCE = 10.0  # seconds to read the stored items to which a request refers
_ITEM_ID = re.compile(r"[a-z]+_([A-Za-z0-9]+)_[0-9]+")  # the id of an item, which contains the response's id


def input_items(given: Any) -> list[Any]:
    """Returns the `input` of a Responses API request as a list of items."""
    if isinstance(given, str) and given:
        return [{"type": "message", "role": "user", "content": given}]
    return list(given) if isinstance(given, list) else []


def listed_item(item: Any, item_id: str) -> dict[str, Any]:
    """Returns an input item in the form in which the API lists it: with an id, and with its text as a content part."""
    made = {"id": item_id, "type": "message", **item} if isinstance(item, Mapping) else {"id": item_id}
    if made.get("type") == "message" and isinstance(text := made.get("content"), str):
        kind = "output_text" if made.get("role") == "assistant" else "input_text"
        made["content"] = [{"type": kind, "text": text}]
    return made


class ReferenceResolver:
    """Reads the stored items that a client's requests refer to.

    Args:
        owner: the id of the client's key.
        user: the end user that the request names.
        count: called before stored items replace a reference, with the size of the items. It may raise HTTPError.
    """

    def __init__(
        self, responses: ResponseStore, owner: str, user: str, count: Callable[[int], None] = lambda _: None
    ) -> None:
        self._responses = responses
        self._owner = owner
        self._user = user
        self._count = count

    async def earlier_items(self, response_id: str) -> list[Any]:
        """Returns the input and output items of a response and of all earlier responses in its conversation, in order.

        Raises:
            HTTPError: one of the responses isn't stored or hasn't ended, or the items make the request too large.
        """
        turns: list[list[Any]] = []
        wanted: str | None = response_id
        with _within_reason():
            while wanted is not None:
                kept = await self._responses.get(wanted, self._owner, self._user)
                if kept is None or len(turns) == _LONGEST:
                    raise http_error(
                        400,
                        f"previous_response_id: there is no response {wanted[:200]!r}: it has expired, was never"
                        " stored, or belongs to another client; send the whole conversation as input",
                        "previous_response_not_found",
                    )
                if not kept.ended:
                    raise http_error(400, f"previous_response_id: the response {wanted!r} is still in progress")
                turns.append([*kept.items, *without_cut_calls(kept.response["output"])])
                self._count(len(json_text(turns[-1])))
                wanted = kept.previous
        return [item for turn in reversed(turns) for item in turn]

    async def resolved(self, items: list[Any]) -> list[Any]:
        """Returns a copy of the list in which stored items replace the item references. References to unknown items
        stay in the list.

        Raises:
            HTTPError: the request with its stored items is too large.
        """
        outputs: dict[str, dict[str, Any]] = {}  # by response and item, so that each is read and counted once
        sizes: dict[str, int] = {}
        made = list(items)
        with _within_reason():
            for at, item in enumerate(items):
                item_id = item.get("id") if isinstance(item, Mapping) and item.get("type") == "item_reference" else None
                if not isinstance(item_id, str):
                    continue
                named = _ITEM_ID.fullmatch(item_id)
                response_id = f"resp_{named[1]}" if named else await self._responses.response_of(item_id, self._owner)
                if response_id is None:
                    continue
                if response_id not in outputs:
                    kept = await self._responses.get(response_id, self._owner, self._user)
                    outputs[response_id] = {found.get("id"): found for found in kept.response["output"]} if kept else {}
                if (found := outputs[response_id].get(item_id)) is not None:
                    sizes[item_id] = sizes.get(item_id) or len(json_text(found))
                    self._count(sizes[item_id])
                    made[at] = found
        return made


@contextmanager
def _within_reason() -> Iterator[None]:
    """Raises HTTPError if the `with` block, which reads from the store, takes longer than ten seconds."""
    try:
        with anyio.fail_after(_PATIENCE):
            yield
    except TimeoutError:
        text = "the references of the request can't be read now; try again later"
        raise http_error(503, text, retry_after="1") from None


def without_cut_calls(output: list[Any]) -> list[Any]:
    """Removes incomplete tool calls from the output of a response, because no client can send their results."""
    calls = ("function_call", "custom_tool_call")
    return [item for item in output if not (item["type"] in calls and item.get("status") == "incomplete")]
