"""What was right below a `RepairTransport` comes out byte by byte, as far as it was right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, bytewise, call, chunk, entry, event, fin, text
from mirror import payloads
from streamfold_repair.stream_repair import RepairSettings, UnreadError


def named(*events: dict[str, Any], spaced: bool = True) -> bytes:
    """Events as the APIs with names for them send them, with members in an order that no writer of ours has."""
    separators = (", ", ": ") if spaced else (",", ":")
    return b"".join(
        f"event: {one.get('type')}\ndata: {json.dumps(one, separators=separators)}\n\n".encode() for one in events
    )


def begun(index: int, id_: str, name: str, arguments: str) -> dict[str, Any]:
    """The first entry of a call, with its type."""
    return {"type": "function", **entry(index, id_, name, arguments)}


CITY = '{"city": "Kraków"}'
ITEM = {"status": "completed", "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": CITY}
PART = {"type": "output_text", "text": "", "annotations": []}
MESSAGE = {"id": "m_1", "type": "message", "role": "assistant", "content": [PART], "status": "in_progress"}
DELTA = {"type": "response.output_text.delta", "item_id": "m_1", "output_index": 0, "content_index": 0, "delta": "Hi"}
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "content": []}
THINKS = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
ARGUMENTS = {"item_id": "fc_1", "output_index": 1}
RIGHT: dict[str, tuple[str, bytes]] = {
    "chat": (
        "chat",
        b": hello\n\n"
        + chunk({"role": "assistant", "content": "Hi"})
        + b'data: {"choices": [{"delta": {"content": " there"}, "index": 0, "mine": null}], "object": '
        + b'"chat.completion.chunk"}\r\n\r\n'
        + b": ping\n\n"
        + call(begun(0, "c1", "f", '{"city": '), entry(0, arguments='"Krak'))
        + call(entry(0, arguments='\\u00f3w"}'))
        + call(begun(1, "c2", "g", "{}"))
        + fin("tool_calls")
        + b'data: {"id":"x","choices":[],"usage":{"total_tokens":3,"prompt_tokens":1,"completion_tokens":2}}\n\n'
        + DONE,
    ),
    "chat, no end of its own": ("chat", text("Hi") + fin("stop")),
    "responses": (
        "responses",
        named(
            {"type": "response.created", "response": {"id": "r1", "output": []}, "sequence_number": 0},
            {"type": "response.in_progress", "response": {"id": "r1", "output": []}, "sequence_number": 1},
            {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE, "sequence_number": 2},
            {**DELTA, "sequence_number": 3, "mine": [1]},
            {"type": "response.of_next_year", "sequence_number": 4},
            {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE, "sequence_number": 5},
            {"type": "response.output_item.added", "output_index": 1, "item": {**ITEM, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **ARGUMENTS, "delta": CITY[:4]},
            {"type": "response.function_call_arguments.delta", **ARGUMENTS, "delta": CITY[4:]},
            {"type": "response.function_call_arguments.done", **ARGUMENTS, "arguments": CITY},
            {"type": "response.output_item.done", "output_index": 1, "item": ITEM},
            {"type": "response.completed", "response": {"output": [MESSAGE, ITEM], "status": "completed", "id": "r1"}},
        ),
    ),
    "responses, reasoning as local servers send it": (
        "responses",
        named(
            {"type": "response.created", "response": {"id": "r1", "output": []}, "sequence_number": 0},
            {"type": "response.output_item.added", "output_index": 0, "item": THOUGHT},
            {"type": "response.content_part.added", **THINKS, "part": {"type": "reasoning_text", "text": ""}},
            {"type": "response.reasoning_text.delta", **THINKS, "delta": "Hm"},
            {"type": "response.reasoning_text.done", **THINKS, "text": "Hm"},
            {"type": "response.content_part.done", **THINKS, "part": {"type": "reasoning_text", "text": "Hm"}},
            {"type": "response.output_item.done", "output_index": 0, "item": THOUGHT},
            {"type": "response.completed", "response": {"output": [THOUGHT], "status": "completed", "id": "r1"}},
        ),
    ),
    "responses, failed": (
        "responses",
        named(
            {"type": "response.created", "response": {"id": "r1", "output": []}, "sequence_number": 0},
            {"type": "response.failed", "response": {"id": "r1", "status": "failed", "error": {"message": "no"}}},
        ),
    ),
    "responses, all of it at the end": (
        "responses",
        named(
            {"type": "response.created", "response": {"id": "r1", "output": []}, "sequence_number": 0},
            {"type": "response.completed", "response": {"output": [MESSAGE], "status": "completed", "id": "r1"}},
        ),
    ),
    "messages": (
        "anthropic",
        named(
            {
                "type": "message_start",
                "message": {"content": [], "id": "m", "model": "c", "usage": {"input_tokens": 1}},
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "mine": 1}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": CITY[:5]},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": CITY[5:]},
            },
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ),
    ),
    "gemini": (
        "gemini",
        named(
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}], "mine": 1},
            {
                "candidates": [
                    {"content": {"parts": [{"functionCall": {"args": {"a": 1}, "name": "f"}}]}, "finishReason": "STOP"}
                ],
                "usageMetadata": {"totalTokenCount": 3},
            },
        ),
    ),
    "nothing but an end": ("chat", DONE),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_goes_on_as_it_came(name: str) -> None:
    """Lifecycle, names of events, comments, line ends, unknown members and the order of members: all of it stays."""
    api, body = RIGHT[name]
    for pieces in ([body], list(bytewise(body))):
        repair = RepairSettings().stream(api, {"stream": True})
        assert b"".join(map(repair.feed, pieces)) + repair.close() == body
        assert repair.repaired.warnings == ()


def test_the_end_of_a_call_waits_for_the_servers_word() -> None:
    """Where an event says that a call is whole, it goes on with that event; before it nothing could be run."""
    api, body = RIGHT["responses"]
    repair = RepairSettings().stream(api, {"stream": True})
    events = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]
    out = [repair.feed(event) for event in events]
    assert out == [*events[:6], b"", events[6], events[7], events[8] + events[9], *events[10:]]


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "gemini"])
def test_what_broke_off_goes_on_before_its_error(name: str) -> None:
    """Byte by byte, but for the end of a call of which nothing says that it is whole."""
    api, body = RIGHT[name]
    events = [event + b"\n\n" for event in body.split(b"\n\n") if b"finish" not in event]
    for cut in range(2, len(events) - 2):
        given = b"".join(events[:cut])
        out = through(api, given)
        assert b"error" in out.removeprefix(given)
        assert out.startswith(given) or api in ("chat", "gemini")


@pytest.mark.parametrize(
    ("api", "good", "bad"),
    [
        ("chat", text("Hi") + call(begun(0, "a", "f", '{"x":')), call(begun(0, "b", "g", "{}")) + fin("tool_calls")),
        ("chat", text("Hi") + call(begun(0, "a", "f", '{"x":')), call(entry(0, arguments="1")) + fin("length")),
        ("chat", text("Hi"), b'data: {"choices":[{"index":0,"delta":{"content":["no"]}}]}\n\n'),
        ("responses", RIGHT["responses"][1].partition(b"event: response.output_item.added")[0], named(DELTA)),
        ("anthropic", RIGHT["messages"][1].partition(b"event: content_block_stop")[0], b""),
    ],
)
def test_the_rest_is_written_from_the_first_thing_to_mend_on(api: str, good: bytes, bad: bytes) -> None:
    """What has gone on is not said again, and nothing of what comes behind it is lost."""
    repair = RepairSettings().stream(api, {"stream": True})
    out = repair.feed(good)
    assert good.startswith(out)
    out += repair.feed(bad) + repair.close()
    once = [one for one in payloads(out) if str(one.get("type", "")).endswith(("created", ".added", "_start"))]
    assert len({json.dumps(one) for one in once}) == len({(one["type"], one.get("output_index")) for one in once})
    assert api == "responses" or out.count(b"Hi") == good.count(b"Hi")


def test_the_servers_own_words_for_a_failure_go_on() -> None:
    """What waits goes on before them, but for the end of a call that a client could run."""
    events = [event + b"\n\n" for event in RIGHT["responses"][1].split(b"\n\n")[:-1]]
    failed = named({"type": "response.failed", "response": {"id": "r1", "status": "failed", "error": None}})
    repair = RepairSettings().stream("responses", {"stream": True})
    assert repair.feed(b"".join([*events[:9], failed])) == b"".join([*events[:9], failed])
    assert repair.repaired.error is not None
    given, error = text("Hi") + call(begun(0, "c1", "f", CITY[:4])), event({"error": {"message": "no"}})
    assert through("chat", given, call(entry(0, arguments=CITY[4:])), error) == given + error


def test_what_the_writer_could_not_go_on_with_waits() -> None:
    """Positions that are none of ours are handed on when nothing was wrong; not for ever, and nothing is lost."""
    body = RIGHT["responses"][1].replace(b'"output_index": 1', b'"output_index": 7')
    assert RepairSettings().stream("responses", {"stream": True}).feed(body) == body
    repair = RepairSettings().stream("responses", {"stream": True})
    text = DELTA | {"output_index": 7, "item_id": "m_7"}
    begun = {"type": "response.output_item.added", "output_index": 7, "item": {**MESSAGE, "id": "m_7"}}
    out = repair.feed(body.partition(b"event: response.output_item.added")[0] + named(begun))
    late = [repair.feed(named(text)) for _ in range(200)]
    assert late[0] == b""
    assert late[-1]
    assert "Hi" * 200 == "".join(one.get("delta", "") for one in payloads(out + b"".join(late)))


@pytest.mark.parametrize(
    ("api", "request_", "body"),
    [
        ("responses", {}, {"id": "r", "object": "response", "status": "queued", "output": []}),
        ("chat", {}, {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}),
    ],
)
def test_an_answer_that_is_still_made_is_not_judged(api: str, request_: Any, body: Any) -> None:
    """One in the background, or with no choice, is no failure: it goes through."""
    with pytest.raises(UnreadError):
        RepairSettings().whole(api, request_).repair(json.dumps(body).encode())


def test_a_choice_of_a_hosted_tool_is_the_servers_to_judge() -> None:
    """A request that names a tool of an MCP server is no reason to fail."""
    server = {"type": "mcp", "server_label": "desk"}
    request = {"tools": [{**server, "server_url": "https://desk.test"}], "tool_choice": {**server, "name": "read"}}
    body = b'{"id":"r","object":"response","status":"completed","output":[]}'
    assert RepairSettings().whole("responses", request).repair(body) == body


def test_events_that_nobody_knows_stay() -> None:
    """Under any name, before the message, and where the rest is written again."""
    event = b'event: of_next_year\ndata: {"type":"of_next_year","mine":1}\n\n'
    stray = named({"type": "content_block_stop", "index": 0})
    body = event + stray + RIGHT["messages"][1] + event
    assert RepairSettings().stream("anthropic", {}).feed(body) == body
    known = event.replace(b"mine", b"message_start")
    assert RepairSettings().stream("anthropic", {}).feed(body + known) == body
    mended = RepairSettings().stream("anthropic", {}).feed(body.replace(b'"index": 1', b'"index": 4'))
    assert [one for one in payloads(mended) if one.get("mine")][:1] == [{"type": "of_next_year", "mine": 1}]
    begun, _, rest = body.replace(b'"index": 1', b'"index": 4').rpartition(b"event: message_delta")
    late = RepairSettings().stream("anthropic", {}).feed(begun + event + b"event: message_delta" + rest)
    assert sum(one.get("mine", 0) for one in payloads(late)) >= 2


@pytest.mark.parametrize("said", [b'data: {"mine":1}\n\n', b"event: ping\ndata: {}\n\n"])
def test_an_event_that_says_nothing_stays_among_those_of_gemini(said: bytes) -> None:
    """It is no error, and what comes behind it goes on too."""
    first, end = (event + b"\n\n" for event in RIGHT["gemini"][1].split(b"\n\n")[:2])
    assert through("gemini", first + said + end) == first + said + end


def test_lists_that_a_client_does_not_join_need_no_positions() -> None:
    """OpenAI's client wants them from the second one on."""
    notes = [{"type": "url_citation", "url_citation": {"url": "https://desk.test"}}]
    body = text("Hi") + chunk({"content": "", "annotations": notes}) + text("!") + fin("stop") + DONE
    assert through("chat", body) == body
    twice = through("chat", body.replace(DONE, b"").replace(fin("stop"), b"") + body)
    made = [sent["choices"][0]["delta"].get("annotations") for sent in payloads(twice)]
    assert [one for one in made if one] == [notes, [{"index": 1, **notes[0]}]]


