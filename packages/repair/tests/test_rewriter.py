"""An answer read and written again at once: fragments of calls go out as they come, and never look whole too soon."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import call_streams
import corpus
import scale
from folding import DONE, call, chunk, entry, event, fin, fragments, random_cut, text
from mirror import looks_whole, open_calls, payloads, read, serializer, written_calls
from streamfold import IncompleteStreamError, ProtocolError, Reply, StreamDecoder, StreamError, Tool, UpstreamError
from streamfold.recording import Recording
from streamfold.serving import ReplyWriter
from streamfold.serving.responses import ClientTool, ResponsesSerializer
from streamfold_repair.rewriter import StreamRewriter
from streamfold_repair.stream_repair import RepairSettings
from tables import each_row

APIS = ("chat", "responses", "anthropic")
ALL_APIS = (*APIS, "gemini")
EACH = pytest.mark.parametrize("api", APIS)

BEGUN = fragments("0 a f ''", '0 - - {"x')


def rewritten(
    body: bytes, api: str, pieces: list[bytes] | None = None, **options: object
) -> tuple[bytes, StreamRewriter]:
    made = StreamRewriter("chat", ReplyWriter(serializer(api)), **options)
    out = b"".join([made.feed(piece) for piece in pieces or [body]])
    return out + made.close(), made


def told(reply: Reply) -> list[tuple[str, str, object]]:
    return [(made.id, made.name, made.arguments) for made in reply.tool_calls]


@EACH
def test_fragments_go_out_as_they_come(api: str) -> None:
    """Each piece is written with the event that brought it; the last character waits for what comes behind the call."""
    made = StreamRewriter("chat", ReplyWriter(serializer(api)))
    texts, out = [], b""
    for piece in (BEGUN, call(entry(0, arguments='":[1,')), call(entry(0, arguments="2]} ")), text("After")):
        out += made.feed(piece)
        texts.append(written_calls(out)["a"])
    closed = '{"x":[1,2]}' if api == "chat" else '{"x":[1,2]'  # the others write nothing before the end of a call
    assert texts == ['{"', '{"x":[1', '{"x":[1,2]', closed]
    out += made.feed(fin("tool_calls")) + made.close()
    assert written_calls(out) == {"a": '{"x":[1,2]} '}
    assert told(read(api, out)) == [("a", "f", {"x": [1, 2]})]


@EACH
def test_text_that_comes_after_a_call_stays_after_it(api: str) -> None:
    """Also behind a call that can't be written before the end, and for calls whose fragments are mixed."""
    late = call(entry(0, None, "f", '{"x":')) + text("One") + call(entry(1, "b", "g", '{"y":')) + text("Two")
    late += fragments("1 - - 2}", "0 - - 1}") + text("Three")
    out, made = rewritten(late + fin("tool_calls") + DONE, api)
    reply = read(api, out)
    assert (reply.text, [call[1:] for call in told(reply)]) == ("OneTwoThree", [("f", {"x": 1}), ("g", {"y": 2})])
    words = [b'"f"', b"One", b'"g"', b"Two", b"Three"]
    assert sorted(words, key=out.index) == words
    assert made.error is None


@EACH
@each_row(
    "held",
    [
        call(entry(0, None, "f", '{"x":1}')),  # no id
        call(entry(0, "a", "nobody", '{"x":1}')),  # a tool that the request does not have
        fragments("0 a f {}", '0 - - {"x":1}'),  # an empty object before the real one
        call(entry(0, "a", "f", '"{\\"x\\":1}"')),  # encoded twice
    ],
)
def test_a_call_that_may_still_become_another_waits(api: str, held: bytes) -> None:
    """It comes whole, at the end."""
    made = StreamRewriter("chat", ReplyWriter(serializer(api)), tools=[Tool(name="f", description="", parameters={})])
    out = made.feed(held + text("After"))
    assert written_calls(out) == {}
    out += made.feed(fin("tool_calls")) + made.close()
    assert [call.arguments for call in read(api, out).tool_calls] == [{"x": 1}]


