"""Codex's kind of requests before the gateway: tools of all kinds, before providers that know functions alone."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from folding import DONE, call, entry, event, fin
from gateways import CHAT, MESSAGES, RESPONSES, behind
from mirror import check_response_events, emit, payloads
from streamfold.deltas import Finish, TextDelta
from streamfold.recording import Recording
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

PATCH = "*** Begin Patch\n*** Add File: a\n+é\n*** End Patch"
TOOLS: list[dict[str, Any]] = [
    {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
    {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "close"}]},
    {"type": "web_search", "external_web_access": False},
]
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}
INSTRUCTIONS = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}
IDS = {
    "client_metadata": {"x-installation-id": "i-1"},
    "prompt_cache_key": "s-1",
    "user": "u",
    "safety_identifier": "h",
}
HELLO = emit("chat", [TextDelta("Hi"), Finish("stop", "stop")])


def asked(*items: Any, **members: Any) -> dict[str, Any]:
    """A request as Codex writes it."""
    return {
        "model": "main", "input": [INSTRUCTIONS, QUESTION, *items], "tools": TOOLS, "stream": True, "store": False,
        "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}, "text": {"verbosity": "low"},
        **IDS, **members,
    }  # fmt: skip


def called(*calls: tuple[str, Any]) -> bytes:
    entries = [entry(at, f"functions.{name}:{at}", name, json.dumps(given)) for at, (name, given) in enumerate(calls)]
    thinks = event({"choices": [{"index": 0, "delta": {"reasoning_content": "I look."}}]})
    return thinks + b"".join(map(call, entries)) + fin("tool_calls") + DONE


def sent(client: httpx.AsyncClient, at: int = 0) -> dict[str, Any]:
    """What the provider was asked."""
    found: dict[str, Any] = json.loads(client.upstream.requests[at].content)  # type: ignore[attr-defined]
    return found


async def test_two_turns_with_tools_of_all_kinds() -> None:
    """Calls come back in the form that was declared, and with them the conversation goes on."""
    answers = [called(("apply_patch", {"input": PATCH}), ("agents__close", {"id": 1})), HELLO]
    async with behind(*answers, adapter="kimi", name="kimi") as client:
        first = check_response_events((await client.post(RESPONSES, json=asked())).content)
        thought, patch, close = first["output"]
        assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "apply_patch", PATCH)
        assert (close["type"], close["namespace"], close["name"]) == ("function_call", "agents", "close")
        results = [
            {"type": "custom_tool_call_output", "call_id": patch["call_id"], "name": "apply_patch", "output": "ok"},
            {"type": "function_call_output", "call_id": close["call_id"], "output": "closed"},
        ]
        second = await client.post(RESPONSES, json=asked(*first["output"], *results))
    assert payloads(second.content)[-1]["response"]["output"][0]["content"][0]["text"] == "Hi"
    system, question, turn, *answered = sent(client, 1)["messages"]
    assert (system, question["role"]) == ({"role": "system", "content": "Be brief."}, "user")
    assert turn["reasoning_content"] == thought["summary"][0]["text"] == "I look."
    assert [made["function"]["name"] for made in turn["tool_calls"]] == ["apply_patch", "agents__close"]
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == {"input": PATCH}
    assert [result["content"] for result in answered] == ["ok", "closed"]


@pytest.mark.parametrize("stream", [True, False])
async def test_what_a_client_hears_of_tools_that_are_left_out(stream: bool) -> None:
    """One warning, which names them; the options of Codex that ask for nothing more are none."""
    async with behind(HELLO) as client:
        answer = await client.post(RESPONSES, json=asked(stream=stream))
    assert [tool["function"]["name"] for tool in sent(client)["tools"]] == ["apply_patch", "agents__close"]
    told = answer.text if stream else answer.headers["x-streamfold-warnings"]
    assert "tool_dropped: web_search: this provider does not run such tools" in told
    assert "option_dropped" not in told


async def test_a_choice_that_no_such_provider_can_meet() -> None:
    """It is refused before the provider is asked."""
    async with behind(HELLO) as client:
        answer = await client.post(RESPONSES, json=asked(tool_choice={"type": "web_search"}))
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "tool_choice requires 'web_search'" in answer.json()["error"]["message"]


async def test_a_provider_of_the_same_api_is_asked_as_the_client_asked() -> None:
    """Tools, choice, options and items are unchanged."""
    patch = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c-1", "name": "apply_patch", "input": PATCH}
    result = {"type": "custom_tool_call_output", "call_id": "c-1", "output": "ok"}
    choice = {"type": "custom", "name": "apply_patch"}
    async with behind(emit("responses", [TextDelta("Hi")]), adapter="responses") as client:
        answer = await client.post(RESPONSES, json=asked(patch, result, tool_choice=choice))
    assert answer.status_code == 200
    body = sent(client)
    assert (body["tools"], body["tool_choice"], body["text"]) == (TOOLS, choice, {"verbosity": "low"})
    assert body["input"][2:] == [patch, result]
    assert body["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize("adapter", ["chat", "responses"])
async def test_reasoning_of_an_answer_that_broke_off(adapter: str) -> None:
    """Codex keeps it, and asks again. Other providers know no turn of reasoning alone: it is left out."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}]}
    async with behind(emit(adapter, [TextDelta("Hi"), Finish("stop", "stop")]), adapter=adapter) as client:
        answer = await client.post(RESPONSES, json=asked(item, tools=[], stream=False))
    assert answer.status_code == 200
    told = "reasoning_dropped" in answer.headers.get("x-streamfold-warnings", "")
    assert told is (adapter == "chat")
    assert len(sent(client)["messages" if told else "input"]) == (2 if told else 3)


