"""The Messages API of the gateway, in this process: what its clients get, from a provider that speaks another API."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, call, entry, event, fin, text
from gateways import MESSAGES, behind, client_of, sent
from mirror import payloads, read
from sdks import anthropic
from streamfold import APIStatusError, StreamChunk
from streamfold.errors import ErrorInfo
from streamfold_gateway import gateway
from streamfold_gateway.apis.anthropic import prompt_too_long
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}
HELLO = text("Hel") + text("lo") + event({"choices": [], "usage": USAGE}) + fin("stop") + DONE
THINKS = event({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]})
CALL = call(entry(0, "functions.f:0", "f", '{"a":1}'))
ADAPTIVE = {"thinking": {"type": "adaptive"}}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}


def asking(*messages: Any, **members: Any) -> dict[str, Any]:
    """The body of a request."""
    return {"model": "main", "max_tokens": 100, "messages": [*(messages or (user("Hi"),))], **members}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


async def ask(client: httpx.AsyncClient, *messages: Any, **members: Any) -> httpx.Response:
    return await client.post(MESSAGES, json=asking(*messages, **members), params={"beta": "true"})


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_a_stream() -> None:
    """It has the events of the API, each with its name, under the client's name of the model, with all usage."""
    async with behind(HELLO) as client:
        answer = await ask(client, stream=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert [line[7:] for line in answer.text.split("\n") if line.startswith("event: ")] == [
        payload["type"] for payload in payloads(answer.content)
    ] == ["message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
          "message_delta", "message_stop"]  # fmt: skip
    start, end = payloads(answer.content)[0]["message"], payloads(answer.content)[-2]
    assert (start["model"], start["role"], start["content"]) == ("main", "assistant", [])
    assert start["id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert end["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    numbers = {"input_tokens": 2, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0}
    assert end["usage"] == numbers
    assert read("anthropic", answer.content).text == "Hello"


async def test_an_answer_that_is_not_streamed() -> None:
    """It is one message that fits Anthropic's types and says what the stream says."""
    body = THINKS + text("Hi") + CALL + fin("tool_calls") + DONE
    async with behind(body, body) as client:
        whole = await ask(client, tools=[TOOL], **ADAPTIVE)
        streamed = await ask(client, tools=[TOOL], stream=True, **ADAPTIVE)
    message = anthropic.types.Message.model_validate(whole.json())
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.stop_reason == "tool_use"
    one, other = read("anthropic", whole.content), read("anthropic", streamed.content)
    assert (one.text, one.reasoning, one.tool_calls) == (other.text, other.reasoning, other.tool_calls)


@each_row("stream", [True, False])
@each_row(
    ("members", "options", "told"),
    [
        ({}, {}, False),
        ({"thinking": {"type": "disabled"}}, {}, False),
        (ADAPTIVE, {}, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {}, True),
        ({}, {"unasked_thinking": True}, True),
    ],
)
async def test_thinking_goes_to_clients_that_asked_for_it(
    members: dict[str, Any], options: dict[str, Any], told: bool, stream: bool
) -> None:
    """Others may not expect such blocks; `unasked_thinking` sends them to all."""
    async with behind(THINKS + text("Hi") + fin("stop") + DONE, **options) as client:
        answer = await ask(client, stream=stream, **members)
    reply = read("anthropic", answer.content)
    assert (reply.text, reply.reasoning) == ("Hi", "Hm." if told else "")


HOSTED: list[dict[str, Any]] = [
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    {**TOOL, "input_examples": [{"a": 1}], "cache_control": {"type": "ephemeral", "ttl": "1h"}},
]
ONLY_THERE: list[dict[str, Any]] = [
    {"tools": HOSTED},
    {"tools": HOSTED[:1], "tool_choice": {"type": "tool", "name": "web_search"}},
    {"mcp_servers": [{"type": "url", "url": "https://mcp.example", "name": "m"}]},
    {"container": {"skills": [{"type": "anthropic", "skill_id": "pdf", "version": "latest"}]}},
    {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f-1"}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f-1"}}]}]},
]


@each_row("members", ONLY_THERE)
async def test_what_only_anthropic_runs(members: dict[str, Any]) -> None:
    """A provider that speaks the API itself gets it as it was written; before any other it is refused by its path."""
    body = {**asking(), **members}
    error = json.dumps({"type": "error", "error": {"type": "api_error", "message": "no"}}).encode()
    async with behind(error, status=500, adapter="anthropic") as client:
        await client.post(MESSAGES, json=body)
        got = sent(client)
    assert {name: got[name] for name in members} == members
    async with behind(HELLO) as client:
        answer = await client.post(MESSAGES, json=body)
    assert answer.status_code == 400
    path = next(iter(members)) if "messages" not in members else "messages[0].content[0]"
    assert answer.json()["error"]["message"].startswith(path)


