"""How an answer ends: bugs that real servers and clients have shown, each with its bytes.

The ids at the beginning of a test's name, or of a row, are those of its entries in docs/bugs.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from folding import (
    DONE,
    assert_any_cut,
    assert_any_cut_error,
    bytewise,
    call,
    chunk,
    codes,
    entry,
    event,
    fin,
    fold,
    fold_chunks,
    fold_error,
    fragments,
    said_in,
    text,
)
from streamfold import (
    IncompleteStreamError,
    ProtocolError,
    Reply,
    StreamDecoder,
    StreamError,
    StreamfoldError,
    Tool,
    ToolCall,
    UpstreamError,
    Usage,
)
from tables import each_row

CALL = fragments('0 call_a f {"x"', "0 - - :1}")
MADE = ToolCall("call_a", "f", {"x": 1}, '{"x":1}')
UNKNOWN = {"finish_reason": "unknown", "raw_finish_reason": None}
STOP_WITH_CALLS = {"finish_reason": "tool_calls", "raw_finish_reason": "stop"}


def test_c1_clean_end_in_the_middle_of_the_text():
    """A body that ends in the middle of the text is an error with the text so far (pydantic/pydantic-ai#6610)."""
    for pieces in (None, bytewise(text("Hel"))):
        error = fold_error(text("Hel"), pieces)
        assert type(error) is IncompleteStreamError
        assert "ended before the response was complete" in error.message
        assert error.retryable
        assert error.partial == Reply(text="Hel", id="c1", model="m")


def test_c1_broken_connection_in_the_middle_of_the_text():
    """A connection that breaks in the middle of the text is the same error, and says how it broke."""
    decoder = StreamDecoder("chat")
    chunks = decoder.feed(text("Hel"))
    assert [made.delta for made in chunks] == ["Hel"]
    with pytest.raises(IncompleteStreamError, match="connection reset before the response was complete") as caught:
        decoder.close(interrupted="connection reset")
    assert caught.value.partial == Reply(text="Hel", id="c1", model="m")
    with pytest.raises(StreamfoldError):
        _ = decoder.reply


def test_c2_clean_end_in_the_middle_of_arguments():
    """A body that ends in the middle of arguments hands out no call, not even a broken one."""
    body = text("Hm. ") + call(entry(0, "call_a", "f", '{"x"'))
    error = fold_error(body)
    assert type(error) is IncompleteStreamError
    assert error.partial == Reply(text="Hm. ", id="c1", model="m")


def test_c2_every_beginning_of_an_answer():
    """Wherever an answer is cut off, its calls are handed out only if its finish reason came through."""
    body = text("Hm. ") + CALL + fin("tool_calls") + DONE
    finished_at = len(body) - len(DONE) - len(b"\n\n")
    for end in range(finished_at):
        decoder = StreamDecoder("chat")
        assert all(made.tool_calls is None and not made.finished for made in decoder.feed(body[:end]))
        with pytest.raises(StreamError) as caught:
            decoder.close()
        assert caught.value.partial is not None
        assert caught.value.partial.tool_calls == []
    for end in range(finished_at, len(body) + 1):
        assert fold(body[:end]).tool_calls == [MADE]


def test_c3_clean_end_after_complete_arguments():
    """Arguments that parse are no end: without a finish reason more calls may have been coming."""
    error = fold_error(CALL)
    assert type(error) is IncompleteStreamError
    assert error.partial == Reply(id="c1", model="m")


# Bodies, and what their replies say.
ENDS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "C4: A stream that says it is done is done, for a reason unknown (Ollama, pydantic/pydantic-ai#2996)": (
        text("Hello") + DONE,
        {"text": "Hello", **UNKNOWN, "codes": ["missing_finish_reason"]},
    ),
    "C4: The calls of a stream that says it is done are handed out (Kimi K2 by OpenRouter)": (
        CALL + DONE,
        {"tool_calls": [MADE], **UNKNOWN, "codes": ["missing_finish_reason"]},
    ),
    "C5: A finish reason is an end, with or without `[DONE]` (Cerebras, Groq, Perplexity)": (
        text("Hello") + fin("stop"),
        {"text": "Hello", "tool_calls": [], "finish_reason": "stop", "codes": []},
    ),
    "C5: Also of an answer with a call": (
        text("Hello") + CALL + fin("tool_calls"),
        {"text": "Hello", "tool_calls": [MADE], "finish_reason": "tool_calls", "codes": []},
    ),
    "C8: A router's `tool_calls` over a cut does not make a call of half arguments (vllm-project/vllm#53269)": (
        fragments('0 call_a f {"x":1}', '1 call_b g {"y":') + fin("tool_calls") + DONE,
        {
            "calls": [("call_a", "f", {"x": 1}), ("call_b", "g", {"_raw": '{"y":', "_error": "invalid_json"})],
            "codes": ["invalid_arguments"],
        },
    ),
    "C10: A finish reason that is sent twice is one finish reason": (
        CALL + fin("tool_calls") + fin("tool_calls") + DONE,
        {"tool_calls": [MADE], "finish_reason": "tool_calls", "raw_finish_reason": "tool_calls", "codes": []},
    ),
    "C10: The last reason counts: `tool_calls` after each call and `stop` at the end (Gemini by OpenRouter)": (
        chunk({"tool_calls": [entry(0, "call_a", "f", "{}")]}, "tool_calls")
        + chunk({"tool_calls": [entry(1, "call_b", "g", "{}")]}, "tool_calls")
        + fin("stop")
        + DONE,
        {"calls": [("call_a", "f", {}), ("call_b", "g", {})], **STOP_WITH_CALLS, "codes": ["late_content"]},
    ),
    "C10: The last reason counts also if it says that the answer was cut off": (
        CALL + fin("tool_calls") + fin("length") + DONE,
        {"tool_calls": [], "finish_reason": "length", "codes": ["calls_dropped"]},
    ),
    "C10: An empty reason after a finish reason takes nothing back": (
        CALL + fin("tool_calls") + fin("") + chunk({}) + DONE,
        {"tool_calls": [MADE], "finish_reason": "tool_calls"},
    ),
    "C11: Text and calls between the finish reason and `[DONE]` are kept, with a warning for each kind": (
        text("Hi") + fin("stop") + text("!") + text("!") + CALL + DONE,
        {"text": "Hi!!", "tool_calls": [MADE], **STOP_WITH_CALLS, "codes": ["late_content", "late_content"]},
    ),
    "C12: `[DONE]` that the model wrote is text": (
        text("[DONE]") + text("data: [DONE]\n\n") + fin("stop") + DONE,
        {"text": "[DONE]data: [DONE]\n\n"},
    ),
    "C13: An answer that is finished and says nothing is an answer, with a warning": (
        chunk({"role": "assistant", "content": ""}) + fin("stop") + DONE,
        {"text": "", "tool_calls": [], "finish_reason": "stop", "codes": ["empty_answer"]},
    ),
}