def test_what_says_its_arguments_at_the_end_alone_goes_on_where_items_overlap() -> None:
    """Clients take all of an item from its end; an id that is empty is the only call's own."""
    created, *_, end = [event + b"\n\n" for event in RIGHT["responses"][1].split(b"\n\n")[:-1]]
    added = {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE}
    begun = {**added, "output_index": 1, "item": {**ITEM, "arguments": ""}}
    done = [
        {"type": "response.output_item.done", "output_index": at, "item": one} for at, one in enumerate((MESSAGE, ITEM))
    ]
    body = created + named(added, begun, done[1], done[0]) + end
    assert through("responses", body) == body
    assert through("responses", created + named(*done) + end) == created + named(*done) + end
    whole = {"id": "r", "object": "response", "status": "completed", "output": [{**ITEM, "call_id": ""}]}
    given = json.dumps(whole, ensure_ascii=False).encode()
    assert RepairSettings().whole("responses", {}).repair(given) == given


@pytest.mark.parametrize("around", [{}, {"system_fingerprint": "fp"}, {"mine": {"a": 1}}])
def test_what_comes_again_around_a_text_is_read_once(around: Any) -> None:
    """And what is new in it is found, wherever it comes."""
    same = [chunk({"content": "a"}, **around)] * 3
    odd = chunk({"content": "b", "mine": 2}, **around)
    bad = b'data: {"choices":[{"index":0,"delta":{"content":"c"}}],"error":{"message":"no"}}\n\n'
    body = b"".join([*same, odd, *same])
    assert through("chat", body + fin("stop") + DONE) == body + fin("stop") + DONE
    assert through("chat", body + bad) == body + bad
    late = through("chat", body + call(begun(2, "c1", "f", CITY)) + fin("tool_calls") + DONE)
    assert late.startswith(body)
    assert payloads(late[len(body) :])[0].get("system_fingerprint") == around.get("system_fingerprint")


