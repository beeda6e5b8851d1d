"""Streams and whole answers of the Interactions API, at any cut."""

from __future__ import annotations

import base64
import json
from typing import Any

import corpus
import interaction_streams as ix
from folding import assert_any_cut, assert_any_cut_error, calls, codes
from interaction_streams import answer, call, completed, created, delta, failed, output, start, stop
from streamfold import (
    EmptyResponseError,
    IncompleteStreamError,
    ProtocolError,
    Reply,
    StreamDecoder,
    StreamError,
    UpstreamError,
)
from streamfold.adapters import find_adapter
from tables import each_row

CALL = call(1, "a1", "now", "{}")


def read(*events: bytes, status: str | None = "completed", **members: Any) -> Reply:
    return assert_any_cut(answer(*events, status=status, **members), adapter="interactions")


def fails(body: bytes) -> StreamError:
    return assert_any_cut_error(body, adapter="interactions")


def steps(reply: Reply) -> list[dict[str, Any]]:
    return reply.extras["steps"]  # type: ignore[no-any-return]


def test_an_answer() -> None:
    """Thoughts, text and usage; what tools put into the prompt is input, thoughts are output."""
    reply = read(
        start(0, "thought"),
        delta(0, "thought_summary", content={"type": "text", "text": "**Plan**\n\nLook.\n\n"}),
        delta(0, "thought_signature", signature=""),
        delta(0, "thought_summary", content={"type": "text", "text": "**Then**\n\nSay."}),
        delta(0, "thought_signature", signature="c2ln"),
        delta(0, "thought_signature", signature=""),
        stop(0),
        output(1, "Hi ", "there"),
        output(2, "!"),
    )
    assert (reply.text, reply.reasoning) == ("Hi there!", "**Plan**\n\nLook.\n\n**Then**\n\nSay.")
    assert (reply.finish_reason, reply.raw_finish_reason, reply.id, reply.model) == ("stop", "completed", "v1_a", "m")
    usage = reply.usage
    assert usage is not None
    counts = (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.reasoning_tokens, usage.cached_tokens)
    assert counts == (10, 10, 20, 3, 0)
    assert steps(reply) == [
        {
            "type": "thought",
            "signature": "c2ln",
            "summary": [
                {"type": "text", "text": "**Plan**\n\nLook.\n\n"},
                {"type": "text", "text": "**Then**\n\nSay."},
            ],
        },
        {"type": "model_output", "content": [{"type": "text", "text": "Hi there"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "!"}]},
    ]
    assert codes(reply) == []


def test_content_in_the_start_of_a_step() -> None:
    """It is streamed text like any other, and a delta goes on with it."""
    reply = read(
        start(0, "thought", signature="", summary=[{"type": "text", "text": "Plan. "}]),
        delta(0, "thought_signature", signature="c2ln"),
        start(1, "model_output", content=[{"type": "text", "text": "A"}, {"type": "text", "text": "B "}]),
        delta(1, "text", text="is."),
        start(2, "function_call", id="a1", name="f", arguments={"x": 1}),
    )
    assert (reply.text, reply.reasoning, calls(reply)) == ("AB is.", "Plan. ", [("a1", "f", {"x": 1})])
    assert [content["text"] for content in steps(reply)[1]["content"]] == ["A", "B is."]


def test_calls_in_pieces_that_overlap_with_text() -> None:
    """The index says whose a delta is. A call is one that has stopped, and one whose step never does."""
    reply = read(
        start(0, "model_output"),
        start(1, "function_call", id="a1", name="f", arguments={}),
        delta(0, "text", text="A"),
        delta(1, "arguments_delta", arguments='{"a"'),
        delta(0, "text", text="B"),
        delta(1, "arguments_delta", arguments=":1}"),
        stop(1),
        stop(0),
        call(2, "b2", "f", '{"a":2}'),
        start(3, "function_call", id="c3", name="now", arguments={}),
        status="requires_action",
    )
    assert reply.text == "AB"
    assert calls(reply) == [("a1", "f", {"a": 1}), ("b2", "f", {"a": 2}), ("c3", "now", {})]
    assert (reply.finish_reason, codes(reply)) == ("tool_calls", [])


def test_an_index_that_comes_again_is_another_step() -> None:
    """Texts are joined, and no call is taken for another."""
    reply = read(output(0, "A"), output(0, "B"), call(1, "a1", "f", '{"a":1}'), call(1, "b2", "f", '{"a":2}'))
    assert (reply.text, calls(reply)) == ("AB", [("a1", "f", {"a": 1}), ("b2", "f", {"a": 2})])
    assert len(steps(reply)) == 4