@each_row("case", ENDS)
def test_c4_c5_c8_c10_c11_c12_c13_ends(case: str):
    """What is an end, and what an answer is that has come to it."""
    body, said = ENDS[case]
    assert said_in(assert_any_cut(body), *said) == said


@pytest.mark.parametrize("reason", ["", None])
def test_c4_empty_finish_reason(reason: str | None):
    """An empty finish reason is none."""
    reply = assert_any_cut(text("Hello") + chunk({}, reason) + DONE)
    assert (reply.finish_reason, reply.raw_finish_reason) == ("unknown", None)
    error = fold_error(text("Hello") + chunk({}, reason))
    assert type(error) is IncompleteStreamError


def test_c5_finish_reason_and_then_a_broken_connection():
    """A connection that breaks after the finish reason costs nothing but a warning."""
    decoder = StreamDecoder("chat")
    assert decoder.feed(CALL + fin("tool_calls")) == []
    [last] = decoder.close(interrupted="the connection was reset")
    assert last.finished
    assert last.tool_calls == [MADE]
    assert codes(decoder.reply) == ["interrupted_after_finish"]
    assert decoder.reply.warnings[0].detail == "the connection was reset"


@each_row("end", [b"\n\n", b"\n", b"\r", b"\r\n", b""])
def test_c6_last_event_without_its_blank_line(end: bytes):
    """A last event is read although its blank line, or even its line end, is missing."""
    reply = assert_any_cut(text("Hello") + chunk({"content": "!"}, "stop").rstrip(b"\n") + end)
    assert (reply.text, reply.finish_reason) == ("Hello!", "stop")
    assert codes(reply) == []


@pytest.mark.parametrize("missing", [b"\n", b"\n\n"])
def test_c6_done_without_its_blank_line(missing: bytes):
    """`[DONE]` counts although its blank line is missing (httpx-sse drops it)."""
    reply = assert_any_cut((text("Hello") + DONE).removesuffix(missing))
    assert reply.text == "Hello"
    assert codes(reply) == ["missing_finish_reason"]


