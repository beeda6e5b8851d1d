"""Stores responses and their events in a key-value store."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio.to_thread
from pydantic_core import from_json

from streamfold.serving import SerializedEvent, json_text, partial_output, sse_event
from streamfold.stores import Store, StoreError

FINAL = ("completed", "incomplete", "failed", "cancelled")


def cut_events(data: bytes, last: int) -> Iterator[SerializedEvent]:
    """Splits the bytes of several SSE events into events. `last` is the `sequence_number` of the last event."""
    found, comments = list[bytes](), b""
    for block in data.split(b"\n\n"):
        if block.startswith(b"event: "):
            found.append(comments + block + b"\n\n")
            comments = b""
        elif block:
            comments += block + b"\n\n"
    for at, block in enumerate(found):
        yield SerializedEvent(last - len(found) + 1 + at, block)


def interrupted_response(
    response: Mapping[str, Any], events: Iterable[SerializedEvent], status: str, **members: Any
) -> tuple[dict[str, Any], SerializedEvent]:
    """Ends an interrupted response: returns its response object with the output received so far, and its final event.

    Args:
        members: additional fields of the response object, such as `error`.
    """
    known = list(events)
    ended = {**response, "status": status, "output": partial_output(each.payload for each in known), **members}
    number = known[-1].number + 1 if known else 0
    kind = f"response.{status}"
    return ended, SerializedEvent(number, sse_event({"type": kind, "sequence_number": number, "response": ended}, kind))


# Each response is a record in the store, with the request's input items and the process that runs the response. The
# parts of the record: `state` is the response object of the API, `event/NUMBER` contains the events up to that number,
# and `cancelled` asks the process to cancel the response. A record `item-ID` contains the id of the response that
# contains the item, if the provider made the item's id. If the process has died, the response is read as `failed`.

_ID = re.compile(r"[\w-]{1,200}", re.ASCII)
# Searches the bytes, because parsing would copy a long response. A text can't match, because its quotation marks are
# escaped. A match that isn't the id of an item does no harm, because the item is then missing in the response.
_ID_IN_JSON = re.compile(rb'"id": ?"([\w-]{1,200})"')
_ITEM = "item-"  # prefix of the records that say which response contains an item
_AHEAD = 3600.0  # minimum seconds for which a response in progress is stored without new events
_LARGE = 2**18  # bytes of JSON above which it is parsed in a thread
_logger = logging.getLogger("streamfold.gateway")
_STOPPED = {
    "code": "server_error",
    "message": "the gateway was stopped during the response; the output is incomplete",
}


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A stored response, and the input items of its request.

    Attributes:
        owner: the id of the gateway key that owns the response.
        user: the end user that owns the response, as returned by `named_end_user`.
        items: the input items of its request.
        previous: the id of the response that this response continues; None for the first response of a conversation.
        response: the response object of the Responses API, as it was last stored.
        resumable: true if the events are stored too, so that a client can resume the stream.
        last: the final event that the gateway adds if the process that made the response stopped early; otherwise None.
    """

    id: str
    owner: str
    items: Sequence[Any]
    previous: str | None
    response: dict[str, Any]
    resumable: bool = True
    last: SerializedEvent | None = None
    user: str = ""

    @property
    def ended(self) -> bool:
        """True if the response has ended."""
        return self.response["status"] in FINAL