@EACH
@each_row("pieces", [['{"x":1}', '{"x":1}'], ['{"x"', '{"x":1', '{"x":1}'], ['{"x":1}{"x":1}'], ['{"x":1} ', "\n"]])
def test_known_damage_is_repaired_behind_what_was_written(api: str, pieces: list[str]) -> None:
    """Repeated objects and growing snapshots begin as the arguments do, so that these can be ended."""
    body = call(entry(0, "a", "f", "")) + b"".join(call(entry(0, arguments=piece)) for piece in pieces)
    out, made = rewritten(body + fin("tool_calls") + DONE, api)
    assert told(read(api, out)) == told(made.reply) == [("a", "f", {"x": 1})]


@EACH
def test_a_call_that_is_not_handed_out_is_an_error(api: str) -> None:
    """What was written can't be taken back: the answer fails, and nobody runs it."""
    body = BEGUN + call(entry(0, arguments='":1}')) + fin("who_knows") + DONE
    whole, _ = rewritten(body, api)
    assert told(read(api, whole)) == [("a", "f", {"x": 1})]
    out, made = rewritten(BEGUN + fin("who_knows") + DONE, api)
    assert isinstance(made.error, ProtocolError)
    with pytest.raises(UpstreamError, match="changed or disappeared at the end of the answer"):
        read(api, out)


@EACH
@each_row(("reason", "what"), [("length", "reached its token limit"), ("content_filter", "was filtered")])
def test_an_answer_that_reaches_its_limit_inside_a_call(api: str, reason: str, what: str) -> None:
    """Chat and Responses say so as OpenAI does, with a call that nobody can parse; Messages ends with an error."""
    out, made = rewritten(text("Hm. ") + BEGUN + fin(reason) + DONE, api)
    assert not looks_whole(written_calls(out)["a"])
    if api == "anthropic":
        assert isinstance(made.error, IncompleteStreamError)
        with pytest.raises(UpstreamError, match=what):
            read(api, out)
        return
    reply = read(api, out)
    assert (reply.text, reply.tool_calls, reply.finish_reason, made.error) == ("Hm. ", [], reason, None)


