"""Text and reasoning that servers send in fields of their own."""

from __future__ import annotations

from typing import Any

import pytest

from folding import (
    DONE,
    assert_any_cut,
    assert_any_cut_error,
    call,
    calls,
    chunk,
    codes,
    entry,
    fin,
    fold,
    fold_chunks,
    text,
)
from streamfold import IncompleteStreamError


def test_g1_reasoning_content() -> None:
    """Reasoning is kept, apart from the text, as it comes and on the reply (deer-flow#3043)."""
    body = chunk({"role": "assistant", "content": None, "reasoning_content": "Let me "})
    body += chunk({"reasoning_content": "see."}) + text("Hello") + fin("stop") + DONE
    reply = assert_any_cut(body)
    assert (reply.reasoning, reply.text) == ("Let me see.", "Hello")
    assert reply.message.reasoning == "Let me see."
    assert reply.message.content == "Hello"
    assert codes(reply) == []
    chunks, _ = fold_chunks(body)
    assert [(made.reasoning, made.delta) for made in chunks] == [("Let me ", ""), ("see.", ""), ("", "Hello"), ("", "")]


def test_g1_reasoning_text_and_call_in_one_chunk() -> None:
    """A chunk with reasoning, text, a call and the finish reason loses none of them."""
    delta = {"reasoning_content": "hm", "content": "Hello", "tool_calls": [entry(0, "a", "f", '{"x":1}')]}
    reply = assert_any_cut(chunk(delta, "tool_calls") + DONE)
    assert (reply.reasoning, reply.text, reply.finish_reason) == ("hm", "Hello", "tool_calls")
    assert calls(reply) == [("a", "f", {"x": 1})]
    chunks, _ = fold_chunks(chunk(delta, "tool_calls") + DONE)
    assert [(made.reasoning, made.delta) for made in chunks] == [("hm", ""), ("", "Hello"), ("", "")]


def test_g1_reasoning_after_text() -> None:
    """Reasoning between pieces of text stays reasoning, and the text stays whole."""
    body = text("a") + chunk({"reasoning_content": "hm"}) + text("b") + fin("stop") + DONE
    reply = assert_any_cut(body)
    assert (reply.reasoning, reply.text) == ("hm", "ab")


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"thinking": "hm"},
        {"thought": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
        {
            "reasoning_details": [
                {"type": "reasoning.encrypted", "data": "gAAA"},
                {"type": "reasoning.text", "text": "hm"},
            ]
        },
        {"reasoning_details": [{"text": "h"}, {"text": "m"}, None, "x", {"text": 5}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
    ],
)
def test_g2_names_of_the_field(delta: dict[str, Any]) -> None:
    """Reasoning is found under each of its names (Ollama, OpenRouter, Mistral; rust-genai#106)."""
    reply = assert_any_cut(chunk(delta) + text("Hello") + fin("stop") + DONE)
    assert (reply.reasoning, reply.text) == ("hm", "Hello")


@pytest.mark.parametrize("value", [True, False, 5, 0, [], ["x"], {}, {"text": "x"}])
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking", "thought", "reasoning_details"])
def test_g2_fields_of_another_kind(name: str, value: Any) -> None:
    """A field of one of these names that is no text does not break the answer (Gemini's `thought: true`)."""
    reply = fold(chunk({name: value, "content": "Hello"}) + fin("stop") + DONE)
    assert reply.text == "Hello"


def test_g2_reasoning_details_are_kept() -> None:
    """The details, which a provider may want back with the next request, are on the reply as they came."""
    details = [{"type": "reasoning.encrypted", "data": "gAAA", "index": 0}, {"type": "reasoning.text", "text": "hm"}]
    reply = assert_any_cut(chunk({"reasoning": "hm", "reasoning_details": details}) + text("a") + fin("stop") + DONE)
    assert reply.extras == {"reasoning_details": details}
    assert reply.message.extras == {"reasoning_details": details}


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm", "reasoning": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_content": "", "reasoning": "hm"},
        {"reasoning_content": None, "reasoning": "hm"},
        {"reasoning_content": "hm", "reasoning": ""},
        {"reasoning_content": "", "reasoning": None, "reasoning_details": [{"text": "hm"}]},
    ],
)
def test_g3_the_same_text_in_two_fields(delta: dict[str, Any]) -> None:
    """Reasoning that comes in two fields is said once (OpenRouter, Vercel's gateway)."""
    assert assert_any_cut(chunk(delta) + text("a") + fin("stop") + DONE).reasoning == "hm"


