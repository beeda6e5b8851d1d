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
    fragments,
    text,
)
from markup import CALLS, HERMES, KIMI, LLAMA
from streamfold import IncompleteStreamError
from tables import each_row


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


@each_row(
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


@each_row("value", [True, False, 5, 0, [], ["x"], {}, {"text": "x"}])
@each_row("name", ["reasoning_content", "reasoning", "thinking", "thought", "reasoning_details"])
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


@each_row(
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


@each_row("space", ["\n\n", " ", "\n", "\t"])
def test_g9_white_space_before_calls(space: str) -> None:
    """White space before a call is text and leaves the call alone (vLLM, Dynamo)."""
    body = text(space) + fragments('0 a f {"x":', "0 - - 1}") + fin("tool_calls") + DONE
    reply = assert_any_cut(body)
    assert reply.text == space
    assert calls(reply) == [("a", "f", {"x": 1})]
    assert codes(reply) == []


@each_row("said", ["\n", "Done.", "", None])
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


# --- reasoning and calls that the model writes into its text ----------------------------------------------------------

SEARCH = [{"type": "function", "function": {"name": "search"}}]
STOP = fin("stop") + DONE


def pieces(*texts: str) -> bytes:
    """A body whose text comes in these pieces."""
    return b"".join(map(text, texts)) + STOP


def test_g4_what_was_held_back_when_the_stream_broke() -> None:
    """The partial answer of a stream that breaks off has the characters that were held back, too."""
    error = assert_any_cut_error(text("<think>a</think>b <"), dialect="think")
    assert error.partial is not None
    assert (error.partial.reasoning, error.partial.text) == ("a", "b <")
    error = assert_any_cut_error(text("<think>a</th"), dialect="think")
    assert error.partial is not None
    assert (error.partial.reasoning, error.partial.text) == ("a</th", "")


def test_g5_a_closing_tag_that_nothing_opened() -> None:
    """What was shown stays shown: nobody guesses that it was reasoning, and the tag alone is taken out."""
    reply = assert_any_cut(pieces("abc</thi", "nk>ok"), dialect="think")
    assert (reply.reasoning, reply.text) == ("", "abcok")
    chunks, _ = fold_chunks(pieces("abc</thi", "nk>ok"), dialect="think")
    assert [made.delta for made in chunks] == ["abc", "ok", ""]


def test_g5_a_closing_tag_behind_reasoning_of_its_own_field() -> None:
    """A server that splits reasoning off and leaves the closing tag in the text has it taken out."""
    reply = assert_any_cut(chunk({"reasoning_content": "hm"}) + pieces("</thi", "nk>", "ok"), dialect="think")
    assert (reply.reasoning, reply.text) == ("hm", "ok")


def test_g6_reasoning_that_used_up_the_output() -> None:
    """With "length" the finish reason says it all."""
    reply = assert_any_cut(text("<think>still ") + text("going") + fin("length") + DONE, dialect="think")
    assert (reply.reasoning, reply.text, reply.finish_reason, codes(reply)) == ("still going", "", "length", [])


def test_g6_reasoning_that_never_ends_and_a_call() -> None:
    """A call of the server's own is an answer, whatever became of the reasoning."""
    body = text("<think>hm") + call(entry(0, "a", "search", '{"q":1}')) + fin("tool_calls") + DONE
    reply = assert_any_cut(body, dialect="think", tools=SEARCH)
    assert (reply.reasoning, reply.text, calls(reply)) == ("hm", "", [("a", "search", {"q": 1})])
    assert codes(reply) == []


def test_g6_reasoning_in_a_stream_that_broke() -> None:
    """Cut off inside the reasoning, the stream is incomplete, and the reasoning is in the partial answer."""
    error = assert_any_cut_error(text("<think>still ") + text("going"), dialect="think")
    assert type(error) is IncompleteStreamError
    assert error.partial is not None
    assert (error.partial.reasoning, error.partial.text) == ("still going", "")


# A server that was not forced to call writes a tag before Llama's call; the forced forms have no markup.
MARKUP = {name: said for name, said in CALLS.items() if name not in ("required", "named")}
MARKUP["llama3"] = f"<|python_tag|>{LLAMA}"
UNREAD = {
    "granite3": '<|tool_call|>[{"name": "search", "arguments": {}}]',
    "longcat": '<longcat_tool_call>{"name": "search", "arguments": {}}</longcat_tool_call>',
    "olmo3": '<function_calls>\nsearch(q="x")\n</function_calls>',
}


@each_row("name", MARKUP)
def test_g11_markup_that_leaks(name: str) -> None:
    """Calls that the server left in the text stay there, unharmed, and the reply names the dialect for them."""
    said = f"Sure. {MARKUP[name]}"
    for cut in ((said,), tuple(said)):
        reply = assert_any_cut(pieces(*cut), tools=SEARCH)
        assert (reply.text, reply.tool_calls, reply.finish_reason) == (said, [], "stop")
        assert [(warning.code, warning.detail) for warning in reply.warnings] == [
            ("leaked_markup", f"the text contains tool calls that the dialect {name!r} would read")
        ]


@pytest.mark.parametrize("name", UNREAD)
def test_g11_markup_that_no_dialect_reads(name: str) -> None:
    """Languages that are not read are noticed all the same."""
    reply = assert_any_cut(pieces("Sure. ", UNREAD[name]), tools=SEARCH)
    assert (reply.text, reply.tool_calls) == (f"Sure. {UNREAD[name]}", [])
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("leaked_markup", f"the text contains tool calls in the format of {name}, which no dialect reads")
    ]


def test_g11_reasoning_that_leaks() -> None:
    """Reasoning at the head of the text is noticed as well."""
    reply = assert_any_cut(pieces("<think>hm</think>", "ok"))
    assert (reply.text, reply.reasoning) == ("<think>hm</think>ok", "")
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("leaked_markup", "the text contains reasoning that the dialect 'think' would read")
    ]


