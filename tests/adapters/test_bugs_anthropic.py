"""What goes wrong on the Messages API in other clients: streams that are misread, requests that Anthropic refuses.

The beginning of a test's name is the id of its entry in docs/bugs.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import assert_any_cut, assert_any_cut_error, calls, codes, event, fold
from streamfold import (
    ConfigError,
    EmptyResponseError,
    IncompleteStreamError,
    Message,
    ProtocolError,
    Provider,
    Reply,
    StreamDecoder,
    StreamError,
    Tool,
    ToolCall,
    UpstreamError,
    assistant,
    image,
    tool_result,
    user,
)
from streamfold.errors import error_info, status_error
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
TIME = Tool("get_time", "The time.")
CALL = ToolCall("toolu_a", "get_time", {}, "{}")
OTHER = ToolCall("toolu_b", "get_time", {}, "{}")


# --- how answers are written in these tests -----------------------------------------------------------------------


def sse(*payloads: dict[str, Any]) -> bytes:
    return b"".join(b"event: " + str(payload.get("type")).encode() + b"\n" + event(payload) for payload in payloads)


def start(*content: dict[str, Any], **members: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content), **members}
    return {"type": "message_start", "message": message}


def block(index: int, value: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    opened = {"type": "content_block_start", "index": index, "content_block": value}
    return [opened, *(piece(index, **delta) for delta in deltas), {"type": "content_block_stop", "index": index}]


def piece(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def said(index: int, text: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})


def called(index: int, call_id: str, *fragments: str, name: str = "get_time") -> list[dict[str, Any]]:
    deltas = ({"type": "input_json_delta", "partial_json": fragment} for fragment in fragments)
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, *deltas)


def thought(index: int, text: str = "Hm.", signature: str = "c2ln") -> list[dict[str, Any]]:
    shown = [{"type": "thinking_delta", "thinking": text}] if text else []
    signed = [{"type": "signature_delta", "signature": signature}] if signature else []
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *shown, *signed)


def end(reason: str | None = "end_turn", **members: Any) -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, **members}, {"type": "message_stop"}]


def read(*payloads: dict[str, Any]) -> Reply:
    """The reply, the same for every cut of the bytes."""
    return assert_any_cut(sse(*payloads), adapter="anthropic")


def fails(body: bytes) -> StreamError:
    """The error, the same for every cut of the bytes."""
    return assert_any_cut_error(body, adapter="anthropic")


# --- how requests are -----------------------------------------------------------------------------------------------


def preview(messages: Any, tools: Any = (TIME,), *, provider: Any = None, **options: Any) -> Any:
    quirks = options.pop("quirks", {})
    config = {"adapter": "anthropic", "base_url": "http://127.0.0.1/v1", "model": "m", "quirks": quirks}
    return Provider.from_config(provider or config).preview(messages, list(tools), **options)


def turns(messages: Any, **options: Any) -> Any:
    """The turns of a request."""
    return json.loads(preview(messages, **options).body)["messages"]


def changes(messages: Any, **options: Any) -> list[str]:
    return [warning.code for warning in preview(messages, **options).warnings]


def answered(reply: Reply) -> list[Message]:
    """The conversation in which every call of a reply has its result."""
    return [user("Hi"), reply.message, *(tool_result(call, "noon") for call in reply.tool_calls)]


# --- A. reading a stream --------------------------------------------------------------------------------------------

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
INVALID = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}


@each_row(
    ("before", "error", "retryable"),
    [
        ([], OVERLOADED, True),
        ([start()], OVERLOADED, True),
        ([start(), *said(0, "Hello")], OVERLOADED, False),
        ([start(), *called(0, "toolu_a", "{}")], OVERLOADED, True),
        ([start()], INVALID, False),
    ],
)
def test_na1_na2_na3_an_error_inside_the_stream(
    before: list[dict[str, Any]], error: dict[str, Any], retryable: bool
) -> None:
    """An error event is the server's error, with its message and its retry, never an answer or a truncated body."""
    found = fails(sse(*before, error))
    assert isinstance(found, UpstreamError)
    assert error["error"]["message"] in str(found)
    assert found.retryable is retryable or before[1:] != []


@each_row("cut", [1, 2, 3, 4])
def test_na5_a_stream_that_is_cut_before_the_stop_reason(cut: int) -> None:
    """Closed blocks do not make an answer: without a stop reason the stream is incomplete, without any call."""
    payloads = [start(), *called(0, "toolu_a", '{"x":1}')]
    assert isinstance(fails(sse(*payloads[:cut])), IncompleteStreamError)


