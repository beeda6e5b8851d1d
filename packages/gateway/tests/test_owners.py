"""Two users behind one gateway whose conversations are equal but for one field: neither is given what is the other's.

The model answers everybody with the same texts, calls and ids (`call_0`, as several engines count), so that nothing but
the field tells the conversations apart. What it thinks is different, and is the secret of the user.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from gateways import CHAT, MESSAGES, RESPONSES, client_of
from processes import free_port
from streamfold import Provider
from streamfold_gateway import gateway
from valkeys import valkey_server

pytestmark = [pytest.mark.slow, pytest.mark.one_loop]

CONVERSATIONS = 200
KEYS = ("one", "two")
PICTURES = ("iVBORw0KGgo=", "iVBORw0KGgoB")
APIS = ("chat", "responses", "messages", "gemini")


@dataclass(frozen=True)
class Party:
    """A user, and what its conversation has in the fields in which two of them may differ."""

    name: str
    key: str = KEYS[0]
    end_user: dict[str, Any] = field(default_factory=dict)
    instructions: str = "You are helpful."
    reminder: str = "<system-reminder>CLAUDE.md</system-reminder>"
    question: str = "Look."
    call_id: str = "call_0"
    at: int = 0  # an argument of the first call
    text: str = "I look."  # of the first turn
    result: str = "seen"
    picture: str = PICTURES[0]
    swapped: bool = False  # two results have each other's place


def fields_of(api: str, rng: Random) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A field of a request of this API, with a value for each of two users."""
    names = [{"user": name} for name in "ab"], [{"safety_identifier": name} for name in "ab"]
    ends: list[list[dict[str, Any]]] = {
        "chat": [*names, [{"metadata": {"user_id": name}} for name in "ab"], [{}, {"user": "a"}]],
        "responses": [*names, [{"metadata": {"user_id": name}} for name in "ab"], [{}, {"user": "a"}]],
        "messages": [[{"metadata": {"user_id": name}} for name in "ab"], [{}, {"metadata": {"user_id": "a"}}]],
        "gemini": [[{"labels": {"customer": name}} for name in "ab"], [{}, {"labels": {"user": "a"}}]],
    }[api]
    choices: dict[str, Any] = {
        "key": KEYS,
        "end_user": rng.choice(ends),
        "instructions": ("You help Ann.", "You help Bob."),
        "question": ("Look.", "Look!"),
        "at": (0, 1),
        "text": ("I look.", "I am looking."),
        "result": ("seen", "unseen"),
        "picture": PICTURES,
        "swapped": (False, True),
        "reminder": [f"<system-reminder>CLAUDE.md of {name}</system-reminder>" for name in "ab"],
    }
    if api != "gemini":  # whose clients send no ids
        choices["call_id"] = ("call_0", "call_1")
    name = rng.choice(sorted(choices))
    return name, {name: choices[name][0]}, {name: choices[name][1]}


FIRST_SECRET = {"result": 1, "picture": 1, "swapped": 1}  # the first turn that is behind such a field


class Model:
    """The provider: it thinks something else about each user, and says the same to all."""

    def __init__(self) -> None:
        self.party = Party("nobody")
        self.bodies: list[str] = []
        self.calls_tools = True

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(request.content.decode())
        number = sum(message["role"] == "assistant" for message in body["messages"]) if self.calls_tools else 2
        deltas: list[dict[str, Any]] = [{"reasoning_content": secret(self.party, number)}]
        calls = [
            [("look", self.party.call_id, {"at": self.party.at}), ("list", "call_7", {})],
            [("look", "call_0", {})],
        ]
        deltas.append({"content": (self.party.text, "Again.", "Done.")[min(number, 2)]})
        for at, (name, call_id, arguments) in enumerate(calls[number] if number < 2 else ()):
            function = {"name": name, "arguments": json.dumps(arguments)}
            deltas.append({"tool_calls": [{"index": at, "id": call_id, "type": "function", "function": function}]})
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if number < 2 else "stop"}]})
        lines = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
        return httpx.Response(200, content=lines + b"data: [DONE]\n\n", headers={"content-type": "text/event-stream"})


def secret(party: Party, number: int) -> str:
    return f"<secret {number} of {party.name}>"


def turns(party: Party, number: int) -> Iterator[dict[str, Any]]:
    """The first turns of a conversation, without what the model thought."""
    results = [("look", party.call_id, party.result), ("list", "call_7", "nothing")]
    if party.swapped:
        results.reverse()
    if number > 0:
        calls = [("look", party.call_id, {"at": party.at}), ("list", "call_7", {})]
        yield {"text": party.text, "calls": calls, "results": results, "picture": party.picture}
    if number > 1:
        yield {"text": "Again.", "calls": [("look", "call_0", {})], "results": [("look", "call_0", "seen")]}
    if number > 2:
        yield {"text": "Done.", "calls": [], "results": []}


