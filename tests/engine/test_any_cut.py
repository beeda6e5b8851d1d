"""The checks for authors of adapters and dialects: what they find, and how they tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import scale
from folding import DONE, call, entry, event, fin, text
from streamfold import ConfigError, IncompleteStreamError, StreamDecoder, Tool, ToolCall, UpstreamError
from streamfold.adapters.chat import ChatAdapter
from streamfold.deltas import Delta, TextDelta
from streamfold.recording import Recording
from streamfold.testing import assert_any_cut, assert_any_text_cut, assert_recording
from tables import each_row

FIXTURES = Path(__file__).parents[2] / "fixtures"
BODY = text("Hello, wörld.") + fin("stop") + DONE


class Dashes:
    """A dialect with a mistake: it takes `--` for one dash, but not where the two come in two events."""

    def feed(self, delta: Delta) -> Iterable[Delta]:
        return [TextDelta(delta.text.replace("--", "-"))] if isinstance(delta, TextDelta) else [delta]

    def finish(self) -> Iterable[Delta]:
        return []


class Forgetful(ChatAdapter):
    """An adapter with a mistake: what it reads depends on how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def decode(self, event: Any) -> list[Delta]:
        self.asked += 1
        return super().decode(event) + ([TextDelta("!")] if self.asked == 4 else [])


def test_a_body_that_folds_the_same_in_every_cut() -> None:
    """The reply is handed back."""
    reply = assert_any_cut(BODY + b"")
    assert (reply.text, reply.finish_reason) == ("Hello, wörld.", "stop")


def test_a_body_that_fails_the_same_in_every_cut() -> None:
    """The error is raised when every cut has been tried."""
    with pytest.raises(UpstreamError, match="no more") as caught:
        assert_any_cut(text("Hello") + event({"error": {"message": "no more", "code": "x"}}))
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hello"
    with pytest.raises(IncompleteStreamError):
        assert_any_cut(Recording("cut", BODY[:-40], broken=True))


@pytest.mark.parametrize("given", [FIXTURES / "kimi/parallel_calls", str(FIXTURES / "kimi/parallel_calls.sse")])
def test_a_recording_by_its_path(given: Any) -> None:
    """Path, name or value: the description says which adapter reads it."""
    names = [made.name for made in assert_any_cut(given, splits=20, random_cuts=2).tool_calls]
    assert names == ["get_weather", "get_time"]
    assert assert_any_cut("demo/parallel_calls", splits=1, random_cuts=0).finish_reason == "tool_calls"


def test_a_difference_is_told_with_the_cut_and_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where to cut, what is around it, and what differs."""
    feed = StreamDecoder.feed

    def lossy(self: StreamDecoder, data: bytes) -> Any:
        return feed(self, data[1:] if data[:1] == b"w" else data)

    monkeypatch.setattr(StreamDecoder, "feed", lossy)
    at = BODY.index(b"w")
    with pytest.raises(AssertionError) as caught:
        assert_any_cut(BODY)
    assert str(caught.value) == (
        f"the body has another outcome when it is split after byte {at}:\n"
        f"    {BODY[at - 24 : at]!r} | {BODY[at : at + 24]!r}\n"
        "  text\n"
        "    whole  'Hello, wörld.'\n"
        "    cut    'Hello, örld.'"
    )


def test_an_adapter_that_remembers() -> None:
    """One answer must not change what the next one folds to."""
    with pytest.raises(AssertionError, match="the same pieces give two different results"):
        assert_any_cut(BODY, adapter=Forgetful())


def test_a_text_is_cut_across_events() -> None:
    """A mistake of a dialect shows where a marker comes in two events, and is told with the cut that parts it."""
    assert assert_any_cut(text("Wait -- what?") + fin("stop"), dialect=Dashes).text == "Wait - what?"
    with pytest.raises(AssertionError) as caught:
        assert_any_text_cut("Wait -- what?", dialect=Dashes)
    assert str(caught.value) == (
        "the text has another outcome when it is split after character 6:\n"
        "    'Wait -' | '- what?'\n"
        "  text\n"
        "    whole  'Wait - what?'\n"
        "    cut    'Wait -- what?'"
    )


def test_the_fewest_cuts_are_told() -> None:
    """Where no single cut is tried in the right place, byte by byte finds it, and the other cuts are left out."""
    with pytest.raises(AssertionError, match=r"split after character 500:\n    '.*x-' \| '-x.*'\n"):
        assert_any_text_cut("x" * 499 + "--" + "x" * 500, dialect=Dashes, splits=2)


def test_long_texts_are_told_from_their_first_difference() -> None:
    """Nobody has to look for it."""
    with pytest.raises(AssertionError) as caught:
        assert_any_text_cut("a" * 300 + "--" + "b" * 300, dialect=Dashes)
    lines = str(caught.value).splitlines()
    assert f"    whole  ...'{'a' * 39}-{'b' * 40}' (601 characters)" in lines
    assert f"    cut    ...'{'a' * 39}--{'b' * 39}' (602 characters)" in lines


def test_a_dialect_of_the_library_keeps_it() -> None:
    """Calls in a text, by the name of the dialect."""
    markup = 'Let me see. <tool_call>\n{"name": "f", "arguments": {"x": "é"}}\n</tool_call>'
    reply = assert_any_text_cut(markup, dialect="hermes", tools=[Tool("f")])
    assert (reply.text, [(made.name, made.arguments) for made in reply.tool_calls]) == (
        "Let me see. ", [("f", {"x": "é"})],
    )  # fmt: skip


def test_a_dialect_that_remembers_is_refused() -> None:
    """One dialect reads one answer."""
    with pytest.raises(ConfigError, match="pass its name, or a function that returns a new one"):
        assert_any_cut(BODY, dialect=Dashes())  # type: ignore[arg-type]


def test_broken_promises_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that loses text on its way to the chunks does not pass."""
    from streamfold.engine.accumulator import StreamAccumulator

    feed = StreamAccumulator.feed

    def lossy(self: StreamAccumulator, delta: Delta) -> Any:
        made = feed(self, delta)
        if made is not None and made.delta == "b":
            made.delta = ""
        return made

    monkeypatch.setattr(StreamAccumulator, "feed", lossy)
    with pytest.raises(AssertionError, match="is broken:\n  the joined deltas are the text of the reply"):
        assert_any_cut(text("a") + text("b") + fin("stop"))
    with pytest.raises(AssertionError, match="is broken:\n  the joined deltas are the text of the reply"):
        assert_any_cut(text("a") + text("b") + event({"error": "x"}))


