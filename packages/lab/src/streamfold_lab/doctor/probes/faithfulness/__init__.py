"""Probes for faithfulness: whether the model gets the complete request, and whether the client gets exactly the model's
output.
"""

from __future__ import annotations

from .all_answers import ALL_ANSWERS
from .arguments import ARGUMENTS
from .counts import COUNTS
from .instructions import INSTRUCTIONS
from .reading import READING
from .reasoning import REASONING
from .repeated_texts import REPEATED_TEXTS

FAITHFUL = (ARGUMENTS, REPEATED_TEXTS, READING, INSTRUCTIONS, REASONING, COUNTS, ALL_ANSWERS)
