"""A whole message in place of a delta: it is compared with what came before, and not repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ...values import Call, Delta, Extra, Reasoning, Refusal, Summary, Text


def as_whole(said: Iterable[Delta]) -> Iterator[Delta]:
    """Marks the facts of a message as whole, so that they replace pieces instead of being appended."""
    texts: dict[type[Text | Reasoning | Refusal], list[str]] = {}
    calls: list[Call] = []
    extras: dict[str, list[Any]] = {}
    rest: list[Delta] = []
    for delta in said:
        match delta:
            case Text(text) | Reasoning(text) | Refusal(text):
                texts.setdefault(type(delta), []).append(text)
            case Call():
                calls.append(replace(delta, whole=True))
            case Extra(name, value):
                extras.setdefault(name, []).append(value)
            case _:
                rest.append(delta)
    for kind, pieces in texts.items():
        text = "".join(pieces)
        yield kind(text, whole=bool(text))  # no text at all repeats nothing: it may say that there was reasoning
    if calls:
        yield Summary(calls)
    for name, values in extras.items():
        yield Extra(name, values, whole=True)
    yield from rest
