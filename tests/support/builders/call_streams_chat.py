"""Random Chat Completions streams whose bytes say which fragment belongs to which call.

A plan begins as calls with an index each. Deviations then change it in phases: how calls are numbered (1), what they
say (2), which pieces they come in (3), in which order pieces arrive (4), what is in one event (5), how the stream ends
(6), and what else comes at its end (7). What is right follows from the pieces alone: see `Plan.expected`. The
deviations of the first three phases are in `call_streams_chat_shapes`, the others in `call_streams_chat_ends`.
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field
from typing import Any

from call_truth import (
    NAMES,
    Declined,
    Deviations,
    Expected,
    Stream,
    Want,
    arguments,
    cut,
    interleaved,
    parse,
    whole,
)
from call_truth import joined as join

deviations: Deviations[Plan] = Deviations()
deviation = deviations.add

NUMBERING, SAYING, PIECES, ORDER, EVENTS, ENDING, AFTER = range(1, 8)


@dataclass(eq=False)
class Call:
    """A call as the model means it."""

    index: Any
    id: str | None
    name: str
    text: str
    pieces: list[Piece] = field(default_factory=list)
    exact: bool = True  # what is sent is the text itself, without anything that has to be repaired


@dataclass(eq=False)
class Piece:
    """One entry of `tool_calls`, and what it adds to the arguments of its call."""

    call: Call | None
    entry: dict[str, Any]
    text: str = ""


@dataclass(eq=False)
class Event:
    """One event: its pieces, and whatever else is in it."""

    pieces: list[Piece] = field(default_factory=list)
    delta: dict[str, Any] = field(default_factory=dict)
    finish: str | None = None
    rest: dict[str, Any] = field(default_factory=dict)
    raw: bytes = b""  # instead of all that
    warning: str = ""  # there has to be one with this code

    def encode(self, ascii_only: bool, legacy: bool = False) -> bytes:
        """The bytes of the event."""
        if self.raw:
            return self.raw
        delta = dict(self.delta)
        if self.pieces and legacy:
            delta["function_call"] = self.pieces[0].entry.get("function")
        elif self.pieces:
            delta["tool_calls"] = [piece.entry for piece in self.pieces]
        payload = {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": self.finish}], **self.rest}
        return b"data: " + json.dumps(payload, ensure_ascii=ascii_only).encode() + b"\n\n"


DONE = Event(raw=b"data: [DONE]\n\n")


@dataclass
class Plan:
    """A stream that is being made."""

    rng: random.Random
    calls: list[Call]
    by: str = "index"  # what tells calls apart: "index", "id", "order" (one call after the other), "legacy" (one call)
    bare_tails: bool = False  # only heads have an index
    tails_further: bool = False  # only heads have the index of the call before
    null_index: bool = False  # an index that is missing is written as null
    halves: bool = False
    ordered: bool = True
    safe: bool = False
    events: list[Event] = field(default_factory=list)
    ends: bool = False  # a deviation of the last phase has made the end
    end: str = "deliver"  # or "whole" (only whole objects), "drop", or the class of an error
    finish: str | None = "tool_calls"
    warnings: set[str] = field(default_factory=set)
    interrupted: str | None = None
    tail: bytes = b""  # half an event

    def need(self, *conditions: object) -> None:
        """Declines the deviation unless all of these hold."""
        if not all(conditions):
            raise Declined

    def expected(self) -> Expected:
        """What is right, by the pieces that are in the stream."""
        text = "".join(event.delta.get("content") or "" for event in self.events)
        if self.end not in ("deliver", "whole", "drop"):
            return Expected(self.end)
        wants = self.wants()
        self.warnings |= {event.warning for event in self.events if event.warning}
        broken = {"interrupted_after_finish", "error_after_finish"} & self.warnings
        reasoned = any(event.delta.get(name) for event in self.events for name in ("reasoning_content", "reasoning"))
        if broken and not (wants or text or reasoned):  # a finish reason alone is no answer
            return Expected("IncompleteStreamError|UpstreamError")
        if self.safe:
            return Expected(None, wants, safe=True)
        if self.end == "drop":
            return Expected(None, [], self.finish, self.warnings | ({"calls_dropped"} if wants else set()), text=text)
        if self.end == "whole":
            dropped = [want for want in wants if not whole(want.text)]
            wants = [want for want in wants if whole(want.text)]
            self.warnings |= {"calls_dropped"} if dropped else set()
        finish = self.finish if wants or self.finish == "unknown" else None
        return Expected(None, wants, finish, self.warnings, self.ordered, text, self.safe)

    def wants(self) -> list[Want]:
        """The calls that have begun: first id and name that are not empty, all texts, by index or else by arrival."""
        seen: dict[int, tuple[Call, list[Piece]]] = {}
        for event in self.events:
            for piece in event.pieces:
                if piece.call is not None and says_anything(piece):
                    seen.setdefault(id(piece.call), (piece.call, []))[1].append(piece)
        found = list(seen.values())
        indices = [_number(call.index) for call, _ in found]
        if None not in indices and len(set(indices)) == len(indices):
            found.sort(key=lambda each: _number(each[0].index) or 0)
        return [_want(call, pieces) for call, pieces in found]


def _number(index: Any) -> int | None:
    return None if index is None else int(index)


def _want(call: Call, pieces: list[Piece]) -> Want:
    ids = [piece.entry.get("id") for piece in pieces if piece.entry.get("id")]
    return Want(ids[0] if ids else None, call.name, join([piece.text for piece in pieces]), call.exact)


def entry(call: Call, id: Any = None, name: Any = None, text: Any = None, **rest: Any) -> dict[str, Any]:  # noqa: A002
    """An entry of `tool_calls` under the call's index, with the members that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", text)) if value is not None}
    made = {"index": call.index, "id": id, "function": function or None, **rest}
    return {key: value for key, value in made.items() if value is not None}


