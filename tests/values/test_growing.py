"""Values inside a JSON text that arrives in pieces: what is reported of them does not depend on the cut."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scale
from streamfold.jsontext import partial_value
from streamfold.types import IncrementalJSON, path_pattern
from tables import each_row

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
names = st.sampled_from(["a", "b", "files", "content", "a.b", ""]) | st.text(max_size=3)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=20
)
PATTERNS = [path_pattern(path) for path in ("", "files[].content", "*", "*.*", "a[0]", "[][]", "['a.b']", "files")]


class Grown(NamedTuple):
    """A `PartialUpdate` with the number of its pattern."""

    pattern: int
    path: tuple[str | int, ...]
    delta: str
    done: bool
    value: Any


def read(text: str, cuts: list[int], patterns: list[Any] = PATTERNS) -> tuple[list[Grown], IncrementalJSON]:
    reader = IncrementalJSON(patterns)
    bounds = [0, *sorted(cuts), len(text)]
    return [Grown(number, *one[:4]) for a, b in pairwise(bounds) for number, one in reader.feed(text[a:b])], reader


def joined(events: list[Grown]) -> list[Grown]:
    """The events with the pieces of one value as one."""
    out: list[Grown] = []
    for one in events:
        before = next((at for at, other in enumerate(out) if other[:2] == one[:2] and not other.done), None)
        if before is None:
            out.append(one)
        else:
            out[before] = one._replace(delta=out[before].delta + one.delta)
    return out


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    """All places in a value, inner ones first, as they are completed."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*(place for step, one in inner for place in places(one, (*path, step))), (path, value)]


def fits(pattern: Any, path: tuple[str | int, ...]) -> bool:
    return len(pattern) == len(path) and all(a is None or a == b for a, b in zip(pattern, path, strict=True))


def same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)


@settings(deadline=None, max_examples=scale.examples(300))
@given(
    values.filter(lambda value: isinstance(value, dict | list | str)),
    st.booleans(),
    st.none() | st.integers(0, 3),
    st.randoms(),
)
def test_every_watched_value_is_reported_at_any_cut(
    value: Any, ascii_: bool, indent: int | None, rng: random.Random
) -> None:
    """Complete, at its place, in the order of the text; the pieces of a string add up to it."""
    text = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    expected = [
        (number, path, one) for path, one in places(value) for number, p in enumerate(PATTERNS) if fits(p, path)
    ]
    for cuts in ([], [*range(len(text))], [rng.randrange(len(text) + 1) for _ in range(5)]):
        events, reader = read(text, cuts)
        done = [(one.pattern, one.path, one.value) for one in events if one.done]
        assert [one[:2] for one in done] == [one[:2] for one in expected]
        assert all(same(one[2], other[2]) for one, other in zip(done, expected, strict=True))
        assert all(one.delta == (one.value if isinstance(one.value, str) else "") for one in joined(events))
        assert (reader.ended, reader.broken) == (True, False)


@settings(deadline=None, max_examples=scale.examples(300))
@given(values, st.data(), st.randoms())
def test_a_text_that_is_no_json_reports_the_same_at_any_cut(
    value: Any, data: st.DataObject, rng: random.Random
) -> None:
    """What is reported before the damage does not depend on how the text was cut, and nothing is reported behind it."""
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    damaged = (
        text[:at]
        + data.draw(st.sampled_from(['"', "}", "\\", "\x01", ",", "]", "\\x", "\\u12", "nan", ":"]))
        + text[at:]
    )
    whole, first = read(damaged, [])
    for cuts in ([*range(len(damaged))], [rng.randrange(len(damaged) + 1) for _ in range(4)]):
        events, reader = read(damaged, cuts)
        assert repr(joined(events)) == repr(joined(whole))
        assert (reader.ended, reader.broken) == (first.ended, first.broken)


@each_row(
    "text",
    ['{"a" 1}', "{1}", "[1,]", '{"a":1,}', "[}", "{]", '["\\x"]', '["\\u12g4"]', '["\n"]', "x", '["a" "b"]', "[" * 300],
)
def test_what_is_no_json_breaks_the_reader(text: str) -> None:
    """Nothing is guessed, and nothing after the damage is read."""
    _, reader = read(text, [])
    assert reader.broken
    assert reader.feed('"more"') == []


def test_nothing_is_read_behind_the_value() -> None:
    """A fence or a remark behind the answer changes nothing."""
    events, reader = read('{"a":"x"}\n```\n{"a":"y"}', [])
    assert [one.value for one in events if one.path == ("a",)] == ["x"]
    assert reader.ended


def test_halves_of_characters() -> None:
    """They are joined over a cut; a half that stays alone becomes a replacement character."""
    pattern = [path_pattern("a")]
    text = '{"a":"\\ud83d\\udc4b\\ud83d"}'
    for cuts in ([], [*range(len(text))]):
        assert [one.value for one in read(text, cuts, pattern)[0] if one.done] == ["\U0001f44b\ufffd"]


@each_row("path", ["a..b", ".a", "a[", "a[x]", "[1", "a.", "a]"])
def test_a_path_that_is_none(path: str) -> None:
    """It is refused, with what one looks like."""
    with pytest.raises(ValueError, match=r"is not a path such as 'files\[\]\.content'"):
        path_pattern(path)


def test_paths() -> None:
    """Names with dots, positions, and anything at all."""
    assert path_pattern("") == ()
    assert path_pattern("[]") == path_pattern("[*]") == path_pattern("*") == (None,)
    assert path_pattern("a.b[2]['c.d'][\"e\"].*") == ("a", "b", 2, "c.d", "e", None)


def grows(before: Any, after: Any) -> bool:
    """Whether a value has only grown: strings at their end, lists and objects by members, and nothing else changes."""
    match before, after:
        case None, _:
            return True
        case str(), str():
            return bool(after.startswith(before))
        case list(), list():
            return len(before) <= len(after) and all(map(grows, before, after))
        case dict(), dict():
            return all(name in after and grows(inner, after[name]) for name, inner in before.items())
    return type(before) is type(after) and bool(before == after)


said = st.text(st.sampled_from('a -15.eE"\\\n{[:,é👋tn\u2028\x01'), max_size=9)
talkative = st.recursive(
    leaves | said, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(said, inner, max_size=4), max_leaves=12
)


@settings(deadline=None, max_examples=scale.examples(600))
@given(talkative, st.booleans(), st.sampled_from([None, 1]))
def test_the_value_of_a_text_only_grows(value: Any, ascii_only: bool, indent: int | None) -> None:
    """Nothing that was shown of a value is taken back: neither a number, nor text that looks like one."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    before = None
    for end in range(len(text) + 1):
        now = partial_value(text[:end])
        assert grows(before, now)
        before = now
    assert grows(value, partial_value(text, ended=True))