class ResponseStore:
    """Stores responses. All methods raise StoreError if the key-value store fails.

    Args:
        size: maximum size of all stored responses together, in bytes.

    Attributes:
        most: the maximum size of a response object in bytes. The events of one response together have the same maximum.
    """

    def __init__(self, store: Store, size: int) -> None:
        self.store = store
        self.size = size
        self.most = size // 2

    async def put(
        self,
        kept: StoredResponse,
        state: bytes | memoryview,
        events: Sequence[SerializedEvent] = (),
        *,
        ended: bool,
        head: bool = True,
    ) -> bool:
        """Stores a response or its changes. Returns False if they are too large for the store.

        Args:
            state: the JSON of the response object; empty if it hasn't changed.
            events: the events since the last call, in order.
            head: true: store the input items of the request too.
        """
        values: dict[str, bytes] = {}
        if head:
            about: dict[str, Any] = {"previous": kept.previous, "resumable": kept.resumable, "user": kept.user}
            about["maker"] = self.store.name
            values[kept.id] = json_text({**about, "items": list(kept.items)}).encode()
        if state:
            values[f"{kept.id}/state"] = bytes(state)
            if ended:  # ids that a provider made don't say which response they belong to
                ids = {found[1].decode() for found in _ID_IN_JSON.finditer(state)}
                values |= {f"{_ITEM}{item_id}": kept.id.encode() for item_id in ids if kept.id[5:] not in item_id}
        if events:
            values[f"{kept.id}/event/{events[-1].number:012}"] = b"".join([each.data for each in events])
        return await self.store.put(kept.owner, values, ahead=0.0 if ended else _AHEAD)

    async def get(self, response_id: str, owner: str, user: str | None = None) -> StoredResponse | None:
        """Returns a response that belongs to an owner; None if it doesn't exist.

        Args:
            user: the end user that must own the response; None: any end user.
        """
        if not _ID.fullmatch(response_id):
            return None
        state = f"{response_id}/state"
        found = await self.store.get(owner, [response_id, state])
        if len(found) < 2:
            return None
        try:
            head, response = await _parsed(found[response_id]), await _parsed(found[state])
            kept = StoredResponse(
                response_id, owner, head["items"], head["previous"], response, head["resumable"], user=head["user"]
            )
            under_way = not kept.ended and await self._is_made(head["maker"])
        except (ValueError, LookupError, TypeError) as error:
            _logger.warning("%r: the response %s is damaged and can't be used: %s", self.store, response_id, error)
            return None
        if user is not None and kept.user != user:
            return None
        if kept.ended or under_way:
            return kept
        ended, last = interrupted_response(response, await self.events(kept), "failed", error=_STOPPED)
        return replace(kept, response=ended, last=last)

    async def response_of(self, item_id: str, owner: str) -> str | None:
        """Returns the id of the response that contains an item; None if none of the owner's responses contains it."""
        name = f"{_ITEM}{item_id}"
        found = await self.store.get(owner, [name]) if _ID.fullmatch(item_id) else {}
        return found[name].decode() if name in found else None

    async def events(self, kept: StoredResponse, after: int = -1) -> list[SerializedEvent]:
        """Returns a response's events with a `sequence_number` greater than `after`."""
        parts = await self.store.parts(kept.owner, kept.id, f"event/{after:012}" if after >= 0 else "event/")
        found = [
            event
            for part, data in parts.items()
            if part.startswith("event/")
            for event in cut_events(data, int(part.removeprefix("event/")))
        ]
        return [event for event in (*found, *([kept.last] if kept.last else [])) if event.number > after]

    async def delete(self, response_id: str, owner: str) -> bool:
        """Deletes a response. Returns whether it existed."""
        return await self.store.delete(owner, response_id)

    async def cancel(self, kept: StoredResponse) -> None:
        """Asks the process that runs a response to cancel it."""
        await self.store.put(kept.owner, {f"{kept.id}/cancelled": b""}, ahead=_AHEAD)

    async def pending_cancellation(self, kept: StoredResponse) -> Literal["cancelled", "deleted"] | None:
        """Returns "cancelled" or "deleted" if another process has requested this for a response that runs in this
        process; otherwise None.
        """
        cancelled = f"{kept.id}/cancelled"
        try:
            found = await self.store.get(kept.owner, [kept.id, cancelled])
        except StoreError:  # the store is unavailable: look for a cancellation later
            return None
        if cancelled not in found:
            return None
        return "cancelled" if kept.id in found else "deleted"

    async def aclose(self) -> None:
        """Closes the key-value store."""
        await self.store.aclose()

    async def _is_made(self, maker: str) -> bool:
        try:
            return await self.store.runs(maker)
        except StoreError:  # it can't be known
            return True


async def _parsed(data: bytes) -> Any:
    """Parses the JSON of a stored value. Raises ValueError if the JSON is invalid or nested too deeply.

    `from_json` limits the nesting depth, unlike the module `json`, which recurses up to Python's recursion limit.
    """
    return await anyio.to_thread.run_sync(from_json, data) if len(data) > _LARGE else from_json(data)