def test_what_a_client_would_not_find_is_mended() -> None:
    """Calls that are counted from another number than zero, and arguments that no piece brings."""
    one = call(begun(1, "c1", "f", CITY)) + fin("tool_calls") + DONE
    made = payloads(RepairSettings().stream("chat", {"stream": True}).feed(one))
    entries = [piece for sent in made for piece in sent["choices"][0]["delta"].get("tool_calls") or ()]
    assert {piece["index"] for piece in entries} == {0}
    assert "".join(piece["function"]["arguments"] for piece in entries) == CITY
    body = RIGHT["responses"][1]
    pieces = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]
    silent = b"".join(event for event in pieces if b"arguments.delta" not in event)
    made = payloads(RepairSettings().stream("responses", {"stream": True}).feed(silent))
    assert "".join(sent["delta"] for sent in made if sent["type"].endswith("arguments.delta")) == CITY


STOP = named({"type": "message_stop"})
SAYING = [name for name in RIGHT if name != "nothing but an end"]


def through(api: str, *pieces: bytes, interrupted: str | None = None) -> bytes:
    """What a client gets of a body that comes in these pieces."""
    repair = RepairSettings().stream(api, {"stream": True})
    return b"".join(map(repair.feed, pieces)) + repair.close(interrupted=interrupted)


