"""Explains a recorded stream: what each event contains, and how it changes the reply.

`trace.py` runs streamfold's own decoder, records the decoder's decisions (`decision_log.py`), and returns an
`Inspection` (`values.py`). Other modules compare inspections (`compare.py`), describe them (`steps.py`,
`sentences.py`), and write them as JSON (`export.py`) or as HTML pages (`page.py`, `document.py`).
"""

from __future__ import annotations

from .compare import Comparison, compare
from .document import document, json_block
from .export import comparison_to_dict, to_dict
from .page import page_assets, page_data, page_frame, render_page
from .sentences import called, stream_words, usage_words
from .steps import EventLine, steps
from .trace import inspect_stream
from .values import Event, Inspection, LocatedWarning, StreamFailure, TracedCall