@each_row(
    ("status", "reason", "made", "warnings"),
    [
        ("completed", "tool_calls", 1, []),
        ("requires_action", "tool_calls", 1, []),
        ("incomplete", "length", 0, ["calls_dropped"]),
        ("budget_exceeded", "length", 0, ["calls_dropped"]),
        ("requires_continuation", "length", 0, ["calls_dropped"]),
        ("cancelled", "unknown", 0, ["calls_dropped"]),
        ("interrupted", "length", 0, ["calls_dropped"]),
        ("sunny", "unknown", 1, ["unknown_finish_reason"]),
    ],
)
def test_how_an_answer_ends(status: str, reason: str, made: int, warnings: list[str]) -> None:
    """Calls are delivered only of an answer that the model has ended; those that are dropped are named."""
    reply = read(output(0, "Hm"), CALL, status=status)
    assert (reply.text, reply.finish_reason, len(reply.tool_calls)) == ("Hm", reason, made)
    assert codes(reply) == warnings


def test_a_call_is_demanded_and_missing() -> None:
    """The status says that the client has something to do, and there is nothing."""
    reply = read(output(0, "Hm"), status="requires_action")
    assert (reply.finish_reason, codes(reply)) == ("tool_calls", ["missing_tool_calls"])


def test_a_token_to_go_on_with() -> None:
    """It is kept, with the id of the interaction."""
    reply = read(output(0, "Long"), status="requires_continuation", continuation_token="T")
    assert (reply.extras["continuation_token"], reply.extras["interaction_id"]) == (["T"], ["v1_a"])
    assert (reply.finish_reason, reply.raw_finish_reason, reply.paused) == ("length", "requires_continuation", True)


