"""How servers number the items of Responses streams, and the events that they send for them."""

from __future__ import annotations

import random

from call_streams_responses import EVENTS, NUMBERING, SAYING, Event, Item, Plan, deviation, leave_out, of, some
from call_truth import full

# ---- How items are numbered


@deviation(NUMBERING, 1.5, "others")
def messages_and_reasoning_between(plan: Plan, rng: random.Random) -> None:
    """Other items come before and between calls."""
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("message", "reasoning"))
        plan.items.insert(rng.randint(0, len(plan.items)), Item(0, 0, f"x_{len(plan.items)}", None, "", "Hi", kind))
    for number, item in enumerate(plan.items):
        item.number = item.index = number


@deviation(NUMBERING, 1, "indices")
def gaps(plan: Plan, rng: random.Random) -> None:
    """Output indices count items that are not shown."""
    for item, index in zip(plan.items, sorted(rng.sample(range(1, 30), len(plan.items))), strict=True):
        item.index = index


@deviation(NUMBERING, 1, "indices")
def one_output_index(plan: Plan, rng: random.Random) -> None:
    """All items have one output index; their ids tell them apart."""
    plan.one_index = plan.sequential = True
    for item in plan.items:
        item.index = 0


# ---- What items say


@deviation(SAYING, 1, "call ids")
def one_call_id_for_two_calls(plan: Plan, rng: random.Random) -> None:
    """A `call_id` is used twice; items are told apart by what numbers them."""
    plan.need(len(plan.calls) > 1)
    plan.safe = plan.safe or plan.one_index  # only the item id differs, which some servers draw anew for each event
    for item in rng.sample(plan.calls, rng.randint(2, len(plan.calls))):
        item.call_id = "call_same"


@deviation(SAYING, 0.5, "call ids")
def no_call_id(plan: Plan, rng: random.Random) -> None:
    """Some calls have no `call_id`."""
    plan.safe = plan.safe or plan.one_index
    for item in some(plan, rng):
        item.call_id = rng.choice(("", None))


@deviation(SAYING, 1)
def the_same_call_again(plan: Plan, rng: random.Random) -> None:
    """A model calls one tool twice with the same arguments."""
    plan.need(len(plan.calls) > 1)
    first, *others = rng.sample(plan.calls, rng.randint(2, len(plan.calls)))
    for item in others:
        item.name, item.text = first.name, first.text


@deviation(SAYING, 1)
def no_arguments(plan: Plan, rng: random.Random) -> None:
    """Some calls are of tools without parameters."""
    for item in some(plan, rng):
        item.text = rng.choice(("", "", "{}", " ", "null"))


@deviation(SAYING, 0.7)
def no_item_ids(plan: Plan, rng: random.Random) -> None:
    """Items have no id; their output index tells them apart."""
    plan.need(not plan.one_index)
    for item in plan.items:
        item.id = None
    plan.in_completed = plan.in_completed and [item.index for item in plan.items] == list(range(len(plan.items)))


# ---- Which events an item has


@deviation(EVENTS, 1, "missing")
def only_wholes(plan: Plan, rng: random.Random) -> None:
    """Some calls come as a whole in `output_item.done` alone."""
    for item in some(plan, rng):
        leave_out(item, "added", "delta", "arguments.done")


@deviation(EVENTS, 1, "missing")
def only_in_completed(plan: Plan, rng: random.Random) -> None:
    """Some calls come in `response.completed` alone."""
    plan.need(plan.in_completed)
    plan.ordered = [item.index for item in plan.items] == list(range(len(plan.items)))
    for item in some(plan, rng):
        item.events = []


@deviation(EVENTS, 1, "missing")
def no_deltas(plan: Plan, rng: random.Random) -> None:
    """The arguments of some calls come in `done` events alone."""
    for item in some(plan, rng):
        leave_out(item, "arguments.delta")


