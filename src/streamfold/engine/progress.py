"""Whether an event brings a part of the answer: what keeps the clocks of a stream from running out."""

from __future__ import annotations

from ..values import (
    BlockPiece,
    Call,
    Delta,
    MessageStart,
    Meta,
    Reasoning,
    Refusal,
    Sequence,
    Text,
    Usage,
    UsageUpdate,
    Warn,
)

__all__ = ["is_progress"]

# Types of deltas that are never a part of the answer.
_NO_PROGRESS = {MessageStart, Meta, Sequence, Usage, UsageUpdate, Warn}


def is_progress(deltas: list[Delta]) -> bool:
    """Whether one of the deltas of an event is a part of the answer, however small."""
    for delta in reversed(deltas):  # noqa: SIM110 - a generator costs more than what it looks at
        if type(delta) not in _NO_PROGRESS and _is_part(delta):
            return True
    return False


def _is_part(delta: Delta) -> bool:
    if isinstance(delta, (Text, Reasoning, Refusal)):
        return bool(delta.text)
    if isinstance(delta, Call):
        return bool(delta.arguments or delta.id or delta.name or delta.extra or delta.whole)
    if isinstance(delta, BlockPiece):
        return bool(delta.value != "")
    return True
