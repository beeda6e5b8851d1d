"""Every client before every provider: what is said on one API arrives on the other, and what can't is a warning.

The client is our adapter for an API, the gateway is between, and the provider is a script on its own API. What the
client gets is compared with what it gets without a gateway, and with what the official client of its API reads from
the same bytes; what the provider is sent is compared with what it is sent without a gateway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from anthropic_sdk import anthropic_message
from every_api import PAIRS, scripted, through
from folding import codes
from google_sdk import google_answer, google_interaction
from mirror import openai_chat, openai_response
from scale import pick
from sdks import anthropic, genai, openai
from streamfold import (
    APIError,
    BadRequestError,
    ChatModel,
    IncompleteStreamError,
    Message,
    Provider,
    RateLimitError,
    Reply,
    ServerError,
    Tool,
    UpstreamError,
    image,
    system,
    tool_result,
    user,
)
from streamfold.requests import Request
from streamfold.serving.anthropic import parse_anthropic_request
from streamfold.serving.chat.request import parse_chat_request as parse_chat
from streamfold.serving.gemini import parse_gemini_request
from streamfold.serving.interactions import parse_interactions_request
from streamfold.serving.responses.request import parse_responses_request as parse_responses
from streamfold.testing import call, fail, finish, say, think, usage
from streamfold.types import ImagePart, TextPart
from tables import each_row

# One event loop: what is tried here is the same on both
pytestmark = [pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"), pytest.mark.one_loop]

PNG = b"\x89PNG\r\n\x1a\n"
TOOLS = [
    Tool(name="look_up", description="d", parameters={"type": "object", "properties": {"city": {"type": "string"}}}),
    Tool(name="see", description="e", parameters={"type": "object", "properties": {}}),
]
CALLS = [call("look_up", city="Zürich"), call("see", n=[1, 2.5, None])]


T = TypeVar("T")


def share(cases: Sequence[T], pair: tuple[str, str], quick: int) -> list[T]:
    """All cases in a thorough run, else so many: other ones for each pair, so that all are tried."""
    first, count = PAIRS.index(pair) * quick, pick(len(cases), quick)
    return [cases[(first + at) % len(cases)] for at in range(count)]


# --- what an answer says, to us and to other people's clients ---------------------------------------------------------


@dataclass
class Said:
    """What every reader of an answer must agree on."""

    text: str
    thoughts: str
    calls: list[tuple[str, Any]] = field(default_factory=list)


def of_reply(reply: Reply) -> Said:
    return Said(reply.text, reply.reasoning, [(made.name, made.arguments) for made in reply.tool_calls])


def of_openai_chat(body: bytes) -> Said | None:
    try:
        completion = openai_chat(body)
    except openai.LengthFinishReasonError as cut:
        completion = cut.completion
    except openai.ContentFilterFinishReasonError:  # which tells nothing of what there was
        return None
    message = completion.choices[0].message
    done = message.tool_calls if completion.choices[0].finish_reason == "tool_calls" else None
    calls = [(made.function.name, json.loads(made.function.arguments)) for made in done or ()]
    return Said(message.content or "", getattr(message, "reasoning_content", None) or "", calls)


def of_openai_response(body: bytes) -> Said:
    response = openai_response(body, check=b'"response.failed"' not in body)
    done = [item for item in response.output if item.type == "function_call" and response.status == "completed"]
    calls = [(item.name, json.loads(item.arguments)) for item in done]  # others are not to be run
    thoughts = [part.text for item in response.output if item.type == "reasoning" for part in item.summary]
    return Said(response.output_text, "".join(thoughts), calls)


def of_anthropic(body: bytes) -> Said:
    message = anthropic_message(body)
    blocks = {kind: [block for block in message.content if block.type == kind] for kind in ("text", "thinking")}
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    runnable = calls if message.stop_reason == "tool_use" else []
    text, thoughts = "".join(b.text for b in blocks["text"]), "".join(b.thinking for b in blocks["thinking"])  # type: ignore[union-attr]
    return Said(text, thoughts, runnable)


def of_google(body: bytes) -> Said:
    answer = google_answer(body)
    return Said(answer.text, answer.thoughts, [(name or "", args) for _, name, args in answer.calls])


def of_google_interaction(body: bytes) -> Said:
    answer = google_interaction(body)
    return Said(answer.text, answer.thoughts, [(name or "", args) for _, name, args in answer.calls])


READERS: dict[str, Callable[[bytes], Said | None]] = {
    "chat": of_openai_chat,
    "kimi": of_openai_chat,
    "responses": of_openai_response,
    "anthropic": of_anthropic,
    "gemini": of_google,
    "interactions": of_google_interaction,
}


# --- what a provider is sent ------------------------------------------------------------------------------------------

PARSERS: dict[str, Callable[[Any], Request]] = {
    "chat": parse_chat,
    "kimi": parse_chat,
    "responses": parse_responses,
    "anthropic": parse_anthropic_request,
    "gemini": lambda body: parse_gemini_request(body, "m"),
    "interactions": partial(parse_interactions_request, native=True),
}


@dataclass
class Sent:
    """What a conversation says, however it is written."""

    texts: list[tuple[str, str]] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    results: list[tuple[int, str]] = field(default_factory=list)  # which call, and what it gave


def conversation(provider: str, body: Mapping[str, Any]) -> Sent:
    sent, ids = Sent(), list[str]()
    for message in PARSERS[provider](body).messages:
        content = message.content
        parts = [TextPart(content)] if isinstance(content, str) else list(content or ())
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        sent.images += [part.data or b"" for part in parts if isinstance(part, ImagePart)]
        sent.calls += [(made.name, made.arguments) for made in message.tool_calls]
        ids += [made.id for made in message.tool_calls]
        if message.role == "tool":
            text = "".join(texts).split("\n(an image:")[0].removeprefix("Error: ")
            sent.results.append((ids.index(message.tool_call_id or ""), text))
        else:
            role = "system" if message.role == "developer" else message.role
            sent.texts += [(role, text) for text in texts if text and not text.startswith("an image of the result")]
    return sent


def reasoning_in(provider: str, body: Mapping[str, Any]) -> str | None:
    """The reasoning that a provider gets back, or the signature of it where it signs."""
    signed = {"anthropic": "signature", "gemini": "thoughtSignature"}.get(provider)
    if signed:
        found = [value for name, value in _members(body) if name == signed]
        return next((value for value in found if value and "skip_" not in value), None)
    return next((m.reasoning for m in PARSERS[provider](body).messages if m.reasoning), None)


def _members(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [pair for name, inner in value.items() for pair in [(name, inner), *_members(inner)]]
    return [pair for inner in value for pair in _members(inner)] if isinstance(value, list) else []


# --- answers ----------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, list[Any]] = {
    "text": [say("Grüße", " ", "\u2028", "先生")],
    "thinking": [think("Two cities. ", "First one."), say("I think so.")],
    "one call": [CALLS[0]],
    "parallel calls": [think("Hm."), say("I look."), *CALLS, call("look_up", city="東京")],
    "text after a call": [say("Before. "), CALLS[0], say("After.")],
    "no arguments": [call("see", "{}")],
    "usage": [say("Hi"), usage(12, 34, cached_tokens=5)],
    "its limit": [say("I be"), finish("length")],
    "its limit in a call": [say("I look."), call("look_up", '{"city": "Zü'), finish("length")],
    "its limit behind a call": [say("I look."), CALLS[0], finish("length")],
    "filtered": [say("I can"), CALLS[0], finish("content_filter")],
}


async def asked(model: Provider) -> Reply | UpstreamError:
    try:
        return await model.chat("Hi", TOOLS, reasoning_effort="high")
    except UpstreamError as error:
        return error


CUT = ("its limit in a call", "its limit behind a call", "filtered")


@each_row(("client", "provider"), PAIRS, parts=4)
async def test_answers(client: str, provider: str) -> None:
    """Text, thinking, calls, finish reason and usage are those without a gateway, for us and the official client."""
    for name, steps in share(list(ANSWERS.items()), (client, provider), 2):
        direct = await scripted(provider, steps).chat("Hi", TOOLS, reasoning_effort="high")
        async with through(client, scripted(provider, steps)) as (model, tap):
            reply = await asked(model)
        if isinstance(reply, UpstreamError):
            # Clients of the Messages API run what they have of a call; an error is the only end that stops them.
            assert (client, name in CUT) == ("anthropic", True)
            assert "inside a tool call: look_up" in reply.message
            continue
        assert of_reply(reply) == of_reply(direct), name
        cut = name == "filtered" and client == "interactions"  # that API has no word for a filter
        assert reply.finish_reason == ("length" if cut else direct.finish_reason), name
        official = READERS[client](tap.bodies[0])
        assert official in ((None, of_reply(direct)) if name == "filtered" else (of_reply(direct),)), name
        if direct.usage and direct.usage.total_tokens:
            assert reply.usage, name
            counts = [(u.input_tokens, u.output_tokens, u.cached_tokens) for u in (reply.usage, direct.usage)]
            assert counts[0] == counts[1], name
        assert ("calls_dropped" in codes(direct)) == (b"calls_dropped" in tap.bodies[0]), name  # the client is told


# --- histories --------------------------------------------------------------------------------------------------------


async def talk(model: ChatModel) -> tuple[Reply, Reply]:
    """Two turns: parallel calls, and their results, one with an image and one a failure."""
    messages: list[Message] = [system("Be short."), user("Hi", image(PNG))]
    first = await model.chat(messages, TOOLS, reasoning_effort="high")
    looked, saw = first.tool_calls
    results = [tool_result(looked, ["see it", image(PNG + b"2")]), tool_result(saw, "no camera", error=True)]
    second = await model.chat([*messages, first.message, *results], TOOLS, reasoning_effort="high")
    return first, second


# To which providers a client gives their own reasoning back, or the signature of it, without the turn cache. Chat
# Completions has no place for either, unless the provider is one of those that have added `reasoning_content`, as Kimi.
REASONING_BACK: dict[str, Sequence[str]] = {
    "chat": ("gemini",),  # in Google's own member of a call
    "responses": ("responses", "kimi"),
    "kimi": ("kimi", "gemini"),
    "anthropic": ("anthropic", "gemini"),
    "gemini": ("gemini",),
    "interactions": ("interactions", "kimi"),
}
TAKES_NONE = ("chat",)  # OpenAI's own models do not read reasoning on this API


@each_row(("client", "provider"), PAIRS)
async def test_histories(client: str, provider: str) -> None:
    """The provider is sent the conversation that it is sent without a gateway; reasoning that is lost is told."""
    for cached in share(["memory", False], (client, provider), 1):
        await _check_history(client, provider, cached)


async def _check_history(client: str, provider: str, cached: Any) -> None:
    turns = [[think("Two cities."), say("I look."), *CALLS], ["Done."]]
    direct, inner = scripted(provider, *turns), scripted(provider, *turns)
    await talk(direct)
    async with through(client, inner, turn_cache=cached) as (model, tap):
        _, reply = await talk(model)
    assert reply.text == "Done."
    bodies = [found.requests[1].body for found in (direct, inner)]
    assert conversation(provider, bodies[1]) == conversation(provider, bodies[0])
    reasonings = [reasoning_in(provider, body) for body in bodies]
    assert (reasonings[0] is None) == (provider in TAKES_NONE)
    came_back = reasonings[0] is not None and reasonings[1] == reasonings[0]
    # Turns are remembered by the ids of their calls. Kimi's are made anew by the client, as Kimi counts them.
    remembered = bool(cached) and client != "kimi" and provider not in TAKES_NONE
    assert came_back == (provider in REASONING_BACK[client] or remembered)
    if not came_back:  # the client itself left it out, or the gateway had to
        told = {warning.code for warning in reply.warnings} | _told(tap.bodies[1])
        assert told & {"reasoning_dropped", "lost_reasoning", "provider_data_dropped"}, told


def test_the_guide_says_what_comes_back() -> None:
    """Its table is this one."""
    guide = Path(__file__).parents[3] / "docs" / "guides" / "between-apis.md"
    section = guide.read_text("utf-8").partition("## Reasoning that has to come back")[2]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    clients = ("chat", "responses", "kimi", "anthropic", "gemini")
    providers = ("chat", "responses", "kimi", "anthropic", "gemini")
    for client, (_, *cells) in zip(clients, rows, strict=True):
        for provider, cell in zip(providers, cells, strict=True):
            lost = "lost" if client == "kimi" else "cache"
            own = "yes" if provider in REASONING_BACK[client] else lost
            assert cell == ("not wanted" if provider in TAKES_NONE else own), (client, provider)


def _told(body: bytes) -> set[str]:
    """The codes of the warnings in a stream."""
    words = body.decode().split("streamfold warning ")[1:]
    return {word.partition(":")[0] for word in words}


# --- failures ---------------------------------------------------------------------------------------------------------

REFUSALS: list[tuple[Any, type[APIError]]] = [
    (fail(429, "slow down", retry_after=2), RateLimitError),
    (fail(400, "no such thing"), BadRequestError),
    (fail(503, "overloaded"), ServerError),
    (fail(401, "bad key"), ServerError),  # it was the gateway's key, and the client's own was good
]


@each_row(("client", "provider"), PAIRS)
async def test_refusals(client: str, provider: str) -> None:
    """An error status reaches the client as the same error, with the provider's message and wait."""
    for step, kind in share(REFUSALS, (client, provider), 1):
        async with through(client, scripted(provider, step)) as (model, _):
            with pytest.raises(kind) as caught:
                await model.chat("Hi")
        assert type(caught.value) is kind
        assert step.message in caught.value.message
        assert getattr(caught.value, "retry_after", None) == step.retry_after