def chat(party: Party, number: int) -> tuple[str, dict[str, Any]]:
    first = [{"type": "text", "text": text} for text in (party.reminder, party.question)]
    messages: list[Any] = [{"role": "system", "content": party.instructions}, {"role": "user", "content": first}]
    for turn in turns(party, number):
        calls = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for name, call_id, arguments in turn["calls"]
        ]
        messages.append({"role": "assistant", "content": turn["text"], **({"tool_calls": calls} if calls else {})})
        messages += [{"role": "tool", "tool_call_id": call_id, "content": text} for _, call_id, text in turn["results"]]
        if "picture" in turn:
            url = f"data:image/png;base64,{turn['picture']}"
            messages.append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    return CHAT, {"messages": ended(messages, {"role": "user", "content": "Thanks."})}


def ended(messages: list[Any], thanks: Any) -> list[Any]:
    return [*messages, thanks] if messages[-1].get("role") in ("assistant", "model") else messages


def responses(party: Party, number: int) -> tuple[str, dict[str, Any]]:
    first = [{"type": "input_text", "text": text} for text in (party.reminder, party.question)]
    items: list[Any] = [{"role": "user", "content": first}]
    for turn in turns(party, number):
        items.append({"role": "assistant", "content": turn["text"]})
        for name, call_id, arguments in turn["calls"]:
            items.append(
                {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
            )
        for _, call_id, text in turn["results"]:
            items.append({"type": "function_call_output", "call_id": call_id, "output": text})
        if "picture" in turn:
            url = f"data:image/png;base64,{turn['picture']}"
            items.append({"role": "user", "content": [{"type": "input_image", "image_url": url}]})
    thanks = {"role": "user", "content": "Thanks."}
    return RESPONSES, {"instructions": party.instructions, "input": ended(items, thanks), "store": False}


def messages(party: Party, number: int) -> tuple[str, dict[str, Any]]:
    said: list[Any] = [{"role": "user", "content": [
        {"type": "text", "text": text} for text in (party.reminder, party.question)
    ]}]  # fmt: skip
    for turn in turns(party, number):
        blocks: list[Any] = [{"type": "text", "text": turn["text"]}]
        blocks += [
            {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            for name, call_id, arguments in turn["calls"]
        ]
        said.append({"role": "assistant", "content": blocks})
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text} for _, call_id, text in turn["results"]
        ]
        if "picture" in turn:
            source = {"type": "base64", "media_type": "image/png", "data": turn["picture"]}
            results.append({"type": "image", "source": source})
        if results:
            said.append({"role": "user", "content": results})
    said = ended(said, {"role": "user", "content": "Thanks."})
    return MESSAGES, {"system": party.instructions, "max_tokens": 1000, "messages": said}


def gemini(party: Party, number: int) -> tuple[str, dict[str, Any]]:
    contents: list[Any] = [{"role": "user", "parts": [{"text": party.reminder}, {"text": party.question}]}]
    for turn in turns(party, number):
        parts: list[Any] = [{"text": turn["text"]}]
        parts += [{"functionCall": {"name": name, "args": arguments}} for name, _, arguments in turn["calls"]]
        contents.append({"role": "model", "parts": parts})
        results: list[Any] = [
            {"functionResponse": {"name": name, "response": {"result": text}}} for name, _, text in turn["results"]
        ]
        if "picture" in turn:
            results.append({"inlineData": {"mimeType": "image/png", "data": turn["picture"]}})
        if results:
            contents.append({"role": "user", "parts": results})
    contents = ended(contents, {"role": "user", "parts": [{"text": "Thanks."}]})
    return "/v1beta/models/main:generateContent", {
        "systemInstruction": {"parts": [{"text": party.instructions}]},
        "contents": contents,
    }


BODIES = {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}


def offered(api: str, number: int) -> list[dict[str, Any]]:
    """More tools with each request, as agents load them late."""
    names = [f"tool_{at}" for at in range(number)]
    schema = {"type": "object", "properties": {}}
    if api == "chat":
        return [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]
    if api == "responses":
        return [{"type": "function", "name": name, "parameters": schema} for name in names]
    if api == "messages":
        return [{"name": name, "input_schema": schema} for name in names]
    return [{"functionDeclarations": [{"name": name} for name in names]}] if names else []


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with valkey_server(tmp_path_factory.mktemp("valkey"), "--port", str(port)):
        yield f"valkey://127.0.0.1:{port}"


