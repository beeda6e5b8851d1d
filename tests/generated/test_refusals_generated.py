"""Refusals in a history go to every wire format: as text where there is no place, with a warning.

Each text of a random history is unique, so that it can be found again in what is sent, whatever the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest

from client_readers import READERS
from provider_streams import APIS, WRITERS, Answer, Item
from scale import pick
from streamfold import Message, Provider, StreamDecoder, ToolCall, assistant, tool_result, user

CASES = pick(500, 25, 5000)  # of each wire format


class Turn(NamedTuple):
    """A turn of a conversation, whoever says it."""

    role: str
    text: str = ""
    refusal: str = ""
    call: str = ""  # id of a call
    result: str = ""


class Sent(NamedTuple):
    """A text in a request: who said it, and whether it stands where the API has refusals."""

    role: str
    text: str
    refusal: bool = False


def history(random: Random) -> list[Turn]:
    """Returns a conversation in which the assistant refuses now and then, alone and beside text."""
    turns = [Turn("user", "user 0;")]
    for at in range(random.randint(1, 4)):
        kind = random.choice(["refusal", "both", "text", "call", "refusal and call"])
        text = f"text {at};" if kind in ("both", "text") else ""
        refusal = f"refusal {at}, ich darf nicht é;" if "refusal" in kind or kind == "both" else ""
        call = f"call_{at}" if "call" in kind else ""
        turns.append(Turn("assistant", text, refusal, call))
        if call:
            turns.append(Turn("tool", call=call, result=f"result {at};"))
        if not call or random.random() < 0.5:
            turns.append(Turn("user", f"user {at + 1};"))
    return turns


def decoded(api: str, turn: Turn, random: Random) -> Message:
    """Returns the turn as the library makes it of an answer."""
    items = [Item("text", turn.text)] if turn.text else []
    items += [Item("refusal", turn.refusal)] if turn.refusal else []
    items += [Item("call", "{}", "f", turn.call)] if turn.call else []
    decoder = StreamDecoder(api)
    decoder.feed(b"".join(event.data for event in WRITERS[api](random, Answer(items)).events()))
    decoder.close()
    return decoder.reply.message


def chat_message(turn: Turn, random: Random) -> dict[str, Any]:
    """Returns the turn as Chat Completions has it, with a refusal as a member or as a part."""
    if turn.role == "user":
        return {"role": "user", "content": turn.text}
    if turn.role == "tool":
        return {"role": "tool", "tool_call_id": turn.call, "content": turn.result}
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.refusal and random.random() < 0.5:
        message["content"] = [{"type": "text", "text": turn.text}] if turn.text else []
        message["content"].append({"type": "refusal", "refusal": turn.refusal})
    elif turn.refusal:
        message["refusal"] = turn.refusal
    if turn.call:
        message["tool_calls"] = [{"id": turn.call, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    return message


def responses_items(turn: Turn, random: Random) -> Iterator[dict[str, Any]]:
    """Returns the turn as the Responses API has it, in one message or in two."""
    if turn.role == "user":
        yield {"role": "user", "content": turn.text}
    if turn.role == "tool":
        yield {"type": "function_call_output", "call_id": turn.call, "output": turn.result}
    parts: list[dict[str, Any]] = []
    if turn.role == "assistant" and turn.text:
        parts.append({"type": "output_text", "text": turn.text, "annotations": []})
    if turn.refusal:
        parts.append({"type": "refusal", "refusal": turn.refusal})
    groups = [[part] for part in parts] if random.random() < 0.5 else [parts]
    for at, group in enumerate(groups):
        if group:
            made = f"msg_{turn.text}{turn.refusal}{at}".encode().hex()[:40]
            yield {"type": "message", "id": made, "status": "completed", "role": "assistant", "content": group}
    if turn.role == "assistant" and turn.call:
        yield {"type": "function_call", "call_id": turn.call, "name": "f", "arguments": "{}"}


def library_message(turn: Turn, random: Random) -> Message | dict[str, Any]:
    """Returns the turn as a program may have it."""
    if turn.role == "user":
        return user(turn.text)
    call = ToolCall(turn.call, "f", {}, "{}")
    if turn.role == "tool":
        return tool_result(call, turn.result)
    if not turn.refusal:
        return assistant(turn.text or None, tool_calls=[call] if turn.call else [])
    form = random.choice(["message", "dict", "chat", "responses"])
    if form == "message":
        return Message("assistant", turn.text or None, (call,) if turn.call else (), refusal=turn.refusal)
    if form == "dict":
        return chat_message(turn, random)
    return decoded(form, turn, random)


def sent_chat(body: dict[str, Any]) -> Iterator[Sent]:
    for message in body["messages"]:
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        for part in parts:
            yield Sent(message["role"], part.get("refusal") or part.get("text"), part["type"] == "refusal")
        if message.get("refusal"):
            yield Sent(message["role"], message["refusal"], True)


def sent_responses(body: dict[str, Any]) -> Iterator[Sent]:
    if isinstance(body["input"], str):
        yield Sent("user", body["input"])
        return
    for item in body["input"]:
        if item.get("type", "message") == "function_call_output":
            yield Sent("tool", item["output"])
        elif item.get("type", "message") == "message":
            content = item["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                yield Sent(item["role"], part.get("refusal") or part.get("text"), part["type"] == "refusal")


def sent_anthropic(body: dict[str, Any]) -> Iterator[Sent]:
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                yield Sent(message["role"], block["text"])
            elif block["type"] == "tool_result":
                yield Sent("tool", json.dumps(block["content"], ensure_ascii=False))


def sent_gemini(body: dict[str, Any]) -> Iterator[Sent]:
    for content in body["contents"]:
        for part in content["parts"]:
            if "text" in part:
                yield Sent({"model": "assistant"}.get(content["role"], content["role"]), part["text"])
            elif "functionResponse" in part:
                yield Sent("tool", json.dumps(part["functionResponse"]["response"], ensure_ascii=False))


SENT: dict[str, Callable[[dict[str, Any]], Iterator[Sent]]] = {
    "chat": sent_chat,
    "kimi": sent_chat,
    "responses": sent_responses,
    "anthropic": sent_anthropic,
    "gemini": sent_gemini,
}


def check(api: str, turns: list[Turn], body: dict[str, Any], warnings: str, context: object) -> None:
    """Every text is sent once, by who said it, in order; a refusal that is sent as text has a warning."""
    sent = list(SENT[api](body))
    places = []
    for turn in turns:
        for text in (turn.text, turn.refusal, turn.result):
            if not text:
                continue
            found = [(at, one.text.index(text)) for at, one in enumerate(sent) if text in one.text]
            assert len(found) == 1, (context, text, sent)
            assert sum(one.text.count(text) for one in sent) == 1, (context, text, sent)
            places.append(found[0])
            one = sent[found[0][0]]
            assert one.role == turn.role, (context, text, one)
            if text == turn.refusal and not one.refusal:
                assert api != "responses", (context, one)
                assert "refusal" in warnings, (context, warnings)
            elif text != turn.refusal:
                assert not one.refusal, (context, one)
    assert places == sorted(places), (context, sent)


NAMES = {"openai": "chat", "azure": "chat", "openai-responses": "responses", "kimi": "kimi", "anthropic": "anthropic",
         "gemini": "gemini", "deepseek": "chat", "vllm": "chat", "groq": "chat", "mistral": "chat"}  # fmt: skip


def in_the_library(api: str, seed: int) -> None:
    random = Random(f"{api} {seed}")
    turns = history(random)
    messages = [library_message(turn, random) for turn in turns]
    provider = Provider.from_config({"adapter": api, "base_url": "http://test/v1", "model": "m"})
    preview = provider.preview(messages)
    check(api, turns, preview.json(), "\n".join(warning.detail for warning in preview.warnings), seed)


@pytest.mark.parametrize("api", APIS)
def test_refusals_of_a_history(api: str) -> None:
    """A refusal is sent in the assistant's turn, alone and beside text, however the program has it."""
    for seed in range(CASES):
        in_the_library(api, seed)


