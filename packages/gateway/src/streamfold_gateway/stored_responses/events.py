"""The events of a kept answer: as they were written to clients, and what they say when the answer has no end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from streamfold.serving import sse_event

FINAL = ("completed", "incomplete", "failed", "cancelled")
# The pieces of an item: where in the item they go, and the members of the event that say so.
_PIECES = {
    "response.output_text.delta": ("content", "content_index", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "text"),
}
_PARTS = {
    "response.content_part.added": "content",
    "response.reasoning_summary_part.added": "summary",
}
_MEMBERS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event.

    Attributes:
        number: its `sequence_number`.
        data: as it is written to clients, with the comments before it.
    """

    number: int
    data: bytes

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON of the event."""
        read: dict[str, Any] = json.loads(self.data[self.data.rindex(b"\ndata: ") + 7 :])
        return read


def cut_events(data: bytes, last: int) -> Iterator[StoredEvent]:
    """Yields the events in consecutive events of which the last one has that number."""
    found, comments = list[bytes](), b""
    for block in data.split(b"\n\n"):
        if block.startswith(b"event: "):
            found.append(comments + block + b"\n\n")
            comments = b""
        elif block:
            comments += block + b"\n\n"
    for at, block in enumerate(found):
        yield StoredEvent(last - len(found) + 1 + at, block)


def interrupted_response(
    response: Mapping[str, Any], events: Iterable[StoredEvent], status: str, **members: Any
) -> tuple[dict[str, Any], StoredEvent]:
    """Returns a response that has no end as far as it came, and the event that ends it.

    Items that were under way are `incomplete`: nothing in them, a call least of all, can be taken for whole.

    Args:
        members: what else there is to say of the end.
    """
    known = list(events)
    ended = {**response, "status": status, "output": _output_so_far(known), **members}
    number = known[-1].number + 1 if known else 0
    kind = f"response.{status}"
    return ended, StoredEvent(number, sse_event({"type": kind, "sequence_number": number, "response": ended}, kind))


def _output_so_far(events: Iterable[StoredEvent]) -> list[dict[str, Any]]:
    """Returns the items that have begun, with what has come of them."""
    items: dict[int, dict[str, Any]] = {}
    done: set[int] = set()
    texts: dict[tuple[Any, ...], list[str]] = {}
    for kept in events:
        payload = kept.payload
        kind, at = payload["type"], int(payload.get("output_index", -1))
        if kind in ("response.output_item.added", "response.output_item.done"):
            items[at] = deepcopy(payload["item"])
            done |= {at} if kind.endswith("done") else set()
        elif kind in _PARTS:
            items[at].setdefault(_PARTS[kind], []).append(deepcopy(payload["part"]))
        elif kind in _PIECES:
            container, number, member = _PIECES[kind]
            texts.setdefault((at, container, payload[number], member), []).append(payload["delta"])
        elif kind in _MEMBERS:
            texts.setdefault((at, _MEMBERS[kind]), []).append(payload["delta"])
    for (at, *path), pieces in texts.items():
        if at not in done:
            place: Any = items[at]
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = "".join(pieces)
    for at, item in items.items():
        if at not in done and "status" in item:
            item["status"] = "incomplete"
    return [items[at] for at in sorted(items)]