@each_row("reason", ["stop", "eos", "eos_token", "end_turn"])
def test_c7_stop_although_there_are_calls(reason: str):
    """Calls decide, not the word: after `stop` they are handed out (vllm-project/vllm#9209, BerriAI/litellm#12862)."""
    reply = assert_any_cut(CALL + fin(reason) + DONE)
    assert reply.tool_calls == [MADE]
    assert (reply.finish_reason, reply.raw_finish_reason) == ("tool_calls", reason)
    assert codes(reply) == []


@pytest.mark.parametrize("reason", ["tool_calls", "function_call", "tool_use"])
def test_c9_tool_calls_without_a_call(reason: str):
    """A finish reason that promises calls where there are none is worth a warning."""
    chunks, reply = fold_chunks(text("Hello") + fin(reason) + DONE)
    assert chunks[-1].tool_calls is None
    assert reply.text == "Hello"
    assert (reply.finish_reason, reply.raw_finish_reason) == ("tool_calls", reason)
    assert codes(reply) == ["missing_tool_calls"]


def test_c11_late_usage():
    """Usage after the finish reason, with or without a choice beside it, is the answer's usage."""
    tokens = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    usage = Usage(3, 5, 8, raw=tokens)
    assert assert_any_cut(text("Hi") + fin("stop") + event({"choices": [], "usage": tokens}) + DONE).usage == usage
    assert assert_any_cut(text("Hi") + fin("stop") + event({"usage": tokens})).usage == usage
    assert assert_any_cut(text("Hi") + fin("stop") + chunk({"content": ""}, usage=tokens) + DONE).usage == usage


def test_c11_late_content_with_a_dialect():
    """Text and calls behind a finish reason are told also where a dialect reads the text."""
    body = text("Hi") + fin("stop") + text(" there") + CALL + chunk({"content": ""}) + DONE
    reply = assert_any_cut(body, dialect="hermes", tools=[Tool("f", "", {})])
    assert (reply.text, reply.tool_calls) == ("Hi there", [MADE])
    assert codes(reply) == ["late_content", "late_content"]


def test_c11_anything_after_done():
    """What comes after `[DONE]` is ignored, be it text, calls, an error or no JSON at all."""
    after = text("!") + CALL + event({"error": {"message": "late"}}) + b"data: {\n\n" + DONE
    reply = assert_any_cut(text("Hi") + fin("stop") + DONE + after)
    assert reply == fold(text("Hi") + fin("stop") + DONE)
    assert reply.text == "Hi"
    assert reply.tool_calls == []


DONES = [
    b"data: [DONE]\n\ndata: [DONE]\n\n",
    b"data: [DONE] \n\n",
    b"data:  [DONE]\n\n",
    b"data:[DONE]\n\n",
    b'data: "[DONE]"\n\n',
    b"data: [done]\n\n",
    b"data: [DONE]\r\n\r\n",
    b"event: done\ndata: [DONE]\n\n",
    b"id: 7\nretry: 100\ndata: [DONE]\n\n",
]


@each_row("done", DONES)
def test_c12_spellings_of_done(done: bytes):
    """`[DONE]` ends the stream once, however it is written."""
    reply = assert_any_cut(text("Hi") + fin("stop") + done)
    assert (reply.text, reply.finish_reason) == ("Hi", "stop")
    assert codes(reply) == []
    unfinished = assert_any_cut(text("Hi") + done)
    assert (unfinished.text, unfinished.finish_reason) == ("Hi", "unknown")
    assert codes(unfinished) == ["missing_finish_reason"]


@pytest.mark.parametrize("reason", [b"", fin("stop")])
def test_c12_two_dones_without_a_blank_line(reason: bytes):
    """Two `[DONE]` in one event are one end: there is one finished chunk."""
    chunks, reply = fold_chunks(text("Hi") + reason + b"data: [DONE]\ndata: [DONE]\n\n")
    assert [(made.delta, made.finished) for made in chunks] == [("Hi", False), ("", True)]
    assert reply.text == "Hi"


def test_c12_error_and_done_without_a_blank_line():
    """An error and `[DONE]` in one event after the finish reason are one end: there is one finished chunk."""
    chunks, reply = fold_chunks(
        text("Hi") + fin("stop") + b'data: {"error":{"message":"moderation is down"}}\ndata: [DONE]\n\n'
    )
    assert [(made.delta, made.finished) for made in chunks] == [("Hi", False), ("", True)]
    assert "error_after_finish" in codes(reply)


@each_row("word", ["eos_and_more", "tool", "done", "recitation?"])
def test_c14_unknown_finish_reason(word: str):
    """A word that nobody knows is kept raw and is never taken for `stop`; calls are handed out."""
    reply = assert_any_cut(text("Hi") + CALL + fin(word) + DONE)
    assert reply.tool_calls == [MADE]
    assert (reply.finish_reason, reply.raw_finish_reason) == ("unknown", word)