async def test_documents_stay_as_they_are() -> None:
    """What says how a document is to be cited reaches a provider that can cite; another one gets the document."""
    document = {
        "type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Rivers run."},
        "title": "Rivers", "context": "a note", "citations": {"enabled": True}, "cache_control": {"type": "ephemeral"},
    }  # fmt: skip
    asked = user([document, {"type": "text", "text": "What do they do?"}])
    error = json.dumps({"type": "error", "error": {"type": "api_error", "message": "no"}}).encode()
    async with behind(error, status=500, adapter="anthropic") as client:
        await ask(client, asked)
        assert sent(client)["messages"] == [asked]
    async with behind(HELLO) as client:
        await ask(client, asked)
        assert "Rivers run." in json.dumps(sent(client)["messages"])


async def test_marks_for_the_cache_keep_their_places() -> None:
    """On instructions, tools, results and turns of either side, as the client put them, in every conversation."""
    mark = {"cache_control": {"type": "ephemeral"}}
    call = {"type": "tool_use", "id": "t-1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t-1", "content": "ok", **mark}
    conversation = [user("Hi"), {"role": "assistant", "content": [call]}, user([result])]
    system = [{"type": "text", "text": "Be brief.", **mark}]
    error = json.dumps({"type": "error", "error": {"type": "api_error", "message": "no"}}).encode()
    async with behind(error, error, status=500, adapter="anthropic") as client:
        await ask(client, *conversation, system=system, tools=[{**TOOL, **mark}])
        first = sent(client)
        await ask(client, user("Another conversation."), system=[{**system[0], "text": "Be long."}])
    assert first["system"] == system
    assert first["tools"][0]["cache_control"] == mark["cache_control"]
    assert first["messages"][2]["content"] == [result]


async def test_ids_of_calls_come_back_as_the_provider_gave_them() -> None:
    """The API allows few characters in them: others travel spelled with those, and the provider gets its own."""
    body = CALL + fin("tool_calls") + DONE
    async with behind(body, HELLO) as client:
        first = (await ask(client, tools=[TOOL])).json()
        block = first["content"][0]
        assert block["id"].replace("_", "").isalnum()
        result = {"type": "tool_result", "tool_use_id": block["id"], "content": "7"}
        await ask(client, user("Hi"), {"role": "assistant", "content": first["content"]}, user([result]), tools=[TOOL])
        assistant, tool = sent(client, 1)["messages"][1:]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == "functions.f:0"


async def test_a_turn_that_comes_back_says_no_more_than_it_does() -> None:
    """Blocks of text, calls and unsigned thinking are the turn itself: nothing of them is lost, and nothing is sent."""
    turn = [
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "7", "is_error": True}
    conversation = [user("Hi"), {"role": "assistant", "content": turn}, user([result, {"type": "text", "text": "Go"}])]
    for adapter in ("chat", "kimi", "responses", "gemini"):
        body = json.dumps({"error": {"message": "no"}}).encode()
        async with behind(body, adapter=adapter, status=400) as client:
            await ask(client, *conversation, tools=[TOOL], **ADAPTIVE)
            assert "blocks" not in client.upstream.requests[0].content.decode()  # type: ignore[attr-defined]
    async with behind(HELLO, quirks={"reasoning_field": "reasoning_content"}) as client:
        answer = await ask(client, *conversation, tools=[TOOL], **ADAPTIVE)
        assert "x-streamfold-warnings" not in answer.headers
        assistant, tool, last = sent(client)["messages"][1:]
    assert (assistant["reasoning_content"], assistant["content"]) == ("Hm.", "Hi")
    assert (tool["role"], last) == ("tool", user("Go"))


# --- errors -----------------------------------------------------------------------------------------------------------


