"""One fact per object: what an adapter makes of one wire event, and what everything after it works on.

An event becomes as many deltas as it holds facts, in the order reasoning, text, calls, usage, finish; none is dropped,
and none is put together before `calls.py` and `fold.py` do it. Values are immutable by convention; they are made once
per token, and a frozen dataclass would take three times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from .errors import ErrorInfo
from .types import FinishReason, Usage, WarningCode

__all__ = [
    "Call",
    "Delta",
    "Done",
    "Extra",
    "Failure",
    "Finish",
    "Meta",
    "Reasoning",
    "Refusal",
    "Text",
    "Usage",
    "Warn",
]


@dataclass(slots=True)
class Text:
    """Visible text."""

    text: str


@dataclass(slots=True)
class Reasoning:
    """Reasoning text. `""` is a fact of its own: the model reasoned, and the server does not show what."""

    text: str


@dataclass(slots=True)
class Refusal:
    """Text by which the model declines, on the wires that keep it apart."""

    text: str


@dataclass(slots=True)
class Call:
    """A fragment of a tool call.

    Attributes:
        index: the server's number for the call, if it sent a usable one. After `calls.py`: the number of the call.
        id, name: as sent in this fragment; None where it has none.
        arguments: the next piece of the arguments' text.
        whole: `arguments` is all of the text, and replaces what came before.
        extra: other members of the entry that the provider wants back.
    """

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    whole: bool = False
    extra: dict[str, Any] | None = None


@dataclass(slots=True)
class Extra:
    """Something that belongs to the message and is neither text nor a call: an annotation, a piece of audio."""

    name: str
    value: Any


@dataclass(slots=True)
class Meta:
    """Who is speaking. The first non-empty value of each counts."""

    id: str | None = None
    model: str | None = None
    created: int | float | str | None = None


@dataclass(slots=True)
class Warn:
    """Something odd about the event, worth telling."""

    code: WarningCode
    detail: str


@dataclass(slots=True)
class Failure:
    """The server reports an error."""

    info: ErrorInfo
    body: Any = None


@dataclass(slots=True)
class Finish:
    """Why the model stopped. More may follow: usage, a further reason, on some servers even calls."""

    reason: FinishReason
    raw: str


@dataclass(slots=True)
class Done:
    """The server says that nothing follows."""


Delta: TypeAlias = Text | Reasoning | Refusal | Call | Extra | Meta | Warn | Failure | Usage | Finish | Done
