"""The events of a kept answer: as they are written to clients, and what they say when the answer has no end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ...adapters.emitting import event
from ...engine import SSEDecoder
from ...values import Limits

__all__ = ["FINAL", "EventReader", "KeptEvent", "broken_off"]

FINAL = ("completed", "incomplete", "failed", "cancelled")
_TURNS = ("created", "queued", "in_progress", *FINAL)
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
class KeptEvent:
    """One event.

    Attributes:
        number: its `sequence_number`.
        data: as it is written to clients, with the comments before it.
        last: whether the answer ends with it.
    """

    number: int
    data: bytes
    last: bool = False

    @property
    def comments(self) -> list[str]:
        """The comments before the event: the warnings, at the end of an answer."""
        blocks = self.data.split(b"\n\n")
        return [block[2:].decode() for block in blocks if block.startswith(b": ")]

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON of the event."""
        decoder = SSEDecoder(Limits())
        read: dict[str, Any] = json.loads(next(iter(decoder.feed(self.data))).data)
        return read


class EventReader:
    """Cuts what the gateway's emitter writes into its events. Most of them are not parsed, only counted.

    Args:
        about: members that the response gets, because the emitter does not know that it is kept.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._about = about
        self._number = 0

    def feed(self, data: bytes) -> Iterator[tuple[KeptEvent, dict[str, Any] | None]]:
        """Yields the events in whole events, each with the state of the response if it tells one."""
        comments = b""
        for block in data.split(b"\n\n"):
            if not block.startswith(b"event: "):
                comments += block + b"\n\n" if block and b"keepalive" not in block else b""
                continue
            turn = block[7 : block.index(b"\n")].decode().removeprefix("response.")
            response: dict[str, Any] | None = None
            if turn in _TURNS:
                payload = KeptEvent(0, block + b"\n\n").payload
                payload["response"] = response = {**payload["response"], **self._about}
                block = event(payload, payload["type"]).removesuffix(b"\n\n")
            yield KeptEvent(self._number, comments + block + b"\n\n", turn in FINAL), response
            comments, self._number = b"", self._number + 1


def broken_off(
    response: Mapping[str, Any], events: Iterable[KeptEvent], status: str, **members: Any
) -> tuple[dict[str, Any], KeptEvent]:
    """Returns a response that has no end as far as it came, and the event that ends it.

    Items that were under way are `incomplete`: nothing in them, a call least of all, can be taken for whole.

    Args:
        members: what else there is to say of the end.
    """
    known = list(events)
    ended = {**response, "status": status, "output": output_so_far(known), **members}
    number = known[-1].number + 1 if known else 0
    kind = f"response.{status}"
    return ended, KeptEvent(number, event({"type": kind, "sequence_number": number, "response": ended}, kind), True)


def output_so_far(events: Iterable[KeptEvent]) -> list[dict[str, Any]]:
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
