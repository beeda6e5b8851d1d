"""Why an answer ended."""

from __future__ import annotations

import re
from typing import Literal

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "unknown"]

# A word that is in no table, by what it has in it.
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
    """The meaning of a finish reason that an adapter does not list. It is never "stop".

    An answer that was cut must not be taken for a whole one, in whatever words the server says so; any other word is
    "unknown".

    >>> guess_finish_reason("time_limit"), guess_finish_reason("eventually")
    ('length', 'unknown')
    """
    word = word.lower().replace("-", "_")
    return next((reason for reason, telling in _TELLING if re.search(telling, word)), "unknown")