BREAKS = {
    "error behind text": [say("Half of"), fail("it broke")],
    "error in a call": [say("Half of"), *CALLS, fail("it broke")],
    "cut in a call": [say("Half of"), *CALLS, fail(IncompleteStreamError)],
}


@each_row(("client", "provider"), PAIRS)
async def test_answers_that_break(client: str, provider: str) -> None:
    """What breaks off ends with an error for us and for the official client, and no call is handed out."""
    for name, steps in share(list(BREAKS.items()), (client, provider), 1):
        async with through(client, scripted(provider, steps)) as (model, tap):
            with pytest.raises(UpstreamError) as caught:
                await model.chat("Hi", TOOLS)
        assert caught.value.partial, name
        assert (caught.value.partial.text, caught.value.partial.tool_calls) == ("Half of", []), name
        with pytest.raises((openai.APIError, anthropic.APIError, genai.errors.APIError)):
            READERS[client](tap.bodies[0])


# --- options ----------------------------------------------------------------------------------------------------------

OWN_OPTIONS = {
    "chat": {"top_k": 3},
    "kimi": {"top_k": 3},
    "responses": {"truncation": "auto"},
    "anthropic": {"top_k": 3},
    "gemini": {"generationConfig": {"topK": 3}},
    "interactions": {"labels": {"a": "b"}},
}
SAME_API = {"chat": ("chat", "kimi"), "kimi": ("chat", "kimi")}


@each_row(("client", "provider"), PAIRS)
async def test_options_of_one_api(client: str, provider: str) -> None:
    """An option that only the client's API has is sent to providers of it, and dropped with a warning for others."""
    inner = scripted(provider, "Hi")
    async with through(client, inner) as (model, tap):
        await model.chat("Hi", extra_body=OWN_OPTIONS[client])
    (name, value), *_ = OWN_OPTIONS[client].items()
    sent = inner.requests[0].body.get(name) == value
    assert sent == (provider in SAME_API.get(client, (client,)))
    assert ("option_dropped" in _told(tap.bodies[0])) == (not sent)


@pytest.mark.parametrize("provider", ["responses", "anthropic", "gemini"])
async def test_kimis_switch_for_thinking(provider: str) -> None:
    """Providers of other APIs do not know it: they get the effort that it means."""
    bodies = []
    for options in ({"extra_body": {"thinking": {"type": "enabled"}}}, {"reasoning_effort": "high"}):
        inner = scripted(provider, "Hi")
        async with through("chat", inner) as (model, _):
            await model.chat("Hi", **options)
        bodies.append(inner.requests[0].body)
    assert bodies[0] == bodies[1]
