"""Tools that messages add inside a conversation: in their place where the endpoint takes them, else with the others."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest

from answers_by_api import APIS, Answer, told
from scale import pick
from streamfold import (
    AllowedTools,
    ConfigError,
    HostedTool,
    Message,
    NamedTool,
    Provider,
    Tool,
    ToolCall,
    WebSearch,
    run_tools,
    system,
    tool_result,
    user,
)
from streamfold.serving import parse_messages, serialize_messages
from streamfold.tools import resume_tools
from tables import each_row

MODELS = {"chat": "m", "responses": "m", "anthropic": "claude-sonnet-5", "gemini": "gemini-3-flash-preview"}


def look(city: str) -> str:
    """Looks out of the window."""
    return "sunny"


def act(number: int) -> str:
    """Does something."""
    return f"did {number}"


LOOK, ACT, LATE = Tool("look"), Tool("act", "Acts."), Tool("late", strict=False)
ADDED = [user("Hi"), Message("assistant", "Hello"), system(tools=[ACT]), user("Go on")]


class Server:
    """Answers from a script. Refuses what OpenAI refuses: a tool that is declared twice, or only chosen.

    What it knows is from pydantic-ai's measurements, `OpenAIResponsesModel`: "declaring it in both places" is rejected,
    and "Tool choice '...' not found in 'tools' parameter".
    """

    def __init__(self, *turns: list[dict[str, Any]]) -> None:
        self.turns, self.bodies = list(turns), list[dict[str, Any]]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        top = [tool["name"] for tool in body.get("tools", [])]
        declared = [*top, *inside(body)]
        wanted = body.get("tool_choice")
        chosen = [] if not isinstance(wanted, dict) else wanted.get("tools") or [wanted]
        if len({*declared}) < len(declared):
            return httpx.Response(400, json={"error": {"message": f"duplicate tools: {declared}"}})
        if any(tool["name"] not in top for tool in chosen):
            return httpx.Response(400, json={"error": {"message": "Tool choice not found in 'tools' parameter."}})
        if any(item["type"] == "message" and not item["content"] for item in body["input"]):
            return httpx.Response(400, json={"error": {"message": "empty content"}})
        output = self.turns.pop(0) if self.turns else [said("Done.")]
        return httpx.Response(200, json={"id": "r", "object": "response", "status": "completed", "output": output})

    def provider(self, spec: Any = "openai-responses:gpt-5.4", **settings: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Provider.from_config(spec, api_key="k", http_client=client, max_retries=0, **settings)


def said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


def call(name: str, call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "status": "completed"}
    return {**item, "arguments": json.dumps(arguments)}


def inside(body: dict[str, Any]) -> list[str]:
    items = [item for item in body["input"] if item["type"] == "additional_tools"]
    assert all(item["role"] == "developer" and item["tools"] for item in items)
    return [tool["name"] for item in items for tool in item["tools"]]


async def test_where_openai_takes_them() -> None:
    """The item stands where the message is, the text of the message behind it, and no warning is needed."""
    server = Server()
    async with server.provider() as provider:
        reply = await provider.chat([*ADDED[:2], system("You may act.", tools=[ACT]), ADDED[3]], [LOOK])
    body = server.bodies[0]
    kinds = [(item["type"], item["role"]) for item in body["input"]]
    roles = ["user", "assistant", "developer", "system", "user"]
    assert kinds == [("additional_tools" if role == "developer" else "message", role) for role in roles]
    assert ([tool["name"] for tool in body["tools"]], inside(body)) == (["look"], ["act"])
    assert not reply.warnings


@each_row(
    ("choice", "top", "added"),
    [
        ("auto", [], ["act", "late"]),
        ("required", [], ["act", "late"]),
        (NamedTool("act"), ["act"], ["late"]),
        (AllowedTools(("act", "late")), ["act", "late"], []),
    ],
)
async def test_a_choice_of_them(choice: Any, top: list[str], added: list[str]) -> None:
    """A tool that the choice names is among the tools of the request, where models before GPT-5.6 look for it."""
    server = Server()
    async with server.provider() as provider:
        reply = await provider.chat([*ADDED, system(tools=[ACT, LATE]), user("?")], tool_choice=choice)
    body = server.bodies[0]
    assert ([tool["name"] for tool in body.get("tools", [])], inside(body)) == (top, added)
    assert ("history_repaired" in [warning.code for warning in reply.warnings]) == bool(top)


@each_row("api", APIS)
async def test_elsewhere(api: str) -> None:
    """Other endpoints get them with the other tools; nothing of the message is left, and a warning says it."""
    bodies: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        body = told(api, Answer((), (("id-1", "act", {"number": 1}),)), random.Random(1)).body
        return httpx.Response(200, content=body, headers={"Content-Type": "text/event-stream"})

    spec = {"adapter": api, "base_url": "http://test/v1", "model": MODELS[api], "api_key": "k"}
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = Provider.from_config(spec, http_client=client)
        reply = await provider.chat(ADDED, [LOOK])
        plain = await provider.chat([ADDED[0], ADDED[1], ADDED[3]], [LOOK, ACT])
    assert bodies[0] == bodies[1]
    assert reply.tool_calls == plain.tool_calls
    assert reply.tool_calls[0].name == "act"
    others = [warning for warning in reply.warnings if warning not in plain.warnings]
    assert [(warning.code, warning.detail.split(":")[0]) for warning in others] == [("history_repaired", "messages[2]")]


async def test_names_that_are_sent_otherwise() -> None:
    """All rules for tools hold for them: a name with dots is sent with underscores, and delivered as it was."""
    server = Server([call("my_tool")])
    async with server.provider() as provider:
        reply = await provider.chat([user("Hi"), system(tools=[Tool("my.tool")])], [LOOK])
    assert inside(server.bodies[0]) == ["my_tool"]
    assert [made.name for made in reply.tool_calls] == ["my.tool"]


async def test_a_run_with_them() -> None:
    """Their calls are run; in a later turn the tools are still in their place."""
    server = Server([call("act", number=3)], [call("look", "c2", city="Oslo")])
    async with server.provider() as provider:
        run = run_tools(provider, [user("Hi"), system(tools=[act])], [look])
        reply = await run
    assert reply.text == "Done."
    assert [message.content for message in run.messages if message.role == "tool"] == ["did 3", "sunny"]
    assert [(len(body["tools"]), inside(body)) for body in server.bodies] == [(1, ["act"])] * 3
    beginnings = [body["input"][:2] for body in server.bodies]
    assert beginnings[0] == beginnings[1] == beginnings[2]


async def test_a_run_from_its_state() -> None:
    """JSON has no functions: the tools are passed again, and are still offered from the message on."""
    first = Server([call("act", number=3), call("wait", "c2")])
    wait = Tool("wait")
    async with first.provider() as provider:
        run = run_tools(provider, [user("Hi"), system(tools=[act])], [], external=[wait])
        async for _ in run:
            pass
    state = run.dump()
    second = Server()
    async with second.provider() as provider:
        with pytest.raises(ConfigError, match="the tool 'act' has no function"):
            await resume_tools(provider, state, [], external=[wait])
        run = resume_tools(provider, state, [act], external=[wait])
        run.answer("c2", "waited")
        await run
    assert inside(second.bodies[0]) == ["act"]


def test_as_json() -> None:
    """A message with tools is read as it was written; functions are no part of JSON."""
    made = system("Act.", tools=[act, Tool("late", "", {"type": "object"}, True, background=True, cache="1h")])
    read = Message.from_json(made.to_json())
    assert read == made
    assert read.tools == made.tools
    raw = HostedTool({"type": "mcp", "server_label": "x"})
    made = Message("developer", tools=(raw,))  # type: ignore[arg-type]
    assert Message.from_dict(made.to_dict()) == made


@each_row(
    ("make", "problem"),
    [
        (lambda: Message("user", "Hi", tools=(ACT,)), "the role of this message is 'user'"),
        (lambda: system(tools=[WebSearch()]), "functions or HostedTool"),
        (lambda: system(tools=ACT), "tools must be a list"),
        (lambda: system(), "needs text or tools"),
    ],
)
def test_what_is_refused(make: Any, problem: str) -> None:
    """Only functions, and only from the system or the developer."""
    with pytest.raises(ConfigError, match=problem):
        make()


async def test_items_of_the_api() -> None:
    """An item of a client is such a message. One with members that no `Tool` has is sent as it came."""
    tools = [{"type": "function", "name": "act", "parameters": {"type": "object", "properties": {}}, "strict": False}]
    item = {"type": "additional_tools", "role": "developer", "tools": tools}
    other = {**item, "tools": [{**tools[0], "name": "deferred", "defer_loading": True}]}
    items: list[Any] = [{"role": "user", "content": "Hi", "type": "message"}, item, other]
    read = parse_messages(items, "responses")
    assert [tool.name for tool in read[1].tools] == ["act"]
    assert not read[2].tools
    written = serialize_messages(read, "responses")
    assert written.body["input"][1]["tools"][0]["name"] == "act"
    assert written.body["input"][2] == other
    assert not written.warnings
    server = Server()
    async with server.provider() as provider:
        await provider.chat(items)
    assert inside(server.bodies[0]) == ["act", "deferred"]
    lost = serialize_messages(read[:2], "chat")
    assert [warning.code for warning in lost.warnings] == ["provider_data_dropped"]
    assert [message["role"] for message in lost.body["messages"]] == ["user"]


@each_row("seed", range(pick(20, 500)))
async def test_any_conversation(seed: int) -> None:
    """Whatever messages add, the server takes it, and each tool is declared once, in its place or with the others."""
    rng = random.Random(seed)
    names = [f"t{number}" for number in range(6)]
    own = [Tool(name) for name in rng.sample(names, rng.randint(0, 3))]
    messages: list[Message] = [user("Hi")]
    for number in range(rng.randint(1, 6)):
        added = [Tool(name) for name in rng.sample(names, rng.randint(1, 3))]
        messages.append(system(rng.choice([None, "Now."]), tools=added))
        if rng.random() < 0.5:
            made = ToolCall(f"c{number}", added[0].name, {}, "{}")
            messages += [Message("assistant", None, (made,)), tool_result(made, "ok")]
        messages.append(user("Go on"))
    known = {tool.name for tool in own} | {tool.name for message in messages for tool in message.tools}
    choice: Any = NamedTool(own[0].name) if own and rng.random() < 0.3 else rng.choice(["auto", "required", "none"])
    server = Server()
    spec = rng.choice(["openai-responses:gpt-5.4", "azure-responses:gpt-5.4"])
    async with server.provider(spec, base_url="http://test/v1") as provider:
        await provider.chat(messages, own, tool_choice=choice)
    body = server.bodies[0]
    found = {tool["name"] for tool in body.get("tools", [])} | {*inside(body)}
    assert found == known
    assert spec.startswith("openai") or not inside(body)
