"""Tool calls as a test plans them, with their arguments in pieces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
values = st.recursive(st.none() | st.booleans() | st.integers() | words, lambda inner: st.lists(inner, max_size=3))
objects = st.dictionaries(words, values, max_size=4)


@dataclass
class PlannedCall:
    id: str
    name: str
    pieces: list[str]
    arguments: dict[str, Any]


@st.composite
def planned_calls(draw: st.DrawFn) -> list[PlannedCall]:
    calls = []
    for number in range(draw(st.integers(0, 6))):
        arguments = draw(objects)
        text = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
        if not arguments and draw(st.booleans()):
            text = ""
        cuts = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=5))})
        pieces = [text[start:end] for start, end in pairwise(cuts)]
        calls.append(PlannedCall(f"call_{number}", f"tool_{number % 3}", pieces, arguments))
    return calls
