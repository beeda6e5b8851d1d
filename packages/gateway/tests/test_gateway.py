"""The gateway in this process: what goes in on either API, what is asked of the provider, and what comes out."""

from __future__ import annotations

import json
import logging
import sys
from hmac import compare_digest
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from typer.testing import CliRunner

from folding import DONE, call, chunk, entry, event, fin, text
from gateways import CHAT, PATHS, RESPONSES, asking, behind, client_of, sent
from mirror import APIS, check_open_responses, check_response_events, comments, payloads, read
from sdks import openai
from streamfold import ConfigError, Fallback, NotConfiguredError, Provider
from streamfold.cli.app import app as cli
from streamfold.config import config_problems, read_config
from streamfold.net import event_loop
from streamfold.recording import Recording, ReplayTransport
from streamfold.testing import ScriptedProvider
from streamfold_gateway import create_app, gateway
from streamfold_gateway.config import GatewayOptions, GatewaySettings
from streamfold_gateway.factory import settings
from streamfold_gateway.models import ModelRoute
from streamfold_gateway.server import WorkerFactory
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

FOLDER = Path(__file__).parents[3] / "fixtures"
CALLS = Recording.load(FOLDER / "kimi/parallel_calls")
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
HELLO = text("Hel") + text("lo") + event({"choices": [], "usage": USAGE}) + fin("stop") + DONE
BOTH = pytest.mark.parametrize("api", APIS)


async def ask(client: httpx.AsyncClient, api: str, **members: Any) -> httpx.Response:
    return await client.post(PATHS[api], json=asking(PATHS[api], **members))


# --- answers ----------------------------------------------------------------------------------------------------------