@each_row(
    ("body", "kind", "partial"),
    [
        (created() + output(0, "Hm") + CALL, IncompleteStreamError, "Hm"),
        (created() + output(0, "Hm") + CALL + ix.DONE, IncompleteStreamError, "Hm"),
        (answer(output(0, "Hm"), CALL, status="in_progress"), IncompleteStreamError, "Hm"),
        (answer(output(0, "Hm"), CALL, status="queued"), IncompleteStreamError, "Hm"),
        (answer(output(0, "Hm"), CALL, status=None), IncompleteStreamError, "Hm"),
        (created() + output(0, "Hm") + CALL + failed(), UpstreamError, "Hm"),
        (failed(), UpstreamError, ""),
        (created() + ix.DONE, EmptyResponseError, ""),
        (ix.DONE, EmptyResponseError, ""),
        (created() + output(0, "Hm") + b"data: {\n\n", ProtocolError, "Hm"),
        (created() + output(0, "Hm") + b"data: [1]\n\n", ProtocolError, "Hm"),
        (created() + output(0, "Hm") + ix.event("step.delta", index=0, delta="x"), ProtocolError, "Hm"),
        (created() + output(0, "Hm") + b'data: {"say": "Hi"}\n\n', ProtocolError, "Hm"),
        (b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\ndata: [DONE]\n\n', ProtocolError, ""),
    ],
)
def test_an_answer_that_is_none(body: bytes, kind: type[StreamError], partial: str) -> None:
    """The error has what came before it, and no call."""
    error = fails(body)
    assert type(error) is kind
    assert error.partial is not None
    assert (error.partial.text, error.partial.tool_calls) == (partial, [])


def test_errors_of_the_server() -> None:
    """Their code is a word, which says the status and whether a retry may help; those of an interaction count too."""
    error = fails(created() + failed())
    assert isinstance(error, UpstreamError)
    assert (error.message, error.code, error.status_code, error.retryable) == (
        "Too late.",
        "gateway_timeout",
        504,
        True,
    )
    broken = fails(answer(output(0, "Hm"), status="failed", errors=[{"code": "internal", "message": "It broke."}]))
    assert (broken.message, broken.retryable) == ("It broke.", True)
    refused = fails(answer(start(0, "model_output"), status="failed",
                           steps=[{"type": "model_output", "error": {"code": 3, "message": "No."}}]))  # fmt: skip
    assert refused.message == "No."
    silent = fails(answer(status="failed"))
    assert "gave no reason" in silent.message


def test_what_comes_behind_the_end() -> None:
    """An answer that is complete stays one, without its terminator and with an error behind it."""
    whole = created() + output(0, "Hm") + CALL + completed("requires_action")
    reply = assert_any_cut(whole, adapter="interactions")
    assert (reply.text, len(reply.tool_calls), codes(reply)) == ("Hm", 1, [])
    late = assert_any_cut(whole + failed(), adapter="interactions")
    assert (late.text, len(late.tool_calls), codes(late)) == ("Hm", 1, ["error_after_finish"])


def test_the_http_error_of_this_api() -> None:
    """The code is a word or a number; both say what kind of error it is."""
    adapter = find_adapter("interactions")()
    word = adapter.read_error({"error": {"code": "resource_exhausted", "message": "Slow down."}}, 429)
    assert (word.status, word.code, word.retryable) == (429, "resource_exhausted", True)
    number = adapter.read_error({"error": {"code": 404, "message": "Gone.", "status": "NOT_FOUND"}}, 404)
    assert (number.status, number.code, number.retryable) == (404, "NOT_FOUND", False)


def test_running_totals() -> None:
    """The last usage counts, and that of the interaction over what stands beside it."""
    early = {**ix.USAGE, "total_output_tokens": 0}
    reply = read(
        ix.event("interaction.status_update", interaction_id="v1_a", status="in_progress", usage=early),
        ix.event("step.start", index=0, step={"type": "model_output"}, metadata={"total_usage": early}),
        delta(0, "text", text="Hi"),
    )
    assert reply.usage is not None
    assert reply.usage.raw == ix.USAGE
    cut = fails(created(metadata={"usage": early}) + output(0, "Hi"))
    assert cut.partial is not None
    assert cut.partial.usage is not None
    assert cut.partial.usage.output_tokens == 3


SEARCH = [
    start(0, "model_output"),
    delta(0, "text", text="Ümläut is right."),
    delta(0, "text_annotation_delta", annotations=[
        {"type": "url_citation", "url": "https://e.test", "title": "e", "start_index": 0, "end_index": 8},
        {"type": "place_citation", "name": "Oslo", "url": "https://m.test", "end_index": 8},
    ]),
    delta(0, "text_annotation_delta", annotations=[{"type": "word_info", "start_index": 0, "end_index": 2}]),
    delta(0, "text_annotation_delta", annotations=[{"type": "file_citation", "file_name": "a.pdf"}]),
    stop(0),
    start(1, "google_search_call", id="s1", signature=""),
    delta(1, "google_search_call", arguments={"queries": ["ü"]}, signature="c2ln"),
    stop(1),
    start(2, "google_search_result", call_id="s1"),
    delta(2, "google_search_result", result=[{"search_suggestions": "<div>"}], is_error=False),
    stop(2),
]  # fmt: skip


def test_tools_that_google_runs() -> None:
    """Steps that are shown as they end, citations in characters, and a count of requests."""
    reply = read(*SEARCH, usage={**ix.USAGE, "grounding_tool_count": [{"type": "google_search", "count": 2}]})
    found = [(part.kind, part.part, part.id, part.call_id, part.input) for part in reply.hosted]
    assert found == [
        ("web_search", "call", "s1", None, {"queries": ["ü"]}),
        ("web_search", "result", None, "s1", None),
    ]
    cited = [(one.kind, one.url, one.title, one.start, one.end) for one in reply.citations]
    assert cited == [
        ("url", "https://e.test", "e", 0, 6),
        ("place", "https://m.test", "Oslo", 0, 6),
        ("file", None, "a.pdf", None, None),
    ]
    assert steps(reply)[1] == {
        "type": "google_search_call", "id": "s1", "arguments": {"queries": ["ü"]}, "signature": "c2ln",
    }  # fmt: skip
    assert reply.usage is not None
    assert reply.usage.tools == {"web_search": 2}
    decoder = StreamDecoder("interactions")
    shown = [part.kind for chunk in decoder.feed(answer(*SEARCH)) for part in chunk.hosted]
    assert set(shown) == {"web_search"}


def test_a_tool_that_failed() -> None:
    """That is no exception: the step says it."""
    result = [{"type": "text", "text": "no such host"}]
    reply = read(
        start(0, "mcp_server_tool_call", id="m1", name="f", server_name="s", arguments={"q": 1}),
        start(1, "mcp_server_tool_result", call_id="m1", result=result, is_error=True),
        output(2, "No."),
    )
    assert [(part.kind, part.server, part.error) for part in reply.hosted] == [
        ("mcp", "s", None), ("mcp", None, "no such host"),
    ]  # fmt: skip


def test_a_function_that_the_server_ran() -> None:
    """In a managed agent its result stands among the steps: the client must not run it again."""
    body = [
        call(0, "a1", "ls", '{"dir": "."}'),
        start(1, "function_result", call_id="a1", name="ls"),
        delta(1, "function_result", result="a.txt"),
        call(2, "b2", "ask", '{"q": 1}'),
    ]
    reply = read(*body, status="requires_action")
    assert calls(reply) == [("b2", "ask", {"q": 1})]
    assert [(part.kind, part.part, part.name) for part in reply.hosted] == [
        ("function", "call", "ls"), ("function", "result", "ls"),
    ]  # fmt: skip
    assert [step["type"] for step in steps(reply)] == ["function_call", "function_result", "function_call"]
    assert steps(reply)[0]["arguments"] == {"dir": "."}


def test_what_nobody_knows_yet() -> None:
    """Events are ignored, steps are kept whole, and text in them is not the answer's."""
    reply = read(
        ix.event("interaction.new_thing", x=1),
        start(0, "quantum_call", id="q", y=[2]),
        delta(0, "quantum_call", x=1),
        stop(0),
        start(1, "model_output"),
        delta(1, "hologram", x=1),
        delta(1, "text", text="ok"),
    )
    assert (reply.text, codes(reply)) == ("ok", [])
    assert steps(reply)[0] == {"type": "quantum_call", "id": "q", "y": [2], "x": 1}
    assert [(part.kind, part.part, part.id) for part in reply.hosted] == [("unknown", "call", "q")]


def test_a_step_whose_start_is_missing() -> None:
    """Its text is read; arguments without a name are no call, and that is said."""
    reply = read(
        delta(0, "thought_summary", content={"type": "text", "text": "Hm."}),
        delta(1, "text", text="Hi"),
        delta(2, "arguments_delta", arguments='{"a":1}'),
    )
    assert (reply.reasoning, reply.text, calls(reply), codes(reply)) == ("Hm.", "Hi", [], ["calls_dropped"])


def test_files() -> None:
    """Media stand among the texts, and sound comes in pieces that are joined."""
    one, two = (base64.b64encode(data).decode() for data in (b"hello", b" world!"))
    reply = read(
        start(0, "model_output"),
        delta(0, "text", text="Here: "),
        delta(0, "image", mime_type="image/png", data=one),
        delta(0, "text", text="done"),
        delta(0, "audio", mime_type="audio/l16", data=one, sample_rate=24000),
        delta(0, "audio", data=two),
        delta(0, "video", mime_type="video/mp4", uri="https://v.test"),
    )
    assert reply.text == "Here: done"
    found = [(made.media_type, made.data, made.url) for made in reply.files]
    assert found == [
        ("image/png", b"hello", None), ("audio/l16", b"hello world!", None), ("video/mp4", None, "https://v.test"),
    ]  # fmt: skip
    assert [content["type"] for content in steps(reply)[0]["content"]] == ["text", "image", "text", "audio", "video"]


def test_the_revision_before_may_2026() -> None:
    """Contents are steps, and the delta of a call has all of it."""
    reply = assert_any_cut(
        ix.event("interaction.start", interaction={"id": "v1_a", "status": "in_progress", "model": "m"})
        + ix.event("content.start", index=0, content={"type": "thought"})
        + ix.event("content.delta", index=0, delta={"type": "thought_signature", "signature": "c2ln"})
        + ix.event("content.stop", index=0)
        + ix.event("content.start", index=1, content={"type": "text", "text": ""})
        + ix.event("content.delta", index=1, delta={"type": "text", "text": "Hi"})
        + ix.event("content.stop", index=1)
        + ix.event("content.start", index=2, content={"type": "function_call"})
        + ix.event(
            "content.delta", index=2, delta={"type": "function_call", "id": "a1", "name": "f", "arguments": {"x": 1}}
        )
        + ix.event("content.stop", index=2)
        + ix.event("content.delta", index=3, delta={"type": "function_call", "id": "b2", "name": "now"})
        + ix.event("interaction.complete", interaction={"id": "v1_a", "status": "requires_action", "usage": ix.USAGE})
        + ix.DONE,
        adapter="interactions",
    )
    assert (reply.text, calls(reply), codes(reply)) == ("Hi", [("a1", "f", {"x": 1}), ("b2", "now", {})], [])
    assert steps(reply) == [
        {"type": "thought", "signature": "c2ln"},
        {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]},
        {"type": "function_call", "id": "a1", "name": "f", "arguments": {"x": 1}},
        {"type": "function_call", "id": "b2", "name": "now", "arguments": {}},
    ]