@pytest.mark.parametrize("broken", [['{"a":1}', "}"], ['{"a":', "}", "1"], ["[1]"], ["{'a':1}"]])
def test_a_broken_call_does_not_break_those_behind_it(broken: list[str]) -> None:
    """The server has said it whole, so it goes on whole."""
    pieces = [call(entry(0, arguments=piece)) for piece in broken]
    good = call(begun(1, "c2", "g", '{"b":2')) + call(entry(1, arguments="}"))
    body = call(begun(0, "c1", "f", "")) + b"".join(pieces) + good + fin("tool_calls") + DONE
    assert through("chat", body) == through("chat", *bytewise(body)) == body


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_nothing_is_read_behind_the_end(name: str) -> None:
    """Parts of the answer, or all of it, once more: no text is doubled, no call is made up."""
    api, body = RIGHT[name]
    again = [event + b"\n\n" for event in body.replace(b"\r\n", b"\n").split(b"\n\n") if b"data: {" in event]
    again = [event for event in again if b"ping" not in event]
    others = b": still here\n\n" + DONE + b"event: done\r\ndata: [DONE]\r\n\r\n\n: bye\n"
    for late in (*again, b"".join(again), b"data: x" * 4000 + b"\n\n"):
        for pieces in ([body + late + others], [body, *bytewise(late), *bytewise(others)]):
            assert through(api, *pieces) == body + others
    assert through(api, body, again[0][:-1]) == body


