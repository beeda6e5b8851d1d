"""In which events the pieces of Chat Completions streams come, and how such streams end."""

from __future__ import annotations

import json
import random
from typing import Any

from call_streams_chat import (
    AFTER,
    DONE,
    ENDING,
    EVENTS,
    ORDER,
    Event,
    Piece,
    Plan,
    deviation,
    entry,
    says,
    says_anything,
)
from call_truth import joined, whole

ERROR = {"error": {"message": "boom", "type": "server_error"}}
CUT_WORDS = {"length": "length", "content_filter": "content_filter", "max_length": "length", "timeout": "length"}


# ---- In which order, and what is in one event


@deviation(ORDER, 1.5)
def one_after_the_other(plan: Plan, rng: random.Random) -> None:
    """Calls come one after the other, in any order of their indices."""
    order = rng.sample(plan.calls, len(plan.calls)) if plan.by == "index" else plan.calls
    by_call = [[e for e in plan.events if e.pieces[0].call is call] for call in order]
    others = [event for event in plan.events if event.pieces[0].call is None]
    plan.events = [event for each in by_call for event in each] + others


@deviation(ORDER, 1)
def all_heads_first(plan: Plan, rng: random.Random) -> None:
    """Every call is opened before any goes on."""
    plan.need(plan.by in ("index", "id"))
    heads = [event for event in plan.events if event.pieces[0] in [call.pieces[0] for call in plan.calls]]
    plan.events = heads + [event for event in plan.events if event not in heads]


@deviation(EVENTS, 2, "grouping")
def several_entries_in_an_event(plan: Plan, rng: random.Random) -> None:
    """An event holds several entries, of one call or of many."""
    plan.need(plan.by != "legacy")
    grouped: list[Event] = []
    share = rng.choice((0.3, 0.6, 1))
    for event in plan.events:
        if grouped and rng.random() < share:
            grouped[-1].pieces += event.pieces
        else:
            grouped.append(event)
    plan.events = grouped


@deviation(EVENTS, 1.5)
def text_between(plan: Plan, rng: random.Random) -> None:
    """Text and reasoning come before, between and inside calls."""
    for _ in range(rng.randint(1, 4)):
        delta: dict[str, Any] = rng.choice(
            (
                *({"content": "\n"}, {"content": "Wait"}, {"content": ""}, {"content": None}),
                *({"reasoning_content": "so"}, {"reasoning": "so"}, {"refusal": "No."}),
            )
        )
        if (events := [event for event in plan.events if not event.raw]) and rng.random() < 0.4:
            rng.choice(events).delta = delta
        else:
            plan.events.insert(rng.randint(0, len(plan.events)), Event(delta=delta))


