"""The gateway writes what the library read: random answers of every provider API, read in every client API.

The readers are those of `client_readers`, written from the public documentation of the APIs.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx
import pytest

from client_readers import READERS, Read
from provider_streams import APIS, WRITERS, Answer, Cited, Counts, Item, Writer, arguments, text
from scale import pick
from streamfold import Provider, Reply
from streamfold_gateway import gateway

CASES = pick(250, 4, 1250)  # of each provider API and client API, whole and streamed

PARTS = {
    "chat": ("reasoning", "text", "refusal", "call"),
    "kimi": ("reasoning", "text", "call"),
    "anthropic": ("reasoning", "text", "call"),
    "gemini": ("reasoning", "text", "call"),
    "responses": ("reasoning", "text", "refusal", "call"),
}
CITING = ("chat", "anthropic", "gemini", "responses")


def item(random: Random, api: str, kind: str, at: int) -> Item:
    if kind == "call":
        return Item(kind, arguments(random), random.choice(["f", "get_weather"]), f"call_{at}")
    words = text(random) + ("." if kind == "text" else "")
    if kind != "text":
        return Item(kind, words, continues=random.random() < 0.5)
    citations = []
    if api in CITING and random.random() < 0.3:
        for number in range(random.randint(1, 2)):
            begin = random.randrange(len(words))
            end = random.randint(begin + 1, len(words))
            citations.append(Cited(f"https://example.com/{at}/{number}", f"Source {at}", begin, end))
    phase = random.choice(["", "", "commentary", "final_answer"]) if api == "responses" else ""
    return Item(kind, words, citations=tuple(citations), phase=phase, continues=random.random() < 0.5)


def answer(random: Random, api: str) -> Answer:
    """Returns a random answer that the API can give."""
    kinds = [random.choice(PARTS[api]) for _ in range(random.randint(1, 4))]
    if api in ("chat", "kimi"):  # one message, whose members have one order
        kinds.sort(key=PARTS[api].index)
    finish = random.choice(["stop", "stop", "stop", "length", "filter"])
    if finish != "stop":
        kinds = [kind for kind in kinds if kind != "call"] or ["text"]
    items = [item(random, api, kind, at) for at, kind in enumerate(kinds)]
    cached, reasoning = random.randint(0, 5), random.randint(0, 5)
    counts = Counts(cached + random.randint(1, 9), cached, reasoning + random.randint(1, 9), reasoning)
    return Answer(items, finish, random.choice([None, counts]))


@dataclass
class Upstream(httpx.AsyncBaseTransport):
    """Answers each request with the same answer, streamed or whole as it is wanted."""

    writer: Writer

    def __post_init__(self) -> None:
        self.streamed = False  # how it answered last
        self.stream = b"".join(event.data for event in self.writer.events())
        self.whole = json.dumps(self.writer.whole()).encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        self.streamed = bool(body.get("stream")) or "streamGenerateContent" in request.url.path
        if self.streamed:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self.stream)
        return httpx.Response(200, headers={"content-type": "application/json"}, content=self.whole)


TOOLS = [
    {"name": name, "description": "A tool.", "schema": {"type": "object", "properties": {}}}
    for name in ("f", "get_weather")
]


def asked(client_api: str, streamed: bool) -> tuple[str, dict[str, Any]]:
    """Returns the path and the body of a client's request."""
    if client_api == "chat":
        tools = [
            {"type": "function", "function": {"name": tool["name"], "parameters": tool["schema"]}} for tool in TOOLS
        ]
        body: dict[str, Any] = {"model": "main", "messages": [{"role": "user", "content": "Hello"}], "tools": tools}
        if streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return "/v1/chat/completions", body
    if client_api == "responses":
        tools = [{"type": "function", "name": tool["name"], "parameters": tool["schema"]} for tool in TOOLS]
        return "/v1/responses", {"model": "main", "input": "Hello", "tools": tools, "stream": streamed}
    if client_api == "anthropic":
        tools = [{"name": tool["name"], "input_schema": tool["schema"]} for tool in TOOLS]
        body = {"model": "main", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hello"}], "tools": tools}
        return "/v1/messages", body | {"stream": streamed, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    declared = [{"name": tool["name"], "parameters": tool["schema"]} for tool in TOOLS]
    path = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    return f"/v1beta/models/main:{path}", {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "tools": [{"functionDeclarations": declared}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
    }


FINISHES = {
    "chat": {
        "stop": ["stop"],
        "tool_calls": ["tool_calls"],
        "length": ["length"],
        "content_filter": ["content_filter"],
    },
    "responses": {
        "stop": ["completed"],
        "tool_calls": ["completed"],
        "length": ["max_output_tokens"],
        "content_filter": ["content_filter"],
    },
    "anthropic": {
        "stop": ["end_turn"],
        "tool_calls": ["tool_use"],
        "length": ["max_tokens"],
        "content_filter": ["refusal"],
    },
    "gemini": {"stop": ["STOP"], "tool_calls": ["STOP"], "length": ["MAX_TOKENS"], "content_filter": ["SAFETY"]},
}


def check(client_api: str, read: Read, reply: Reply, given: Answer) -> None:
    """Compares what a client has with what the library has for the same answer."""
    assert read.error is None, read.error
    refusal = reply.refusal or ""
    if client_api in ("chat", "responses"):
        assert (read.text, read.refusal) == (reply.text, refusal)
    else:
        in_order = "".join(item.text for item in given.items if item.kind in ("text", "refusal"))
        assert read.text in (in_order, reply.text + refusal)
    assert read.reasoning == reply.reasoning
    calls = [(call.id, call.name) for call in reply.tool_calls]
    assert [(call_id, name) for call_id, name, _ in read.calls] == calls
    assert [json.loads(text or "{}") for _, _, text in read.calls] == [call.arguments for call in reply.tool_calls]
    if client_api in ("chat", "responses"):
        assert [text for _, _, text in read.calls] == [call.raw_arguments for call in reply.tool_calls]
    assert read.finish in FINISHES[client_api][reply.finish_reason]
    check_usage(client_api, read.usage, reply)
    check_citations(client_api, read, reply)


def check_citations(client_api: str, read: Read, reply: Reply) -> None:
    """No source is added. Chat Completions and the Responses API say where it stands in the text."""
    if client_api in ("chat", "responses"):
        known = Counter((cited.url, cited.title, cited.start, cited.end) for cited in reply.citations)
        found = Counter(
            (cited["url"], cited["title"], cited["start_index"], cited["end_index"]) for cited in read.citations
        )
    else:
        known = Counter((cited.url, cited.title, None, None) for cited in reply.citations)
        found = Counter((cited["url"], cited["title"], None, None) for cited in read.citations)
    assert found <= known


def check_own(client_api: str, read: Read, reply: Reply, given: Answer, writer: Writer, streamed: bool) -> None:
    """In the provider's own API nothing is left out: citations, phases, items and their parts."""
    cited = [(cited.url, cited.title) for item in given.items for cited in item.citations]
    assert [(cited["url"], cited["title"]) for cited in read.citations] == cited
    assert [(cited.url, cited.title) for cited in reply.citations] == cited
    if client_api == "responses":
        sent = writer.whole()["output"]
        if streamed:  # its messages may be cut otherwise
            assert parts(read.items) == parts(sent)
        else:
            assert [bare(item) for item in read.items] == [bare(item) for item in sent]


def bare(item: dict[str, Any]) -> dict[str, Any]:
    """Returns an item of the Responses API without its id, and with what newer versions of the API add as a default."""
    item = {key: value for key, value in item.items() if key != "id"}
    if item["type"] == "message":
        item["content"] = [{"logprobs": []} | part if "text" in part else part for part in item["content"]]
    return item


def parts(items: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Returns kind, phase and text of what items of the Responses API say, whatever message and part it is in."""
    found: list[tuple[str, str, str]] = []
    for item in items:
        if item["type"] == "function_call":
            found.append(("call", "", item["call_id"]))
        for part in item.get("content") or item.get("summary") or ():
            kind, phase, said = part["type"], item.get("phase") or "", part.get("text") or part.get("refusal") or ""
            if found and found[-1][:2] == (kind, phase) and kind != "summary_text":
                said = found.pop()[2] + said
            found.append((kind, phase, said))
    return found


def check_usage(client_api: str, usage: dict[str, Any] | None, reply: Reply) -> None:
    if reply.usage is None:
        assert not usage or client_api == "anthropic"  # which has no answer without
        return
    assert usage is not None
    cached, thought = reply.usage.cached_tokens or 0, reply.usage.reasoning_tokens or 0
    read = {
        "chat": lambda: (
            usage["prompt_tokens"],
            usage["completion_tokens"],
            usage.get("prompt_tokens_details", {}).get("cached_tokens", 0),
            usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0),
        ),
        "responses": lambda: (
            usage["input_tokens"],
            usage["output_tokens"],
            usage["input_tokens_details"]["cached_tokens"],
            usage["output_tokens_details"]["reasoning_tokens"],
        ),
        "anthropic": lambda: (
            usage["input_tokens"] + (usage.get("cache_read_input_tokens") or 0),
            usage["output_tokens"],
            usage.get("cache_read_input_tokens") or 0,
            thought,
        ),
        "gemini": lambda: (
            usage["promptTokenCount"],
            usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0),
            usage.get("cachedContentTokenCount", 0),
            usage.get("thoughtsTokenCount", 0),
        ),
    }[client_api]()
    assert read == (reply.usage.input_tokens, reply.usage.output_tokens, cached, thought)


async def through_the_gateway(api: str, client_api: str, streamed: bool, seed: int) -> None:
    random = Random(f"{api} {client_api} {streamed} {seed}")
    given = answer(random, api)
    upstream = Upstream(WRITERS[api](random, given))
    async with httpx.AsyncClient(transport=upstream) as network:
        provider = Provider.from_config(
            {"adapter": api, "base_url": "http://test/v1", "api_key": "k", "model": "m", "max_retries": 0},
            http_client=network,
        )
        app = gateway({"main": provider}, turn_cache=False, responses=False)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            path, body = asked(client_api, streamed)
            response = await client.post(path, json=body)
        reply = await provider.chat("Hello", stream=upstream.streamed)  # the same bytes
    assert response.status_code == 200, response.text
    read = READERS[client_api](response.content, streamed)
    check(client_api, read, reply, given)
    if client_api == api:
        check_own(client_api, read, reply, given, upstream.writer, streamed)


@pytest.mark.one_loop
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client_api", READERS)
@pytest.mark.parametrize("api", APIS)
async def test_a_client_reads_what_the_library_reads(api: str, client_api: str, streamed: bool) -> None:
    """Text, reasoning, refusals, calls, finish reason and usage are those of `reply`; nothing is added."""
    for seed in range(CASES):
        await through_the_gateway(api, client_api, streamed, seed)