def test_an_event_that_is_named_by_its_line_alone() -> None:
    """`event_type` decides, and the line says it where that is missing."""
    body = answer(output(0, "Hi"))
    unnamed = b"".join(
        b"event: " + part for part in body.replace(b', "event_type": "step.delta"', b"").split(b"event: ")[1:]
    )
    assert assert_any_cut(unnamed, adapter="interactions").text == "Hi"
    lines = [line for line in body.split(b"\n") if not line.startswith(b"event:")]
    assert assert_any_cut(b"\n".join(lines), adapter="interactions").text == "Hi"


WHOLE = {
    "id": "v1_a", "object": "interaction", "model": "m", "status": "requires_action", "usage": ix.USAGE,
    "steps": [
        {"type": "user_input", "content": [{"type": "text", "text": "Hello?"}]},
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm."}]},
        {"type": "model_output", "content": [
            {"type": "text", "text": "Hi", "annotations": [{"type": "url_citation", "url": "u", "end_index": 2}]},
            {"type": "text", "text": "!"},
        ]},
        {"type": "function_call", "id": "a1", "name": "f", "arguments": {"x": 1.50}},
    ],
}  # fmt: skip


def test_a_whole_answer() -> None:
    """An interaction that is not streamed is read like one that is; the input in it is not the answer."""
    reply = assert_any_cut(json.dumps(WHOLE).encode(), adapter="interactions")
    assert (reply.text, reply.reasoning, calls(reply)) == ("Hi!", "Hm.", [("a1", "f", {"x": 1.5})])
    assert steps(reply) == WHOLE["steps"][1:]  # type: ignore[index]
    assert [(one.url, one.start, one.end) for one in reply.citations] == [("u", 0, 2)]
    streamed = assert_any_cut(b"data: " + json.dumps(WHOLE).encode() + b"\n\n", adapter="interactions")
    assert (streamed.text, calls(streamed)) == (reply.text, calls(reply))