@pytest.fixture(params=["memory", "sqlite", "valkey"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "valkey":
        return str(request.getfixturevalue("valkey_url"))
    return f"sqlite:///{tmp_path}/turns.db" if request.param == "sqlite" else "memory"


class Served:
    """A gateway that can be started again; what it keeps is in `place`."""

    def __init__(self, place: str) -> None:
        self.place, self.model = place, Model()
        self._network = httpx.AsyncClient(transport=httpx.MockTransport(self.model.answer))
        config: dict[str, Any] = {"profile": "kimi", "model": "kimi-k2.6", "api_key": "k", "max_retries": 0}
        self._provider = Provider.from_config(config, http_client=self._network)
        self._open()

    def _open(self) -> None:
        self._app = gateway({"main": self._provider}, keys=KEYS, turn_cache=self.place, responses=self.place)
        self._client = client_of(self._app)

    async def restart(self) -> None:
        await self._client.aclose()
        await self._app.aclose()
        self._open()

    async def ask(self, party: Party, path: str, body: dict[str, Any]) -> httpx.Response:
        """The answer to a request; what its provider got is the last one of `model.bodies`."""
        self.model.party = party
        self.model.bodies.clear()
        headers = {"authorization": f"Bearer {party.key}"}
        return await self._client.post(path, json={"model": "main", **body, **party.end_user}, headers=headers)

    async def get(self, party: Party, path: str) -> httpx.Response:
        return await self._client.get(path, headers={"authorization": f"Bearer {party.key}"})

    @property
    def sent(self) -> str:
        return "".join(self.model.bodies)

    async def aclose(self) -> None:
        await self._client.aclose()
        await self._app.aclose()
        await self._provider.aclose()
        await self._network.aclose()


@asynccontextmanager
async def serving(place: str) -> AsyncIterator[Served]:
    served = Served(place)
    try:
        yield served
    finally:
        await served.aclose()


async def test_no_turn_is_given_to_another(place: str) -> None:
    """Whatever the field, the order and the API: no request has what the model thought for another user."""
    rng, given_back = Random(47), 0
    async with serving(place) as served:
        for conversation in range(CONVERSATIONS):
            api = rng.choice(APIS)
            name, *values = fields_of(api, rng)
            common = f"Look, {conversation}."
            two = [
                Party(f"{conversation}{who}", **{"question": common, **value})
                for who, value in zip("ab", values, strict=True)
            ]
            if name == "question":
                two = [replace(party, question=f"{common}{party.question}") for party in two]
            steps = [(party, number) for party in two for number in range(4)]
            rng.shuffle(steps)
            for party, number in sorted(steps, key=lambda step: step[1] + rng.random() * 2):
                if rng.random() < 0.02:
                    await served.restart()
                path, body = BODIES[api](party, number)
                body["tools"] = offered(api, number)
                answer = await served.ask(party, path, body)
                assert answer.status_code == 200, answer.text
                other = two[party is two[0]]
                for at in range(FIRST_SECRET.get(name, 0), 4):
                    assert secret(other, at) not in served.sent, (api, name, number)
                given_back += sum(secret(party, at) in served.sent for at in range(number))
    # Of up to 6 turns of each of two users: the order is any, and a store in memory forgets with each restart.
    assert given_back > CONVERSATIONS * 4


async def test_no_response_is_given_to_another(place: str) -> None:
    """A response is continued, fetched and deleted for its own user alone, and its id is one that the gateway made."""
    rng = Random(48)
    ends = [
        ("key", KEYS),
        ("end_user", [{"user": "a"}, {"user": "b"}]),
        ("end_user", [{"safety_identifier": "a"}, {"safety_identifier": "b"}]),
        ("end_user", [{"metadata": {"user_id": "a"}}, {"metadata": {"user_id": "b"}}]),
        ("end_user", [{}, {"user": "b"}]),
        ("end_user", [{"user": "a"}, {}]),
    ]
    async with serving(place) as served:
        served.model.calls_tools = False
        for conversation in range(CONVERSATIONS):
            name, values = rng.choice(ends)
            two = [Party(f"{conversation}{who}", **{name: value}) for who, value in zip("ab", values, strict=True)]
            last: dict[str, str] = {}
            ids: set[str] = set()
            for _ in range(6):
                party = rng.choice(two)
                other = two[party is two[0]]
                if rng.random() < 0.05:
                    await served.restart()
                    last = last if served.place != "memory" else {}
                how = rng.choice([{}, {"store": True}, {"background": True, "stream": True}, {"stream": True}])
                body = {"input": f"I am {party.name}.", **how}
                if party.name in last:
                    body["previous_response_id"] = last[party.name]
                answer = await served.ask(party, RESPONSES, body)
                assert answer.status_code == 200, answer.text
                assert f"I am {party.name}." in served.sent
                assert f"I am {other.name}." not in served.sent
                last[party.name] = response_id(answer)
                assert last[party.name] not in ids
                ids.add(last[party.name])
                if other.name not in last:
                    continue
                stolen = last[other.name]
                refused = await served.ask(party, RESPONSES, {"input": "Who?", "previous_response_id": stolen})
                assert refused.status_code == 400, f"{other.name} is read by {party.name}"
                assert refused.json()["error"]["code"] == "previous_response_not_found"
                items = [
                    {"type": "item_reference", "id": f"msg_{stolen.removeprefix('resp_')}_1"},
                    {"role": "user", "content": "Who?"},
                ]
                await served.ask(party, RESPONSES, {"input": items})
                assert other.name not in served.sent
                if name == "key":
                    for path in (f"{RESPONSES}/{stolen}", f"{RESPONSES}/{stolen}/input_items"):
                        assert (await served.get(party, path)).status_code == 404
                    assert (await served.get(other, f"{RESPONSES}/{stolen}")).status_code == 200


def response_id(answer: httpx.Response) -> str:
    if answer.headers["content-type"].startswith("application/json"):
        return str(answer.json()["id"])
    lines = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    return str(lines[0]["response"]["id"])
