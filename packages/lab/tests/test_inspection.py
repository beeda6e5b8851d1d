"""An inspection says what the decoder did, event by event, and why."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest

import scale
from folding import DONE, call, chunk, entry, event, fin, fragments, text
from streamfold import ConfigError, Limits, StreamDecoder, StreamError, ToolCall
from streamfold.deltas import Delta, Finish, Meta, StreamEnd, TextDelta, ToolCallDelta
from streamfold.engine import CallMatch, IncomingCall, MatchRule
from streamfold.recording import Recording
from streamfold_lab.inspection import (
    Event,
    EventLine,
    Inspection,
    LocatedWarning,
    StreamFailure,
    TracedCall,
    comparison_to_dict,
    inspect_stream,
    steps,
    to_dict,
)
from streamfold_lab.inspection.compare import FirstDifference, compare
from streamfold_lab.inspection.sentences import _KINDS, placement_words

FOLDER = Path(__file__).parents[3] / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))
DOCS = (FOLDER.parent / "docs" / "inspect.md").read_text("utf-8")


def inspected(name: str) -> Inspection:
    recording = Recording.load(FOLDER / name)
    interrupted = recording.interrupted
    return inspect_stream(
        recording.body, name=name, adapter=recording.adapter, cuts=recording.cuts, interrupted=interrupted
    )


def why(body: bytes, **options: Any) -> list[str]:
    """Why each fragment went where it went."""
    made = inspect_stream(body, **options)
    return [placement.why for one in made.events for placement in one.placements]


def outcome(decoder: StreamDecoder, body: bytes, interrupted: str | None = None) -> Any:
    try:
        decoder.feed(body)
        decoder.close(interrupted=interrupted)
    except StreamError as error:
        return type(error).__name__, error.message, error.partial
    return decoder.reply


# --- It is the real path ---------------------------------------------------------------------------------------------


def check_agrees(made: Inspection, recording: Recording, body: bytes) -> None:
    """The inspection has the decoder's answer, and every byte of the body once."""
    broken = recording.interrupted
    decoded = outcome(StreamDecoder(recording.adapter), body, broken)
    seen = (made.failed.error, made.failed.message, made.reply) if made.failed else made.reply
    assert seen == decoded
    assert [one.start for one in made.events] == [0, *(one.end for one in made.events[:-1])] or not body
    assert not made.events or made.events[-1].end == len(body)
    assert {warning.code for warning in made.warnings} == {warning.code for warning in made.reply.warnings}


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_decoders(name: str):
    """Every fixture is explained as it is read: the same reply, the same error, the same texts on the way."""
    made, recording = inspected(name), Recording.load(FOLDER / name)
    check_agrees(made, recording, recording.body)
    assert "".join(one.text for one in made.events) == made.reply.text
    assert "".join(one.reasoning for one in made.events) == made.reply.reasoning
    assert "".join(one.raw for one in made.events) == recording.body.decode("utf-8", "replace")
    for traced in made.calls:
        placed = [p for one in made.events for p in one.placements if p.call == traced.number]
        assert "".join(p.arguments for p in placed if not p.whole) == traced.arguments
        assert len(placed) == traced.fragments


@pytest.mark.parametrize("name", scale.some(NAMES, 50))
def test_damaged_streams_are_explained_too(name: str):
    """Cut off anywhere, or with bytes that were changed: the outcome is the decoder's, and nothing is raised."""
    recording, rng = Recording.load(FOLDER / name), random.Random(name)
    for _ in range(scale.pick(12, 2)):
        body = bytearray(recording.body[: rng.randrange(len(recording.body) + 1)])
        for _ in range(rng.randrange(4) if body else 0):
            body[rng.randrange(len(body))] = rng.choice(b'\n\r{}":,x\xff ')
        made = inspect_stream(
            bytes(body),
            adapter=recording.adapter,
            interrupted=recording.interrupted,
        )
        check_agrees(made, recording, bytes(body))
        assert len(steps(made)) == len(made.events)
        json.dumps(to_dict(made))


