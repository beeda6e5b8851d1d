"""Many sessions at once: clients of each API before providers of each API, and nobody sees anything of another's."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import anyio
import pytest

from gateways import CHAT, MESSAGES, RESPONSES, served
from streamfold.testing import ScriptedProvider, SentRequest, call, say, think
from streamfold_gateway import gateway

pytestmark = pytest.mark.slow

SESSIONS, AT_ONCE, CITIES = 500, 20, ("Oslo", "Rome")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[list[dict[str, Any]]]]


def named(request: SentRequest) -> str:
    """The session that a request is of: its word is in the question."""
    text = json.dumps(request.body)
    at = text.index("session-")
    return text[at : at + len("session-00000")]


def answer(request: SentRequest) -> list[Any]:
    """Two calls with a thought, and behind their results the end. All of it has the session's word in it."""
    word, text = named(request), json.dumps(request.body)
    if f"18 in Rome {word}" in text:
        return [say(f"Done, {word}.")]
    return [think(f"I think of {word}."), say(f"I look, {word}."), *(call("look", city=f"{c} {word}") for c in CITIES)]


# --- clients, each as its API has it: a session is a question, two results, and all that was seen ---------------------


async def chat(ask: Ask, word: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"{word}?"}]
    tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    seen = ""
    for _ in range(2):
        calls: dict[int, dict[str, Any]] = {}
        for event in await ask(CHAT, {"messages": messages, "tools": tools}):
            for choice in event["choices"]:
                delta = choice["delta"]
                seen += (delta.get("content") or "") + (delta.get("reasoning_content") or "")
                for part in delta.get("tool_calls") or ():
                    made = calls.setdefault(part["index"], {**part, "function": {"name": "look", "arguments": ""}})
                    made["function"]["arguments"] += part["function"].get("arguments") or ""
        if calls:
            messages.append({"role": "assistant", "content": "I look.", "tool_calls": [*calls.values()]})
        for made in calls.values():
            city = json.loads(made["function"]["arguments"])["city"]
            seen += city
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": f"18 in {city}"})
    return seen


async def responses(ask: Ask, word: str) -> str:
    items: list[dict[str, Any]] = [{"role": "user", "content": f"{word}?"}]
    tools = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]
    seen = ""
    for _ in range(2):
        events = await ask(RESPONSES, {"input": items, "tools": tools, "store": False})
        output = events[-1]["response"]["output"]
        seen += json.dumps(output) + "".join(event["delta"] for event in events if event["type"].endswith("text.delta"))
        items += output
        for item in output:
            if item["type"] == "function_call":
                city = json.loads(item["arguments"])["city"]
                items.append({"type": "function_call_output", "call_id": item["call_id"], "output": f"18 in {city}"})
    return seen


async def messages(ask: Ask, word: str) -> str:
    turns: list[dict[str, Any]] = [{"role": "user", "content": f"{word}?"}]
    more = {"tools": [{"name": "look", "input_schema": SCHEMA}], "max_tokens": 9000}
    seen = ""
    for _ in range(2):
        blocks: dict[int, dict[str, Any]] = {}
        for event in await ask(MESSAGES, {"messages": turns, **more, "thinking": {"type": "adaptive"}}):
            if event["type"] == "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "json": ""}
            elif event["type"] == "content_block_delta":
                delta, block = event["delta"], blocks[event["index"]]
                for name, member in (("text", "text"), ("thinking", "thinking"), ("signature", "signature")):
                    if name in delta:
                        block[member] = block.get(member, "") + delta[name]
                block["json"] += delta.get("partial_json", "")
        content = [
            {**block, "input": json.loads(block["json"])} if block["json"] else block for block in blocks.values()
        ]
        content = [{name: value for name, value in block.items() if name != "json"} for block in content]
        seen += json.dumps(content)
        turns.append({"role": "assistant", "content": content})
        used = [block for block in content if block["type"] == "tool_use"]
        said = [(block["id"], f"18 in {block['input']['city']}") for block in used]
        turns.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in said],
            }
        )
    return seen


async def gemini(ask: Ask, word: str) -> str:
    turns: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": f"{word}?"}]}]
    tools = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": SCHEMA}]}]
    more = {"tools": tools, "generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    seen = ""
    for _ in range(2):
        events = await ask("/v1beta/models/main:streamGenerateContent?alt=sse", {"contents": turns, **more})
        parts = [part for event in events for one in event["candidates"] for part in one["content"].get("parts", [])]
        seen += json.dumps(parts) + "".join(part.get("text", "") for part in parts)
        turns.append({"role": "model", "parts": [part for part in parts if not part.get("thought")]})
        called = [part["functionCall"] for part in parts if "functionCall" in part]
        results = [
            {"name": "look", "id": one.get("id"), "response": {"output": f"18 in {one['args']['city']}"}}
            for one in called
        ]
        turns.append({"role": "user", "parts": [{"functionResponse": result} for result in results]})
    return seen


CLIENTS = {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}
UPSTREAMS = ("chat", "kimi", "responses", "anthropic", "gemini")


def payloads(body: str) -> Iterator[dict[str, Any]]:
    for line in body.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line[6:])


@pytest.mark.one_loop
async def test_nobody_sees_anything_of_another_session() -> None:
    """Five hundred sessions of two turns, twenty at once, by five providers in one gateway."""
    rng = random.Random(7)
    words = [f"session-{number:05}" for number in range(SESSIONS)]
    providers = {name: ScriptedProvider(then=answer, provider={"adapter": name}) for name in UPSTREAMS}
    wrong: list[str] = []
    gate = anyio.CapacityLimiter(AT_ONCE)
    async with served(gateway(providers)) as (client, _):

        async def session(number: int, word: str) -> None:
            upstream = UPSTREAMS[number % len(UPSTREAMS)]

            async def ask(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
                where = path.replace("main", upstream)
                made = await client.post(where, json={"model": upstream, "stream": True, **body}, timeout=60)
                assert made.status_code == 200, (path, upstream, made.text)
                return [*payloads(made.text)]

            async with gate:
                seen = await rng.choice([*CLIENTS.values()])(ask, word)
            found = {other for other in words if other in seen}
            whole = all(text in seen for text in (f"Oslo {word}", f"Rome {word}", f"Done, {word}."))
            if not whole or found != {word}:
                wrong.append(f"{upstream} {word} {sorted(found - {word})}: {seen[-300:]}")

        async with anyio.create_task_group() as tasks:
            for number, word in enumerate(words):
                tasks.start_soon(session, number, word)
    assert wrong == []