@BOTH
async def test_a_stream(api: str) -> None:
    """Text comes as it came; the head says that nobody is to buffer it."""
    async with behind(HELLO) as client:
        answer = await ask(client, api, stream=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "no-cache" in answer.headers["cache-control"]
    assert "content-encoding" not in answer.headers
    reply = read(api, answer.content)
    assert (reply.text, reply.finish_reason, reply.model) == ("Hello", "stop", "main")
    assert reply.id == answer.headers["x-request-id"]
    if api == "responses":
        assert check_response_events(answer.content)["usage"]["total_tokens"] == 3
        check_open_responses(answer.content)
    else:
        assert not any("usage" in payload for payload in payloads(answer.content))


@BOTH
@each_row(("body", "word"), [(text("Hi"), "stop"), (call(entry(0, "a", "f", "{}")), "tool_calls")])
async def test_a_finish_reason_that_is_missing(body: bytes, word: str, api: str) -> None:
    """An answer that was declared done without one gets one, for clients that want it; a comment says so."""
    async with behind(body + DONE, body + DONE) as client:
        streamed = await ask(client, api, stream=True)
        whole = await ask(client, api)
    assert [read(api, answer.content).finish_reason for answer in (streamed, whole)] == [word, word]
    assert any("missing_finish_reason" in comment for comment in comments(streamed.content))
    assert "missing_finish_reason" in whole.headers["x-streamfold-warnings"]


async def test_usage_of_a_stream() -> None:
    """It comes where it was asked for."""
    async with behind(HELLO) as client:
        answer = await ask(client, "chat", stream=True, stream_options={"include_usage": True})
    assert payloads(answer.content)[-1]["usage"] == USAGE


@BOTH
async def test_an_answer_that_is_not_streamed(api: str) -> None:
    """It is one JSON body that says what the stream says, and fits OpenAI's types."""
    async with behind(CALLS, CALLS) as client:
        whole = await ask(client, api)
        streamed = await ask(client, api, stream=True)
    assert whole.headers["content-type"] == "application/json"
    model: Any = openai.types.chat.ChatCompletion if api == "chat" else openai.types.responses.Response
    model.model_validate(whole.json())
    one, other = read(api, whole.content), read(api, streamed.content)
    assert one.tool_calls == other.tool_calls
    assert [made.id for made in one.tool_calls] == [made["id"] for made in CALLS.expect["calls"]]
    assert (one.text, one.reasoning, one.finish_reason) == (other.text, other.reasoning, other.finish_reason)


async def test_what_was_changed_of_a_request_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A warning about an option has its detail there, which quotes nothing of the conversation."""
    body = {"model": "main", "messages": [{"role": "user", "content": "secret"}], "temperature": 0.3}
    app = gateway({"main": ScriptedProvider("Hi.", provider="openai:gpt-5-mini")})
    with caplog.at_level(logging.WARNING, "streamfold.gateway"):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    assert (
        "main: warnings: option_dropped (gpt-5-mini doesn't support sampling options: temperature not sent)"
        in caplog.text
    )
    assert "secret" not in caplog.text


@BOTH
async def test_what_was_mended_is_said(api: str, caplog: pytest.LogCaptureFixture) -> None:
    """In a comment of a stream and in a header of any other answer; the log quotes no answer."""
    body = call(entry(0, None, "f", '{}{"x":1}')) + fin("stop") + DONE
    with caplog.at_level(logging.WARNING, "streamfold.gateway"):
        async with behind(body, body) as client:
            streamed, whole = await ask(client, api, stream=True), await ask(client, api)
    told = comments(streamed.content)
    assert [line.split(":")[0] for line in told] == [
        "streamfold warning missing_id",
        "streamfold warning repaired_arguments",
    ]
    assert whole.headers["x-streamfold-warnings"].startswith("missing_id: f had no id; repaired_arguments: ")
    assert "main: warnings: missing_id, repaired_arguments" in caplog.text
    assert "came without" not in caplog.text
    for answer in (streamed, whole):
        assert read(api, answer.content).tool_calls[0].arguments == {"x": 1}
    async with behind(HELLO) as client:
        assert "x-streamfold-warnings" not in (await ask(client, api)).headers


@BOTH
async def test_markup_becomes_calls(api: str) -> None:
    """What the provider's profile says of its dialect holds for clients too."""
    marked = text('<think>Hm.</think><tool_call>{"name":"f","arguments":{"x":1}}</tool_call>') + fin("stop") + DONE
    tools: list[Any] = [{"type": "function", "name": "f"}]
    tools = tools if api == "responses" else [{"type": "function", "function": {"name": "f"}}]
    async with behind(marked, marked, dialect="hermes") as client:
        reply = read(api, (await ask(client, api, stream=True, tools=tools)).content)
        none = read(api, (await ask(client, api, stream=True, tools=tools, tool_choice="none")).content)
    assert (reply.reasoning, reply.text, reply.tool_calls[0].arguments) == ("Hm.", "", {"x": 1})
    assert (none.reasoning, none.tool_calls, none.finish_reason) == ("Hm.", [], "stop")


async def test_options_of_one_api_only() -> None:
    """What only the Responses API has does not go to others; where it was a wish, that is said."""
    members = {"store": False, "include": [], "truncation": "disabled", "metadata": {"a": "b"}}
    wishes = {
        "reasoning": {"effort": "low", "summary": "auto", "context": "all_turns"},
        "text": {"verbosity": "low"},
        "include": ["reasoning.encrypted_content"],
        "max_tool_calls": 3,
    }
    async with behind(HELLO, HELLO) as client:
        quiet = await ask(client, "responses", **members)
        told = await ask(client, "responses", **{**members, **wishes})
    asked = sent(client, 1)
    assert not asked.keys() & {"store", "include", "truncation", "reasoning", "text", "max_tool_calls"}
    assert (asked["metadata"], asked["verbosity"], asked["reasoning_effort"]) == ({"a": "b"}, "low", "low")
    assert "x-streamfold-warnings" not in quiet.headers
    assert told.headers["x-streamfold-warnings"].startswith(
        "option_dropped: reasoning and max_tool_calls: only the Responses API supports this"
    )


async def test_warnings_that_no_header_can_carry() -> None:
    """What is not printable is replaced, and a long list is cut."""
    odd = "f\u4e2d\n\x00\x7f" + "x" * 900
    body = b"".join(call(entry(at, None, f"{odd}{at}", "{}")) for at in range(4)) + fin("stop") + DONE
    async with behind(body) as client:
        told = (await ask(client, "chat")).headers["x-streamfold-warnings"]
    assert told.startswith("missing_id: f? ??xxx")
    assert len(told) <= 2000


# --- models -----------------------------------------------------------------------------------------------------------


async def test_names_of_models() -> None:
    """A provider's name, another model of it, and an alias; anything else is 404 with what there is."""
    async with behind(HELLO, HELLO, HELLO, aliases={"gpt-4o": "main:k2", "chat": "main"}) as client:
        for name in ("main", "main:org/other:free", "gpt-4o"):
            answer = await ask(client, "chat", model=name)
            assert answer.json()["model"] == name
        models = [sent(client, at)["model"] for at in range(3)]
        assert models == ["m-1", "org/other:free", "k2"]
        listed = (await client.get("/v1/models")).json()
        assert [model["id"] for model in listed["data"]] == ["main", "gpt-4o", "chat"]
        assert (await client.get("/v1/models/main:any")).json()["id"] == "main:any"
        unknown = await ask(client, "chat", model="mian")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
        assert "unknown model 'mian' (did you mean 'main'?). Allowed: main, gpt-4o, chat" in unknown.text
        assert (await client.get("/v1/models/x")).status_code == 404


def test_providers_from_anywhere(tmp_path: Path) -> None:
    """By name of the catalogue, as a mapping, as one provider, or all of the file."""
    file = tmp_path / "streamfold.toml"
    file.write_text('[providers.mine]\nbase_url = "http://localhost/v1"\n[providers.other]\nprofile = "kimi"\n')
    assert gateway(config=file).models.names == ["mine", "other"]
    assert gateway(
        {"a": "kimi:kimi-k2.6", "b": {"base_url": "http://x/v1"}, "c": "mine"}, config=file
    ).models.names == [
        "a",
        "b",
        "c",
    ]
    assert gateway(Provider.from_config("ollama:qwen3")).models.names == ["ollama"]


@each_row(
    ("arguments", "message"),
    [
        ({}, "no provider to serve: add one to"),
        ({"providers": {}}, "no provider to serve: the mapping is empty"),
        ({"providers": {"a": 5}}, "gateway() needs a model, not int"),
        ({"providers": {"a": "kimmi"}}, "unknown provider 'kimmi'"),
        (
            {"providers": {"a": "kimi"}, "aliases": {"x": "b"}},
            "aliases: 'x' stands for 'b', which is not",
        ),
        ({"providers": {"a": "kimi"}, "keys": "secret"}, "keys must be a list of non-empty strings"),
        ({"providers": {"a": "kimi"}, "keys": [" "]}, "keys must be a list of non-empty strings"),
    ],
)
def test_nothing_to_serve(arguments: dict[str, Any], message: str) -> None:
    """What can't be served is told before anything is."""
    with pytest.raises(ConfigError) as caught:
        gateway(**arguments)
    assert str(caught.value).startswith(message)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@BOTH
@each_row(
    ("status", "body", "expected", "headers"),
    [
        (429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, 429, {"retry-after": "7"}),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, 429, {}),
        (400, {"error": {"message": "bad", "type": "invalid_request_error"}}, 400, {}),
        (401, {"error": {"message": "wrong key", "code": "invalid_api_key"}}, 502, {}),
        (403, {"error": {"message": "no access"}}, 502, {}),
        (404, {"error": {"message": "no such model"}}, 404, {}),
        (500, {"error": {"message": "oops"}}, 500, {}),
        (503, {"detail": "busy"}, 503, {}),
        (302, {}, 502, {"location": "http://elsewhere"}),
    ],
)
async def test_a_refusal_of_the_provider(api: str, status: int, body: Any, expected: int, headers: Any) -> None:
    """Before the first byte it is the provider's own status, but for those about the gateway's key for it."""
    for stream in (True, False):
        async with behind(json.dumps(body).encode(), status=status, headers=headers, name="kimi") as client:
            answer = await ask(client, api, stream=stream)
        assert answer.status_code == expected
        told = answer.json()["error"]
        said = body.get("error", {}).get("message") or body.get("detail")
        assert told["message"] == said or "redirects are not followed" in told["message"]
        assert told["code"] == body.get("error", {}).get("code", told["code"])
        assert answer.headers.get("retry-after") == headers.get("retry-after")