def test_steps_that_come_with_the_end() -> None:
    """Those that were not streamed are read, and none is read twice."""
    listed = [{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]},
              {"type": "function_call", "id": "a1", "name": "f", "arguments": {"x": 1}}]  # fmt: skip
    for streamed in ([], [output(0, "H", "i")], [output(0, "Hi"), call(1, "a1", "f", '{"x": 1}')]):
        reply = read(*streamed, status="requires_action", steps=listed)
        assert (reply.text, calls(reply), steps(reply)) == ("Hi", [("a1", "f", {"x": 1})], listed)
        assert codes(reply) == []


def test_a_whole_answer_that_is_none() -> None:
    """One that still runs is incomplete, an error is one."""
    assert type(fails(json.dumps({**WHOLE, "status": "in_progress"}).encode())) is IncompleteStreamError
    assert fails(b'{"error": {"code": "not_found", "message": "Gone."}}').message == "Gone."
    failed = {**WHOLE, "status": "failed", "errors": [{"code": "internal", "message": "It broke."}]}
    assert fails(json.dumps(failed).encode()).message == "It broke."


def _vectors() -> list[Any]:
    if isinstance((absent := corpus.names("vectors/interactions-wire/*.json"))[0], str):
        vectors = corpus.read_json("vectors/interactions-wire/interactions.json")["vectors"]
        return [vector for vector in vectors if isinstance(vector["sse"], str)]  # the others are of two connections
    return absent


@each_row("vector", _vectors())
def test_vectors_of_the_corpus(vector: dict[str, Any]) -> None:
    """Streams that were made from the types of Google's client, for what nobody has recorded."""
    expected, body = vector["expected"], vector["sse"].encode()
    if "error" in expected:
        error = fails(body)
        assert expected["error"] in ("ServerError", type(error).__name__)  # inside a stream it is an UpstreamError
        assert error.message.startswith(expected.get("message", ""))
        assert error.partial is not None
        assert error.partial.text == expected["partial"]
        return
    reply = assert_any_cut(body, adapter="interactions")
    assert (reply.text, reply.reasoning) == (expected["text"], expected.get("reasoning", reply.reasoning))
    assert reply.finish_reason == expected["finish_reason"]
    assert calls(reply) == [(one["id"], one["name"], one["arguments"]) for one in expected["calls"]]
    assert codes(reply) == expected.get("warnings", codes(reply))
    for name, count in expected.get("usage", {}).items():
        assert getattr(reply.usage, name) == count
    for step, said in zip(steps(reply), expected.get("steps", ()), strict=False):
        assert {name: step[name] for name in said if name != "summary"} == {
            name: value for name, value in said.items() if name != "summary"
        }
    found = [[part.raw["type"], part.id or part.call_id] for part in reply.hosted]
    assert found == expected.get("hosted", found)
    files = [{"mime_type": made.media_type, "bytes": len(made.data or b"")} for made in reply.files]
    assert files == expected.get("files", [])
    cited = [{"url": one.url, "start": one.start, "end": one.end} for one in reply.citations]
    assert cited == expected.get("citations", cited)
    for name, value in expected.get("extras", {}).items():
        assert reply.extras[name] == [value]