def test_na6_a_cut_inside_the_last_event() -> None:
    """The stop reason came: a connection that breaks in the bytes of message_stop leaves a finished answer."""
    body = sse(start(), *called(0, "toolu_a", "{}"), *end("tool_use"))
    reply = assert_any_cut(body[:-20], adapter="anthropic")
    assert calls(reply) == [("toolu_a", "get_time", {})]


@pytest.mark.parametrize("fragment", ['{"path": "a", "content": "half', '{"path": "a"}'])
def test_na7_calls_that_max_tokens_cut(fragment: str) -> None:
    """A call that was cut by max_tokens is not handed out, whole JSON or not, and its JSON is not completed."""
    reply = read(start(), *called(0, "toolu_a", fragment), *end("max_tokens"))
    assert (reply.tool_calls, reply.finish_reason, codes(reply)) == ([], "length", ["calls_dropped"])
    assert reply.message.extras.get("blocks", []) == []


def test_na8_na9_parallel_calls_in_fragments() -> None:
    """Fragments are joined under the index of their block, also where the blocks are interleaved."""
    opened = [called(at, f"toolu_{at}")[0] for at in (1, 2)]
    parts = [piece(at, type="input_json_delta", partial_json=text) for text in ("", '{"x":', "1}") for at in (1, 2)]
    reply = read(start(), *opened, *parts, *end("tool_use"))
    assert calls(reply) == [("toolu_1", "get_time", {"x": 1}), ("toolu_2", "get_time", {"x": 1})]


@pytest.mark.parametrize("fragments", [(), ("",), ("", "")])
def test_na10_calls_without_arguments(fragments: tuple[str, ...]) -> None:
    """No fragment, or only empty ones: the arguments are an empty object."""
    reply = read(start(), *called(0, "toolu_a", *fragments), *end("tool_use"))
    assert calls(reply) == [("toolu_a", "get_time", {})]
    assert codes(reply) == []


def test_na11_na25_na26_na27_blocks_go_back_whole() -> None:
    """One block of thinking with one signature, hidden thinking, one call with all its members, also through JSON."""
    hidden = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    made = {"type": "tool_use", "id": "toolu_a", "name": "get_time", "caller": {"type": "direct"}}
    fragments = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"x"', ":1}")]
    reply = read(
        start(), *thought(0), *block(1, hidden), *block(2, {**made, "input": {}}, *fragments), *end("tool_use")
    )
    wanted = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, hidden, {**made, "input": {"x": 1}}]
    talk = answered(reply)
    assert turns(talk)[1]["content"] == wanted
    assert turns([Message.from_json(message.to_json()) for message in talk])[1]["content"] == wanted
    assert changes(talk) == []


def test_na12_na13_na30_thinking_that_is_not_shown() -> None:
    """A thinking block without text keeps its key and its signature, whether thinking was asked for or not."""
    reply = read(start(), *thought(0, ""), *called(1, "toolu_a"), *end("tool_use"))
    assert turns(answered(reply))[1]["content"][0] == {"type": "thinking", "thinking": "", "signature": "c2ln"}
    assert changes(answered(reply)) == []


def test_na14_na23_members_blocks_and_deltas_that_nobody_knows() -> None:
    """They do not disturb the answer; an unknown block goes back as it came."""
    new = {"type": "hologram", "shape": [1]}
    reply = read(
        start(stardate=1), {"type": "ping", "cost": 1}, {"type": "weather", "sky": 1}, *block(0, new),
        *said(1, "Hello"), piece(1, type="colour_delta", colour="red"), *end(context_management={"applied_edits": []}),
    )  # fmt: skip
    assert (reply.text, reply.finish_reason, codes(reply)) == ("Hello", "stop", [])
    assert reply.extras["context_management"] == [{"applied_edits": []}]
    assert turns([user("Hi"), reply.message, user("Go on.")])[1]["content"] == [new, {"type": "text", "text": "Hello"}]