@pytest.mark.parametrize("first", ['{"mine":1}', "{}", "null", '{"id":"x","model":"m"}'])
@pytest.mark.parametrize("name", SAYING)
def test_an_answer_is_repaired_behind_events_that_nobody_knows(name: str, first: str) -> None:
    """They go on at once, as they came. A stream of nothing else goes on to its end."""
    api, body = RIGHT[name]
    event = f"event: ping\ndata: {first}\n\n".encode()
    assert RepairSettings().stream(api, {}).feed(event) == event
    assert through(api, event, body) == through(api, *bytewise(event + body)) == event + body
    events = [one + b"\n\n" for one in body.split(b"\n\n")[:-1]]
    cut = through(api, event, *events[: len(events) // 2])
    assert b"error" in cut.removeprefix(event).lower()
    other = event + b"data: [DONE]\n\ndata: x\n\n" + event
    assert through(api, *bytewise(other)) == other


@pytest.mark.parametrize("name", SAYING)
def test_an_end_without_its_blank_line(name: str) -> None:
    """A whole event counts, and gets the blank line without which clients do not see it; half of one is an error."""
    api, body = RIGHT[name]
    out = through(api, *bytewise(body.rstrip()))
    assert out == (body.rstrip() if body.endswith((DONE, STOP)) else body)  # that it ends is seen all the same
    half = through(api, body.rstrip()[:-5])
    assert payloads(half)  # none of them is half
    assert any(word in half for word in (b'"error"', b"[DONE]", b"message_stop"))


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "gemini"])
def test_an_answer_that_says_nothing_is_not_judged(api: str) -> None:
    """Whether it has no bytes at all, or comments, or the end alone."""
    for body in (b"", b"\n\n", b": hi\n\n", b"event: x\n\n", b"dat", b"data:", b"\xef\xbb\xbf", b"data: [DONE]\n\n"):
        assert through(api, body) == body
