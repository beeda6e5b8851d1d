"""In which order the events of Responses streams come, how they are counted, and how such streams end."""

from __future__ import annotations

import random

from call_streams_responses import AFTER, ENDING, ORDER, Event, Item, Plan, deviation, encode, end, of

ERROR = {"type": "server_error", "code": "server_error", "message": "boom"}


# ---- In which order


@deviation(ORDER, 1)
def items_in_any_order(plan: Plan, rng: random.Random) -> None:
    """Items come one after the other, not in the order of their output index."""
    plan.need(not plan.one_index)
    order = rng.sample(plan.items, len(plan.items))
    others = [event for event in plan.events if event.item is None]
    plan.events = others + [event for item in order for event in item.events]


@deviation(ORDER, 1)
def other_events(plan: Plan, rng: random.Random) -> None:
    """Events that say nothing about a call come in between."""
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("response.in_progress", "response.queued", "keepalive", "response.something.new"))
        plan.events.insert(rng.randint(0, len(plan.events)), Event(kind, None, {}))


@deviation(ORDER, 0.5)
def not_created(plan: Plan, rng: random.Random) -> None:
    """The first event is missing."""
    plan.events = [event for event in plan.events if event.type != "response.created"]


@deviation(ORDER, 0.7)
def without_event_lines(plan: Plan, rng: random.Random) -> None:
    """The type is in the payload alone."""
    plan.named = False


# ---- How the stream ends


@deviation(ENDING, 1, "ending")
def done_behind_completed(plan: Plan, rng: random.Random) -> None:
    """A gateway adds `[DONE]`."""
    end(plan, "completed")
    plan.raw.append(b"data: [DONE]\n\n")


@deviation(ENDING, 0.5, "ending")
def done_without_completed(plan: Plan, rng: random.Random) -> None:
    """`[DONE]` comes in place of the terminal event. Only that nothing is mixed is sure."""
    plan.need(all(_said_whole(plan, item, without_completed=True) for item in plan.calls))
    plan.safe = plan.ends = True
    plan.raw.append(b"data: [DONE]\n\n")


@deviation(ENDING, 2, "ending")
def incomplete(plan: Plan, rng: random.Random) -> None:
    """The answer reached a limit: no calls."""
    reason, plan.finish = rng.choice((("max_output_tokens", "length"), ("content_filter", "content_filter")))
    end(plan, "incomplete", incomplete_details={"reason": reason})


@deviation(ENDING, 1, "ending")
def failed(plan: Plan, rng: random.Random) -> None:
    """The answer failed, at its end or in the middle."""
    del plan.events[rng.randint(0, len(plan.events)) :]
    plan.error = "UpstreamError"
    end(plan, "failed", error=ERROR)


@deviation(ENDING, 1, "ending")
def error_event(plan: Plan, rng: random.Random) -> None:
    """An error event, flat or nested, comes anywhere."""
    payload = rng.choice((ERROR, {"error": ERROR}))
    at = rng.randint(0, len(plan.events))
    plan.events.insert(at, Event("error", None, {**payload, "type": "error"}))
    plan.error = "UpstreamError"
    end(plan, "completed")


@deviation(ENDING, 2, "ending")
def broken_off(plan: Plan, rng: random.Random) -> None:
    """The body ends, or the connection breaks, behind any event before the terminal one, or inside it."""
    at = rng.randint(min(1, len(plan.events)), len(plan.events))
    plan.need(any(event.item and event.item.kind != "reasoning" for event in plan.events[:at]))
    left = plan.events[at:]
    del plan.events[at:]
    if left and rng.random() < 0.4:
        half = encode(plan, left[0], True)
        plan.tail = half[: rng.randrange(half.index(b"data: ") + 8, len(half) - 3)]
    plan.error, plan.interrupted, plan.ends = "IncompleteStreamError", rng.choice((None, "reset")), True


@deviation(ENDING, 0.7, "ending")
def reset_behind_completed(plan: Plan, rng: random.Random) -> None:
    """The connection breaks behind the terminal event."""
    end(plan, "completed")
    plan.interrupted = "reset"


@deviation(ENDING, 0.7, "ending")
def error_behind_completed(plan: Plan, rng: random.Random) -> None:
    """An error behind the terminal event does not take the answer back."""
    end(plan, "completed")
    plan.events.append(Event("error", None, {"error": ERROR}))


# ---- How events are numbered


@deviation(AFTER, 2, "sequence")
def sequence_numbers(plan: Plan, rng: random.Random) -> None:
    """Events are numbered from 0, or from a later number."""
    _number(plan, rng.choice((0, 0, 1, 17)))


def _number(plan: Plan, first: int = 0) -> None:
    for number, event in enumerate(plan.events):
        event.payload["sequence_number"] = first + number


@deviation(AFTER, 0.7, "sequence")
def one_sequence_number(plan: Plan, rng: random.Random) -> None:
    """All events have one sequence number: it says nothing."""
    for event in plan.events:
        event.payload["sequence_number"] = 0


@deviation(AFTER, 1, "sequence")
def repeated_events(plan: Plan, rng: random.Random) -> None:
    """A stream that was resumed repeats numbered events: they count once."""
    plan.need(not plan.error, all(event.type != "error" for event in plan.events))
    _number(plan)
    at = rng.randint(1, len(plan.events))
    first = rng.randint(max(0, at - 6), at - 1)
    plan.events[at:at] = plan.events[first:at]


@deviation(AFTER, 1, "sequence")
def lost_delta(plan: Plan, rng: random.Random) -> None:
    """A numbered event is missing: a whole says what was in it, or the call is not run."""
    deltas = [event for event in plan.events if event.type.endswith("arguments.delta") and event.payload["delta"]]
    plan.need(deltas, not plan.error, not plan.finish, not plan.safe)
    _number(plan)
    lost = rng.choice(deltas)
    plan.need(lost is not plan.events[0])  # nobody knows which number is the first
    assert lost.item is not None
    said = _said_whole(plan, lost.item)
    plan.need(said or not (of(lost.item, "done") or plan.in_completed))  # an empty whole could be what they are
    plan.events.remove(lost)
    plan.warnings.add("missing_event")
    plan.safe = not said


def _said_whole(plan: Plan, item: Item, without_completed: bool = False) -> bool:
    wholes = [item.last.get("arguments")] if plan.in_completed and not without_completed else []
    for event in plan.events:
        if event.item is item and event.type.endswith("done"):
            wholes.append(event.payload.get("arguments") or (event.payload.get("item") or {}).get("arguments"))
    return item.text in wholes
