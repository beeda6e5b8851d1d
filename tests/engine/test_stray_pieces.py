"""Calls of which a part is missing, on APIs whose messages are lists of blocks: nothing of them is run, or dropped
without a word.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import assert_any_cut, call, codes, entry, event, fin, fold_error, text
from streamfold import IncompleteStreamError, Reply, Tool
from tables import each_row

X = '{"x":1}'


def said(kind: str, **members: Any) -> bytes:
    """One event of the Messages API."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps({"type": kind, **members}).encode())


START = said("message_start", message={"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c"})
STOP = said("message_delta", delta={"stop_reason": "tool_use"}) + said("message_stop")


def head(index: int, name: str) -> bytes:
    block = {"type": "tool_use", "id": f"id_{name}", "name": name, "input": {}}
    return said("content_block_start", index=index, content_block=block)


def piece(index: int, text: str) -> bytes:
    return said("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": text})


def end(index: int) -> bytes:
    return said("content_block_stop", index=index)


def messages(*events: bytes) -> Reply:
    return assert_any_cut(START + b"".join(events) + STOP, adapter="anthropic")


def gemini(*parts: dict[str, Any], reason: str | None = "STOP") -> bytes:
    """A stream with one part in each event."""
    last = [{"content": {"parts": []}, "finishReason": reason}] if reason else []
    candidates = [{"content": {"role": "model", "parts": [part]}} for part in parts] + last
    return b"".join(event({"candidates": [candidate], "responseId": "r"}) for candidate in candidates)


def named(name: str | None, *values: tuple[str, Any], more: bool = True, **members: Any) -> dict[str, Any]:
    """A part of a call whose arguments come in pieces."""
    said: dict[str, Any] = {**({"name": name} if name else {}), **members}
    if values:
        kinds = {int: "numberValue", str: "stringValue", bool: "boolValue"}
        said["partialArgs"] = [{"jsonPath": path, kinds[type(value)]: value} for path, value in values]
    return {"functionCall": {**said, **({"willContinue": True} if more else {})}}


def run(reply: Reply) -> list[tuple[str, Any]]:
    """What would be run: the calls without an error."""
    return [(made.name, made.arguments) for made in reply.tool_calls if not made.error]


# --- the Messages API ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stray", [7, 0])
def test_a_piece_under_an_index_of_no_call(stray: int) -> None:
    """The call beside it may lack it, so that it is not run with {}; the one that has its arguments is."""
    opened = b"" if stray == 7 else said("content_block_start", index=0, content_block={"type": "text", "text": ""})
    reply = messages(opened, head(1, "f"), end(1), head(2, "g"), piece(2, X), piece(stray, X), end(2))
    assert run(reply) == [("g", {"x": 1})]
    assert [made.error for made in reply.tool_calls if made.name == "f"] == ["invalid_json"]
    assert {"calls_dropped", "invalid_arguments"} <= set(codes(reply))


def test_a_lost_beginning() -> None:
    """A call without its first event has no name: that is said, and what is whole beside it is run."""
    reply = messages(head(0, "f"), piece(0, X), end(0), piece(1, X), end(1))
    assert run(reply) == [("f", {"x": 1})]
    assert codes(reply) == ["calls_dropped"]
    assert list(reply.message.tool_calls) == reply.tool_calls


def test_text_beside_a_stray_piece_is_kept() -> None:
    """Pieces of a call under the index of a text take nothing from the text."""

    def show(words: str) -> bytes:
        return said("content_block_delta", index=0, delta={"type": "text_delta", "text": words})

    opened = said("content_block_start", index=0, content_block={"type": "text", "text": ""})
    reply = messages(opened, show("a"), piece(0, X), show("b"), end(0))
    assert (reply.text, run(reply)) == ("ab", [])


# --- Gemini ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [{"text": "hm"}, {"text": "hm", "thought": True}])
def test_text_between_the_pieces_of_a_call(between: dict[str, Any]) -> None:
    """The pieces are those of the call under way, whatever is said in between."""
    parts = (named("f", ("$.a", 1)), between, named(None, ("$.b", 2)), between, named(None, more=False))
    reply = assert_any_cut(gemini(*parts), adapter="gemini")
    assert run(reply) == [("f", {"a": 1, "b": 2})]
    assert (reply.text + reply.reasoning, codes(reply)) == ("hmhm", [])


def test_a_call_that_is_named_again_with_each_piece() -> None:
    """One id is one call, also where two of them take turns."""
    reply = assert_any_cut(
        gemini(
            named("f", ("$.a", 1), id="1"),
            named("g", ("$.a", 3), id="2"),
            named("f", ("$.b", 2), id="1", more=False),
            named("g", ("$.b", 4), id="2", more=False),
        ),
        adapter="gemini",
    )
    assert run(reply) == [("f", {"a": 1, "b": 2}), ("g", {"a": 3, "b": 4})]