def in_the_catalogue(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    turns = history(random)
    messages = [library_message(turn, random) for turn in turns]
    preview = Provider.from_config(f"{name}:m").preview(messages)
    check(NAMES[name], turns, preview.json(), "\n".join(warning.detail for warning in preview.warnings), seed)
    placed = [one.refusal for one in SENT[NAMES[name]](preview.json()) if one.text.startswith("refusal")]
    assert all(one is (name in ("openai", "azure", "openai-responses")) for one in placed), seed


@pytest.mark.parametrize("name", NAMES)
def test_refusals_for_providers_of_the_catalogue(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI gets a refusal where its APIs have one; every other provider gets it as text, with a warning."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://example.com")
    for seed in range(pick(100, 5, 500)):
        in_the_catalogue(name, seed)


class Upstream(httpx.AsyncBaseTransport):
    """Answers each request with the same answer, and keeps what it was sent."""

    def __init__(self, api: str, random: Random, answer: Answer) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.stream = b"".join(event.data for event in WRITERS[api](random, answer).events())
        self.whole = json.dumps(WRITERS[api](random, answer).whole()).encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        self.bodies.append(body)
        if body.get("stream") or "streamGenerateContent" in request.url.path:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self.stream)
        return httpx.Response(200, headers={"content-type": "application/json"}, content=self.whole)


