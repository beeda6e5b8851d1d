"""Clients that forget, before providers that demand: the gateway gives back what a client leaves out of a turn."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from demanding_providers import KINDS, TURNS, Demanding
from gateways import CHAT, MESSAGES, RESPONSES, client_of, served
from scale import pick
from sdks import anthropic, openai
from streamfold import Provider
from streamfold.deltas import Finish, ReasoningDelta, TextDelta
from streamfold.serving.chat import ChatSerializer
from streamfold_gateway import gateway
from tables import each_row

pytestmark = pytest.mark.one_loop  # uvicorn's

GEMINI = "/v1beta/models/main:generateContent"
SCHEMA = {"type": "object", "properties": {}}


# --- clients that forget ----------------------------------------------------------------------------------------------


async def chat(client: httpx.AsyncClient, **headers: str) -> list[httpx.Response]:
    """Writes down text and calls, with the arguments as its language writes them."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    answers = []
    for _ in range(TURNS + 1):
        body = {"model": "main", "messages": messages, "tools": tools}
        answers.append(await client.post(CHAT, json=body, headers=headers))
        if answers[-1].is_error:
            break
        message = answers[-1].json()["choices"][0]["message"]
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": "look", "arguments": rewritten(call["function"])},
            }
            for call in message.get("tool_calls", ())
        ]
        messages.append(
            {"role": "assistant", "content": message["content"], **({"tool_calls": calls} if calls else {})}
        )
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "seen"} for call in calls]
    return answers


async def responses(client: httpx.AsyncClient, **headers: str) -> list[httpx.Response]:
    """Keeps calls and their results alone, as clients do that store nothing and ask for nothing encrypted."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    tools = [{"type": "function", "name": "look", "parameters": SCHEMA}]
    answers = []
    for _ in range(TURNS + 1):
        body = {"model": "main", "input": items, "tools": tools, "store": False}
        answers.append(await client.post(RESPONSES, json=body, headers=headers))
        if answers[-1].is_error:
            break
        for item in answers[-1].json()["output"]:
            if item["type"] == "function_call":
                items.append(
                    {name: item[name] for name in ("type", "call_id", "name")} | {"arguments": rewritten(item)}
                )
                items.append({"type": "function_call_output", "call_id": item["call_id"], "output": "seen"})
    return answers


async def codex(client: httpx.AsyncClient, **headers: str) -> list[httpx.Response]:
    """Keeps all items as Codex does: without ids and members that it does not know, and reasoning as its summary."""
    parts = [{"type": "input_text", "text": "Look."}]
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": parts}]
    tools = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]
    forgotten = ("id", "status", "encrypted_content", "extra_content")
    answers = []
    for _ in range(TURNS + 1):
        body = {"model": "main", "input": items, "tools": tools, "store": False, "stream": True}
        body["include"] = ["reasoning.encrypted_content"]
        answers.append(await client.post(RESPONSES, json=body, headers=headers))
        if answers[-1].is_error:
            break
        lines = [json.loads(line[6:]) for line in answers[-1].text.splitlines() if line.startswith("data: ")]
        for item in (line["item"] for line in lines if line["type"] == "response.output_item.done"):
            items.append({name: value for name, value in item.items() if name not in forgotten})
            if item["type"] == "function_call":
                items.append({"type": "function_call_output", "call_id": item["call_id"], "output": "seen"})
    return answers


async def messages(client: httpx.AsyncClient, **headers: str) -> list[httpx.Response]:
    """As Claude Code: adds reminders to the last turn that are not there later, and a line before its instructions.

    It has not asked for thinking, and gets none.
    """
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    tools = [{"name": "look", "input_schema": SCHEMA}]
    answers = []
    for _ in range(TURNS + 1):
        last = turns[-1]["content"]
        reminded = [*last, {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}]
        sent = turns if isinstance(last, str) else [*turns[:-1], {"role": "user", "content": reminded}]
        lines = (f"x-anthropic-billing-header: cch={len(turns)};", "You are Claude Code.")
        instructions = [{"type": "text", "text": line} for line in lines]
        body = {"model": "main", "max_tokens": 20_000, "system": instructions, "messages": sent, "tools": tools}
        answers.append(await client.post(MESSAGES, json=body, headers=headers))
        if answers[-1].is_error:
            break
        blocks = [block for block in answers[-1].json()["content"] if block["type"] != "thinking"]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "seen"}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        turns += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results or "Thanks."}]
    return answers


def rewritten(function: dict[str, Any]) -> str:
    return json.dumps(json.loads(function["arguments"]), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


Client = Callable[..., Awaitable[list[httpx.Response]]]
CLIENTS: dict[str, Client] = {"chat": chat, "responses": responses, "codex": codex, "messages": messages}
PAIRS = [(name, kind) for name in CLIENTS for kind in KINDS]


@each_row(("name", "kind"), PAIRS, ids="-".join)
async def test_no_turn_is_refused(name: str, kind: str) -> None:
    """Three tool turns of a client that forgets end well before every provider that demands, on every API."""
    upstream = Demanding(kind)
    async with (
        upstream.client as network,
        upstream.provider(network) as main,
        client_of(gateway({"main": main})) as client,
    ):
        answers = await CLIENTS[name](client)
    assert upstream.refused == 0
    assert [answer.status_code for answer in answers] == [200] * (TURNS + 1)
    assert "lost_reasoning" not in "".join(answer.headers.get("x-streamfold-warnings", "") for answer in answers)
    assert "That is all." in answers[-1].text


# Codex returns the text of the reasoning. Anthropic's thinking is switched off rather than refused; Google checks no
# turn before a text of the user, as which the reminders of the client of the Messages API arrive.
REFUSED = [
    (name, kind)
    for name, kind in PAIRS
    if (kind in ("kimi", "deepseek") and name != "codex") or (kind.startswith("gemini") and name != "messages")
]


@pytest.mark.parametrize(("name", "kind"), REFUSED, ids="-".join)
async def test_without_it_the_refusal_names_what_is_lost(
    name: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Switched off, the provider's 400 comes with the warning, for the client and in the log."""
    upstream = Demanding(kind)
    app_of = lambda main: gateway({"main": main}, turn_cache=False)  # noqa: E731
    async with upstream.client as network, upstream.provider(network) as main, client_of(app_of(main)) as client:
        refused = (await CLIENTS[name](client))[-1]
    assert refused.status_code == 400
    assert KINDS[kind][1] in refused.text
    assert "lost_reasoning" in refused.headers["x-streamfold-warnings"]
    assert "lost_reasoning" in caplog.text