def test_a_call_that_never_ends() -> None:
    """Where the model stopped, no more of it was to come: it is whole, unless a string is still open."""
    other = {"functionCall": {"name": "g", "args": {}}}
    reply = assert_any_cut(gemini(named("f", ("$.a", 1)), other), adapter="gemini")
    assert run(reply) == [("f", {"a": 1}), ("g", {})]
    assert codes(reply) == []
    cut = named("f", ("$.a", "New Yo"))
    cut["functionCall"]["partialArgs"][0]["willContinue"] = True
    reply = assert_any_cut(gemini(cut, other), adapter="gemini")
    assert run(reply) == [("g", {})]
    assert [(made.name, made.raw_arguments, made.error) for made in reply.tool_calls][:1] == [
        ("f", '{"a":"New Yo"', "invalid_json")
    ]
    assert codes(reply) == ["invalid_arguments"]


def test_a_call_that_never_ends_in_an_answer_that_does_not_say_that_the_model_stopped() -> None:
    """It can't be run, and what is whole beside it can."""
    reply = assert_any_cut(
        gemini(named("f", ("$.a", 1)), {"functionCall": {"name": "g", "args": {}}}, reason="OTHER"), adapter="gemini"
    )
    assert run(reply) == [("g", {})]


def test_pieces_of_a_call_that_never_began() -> None:
    """They are no call, and a call without arguments beside them may lack them."""
    parts = (named(None, ("$.a", 1)), named(None, more=False), {"functionCall": {"name": "g"}})
    reply = assert_any_cut(gemini(*parts), adapter="gemini")
    assert run(reply) == []
    assert {"calls_dropped", "invalid_arguments"} <= set(codes(reply))


# --- a call that needs no arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["OTHER", "a_new_word"])
def test_a_call_without_arguments_is_whole_when_its_end_has_come(word: str) -> None:
    """After a word that does not say how the answer ended, too: only a head whose end is missing may be cut."""
    last = said("message_delta", delta={"stop_reason": word}) + said("message_stop")
    streams = {
        "messages": ("anthropic", START + head(0, "f") + end(0) + last),
        "messages, an empty piece": ("anthropic", START + head(0, "f") + piece(0, "") + end(0) + last),
        "gemini": ("gemini", gemini({"functionCall": {"name": "f"}}, reason=word)),
        "gemini, null": ("gemini", gemini({"functionCall": {"name": "f", "args": None}}, reason=word)),
        "gemini, a name that goes on": ("gemini", gemini(named("f"), named(None, more=False), reason=word)),
    }
    made = {name: run(assert_any_cut(stream, adapter=adapter)) for name, (adapter, stream) in streams.items()}
    assert made == {name: [("f", {})] for name in streams}
    assert run(assert_any_cut(START + head(0, "f") + last, adapter="anthropic")) == []
    assert run(assert_any_cut(gemini(named("f"), reason=word), adapter="gemini")) == []


# --- a break inside a call behind the finish reason -------------------------------------------------------------------

EARLY = said("message_delta", delta={"stop_reason": "tool_use"})
BREAKS = {
    "messages": (
        "anthropic",
        None,
        START + head(0, "f") + piece(0, X) + end(0) + EARLY + head(1, "g") + piece(1, '{"x"'),
    ),
    "messages-grown": (
        "anthropic",
        None,
        START + head(0, "f") + piece(0, X) + end(0) + head(1, "g") + EARLY + piece(1, "{"),
    ),
    "gemini": (
        "gemini",
        None,
        gemini({"functionCall": {"name": "f", "args": {"x": 1}}}) + gemini(named("g", ("$.a", 1)), reason=None),
    ),
    **{
        f"chat-{dialect}": (
            "chat",
            dialect,
            call(entry(0, "a", "f", X)) + fin("tool_calls") + call(entry(1, "b", "g", "")),
        )
        for dialect in ("hermes", "kimi", "think")
    },
}


@each_row("case", BREAKS)
def test_a_break_inside_a_call_behind_the_finish_reason(case: str) -> None:
    """Nothing of the answer is handed out, neither what came before nor the half that came behind."""
    adapter, dialect, stream = BREAKS[case]
    error = fold_error(stream, adapter=adapter, dialect=dialect)
    assert type(error) is IncompleteStreamError
    assert error.partial is not None
    assert error.partial.tool_calls == []


def test_calls_that_a_dialect_held_back_are_not_behind_the_reason() -> None:
    """Their text came before it; the end of the body only makes them certain."""
    markup = '<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>'
    reply = assert_any_cut(
        text(markup) + fin("stop"),
        adapter="chat",
        dialect="hermes",
        tools=[Tool("f", "", {"type": "object", "properties": {}})],
    )
    assert run(reply) == [("f", {"x": 1})]