async def of_a_client(api: str, client_api: str, seed: int) -> None:
    random = Random(f"{api} {client_api} {seed}")
    turns = history(random)
    upstream = Upstream(api, random, Answer([Item("text", "fine")]))
    async with httpx.AsyncClient(transport=upstream) as network:
        provider = Provider.from_config(
            {"adapter": api, "base_url": "http://test/v1", "api_key": "k", "model": "m"}, http_client=network
        )
        app = pytest.importorskip("streamfold_gateway").gateway({"main": provider})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            if client_api == "chat":
                path, said = "/v1/chat/completions", {"messages": [chat_message(turn, random) for turn in turns]}
            else:
                said = {"input": [item for turn in turns for item in responses_items(turn, random)]}
                path = "/v1/responses"
            response = await client.post(path, json={"model": "main", **said})
    assert response.status_code == 200, (seed, response.text)
    check(api, turns, upstream.bodies[-1], response.headers.get("x-streamfold-warnings", ""), seed)


@pytest.mark.one_loop
@pytest.mark.parametrize("client_api", ["chat", "responses"])
@pytest.mark.parametrize("api", APIS)
async def test_refusals_of_a_clients_history(api: str, client_api: str) -> None:
    """The gateway sends the refusals of a client's history to a provider of any wire format, with a warning header."""
    for seed in range(pick(100, 8, 500)):
        await of_a_client(api, client_api, seed)


def question(client_api: str, messages: list[Any], streamed: bool) -> tuple[str, dict[str, Any]]:
    if client_api == "gemini":
        return f"/v1beta/models/main:{'streamGenerateContent?alt=sse' if streamed else 'generateContent'}", {
            "contents": messages
        }
    path, member = {
        "chat": ("/v1/chat/completions", "messages"),
        "responses": ("/v1/responses", "input"),
        "anthropic": ("/v1/messages", "messages"),
    }[client_api]
    body = {"model": "main", member: messages, "stream": streamed}
    return path, body | ({"max_tokens": 100} if client_api == "anthropic" else {})


def said(client_api: str, role: str, text: str) -> dict[str, Any]:
    if client_api == "gemini":
        return {"role": {"assistant": "model"}.get(role, role), "parts": [{"text": text}]}
    return {"role": role, "content": text}


async def sent_back(api: str, client_api: str, seed: int) -> None:
    random = Random(f"back {api} {client_api} {seed}")
    turns = [
        Turn("user", "user 0;"),
        Turn("assistant", random.choice(["", "text 0;"]), "refusal 0;"),
        Turn("user", "user 1;"),
    ]
    items = [Item("text", turns[1].text)] if turns[1].text else []
    upstream = Upstream(api, random, Answer([*items, Item("refusal", turns[1].refusal)]))
    async with httpx.AsyncClient(transport=upstream) as network:
        provider = Provider.from_config(
            {"adapter": api, "base_url": "http://test/v1", "api_key": "k", "model": "m"}, http_client=network
        )
        app = pytest.importorskip("streamfold_gateway").gateway({"main": provider})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            messages: list[Any] = [said(client_api, "user", turns[0].text)]
            streamed = random.random() < 0.5
            path, body = question(client_api, messages, streamed)
            read = READERS[client_api]((await client.post(path, json=body)).content, streamed)
            assert turns[1].refusal in read.text + read.refusal
            if client_api == "chat":
                messages.append({"role": "assistant", "content": read.text or None, "refusal": read.refusal or None})
            elif client_api == "responses":
                messages += read.items
            else:
                messages.append(said(client_api, "assistant", read.text))
            messages.append(said(client_api, "user", turns[2].text))
            response = await client.post(
                *question(client_api, messages, False)[:1], json=question(client_api, messages, False)[1]
            )
    assert response.status_code == 200, (seed, response.text)
    sent = [one.text for one in SENT[api](upstream.bodies[-1])]
    for text in (turns[1].text, turns[1].refusal):
        assert sum(one.count(text) for one in sent if text) == bool(text), (seed, sent)


@pytest.mark.one_loop
@pytest.mark.parametrize("client_api", READERS)
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_refusal_that_a_client_sends_back(api: str, client_api: str) -> None:
    """A refusal that came through the gateway goes back once, whatever the client has for it."""
    for seed in range(pick(100, 4, 500)):
        await sent_back(api, client_api, seed)