@each_row(
    ("status", "error", "expected", "kind"),
    [
        (400, {"message": "no"}, 400, "invalid_request_error"),
        (401, {"message": "no", "type": "authentication_error"}, 502, "api_error"),
        (404, {"message": "no", "type": "invalid_request_error"}, 404, "not_found_error"),
        (429, {"message": "no"}, 429, "rate_limit_error"),
        (429, {"message": "no", "code": "insufficient_quota"}, 402, "billing_error"),
        (500, {"message": "no"}, 500, "api_error"),
        (503, {"message": "no"}, 503, "overloaded_error"),
        (529, {"message": "no", "type": "overloaded_error"}, 529, "overloaded_error"),
    ],
)
async def test_errors_of_the_provider(status: int, error: dict[str, str], expected: int, kind: str) -> None:
    """They have this API's shape and types, by which clients decide to retry, and the message of the provider."""
    async with behind(json.dumps({"error": error}).encode(), status=status, name="kimi-main") as client:
        answer = await ask(client, stream=True)
    said = answer.json()
    assert (answer.status_code, said["type"], said["error"]["type"]) == (expected, "error", kind)
    assert said["error"]["message"] == "no"
    assert said["request_id"] == answer.headers["request-id"]


async def test_errors_of_the_gateway() -> None:
    """An unknown model, a wrong request, an unknown path, and a gateway that is busy."""
    async with behind(HELLO, keys=["one"]) as client:
        cases = {
            401: await ask(client),
            404: await client.post(MESSAGES, json=asking(model="nope"), headers={"x-api-key": "one"}),
            400: await client.post(MESSAGES, json={"model": "main"}, headers={"x-api-key": "one"}),
            405: await client.get(MESSAGES),
        }
    kinds = {401: "authentication_error", 404: "not_found_error", 400: "invalid_request_error"}
    for status, answer in cases.items():
        assert (answer.status_code, answer.json()["type"]) == (status, "error")
        assert answer.json()["error"]["type"] == kinds.get(status, "invalid_request_error")
    assert "max_tokens" in cases[400].json()["error"]["message"]
    async with behind(HELLO, max_requests=1) as client:
        client._transport.app._handler.capacity.running = 1  # type: ignore[attr-defined]
        answer = await ask(client)
    assert (answer.status_code, answer.json()["error"]["type"]) == (529, "overloaded_error")


@pytest.mark.parametrize("stream", [True, False])
async def test_broken_arguments_are_an_error(stream: bool) -> None:
    """Clients of this API have an object for the arguments, and could not tell that it is not the model's."""
    async with behind(text("Hi") + call(entry(0, "a", "f", '{"a":')) + fin("tool_calls") + DONE) as client:
        answer = await ask(client, stream=stream)
    if stream:
        assert payloads(answer.content)[-1]["error"]["message"] == "the arguments of f aren't a complete JSON object"
    else:
        assert (answer.status_code, answer.json()["type"]) == (502, "error")


# How each server says it is in `values/test_meanings.py`.
TOO_LONG = {
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.": 2,
    "prompt is too long: 130000 tokens > 128000 maximum": 2,
    "Your input exceeds the context window of this model. Please adjust your input and try again.": 0,
    "Range of input length should be [1, 128000]": 1,
}


@each_row("message", TOO_LONG)
async def test_a_prompt_that_is_too_long(message: str) -> None:
    """In whatever words a server says it, the client reads those on which it compacts, with the numbers if any."""
    async with behind(json.dumps({"error": {"message": message}}).encode(), status=400) as client:
        answer = await ask(client, stream=True)
    said = answer.json()["error"]
    assert (answer.status_code, said["type"]) == (400, "invalid_request_error")
    if TOO_LONG[message] == 2:
        assert said["message"] == "prompt is too long: 130000 tokens > 128000 maximum"
    else:
        assert said["message"] == f"prompt is too long: {message}"


def test_a_code_says_that_a_prompt_is_too_long() -> None:
    """Where the message says it in words that nobody knows; other errors stay what they are."""
    assert prompt_too_long(ErrorInfo("Zu lang", None, "context_length_exceeded")) == "prompt is too long: Zu lang"
    assert prompt_too_long(ErrorInfo("max_tokens is too large: 5. Allowed is 4.", "invalid_request_error")) is None


# --- requests ---------------------------------------------------------------------------------------------------------