@each_row(
    ("first", "last", "wanted"),
    [
        ({"input_tokens": 9, "output_tokens": 1}, {"output_tokens": 5}, (9, 5, 14, None)),
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 9, "output_tokens": 5}, (9, 5, 14, None)),
        ({"input_tokens": 9, "output_tokens": 1}, None, (9, 1, 10, None)),
        (
            {"input_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4, "output_tokens": 1},
            {"output_tokens": 5, "cache_read_input_tokens": None},
            (9, 5, 14, 3),
        ),
        (None, {"input_tokens": 9, "output_tokens": 5, "cache_read_input_tokens": None}, (9, 5, 14, None)),
    ],
)
def test_na15_na16_na17_na49_na58_usage(first: Any, last: Any, wanted: tuple[int | None, ...]) -> None:
    """The counts of both events are merged, later ones win, null replaces nothing, and cached tokens count as input."""
    begun = start(**({"usage": first} if first else {}))
    reply = read(begun, *said(0, "Hi"), *end(**({"usage": last} if last else {})))
    usage = reply.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cached_tokens) == wanted


def test_na18_na36_tools_of_the_server() -> None:
    """They are no calls of the client; call and result go back side by side, to the same provider only."""
    ran = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    query = {"type": "input_json_delta", "partial_json": '{"query":"x"}'}
    reply = read(start(), *block(0, ran, query), *block(1, found), *said(2, "Found."), *end())
    assert (reply.tool_calls, reply.text) == ([], "Found.")
    message = reply.message
    back = turns([user("Hi"), message, user("Go on.")])[1]["content"]
    assert back == [{**ran, "input": {"query": "x"}}, found, {"type": "text", "text": "Found."}]
    object.__setattr__(message, "origin", "anthropic https://elsewhere.test/v1")
    assert turns([user("Hi"), message, user("Go on.")])[1]["content"] == [{"type": "text", "text": "Found."}]


def test_na19_content_that_stands_in_message_start() -> None:
    """Each entry is a finished block."""
    made = {"type": "tool_use", "id": "toolu_a", "name": "get_time", "input": {"x": 1}}
    reply = read(start({"type": "text", "text": "Hi"}, made, stop_reason="tool_use"), {"type": "message_stop"})
    assert (reply.text, calls(reply)) == ("Hi", [("toolu_a", "get_time", {"x": 1})])


def test_na20_deltas_belong_to_any_block() -> None:
    """The input of a tool that the server runs and the text of a compaction grow as those of a call do."""
    mcp = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {}}
    reply = read(
        start(), *block(0, mcp, {"type": "input_json_delta", "partial_json": '{"x":1}'}),
        *block(1, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "So far."}),
        *said(2, "Hi"), *end(),
    )  # fmt: skip
    assert reply.extras["blocks"][:2] == [
        {**mcp, "input": {"x": 1}},
        {"type": "compaction", "content": "So far."},
    ]


@pytest.mark.parametrize("tail", [b"data: [DONE]\n\n", b"event: data\ndata: [DONE]\n\n", b"data: [DONE]"])
def test_na21_a_closing_done(tail: bytes) -> None:
    """It is ignored."""
    reply = assert_any_cut(sse(start(), *said(0, "Hi"), *end()) + tail, adapter="anthropic")
    assert (reply.text, codes(reply)) == ("Hi", [])


def test_na22_events_without_names() -> None:
    """The type in the JSON decides."""
    body = b"".join(event(payload) for payload in (start(), *said(0, "Hi"), *end()))
    assert assert_any_cut(body, adapter="anthropic").text == "Hi"


def test_na24_two_messages_in_one_stream() -> None:
    """Another message inside the first is a spliced stream; the same one again is a repetition."""
    second = start()
    second["message"]["id"] = "msg_2"
    assert isinstance(fails(sse(start(), *said(0, "Hi"), second, *end())), ProtocolError)
    reply = read(start(), start(), *said(0, "Hi"), *end())
    assert (reply.text, codes(reply)) == ("Hi", ["repeated_event"])


def test_na28_thinking_that_was_broken_off() -> None:
    """A partial answer has no signature that could be sent again."""
    partial = fails(sse(start(), *thought(0), said(1, "Hel")[0], piece(1, type="text_delta", text="Hel"))).partial
    assert partial is not None
    assert (partial.text, partial.reasoning) == ("Hel", "Hm.")
    assert "c2ln" not in partial.message.to_json()


# --- B. building requests -------------------------------------------------------------------------------------------

LOOP = [user("Hi"), assistant(tool_calls=[CALL]), tool_result(CALL, "noon")]


def test_na29_a_turn_that_has_lost_its_thinking() -> None:
    """Manual thinking is off for a request whose open tool loop does not begin with thinking, with a warning."""
    asked: dict[str, Any] = {"quirks": {"thinking": "manual"}, "reasoning_effort": "high"}
    assert json.loads(preview(LOOP, **asked).body)["thinking"] == {"type": "disabled"}
    assert changes(LOOP, **asked) == ["lost_reasoning"]