# --- Why -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            [entry(0, "a", "f", ""), entry(1, "b", "g", ""), entry(0, arguments="{}"), entry(1, arguments="{}")],
            [
                "no call is open: opens call 0 (f)",
                "index 1 is new: opens call 1 (g)",
                "index 0 is in use: continues call 0 (f)",
                "index 1 is in use: continues call 1 (g)",
            ],
        ),
        (
            [entry(0, "a", "f", "{}"), entry(0, "b", "g", "{}"), entry(0, "a", arguments=" ")],
            [
                "no call is open: opens call 0 (f)",
                "index 0 belongs to call 0 (f), but id 'b' differs: opens call 1 (g)",
                "id 'a' is known: continues call 0 (f)",
            ],
        ),
        (
            [entry(0, "a", "f", '{"x":1}'), entry(0, "a", "f", '{"x":2}')],
            ["no call is open: opens call 0 (f)", "index 0 is in use: continues call 0 (f)"],
        ),
        (
            [entry(0, "", "f", '{"x":1}'), entry(0, "", "f", '{"x":2}'), entry(0, "", "g", "{}")],
            [
                "no call is open: opens call 0 (f)",
                "index 0 belongs to call 0 (f), but a new object begins: opens call 1 (f)",
                "index 0 belongs to call 1 (f), but the name is 'g': opens call 2 (g)",
            ],
        ),
        (
            [entry(0, "a", "f", '{"x"'), entry(0, "other", arguments=":1}")],
            [
                "no call is open: opens call 0 (f)",
                "index 0 is in use, the id differs, but no new call begins: continues call 0 (f)",
            ],
        ),
        (
            [entry(None, "a", "f", '{"x"'), entry(None, arguments=":1}"), entry(None, "b", "f", "{}")],
            [
                "no call is open: opens call 0 (f)",
                "no index: the last call continues, call 0 (f)",
                "no index, and id 'b' is new: opens call 1 (f)",
            ],
        ),
        (
            [entry(0, "a", "f", "{}"), entry(0, "b", "g"), entry(1, arguments='{"x":1}')],
            [
                "no call is open: opens call 0 (f)",
                "index 0 belongs to call 0 (f), but id 'b' differs: opens call 1 (g)",
                "unknown index 1, no name: arguments for call 1 (g), the next tool call without arguments",
            ],
        ),
        (
            [entry(None, "a", "f"), entry(None, "b", "g"), entry(0, arguments="{}"), entry(1, None, "h", "{}")],
            [
                "no call is open: opens call 0 (f)",
                "no index, and id 'b' is new: opens call 1 (g)",
                "index 0 is new: opens call 2",
                "index 1 is new: opens call 3 (h)",
            ],
        ),
        (
            [entry(None, "a", "f", "{}"), entry(None, "a", "g", "{}")],
            [
                "no call is open: opens call 0 (f)",
                "id 'a' belongs to call 0 (f), but the name is 'g': opens call 1 (g)",
            ],
        ),
        ([entry(0, "a", "f"), entry(0)], ["no call is open: opens call 0 (f)", "an empty entry"]),
    ],
)
def test_why_a_fragment_went_where_it_went(entries: list[Any], expected: list[str]):
    """Each rule of calls.py as a sentence."""
    assert why(b"".join(call(one) for one in entries) + fin("tool_calls") + DONE) == expected


def test_why_on_the_responses_api():
    """Items, and the server's list of calls at the end of the answer."""
    item = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": ""}
    body = b"".join(
        event(payload)
        for payload in (
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{}"},
            {
                "type": "response.completed",
                "response": {
                    "status": "completed",
                    "output": [
                        {**item, "arguments": "{}"},
                        {**item, "id": "fc_9", "call_id": "z", "name": "late", "arguments": "{}"},
                    ],
                },
            },
        )
    )
    assert why(body, adapter="responses") == [
        "no call is open: opens call 0 (f)",
        "item 'fc_1' is known: continues call 0 (f)",
        "the server's final list of tool calls: item 'fc_1' belongs to call 0 (f)",
        "the server's final list of tool calls: this call was not streamed: opens call 1 (late)",
    ]


def test_every_rule_and_delta_has_words() -> None:
    """A rule of the engine or a kind of delta that is new can't be explained by an error."""
    opened = IncomingCall(0, 0)
    words = [
        placement_words(CallMatch(opened, rule, ToolCallDelta(0, "a", "f"), rival=opened))
        for rule in get_args(MatchRule)
    ]
    assert all(words)
    assert len(set(words)) == len(words)
    assert set(_KINDS) < set(get_args(Delta))