async def test_callers_are_kept_apart() -> None:
    """The turns of one key are not those of another, even with the same calls in the same conversation."""
    upstream = Demanding("kimi")
    async with (
        upstream.client as network,
        upstream.provider(network) as main,
        client_of(gateway({"main": main}, keys=["ann", "bob"])) as client,
    ):
        question = {"role": "user", "content": "Look."}
        first = await client.post(CHAT, json={"model": "main", "messages": [question]}, headers=key("ann"))
        call = first.json()["choices"][0]["message"]["tool_calls"][0]
        turn = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": call["id"], "content": "seen"}
        body = {"model": "main", "messages": [question, turn, result]}
        assert (await client.post(CHAT, json=body, headers=key("bob"))).status_code == 400
        assert (await client.post(CHAT, json=body, headers={"x-api-key": "ann"})).status_code == 200


@each_row(
    ("path", "named"),
    [
        (CHAT, {"user": "{}"}),
        (CHAT, {"safety_identifier": "{}"}),
        (CHAT, {"metadata": {"user_id": "{}"}}),
        (CHAT, {"extra_body": {"user": "{}"}}),
        (RESPONSES, {"user": "{}"}),
        (RESPONSES, {"safety_identifier": "{}"}),
        (RESPONSES, {"prompt_cache_key": "{}"}),
        (MESSAGES, {"metadata": {"user_id": "{}"}}),
        (GEMINI, {"labels": {"customer": "{}"}}),
        (CHAT, {"x-openwebui-user-id": "{}"}),
        (GEMINI, {"x-forwarded-email": "{}"}),
    ],
)
async def test_end_users_of_one_key_are_kept_apart(path: str, named: dict[str, Any]) -> None:
    """What the model thought for one user of a key is not sent for another, whichever field of which API names them."""
    bodies: list[str] = []
    serializer = ChatSerializer(id="a", model="m", created=1)
    said = [ReasoningDelta("4711"), TextDelta("Hello!"), Finish("stop", "stop")]
    answer = b"".join([serializer.begin(), serializer.feed_all(said), serializer.finish()])

    def provider(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content.decode())
        return httpx.Response(200, content=answer, headers={"content-type": "text/event-stream"})

    async def ask(name: str, *turns: tuple[str, str]) -> str:
        fields = json.loads(json.dumps(named).replace("{}", name))
        headers = {name: value for name, value in fields.items() if name.startswith("x-")}
        members = {name: value for name, value in fields.items() if name not in headers}
        response = await client.post(path, json={**talk(path, *turns), **members}, headers={**headers, **key("k")})
        assert response.status_code == 200, response.text
        return bodies[-1]

    async with httpx.AsyncClient(transport=httpx.MockTransport(provider)) as network:
        config = {"profile": "kimi", "model": "kimi-k2-thinking", "api_key": "none"}
        main = Provider.from_config(config, http_client=network)
        async with client_of(gateway({"main": main}, keys=["k"])) as client:
            await ask("ann", ("user", "Hi"))
            later = (("user", "Hi"), ("assistant", "Hello!"), ("user", "Why?"))
            assert "4711" not in await ask("bob", *later)
            assert "4711" in await ask("ann", *later)


