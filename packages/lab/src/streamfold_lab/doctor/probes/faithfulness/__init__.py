"""Faithfulness: whether a request reaches the model whole, and what the model writes comes back unchanged."""

from __future__ import annotations

from .all_answers import ALL_ANSWERS
from .arguments import ARGUMENTS
from .counts import COUNTS
from .instructions import INSTRUCTIONS
from .reading import READING
from .reasoning import REASONING
from .repeated_texts import REPEATED_TEXTS

FAITHFUL = (ARGUMENTS, REPEATED_TEXTS, READING, INSTRUCTIONS, REASONING, COUNTS, ALL_ANSWERS)