def test_long_ids_are_shortened_and_odd_names_are_quoted():
    """A sentence stays one line, whatever a server puts into it."""
    assert why(call(entry(0, "i" * 60, "a\x1b[31m\n", "{}")) + call(entry(None, "i" * 60, arguments=" "))) == [
        "no call is open: opens call 0 ('a\\x1b[31m\\n')",
        "id 'iiiiiiiiiiii...iiiiiiii' is known: continues call 0 ('a\\x1b[31m\\n')",
    ]


# --- Events ----------------------------------------------------------------------------------------------------------


def test_an_event_in_full():
    """What came, when, and what became of it."""
    first, second = text("Hi"), fin("stop")
    made = inspect_stream(first + second + DONE, name="a/b", cuts=[(10, 0.5), (len(first) + 10, 0.25), (34, 1.0)][:3])
    assert made.events[:2] == (
        Event(
            number=1,
            kind="event",
            start=0,
            end=len(first),
            raw=first.decode(),
            data=first.decode()[6:-2],
            time=0.75,
            gap=0.75,
            piece=2,
            deltas=(Meta("c1", "m", 1), TextDelta("Hi")),
            text="Hi",
        ),
        Event(
            number=2,
            kind="event",
            start=len(first),
            end=len(first + second),
            raw=second.decode(),
            data=second.decode()[6:-2],
            time=1.75,
            gap=1.0,
            piece=3,
            deltas=(Meta("c1", "m", 1), Finish("stop", "stop")),
        ),
    )
    assert made.events[2].deltas == (StreamEnd(),)
    assert made.events[2].finished
    assert (made.name, made.adapter, made.count, made.duration) == ("a/b", "chat", 3, 1.75)


def kinds(body: bytes, **options: Any) -> list[tuple[int | None, str, str | None]]:
    return [(one.number, one.kind, one.error) for one in inspect_stream(body, **options).events]


def test_what_is_no_event():
    """Comments, half an event, what comes after the end, whole bodies, and the end itself."""
    ended = "the stream ended before the response was complete"
    assert kinds(b": hello\n\n" + text("a") + DONE + b"data: late\n\n") == [
        (None, "comment", None),
        (1, "event", None),
        (2, "event", None),
        (None, "unread", None),
    ]
    assert kinds(text("a")) == [(1, "event", None), (None, "end", ended)]
    assert kinds(text("a") + b'data: {"choices": [') == [(1, "event", None), (None, "rest", ended)]
    assert kinds(text("a") + fin("stop")) == [(1, "event", None), (2, "event", None), (None, "end", None)]
    assert kinds(text("a") + fin("stop").rstrip()) == [(1, "event", None), (2, "event", None)]
    assert kinds(b'\n{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}') == [(None, "body", None)]
    assert kinds(b"") == [(None, "end", "the response is empty: it ended without any SSE event")]
    assert kinds(b"<html>" + b"x" * 600)[0][1] == "body"


def test_the_event_that_ended_it():
    """An error belongs to the event in which it was; what follows was not read."""
    made = inspect_stream(text("a") + event({"error": {"message": "overloaded", "code": 503}}) + text("b"))
    assert [(one.kind, one.error) for one in made.events] == [
        ("event", None),
        ("event", "overloaded"),
        ("unread", None),
    ]
    assert made.failed == StreamFailure("UpstreamError", "overloaded", retryable=True)
    assert made.reply.text == "a"
    long = inspect_stream(text("a") + text("b" * 900), limits=Limits(event_bytes=500))
    assert long.events[1].error == "one event is larger than 500 bytes (limits.event_bytes)"


@pytest.mark.parametrize(
    ("adapter", "body"),
    [
        ("gemini", b'data: {"candidates":[{"content":{"parts":[{"text":"Hello"},{"text":"A thou'),
        ("gemini", b'[{"candidates":[{"content":{"parts":[{"text":"Hello"},{"text":"A thou'),
        ("interactions", b'data: {"event_type":"step.delta","index":0,"delta":{"text":"Hello'),
    ],
)
def test_a_truncated_response_is_decoded_as_without_an_inspection(adapter: str, body: bytes) -> None:
    """The inspected adapter decides which text of a truncated event or body is certain."""
    assert inspect_stream(body, adapter=adapter).reply.text == outcome(StreamDecoder(adapter), body)[2].text == "Hello"