@each_row(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        # Gateways before Gemini hand on its words in upper case; they mean the same (QwenLM/qwen-code#9884).
        ("MAX_TOKENS", "length"),
        ("Length", "length"),
        ("STOP", "stop"),
    ],
)
def test_c14_words_that_are_known(word: str, reason: str):
    """Words of other engines are mapped to the closed set, and the raw one is kept."""
    reply = assert_any_cut(text("Hi") + fin(word) + DONE)
    assert (reply.text, reply.finish_reason, reply.raw_finish_reason) == ("Hi", reason, word)
    assert codes(reply) == []


@each_row(
    ("word", "reason"),
    [
        ("length", "length"),
        ("max_tokens", "length"),
        ("max_output_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("model_length", "length"),  # Mistral's: the context was full
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("refusal", "content_filter"),
        ("RECITATION", "content_filter"),
        ("content-filter", "content_filter"),
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        *((word, "length") for word in ("timeout", "time_limit", "incomplete", "max_length", "interrupted")),
        *((word, "length") for word in ("TRUNCATED", "token-limit", "context_length_exceeded", "budget_exhausted")),
        *((word, "content_filter") for word in ("content_filtered", "filtered", "guardrail_intervened", "blocked")),
    ],
)
def test_b8_c14_words_that_drop_calls(word: str, reason: str):
    """In whatever words an answer was cut off or filtered: it hands out no calls, and says which ones it dropped."""
    reply = assert_any_cut(text("Hi") + CALL + fin(word) + DONE)
    assert (reply.text, reply.tool_calls) == ("Hi", [])
    assert (reply.finish_reason, reply.raw_finish_reason) == (reason, word)
    why = "truncated" if reason == "length" else "filtered"
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("calls_dropped", f"the response was {why}: f")
    ]


@pytest.mark.parametrize("word", ["null", "None", " "])
def test_c14_no_reason_as_text(word: str):
    """A word that says there is no finish reason yet ends nothing: a cut answer stays one, a finished one keeps its."""
    error = fold_error(chunk({"content": "Hi"}, word) + CALL + fin(word))
    assert type(error) is IncompleteStreamError
    reply = assert_any_cut(chunk({"content": "Hi"}, word) + CALL + fin("tool_calls") + fin(word) + DONE)
    assert reply.tool_calls == [MADE]
    assert (reply.finish_reason, reply.raw_finish_reason) == ("tool_calls", "tool_calls")
    assert codes(reply) == []


@each_row(
    ("word", "retryable"),
    [
        ("error", False),  # OpenRouter, Z.ai
        ("network_error", True),
        ("insufficient_system_resource", True),
        ("abort", False),  # vLLM's engine gave up (vllm-project/vllm#57082)
        ("function_call_filter: MALFORMED_FUNCTION_CALL", True),
        ("malformed_function_call", True),
        ("function_call_filter: UNEXPECTED_TOOL_CALL", False),
        ("cancelled", False),
        ("failed", False),
        ("server_error", True),
        ("user_cancelled", False),
        ("aborted", False),
    ],
)
def test_c14_words_that_say_failed(word: str, retryable: bool):
    """A finish reason by which the server disowns the answer is a failure, whatever calls it let through before."""
    error = assert_any_cut_error(text("Hi") + CALL + fin(word) + DONE)
    assert type(error) is UpstreamError
    assert word in error.message
    assert (error.type, error.retryable) == (word, retryable)
    assert error.partial is not None
    assert error.partial.text == "Hi"


@pytest.mark.parametrize("reason", [{"type": "stop"}, ["stop"]])
def test_c14_finish_reason_that_is_no_word(reason: Any):
    """A finish reason of the wrong shape is one of our errors, with the event, and not a bare TypeError."""
    error = fold_error(text("Hi") + chunk({}, reason) + DONE)
    assert type(error) is ProtocolError
    assert error.partial is not None
    assert error.partial.text == "Hi"


@each_row("after", [b"", b": ping\n\n", text("!"), DONE])
def test_b9_c15_the_end_is_known_at_done(after: bytes):
    """The finished chunk comes with `[DONE]` itself, and none before it shows a call, however whole it looks."""
    decoder = StreamDecoder("chat")
    chunks = decoder.feed(CALL + fin("tool_calls") + DONE[:-1])
    assert chunks == []
    assert not decoder.done
    [last] = decoder.feed(DONE[-1:] + after)
    assert last.finished
    assert last.tool_calls == [MADE]
    assert decoder.done
    assert decoder.feed(after) == []
    assert decoder.close() == []