def test_na31_a_turn_of_nothing_but_unsigned_thinking() -> None:
    """It is left out whole, so that no empty message is sent, and the user's turns are joined."""
    reply = read(start(), *thought(0, "Hm.", ""), *end())
    talk = [user("Hi"), reply.message, user("Well?")]
    assert turns(talk) == [{"role": "user", "content": [{"type": "text", "text": text} for text in ("Hi", "Well?")]}]
    assert "reasoning_dropped" in changes(talk)


@pytest.mark.parametrize("content", ["", None, [{"type": "text", "text": ""}]])
def test_na32_na33_empty_texts(content: Any) -> None:
    """Neither an empty text block nor an empty message is sent."""
    beside = [user("Hi"), Message("assistant", content, (CALL,)), tool_result(CALL, "noon")]
    assert [part["type"] for part in turns(beside)[1]["content"]] == ["tool_use"]
    alone = [user("Hi"), {"role": "assistant", "content": content}, user("Well?")]
    assert [turn["role"] for turn in turns(alone)] == ["user"]


@pytest.mark.parametrize(
    "talk",
    [
        [user("Hi"), assistant(tool_calls=[CALL]), user("Well?")],
        [user("Hi"), tool_result(CALL, "noon")],
        [*LOOP, tool_result(CALL, "again")],
    ],
)
def test_na34_na35_calls_and_results_that_were_torn_apart(talk: list[Message]) -> None:
    """A call without its result, or a result without its call, is refused before sending, or repaired if allowed."""
    with pytest.raises(ConfigError, match="messages"):
        preview(talk)
    assert "history_repaired" in changes(talk, repair_history=True)


def test_na37_na38_results_are_one_message_and_first() -> None:
    """Results of one turn begin one user message, in the order of the calls; images inside them stay inside."""
    shown = tool_result(OTHER, ["Here:", image(PNG)])
    talk = [user("Hi"), assistant(tool_calls=[CALL, OTHER]), shown, tool_result(CALL, "noon"), user("So?")]
    sent = turns(talk)
    assert [turn["role"] for turn in sent] == ["user", "assistant", "user"]
    assert [(part["type"], part.get("tool_use_id")) for part in sent[2]["content"]] == [
        ("tool_result", "toolu_a"), ("tool_result", "toolu_b"), ("text", None),
    ]  # fmt: skip
    assert [part["type"] for part in sent[2]["content"][1]["content"]] == ["text", "image"]


def test_na39_ids_of_other_providers() -> None:
    """An id with other characters is sent in another form on both sides, and no two become the same."""
    made = [ToolCall(name, "get_time", {}, "{}") for name in ("functions.f:0", "functions_f:0", "functions.f_0")]
    talk = [user("Hi"), assistant(tool_calls=made), *(tool_result(call, "noon") for call in made)]
    assert changes(talk) == ["ids_renumbered"]
    sent = turns(talk)
    ids = [part["id"] for part in sent[1]["content"]]
    assert len(set(ids)) == 3
    assert all(part.replace("_", "a").isalnum() for part in ids)
    assert [part["tool_use_id"] for part in sent[2]["content"]] == ids


def test_na40_names_that_the_api_refuses() -> None:
    """A tool is sent under another name everywhere, also where its call goes back as it came, with the signature."""
    odd = Tool("mcp.server/read", "Reads.")
    body = sse(start(), *thought(0), *called(1, "toolu_a", "{}", name="mcp_server_read"), *end("tool_use"))
    decoder = StreamDecoder("anthropic", tools=[odd], names=_names({"mcp_server_read": "mcp.server/read"}))
    decoder.feed(body)
    decoder.close()
    assert calls(decoder.reply) == [("toolu_a", "mcp.server/read", {})]
    sent = turns(answered(decoder.reply), tools=[odd])[1]["content"]
    assert [(part["type"], part.get("name")) for part in sent] == [("thinking", None), ("tool_use", "mcp_server_read")]


def _names(names: dict[str, str]) -> Any:
    from streamfold.engine import ToolNameMap

    return ToolNameMap(names, None)


def test_na41_sampling_options_of_the_new_version() -> None:
    """They are not sent where the API refuses them, with a warning."""
    asked: dict[str, Any] = {"quirks": {"version": "2026-10-21"}, "temperature": 1, "top_p": 1}
    assert not {"temperature", "top_p"} & json.loads(preview("Hi", **asked).body).keys()
    assert changes("Hi", **asked) == ["option_dropped"]