@deviation(EVENTS, 1, "missing")
def no_done(plan: Plan, rng: random.Random) -> None:
    """Some calls have no `done` events, or only one of them."""
    plan.need(not plan.one_index)
    for item in some(plan, rng):
        leave_out(item, *rng.choice((("item.done",), ("arguments.done",), ("item.done", "arguments.done"))))


@deviation(EVENTS, 1, "missing")
def no_added(plan: Plan, rng: random.Random) -> None:
    """Some calls are not announced; their name comes with `output_item.done`."""
    plan.need(not plan.one_index)
    for item in some(plan, rng):
        leave_out(item, "added")


@deviation(EVENTS, 1)
def nothing_in_completed(plan: Plan, rng: random.Random) -> None:
    """`response.completed` has no output."""
    plan.need(all(of(item, "added") or of(item, "item.done") for item in plan.items))
    plan.in_completed = False


@deviation(EVENTS, 1.5, "item ids")
def item_ids_drawn_anew(plan: Plan, rng: random.Random) -> None:
    """Each event has another item id; the output index tells items apart."""
    plan.need(not plan.one_index, [item.index for item in plan.items] == list(range(len(plan.items))))
    plan.rotated = True
    for item in plan.items:
        for event in item.events:
            _set_item_id(event, f"r{rng.randrange(10**6)}")
        item.last = {**item.last, "id": f"r{rng.randrange(10**6)}"}


def _set_item_id(event: Event, item_id: str) -> None:
    if "item" in event.payload:
        event.payload["item"] = {**event.payload["item"], "id": item_id}
    else:
        event.payload["item_id"] = item_id


@deviation(EVENTS, 0.7, "item ids")
def another_item_id_inside(plan: Plan, rng: random.Random) -> None:
    """Events inside an item have another id than the item itself; its output index is right."""
    plan.need(not plan.one_index)
    for item in plan.items:
        for event in item.events:
            if "item_id" in event.payload:
                event.payload["item_id"] = f"inside_{item.number}"


@deviation(EVENTS, 1, "item ids")
def deltas_without_item_id(plan: Plan, rng: random.Random) -> None:
    """Events inside an item have its output index alone."""
    plan.need(not plan.one_index)
    for item in plan.items:
        for event in item.events:
            event.payload.pop("item_id", None)


@deviation(EVENTS, 1, "item ids")
def deltas_without_output_index(plan: Plan, rng: random.Random) -> None:
    """Events inside an item have its id alone."""
    plan.need(all(item.id for item in plan.items))
    plan.need(all(of(item, "added") or not of(item, "delta") for item in plan.items))
    for item in plan.items:
        for event in item.events:
            if "item_id" in event.payload:
                del event.payload["output_index"]


@deviation(EVENTS, 0.5, "item ids")
def deltas_with_the_call_id(plan: Plan, rng: random.Random) -> None:
    """Events inside an item have its `call_id` alone. Only that nothing is mixed is sure."""
    plan.sequential = plan.safe = True
    for item in plan.calls:
        for event in item.events:
            if event.payload.pop("item_id", None):
                del event.payload["output_index"]
                event.payload["call_id"] = item.call_id


@deviation(EVENTS, 1)
def call_ids_change(plan: Plan, rng: random.Random) -> None:
    """A whole has another `call_id` than the item was announced with: the first one counts."""
    plan.need(not plan.rotated)
    for item in some(plan, rng):
        if item.id:
            for event in [*of(item, "added"), *of(item, "item.done")][1:]:
                event.payload["item"] = {**event.payload["item"], "call_id": f"other_{item.number}"}
            if item.events:
                item.last = {**item.last, "call_id": f"other_{item.number}"}


@deviation(EVENTS, 0.7)
def call_ids_come_late(plan: Plan, rng: random.Random) -> None:
    """An item is announced without its `call_id`."""
    for item in some(plan, rng):
        for event in of(item, "added"):
            if of(item, "item.done") or plan.in_completed:
                event.payload["item"] = {**event.payload["item"], "call_id": rng.choice(("", None))}