async def test_what_only_this_api_has_is_dropped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It is not sent to another provider; header and log say so once, and name it."""
    only = {
        "context_management": {"edits": []}, "metadata": {"user_id": "u"}, "top_k": 5, "container": "c",
        "service_tier": "auto", "betas": ["b"], "cache_control": {"type": "ephemeral"},
    }  # fmt: skip
    with caplog.at_level(logging.INFO, "streamfold.gateway"):
        async with behind(HELLO, forward_client_ids=True) as client:
            answer = await ask(client, **only)
            assert not only.keys() & sent(client).keys()
    warned = answer.headers["x-streamfold-warnings"]
    assert warned.count("option_dropped") == 1
    assert all(name in warned for name in only)
    assert sum("option_dropped" in record.getMessage() for record in caplog.records) == 1


async def test_the_system_message_is_one() -> None:
    """Its blocks are joined, without the line by which Claude Code is billed, which would spoil the prompt's cache."""
    billing = "x-anthropic-billing-header: cc_version=1; cc_entrypoint=cli;"
    blocks = [{"type": "text", "text": text} for text in (billing, "You help.", "Be brief.")]
    async with behind(HELLO) as client:
        await ask(client, user("Hi"), {"role": "system", "content": "Late."}, system=blocks)
        assert sent(client)["messages"] == [
            {"role": "system", "content": "You help.\n\nBe brief."},
            user("Hi"),
            {"role": "system", "content": "Late."},
        ]


@each_row(
    ("members", "named"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ({"mcp_servers": [{"type": "url", "url": "https://x", "name": "m"}]}, "mcp_servers"),
        ({"messages": [user([{"type": "image", "source": {"type": "file", "file_id": "f"}}])]}, "content[0].source"),
        ({"messages": [user([{"type": "text"}])]}, "messages[0].content[0]"),
        ({"max_tokens": None}, "max_tokens"),
    ],
)
async def test_what_can_not_be_done_is_refused(members: dict[str, Any], named: str) -> None:
    """With the path to it: left out, it would change what the request means."""
    async with behind(HELLO) as client:
        answer = await client.post(MESSAGES, json={**asking(), **members})
        assert not client.upstream.requests  # type: ignore[attr-defined]
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert named in answer.json()["error"]["message"]


async def test_a_provider_of_the_same_api_gets_what_only_it_understands() -> None:
    """Its members, the features named in the header, the blocks of its own turns, and a mark for the cache."""
    turn = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "Hello"}]
    marked = [{"type": "text", "text": "Go", "cache_control": {"type": "ephemeral"}}]
    conversation = [user("Hi"), {"role": "assistant", "content": turn}, user(marked)]
    body = json.dumps({"type": "error", "error": {"type": "api_error", "message": "no"}}).encode()
    async with behind(body, status=500, adapter="anthropic") as client:
        request = asking(*conversation, context_management={"edits": []}, **ADAPTIVE)
        await client.post(MESSAGES, json=request, headers={"anthropic-beta": "context-management-2025-06-27,b"})
        got, headers = sent(client), client.upstream.requests[0].headers  # type: ignore[attr-defined]
    assert got["context_management"] == {"edits": []}
    assert headers["anthropic-beta"] == "context-management-2025-06-27,b"
    assert "betas" not in got
    assert got["messages"][1]["content"] == turn
    assert got["messages"][2]["content"] == marked
    assert "cache_control" not in got
    assert got["thinking"]["type"] in ("adaptive", "enabled")


# --- keys, silence, other paths ---------------------------------------------------------------------------------------


@each_row(
    ("headers", "status"),
    [
        ({"x-api-key": "one"}, 200),
        ({"authorization": "Bearer one"}, 200),
        ({"x-api-key": "one", "authorization": "Bearer of-somebody-else"}, 200),
        ({"x-api-key": "of-somebody-else", "authorization": "Bearer one"}, 200),
        ({"x-api-key": "two"}, 401),
        ({"x-api-key": ""}, 401),
        ({}, 401),
    ],
)
async def test_a_key_in_either_header(headers: dict[str, str], status: int) -> None:
    """Clients of this API send `x-api-key`, a bearer token, or both."""
    async with behind(HELLO, keys=["one"]) as client:
        answer = await client.post(MESSAGES, json=asking(), headers=headers)
    assert answer.status_code == status
    if status == 401:
        assert answer.json()["error"]["type"] == "authentication_error"


async def test_a_silent_stream_gets_pings() -> None:
    """They are events here, which clients know, before the message starts and later."""

    class Slow:
        name = "slow"

        async def aclose(self) -> None: ...

        def chat_stream(self, *_: Any, **__: Any) -> Any:
            return self

        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def __aiter__(self) -> Any:
            await anyio.sleep(0.2)
            raise APIStatusError("too late", status_code=500)
            yield StreamChunk()

    async with client_of(gateway({"main": Slow()}, keepalive=0.01)) as client:
        answer = await ask(client, stream=True)
    kinds = [payload["type"] for payload in payloads(answer.content)]
    assert (kinds[0], kinds[-1]) == ("ping", "error")
    assert answer.content.startswith(b'event: ping\ndata: {"type":"ping"}\n\n')