@pytest.mark.parametrize(
    "quirks",
    [{"thinking": "manual"}, {"forced_while_thinking": False}, {"thinking": "always", "forced_while_thinking": False}],
)
def test_na43_a_forced_choice_while_thinking(quirks: dict[str, Any]) -> None:
    """It is left to the model, with a warning."""
    asked: dict[str, Any] = {"quirks": quirks, "reasoning_effort": "high", "tool_choice": "required"}
    assert "tool_choice" not in json.loads(preview("Hi", **asked).body)
    assert "forced_choice_dropped" in changes("Hi", **asked)


# --- C. compatible servers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["deepseek-anthropic", "kimi-anthropic"])
def test_na45_na46_servers_that_want_thinking_back(provider: str) -> None:
    """A turn with calls goes back with a thinking block, signed or not, or an empty one if it has none."""
    reply = read(start(), *thought(0, "Hm.", ""), *called(1, "toolu_a"), *end("tool_use"))
    first = turns(answered(reply), provider=f"{provider}:m")[1]["content"][0]
    assert first == {"type": "thinking", "thinking": "Hm.", "signature": ""}
    first = turns(LOOP, provider=f"{provider}:m")[1]["content"][0]
    assert first == {"type": "thinking", "thinking": "", "signature": ""}


def test_na47_a_model_that_always_thinks() -> None:
    """It is never told `disabled`, which it refuses."""
    asked: dict[str, Any] = {"provider": "kimi-anthropic:kimi-k2.7-code", "reasoning_effort": "none"}
    assert "thinking" not in json.loads(preview("Hi", **asked).body)
    assert changes("Hi", **asked) == ["option_dropped"]


@pytest.mark.parametrize("body", [b"", b": hello\n\n", sse({"type": "ping"})])
def test_na50_no_message_at_all(body: bytes) -> None:
    """A stream without a message is an empty answer, which is an error and may be asked again."""
    decoder = StreamDecoder("anthropic")
    decoder.feed(body)
    with pytest.raises((EmptyResponseError, IncompleteStreamError)) as caught:
        decoder.close()
    assert caught.value.retryable


def test_na51_na52_minimax() -> None:
    """It takes its own signed thinking back, and is asked to think without a budget."""
    reply = read(start(), *thought(0, "Hm.", "ab" * 32), *called(1, "toolu_a"), *end("tool_use"))
    found = preview(answered(reply), provider="minimax-anthropic:MiniMax-M2", reasoning_effort="high")
    body = json.loads(found.body)
    assert body["messages"][1]["content"][0]["signature"] == "ab" * 32
    assert "budget_tokens" not in json.dumps(body)


def test_na54_thinking_and_its_signature_in_blocks_of_their_own() -> None:
    """OpenRouter sends them one after the other; they go back as they came."""
    signed = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    reply = read(start(), *thought(0, "Hm.", ""), *block(1, signed), *called(2, "toolu_a"), *end("tool_use"))
    assert reply.extras["blocks"][:2] == [{"type": "thinking", "thinking": "Hm.", "signature": ""}, signed]
    assert signed in turns(answered(reply))[1]["content"]


def test_na55_a_first_fragment_that_was_lost() -> None:
    """What is left is not JSON: the call can't be run, and nothing is guessed."""
    reply = read(start(), *called(0, "toolu_a", '"city": "Paris"}'), *end("tool_use"))
    assert [call.error for call in reply.tool_calls] == ["invalid_json"]


def test_na56_a_new_block_for_every_fragment() -> None:
    """A server that opens a block for each fragment has sent calls that can't be run, and none is put together."""
    reply = read(
        start(), *called(0, "toolu_a"), *called(1, "toolu_a", '{"x"'), *called(2, "toolu_a", ":1}"), *end("tool_use")
    )
    assert [call.error for call in reply.tool_calls] == [None, "invalid_json", "invalid_json"]
    assert len({call.id for call in reply.tool_calls}) == 3


def test_na57_servers_that_count_the_cache_twice() -> None:
    """A quirk says that the input includes what was cached."""
    from streamfold.adapters.anthropic import AnthropicAdapter, AnthropicQuirks

    usage = {"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 5}
    adapter = AnthropicAdapter(AnthropicQuirks(cache_included=True))
    reply = fold(sse(start(usage=usage), *said(0, "Hi"), *end()), adapter=adapter)  # type: ignore[arg-type]
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.total_tokens) == (9, 3, 14)
    whole = {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "usage": usage}
    assert fold(json.dumps(whole).encode(), adapter=adapter).usage == reply.usage  # type: ignore[arg-type]