@deviation(EVENTS, 0.7)
def names_come_late(plan: Plan, rng: random.Random) -> None:
    """An item is announced without its name."""
    for item in some(plan, rng):
        for event in of(item, "added"):
            if of(item, "item.done") or plan.in_completed:
                event.payload["item"] = {**event.payload["item"], "name": rng.choice(("", None))}


@deviation(EVENTS, 1, "wholes")
def empty_wholes(plan: Plan, rng: random.Random) -> None:
    """Wholes are empty where deltas had arguments: they replace nothing."""
    nothing = rng.choice(("", "", "{}", None))
    for item in some(plan, rng):
        if full(item.text) and of(item, "delta"):
            for event in of(item, "arguments.done"):
                event.payload["arguments"] = nothing
            for event in of(item, "item.done"):
                event.payload["item"] = {**event.payload["item"], "arguments": nothing}
            item.last = {**item.last, "arguments": nothing}


@deviation(EVENTS, 0.7, "wholes")
def one_whole_is_empty(plan: Plan, rng: random.Random) -> None:
    """One of the wholes is empty, the others are not."""
    plan.need(plan.in_completed)
    for item in some(plan, rng):
        if full(item.text):
            for event in rng.sample(of(item, "done"), min(1, len(of(item, "done")))):
                if "item" in event.payload:
                    event.payload["item"] = {**event.payload["item"], "arguments": ""}
                else:
                    event.payload["arguments"] = ""


@deviation(EVENTS, 1, "wholes")
def deltas_lose_their_beginning(plan: Plan, rng: random.Random) -> None:
    """The first delta lacks the opening brace: the whole is right."""
    for item in some(plan, rng):
        deltas = of(item, "arguments.delta")
        if full(item.text) and deltas and (of(item, "arguments.done") or of(item, "item.done") or plan.in_completed):
            deltas[0].payload["delta"] = deltas[0].payload["delta"][1:]


@deviation(EVENTS, 1, "wholes")
def added_is_whole(plan: Plan, rng: random.Random) -> None:
    """An item is announced with all of its arguments, and the deltas repeat them."""
    for item in some(plan, rng):
        for event in of(item, "added"):
            if of(item, "arguments.done") or of(item, "item.done") or plan.in_completed:
                event.payload["item"] = {**event.payload["item"], "arguments": item.text}


@deviation(EVENTS, 0.5)
def name_with_the_arguments(plan: Plan, rng: random.Random) -> None:
    """`function_call_arguments.done` has the name."""
    for item in plan.calls:
        for event in of(item, "arguments.done"):
            event.payload["name"] = item.name


@deviation(EVENTS, 0.7)
def empty_deltas(plan: Plan, rng: random.Random) -> None:
    """Deltas with no text."""
    for item in plan.calls:
        if deltas := of(item, "arguments.delta"):
            at = item.events.index(rng.choice(deltas))
            first = item.events[at]
            item.events.insert(at, Event(first.type, item, {**first.payload, "delta": ""}))


@deviation(EVENTS, 0.7)
def item_done_before_its_arguments(plan: Plan, rng: random.Random) -> None:
    """`output_item.done` comes before `function_call_arguments.done`."""
    plan.need(not plan.one_index)
    for item in some(plan, rng):
        item.events.sort(key=lambda event: event.type.endswith("arguments.done"))


@deviation(EVENTS, 0.5)
def missing_in_completed(plan: Plan, rng: random.Random) -> None:
    """`response.completed` lacks a call that was sent before. Only that it is not dropped silently is sure."""
    plan.need(plan.in_completed, len(plan.calls) > 1, all(item.events for item in plan.items))
    plan.safe = True
    plan.left_out = rng.choice(plan.calls)


@deviation(EVENTS, 0.5, "indices")
def index_of_another_type(plan: Plan, rng: random.Random) -> None:
    """Output indices are written as text or as a float."""
    kind = rng.choice((str, float))
    for event in [event for item in plan.items for event in item.events if "output_index" in event.payload]:
        event.payload["output_index"] = kind(event.payload["output_index"])