@deviation(EVENTS, 0.5)
def empty_events(plan: Plan, rng: random.Random) -> None:
    """Events with an empty delta, a null list, no choices, or a comment."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(plan.events))
        made = rng.choice(
            (
                *(Event(delta={"tool_calls": None}), Event(delta={"tool_calls": []}), Event(raw=b": ping\n\n")),
                *(Event(delta={"role": "assistant"}), Event(raw=b'data: {"id":"c1","choices":[]}\n\n')),
            )
        )
        plan.events.insert(at, made)


@deviation(EVENTS, 0.5)
def another_choice(plan: Plan, rng: random.Random) -> None:
    """Calls of another choice have the same indices and are not part of the answer."""
    plan.need(plan.calls, plan.by != "legacy")
    for call in rng.sample(plan.calls, 1):
        delta = {"tool_calls": [entry(call, "other", "other", '{"other":1}', type="function")]}
        payload = {"choices": [{"index": 1, "delta": delta, "finish_reason": None}]}
        raw = b"data: " + json.dumps(payload).encode() + b"\n\n"
        plan.events.insert(rng.randint(1, len(plan.events)), Event(raw=raw, warning="extra_choice"))


# ---- How the stream ends


def _end(plan: Plan, *events: Event) -> None:
    plan.events += events
    plan.ends = True


def _last(plan: Plan) -> Event:
    plan.need(plan.events, not plan.events[-1].raw)
    return plan.events[-1]


@deviation(ENDING, 2, "ending")
def reason_with_the_last_event(plan: Plan, rng: random.Random) -> None:
    """The finish reason is in the event of the last fragment."""
    _last(plan).finish = rng.choice(("tool_calls", "stop"))
    _end(plan, DONE)


@deviation(ENDING, 1, "ending")
def reason_stop(plan: Plan, rng: random.Random) -> None:
    """The finish reason is `stop` although there are calls."""
    _end(plan, Event(finish="stop"), DONE)


@deviation(ENDING, 1, "ending")
def no_done(plan: Plan, rng: random.Random) -> None:
    """The body ends behind the finish reason."""
    _end(plan, Event(finish="tool_calls"))


@deviation(ENDING, 1, "ending")
def reset_behind_the_reason(plan: Plan, rng: random.Random) -> None:
    """The connection breaks behind the finish reason."""
    plan.interrupted = "reset"
    plan.warnings.add("interrupted_after_finish")
    _end(plan, Event(finish="tool_calls"))


@deviation(ENDING, 1, "ending")
def done_without_reason(plan: Plan, rng: random.Random) -> None:
    """`[DONE]` comes without a finish reason: only whole objects are handed out."""
    plan.end, plan.finish = "whole", "unknown"
    plan.warnings.add("missing_finish_reason")
    _end(plan, DONE)


@deviation(ENDING, 1, "ending")
def unknown_reason(plan: Plan, rng: random.Random) -> None:
    """The finish reason is a word that nobody knows: only whole objects are handed out."""
    plan.end, plan.finish = "whole", "unknown"
    _end(plan, Event(finish="banana"), DONE)


@deviation(ENDING, 1.5, "ending")
def early_reason(plan: Plan, rng: random.Random) -> None:
    """A finish reason comes before the last fragments, and perhaps another one behind them."""
    plan.events.insert(rng.randint(0, len(plan.events)), Event(finish=rng.choice(("tool_calls", "stop"))))
    _end(plan, *[Event(finish="tool_calls")] * rng.randint(0, 1), DONE)


@deviation(ENDING, 0.7, "ending")
def reason_on_each(plan: Plan, rng: random.Random) -> None:
    """Each event has a finish reason."""
    for event in plan.events:
        event.finish = "tool_calls"
    _end(plan, Event(finish="stop"), DONE)


@deviation(ENDING, 1.5, "ending")
def truncated(plan: Plan, rng: random.Random) -> None:
    """The answer reached a limit: no calls, whatever reason comes later."""
    word = rng.choice(list(CUT_WORDS))
    plan.end, plan.finish = "drop", CUT_WORDS[word]
    later = rng.choice(([], [], [Event(finish="tool_calls")], [Event(finish="stop")]))
    _end(plan, Event(finish=word), *later, DONE)


def _place_to_cut(plan: Plan, rng: random.Random) -> int:
    """Any place behind the first event that says something."""
    said = [bool(e.delta.get("content") or any(p.text or p.entry.get("id") for p in e.pieces)) for e in plan.events]
    plan.need(any(said))
    return rng.randint(said.index(True) + 1, len(plan.events))


@deviation(ENDING, 2, "ending")
def broken_off(plan: Plan, rng: random.Random) -> None:
    """The body ends, or the connection breaks, behind any event before the finish reason."""
    del plan.events[_place_to_cut(plan, rng) :]
    plan.end, plan.interrupted = "IncompleteStreamError", rng.choice((None, "reset"))
    _end(plan)


@deviation(ENDING, 1, "ending")
def broken_off_inside(plan: Plan, rng: random.Random) -> None:
    """The body ends inside an event before the finish reason."""
    at = _place_to_cut(plan, rng)
    plan.need(at < len(plan.events) and not plan.events[at].raw)
    half = plan.events[at].encode(plan.halves, plan.by == "legacy")
    del plan.events[at:]
    plan.tail = half[: rng.randrange(8, len(half) - 3)]
    plan.end, plan.interrupted = "IncompleteStreamError", rng.choice((None, "reset"))
    _end(plan)


@deviation(ENDING, 1, "ending")
def broken_off_behind_an_early_reason(plan: Plan, rng: random.Random) -> None:
    """More comes behind a finish reason, and then the connection breaks: no calls if one of them is half there."""
    _break_behind_a_reason(plan, rng)
    plan.interrupted = "reset"
    plan.warnings.add("interrupted_after_finish")


@deviation(ENDING, 1, "ending")
def ended_behind_an_early_reason(plan: Plan, rng: random.Random) -> None:
    """More comes behind a finish reason, and then the body ends: no calls if one of them is half there."""
    _break_behind_a_reason(plan, rng)


@deviation(ENDING, 0.5, "ending")
def error_behind_an_early_reason(plan: Plan, rng: random.Random) -> None:
    """More comes behind a finish reason, and then an error: no calls if one of them is half there."""
    _break_behind_a_reason(plan, rng)
    plan.events.append(Event(rest=ERROR, warning="error_after_finish"))
    if plan.end != "deliver":
        plan.end = "IncompleteStreamError|UpstreamError"


def _break_behind_a_reason(plan: Plan, rng: random.Random) -> None:
    reason_at = rng.randint(0, len(plan.events))
    end = rng.randint(reason_at, len(plan.events))
    before, late = plan.events[:reason_at], plan.events[reason_at:end]
    plan.events = [*before, Event(finish="tool_calls"), *late]
    _end(plan)
    _judge_break(plan, before, late)


def _judge_break(plan: Plan, before: list[Event], late: list[Event]) -> None:
    early = [piece for event in before for piece in event.pieces if piece.call and says_anything(piece)]
    behind = [piece for event in late for piece in event.pieces if piece.call and says_anything(piece)]
    begun = {piece.call for piece in early}
    named = {piece.call for piece in early + behind if says(piece, "name")}
    texts = {call: joined([p.text for p in early + behind if p.call is call]) for call in plan.calls}
    grown = [piece.call for piece in behind if piece.call and (piece.text or piece.call not in begun)]
    touched = [piece.call for piece in behind if piece.call and piece.call not in grown]
    if any(not whole(texts[call]) or call not in named for call in grown if call.exact):
        plan.end = "IncompleteStreamError"
        return
    unclear = [call for call in touched if not whole(texts[call])]
    unclear += [call for call in grown if not call.exact]
    unclear += [call for call in plan.calls if not call.exact and not whole(texts[call])]
    plan.safe = plan.safe or bool(unclear) or not begun <= named


@deviation(ENDING, 1, "ending")
def error_before_the_reason(plan: Plan, rng: random.Random) -> None:
    """An error object comes before the finish reason."""
    raw = rng.choice((b"", b"event: error\n")) + b"data: " + json.dumps(ERROR).encode() + b"\n\n"
    plan.events.insert(rng.randint(0, len(plan.events)), Event(raw=raw))
    plan.end = "UpstreamError"
    _end(plan, *rng.choice(([], [DONE], [Event(finish="tool_calls"), DONE])))


@deviation(ENDING, 0.7, "ending")
def error_in_the_event_of_the_reason(plan: Plan, rng: random.Random) -> None:
    """An error comes with the finish reason, or as one: the error wins."""
    plan.end = "UpstreamError"
    _end(plan, rng.choice((Event(finish="tool_calls", rest=ERROR), Event(finish="error"))), DONE)


@deviation(ENDING, 0.7, "ending")
def error_behind_the_reason(plan: Plan, rng: random.Random) -> None:
    """An error behind the finish reason does not take the answer back."""
    plan.warnings.add("error_after_finish")
    _end(plan, Event(finish="tool_calls"), Event(raw=b"data: " + json.dumps(ERROR).encode() + b"\n\n"))


@deviation(AFTER, 1)
def usage(plan: Plan, rng: random.Random) -> None:
    """Usage comes with the finish reason, or behind it without choices."""
    plan.need(DONE in plan.events)
    tokens = {"usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}
    at = plan.events.index(DONE)
    if at and plan.events[at - 1].finish and rng.random() < 0.5:
        plan.events[at - 1].rest = {**tokens, **plan.events[at - 1].rest}
    else:
        plan.events.insert(at, Event(raw=b"data: " + json.dumps({"choices": [], **tokens}).encode() + b"\n\n"))


@deviation(AFTER, 0.5)
def more_behind_done(plan: Plan, rng: random.Random) -> None:
    """What comes behind `[DONE]` is no part of the answer."""
    plan.need(plan.events[-1] is DONE)
    late = {"index": 0, "id": "late", "function": {"name": "late", "arguments": "{}"}}
    plan.events.append(Event([Piece(None, late)]))
