"""A whole message in place of a delta: it is compared with what came before, and not repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ...deltas import CallSummary, Delta, ReasoningDelta, RefusalDelta, TextDelta
from ...types import ExtraPart, ToolCallDelta


def mark_whole(said: Iterable[Delta]) -> Iterator[Delta]:
    """Marks the facts of a message as whole, so that they replace pieces instead of being appended."""
    texts: dict[type[TextDelta | ReasoningDelta | RefusalDelta], list[str]] = {}
    calls: list[ToolCallDelta] = []
    extras: dict[str, list[Any]] = {}
    rest: list[Delta] = []
    for delta in said:
        match delta:
            case TextDelta(text) | ReasoningDelta(text) | RefusalDelta(text):
                texts.setdefault(type(delta), []).append(text)
            case ToolCallDelta():
                calls.append(replace(delta, whole=True))
            case ExtraPart(name, value):
                extras.setdefault(name, []).append(value)
            case _:
                rest.append(delta)
    for kind, pieces in texts.items():
        text = "".join(pieces)
        yield kind(text, whole=bool(text))  # no text at all repeats nothing: it may say that there was reasoning
    if calls:
        yield CallSummary(calls)
    for name, values in extras.items():
        yield ExtraPart(name, values, whole=True)
    yield from rest
