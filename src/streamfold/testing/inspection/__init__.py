"""What a recorded stream was, event by event, and why it became the answer that it became.

Nothing here reads a stream by itself. `trace.py` runs the decoder that answers run through, with an adapter, a fold and
a sorter of calls that keep what they are given (`watchers.py`); so what is explained is what happens. The result is a
value (`values.py`), which is compared (`compare.py`), told in lines (`steps.py`, `words.py`), written as JSON
(`export.py`) and drawn as one HTML page (`page.py`).
"""

from __future__ import annotations

from .compare import ANSWER_FIELDS, Comparison, FirstDifference, compare
from .export import comparison_to_dict, to_dict
from .page import render_page
from .steps import Step, steps
from .trace import inspect_stream
from .values import Caused, Event, Failed, Inspection, Placement, TracedCall
from .words import called, stream_words, usage_words

__all__ = [
    "ANSWER_FIELDS",
    "Caused",
    "Comparison",
    "Event",
    "Failed",
    "FirstDifference",
    "Inspection",
    "Placement",
    "Step",
    "TracedCall",
    "called",
    "compare",
    "comparison_to_dict",
    "inspect_stream",
    "render_page",
    "steps",
    "stream_words",
    "to_dict",
    "usage_words",
]
