"""The same texts through our readers and through the parsers of engines: `nox -s parsers`.

The texts are calls as the models' chat templates write them, at random. Where an engine reads something else, the table
has the reason; a difference without one is a failure. Without an engine, its cases are skipped.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from engines import SGLANG, parsers
from rendered_calls import FORMATS, Calls, calls_of, declared, read, sayable
from tables import each_row

pytestmark = pytest.mark.skipif("STREAMFOLD_PARSERS" not in os.environ, reason="run by `nox -s parsers`")
CASES = [("openai-harmony", "harmony"), ("cohere-melody", "cohere"), *(("SGLang", dialect) for dialect in SGLANG)]
FOUND = parsers() if "STREAMFOLD_PARSERS" in os.environ else {}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def has(*words: str) -> Callable[[Calls], bool]:
    return lambda calls: any(word in text for _, arguments in calls for text in strings(arguments) for word in words)


def blanks_at_an_end(calls: Calls) -> bool:
    return any(text != text.strip() for _, arguments in calls for text in strings(arguments))


def dotted(calls: Calls) -> bool:
    return any("." in name for name, _ in calls)


# Why an engine reads something else: the first reason that holds for the calls.
REASONS: dict[tuple[str, str], list[tuple[str, Callable[[Calls], bool]]]] = {
    ("openai-harmony", "harmony"): [("a mark in a string is a token", has("<|call|>", "<|start|>"))],
    ("cohere-melody", "cohere"): [("a mark in a string ends the action", has("<|END_ACTION|>"))],
    ("SGLang", "harmony"): [
        ("only the last part of a dotted name", dotted),
        ("a string that looks like a mark", has("<|")),
    ],
    ("SGLang", "gemma4"): [
        ("null is a text", lambda calls: "None" in repr(calls)),
        ("a number with an exponent is a text", lambda calls: "e+21" in repr(calls) or "e-07" in repr(calls)),
    ],
    ("SGLang", "dsml"): [("trims strings", blanks_at_an_end)],
    ("SGLang", "minimax"): [
        ("trims strings", blanks_at_an_end),
        ("a mark in a string ends the section", has("</minimax:tool_call>")),
    ],
    ("SGLang", "minimax3"): [("trims strings", blanks_at_an_end)],
    ("SGLang", "lfm2"): [
        ("dotted names are not read", dotted),
        ("a mark in a string ends the section", has("<|tool_call_end|>", "<|tool_call_start|>")),
    ],
    ("SGLang", "cohere"): [("a mark in a string ends the action", has("<|END_ACTION|>"))],
}


ENDLESS = "takes more than a second"


def _too_long(*_: Any) -> None:
    raise TimeoutError(ENDLESS)


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _too_long)
    yield
    signal.signal(signal.SIGALRM, before)


@each_row("case", CASES, ids="-".join)
def test_what_engines_read(case: tuple[str, str]) -> None:
    """The engine's calls are ours, or the reason why not is known."""
    if case not in FOUND:
        pytest.skip(f"{case[0]} can't be run here")
    dialect, form = case[1], FORMATS[case[1]]
    told: Counter[str] = Counter()

    @seed(1)
    @settings(max_examples=300, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(calls_of(form))
    def check(calls: Calls) -> None:
        calls = list(dict(calls).items())
        if dialect == "minimax3":
            calls = [(name, {key: v for key, v in arguments.items() if sayable(v)}) for name, arguments in calls]
        tools, text = declared(calls), form.render(calls)
        assert [(call.name, call.arguments) for call in read(dialect, [text], tools).tool_calls] == calls
        signal.setitimer(signal.ITIMER_REAL, 1)
        try:
            theirs = FOUND[case](text, tools)
        except Exception as exc:  # of an engine, which is a way not to read it
            theirs = [("", exc)]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if theirs != calls:
            why = next((why for why, holds in REASONS.get(case, ()) if holds(calls)), "")
            why = ENDLESS if theirs and isinstance(theirs[0][1], TimeoutError) else why
            assert why, (calls, theirs)
            told[why] += 1
        told["texts"] += 1

    check()
    total = told.pop("texts")
    reasons = "; ".join(f"{why}: {count}" for why, count in told.items())
    sys.stdout.write(f"\n{case[0]:15} {dialect:9} {total - sum(told.values())}/{total} {reasons}\n")
