"""Calls as a model's chat template writes them, made up at random, are read back whole, however the text is cut."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rendered_calls import FORMATS, WORDS, Calls, calls_of, declared, read, sayable
from scale import pick
from tables import each_row


@each_row("name", FORMATS)
def test_what_is_written_is_read(name: str) -> None:
    """Text, reasoning and calls come out as they were put in."""
    form = FORMATS[name]

    @settings(deadline=None, max_examples=pick(300, 12))
    @given(calls_of(form), st.sampled_from(["", *WORDS]), st.sampled_from(["", *WORDS]), st.booleans(), st.randoms())
    def check(calls: Calls, before: str, after: str, thinks: bool, rng: random.Random) -> None:
        if name in ("minimax", "minimax3", "seed", "gemma4", "functiongemma"):
            calls = list(dict(calls).items())  # the schema says what a value is: one call for each
        if name == "minimax3":
            calls = [(call, {key: v for key, v in arguments.items() if sayable(v)}) for call, arguments in calls]
        opener, closer = form.think or ("", "")
        thought = "Shall I? a < b" if thinks and form.think else ""
        start = "<|channel|>final<|message|>" if name == "harmony" and before else ""
        text = (opener + thought + closer if thought else "") + start + before + form.render(calls) + after
        whole = read(name, [text], declared(calls))
        assert (whole.text, whole.reasoning) == (before + after, thought)
        assert [(call.name, call.arguments) for call in whole.tool_calls] == calls
        places = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(1, 9)))
        for pieces in (list(text), [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]):
            assert read(name, pieces, declared(calls)) == whole

    check()
