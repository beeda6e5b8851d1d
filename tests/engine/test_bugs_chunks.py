"""Shapes of Chat Completions chunks and of their usage, as servers really send them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from folding import DONE, assert_any_cut, call, calls, chunk, codes, entry, event, fin, fold, fold_chunks, text
from streamfold import Usage
from tables import each_row


def usage_chunk(usage: Any) -> bytes:
    """A chunk without choices that has this usage, as OpenAI ends a stream."""
    return event(
        {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}
    )


# --- choices and deltas ----------------------------------------------------------------------------------------------


def test_f1_usage_chunk_without_choices() -> None:
    """The usage of a last chunk with empty choices is on the finished chunk (OpenAI, foundry-local#905)."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    reply = assert_any_cut(text("a") + fin("stop") + usage_chunk(usage) + DONE)
    assert (reply.text, reply.finish_reason) == ("a", "stop")
    assert reply.usage == Usage(3, 2, 5, raw=usage)
    assert codes(reply) == []


def test_f1_usage_chunk_is_the_last_thing_before_the_connection_closes() -> None:
    """Usage after the finish reason counts also where no terminator follows."""
    body = text("a") + fin("stop") + usage_chunk({"prompt_tokens": 3})
    assert assert_any_cut(body).usage == Usage(3, raw={"prompt_tokens": 3})


@each_row("choices", [None, [], {}, "", 0, False])
def test_f2_empty_choices(choices: Any) -> None:
    """Choices that are null or otherwise empty say nothing (pydantic-ai#5165)."""
    odd = event({"id": "c1", "model": "m", "choices": choices})
    reply = assert_any_cut(odd + text("a") + odd + fin("stop") + odd + DONE)
    assert (reply.text, reply.finish_reason) == ("a", "stop")
    assert codes(reply) == []


def test_f2_no_choices() -> None:
    """A chunk without choices says nothing (OpenAI's moderation, llama.cpp's timings)."""
    odd = event({"id": "c1", "model": "m", "moderation": {"flagged": False}})
    assert assert_any_cut(odd + text("a") + odd + fin("stop") + odd + DONE).text == "a"


@pytest.mark.parametrize("reason", ["stop", "content_filter", "length"])
def test_f3_delta_is_null(reason: str) -> None:
    """The finish reason beside `delta: null` counts (Azure's asynchronous filter)."""
    reply = assert_any_cut(text("a") + chunk(None) + chunk(None, reason) + DONE)
    assert (reply.text, reply.finish_reason, reply.raw_finish_reason) == ("a", reason, reason)


def test_f3_no_delta() -> None:
    """The finish reason in a choice without a delta counts (Azure)."""
    end = event({"id": "c1", "choices": [{"index": 0, "finish_reason": "stop", "content_filter_offsets": {"end": 1}}]})
    reply = assert_any_cut(text("a") + end + DONE)
    assert (reply.text, reply.finish_reason) == ("a", "stop")


@each_row("delta", [{}, [], "", "x", 5, False])
def test_f3_delta_of_another_kind(delta: Any) -> None:
    """A delta that is no object, or an empty one, says nothing, and what stands beside it counts."""
    reply = assert_any_cut(text("a") + chunk(delta, usage={"prompt_tokens": 3}) + chunk(delta, "stop") + DONE)
    assert (reply.text, reply.finish_reason) == ("a", "stop")
    assert reply.usage == Usage(3, raw={"prompt_tokens": 3})


def test_f3_message_in_place_of_delta() -> None:
    """A server that only pretends to stream sends the message in one piece, calls included."""
    message = {
        "role": "assistant",
        "content": "Hello",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
    }
    whole = event({"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    reply = assert_any_cut(whole + DONE)
    assert (reply.text, reply.finish_reason) == ("Hello", "tool_calls")
    assert calls(reply) == [("a", "f", {"x": 1})]


def at_the_end(message: dict[str, Any], **choice: Any) -> bytes:
    """A whole completion, as MiniMax sends it after the deltas."""
    choices = [{"index": 0, "message": message, **choice}]
    return event({"id": "c1", "object": "chat.completion", "choices": choices}) + DONE


@each_row(
    ("content", "shown", "warned"),
    [
        ("Hello", "Hello", []),
        ("Hello!", "Hello!", ["text_mismatch"]),
        ("Bye", "Hello", ["text_mismatch"]),
        ("", "Hello", []),
        (None, "Hello", []),
        ([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}], "Hello", []),
    ],
)
def test_f3_message_after_the_deltas(content: Any, shown: str, warned: list[str]) -> None:
    """What has been said is not said again; its end is added where it was missing, and what differs is told."""
    body = text("Hel") + text("lo") + fin("stop") + at_the_end({"content": content, "reasoning_content": ""})
    reply = assert_any_cut(body)
    assert (reply.text, reply.reasoning, reply.finish_reason) == (shown, "", "stop")
    assert [warning.code for warning in reply.warnings if warning.code != "late_content"] == warned


def test_f3_message_after_calls_and_reasoning() -> None:
    """Calls are the same by their ids, one that was not streamed is added, and reasoning comes once, markup or not."""
    made = [
        {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "b", "function": {"name": "f", "arguments": "{}"}},
    ]
    body = text("<think>Hm.") + text("</think>Hi") + call(entry(0, "a", "f", '{"x"'), entry(0, None, None, ":1}"))
    message = {"content": "<think>Hm.</think>Hi", "tool_calls": made}
    reply = assert_any_cut(body + at_the_end(message, finish_reason="tool_calls"), dialect="think")
    assert (reply.reasoning, reply.text) == ("Hm.", "Hi")
    assert calls(reply) == [("a", "f", {"x": 1}), ("b", "f", {})]
    assert reply.warnings == []


def test_f3_message_beside_an_empty_delta() -> None:
    """At the end it is the whole answer, calls that were not streamed included; earlier it repeats what was said."""
    made = [{"id": "b", "function": {"name": "f", "arguments": "{}"}}]
    early = event({"id": "c1", "choices": [{"index": 0, "delta": {}, "message": {"content": "Hel"}}]})
    end = at_the_end({"content": "Hello", "tool_calls": made}, delta={}, finish_reason="stop")
    reply = assert_any_cut(text("Hel") + early + text("lo") + end)
    assert (reply.text, calls(reply), codes(reply)) == ("Hello", [("b", "f", {})], [])


def test_f3_pieces_that_are_called_messages() -> None:
    """A server that names its deltas so is read, too: they are no wholes as long as nothing says that they end it."""
    said = [event({"id": "c1", "choices": [{"index": 0, "message": {"content": piece}}]}) for piece in ("Hel", "lo")]
    assert assert_any_cut(b"".join(said) + fin("stop") + DONE).text == "Hello"


def test_f3_message_beside_delta() -> None:
    """The message beside a delta repeats it, or all before it, and is not added (Writer, Perplexity)."""
    body = b""
    for said, so_far in (("Hel", "Hel"), ("lo", "Hello"), ("", "Hello")):
        choice = {"index": 0, "delta": {"content": said}, "message": {"content": so_far}, "finish_reason": None}
        body += event({"id": "c1", "choices": [choice]})
    assert assert_any_cut(body + fin("stop") + DONE).text == "Hello"


def test_f4_first_chunk_of_azure() -> None:
    """Azure's first chunk has filter results, no choices and empty names; the names come from the next one."""
    first = event(
        {
            "choices": [],
            "created": 0,
            "id": "",
            "model": "",
            "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}],
        }
    )
    reply = assert_any_cut(first + text("a") + fin("stop") + DONE)
    assert (reply.text, reply.id, reply.model) == ("a", "c1", "m")
    assert codes(reply) == []


# --- usage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [{}, {"usage": None}, {"usage": {}}])
def test_f5_chunk_without_usage_after_the_usage(after: dict[str, Any]) -> None:
    """Usage stays when further chunks come without one."""
    body = text("a") + fin("stop") + usage_chunk({"prompt_tokens": 3}) + chunk({}, **after) + DONE
    assert assert_any_cut(body).usage == Usage(3, raw={"prompt_tokens": 3})


def test_f6_running_totals() -> None:
    """Of usages on every chunk the last one counts; they are never added up (Groq, Perplexity, Databricks)."""
    last = {"prompt_tokens": 3, "completion_tokens": 12}
    body = (
        chunk({"content": "a"}, usage={"prompt_tokens": 3, "completion_tokens": 5})
        + chunk({"content": "b"}, usage={"prompt_tokens": 3, "completion_tokens": 8})
        + chunk({}, "stop", usage=last)
    )
    assert assert_any_cut(body + DONE).usage == Usage(3, 12, raw=last)


def test_f7_usage_inside_the_choice() -> None:
    """Moonshot puts usage inside the choice of the last chunk."""
    usage = {"prompt_tokens": 19, "completion_tokens": 13, "total_tokens": 32, "cached_tokens": 16}
    end = event({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]})
    reply = assert_any_cut(text("a") + end + DONE)
    assert (reply.text, reply.finish_reason) == ("a", "stop")
    assert reply.usage == Usage(19, 13, 32, 16, raw=usage)


def test_f7_usage_at_the_top_goes_before_usage_in_the_choice() -> None:
    """With usage in both places the one at the top counts."""
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 1}}
    body = text("a") + event({"id": "c1", "choices": [choice], "usage": {"prompt_tokens": 3}}) + DONE
    assert assert_any_cut(body).usage == Usage(3, raw={"prompt_tokens": 3})


