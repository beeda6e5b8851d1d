"""Compares two recorded streams: their replies, and their events up to the first difference."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from streamfold import ConfigError
from streamfold.adapters import (
    CallSummary,
    Delta,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    Sequence,
    TextDelta,
    ToolCallDelta,
)
from streamfold.types import PartRef

from .sentences import delta_kind, delta_words, usage_words
from .values import Event, Inspection

ANSWER_FIELDS = ("outcome", "text", "reasoning", "refusal", "finish_reason", "calls", "usage", "ids", "model", "extras")


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """One part of the reply, such as its text, and whether it is the same in both streams.

    If `ignored` is true, a difference doesn't count.
    """

    field: str
    same: bool
    ignored: bool
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first pair of events that differ in more than ids, numbers and times.

    Attributes:
        number: the position of both events in their streams, from 1.
        a, b: descriptions of the two events; None if a stream has no event at this position.
    """

    number: int
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two recordings.

    Attributes:
        a, b: the names of the recordings.
        answer: for each part of the reply, whether it is the same in both recordings.
        meaning: the first event that differs in more than ids, numbers and times; None if no event does.
    """

    a: str
    b: str
    answer: tuple[PartVerdict, ...]
    meaning: FirstDifference | None

    @property
    def same(self) -> bool:
        """True if both replies are the same, apart from the ignored parts."""
        return all(verdict.same or verdict.ignored for verdict in self.answer)


def compare(a: Inspection, b: Inspection, *, ignore: Collection[str] = ()) -> Comparison:
    """Compares two inspected streams.

    Args:
        ignore: the names of the reply's parts whose differences don't count; see `ANSWER_FIELDS`.

    Returns:
        For each part of the reply whether it is the same in both streams, and the first event that differs.

    Raises:
        ConfigError: `ignore` contains an unknown name.
    """
    if unknown := [name for name in ignore if name not in ANSWER_FIELDS]:
        raise ConfigError(f"unknown part of the reply {unknown[0]!r}. Allowed: {', '.join(ANSWER_FIELDS)}")
    left, right = _answer(a), _answer(b)
    verdicts = [
        PartVerdict(name, left[name] == right[name], name in ignore, *_shown(name, left, right)) for name in left
    ]
    first, second = ([_meaning(event) for event in made.events if event.number] for made in (a, b))
    pairs = enumerate(zip_longest(first, second), 1)
    differs = next((FirstDifference(number, *pair) for number, pair in pairs if pair[0] != pair[1]), None)
    return Comparison(a.name, b.name, tuple(verdicts), differs)


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


def _shown(name: str, left: dict[str, Any], right: dict[str, Any]) -> tuple[str, str]:
    """Returns one part of both replies as text. Shortens a long text to the place of the first difference."""
    a, b = left[name], right[name]
    match name:
        case "calls":
            a, b = (", ".join(f"{call}({arguments})" for call, arguments in side) for side in (a, b))
        case "ids":
            a, b = (", ".join([answer or "none", *calls]) for answer, calls in (a, b))
        case "usage":
            a, b = (usage_words(side) if side else "" for side in (a, b))
        case "text" | "reasoning" if a != b:
            at = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            a, b = _excerpt(a, at), _excerpt(b, at)
        case "extras":
            a, b = ", ".join(a), ", ".join(b)
    return a or "", b or ""


def _excerpt(text: str, at: int) -> str:
    start = max(0, at - 20)
    return f"{'...' * bool(start)}{text[start : at + 40]}{'...' * (len(text) > at + 40)} ({len(text)} characters)"


def _meaning(event: Event) -> str:
    said = [delta for delta in event.deltas if not isinstance(delta, Meta | Sequence)]
    return "; ".join(f"{delta_kind(delta)}: {delta_words(_anonymous(delta))}" for delta in said) or "nothing"


def _anonymous(delta: Delta) -> Delta:
    match delta:
        case ToolCallDelta():
            return replace(delta, id=None, item=None)
        case CallSummary(calls):
            return CallSummary([replace(call, id=None, item=None) for call in calls])
        case (
            TextDelta(_, PartRef() as part) | ReasoningDelta(_, PartRef() as part) | RefusalDelta(_, PartRef() as part)
        ):
            return replace(delta, part=part._replace(item=None))
    return delta