@pytest.mark.parametrize("block", [{"type": "thinking", "thinking": "I look."}, {"type": "redacted_thinking"}])
async def test_thinking_whose_calls_were_taken_out(block: dict[str, Any]) -> None:
    """Claude Code has such turns after it has summarised a conversation. Kimi refuses them: they are left out."""
    turns = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": [block]}]
    body = {"model": "main", "max_tokens": 9, "messages": [*turns, {"role": "user", "content": "On"}]}
    async with behind(HELLO, adapter="kimi") as client:
        answer = await client.post(MESSAGES, json=body)
    assert answer.status_code == 200
    assert "reasoning_dropped" in answer.headers["x-streamfold-warnings"]
    assert [message["content"] for message in sent(client)["messages"]] == ["Go", "On"]


# --- what identifies a client -----------------------------------------------------------------------------------------

NAMED = {
    RESPONSES: ("responses", asked()),
    CHAT: ("chat", {"model": "main", "messages": [{"role": "user", "content": "Hi"}], **IDS}),
    MESSAGES: (
        "anthropic",
        {
            "model": "main",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
            "metadata": {"user_id": "device_1_account_2"},
        },
    ),
}
MEMBERS = {
    RESPONSES: {*IDS},
    CHAT: {*IDS} - {"client_metadata"},
    MESSAGES: {"metadata"},
}


@each_row("forward", [False, True])
@each_row("path", NAMED)
async def test_what_identifies_a_client_stays_at_home(path: str, forward: bool) -> None:
    """Installations, sessions and users are named to no provider, unless that is configured."""
    api, body = NAMED[path]
    answer = Recording("test", HELLO, "chat")
    if api == "responses":
        answer = Recording("test", emit("responses", [TextDelta("Hi")]), api)
    elif api == "anthropic":
        answer = Recording("test", MESSAGE, api)
    async with behind(answer, adapter=api, forward_client_ids=forward) as client:
        assert (await client.post(path, json=body)).status_code == 200
    assert sent(client).keys() & {*IDS, "metadata"} & MEMBERS[path] == (MEMBERS[path] if forward else set())


MESSAGE = b"".join(
    b"event: " + payload["type"].encode() + b"\ndata: " + json.dumps(payload).encode() + b"\n\n"
    for payload in [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
)


@each_row("path", ["", "/input_tokens"])
async def test_a_forced_tool_that_the_provider_cannot_run_is_refused(path: str) -> None:
    """It is an error of the request, also where its tokens are counted."""
    async with behind(HELLO) as client:
        refused = await client.post(f"{RESPONSES}{path}", json=asked(tool_choice={"type": "web_search"}))
    assert refused.status_code == 400
    assert "web_search" in refused.json()["error"]["message"]