def test_na60_llama_cpp() -> None:
    """Blocks that are closed only at the end, and the stop string beside end_turn, which is kept."""
    opened = [said(0, "Hi")[0], said(0, "Hi")[1], *called(1, "a1", "{}")[:2]]
    closed = [{"type": "content_block_stop", "index": at} for at in (0, 1)]
    last = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": "END"}}
    reply = read(start(), *opened, *closed, last, {"type": "message_stop"})
    assert (reply.text, calls(reply)) == ("Hi", [("a1", "get_time", {})])
    assert reply.extras["stop_sequence"] == ["END"]
    assert "stop_sequence" not in json.dumps(turns(answered(reply)))


@each_row(
    ("status", "kind", "retryable"),
    [
        (500, "api_error", True),
        (529, "overloaded_error", True),
        (408, "timeout_error", True),
        (504, "timeout_error", True),
        (409, "conflict_error", True),
        (429, "rate_limit_error", True),
        (413, "request_too_large", False),
        (402, "billing_error", False),
        (400, "invalid_request_error", False),
    ],
)
def test_na61_refusals_by_status(status: int, kind: str, retryable: bool) -> None:
    """Each status of the API says whether to ask again."""
    error = status_error(error_info({"type": "error", "error": {"type": kind, "message": "m"}}, status=status))
    assert error.retryable is retryable


def test_na63_calls_that_are_written_as_text() -> None:
    """Text that only looks like a call stays text."""
    reply = read(start(), *said(0, "[Tool call: get_time]"), *end())
    assert (reply.text, reply.tool_calls) == ("[Tool call: get_time]", [])


@pytest.mark.parametrize("name", ["anthropic", "bedrock", "anthropic-vertex", "anthropic-vertex-global"])
def test_na44_signatures_of_one_maker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Anthropic signed on one platform goes back on any other; what DeepSeek signed does not."""
    for variable in ("AWS_REGION", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"):
        monkeypatch.setenv(variable, "acme")
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Hello."},
    ]
    provider = Provider.from_config(name, model="claude-sonnet-4-5")
    for origin, should_resend_reasoning in {
        "anthropic": True,
        "anthropic https://api.deepseek.com/anthropic/v1": False,
    }.items():
        turn = Message("assistant", "Hello.", reasoning="Hm.", extras={"blocks": blocks}, origin=origin)
        made = provider.preview([user("Hi"), turn, user("Go on.")])
        assert (json.loads(made.body)["messages"][1]["content"] == blocks) is should_resend_reasoning
        assert ("reasoning_dropped" in {warning.code for warning in made.warnings}) is not should_resend_reasoning


_LATE = {"type": "api_error", "message": "late"}
_WHOLE = {
    "id": "msg_1",
    "type": "message",
    "model": "m",
    "content": [{"type": "tool_use", "id": "toolu_a", "name": "get_time", "input": {}}],
    "stop_reason": "tool_use",
}


@each_row(
    "body",
    [
        json.dumps({**_WHOLE, "error": _LATE}).encode(),
        sse({"type": "message_start", "message": {**_WHOLE, "error": _LATE}}, {"type": "message_stop"}),
        sse(start(), *called(0, "toolu_a", "{}"), *end("tool_use", error=_LATE)),
        sse(start(), {**piece(0, type="text_delta", text="Hi"), "error": _LATE}, *end()),
    ],
)
def test_an_error_beside_an_answer_wins(body: bytes) -> None:
    """No call is handed out of an event or a message that says it failed; null says nothing."""
    found = fails(body)
    assert isinstance(found, UpstreamError)
    assert "late" in str(found)
    said_null = body.replace(json.dumps(_LATE).encode(), b"null")
    assert assert_any_cut(said_null, adapter="anthropic").warnings == []


def test_na29_a_text_beside_the_results() -> None:
    """A user's text behind the results belongs to the same turn of the API: the tool loop is still open."""
    asked: dict[str, Any] = {"quirks": {"thinking": "manual"}, "reasoning_effort": "high"}
    talk = [*LOOP, user("And in Paris?")]
    assert json.loads(preview(talk, **asked).body)["thinking"] == {"type": "disabled"}
    assert changes(talk, **asked) == ["lost_reasoning"]
    ended = [*LOOP, assistant("Noon."), user("And in Paris?")]
    assert json.loads(preview(ended, **asked).body)["thinking"]["type"] == "enabled"
    assert "lost_reasoning" not in changes(ended, **asked)