def test_warnings_know_their_event():
    """A warning has the event that it was first noticed at, and the call that it is about."""
    made = inspect_stream(call(entry(0, None, "f", "{")) + fin("tool_calls") + text("x") + text("y") + DONE)
    assert made.warnings == (
        LocatedWarning("late_content", "text arrived after the finish reason", event=2),
        LocatedWarning("missing_id", "f had no id", event=4, call=0),
        LocatedWarning("invalid_arguments", "f: the arguments are not a JSON object", event=4, call=0),
    )
    assert steps(made)[4][-1] == EventLine(
        "warning",
        "invalid_arguments: f: the arguments are not a JSON object",
        why="about call 0 (f), opened by event 1",
    )


def test_calls_that_were_not_handed_out():
    """All calls of the stream are there, with the events of their first and last fragment."""
    made = inspect_stream(text("a") + fragments('2 x f {"a"', "2 - - : 1"))
    assert made.calls == (TracedCall(0, 2, "x", "f", '{"a": 1', fragments=2, first=1, last=2),)
    assert made.reply.tool_calls == []


def test_notes_on_what_did_not_show():
    """Text that a dialect keeps, half of a character, and what was said already."""
    markup = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    by_dialect = inspect_stream(
        text(markup[:20]) + text(markup[20:]) + fin("stop") + DONE, dialect="hermes", tools=[{"name": "f"}]
    )
    assert [one.notes for one in by_dialect.events[:2]] == 2 * [
        ("text: held back by the dialect, because it is markup or may become markup",)
    ]
    assert [(one.name, one.arguments) for one in by_dialect.reply.tool_calls] == [("f", {})]
    half = inspect_stream(b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n' + text("x"))
    assert half.events[0].notes == ("text: half of a character, held back until the other half arrives",)
    (twice,) = {note for one in inspected("aimock/responses_interleaved").events for note in one.notes}
    assert twice == "text: already received, so nothing is new"


def test_steps_tell_what_is_the_same_once():
    """The id and the model of the answer come with every event, and are told with the first."""
    made = inspect_stream(text("a") + text("b") + chunk({}, "length", usage={"prompt_tokens": 1}) + DONE)
    assert steps(made) == [
        (EventLine("stream", "meta: c1, m"), EventLine("text", piece="a")),
        (EventLine("text", piece="b"),),
        (EventLine("stream", "usage: 1 in tokens"), EventLine("stream", "finish: length")),
        (EventLine("stream", "done: nothing follows"),),
    ]


def test_odd_ids_and_models():
    """Who is speaking is told as far as it is a word, whatever stands there."""
    made = inspect_stream(b'data: {"id": 5, "model": ["x"], "choices": [{"delta": {"content": "a"}}]}\n\n' + DONE)
    assert steps(made)[0] == (EventLine("stream", "meta: 5"), EventLine("text", piece="a"))
    assert to_dict(made)["reply"]["id"] == "5"


def test_unknown_names_are_mistakes():
    """Only what is written down wrongly is raised."""
    with pytest.raises(ConfigError, match="unknown adapter 'chatt'"):
        inspect_stream(b"", adapter="chatt")
    with pytest.raises(ConfigError, match="unknown dialect 'x'"):
        inspect_stream(b"", dialect="x")


# --- JSON ------------------------------------------------------------------------------------------------------------


def members(heading: str) -> list[str]:
    """The members that a table of docs/inspect.md names, the first one behind this text."""
    rows = DOCS[DOCS.index(heading) :].split("|---|---|\n")[1].split("\n\n")[0].splitlines()
    return [name for row in rows for name in row.split("|")[1].replace("`", "").replace(" ", "").split(",")]


def test_the_shape_is_documented():
    """docs/inspect.md names the members that are there, all of them."""
    made = to_dict(inspected("kimi/parallel_calls"))
    assert sorted(members("## The shape of `inspect --json`")) == sorted(made)
    assert sorted(members("Each object in `events`")) == sorted(made["events"][0])
    assert sorted(members("Each object in `placements`")) == sorted(made["events"][18]["placements"][0])
    for word in [*made["calls"][0], "code", "detail", "event", "call"]:
        assert f"`{word}`" in DOCS
    compared = comparison_to_dict(compare(inspected("kimi/parallel_calls"), inspected("aimock/note")))
    assert sorted(members("## The shape of `diff --json`")) == sorted(compared)


def test_an_event_as_json():
    """Whole values, all members, plain types."""
    made = to_dict(
        inspect_stream(call(entry(0, "a", "f", "{}")) + fin("tool_calls") + DONE, cuts=[(999, float("inf"))])
    )
    first = made["events"][0]
    assert (first["position"], first["number"], first["time"], first["gap"]) == (0, 1, None, None)
    assert first["deltas"][1] == {
        "kind": "call",
        "index": 0,
        "id": "a",
        "name": "f",
        "arguments": "{}",
        "whole": False,
        "extra": None,
        "item": None,
        "markup": False,
        "ended": None,
        "begins": False,
        "custom": False,
        "held": False,
    }
    assert first["placements"] == [
        {
            "call": 0,
            "opens": True,
            "rule": "first",
            "why": "no call is open: opens call 0 (f)",
            "index": 0,
            "id": "a",
            "name": "f",
            "arguments": "{}",
            "whole": False,
        }
    ]
    assert made["reply"]["tool_calls"][0]["arguments"] == {}
    assert json.loads(json.dumps(made, allow_nan=False)) == made


# --- Comparisons -----------------------------------------------------------------------------------------------------


def compared(a: Iterable[bytes], b: Iterable[bytes], **options: Any) -> Any:
    return compare(
        *(inspect_stream(b"".join(side) + DONE, name=name) for side, name in ((a, "a"), (b, "b"))), **options
    )


def test_items_of_a_whole_response_as_json():
    """The server's list of items has the facts of each one, with their kinds."""
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
    response = {"id": "r", "object": "response", "status": "completed", "output": [call]}
    event = f"data: {json.dumps({'type': 'response.completed', 'response': response})}\n\n".encode()
    found = json.loads(json.dumps(to_dict(inspect_stream(event, adapter="responses"))))
    (items,) = [delta["items"] for delta in found["events"][0]["deltas"] if delta["kind"] == "items"]
    assert [(fact["kind"], fact.get("name")) for fact in items[0]] == [("call", "f"), ("extra", "output")]


def test_the_same_answer_in_other_pieces():
    """How an answer was cut into events is no part of it."""
    made = compared([text("Hello "), text("you"), fin("stop")], [text("Hello you"), fin("stop")])
    assert made.same
    assert made.meaning == FirstDifference(1, "text: 'Hello '", "text: 'Hello you'")


def test_other_calls_are_another_answer():
    """Names and arguments count by what they mean; ids can be ignored."""
    one = [call(entry(0, "a", "f", '{"x": 1}')), fin("tool_calls")]
    spaced = [call(entry(0, "b", "f", '{"x":1}')), fin("tool_calls")]
    other = [call(entry(0, "a", "f", '{"x": 2}')), fin("tool_calls")]
    assert [verdict.field for verdict in compared(one, spaced).answer if not verdict.same] == ["ids"]
    assert not compared(one, spaced).same
    assert compared(one, spaced, ignore=["ids"]).same
    assert [verdict.field for verdict in compared(one, other).answer if not verdict.same] == ["calls"]


def test_errors_are_compared():
    """Two streams that broke off alike gave the same answer; one that did not, another."""
    cut, whole = inspect_stream(text("a")), inspect_stream(text("a") + fin("stop") + DONE)
    assert compare(cut, cut).same
    assert [one.field for one in compare(cut, whole).answer if not one.same] == ["outcome", "finish_reason"]


def test_only_parts_of_the_answer_can_be_ignored():
    """A part that does not exist is a mistake, not a comparison that ignores nothing."""
    with pytest.raises(ConfigError, match=r"unknown part of the reply 'id'\. Allowed: outcome, text"):
        compared([], [], ignore=["id"])


def test_calls_of_the_summary_are_whole():
    """The fragment of a summary is marked as such."""
    made = inspected("aimock/responses_interleaved")
    assert [placement.whole for placement in made.events[-1].placements] == [True, True]
    assert [type(delta) for delta in made.events[8].deltas][1:] == [ToolCallDelta]
    assert made.reply.tool_calls[0] == ToolCall(
        "call_tqy8u66w3HpBzojg", "get_weather", {"city": "Paris"}, '{"city":"Paris"}'
    )