@each_row("top", [None, {}, [], [1], "none", 5, True])
def test_f7_unusable_usage_at_the_top(top: Any) -> None:
    """A usage at the top that is no object does not hide the one in the choice."""
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 3}}
    body = text("a") + event({"id": "c1", "choices": [choice], "usage": top}) + DONE
    assert assert_any_cut(body).usage == Usage(3, raw={"prompt_tokens": 3})


def test_f7_usage_inside_x_groq() -> None:
    """Groq puts usage inside `x_groq`."""
    usage = {"queue_time": 0.05, "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    reply = assert_any_cut(text("a") + chunk({}, "stop", x_groq={"id": "r1", "usage": usage}) + DONE)
    assert reply.usage == Usage(3, 2, 5, raw=usage)


def test_f8_no_usage() -> None:
    """Where the server sends no usage there is none; nothing is counted or made up."""
    reply = assert_any_cut(text("some words") + fin("stop") + DONE)
    assert reply.usage is None


@each_row("usage", [None, {}, [], [1], "", "3 tokens", 0, 5, True])
def test_f8_usage_of_another_kind(usage: Any) -> None:
    """A usage that is no object, or an empty one, is none."""
    assert assert_any_cut(chunk({"content": "a"}, usage=usage) + fin("stop") + usage_chunk(usage) + DONE).usage is None


@each_row(
    ("usage", "read"),
    [
        ({"prompt_tokens": 3}, Usage(3)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": 3.0, "completion_tokens": 2.0}, Usage(3, 2)),
        ({"prompt_tokens": "3", "completion_tokens": None}, Usage()),
        ({"prompt_tokens": [3], "completion_tokens": {"n": 2}, "total_tokens": True}, Usage()),
        ({"input_tokens": 3, "output_tokens": 2}, Usage(3, 2)),
        ({"prompt_tokens": 3, "prompt_tokens_details": None, "completion_tokens_details": []}, Usage(3)),
        ({"prompt_tokens": 3, "prompt_tokens_details": "x", "completion_tokens_details": 5}, Usage(3)),
        ({"prompt_tokens": 10**400}, Usage()),
    ],
)
def test_f8_numbers_of_another_kind(usage: dict[str, Any], read: Usage) -> None:
    """A count that isn't a number, or is too large, is None; so is a missing one, and zero is zero."""
    made = fold(text("a") + fin("stop") + usage_chunk(usage) + DONE).usage
    assert made == Usage(
        read.input_tokens, read.output_tokens, read.total_tokens, read.cached_tokens, read.reasoning_tokens, raw=usage
    )


@each_row("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_f8_numbers_without_a_value(number: bytes) -> None:
    """A count that is not finite is None and does no harm to the answer."""
    body = text("a") + fin("stop") + b'data: {"choices":[],"usage":{"prompt_tokens":' + number + b"}}\n\n" + DONE
    reply = fold(body)
    assert (reply.text, reply.finish_reason) == ("a", "stop")
    assert reply.usage is not None
    assert reply.usage.input_tokens is None


@each_row(
    "cached",
    [
        {"cached_tokens": 2},
        {"prompt_tokens_details": {"cached_tokens": 2}},
        {"prompt_cache_hit_tokens": 2, "prompt_cache_miss_tokens": 1},
        {"input_tokens_details": {"cached_tokens": 2}},
        {"cached_tokens": 2, "prompt_tokens_details": None},
        {"cached_tokens": 2, "prompt_tokens_details": {"audio_tokens": 0}},
    ],
)
def test_f9_cached_tokens(cached: dict[str, Any]) -> None:
    """Cached tokens are found on top (Moonshot), in the details (OpenAI) and under a name of their own (DeepSeek)."""
    usage = {"prompt_tokens": 3, **cached}
    made = fold(text("a") + fin("stop") + usage_chunk(usage) + DONE).usage
    assert made is not None
    assert replace(made, details={}) == Usage(3, cached_tokens=2, raw=usage)


@pytest.mark.parametrize(
    "reasoned",
    [
        {"completion_tokens_details": {"reasoning_tokens": 7, "accepted_prediction_tokens": 0}},
        {"output_tokens_details": {"reasoning_tokens": 7}},
        {"reasoning_tokens": 7},
    ],
)
def test_f9_reasoning_tokens(reasoned: dict[str, Any]) -> None:
    """Reasoning tokens are found in the details and on top."""
    usage = {"completion_tokens": 9, **reasoned}
    made = fold(text("a") + fin("stop") + usage_chunk(usage) + DONE).usage
    assert made is not None
    assert replace(made, details={}) == Usage(output_tokens=9, reasoning_tokens=7, raw=usage)


# --- further choices, content, extras --------------------------------------------------------------------------------


def test_f12_second_choice() -> None:
    """Of interleaved choices the one with index 0 is the answer; the other is ignored with a warning."""
    body = b""
    for number, said in ((0, "A1"), (1, "B1"), (0, "A2"), (1, "B2")):
        body += event({"id": "c1", "choices": [{"index": number, "delta": {"content": said}, "finish_reason": None}]})
    for number, reason in ((1, "length"), (0, "stop")):
        body += event({"id": "c1", "choices": [{"index": number, "delta": {}, "finish_reason": reason}]})
    reply = assert_any_cut(body + DONE)
    assert (reply.text, reply.finish_reason) == ("A1A2", "stop")
    assert codes(reply) == ["extra_choice"]


def test_f12_both_choices_in_one_chunk() -> None:
    """Choices that share a chunk are told apart by their index, whatever their order."""
    second = {"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}
    first = {"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}
    reply = assert_any_cut(event({"id": "c1", "choices": [second, first]}) + DONE)
    assert reply.text == "A"
    assert codes(reply) == ["extra_choice"]


def test_f12_calls_of_the_second_choice() -> None:
    """No call of another choice is handed out or mixed with those of the first."""
    other = {"index": 1, "delta": {"tool_calls": [entry(0, "b", "g", '{"y":2}')]}, "finish_reason": None}
    body = (
        call(entry(0, "a", "f", '{"x":'))
        + event({"id": "c1", "choices": [other]})
        + call(entry(0, arguments="1}"))
        + fin("tool_calls")
        + DONE
    )
    assert calls(assert_any_cut(body)) == [("a", "f", {"x": 1})]


def test_f12_the_end_of_another_choice_is_no_end() -> None:
    """The finish reason of the second choice does not finish the first one."""
    other = event({"id": "c1", "choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]})
    reply = assert_any_cut(text("a") + other + DONE)
    assert (reply.finish_reason, reply.raw_finish_reason) == ("unknown", None)
    assert codes(reply) == ["extra_choice", "missing_finish_reason"]


@each_row("number", [None, "0", 0.0, -1, "x", [], {}])
def test_f12_index_of_another_kind(number: Any) -> None:
    """A choice whose index is missing or unusable is the first one."""
    body = event({"id": "c1", "choices": [{"index": number, "delta": {"content": "a"}, "finish_reason": "stop"}]})
    reply = assert_any_cut(body + DONE)
    assert reply.text == "a"
    assert codes(reply) == []


@each_row(
    "content",
    [
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ["a", "b"],
        [{"type": "text", "text": "ab"}, {"type": "text", "text": ""}, None, 5, [], {"type": "text", "text": None}],
        {"type": "text", "text": "ab"},
    ],
)
def test_f13_content_as_parts(content: Any) -> None:
    """Content that comes as a list of parts is their text, in order (Mistral)."""
    assert assert_any_cut(chunk({"content": content}) + text("c") + fin("stop") + DONE).text == "abc"


def test_f13_parts_that_are_not_text() -> None:
    """A part that is not text is kept on the reply and is not in the text."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    reply = assert_any_cut(chunk({"content": [{"type": "text", "text": "a"}, image]}) + fin("stop") + DONE)
    assert reply.text == "a"
    assert reply.extras == {"content": [image]}


@each_row("content", [None, "", [], {}, 0, False])
def test_f13_empty_content(content: Any) -> None:
    """Content that is null or otherwise empty is no text and makes no chunk."""
    chunks, reply = fold_chunks(chunk({"role": "assistant", "content": content}) + text("a") + fin("stop") + DONE)
    assert [made.delta for made in chunks] == ["a", ""]
    assert reply.text == "a"


@pytest.mark.parametrize("content", [5, 1.5, True])
def test_f13_content_of_another_kind(content: Any) -> None:
    """Content that is neither text nor parts is ignored."""
    assert assert_any_cut(chunk({"content": content}) + text("a") + fin("stop") + DONE).text == "a"


@each_row("role", [None, "", "assistant", "tool", 5])
def test_f13_role(role: Any) -> None:
    """A role that is repeated, empty or odd makes no difference."""
    one, two = chunk({"role": role, "content": "a"}), chunk({"role": role, "content": "b"})
    assert assert_any_cut(one + two + chunk({"role": role}, "stop") + DONE).text == "ab"


def test_f14_refusal() -> None:
    """A refusal is kept apart from the text."""
    body = chunk({"refusal": None, "content": ""}) + chunk({"refusal": "I can't "}) + chunk({"refusal": "help."})
    reply = assert_any_cut(body + fin("stop") + DONE)
    assert (reply.text, reply.refusal) == ("", "I can't help.")
    assert reply.message.refusal == "I can't help."
    assert codes(reply) == []


@each_row("refusal", [{"reason": "x"}, ["x"], 5, True])
def test_f14_refusal_of_another_kind(refusal: Any) -> None:
    """A refusal that is no text does not break the answer."""
    reply = assert_any_cut(text("a") + chunk({"refusal": refusal}) + fin("stop") + DONE)
    assert reply.text == "a"
    assert isinstance(reply.refusal, str | None)


def test_f14_annotations_and_audio() -> None:
    """Annotations and audio are kept on the reply in the order they came, and are not text."""
    cite = {"type": "url_citation", "url_citation": {"url": "https://example.org"}}
    body = (
        chunk({"content": "a", "annotations": [cite]})
        + chunk({"annotations": [{**cite, "n": 2}], "audio": {"id": "au1", "data": "AAAA"}})
        + chunk({"annotations": [], "audio": None}, "stop")
    )
    reply = assert_any_cut(body + DONE)
    assert reply.text == "a"
    assert reply.extras == {"annotations": [cite, {**cite, "n": 2}], "audio": [{"id": "au1", "data": "AAAA"}]}


def test_f15_names_that_change() -> None:
    """When id and model change in mid-stream the first ones count (Azure, Avian, Groq)."""
    body = event({"id": "x1", "model": "alias", "choices": [{"index": 0, "delta": {"content": "a"}}]})
    reply = assert_any_cut(body + text("b") + fin("stop") + DONE)
    assert (reply.text, reply.id, reply.model) == ("ab", "x1", "alias")


@each_row("created", [0, 1.5, "2024-01-01", None, [], {}, -1, True])
def test_f15_created(created: Any) -> None:
    """The time of creation may be anything; ids that have to be made up do not depend on how the bytes were cut."""
    body = event({"created": created, "choices": [{"delta": {"tool_calls": [entry(0, name="f", arguments="{}")]}}]})
    reply = assert_any_cut(body + event({"choices": [{"finish_reason": "tool_calls"}]}) + DONE)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [("f", {})]
    assert codes(reply) == ["missing_id"]


@each_row("name", [5, 1.5, True, [], ["x"], {"x": 1}])
def test_f15_names_of_another_kind(name: Any) -> None:
    """An id or a model that is no text never reaches the reply as anything but text."""
    body = event({"id": name, "model": name, "choices": []}) + fin("stop") + DONE
    reply = assert_any_cut(body)
    assert isinstance(reply.id, str)
    assert isinstance(reply.model, str)


def test_f16_unknown_members() -> None:
    """Members that nobody knows are ignored wherever they are (SGLang, Azure, OpenAI's obfuscation, vLLM)."""
    choice = {
        "index": 0,
        "delta": {"content": "a", "token_ids": [1], "channel": "final", "index": 3, "name": "x"},
        "finish_reason": None,
        "matched_stop": None,
        "content_filter_results": {"hate": {"filtered": False}},
        "stop_reason": 128009,
        "native_finish_reason": "STOP",
    }
    body = event({"id": "c1", "choices": [choice], "obfuscation": "x7", "timings": {"n": 1}, "service_tier": None})
    reply = assert_any_cut(body + fin("stop") + DONE)
    assert (reply.text, reply.finish_reason) == ("a", "stop")
    assert codes(reply) == []


def test_f16_unknown_members_of_a_call() -> None:
    """Members of a call that nobody knows are ignored, at every level."""
    odd = entry(0, "a", "f", '{"x":', type="function", recipient="x", output=None)
    odd["function"]["output"] = None
    reply = assert_any_cut(call(odd) + call(entry(0, arguments="1}", note={"n": 1})) + fin("tool_calls") + DONE)
    assert calls(reply) == [("a", "f", {"x": 1})]
    assert codes(reply) == []


@each_row("logprobs", [None, {"content": None}, {"content": [{"token": "a", "logprob": -0.1}]}, [], "x"])
def test_f17_logprobs(logprobs: Any) -> None:
    """Log probabilities may be null, missing or of any shape."""
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": logprobs, "finish_reason": None}
    reply = assert_any_cut(event({"id": "c1", "choices": [choice]}) + fin("stop") + DONE)
    assert reply.text == "a"
    assert codes(reply) == []