@each_row("name", MARKUP)
def test_g11_the_dialect_reads_it(name: str) -> None:
    """With the dialect the same bytes are a call, of which no part was shown."""
    said = MARKUP[name] if name == "llama3" else f"Sure. {MARKUP[name]}"
    for cut in ((said,), tuple(said)):
        reply = assert_any_cut(pieces(*cut), dialect=name, tools=SEARCH)
        assert (reply.text, reply.finish_reason) == (said.removesuffix(MARKUP[name]), "tool_calls")
        assert [(made.name, made.arguments) for made in reply.tool_calls] == [("search", {"q": "x"})]
        assert codes(reply) == []


@each_row(
    ("dialect", "said", "leak"),
    [
        ("kimi", MARKUP["kimi3"], "kimi3"),
        ("kimi", HERMES, "hermes"),
        ("hermes", KIMI, "kimi"),
        ("deepseek", MARKUP["dsml"], "dsml"),
        ("hermes+kimi", MARKUP["mistral"], "mistral"),
        ("think", KIMI, "kimi"),
    ],
)
def test_g11_the_dialect_reads_another_language(dialect: str, said: str, leak: str) -> None:
    """A leak is reported where a dialect is set too, if it is not the one that reads it: so a wrong one is found."""
    reply = assert_any_cut(pieces("Sure. ", said), dialect=dialect, tools=SEARCH)
    assert (reply.text, reply.tool_calls) == (f"Sure. {said}", [])
    assert [warning.code for warning in reply.warnings if leak in warning.detail] == ["leaked_markup"]


def test_g11_calls_where_no_tools_were_declared() -> None:
    """Without tools a dialect reads no calls; a model that writes some all the same is reported."""
    reply = assert_any_cut(pieces("Sure. ", KIMI), dialect="kimi")
    assert (reply.text, reply.tool_calls) == (f"Sure. {KIMI}", [])
    assert codes(reply) == ["leaked_markup"]


@each_row("said", ["<tool_call> is a tag.", "Use <think> and [1].", "a <|tool_x b", "[TOOL_CALL] ok"])
def test_g11_talk_about_markup_is_no_leak(said: str) -> None:
    """Text that only mentions a marker is text, without a warning."""
    reply = assert_any_cut(pieces(said), tools=SEARCH)
    assert (reply.text, codes(reply)) == (said, [])
