"""Answers with items of every kind, made from the API's documented forms: written again, each stays in its place."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from httpx_sse import ServerSentEvent

import scale
from folding import random_cut
from made_hosted import responses_stream
from mirror import emit, payloads, read, serializer
from streamfold import Reply, StreamDecoder
from streamfold.adapters.chat import ChatAdapter
from streamfold.serving import ReplyWriter
from streamfold.serving.reply_deltas import has_items, reply_deltas
from streamfold_repair.rewriter import StreamRewriter

WORDS = ("Hi ", "née ", "👋🏽 ", "\u2028", "\n\n", "e\u0301", "12 °C. ")
CLIENTS: list[dict[str, Any]] = [
    {"type": "custom_tool_call", "name": "sql", "input": "select '👋'"},
    {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "shell_call", "action": {"commands": ["ls"]}},
    {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    {"type": "computer_call", "action": {"type": "screenshot"}, "pending_safety_checks": []},
    {"type": "tool_search_call", "execution": "client", "arguments": {"goal": "x"}},
]
SERVERS: list[dict[str, Any]] = [
    {"type": "web_search_call", "action": {"type": "search", "query": "x"}},
    {"type": "code_interpreter_call", "code": "1", "container_id": "cntr_1", "outputs": None},
    {"type": "mcp_call", "name": "f", "server_label": "s", "arguments": "{}", "output": "1", "error": None},
    {"type": "compaction", "encrypted_content": "gAAA"},
    {"type": "acme:search_call"},
]


def text(rng: Random) -> str:
    return "a" + "".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5)))


def made_item(rng: Random, at: int) -> dict[str, Any]:
    """One item of a random kind, as it is when it is done."""
    kind = rng.choice(["message", "message", "reasoning", "function", "client", "client", "server", "approval"])
    match kind:
        case "message":
            said = text(rng)
            start = rng.randint(0, len(said) - 1)
            cited = {"type": "url_citation", "url": "https://a.b/é", "title": "T", "start_index": start}
            found = [{**cited, "end_index": rng.randint(start, len(said))} for _ in range(rng.choice([0, 0, 1, 2]))]
            part = {"type": "output_text", "text": said, "annotations": found, "logprobs": []}
            phase = rng.choice([{}, {"phase": "commentary"}, {"phase": "final_answer"}])
            message = {"id": f"msg_{at}", "type": "message", "status": "completed", "role": "assistant"}
            return {**message, "content": [part], **phase}
        case "reasoning":
            hidden = rng.choice([{}, {"encrypted_content": f"gAAA{at}"}])
            summary = [{"type": "summary_text", "text": text(rng)}]
            return {"id": f"rs_{at}", "type": "reasoning", "summary": summary, **hidden}
        case "function":
            arguments = rng.choice(["{}", '{"a":"}👋"}', '{"b": [1, {"c": 2}]}'])
            call = {"call_id": f"call_{at}", "name": rng.choice("fg"), "arguments": arguments}
            return {"id": f"fc_{at}", "type": "function_call", "status": "completed", **call}
        case "client":
            return {"id": f"x_{at}", "call_id": f"call_{at}", "status": "completed", **rng.choice(CLIENTS)}
        case "server":
            return {"id": f"s_{at}", "status": "completed", **rng.choice(SERVERS)}
    asked = {"name": "f", "server_label": "s", "arguments": '{"a":1}'}
    return {"id": f"mcpr_{at}", "type": "mcp_approval_request", **asked}


def facts(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items without the ids of texts, which are written anew."""
    return [
        {name: value for name, value in item.items() if name != "id" or item["type"] not in ("message", "reasoning")}
        for item in items
    ]


def told(reply: Reply) -> list[tuple[Any, ...]]:
    calls = [("call", call.kind, call.id, call.name, call.raw_arguments) for call in reply.tool_calls]
    cited = [("cited", one.url, one.start, one.end) for one in reply.citations]
    return [("text", reply.text, reply.reasoning, reply.phases), *calls, *cited]


def original(body: bytes) -> Reply:
    decoder = StreamDecoder("responses")
    decoder.feed(body)
    decoder.close()
    return decoder.reply


@pytest.mark.parametrize("share", range(4))
def test_items_of_every_kind_stay_in_their_place(share: int) -> None:
    """Streamed or whole, at any cut: the same items in the same order, with phases, citations and what is encrypted."""
    for seed in range(share, scale.pick(2000, 160), 4):
        rng = Random(seed)
        items = [made_item(rng, at) for at in range(rng.randint(1, 7))]
        body = responses_stream(rng, items)
        reply = original(body)
        assert has_items(reply) or not any(item["type"] in ("message", "reasoning") for item in items), seed
        made = StreamRewriter("responses", ReplyWriter(serializer("responses")))
        out = b"".join([made.feed(piece) for piece in random_cut(body, rng)]) + made.close()
        whole = serializer("responses", fill_finish_reason=True)
        again = whole.feed_all(reply_deltas(reply)) + whole.finish()
        for written in (out, again):
            assert facts(payloads(written)[-1]["response"]["output"]) == facts(items), seed
            assert told(read("responses", written)) == told(reply), seed


@pytest.mark.parametrize("api", ["chat", "anthropic", "gemini"])
def test_items_of_every_kind_on_other_apis(api: str) -> None:
    """Text and the calls that an API has a form for, in order; a warning names every other call."""
    kinds = {"chat": ("function", "custom")}.get(api, ("function",))
    for seed in range(scale.pick(1000, 80)):
        rng = Random(seed)
        body = responses_stream(rng, [made_item(rng, at) for at in range(rng.randint(1, 7))])
        reply = original(body)
        made = StreamRewriter("responses", ReplyWriter(serializer(api, fill_finish_reason=True)))
        out = b"".join([made.feed(piece) for piece in random_cut(body, rng)]) + made.close()
        found = read(api, out)
        calls = [(call.kind, call.name, call.arguments) for call in reply.tool_calls if call.kind in kinds]
        assert (found.text, [(call.kind, call.name, call.arguments) for call in found.tool_calls]) == (
            reply.text,
            calls,
        )
        lost = [call.name for call in reply.tool_calls if call.kind not in kinds]
        assert (b"streamfold warning calls_dropped: " in out) == bool(lost), seed


def test_custom_calls_of_chat_keep_their_places() -> None:
    """From Chat to Chat without a reply between: pieces are joined, and the order of kinds stays."""

    def events(*entries: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]} for entry in entries]

    def function(number: int) -> dict[str, Any]:
        return {"index": number, "id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    sql = {"index": 0, "id": "c0", "type": "custom", "custom": {"name": "sql", "input": "select "}}
    more = {"index": 0, "custom": {"input": "1"}}
    last = {"index": 3, "type": "custom", "custom": {"name": "sql", "input": "drop"}}
    adapter, end = ChatAdapter(), [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    body = [*events(sql, more, function(1), function(2), last), *end]
    deltas = [delta for event in body for delta in adapter.decode(ServerSentEvent(data=json.dumps(event)))]
    calls = read("chat", emit("chat", deltas)).tool_calls
    assert [(call.kind, call.id, call.raw_arguments) for call in calls] == [
        ("custom", "c0", "select 1"), ("function", "c1", "{}"), ("function", "c2", "{}"), ("custom", "call_3", "drop"),
    ]  # fmt: skip