# --- Recordings with an expectation ----------------------------------------------------------------------------------


def expecting(body: bytes, **expect: Any) -> Recording:
    return Recording("acme/case", body, expect=expect)


CALLING = call(entry(0, "a", "f", '{"x": 1}')) + fin("tool_calls") + DONE


@each_row(
    "recording",
    [
        expecting(BODY, text="Hello, wörld.", finish_reason="stop", raw_finish_reason="stop"),
        expecting(
            CALLING,
            finish_reason="tool_calls",
            raw_finish_reason="tool_calls",
            calls=[{"id": "a", "name": "f", "arguments": '{"x": 1}'}],
        ),
        expecting(
            CALLING,
            finish_reason="tool_calls",
            raw_finish_reason="tool_calls",
            calls=[{"name": "f", "arguments": {"x": 1}}],
        ),
        expecting(text("Hi"), text="Hi", error="IncompleteStreamError"),
        expecting(text("Hi") + event({"error": "no"}), text="Hi", error="UpstreamError", message="no"),
    ],
)  # fmt: skip
def test_a_recording_that_is_what_it_expects(recording: Recording) -> None:
    """Text, calls by their text or by what it means, errors with or without their message."""
    outcome = assert_recording(recording)
    assert getattr(outcome, "text", "Hi") in ("Hello, wörld.", "", "Hi")


def test_what_is_not_expected_is_told() -> None:
    """What is not named must not be there, and what is named must."""
    with pytest.raises(AssertionError) as caught:
        assert_recording(
            expecting(CALLING, text="Hi", finish_reason="tool_calls", calls=[{"name": "g", "arguments": {"x": 2}}])
        )
    assert str(caught.value) == (
        "acme/case: the outcome differs from [expect]:\n"
        "  text\n    expected  'Hi'\n    found     (absent)\n"
        "  calls[0].name\n    expected  'g'\n    found     'f'\n"
        "  calls[0].arguments.x\n    expected  2\n    found     1\n"
        "  raw_finish_reason\n    expected  (absent)\n    found     'tool_calls'"
    )


def test_calls_too_few_and_too_many_are_told() -> None:
    """Calls are compared one by one."""
    with pytest.raises(AssertionError, match=r"calls\[0\].name\n    expected  \(absent\)\n    found     'f'"):
        assert_recording(expecting(CALLING, finish_reason="tool_calls", raw_finish_reason="tool_calls"))
    two = [{"name": "f", "arguments": {"x": 1}}, {"name": "f", "arguments": {}}]
    with pytest.raises(AssertionError, match=r"calls\[1\].name\n    expected  'f'\n    found     \(absent\)"):
        assert_recording(expecting(CALLING, finish_reason="tool_calls", raw_finish_reason="tool_calls", calls=two))


def test_a_recording_without_an_expectation() -> None:
    """Nothing to compare with would be a check that always passes."""
    with pytest.raises(ConfigError, match=r"acme/case has no expected outcome.*\[expect\]"):
        assert_recording(expecting(BODY))
    with pytest.raises(ConfigError, match=r"there is no recording .*/nowhere"):
        assert_recording(FIXTURES / "kimi" / "nowhere")


def _fixtures() -> Iterator[str]:
    yield from sorted(f"{file.parent.name}/{file.stem}" for file in FIXTURES.glob("*/*.sse"))


@each_row("name", scale.some(list(_fixtures()), 60))
def test_every_fixture_is_what_it_expects(name: str) -> None:
    """The public check agrees with the fixtures."""
    assert_recording(FIXTURES / name, splits=5, random_cuts=1)


def test_a_call_with_a_member_of_its_own_is_compared_too() -> None:
    """Members that equality of calls leaves out count here."""
    reply = assert_any_cut(CALLING)
    assert reply.tool_calls == [ToolCall("a", "f", {"x": 1}, '{"x": 1}')]
