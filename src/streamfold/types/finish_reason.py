"""Finish reasons, which tell why the model stopped."""

from __future__ import annotations

import re
from typing import Literal

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "unknown"]


def is_truncated(reason: FinishReason) -> bool:
    """Returns True if the finish reason means that the answer is truncated. The tool calls of a truncated answer may be
    incomplete."""
    return reason in ("length", "content_filter")


# Guesses for unknown finish reasons, by the words that they contain.
_TELLING: tuple[tuple[FinishReason | Literal["error"], str], ...] = (
    ("content_filter", "filter|safety|guard|moderat|blocked|policy|prohibit|censor|refus"),
    ("error", "error|fail|abort|cancel|crash|exception"),
    (
        "length",
        (
            "length|limit|max|trunc|incomplete|unfinished|partial|cut|timeout|time_out|timed_out|interrupt|exceed"
            "|overflow|budget|disconnect|preempt|early|exhaust|evict|quota|context|expired|deadline|stopped_by"
        ),
    ),
)


def guess_finish_reason(word: str) -> FinishReason | Literal["error"]:
    """Guesses what an unknown finish reason of a provider means. Never returns "stop", because a truncated answer would
    then look complete.

    >>> guess_finish_reason("time_limit"), guess_finish_reason("eventually")
    ('length', 'unknown')
    """
    word = word.lower().replace("-", "_")
    return next((reason for reason, telling in _TELLING if re.search(telling, word)), "unknown")
