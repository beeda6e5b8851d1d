"""What coding agents need of the gateway to go on as they do in front of their own provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from folding import DONE, fin, text
from gateways import CHAT, MESSAGES, RESPONSES, asking, behind, client_of, serve_command
from streamfold import Provider
from streamfold_gateway import gateway
from tables import each_row

HELLO = text("Hello") + fin("stop") + DONE
GEMINI = "/v1beta/models/main:streamGenerateContent?alt=sse"


def named(*payloads: dict[str, Any]) -> bytes:
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in payloads).encode()


class Body(httpx.AsyncByteStream):
    def __init__(self, data: bytes, *, breaks: bool) -> None:
        self._data, self._breaks = data, breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data
        if self._breaks:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


@asynccontextmanager
async def before(
    name: str, *bodies: bytes, breaks: bool = False, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, list[dict[str, Any]]]]:
    """A client of a gateway before a provider of the catalogue that answers so, and the bodies that it is sent."""
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        body = bodies[min(len(sent), len(bodies)) - 1] if bodies else b""
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200 if bodies else 500, headers=headers, stream=Body(body, breaks=breaks))

    upstream = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    provider = Provider.from_config(name, api_key="x", max_retries=0, http_client=upstream)
    async with gateway({"main": provider}, **options) as app, client_of(app) as client:
        yield client, sent


# --- Claude's thinking ------------------------------------------------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "I read both.", "signature": "c2ln"}


def used(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"n": number}}


def result(number: int) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "A"}]}


@each_row(
    ("turns", "thinks"),
    [
        ([[THOUGHT, used(1)], [used(2)]], True),
        ([[THOUGHT, used(1)], [used(2)], [used(3)]], True),
        ([[used(1)], [THOUGHT, used(2)]], True),
        ([[used(1)], [used(2)]], False),
        ([[{**THOUGHT, "signature": ""}, used(1)], [used(2)]], False),
    ],
)
async def test_thinking_stays_on_in_a_tool_loop(turns: list[Any], thinks: bool) -> None:
    """All of a loop is one turn to Claude, which thinks at its beginning: it is off only where none of it is left."""
    messages: list[Any] = [{"role": "user", "content": "Compare."}]
    for turn in turns:
        messages += [{"role": "assistant", "content": turn}, result(int(turn[-1]["id"][-1]))]
    tools = [{"name": "read", "input_schema": {"type": "object", "properties": {}}}]
    thinking = {"type": "enabled", "budget_tokens": 10000}
    body = {"model": "main", "max_tokens": 32000, "thinking": thinking, "tools": tools, "messages": messages}
    async with before("anthropic:claude-sonnet-4-5") as (client, sent):
        await client.post(MESSAGES, json=body)
    assert sent[0]["thinking"] == (thinking if thinks else {"type": "disabled"})


async def test_a_loop_before_the_last_question_does_not_matter() -> None:
    """What is over has been left out by the API itself: only the loop that ends the conversation counts."""
    messages = [
        {"role": "user", "content": "Compare."},
        {"role": "assistant", "content": [THOUGHT, used(1)]},
        result(1),
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Again."},
        {"role": "assistant", "content": [used(2)]},
        result(2),
    ]
    tools = [{"name": "read", "input_schema": {"type": "object", "properties": {}}}]
    body = {"model": "main", "max_tokens": 9999, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    async with before("anthropic:claude-sonnet-4-5") as (client, sent):
        await client.post(MESSAGES, json={**body, "tools": tools, "messages": messages})
    assert sent[0]["thinking"] == {"type": "disabled"}


# --- an answer that breaks off ----------------------------------------------------------------------------------------


def reasoning_of_openai() -> bytes:
    """A reasoning item that is done, as the Responses API streams it."""
    item = {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "E"}
    part = {"type": "summary_text", "text": "I look."}
    at = {"item_id": "rs", "output_index": 0, "summary_index": 0}
    response = {"id": "r", "object": "response", "status": "in_progress", "output": [], "model": "m"}
    return named(
        {"type": "response.created", "sequence_number": 0, "response": response},
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item},
        {"type": "response.reasoning_summary_part.added", "sequence_number": 2, **at, "part": {**part, "text": ""}},
        {"type": "response.reasoning_summary_text.delta", "sequence_number": 3, **at, "delta": "I look."},
        {"type": "response.reasoning_summary_text.done", "sequence_number": 4, **at, "text": "I look."},
        {"type": "response.reasoning_summary_part.done", "sequence_number": 5, **at, "part": part},
        {
            "type": "response.output_item.done",
            "sequence_number": 6,
            "output_index": 0,
            "item": {**item, "summary": [part]},
        },
    )


MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
REDACTED = named(
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "b3BhcXVl"}},
    {"type": "content_block_stop", "index": 1},
)


@pytest.mark.parametrize(
    ("name", "body"), [("openai-responses:gpt-5", reasoning_of_openai()), ("anthropic:claude-sonnet-4-5", REDACTED)]
)
async def test_a_break_behind_a_finished_thought(name: str, body: bytes) -> None:
    """No block is complete when the error comes, so that Claude Code asks again, as it does at its own provider."""
    asked = {"model": "main", "max_tokens": 9999, "stream": True, "thinking": {"type": "adaptive"}}
    async with before(name, body, breaks=True) as (client, _):
        answer = await client.post(MESSAGES, json={**asked, "messages": [{"role": "user", "content": "Hi"}]})
    events = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
    assert events[-1] == "error"
    assert "content_block_stop" not in events


async def test_a_broken_connection_has_the_words_for_temporary() -> None:
    """Agents read from the message whether to ask again (pi 0.73: "server error", "connection error", 502, ...)."""
    half = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'
    question = {"model": "main", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    gemini = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    for path, body in ((CHAT, question), (MESSAGES, {**question, "max_tokens": 9}), (GEMINI, gemini)):
        async with before("openai:gpt-5-mini", half, breaks=True) as (client, _):
            answer = await client.post(path, json=body)
        last = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")][-1]
        assert last["error"]["message"].endswith("(server error)"), path


async def test_a_failure_of_the_provider_is_temporary_in_any_api() -> None:
    """Where the type of an error is not the provider's, its words say that it may be asked again (opencode 1.18)."""
    half = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'
    said = b'data: {"error":{"message":"I had an error","type":"server_error","code":"server_error"}}\n\n'
    for path, words in ((MESSAGES, "I had an error (server error)"), (CHAT, "I had an error")):
        async with before("openai:gpt-5-mini", half + said) as (client, _):
            answer = await client.post(path, json=asking(path, max_tokens=9, stream=True))
        last = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")][-1]
        assert last["error"]["message"] == words