def talk(path: str, *turns: tuple[str, str]) -> dict[str, Any]:
    """The body of a request with these texts."""
    said = [{"role": role, "content": text} for role, text in turns]
    if path == CHAT:
        return {"model": "main", "messages": said}
    if path == RESPONSES:
        return {"model": "main", "input": said, "store": False}
    if path == MESSAGES:
        return {"model": "main", "messages": said, "max_tokens": 1000}
    roles = {"user": "user", "assistant": "model"}
    return {"contents": [{"role": roles[role], "parts": [{"text": text}]} for role, text in turns]}


async def test_a_turn_behind_one_that_the_gateway_has_added() -> None:
    """Where the gateway adds a message of the user for a provider, the turn behind it is still given back."""
    upstream = Demanding("gemini")
    tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    said: list[Any] = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "Half a"}]
    async with (
        upstream.client as network,
        upstream.provider(network) as main,
        client_of(gateway({"main": main})) as client,
    ):
        first = await client.post(CHAT, json={"model": "main", "messages": said, "tools": tools})
        assert upstream.bodies[0]["contents"][-1]["parts"] == [{"text": "Continue."}]
        call = {
            name: first.json()["choices"][0]["message"]["tool_calls"][0][name] for name in ("id", "type", "function")
        }
        said += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "seen"},
        ]
        second = await client.post(CHAT, json={"model": "main", "messages": said, "tools": tools})
    assert "turn_restored" in second.headers["x-streamfold-warnings"]
    assert upstream.refused == 0


def key(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


@pytest.mark.parametrize("kind", pick(list(KINDS), ["anthropic"]))
async def test_a_file_survives_a_restart(kind: str, tmp_path: Path) -> None:
    """A gateway that is started again knows the turns that another process has kept; nobody else may read the file."""
    upstream, where = Demanding(kind), f"sqlite:///{tmp_path}/turns.db"
    body: dict[str, Any] = {"model": "main", "messages": [{"role": "user", "content": "Look."}]}
    body["tools"] = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    async with upstream.client as network, upstream.provider(network) as main:
        for _ in range(TURNS + 1):
            async with gateway({"main": main}, turn_cache=where) as app, client_of(app) as client:
                answer = (await client.post(CHAT, json=body)).json()["choices"][0]["message"]
            calls = [{name: call[name] for name in ("id", "type", "function")} for call in answer.get("tool_calls", ())]
            body["messages"].append({"role": "assistant", "content": None, "tool_calls": calls})
            body["messages"] += [{"role": "tool", "tool_call_id": call["id"], "content": "seen"} for call in calls]
    assert upstream.refused == 0
    assert (tmp_path / "turns.db").stat().st_mode & 0o777 == 0o600


# --- clients of other people ------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_openai_python() -> None:
    """OpenAI's own client, streaming, with turns as its documentation writes them down."""
    upstream = Demanding("kimi")
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    said: list[Any] = [{"role": "user", "content": "Look."}]
    async with (
        upstream.client as network,
        upstream.provider(network) as main,
        served(gateway({"main": main})) as (client, _),
        openai.AsyncOpenAI(base_url=str(client.base_url.join("/v1")), api_key="k", max_retries=0) as sdk,
    ):
        for _ in range(TURNS + 1):
            async with sdk.chat.completions.stream(model="main", messages=said, tools=tools) as events:
                message = (await events.get_final_completion()).choices[0].message
            calls = [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls or ()]
            for call in calls:
                call["function"].pop("parsed_arguments", None)
            said.append({"role": "assistant", "content": message.content, "tool_calls": calls})
            said += [{"role": "tool", "tool_call_id": call["id"], "content": "seen"} for call in calls]
    assert upstream.refused == 0
    assert message.content == "That is all."


@pytest.mark.slow
async def test_anthropic_python() -> None:
    """Anthropic's own client, streaming, without thinking: its turns have no thinking blocks to return."""
    upstream = Demanding("gemini")
    said: list[Any] = [{"role": "user", "content": "Look."}]
    tools: Any = [{"name": "look", "input_schema": SCHEMA}]
    async with (
        upstream.client as network,
        upstream.provider(network) as main,
        served(gateway({"main": main})) as (client, _),
        anthropic.AsyncAnthropic(base_url=str(client.base_url), api_key="k", max_retries=0) as sdk,
    ):
        for _ in range(TURNS + 1):
            async with sdk.messages.stream(model="main", max_tokens=1000, messages=said, tools=tools) as events:
                message = await events.get_final_message()
            ids = [block.id for block in message.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call_id, "content": "seen"} for call_id in ids]
            said += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results or "?"}]
    assert upstream.refused == 0
    assert message.content[0].text == "That is all."  # type: ignore[union-attr]