@BOTH
@each_row(
    "error",
    [
        {"message": "slow", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"},
        {"message": "oops", "type": "server_error", "param": None, "code": None},
        {"message": "bad", "type": None, "param": "messages[1].content", "code": "invalid_value"},
    ],
)
async def test_the_error_object_of_the_provider(api: str, error: dict[str, Any]) -> None:
    """Message, type, param and code reach the client unchanged, as a status or inside a stream."""
    for stream in (True, False):
        async with behind(json.dumps({"error": error}).encode(), status=429, name="kimi") as client:
            assert (await ask(client, api, stream=stream)).json() == {"error": error}
        async with behind(event({"error": error}), name="kimi") as client:
            assert (await ask(client, api, stream=stream)).json() == {"error": error}
    async with behind(text("Hi") + event({"error": error}), name="kimi") as client:
        last = payloads((await ask(client, api, stream=True)).content)[-1]
    given = last["error"] if api == "chat" else last["response"]["error"]
    assert {name: value for name, value in error.items() if value is not None}.items() <= given.items()


@BOTH
@each_row("status", [401, 403])
async def test_the_key_of_the_gateway_is_not_the_clients(api: str, status: int) -> None:
    """A provider that does not take the gateway's key is a bad gateway: the client's own key was good."""
    error = {"message": "Incorrect API key", "type": "auth", "param": None, "code": "invalid_api_key"}
    refused = json.dumps({"error": error}).encode()
    async with behind(refused, status=status, keys=["k"]) as client:
        answer = await client.post(PATHS[api], json=asking(PATHS[api]), headers={"authorization": "Bearer k"})
    assert (answer.status_code, answer.json()) == (502, {"error": error})
    async with behind(text("Hi") + event({"error": {**error, "status": status}})) as client:
        last = payloads((await ask(client, api, stream=True)).content)[-1]
    assert (last["error"] if api == "chat" else last["response"]["error"])["status"] == 502


@BOTH
@each_row(
    ("body", "expected", "message"),
    [
        (event({"error": {"message": "overloaded", "code": 503}}), 503, "overloaded"),
        (event({"error": {"message": "odd"}}), 502, "odd"),
        (b"", 502, "the response is empty"),
        (b"<html>login</html>" + b" " * 600, 502, "the answer is a web page"),
        (text("")[:-20], 502, "the stream ended before the response was complete"),
        (call(entry(0, "a", "f", "{}")), 502, "the stream ended before the response was complete"),
    ],
)
async def test_a_failure_before_anything_was_said(api: str, body: bytes, expected: int, message: str) -> None:
    """An error inside a 200 answer is a status too, while nothing has been handed on."""
    for stream in (True, False):
        async with behind(body) as client:
            answer = await ask(client, api, stream=stream)
        assert (answer.status_code, answer.headers["content-type"]) == (expected, "application/json")
        assert message in answer.json()["error"]["message"]


@BOTH
@each_row(
    ("tail", "broken", "message"),
    [
        (b"", False, "the stream ended before the response was complete"),
        (b"", True, "before the response was complete"),
        (event({"error": {"message": "overloaded", "type": "server_error"}}), False, "overloaded"),
        (b"data: {oops}\n\n", False, "invalid SSE event"),
    ],
)
async def test_a_failure_after_the_first_byte(api: str, tail: bytes, broken: bool, message: str) -> None:
    """It is an error in the client's API, never a silent end; what had come stays."""
    body = Recording("test", text("Hel") + call(entry(0, "a", "f", "{")) + tail, broken=broken)
    async with behind(body, body) as client:
        answer = await ask(client, api, stream=True)
        whole = await ask(client, api)
    assert answer.status_code == 200
    last = payloads(answer.content)[-1]
    if api == "chat":
        assert message in last["error"]["message"]
        assert b"[DONE]" not in answer.content
    else:
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        assert message in last["response"]["error"]["message"]
        assert [item["status"] for item in last["response"]["output"]] == ["incomplete"]
        check_response_events(answer.content)
    assert whole.status_code == 502


@BOTH
async def test_a_request_that_is_none(api: str) -> None:
    """What is wrong with it is said with its path, in the shape of this API's errors."""
    async with behind(HELLO) as client:
        wrong = await ask(client, api, temperature="hot")
        assert (wrong.status_code, wrong.json()["error"]) == (
            400,
            {
                "message": "temperature must be a number, not a string",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
        )
        for content in (b"", b"{", b"\xff", b"NaN", b'{"a":' * 5000, b'{"temperature":NaN}'):
            answer = await client.post(PATHS[api], content=content)
            assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        several = await ask(client, api, n=2)
        assert (several.status_code, several.json()["error"]["message"][:12]) == (400, "n must be 1,")
        kept = await ask(client, "responses", previous_response_id="resp_1")
        assert (kept.status_code, kept.json()["error"]["code"]) == (400, "previous_response_not_found")
        assert client.upstream.requests == []  # type: ignore[attr-defined]


async def test_a_conversation_that_the_provider_would_refuse() -> None:
    """It is refused here with the position of the message, or mended where that is wanted."""
    lonely = [{"role": "user", "content": "?"}, {"role": "tool", "tool_call_id": "x", "content": "18"}]
    async with behind(HELLO) as client:
        answer = await ask(client, "chat", messages=lonely)
        assert (answer.status_code, answer.json()["error"]["message"][:11]) == (400, "messages[1]")
    async with behind(HELLO, repair_history=True) as client:
        answer = await ask(client, "chat", messages=lonely)
        assert answer.headers["x-streamfold-warnings"].startswith("history_repaired: messages[1]")


async def test_empty_turns_are_left_out() -> None:
    """A prompt that was left empty is not sent, and something is asked. No client is told of Python's arguments."""
    async with behind(HELLO, HELLO, HELLO) as client:
        for messages, sent in [
            ([{"role": "user", "content": ""}], ["Continue."]),
            ([{"role": "user", "content": "Hi"}, {"role": "user", "content": []}], ["Hi"]),
            ([{"role": "system", "content": ""}, {"role": "user", "content": "Hi"}], ["Hi"]),
        ]:
            answer = await ask(client, "chat", messages=messages)
            assert answer.status_code == 200
            assert answer.headers["x-streamfold-warnings"].startswith("history_repaired: turns without content")
            upstream = json.loads(client.upstream.requests[-1].content)  # type: ignore[attr-defined]
            assert [message["content"] for message in upstream["messages"]] == sent
        lonely = [{"role": "user", "content": "?"}, {"role": "tool", "tool_call_id": "x", "content": "18"}]
        assert "repair_history=True" not in (await ask(client, "chat", messages=lonely)).text


async def test_an_error_in_the_block_of_an_app_is_raised_as_it_is() -> None:
    """`async with gateway(...)` raises what its block raised, not a group of it."""
    with pytest.raises(LookupError, match="mine"):
        async with gateway({"main": {"adapter": "chat", "base_url": "http://test/v1", "model": "m", "api_key": "x"}}):
            raise LookupError("mine")


async def test_paths_and_methods_that_are_none() -> None:
    """They are errors in the same shape."""
    async with behind(HELLO) as client:
        for answer, status in [
            (await client.get("/v1/nothing"), 404),
            (await client.get(CHAT), 405),
            (await client.post("/v1/models"), 405),
        ]:
            assert answer.status_code == status
            assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_something_unexpected(caplog: pytest.LogCaptureFixture) -> None:
    """A provider of a program's own that raises anything is a 500 that says nothing of it; the log says all."""

    class Broken:
        def chat_stream(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("the secret is 42")

    async with client_of(gateway({"main": Broken()})) as client:
        answer = await ask(client, "chat", stream=True)
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
    assert "42" not in answer.text
    assert "the secret is 42" in caplog.text


@BOTH
@pytest.mark.parametrize("stream", [True, False])
async def test_a_server_that_says_that_the_client_is_gone(
    api: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Some servers raise an OSError when nobody listens: that ends the answer, and is no failure of anybody's."""
    transport = ReplayTransport(Recording("test", HELLO))
    body = json.dumps(asking(PATHS[api], stream=stream)).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    scope = {"type": "http", "method": "POST", "path": PATHS[api], "headers": [], "query_string": b"", "root_path": ""}

    async def receive() -> Any:
        if not messages:
            await anyio.sleep_forever()
        return messages.pop()

    async def send(_: Any) -> None:
        raise OSError("gone")

    async with httpx.AsyncClient(transport=transport) as upstream:
        app = gateway({"main": Provider.from_config({"base_url": "http://u/v1", "model": "m"}, http_client=upstream)})
        with caplog.at_level(logging.INFO, "streamfold.gateway"):
            await app(scope, receive, send)
        assert (app.running, transport.open_streams) == (0, 0)
    assert "client disconnected after" in caplog.text
    assert "Traceback" not in caplog.text


# --- who may ask ------------------------------------------------------------------------------------------------------


async def test_keys() -> None:
    """Where there are keys, one of them is needed for everything but the health check."""
    async with behind(HELLO, keys=["first", "zwölf"]) as client:
        for headers in (
            {},
            {"authorization": "Bearer third"},
            {"authorization": "Basic first"},
            {"authorization": "first"},
        ):
            for answer in (
                await client.post(CHAT, json=asking(CHAT), headers=headers),
                await client.get("/v1/models", headers=headers),
                await client.get("/v1/models/main", headers=headers),
            ):
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert answer.json()["error"]["code"] == "invalid_api_key"
                assert "third" not in answer.text
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        answer = await client.post(CHAT, json=asking(CHAT), headers={"authorization": "bearer zwölf".encode()})
        assert answer.status_code == 200
        assert "authorization" not in client.upstream.requests[0].headers  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", ["first", "second", "firsu", "", "a much longer one than any of them"])
async def test_keys_are_compared_in_constant_time(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are, each as a whole, also when the first one fits: the time that it takes tells nothing."""
    compared: list[tuple[bytes, bytes]] = []

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare_digest(one, other)

    monkeypatch.setattr("streamfold_gateway.auth.compare_digest", noted)
    async with behind(HELLO, keys=["first", "second"]) as client:
        answer = await client.get("/v1/models", headers={"authorization": f"Bearer {given}"})
    assert answer.status_code == (200 if given in ("first", "second") else 401)
    assert compared == [(given.encode(), b"first"), (given.encode(), b"second")]


async def test_pages_of_other_hosts() -> None:
    """Without keys a web page must not be able to use what listens on the machine of whoever opens it."""
    async with behind(HELLO, HELLO) as client:
        for origin, status in [
            ("https://example.com", 403),
            ("null", 403),
            ("http://[", 403),
            ("http://localhost:3000", 200),
            ("http://127.0.0.1:3000", 200),
        ]:
            answer = await client.post(CHAT, json=asking(CHAT), headers={"origin": origin})
            assert answer.status_code == status
    async with behind(HELLO, keys=["k"]) as client:
        headers = {"origin": "https://example.com", "authorization": "Bearer k"}
        assert (await client.post(CHAT, json=asking(CHAT), headers=headers)).status_code == 200


async def test_the_key_of_the_provider_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Not when its server echoes it, in an error or in the middle of an answer."""
    secret = "sk-0123456789abcdef"
    echo = json.dumps({"error": {"message": f"Incorrect API key {secret}", "code": "invalid_api_key"}}).encode()
    late = text("Hi") + event({"error": {"message": f"key {secret} is over its limit"}})
    with caplog.at_level(logging.DEBUG, "streamfold"):
        async with behind(echo, status=401, api_key=secret) as client:
            refused = await ask(client, "chat", stream=True)
        async with behind(late, late, api_key=secret) as client:
            failed, other = await ask(client, "chat", stream=True), await ask(client, "responses", stream=True)
    for answer in (refused, failed, other):
        assert "***" in answer.text
        assert secret not in answer.text + str(answer.headers)
    assert secret not in caplog.text


async def test_a_provider_without_its_key(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """That is no mistake of the client's: it is told so, and the log says which variable is missing."""
    monkeypatch.delenv("MISSING_KEY", raising=False)
    async with behind(HELLO, api_key_env="MISSING_KEY") as client:
        answer = await ask(client, "chat")
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
    assert "MISSING_KEY" not in answer.text
    assert "MISSING_KEY" in caplog.text


@pytest.mark.parametrize(("error", "status"), [(NotConfiguredError("no key"), 500), (ConfigError("no"), 400)])
async def test_a_refusal_after_the_first_comment(error: Exception, status: int) -> None:
    """A request that turns out to be impossible when the stream is open already ends with an error in the stream."""

    comments = anyio.Event()

    class Slow:
        def __init__(self, *, waits: bool) -> None:
            self.waits = waits

        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def __aiter__(self) -> Any:
            if self.waits:
                await comments.wait()
            raise error
            yield

        def chat_stream(self, *_: Any, **__: Any) -> Any:
            return self

    def watched(app: Any) -> Any:
        async def run(scope: Any, receive: Any, send: Any) -> None:
            async def sending(message: Any) -> None:
                await send(message)
                if b": keepalive" in message.get("body", b""):
                    comments.set()

            await app(scope, receive, sending)

        return run

    for keepalive, expected in ((0.01, 200), (0, status)):
        app = gateway({"main": Slow(waits=keepalive > 0)}, keepalive=keepalive)
        async with client_of(watched(app)) as client:
            answer = await ask(client, "chat", stream=True)
        assert answer.status_code == expected
        assert b'"error":{"message"' in answer.content
        assert (b": keepalive" in answer.content) == (expected == 200)


async def test_a_body_that_is_too_large() -> None:
    """It is not read to its end, whether it says its length or not."""

    async def pieces() -> Any:
        for _ in range(10):
            yield b" " * 100

    async with behind(HELLO, max_body_bytes=500) as client:
        for answer in (await client.post(CHAT, content=b" " * 501), await client.post(CHAT, content=pieces())):
            assert (answer.status_code, answer.json()["error"]["message"]) == (
                413,
                "the request body is larger than the allowed 500 bytes",
            )


# --- mounted ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["starlette", "fastapi"])
async def test_mounted(kind: str) -> None:
    """It is an app among others, under a path of theirs."""
    transport = ReplayTransport(Recording("test", HELLO))
    async with httpx.AsyncClient(transport=transport) as upstream:
        provider = Provider.from_config({"base_url": "http://upstream/v1", "model": "m"}, http_client=upstream)
        outer: Any
        if kind == "starlette":
            from starlette.applications import Starlette

            outer = Starlette()
        else:
            from fastapi import FastAPI

            outer = FastAPI()
        outer.mount("/llm", gateway({"main": provider}))
        async with client_of(outer) as client:
            answer = await client.post(f"/llm{RESPONSES}", json=asking(RESPONSES, stream=True))
            assert (await client.get("/llm/healthz")).status_code == 200
            assert (await client.get("/healthz")).status_code == 404
    assert read("responses", answer.content).text == "Hello"


async def test_providers_of_its_own_are_closed() -> None:
    """And those that it was given are not."""
    given = Provider.from_config("ollama:qwen3")
    async with gateway({"given": given, "own": "ollama:qwen3"}) as app:
        for served in app.models._providers.values():
            served.model._endpoint.connections.client(event_loop())
        own = app.models._providers["own"].model
        assert own._endpoint.connections._bound is not None
    assert own._endpoint.connections._bound is None
    assert given._endpoint.connections._bound is not None
    await given.aclose()


# --- settings ---------------------------------------------------------------------------------------------------------


def written(folder: Path, text: str) -> Any:
    (folder / "streamfold.toml").write_text(text)
    return read_config(folder / "streamfold.toml")


def test_settings_of_the_file(tmp_path: Path) -> None:
    """The table `[gateway]`, and what is said on the command line on top of it."""
    config = written(
        tmp_path,
        """
        [gateway]
        port = 9
        providers = "main"
        aliases = { "gpt-4o" = "main" }
        api_key_env = "KEYS"
        keepalive = 5
        [providers.main]
        base_url = "http://localhost/v1"
        """,
    )
    assert settings(config, port=10, host=None) == GatewaySettings(
        port=10, providers=["main"], aliases={"gpt-4o": "main"}, api_key_env=["KEYS"], keepalive=5
    )
    assert settings(written(tmp_path, "")) == GatewaySettings()


def test_this_machine_alone_by_default(tmp_path: Path) -> None:
    """Nobody else reaches a server that was not told to listen elsewhere; on the way there it asks for a key."""
    config = written(tmp_path, "")
    assert settings(config).host == "127.0.0.1"
    for host in ("0.0.0.0", "::", "192.0.2.1", "my-machine.example"):
        with pytest.raises(ConfigError, match="without a key: set api_key_env"):
            settings(config, host=host)
    assert [settings(config, host=host).host for host in ("localhost", "::1")] == ["localhost", "::1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gateway]\nport = 'x'", "streamfold.toml:2: gateway.port: must be a whole number"),
        ("[gateway]\nport = 70000", "streamfold.toml:2: gateway.port: must not be more than 65535"),
        ("[gateway]\nprot = 'x'", "streamfold.toml:2: gateway.prot: unknown key (did you mean 'port'?)"),
        ("[gateway]\nhost = '0.0.0.0'", "other machines could use a server on 0.0.0.0 without a key"),
    ],
)
def test_mistakes_in_the_settings(tmp_path: Path, text: str, message: str) -> None:
    """They are told with file, line and key; a server that is open to others needs a key, or to be told that it is."""
    with pytest.raises(ConfigError) as caught:
        settings(written(tmp_path, text))
    assert message in str(caught.value)
    assert settings(written(tmp_path, "[gateway]\nhost = '0.0.0.0'\nopen = true")).open
    assert settings(written(tmp_path, "[gateway]\nhost = '0.0.0.0'\napi_key_env = 'K'")).host == "0.0.0.0"


def test_the_check_of_the_file_knows_the_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that lead nowhere are found before anybody asks for them."""
    monkeypatch.delenv("NO_KEY", raising=False)
    text = "[gateway]\nproviders = ['kimi', 'nobody']\napi_key_env = 'NO_KEY'\n[gateway.keys.x]\nkey_env = 'NO_KEY'\n"
    config = written(tmp_path, text)
    problems = [problem.partition("streamfold.toml:")[2] for problem in config_problems(config)]
    assert [problem.partition(" (did")[0].partition(". The catalogue")[0] for problem in problems] == [
        "2: gateway.providers[1]: unknown provider 'nobody'",
        "3: gateway.api_key_env: NO_KEY is not set",
        "5: gateway.keys.x.key_env: NO_KEY is not set",
    ]
    with pytest.raises(ConfigError, match="api_key_env: NO_KEY is not set"):
        create_app(config.path)


def test_a_server_without_a_usable_model_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its answers would be an error: the command says what is missing instead, and of which provider."""
    monkeypatch.setenv("SOME_KEY", "geheim")
    monkeypatch.delenv("STREAMFOLD_CONFIG")
    monkeypatch.chdir(tmp_path)
    table = 'base_url = "https://models.example/v1"\nmodel = "m"\napi_key_env = "SOME_KEY"\n'
    Path("streamfold.toml").write_text(f"[providers.main]\n{table}")
    with pytest.raises(ConfigError, match=r'no model can be used: provider "main": .*streamfold config trust'):
        WorkerFactory(None, None, {"port": 0}, tmp_path).read()
    WorkerFactory("streamfold.toml", None, {"port": 0}, tmp_path).read()  # a file that is named is trusted


def test_a_server_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation is one line that says what to install."""
    monkeypatch.setitem(sys.modules, "granian", None)
    monkeypatch.delitem(sys.modules, "streamfold_gateway.server", raising=False)
    said = CliRunner().invoke(cli, ["serve", "-p", "kimi"])
    assert said.exit_code == 2
    assert "pip install streamfold-gateway" in said.output.replace("\n", " ")


def test_a_password_of_a_store_is_not_shown() -> None:
    """The options may be in a log."""
    assert "geheim" not in repr(GatewayOptions(turn_cache="valkey://me:geheim@127.0.0.1:6379/0"))


def test_a_store_is_named_as_for_a_provider(tmp_path: Path) -> None:
    """One grammar for the table of a provider and that of the gateway."""
    with pytest.raises(ConfigError, match=r"gateway\.turn_cache: must be memory, or sqlite:///"):
        settings(written(tmp_path, '[gateway]\nturn_cache = "sqlite://x"'))


def test_the_api_is_that_of_the_model_that_is_asked() -> None:
    """A gateway takes clients' requests as the API has them on which the model that they name is asked."""
    values = {"base_url": "https://api.openai.com/v1", "api": "auto", "model": "gpt-4o", "api_key": "k"}
    model = Provider.from_config(values)
    assert [ModelRoute(model, other).adapters for other in (None, "gpt-4o-mini", "gpt-5.4-pro")] == [
        {"chat"}, {"chat"}, {"responses"},
    ]  # fmt: skip


async def test_conversations_of_a_fallback_do_not_warn_of_one_another() -> None:
    """A gateway serves many conversations: that one has another beginning says nothing about the other's cache."""
    answer = {"id": "1", "type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    async with httpx.AsyncClient(transport=transport) as client:
        config = {"adapter": "anthropic", "base_url": "http://127.0.0.1/v1", "model": "m", "api_key": "k"}
        model = Fallback(Provider.from_config(config, http_client=client))
        app = httpx.ASGITransport(gateway({"main": model}))
        async with httpx.AsyncClient(transport=app, base_url="http://gateway") as asking:
            for place in ("Oslo", "Paris"):
                mark = {"type": "text", "text": place, "cache_control": {"type": "ephemeral"}}
                body = {
                    "model": "main",
                    "max_tokens": 9,
                    "system": [mark],
                    "messages": [{"role": "user", "content": "Hi"}],
                }
                got = await asking.post("/v1/messages", json=body)
                assert got.status_code == 200
                assert "cache_prefix_changed" not in got.headers.get("x-streamfold-warnings", "")


@BOTH
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_behind_a_limit_that_left_nothing(api: str, stream: bool) -> None:
    """It is the provider's error, and no empty answer; so it is if there was half a call."""
    error = event({"error": {"message": "overloaded", "type": "server_error"}})
    for before in (chunk({"role": "assistant"}), call(entry(0, "a", "f", "{"))):
        async with behind(Recording("test", before + fin("length") + error)) as client:
            answer = await ask(client, api, stream=stream)
        assert (answer.status_code, answer.json()["error"]["message"]) == (502, "overloaded")