async def test_an_error_of_geminis_api_comes_by_itself() -> None:
    """Google's client for JavaScript raises it only when nothing else is in the same piece of the body."""
    half = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'
    bodies: list[bytes] = []
    async with before("openai:gpt-5-mini", half, breaks=True) as (client, _):
        app = client._transport.app  # type: ignore[attr-defined]

        async def noting(scope: Any, receive: Any, send: Any) -> None:
            async def note(message: Any) -> None:
                bodies.append(message.get("body", b""))
                await send(message)

            await app(scope, receive, note)

        async with client_of(noting) as watched:
            await watched.post(GEMINI, json={"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
    assert json.loads(bodies[-1])["error"]["code"] == 502
    assert bodies[-2].endswith(b"\r\n\r\n")


@each_row(
    ("path", "turn", "name", "sent_last"),
    [
        (CHAT, {"content": ""}, "kimi:kimi-k2.5", "Hi"),
        (CHAT, {"content": "", "reasoning_content": "Hm."}, "kimi:kimi-k2.5", "Hi"),
        (CHAT, {"content": "Half"}, "anthropic:claude-opus-4-7", "Continue."),
        (CHAT, {"content": "Half"}, "gemini:gemini-3-pro-preview", "Continue."),
        (CHAT, {"content": "Half"}, "openai:gpt-5-mini", "Half"),
        (CHAT, {"content": "Half", "prefix": True}, "anthropic:claude-haiku-4-5", "Half"),
        (CHAT, {"content": "Half", "partial": True}, "anthropic:claude-haiku-4-5", "Half"),
        (GEMINI, {"parts": [{"text": "Hm.", "thought": True}]}, "kimi:kimi-k2.5", "Hi"),
        (GEMINI, {"parts": [{"text": "Half"}]}, "gemini:gemini-3-pro-preview", "Continue."),
        (MESSAGES, {"content": "Half"}, "anthropic:claude-haiku-4-5", "Half"),
    ],
)
async def test_what_stays_of_an_answer_that_broke_off(
    path: str, turn: dict[str, Any], name: str, sent_last: str
) -> None:
    """Agents ask again with what they have of an answer: an empty turn, a thought, half a text."""
    if path == GEMINI:
        body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", **turn}]}
    else:
        body = asking(path, max_tokens=9, stream=True)
        body["messages"].append({"role": "assistant", **turn})
    async with before(name) as (client, sent):
        await client.post(path, json=body)
        last = json.dumps((sent[0].get("messages") or sent[0]["contents"])[-1])
    assert f'"{sent_last}"' in last


async def test_a_prompt_that_is_too_long_has_openais_code() -> None:
    """By the code Codex knows that the conversation has to become shorter, whatever the provider called it."""
    said = b'{"error":{"message":"Your request exceeded model token limit: 262144 (requested: 300000)"}}'
    for path, question in ((CHAT, {"messages": [{"role": "user", "content": "Hi"}]}), (RESPONSES, {"input": "Hi"})):
        async with behind(said, status=400) as client:
            answer = await client.post(path, json={"model": "main", **question})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_spent_account_is_a_quota_failure_to_geminis_clients() -> None:
    """Gemini CLI stops at once where the details say which quota is used up."""
    spent = b'{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}'
    for body, there in ((spent, True), (b'{"error":{"message":"slow down"}}', False)):
        async with behind(body, status=429) as client:
            answer = await client.post(GEMINI, json={"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
        kinds = [detail["@type"].rpartition(".")[2] for detail in answer.json()["error"].get("details", ())]
        assert ("QuotaFailure" in kinds) is there


async def test_hidden_thinking_is_written_in_its_place() -> None:
    """It waits for what comes next, and stands before it."""
    rest = named(
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )
    asked = {"model": "main", "max_tokens": 9999, "stream": True, "thinking": {"type": "adaptive"}}
    async with before("anthropic:claude-sonnet-4-5", REDACTED + rest) as (client, _):
        answer = await client.post(MESSAGES, json={**asked, "messages": [{"role": "user", "content": "Hi"}]})
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    begun = [(one["index"], one["content_block"]["type"]) for one in events if one["type"] == "content_block_start"]
    ended = [one["index"] for one in events if one["type"] == "content_block_stop"]
    assert begun == [(0, "thinking"), (1, "redacted_thinking"), (2, "text")]
    assert ended == [0, 1, 2]


# --- from an API to itself --------------------------------------------------------------------------------------------

OWN = {
    "eager_input_streaming": True,
    "input_examples": [{"p": "a"}],
    "allowed_callers": ["direct", "code_execution_20260120"],
    "defer_loading": True,
}


async def test_members_of_the_messages_api_are_kept_for_itself() -> None:
    """What only this API has of tools and of thinking reaches Anthropic as it was written; others are not sent it."""
    tool = {"name": "read", "input_schema": {"type": "object", "properties": {}}, **OWN}
    body = {"model": "main", "max_tokens": 32000, "tools": [tool], "messages": [{"role": "user", "content": "Hi"}]}
    adaptive = {"type": "adaptive", "display": "summarized"}
    async with before("anthropic:claude-opus-4-7") as (client, sent):
        await client.post(MESSAGES, json={**body, "thinking": adaptive})
    assert sent[0]["tools"] == [tool]
    assert sent[0]["thinking"] == adaptive
    manual = {"type": "enabled", "budget_tokens": 12345}
    async with before("anthropic:claude-sonnet-4-5") as (client, sent):
        await client.post(MESSAGES, json={**body, "thinking": manual})
        await client.post(MESSAGES, json={**body, "thinking": {"type": "disabled"}})
    assert [one["thinking"] for one in sent] == [manual, {"type": "disabled"}]
    async with before("openai:gpt-4o", HELLO) as (client, sent):
        answer = await client.post(MESSAGES, json=body)
    assert {*sent[0]["tools"][0]["function"]} == {"name", "description", "parameters"}
    said = answer.headers["x-streamfold-warnings"]
    assert all(f"tools[].{name}" in said for name in ("input_examples", "allowed_callers", "defer_loading"))
    assert "eager_input_streaming" not in said  # arguments are streamed anyway


async def test_members_of_geminis_api_are_kept_for_itself() -> None:
    """The same for Gemini: how a function answers, and whether it blocks."""
    declared = {"name": "read", "description": "Reads.", "behavior": "NON_BLOCKING", "response": {"type": "STRING"}}
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "tools": [{"functionDeclarations": [declared]}]}
    async with before("gemini:gemini-2.5-pro") as (client, sent):
        await client.post(GEMINI, json=body)
    assert sent[0]["tools"] == [{"functionDeclarations": [declared]}]
    async with before("openai:gpt-4o", HELLO) as (client, sent):
        answer = await client.post(GEMINI.replace("streamG", "g"), json=body)
    assert "behavior" not in json.dumps(sent[0])
    assert "tools[].behavior" in answer.headers["x-streamfold-warnings"]


# --- clients that return no ids of calls ------------------------------------------------------------------------------


def claude_calls(number: int, argument: str) -> bytes:
    """A signed thought, and a call with an id."""
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
    signature = {"type": "signature_delta", "signature": f"c2lnbmVk{number}"}
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {}}
    piece = {"type": "input_json_delta", "partial_json": json.dumps({"p": argument})}
    return named(
        {"type": "message_start", "message": MESSAGE},
        start,
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "I look."}},
        {"type": "content_block_delta", "index": 0, "delta": signature},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": block},
        {"type": "content_block_delta", "index": 1, "delta": piece},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


async def test_members_of_openais_functions_are_kept_for_its_apis() -> None:
    """What nobody knows of a function goes on to the same API. It stops no request to another, whose client is told."""
    function = {"name": "read", "description": "", "parameters": {"type": "object", "properties": {}}}
    own = {"returns": {"type": "string"}, "examples": [1]}
    mark = {"cache_control": {"type": "ephemeral"}}
    chat = {"type": "function", "function": {**function, **own}, **mark, "group": "files"}
    flat = {"type": "function", **function, "strict": False, **own}
    for path, tool, name in ((CHAT, chat, "openai:gpt-4o"), (RESPONSES, flat, "openai-responses:gpt-4o")):
        body = asking(path, tools=[tool])
        async with before(name) as (client, sent):
            await client.post(path, json=body)
        assert sent[0]["tools"] == [tool]
        async with before("anthropic:claude-sonnet-4-5", claude_calls(1, "a")) as (client, sent):
            answer = await client.post(path, json=body)
        assert sent[0]["tools"][0]["name"] == "read"
        assert not own.keys() & sent[0]["tools"][0].keys()
        said = answer.headers["x-streamfold-warnings"]
        assert "tools[].returns and tools[].examples" in said
        assert "cache_control" not in said
    custom = {"type": "custom", "name": "patch"}
    async with before("openai:gpt-4o", HELLO) as (client, sent):
        answer = await client.post(RESPONSES, json=asking(RESPONSES, tools=[flat, custom]))
    assert "tools[].returns and tools[].examples" in answer.headers["x-streamfold-warnings"]
    assert not own.keys() & sent[0]["tools"][0]["function"].keys()


@pytest.mark.parametrize("with_ids", [True, False])
async def test_state_comes_back_without_ids_of_calls(with_ids: bool) -> None:
    """A turn is known by the names and arguments of its calls and by its place, and gets its ids back, too."""
    config = {"maxOutputTokens": 32000, "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 4096}}
    tools = [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": {"type": "object"}}]}]

    async def session(client: httpx.AsyncClient, question: str, turns: int) -> None:
        contents: list[Any] = [{"role": "user", "parts": [{"text": question}]}]
        body = {"contents": contents, "tools": tools, "generationConfig": config}
        for _ in range(turns):
            answer = await client.post(GEMINI, json=body)
            events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
            parts = [part for one in events for part in one["candidates"][0]["content"].get("parts", ())]
            call = next(part["functionCall"] for part in parts if "functionCall" in part)
            ids = {"id": call["id"]} if with_ids else {}
            said = {"functionCall": {"name": call["name"], "args": call["args"], **ids}}
            response = {"functionResponse": {"name": call["name"], "response": {"output": "A"}, **ids}}
            contents += [{"role": "model", "parts": [said]}, {"role": "user", "parts": [response]}]

    answers = [claude_calls(number, "a") for number in range(1, 7)]
    async with before("anthropic:claude-sonnet-4-5", *answers) as (client, sent):
        await session(client, "Look.", 3)
        await session(client, "Look elsewhere.", 3)
    for first, body in ((1, sent[2]), (4, sent[5])):  # each session gets its own turns back
        said = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
        assert [(one[0].get("signature"), one[1]["id"]) for one in said] == [
            (f"c2lnbmVk{number}", f"toolu_{number}") for number in (first, first + 1)
        ]
        results = [message["content"][0]["tool_use_id"] for message in body["messages"][2::2]]
        assert results == [f"toolu_{first}", f"toolu_{first + 1}"]
        assert body["thinking"]["type"] == "enabled"


# --- names, keys, sockets ---------------------------------------------------------------------------------------------


async def test_names_with_a_date_and_patterns() -> None:
    """A model of a day is the model; one alias may stand for all names of a kind. Exact names come first."""
    aliases = {"claude-haiku-4-5": "main", "gpt-*": "main:k2", "gpt-4o": "main"}
    found = {
        "claude-haiku-4-5": "m-1",
        "claude-haiku-4-5-20251001": "m-1",
        "claude-haiku-4-5@20251001": "m-1",
        "gpt-4o": "m-1",
        "gpt-4o-2024-08-06": "m-1",
        "gpt-5.6-sol": "k2",
    }
    async with behind(*[HELLO] * len(found), aliases=aliases) as client:
        for name, model in found.items():
            answer = await client.post(CHAT, json={"model": name, "messages": [{"role": "user", "content": "Hi"}]})
            assert answer.status_code == 200, answer.text
            assert json.loads(client.upstream.requests[-1].content)["model"] == model  # type: ignore[attr-defined]
        for name in ("claude-haiku-4-5-2025", "claude-opus-4-5-20251101", "main-thing"):
            answer = await client.post(CHAT, json={"model": name, "messages": [{"role": "user", "content": "Hi"}]})
            assert answer.status_code == 404
        listed = (await client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["main", "claude-haiku-4-5", "gpt-4o"]


async def test_a_key_may_ask_for_the_model_of_a_day() -> None:
    """What a key may ask for by its name, it may ask for by its name with a date; and nothing more."""
    keys = {"alice": {"key": "a" * 20, "models": ["claude-haiku-4-5"]}}
    aliases = {"claude-haiku-4-5": "main", "claude-opus-4-5": "main"}
    async with behind(HELLO, keys=keys, aliases=aliases) as client:
        statuses = []
        for name in ("claude-haiku-4-5-20251001", "claude-opus-4-5-20251101"):
            body = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
            headers = {"authorization": f"Bearer {'a' * 20}"}
            statuses.append((await client.post(CHAT, json=body, headers=headers)).status_code)
    assert statuses == [200, 404]


async def test_errors_that_no_retry_mends_say_so() -> None:
    """A wrong key, and a failure that stays one, are not asked again for minutes; a busy server is."""
    question = {"model": "main", "messages": [{"role": "user", "content": "Hi"}]}
    async with behind(HELLO, keys=["one"]) as client:
        answer = await client.post(CHAT, json=question, headers={"authorization": "Bearer two"})
        assert (answer.status_code, answer.headers["x-should-retry"]) == (401, "false")
    spent = b'{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}'
    for status, body, again in [
        (401, b"{}", False),
        (429, spent, False),
        (429, b"{}", True),
        (500, b"{}", True),
        (529, b"{}", True),
    ]:
        async with behind(body, status=status) as client:
            answer = await client.post(CHAT, json=question)
        assert answer.headers.get("x-should-retry") == (None if again else "false"), (status, body)


async def test_a_websocket_is_refused_at_once() -> None:
    """Codex goes on with plain requests after a 426; from a server that opens sockets it gets the same."""
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "x"}
    async with behind(HELLO) as client:
        answer = await client.get(RESPONSES, headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (426, "invalid_request_error")

    app, sent = gateway({"main": {"base_url": "http://u/v1", "model": "m"}}), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": RESPONSES, "headers": [], "extensions": {"websocket.http.response": {}}}
    await app(scope, receive, send)
    await app({**scope, "extensions": {}}, receive, send)
    assert [(one["type"], one.get("status")) for one in sent] == [
        ("websocket.http.response.start", 426),
        ("websocket.http.response.body", None),
        ("websocket.close", None),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_served_gateway_is_quiet_about_websockets(tmp_path: Path) -> None:
    """A client that asks for one gets a 426 from `streamfold serve`, and the log has no warning."""
    file = tmp_path / "streamfold.toml"
    file.write_text('[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
    headers = {"connection": "Upgrade", "upgrade": "websocket"}
    async with serve_command(file) as (address, said, _), httpx.AsyncClient(base_url=address) as client:
        assert (await client.get(RESPONSES, headers=headers)).status_code == 426
    assert b"WARNING" not in said
