"""Two recordings side by side: whether they gave the same answer, and where their wires differ.

The answer is what counts for a program; the wire tells why. Ids and times are never the same twice, so the first event
whose text differs is often the very first one: beside it stands the first event that *says* something else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from statistics import median
from typing import Any, TypeAlias

from ...values import Call, ConfigError, Delta, Meta, Part, Reasoning, Refusal, Sequence, Summary, Text, parse_event
from .values import Event, Inspection
from .words import delta_kind, delta_words, usage_words

__all__ = ["ANSWER_FIELDS", "Comparison", "Difference", "FirstDifference", "Sizes", "Verdict", "compare"]

ANSWER_FIELDS = ("outcome", "text", "reasoning", "refusal", "finish_reason", "calls", "usage", "ids", "model", "extras")

_Json: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"
_SHOWN = 8  # members of an event that are named


@dataclass(frozen=True, slots=True)
class Verdict:
    """One part of the answer. `ignored`: it is shown, and does not count."""

    field: str
    same: bool
    ignored: bool
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is counted in both: how often it is in the one and in the other."""

    what: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large things are: how many of them, the median and the largest."""

    what: str
    a: tuple[int, float, int]
    b: tuple[int, float, int]


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first pair of events that differ.

    Attributes:
        number: of the event, in both.
        a, b: their payloads, or what they say; None where there is no such event any more.
        members: which members of the payloads differ, as `path: a | b`, the first few.
    """

    number: int
    a: str | None
    b: str | None
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two recordings compared.

    Attributes:
        a, b: their names.
        answer: the parts of the answer, each with a verdict.
        kinds: the kinds of events whose numbers differ: by the names of the events, or by what is in them.
        fields: the members of payloads (`choices[].delta.content`) that only one of the two has.
        sizes: of events, pieces from the network, texts and fragments, in bytes or characters.
        payload: the first event whose payload differs.
        meaning: the first event that says something else, ids aside.
        order: the first place where the parts of the answer follow each other in another order.
    """

    a: str
    b: str
    answer: tuple[Verdict, ...]
    kinds: tuple[Difference, ...]
    fields: tuple[Difference, ...]
    sizes: tuple[Sizes, ...]
    payload: FirstDifference | None
    meaning: FirstDifference | None
    order: FirstDifference | None

    @property
    def same(self) -> bool:
        """Whether both gave the same answer, but for what was to be ignored."""
        return all(verdict.same or verdict.ignored for verdict in self.answer)


def compare(a: Inspection, b: Inspection, *, ignore: Collection[str] = ()) -> Comparison:
    """Compares two streams.

    Args:
        ignore: parts of the answer that do not count, of `ANSWER_FIELDS`.

    Raises:
        ConfigError: there is no such part.
    """
    if unknown := [name for name in ignore if name not in ANSWER_FIELDS]:
        raise ConfigError(f"the answer has no part {unknown[0]!r}: there are {', '.join(ANSWER_FIELDS)}")
    left, right = _answer(a), _answer(b)
    verdicts = [Verdict(name, left[name] == right[name], name in ignore, *_told(name, left, right)) for name in left]
    first, second = ([event for event in made.events if event.number] for made in (a, b))
    return Comparison(
        a=a.name,
        b=b.name,
        answer=tuple(verdicts),
        kinds=tuple(_counted(Counter(map(_kind, first)), Counter(map(_kind, second)))),
        fields=tuple(one for one in _counted(_members(first), _members(second)) if not (one.a and one.b)),
        sizes=tuple(Sizes(what, left_size, _sizes(b)[what]) for what, left_size in _sizes(a).items()),
        payload=_first_payload(first, second),
        meaning=_first([_meaning(event) for event in first], [_meaning(event) for event in second]),
        order=_first(_runs(a), _runs(b)),
    )


# --- The answer ------------------------------------------------------------------------------------------------------


def _answer(made: Inspection) -> dict[str, Any]:
    reply, failed = made.reply, made.failed
    return {
        "outcome": f"{failed.error}: {failed.message}" if failed else "finished",
        "text": reply.text,
        "reasoning": reply.reasoning,
        "refusal": reply.refusal,
        "finish_reason": None if failed else reply.finish_reason,
        "calls": [(call.name, call.arguments) for call in reply.tool_calls],
        "usage": reply.usage and replace(reply.usage, raw={}),
        "ids": (reply.id, [call.id for call in reply.tool_calls]),
        "model": reply.model,
        "extras": reply.extras,
    }


def _told(name: str, left: dict[str, Any], right: dict[str, Any]) -> tuple[str, str]:
    """Both values of a part in words; of long texts the place where they part."""
    a, b = left[name], right[name]
    match name:
        case "calls":
            return tuple(", ".join(f"{call}({arguments})" for call, arguments in side) for side in (a, b))  # type: ignore[return-value]
        case "ids":
            return tuple(", ".join([answer or "none", *calls]) for answer, calls in (a, b))  # type: ignore[return-value]
        case "usage":
            return tuple(usage_words(side) if side else "" for side in (a, b))  # type: ignore[return-value]
        case "text" | "reasoning" if a != b:
            at = _parting(a, b)
            return tuple(_excerpt(side, at) for side in (a, b))  # type: ignore[return-value]
        case "extras":
            return ", ".join(a), ", ".join(b)
    return a or "", b or ""


def _excerpt(text: str, at: int) -> str:
    start = max(0, at - 20)
    return f"{'...' * bool(start)}{text[start : at + 40]}{'...' * (len(text) > at + 40)} ({len(text)} characters)"


def _parting(a: str, b: str) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


# --- The wire --------------------------------------------------------------------------------------------------------


def _kind(event: Event) -> str:
    kinds = dict.fromkeys(delta_kind(delta) for delta in event.deltas if not isinstance(delta, Sequence))
    if len(kinds) > 1:
        kinds.pop("meta", None)  # beside everything
    return event.name or "+".join(kinds) or "nothing"


def _counted(a: Counter[str], b: Counter[str]) -> Iterator[Difference]:
    for what in dict.fromkeys((*a, *b)):
        if a[what] != b[what]:
            yield Difference(what, a[what], b[what])


def _members(events: list[Event]) -> Counter[str]:
    found: Counter[str] = Counter()
    for event in events:
        found.update(list(dict.fromkeys(path for path, _ in _leaves(event.data))))
    return found


def _leaves(data: str) -> Iterator[tuple[str, _Json]]:
    """The paths of all members of a payload that hold no further ones, in their order, with the values."""
    try:
        waiting: list[tuple[str, _Json]] = [("", parse_event(data))]
    except ValueError:
        return
    while waiting:
        path, value = waiting.pop()
        match value:
            case dict() if value:
                waiting += reversed([(f"{path}.{name}".lstrip("."), member) for name, member in value.items()])
            case list() if value:
                waiting += reversed([(f"{path}[]", item) for item in value])
            case dict() | list():
                yield f"{path} (empty)", value
            case _:
                yield path, value


def _sizes(made: Inspection) -> dict[str, tuple[int, float, int]]:
    events = [event for event in made.events if event.number]
    lists = {
        "events, in bytes": [event.end - event.start for event in events],
        "pieces from the network, in bytes": list(made.pieces),
        "texts, in characters": [len(event.text) for event in events if event.text],
        "reasoning, in characters": [len(event.reasoning) for event in events if event.reasoning],
        "fragments of arguments, in characters": [
            len(placed.arguments) for event in events for placed in event.placements if placed.arguments
        ],
    }
    return {what: (len(sizes), median(sizes or [0]), max(sizes, default=0)) for what, sizes in lists.items()}


def _first_payload(a: list[Event], b: list[Event]) -> FirstDifference | None:
    first = _first([event.data for event in a], [event.data for event in b])
    if first is None or first.a is None or first.b is None:
        return first
    left, right = dict(_leaves(first.a)), dict(_leaves(first.b))
    paths = [path for path in dict.fromkeys((*left, *right)) if left.get(path, ...) != right.get(path, ...)]
    members = [f"{path}: {_member(left, path)} | {_member(right, path)}" for path in paths[:_SHOWN]]
    return replace(first, members=tuple(members))


def _member(members: dict[str, _Json], path: str) -> str:
    return json.dumps(members[path], ensure_ascii=False) if path in members else "(not there)"


def _first(a: list[str], b: list[str]) -> FirstDifference | None:
    for number, (left, right) in enumerate(zip_longest(a, b), 1):
        if left != right:
            return FirstDifference(number, left, right)
    return None


def _meaning(event: Event) -> str:
    """What an event says, in words, without ids, numbers and times."""
    told = [f"{delta_kind(delta)}: {delta_words(_anonymous(delta))}" for delta in event.deltas if _says(delta)]
    return "; ".join(told) or "nothing"


def _says(delta: Delta) -> bool:
    return not isinstance(delta, Meta | Sequence)


def _anonymous(delta: Delta) -> Delta:
    match delta:
        case Call():
            return replace(delta, id=None, item=None)
        case Summary(calls):
            return Summary([replace(call, id=None, item=None) for call in calls])
        case Text(_, Part() as part) | Reasoning(_, Part() as part) | Refusal(_, Part() as part):
            return replace(delta, part=part._replace(item=None))
    return delta


def _runs(made: Inspection) -> list[str]:
    """The parts of the answer as they follow each other: reasoning, text, call 0, call 1, call 0."""
    steps: list[str] = []
    for event in made.events:
        steps += ["reasoning"] * bool(event.reasoning) + ["text"] * bool(event.text)
        steps += [f"call {placed.call}" for placed in event.placements if placed.call is not None]
        steps += [kind for kind in map(delta_kind, event.deltas) if kind in ("usage", "finish", "done", "failure")]
    return [step for step, _ in groupby(steps)]