def says_anything(piece: Piece) -> bool:
    """Whether a piece is more than an empty entry."""
    return bool(piece.text or says(piece, "name") or says(piece, "arguments") or piece.entry.get("id"))


def says(piece: Piece, member: str) -> bool:
    """Whether a piece has a name, or arguments."""
    return bool((piece.entry.get("function") or {}).get(member))


def make(seed: str, count: int, names: tuple[str, ...]) -> Stream:
    """The stream with so many calls and these deviations."""
    rng = random.Random(seed)
    own = [random.Random(f"{seed}:{number}") for number in range(count)]
    calls = [
        Call(number, f"call_{chr(97 + number)}{each.randrange(100)}", each.choice(NAMES), arguments(each))
        for number, each in enumerate(own)
    ]
    plan = Plan(rng, calls)
    phases = {name: deviations.all[name].phase for name in names}

    def apply(first: int, last: int) -> tuple[str, ...]:
        return deviations.apply(tuple(name for name in names if first <= phases[name] <= last), plan, seed)

    used = apply(NUMBERING, SAYING)
    for call, each in zip(calls, own, strict=True):
        _pieces(plan, call, each)
    if plan.by == "order" and any(
        first.id is None and first.name == second.name and not first.text.strip()
        for first, second in itertools.pairwise(calls)
    ):
        plan.safe = True  # the second head could also be a fragment that repeats the name
    used += apply(PIECES, PIECES)
    _number_pieces(plan)
    _merge(plan)
    used += apply(ORDER, EVENTS)
    if not calls:
        plan.events.append(Event(delta={"content": "Hm"}))
    used += apply(ENDING, ENDING)
    if not plan.ends:
        plan.events += [Event(finish="tool_calls"), DONE]
    used += apply(AFTER, AFTER)
    expected = plan.expected()
    expected.clean = not used and bool(calls) and all(parse(call.text)[1] is None for call in calls)
    ascii_only = plan.halves or rng.random() < 0.3
    body = b"".join(event.encode(ascii_only, plan.by == "legacy") for event in plan.events) + plan.tail
    return Stream(body, plan.interrupted, expected, used)


def _pieces(plan: Plan, call: Call, rng: random.Random) -> None:
    parts = cut(call.text, rng, plan.halves)
    first = parts.pop(0) if parts and rng.random() < 0.3 else ""
    said = first if first or rng.random() < 0.8 else None
    call.pieces = [Piece(call, entry(call, call.id, call.name, said, type="function"), first)]
    call.pieces += [Piece(call, entry(call, text=part), part) for part in parts]


def _number_pieces(plan: Plan) -> None:
    for number, call in enumerate(plan.calls):
        for piece in call.pieces:
            if piece.call is None:
                continue
            if plan.by == "id":
                piece.entry["id"] = call.id
            if str(piece.entry.get("id")).startswith("new_") and says(piece, "name"):
                del piece.entry["id"]  # with a name, another id could begin another call
            if plan.bare_tails and piece is not call.pieces[0]:
                piece.entry.pop("index", None)
            if plan.tails_further:
                piece.entry["index"] = max(0, number - (piece is call.pieces[0]))
            if plan.null_index:
                piece.entry.setdefault("index", None)


def _merge(plan: Plan) -> None:
    lists = [call.pieces for call in plan.calls]
    if plan.by == "order":
        pieces = [piece for each in lists for piece in each]
    elif plan.rng.random() < 0.2:
        order = plan.rng.sample(lists, len(lists))
        pieces = [piece for each in order for piece in each]
    else:
        pieces = interleaved(lists, plan.rng)
    plan.events = [Event([piece]) for piece in pieces]


def some(plan: Plan, rng: random.Random) -> list[Call]:
    """At least one of the calls, if there is any."""
    return rng.sample(plan.calls, rng.randint(1, len(plan.calls))) if plan.calls else []


def every_piece(plan: Plan) -> list[Piece]:
    """The pieces of all calls."""
    return [piece for call in plan.calls for piece in call.pieces]


def tails(plan: Plan) -> list[Piece]:
    """The pieces of all calls without the heads."""
    return [piece for call in plan.calls for piece in call.pieces[1:]]
