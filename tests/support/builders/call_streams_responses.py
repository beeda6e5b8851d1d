"""Random Responses streams whose bytes say which event belongs to which item.

A plan begins as items with an item id and an output index each, and the events that a well-behaved server sends for
them. Deviations change how items are numbered (1), what they say (2), their events (3), the order of events (4), and
how the stream ends (5). What is right follows from the items: an item is known by its id and by its output index, its
`call_id` is only its name, and wholes have the last word over pieces unless they are empty.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from call_truth import NAMES, Declined, Deviations, Expected, Stream, Want, arguments, cut, interleaved, parse

deviations: Deviations[Plan] = Deviations()
deviation = deviations.add

NUMBERING, SAYING, EVENTS, ORDER, COUNTING, ENDING, AFTER = range(1, 8)


@dataclass(eq=False)
class Item:
    """An item of the output: a call, or a message or reasoning if it has no name."""

    number: int  # its place in `response.completed`
    index: int
    id: str | None
    call_id: str | None
    name: str
    text: str
    kind: str = "function_call"
    events: list[Event] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)  # what `response.completed` says of it

    def whole(self, text: str, **members: Any) -> dict[str, Any]:
        """The item as an object."""
        if self.kind == "message":
            content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
            return {"type": "message", "id": self.id, "role": "assistant", "content": content, **members}
        if self.kind == "reasoning":
            return {"type": "reasoning", "id": self.id, "summary": [], **members}
        made = {"type": self.kind, "id": self.id, "call_id": self.call_id, "name": self.name, "arguments": text}
        return {**{key: value for key, value in made.items() if value is not None}, "status": "completed", **members}


@dataclass(eq=False)
class Event:
    """One event of an item, or of none."""

    type: str
    item: Item | None
    payload: dict[str, Any]
    text: str = ""


@dataclass
class Plan:
    """A stream that is being made."""

    rng: random.Random
    items: list[Item]
    sequential: bool = False
    in_completed: bool = True  # whether `response.completed` has the output
    left_out: Item | None = None  # not in `response.completed`
    rotated: bool = False  # item ids say nothing
    one_index: bool = False  # output indices say nothing
    events: list[Event] = field(default_factory=list)
    numbers: str = "none"
    named: bool = True  # each event has an `event:` line
    ends: bool = False
    error: str | None = None
    finish: str | None = None
    ordered: bool = True
    safe: bool = False
    warnings: set[str] = field(default_factory=set)
    interrupted: str | None = None
    tail: bytes = b""
    raw: list[bytes] = field(default_factory=list)  # behind the last event

    @property
    def calls(self) -> list[Item]:
        """The items that are calls."""
        return [item for item in self.items if item.kind == "function_call"]

    def need(self, *conditions: object) -> None:
        """Declines the deviation unless all of these hold."""
        if not all(conditions):
            raise Declined

    def expected(self) -> Expected:
        """What is right."""
        if self.error:
            return Expected(self.error)
        wants = [
            Want(self.call_id(item), item.name, item.text, item.text.strip() not in ("", "null"))
            for item in sorted(self.calls, key=lambda item: item.index)
        ]
        if self.safe:
            return Expected(None, wants, safe=True)
        if self.finish:
            return Expected(None, [], self.finish, {"calls_dropped"} if wants else set())
        return Expected(None, wants, "tool_calls" if wants else "stop", self.warnings, self.ordered)

    def call_id(self, item: Item) -> str | None:
        """The first `call_id` of an item that is not empty."""
        said = [
            event.payload["item"].get("call_id")
            for event in self.events
            if event.item is item and "item" in event.payload
        ]
        return next((call_id for call_id in [*said, item.last.get("call_id")] if call_id), None)


def make(seed: str, count: int, names: tuple[str, ...]) -> Stream:
    """The stream with so many calls and these deviations."""
    rng = random.Random(seed)
    own = [random.Random(f"{seed}:{number}") for number in range(count)]
    items = [
        Item(number, number, f"fc_{number}{each.randrange(100)}", f"call_{chr(97 + number)}", each.choice(NAMES), "")
        for number, each in enumerate(own)
    ]
    for item, each in zip(items, own, strict=True):
        item.text = arguments(each)
        if item.text == "[]":
            item.text = "[1]"  # an empty whole says nothing, and readers may differ on whether that is an empty one
    if not items:
        items.append(Item(0, 0, "msg_0", None, "", "Hm", "message"))
    plan = Plan(rng, items)
    phases = {name: deviations.all[name].phase for name in names}

    def apply(first: int, last: int) -> tuple[str, ...]:
        return deviations.apply(tuple(name for name in names if first <= phases[name] <= last), plan, seed)

    used = apply(NUMBERING, SAYING)
    for item in plan.items:
        _events(item, random.Random(f"{seed}:cut:{item.number}"))
    used += apply(EVENTS, EVENTS)
    lists = [item.events for item in plan.items]
    if plan.sequential or rng.random() < 0.3:
        plan.events = [event for each in lists for event in each]
    else:
        plan.events = interleaved(lists, rng)
    plan.events.insert(0, Event("response.created", None, {"response": {"id": "resp_1", "output": []}}))
    used += apply(ORDER, ENDING)
    if not plan.ends:
        end(plan, "completed")
    used += apply(AFTER, AFTER)
    expected = plan.expected()
    expected.clean = not used and all(parse(item.text)[1] is None for item in plan.calls)
    ascii_only = rng.random() < 0.3
    body = b"".join([*(encode(plan, event, ascii_only) for event in plan.events), plan.tail, *plan.raw])
    return Stream(body, plan.interrupted, expected, used)


def encode(plan: Plan, event: Event, ascii_only: bool) -> bytes:
    """The bytes of an event."""
    payload = {"type": event.type, **event.payload}
    line = f"event: {event.type}\n".encode() if plan.named else b""
    return line + b"data: " + json.dumps(payload, ensure_ascii=ascii_only).encode() + b"\n\n"


def _events(item: Item, rng: random.Random) -> None:
    place: dict[str, Any] = {"output_index": item.index}
    about: dict[str, Any] = {"item_id": item.id, **place}

    def add(kind: str, text: str = "", /, **payload: Any) -> None:
        item.events.append(Event(f"response.{kind}", item, payload, text))

    add("output_item.added", **place, item=item.whole("", status="in_progress"))
    if item.kind == "function_call":
        for part in cut(item.text, rng):
            add("function_call_arguments.delta", part, **about, delta=part)
        add("function_call_arguments.done", **about, arguments=item.text)
    elif item.kind == "message":
        add("output_text.delta", **about, content_index=0, delta=item.text)
        add("output_text.done", **about, content_index=0, text=item.text)
    add("output_item.done", **place, item=item.whole(item.text))
    item.last = item.whole(item.text)


def end(plan: Plan, how: str, **members: Any) -> None:
    """Adds the terminal event."""
    items = sorted(plan.items, key=lambda item: item.number)
    output = [item.last for item in items if plan.in_completed and item is not plan.left_out]
    usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    response = {"id": "resp_1", "status": how, "output": output, "usage": usage, **members}
    plan.events.append(Event(f"response.{how}", None, {"response": response}))
    plan.ends = True


def of(item: Item, kind: str) -> list[Event]:
    """The events of an item whose type ends with this."""
    return [event for event in item.events if event.type.endswith(kind)]


def leave_out(item: Item, *kinds: str) -> None:
    """Leaves out the events of an item whose types end with one of these."""
    item.events = [event for event in item.events if not event.type.endswith(kinds)]


def some(plan: Plan, rng: random.Random) -> list[Item]:
    """At least one of the calls, if there is any."""
    return rng.sample(plan.calls, rng.randint(1, len(plan.calls))) if plan.calls else []