async def test_the_root_answers() -> None:
    """Claude Code asks for it first, to see whether a server is there."""
    async with behind(HELLO, keys=["one"]) as client:
        assert (await client.head("/")).status_code == (await client.get("/")).status_code == 200


async def test_models_in_the_shape_of_this_api() -> None:
    """A client that names a version of this API gets its list; any other gets OpenAI's."""
    async with behind(HELLO, aliases={"claude-small": "main"}) as client:
        headers = {"anthropic-version": "2023-06-01"}
        listing = (await client.get("/v1/models", headers=headers)).json()
        one = await client.get("/v1/models/claude-small", headers=headers)
        none = await client.get("/v1/models/nope", headers=headers)
        other = (await client.get("/v1/models")).json()
    assert [model["id"] for model in listing["data"]] == ["main", "claude-small"]
    assert (listing["has_more"], listing["first_id"], listing["last_id"]) == (False, "main", "claude-small")
    assert one.json() == listing["data"][1]
    assert {*one.json()} == {"type", "id", "display_name", "created_at"}
    assert none.json()["error"]["type"] == "not_found_error"
    assert other["object"] == "list"


async def test_tokens_are_estimated_without_asking_a_model() -> None:
    """The estimate counts texts, calls, results, images and tools, grows with them, and is marked as one."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA" * 9999}}
    bodies = [
        asking(user("a" * 400)),
        asking(user("a" * 400), tools=[TOOL]),
        asking(user("a" * 400), tools=[TOOL], system="b" * 400),
        asking(user([{"type": "text", "text": "a" * 400}, picture]), tools=[TOOL], system="b" * 400),
    ]
    counts = []
    async with behind(HELLO) as client:
        for body in bodies:
            del body["max_tokens"]
            answer = await client.post(f"{MESSAGES}/count_tokens", json=body)
            assert "estimated" in answer.headers["x-streamfold-warnings"]
            counts.append(answer.json()["input_tokens"])
        refused = await client.post(f"{MESSAGES}/count_tokens", json=asking(tools=[{"type": "bash_20250124"}]))
        assert not client.upstream.requests  # type: ignore[attr-defined]
    assert counts == sorted(counts)
    assert 100 <= counts[0] <= 110
    assert counts[2] - counts[1] >= 100
    assert counts[3] < 3000
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("adapter", "reply", "model", "path"),
    [
        ("anthropic", {"input_tokens": 57}, "claude-sonnet-5", "/v1/messages/count_tokens"),
        ("gemini", {"totalTokens": 57}, "gemini-3-flash-preview", "/v1/models/gemini-3-flash-preview:countTokens"),
    ],
)
async def test_a_provider_that_counts_tokens(adapter: str, reply: Any, model: str, path: str) -> None:
    """Its own count is the answer, and nothing says that it is an estimate."""
    async with behind(json.dumps(reply).encode(), adapter=adapter, allow_models=["*"]) as client:
        answer = await client.post(f"{MESSAGES}/count_tokens", json=asking(tools=[TOOL], model=f"main:{model}"))
        [request] = client.upstream.requests  # type: ignore[attr-defined]
    assert answer.json() == {"input_tokens": 57}
    assert "x-streamfold-warnings" not in answer.headers
    assert request.url.path == path
    assert b"Hi" in request.content
    assert b'"f"' in request.content


@each_row("status", [404, 429, 500, 401])
async def test_a_provider_that_fails_to_count(status: int) -> None:
    """Some servers of the Messages API have no such path: the estimate is better than an error, and says what it is."""
    async with behind(b'{"error": {"message": "no"}}', adapter="anthropic", status=status) as client:
        answer = await client.post(f"{MESSAGES}/count_tokens", json=asking(user("a" * 400)))
    assert 100 <= answer.json()["input_tokens"] <= 110
    assert re.search(r"estimated: the provider could not count \(\w+Error\)", answer.headers["x-streamfold-warnings"])


async def test_a_prompt_that_the_provider_refuses_to_count() -> None:
    """That is about the request, so the client gets it."""
    refusal = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "messages.0: too odd"}}'
    async with behind(refusal, adapter="anthropic", status=400) as client:
        answer = await client.post(f"{MESSAGES}/count_tokens", json=asking())
    assert answer.status_code == 400
    assert "too odd" in answer.json()["error"]["message"]