def test_g7_reasoning_and_then_the_end() -> None:
    """Reasoning alone, cut off, is an incomplete stream with the reasoning in the partial answer (opencodex#793)."""
    error = assert_any_cut_error(chunk({"reasoning_content": "hm"}))
    assert type(error) is IncompleteStreamError
    assert error.partial is not None
    assert (error.partial.reasoning, error.partial.text) == ("hm", "")


def test_g7_reasoning_and_then_no_room() -> None:
    """Reasoning that used up the output ends with "length" and without text, which nobody can take for an answer."""
    reply = assert_any_cut(chunk({"reasoning_content": "hm"}) + fin("length") + DONE)
    assert (reply.reasoning, reply.text, reply.finish_reason) == ("hm", "", "length")


def test_g7_reasoning_and_then_nothing() -> None:
    """Reasoning that ends in order and without an answer is finished with a warning."""
    reply = assert_any_cut(chunk({"reasoning_content": "hm"}) + fin("stop") + DONE)
    assert (reply.reasoning, reply.text, reply.finish_reason) == ("hm", "", "stop")
    assert codes(reply) == ["empty_answer"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_g8_empty_reasoning(name: str) -> None:
    """`""` says that the model reasoned and does not show it, which the next request must repeat."""
    reply = assert_any_cut(chunk({name: ""}) + call(entry(0, "a", "f", "{}")) + fin("tool_calls") + DONE)
    assert reply.reasoning == ""
    assert reply.message.reasoning == ""


@pytest.mark.parametrize("delta", [{}, {"reasoning_content": None}, {"reasoning": None, "reasoning_details": []}])
def test_g8_no_reasoning(delta: dict[str, Any]) -> None:
    """Reasoning that is absent or null is none at all."""
    reply = assert_any_cut(chunk(delta) + text("a") + fin("stop") + DONE)
    assert reply.reasoning == ""
    assert reply.message.reasoning is None


def test_g8_empty_reasoning_makes_no_chunk() -> None:
    """`""` on every delta (DeepSeek, Z.ai) makes no chunks that say nothing."""
    body = (
        chunk({"content": "a", "reasoning_content": ""})
        + chunk({"content": "b", "reasoning_content": ""})
        + fin("stop")
    )
    chunks, _ = fold_chunks(body + DONE)
    assert [(made.delta, made.finished) for made in chunks] == [("a", False), ("b", False), ("", True)]


@pytest.mark.parametrize("space", ["\n\n", " ", "\n", "\t"])
def test_g9_white_space_before_calls(space: str) -> None:
    """White space before a call is text and leaves the call alone (vLLM, Dynamo)."""
    body = text(space) + call(entry(0, "a", "f", '{"x":')) + call(entry(0, arguments="1}")) + fin("tool_calls") + DONE
    reply = assert_any_cut(body)
    assert reply.text == space
    assert calls(reply) == [("a", "f", {"x": 1})]
    assert codes(reply) == []


@pytest.mark.parametrize("said", ["\n", "Done.", "", None])
def test_g10_text_after_calls(said: str | None) -> None:
    """Text after a call, or between its fragments, neither closes nor corrupts it."""
    after = chunk({"content": said})
    body = (
        call(entry(0, "a", "f", '{"x":'))
        + after
        + call(entry(0, arguments="1}"))
        + after
        + call(entry(1, "b", "g", '{"y":'))
        + after
        + call(entry(1, arguments="2}"))
        + after
        + fin("tool_calls")
        + DONE
    )
    reply = assert_any_cut(body)
    assert reply.text == (said or "") * 4
    assert calls(reply) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]
    assert codes(reply) == []


def test_g10_text_in_the_chunk_of_a_fragment() -> None:
    """Text beside a fragment of a call goes its own way."""
    body = (
        chunk({"content": "a", "tool_calls": [entry(0, "a", "f", '{"x":')]})
        + chunk({"content": "b", "tool_calls": [entry(0, arguments="1}")]}, "tool_calls")
        + DONE
    )
    reply = assert_any_cut(body)
    assert reply.text == "ab"
    assert calls(reply) == [("a", "f", {"x": 1})]