@EACH
@each_row(
    ("pieces", "whole", "fits"),
    [
        (['{"x":', "1}"], '{"x":1}', True),
        (['{"x":', "1}"], '{ "x": 1 }', True),  # the same in another spelling
        (['{"x":', "1}"], '{"x":2}', False),
        (['{"x":', '"a'], '{"x":"ab"}', True),
    ],
)
def test_pieces_and_wholes_that_differ(api: str, pieces: list[str], whole: str, fits: bool) -> None:
    """The whole is what is handed out: pieces that can't become it make the answer an error."""
    at = {"output_index": 0, "item_id": "i"}
    item = {"type": "function_call", "id": "i", "call_id": "a", "name": "f", "arguments": ""}
    events = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    events += [{"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in pieces]
    events += [{"type": "response.function_call_arguments.done", **at, "arguments": whole}]
    events += [{"type": "response.completed", "response": {"status": "completed", "output": []}}]
    made = StreamRewriter("responses", ReplyWriter(serializer(api)))
    out = b"".join([made.feed(event(one)) for one in events]) + made.close()
    assert (made.error is None) == fits
    if fits:
        assert told(read(api, out)) == told(made.reply)
    else:
        with pytest.raises(UpstreamError):
            read(api, out)


@EACH
def test_a_cut_at_any_byte(api: str) -> None:
    """An answer that breaks off ends with an error, and no call in it looks whole."""
    body = text("Hm. ") + BEGUN + fragments("1 b g {}", '0 - - ":{"y":2}}')
    body += call(entry(2, "c", "h", '{"z":"}"')) + text("Then.") + call(entry(2, arguments="}")) + fin("tool_calls")
    for end in scale.some(range(len(body) - len(fin("tool_calls"))), 120):
        out, made = rewritten(body[:end], api)
        assert made.error is not None
        assert not any(map(looks_whole, open_calls(out)))
        with pytest.raises(StreamError):
            read(api, out)
        if api == "anthropic":
            stopped = {payload["index"] for payload in payloads(out) if payload["type"] == "content_block_stop"}
            assert not [
                payload
                for payload in payloads(out)
                if payload["type"] == "content_block_start"
                and payload["content_block"]["type"] == "tool_use"
                and payload["index"] in stopped
            ]


@EACH
def test_surrogate_halves_in_two_fragments(api: str) -> None:
    """A character that a server cut in two reaches the client as one."""
    halves = (entry(0, "a", "f", '{"x":"\ud83d'), entry(0, arguments='\udc4b"}'))
    written = [json.dumps({"choices": [{"delta": {"tool_calls": [half]}}]}) for half in halves]
    body = b"".join(f"data: {payload}\n\n".encode() for payload in written) + fin("tool_calls") + DONE
    out, _ = rewritten(body, api)
    assert told(read(api, out)) == [("a", "f", {"x": "\U0001f44b"})]


@EACH
def test_signed_calls_keep_what_their_provider_wants_back(api: str) -> None:
    """Also where it comes behind the first arguments."""
    late = {"index": 0, "extra_content": {"google": {"thought_signature": "s"}}}
    body = BEGUN + call(late) + call(entry(0, arguments='":1}')) + fin("tool_calls") + DONE
    out, _ = rewritten(body, api)
    assert (b'"thought_signature":"s"' in out) == (api != "anthropic")


def test_id_and_model_are_the_servers() -> None:
    """The answer that is written is the same answer."""
    out, _ = rewritten(chunk({"content": "Hi"}) + fin("stop") + DONE, "chat")
    assert {(payload["id"], payload["model"]) for payload in payloads(out)} == {("c1", "m")}


@EACH
@each_row("missing", [False, True])
def test_arguments_that_have_lost_a_piece(api: str, missing: bool) -> None:
    """A client could not know that the rest, which happens to be an object, is not all: the answer fails."""
    at = {"output_index": 0, "item_id": "i"}
    item = {"type": "function_call", "id": "i", "call_id": "a", "name": "f", "arguments": ""}
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    delta = "response.function_call_arguments.delta"
    events += [{"type": delta, **at, "delta": piece} for piece in ('{"x":"one', " two", '"}')]
    events += [{"type": "response.completed", "response": {"status": "completed", "output": []}}]
    numbered = [{**one, "sequence_number": number} for number, one in enumerate(events)]
    made = StreamRewriter("responses", ReplyWriter(serializer(api)))
    out = b"".join([made.feed(event(one)) for one in numbered if not missing or one.get("delta") != " two"])
    out += made.close()
    if missing:
        assert isinstance(made.error, ProtocolError)
        with pytest.raises(UpstreamError):
            read(api, out)
    else:
        assert told(read(api, out)) == [("a", "f", {"x": "one two"})]


FIXTURES = sorted(Path(__file__).parents[3].glob("fixtures/*/*.sse"))


@EACH
def test_recorded_answers(api: str) -> None:
    """Each is the same answer when it is written again, on any API; one that fails stays one."""
    for path in scale.some(FIXTURES, 60):
        recording = Recording.load(path.with_suffix(""))
        check_rewritten(recording.adapter, recording.body, api, recording.interrupted, **recording.options())


@EACH
@each_row("adapter", ["chat", "responses", "anthropic", "gemini"])
def test_answers_of_the_corpus(adapter: str, api: str) -> None:
    """The same for the recordings of real providers."""
    folder = corpus.folder() / "corpus" / adapter
    for path in scale.some(sorted(folder.rglob("*.sse")), 15):
        check_rewritten(adapter, path.read_bytes(), api)


# The kinds of calls that an API has a form for; None: all of them, as the items that they came as.
HAS = {"chat": ("function", "custom"), "responses": None, "anthropic": ("function",)}


def check_rewritten(adapter: str, body: bytes, api: str, interrupted: str | None = None, **options: Any) -> None:
    decoder = StreamDecoder(adapter, **options)
    try:
        decoder.feed(body)
        decoder.close(interrupted=interrupted)
        expected: Reply | None = decoder.reply
    except StreamError:
        expected = None
    made = StreamRewriter(adapter, ReplyWriter(serializer(api)), **options)
    out = b"".join([made.feed(piece) for piece in random_cut(body, Random(len(body)))])
    out += made.close(interrupted=interrupted)
    if expected is None or made.error is not None:
        assert made.error is not None
        if expected is not None:  # Anthropic's clients run what they have of a call
            assert api == "anthropic"
            assert expected.finish_reason in ("length", "content_filter") or any(c.error for c in expected.tool_calls)
        assert not any(map(looks_whole, open_calls(out)))
        return
    reply = read(api, out)
    has = HAS[api]
    calls = [(made.kind, made.name, made.arguments) for made in expected.tool_calls if has is None or made.kind in has]
    assert [(made.kind, made.name, made.arguments) for made in reply.tool_calls] == calls
    assert reply.text.strip() in (expected.text.strip(), (expected.text + (expected.refusal or "")).strip())


@each_row("share", range(10))
@each_row("server", sorted(call_streams.APIS))
def test_servers_with_random_habits(server: str, share: int) -> None:
    """On every API the client gets the calls that our own users get, or an error; no call that is open looks whole."""
    for seed, stream in call_streams.with_objects(server, range(share, scale.pick(2000, 120), 10)):
        reply = call_streams.read(server, stream, [stream.body]).reply
        api = APIS[seed // 10 % 3]
        made = StreamRewriter(server, ReplyWriter(serializer(api)))
        out = b"".join([made.feed(piece) for piece in random_cut(stream.body, Random(seed))])
        out += made.close(interrupted=stream.interrupted)
        if made.error is None:
            assert reply is not None, seed
            if not (reply.text or reply.reasoning or reply.tool_calls):  # an answer of nothing, its calls dropped
                continue
            calls = [repr((c.name, c.arguments, c.error)) for c in read(api, out).tool_calls]
            assert sorted(calls) == sorted(repr((c.name, c.arguments, c.error)) for c in reply.tool_calls), seed
        else:
            assert reply is None or "lost_delta" in stream.used or reply.warnings, seed
            assert not any(map(looks_whole, open_calls(out))), seed
            with pytest.raises(StreamError):
                read(api, out)


@pytest.mark.parametrize("api", APIS)
def test_calls_that_wait_for_another_keep_their_pieces_in_order(api: str) -> None:
    """A call whose arguments come first is written last, from its beginning to its end."""
    heads = call(*(entry(number, f"id_{number}", "f") for number in range(3)))
    third = fragments('2 - - {"a": "x', '1 - - {"b": 1}', '2 - - y"}')
    body = heads + third + call(entry(0, arguments='{"c": 2}')) + fin("tool_calls") + DONE
    made = StreamRewriter("chat", ReplyWriter(serializer(api)))
    out = made.feed(body) + made.close()
    assert [made.arguments for made in read(api, out).tool_calls] == [{"c": 2}, {"b": 1}, {"a": "xy"}]


def block(payload: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


def responses_call(number: int, *pieces: str) -> bytes:
    item = {
        "id": f"fc_{number}",
        "type": "function_call",
        "call_id": f"c{number}",
        "name": f"f{number}",
        "arguments": "",
    }
    added = {"type": "response.output_item.added", "output_index": number, "item": {**item, "arguments": ""}}
    piece = {"type": "response.function_call_arguments.delta", "output_index": number, "item_id": f"fc_{number}"}
    return b"".join(map(block, [added, *({**piece, "delta": delta} for delta in pieces)]))


COMPLETED = block({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}})


@each_row("api", ALL_APIS)
@each_row(
    ("adapter", "body"),
    [
        ("chat", fragments("1 b g ''", '0 a f {"x":', "1 - - {}", "0 - - 1}")),
        ("chat", call(entry(1, "b", "g", '{"x":1}')) + text("T") + call(entry(0, "a", "f", '{"x":1}'))),
        ("chat", fragments('0 a f {"x":1}', "2 c h {}", "1 b g {}")),
        ("chat", fragments('1 b g {"x":1}', "0 a f {}", "0 c h {}")),
        ("chat", fragments('2 b g {"x":1}', "- a f {}")),
        ("responses", responses_call(3, '{"x"', ":1}") + responses_call(1, "{}") + COMPLETED),
        ("responses", responses_call(1, '{"x"', ":1}") + responses_call(0, "{}") + COMPLETED),
    ],
    ids=["mixed", "whole", "third first", "index twice", "no index", "gaps", "output index"],
)  # fmt: skip
def test_calls_keep_their_order(adapter: str, body: bytes, api: str) -> None:
    """Calls are written in the order in which they are handed out, whichever began first."""
    body += (fin("tool_calls") + DONE) if adapter == "chat" else b""
    decoder = StreamDecoder(adapter)
    decoder.feed(body)
    decoder.close()
    made = StreamRewriter(adapter, ReplyWriter(serializer(api)))
    out = b"".join([made.feed(body[at : at + 1]) for at in range(len(body))]) + made.close()
    assert told(read(api, out)) == told(decoder.reply)
    assert made.error is None


def test_calls_in_order_are_written_live_behind_other_parts() -> None:
    """The numbers of items count other parts too: a call behind one that is complete does not wait."""
    made = StreamRewriter("responses", ReplyWriter(serializer("chat")))
    search = {"id": "ws_0", "type": "web_search_call", "status": "completed"}
    made.feed(block({"type": "response.output_item.done", "output_index": 0, "item": search}))
    assert written_calls(made.feed(responses_call(1, '{"x":', "1"))) == {"c1": '{"x":'}


LOST_HEAD = b"".join(map(block, [
    {"type": "response.output_item.added", "output_index": 0,
     "item": {"id": "fc_0", "type": "function_call", "call_id": "c0", "name": "f", "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": '{"a'},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": '":1'},
    {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [
        {"id": f"fc_{number}", "type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": arguments}
        for number, arguments in enumerate(["{}", '{"b":1}', "{}"])
    ]}},
]))  # fmt: skip


@each_row("api", ALL_APIS)
def test_a_call_that_waits_and_ends_otherwise(api: str) -> None:
    """Nothing was written of it, so it is written as it is handed out."""
    made = StreamRewriter("responses", ReplyWriter(serializer(api)))
    reply = read(api, made.feed(LOST_HEAD) + made.close())
    assert told(reply) == [("c0", "f", {}), ("c1", "f", {"b": 1}), ("c2", "f", {})]


OPEN_CALL = call(entry(0, "a", "f", '{"x":[1'))
BLOCKS = [
    {"type": "message_start", "message": {"id": "m", "type": "message", "model": "m", "content": [], "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"x":[1'}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "AB"}},
]


@each_row("api", ALL_APIS)
@each_row(
    ("adapter", "body"),
    [
        ("chat", text(" ") + text("\n")),
        ("chat", text("A") + OPEN_CALL + text("B") + text(" ") + call(entry(1, "b", "g", '{"y":')) + text("C")),
        ("chat", text(" ") + OPEN_CALL + text(" ")),
        ("chat", text("A") + chunk({"refusal": "No."})),
        ("chat", text("A") + call(entry(0, None, "f", '{"x":[1')) + text("B")),
        ("anthropic", b"".join(map(block, BLOCKS))),
    ],
    ids=["white space", "behind calls", "white space and a call", "refusal", "behind a call that waits", "blocks"],
)
def test_text_of_a_failed_answer(adapter: str, body: bytes, api: str) -> None:
    """It is written once, as far as the error has it: also what waited for a call that was cut off."""
    decoder = StreamDecoder(adapter)
    decoder.feed(body)
    with pytest.raises(StreamError) as failed:
        decoder.close()
    made = StreamRewriter(adapter, ReplyWriter(serializer(api)))
    out = made.feed(body) + made.close()
    with pytest.raises(StreamError) as again:
        read(api, out)
    partials = [failed.value.partial, again.value.partial]
    said = [(one.text, one.refusal) if one else None for one in partials]
    if api in ("anthropic", "gemini"):  # where a refusal is a text
        said = [("".join(part or "" for part in one), None) if one else None for one in said]
    assert said[0] == said[1]


BROKEN_ANSWERS = {
    "chat": call(entry(0, "a", "f", '{"older_than": 30, "folder": "/tm')) + fin("tool_calls") + DONE,
    "responses": responses_call(0, '{"older_than": 30, ', '"folder": "/tm') + COMPLETED,
    "anthropic": b"".join(map(block, [
        *BLOCKS[:1], {**BLOCKS[2], "index": 0}, {**BLOCKS[3], "index": 0}, {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}, {"type": "message_stop"},
    ])),
    "gemini": block({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": "x"}}]},
                                     "finishReason": "STOP"}]}),
}  # fmt: skip


@each_row("api", [*ALL_APIS, "the same"])
@each_row("adapter", BROKEN_ANSWERS)
def test_broken_arguments_are_never_a_call_that_can_be_run(adapter: str, api: str) -> None:
    """Clients that parse the text see that it is broken; for those that get an object the answer ends with an error."""
    body = BROKEN_ANSWERS[adapter]
    assert [made.error for made in read(adapter, body).tool_calls] == ["invalid_json"]
    if api == "the same":
        repair = RepairSettings().stream(adapter, {"stream": True})
        api, out = adapter, repair.feed(body) + repair.close()
    else:
        made = StreamRewriter(adapter, ReplyWriter(serializer(api)))
        out = made.feed(body) + made.close()
    if api in ("chat", "responses"):
        assert [made.error for made in read(api, out).tool_calls] == ["invalid_json"]
        assert not any(map(looks_whole, written_calls(out).values()))
        return
    assert b"functionCall" not in out
    with pytest.raises(UpstreamError, match=r"the arguments of f0? aren't a complete JSON object"):
        read(api, out)


@pytest.mark.parametrize(("raw", "runs"), [('{"input": "rm -rf /tm', False), ("*** Begin Patch", True)])
def test_the_text_of_a_custom_tool(raw: str, runs: bool) -> None:
    """Any text can be run: the model's own text is one, and JSON that was cut is not."""
    made = ResponsesSerializer(id="r", model="m", tools={"f": ClientTool("f", "custom")})
    rewriter = StreamRewriter("chat", ReplyWriter(made))
    out = rewriter.feed(call(entry(0, "a", "f", raw)) + fin("tool_calls") + DONE) + rewriter.close()
    done = [one["item"].get("input") for one in payloads(out) if one["type"] == "response.output_item.done"]
    assert done == ([raw] if runs else [])
    assert (rewriter.error is None) == runs


@each_row("api", ["chat", "responses", "anthropic"])
@each_row("mend", [False, True])
def test_a_finish_reason_that_nobody_said(api: str, mend: bool) -> None:
    """None is made up, unless that is asked for; text and calls are the same."""
    body = text("A") + call(entry(0, "a", "f", '{"x":1}')) + DONE
    made = StreamRewriter("chat", ReplyWriter(serializer(api, fill_finish_reason=mend)))
    reply = read(api, made.feed(body) + made.close())
    assert (reply.text, told(reply)) == ("A", [("a", "f", {"x": 1})])
    assert (reply.raw_finish_reason is None) == (not mend)


@each_row("api", ALL_APIS)
def test_a_call_that_may_lack_its_arguments(api: str) -> None:
    """No arguments are written as an empty object, which could be run: the answer ends with an error."""
    body = fragments("- - f", '0 b g {"x":1}', "3 - - {}")
    body += fin("tool_calls") + DONE
    assert [made.error for made in read("chat", body).tool_calls] == ["invalid_json", None]
    made = StreamRewriter("chat", ReplyWriter(serializer(api)))
    with pytest.raises(UpstreamError, match="the arguments of f aren't a complete JSON object"):
        read(api, made.feed(body) + made.close())
