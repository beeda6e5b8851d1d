"""Answers with hosted tools (`made_hosted.py`): nothing lost, in order, at any cut, and back as it came."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import httpx
import pytest

import scale
from folding import random_cut
from made_hosted import MAKERS
from mirror import read, serializer
from streamfold import HostedPart, Message, Provider, Reply, StreamDecoder, user
from streamfold.serving import ReplyWriter
from streamfold.serving.reply_deltas import reply_deltas
from streamfold_repair.rewriter import StreamRewriter
from streamfold_repair.stream_repair import RepairSettings

SECRETS = ("EncEnc", "EnB", "Eo8", "gAAA", "c2ln", "srvtoolu", "cntr_1")  # what only its maker may see again
PROFILES = {"anthropic": "anthropic:claude-sonnet-5", "gemini": "gemini:gemini-3-pro-preview",
            "responses": "openai-responses:gpt-5.4"}  # fmt: skip
EACH = pytest.mark.parametrize("api", MAKERS)
F = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def told(parts: tuple[HostedPart, ...]) -> list[tuple[str, str, str | None]]:
    return [(part.kind, part.part, part.error) for part in parts]


@EACH
def test_what_was_done_is_told_at_any_cut(api: str) -> None:
    """Hosted parts, citations, files, calls and text."""
    for seed in range(scale.pick(3000, 60)):
        rng = Random(seed)
        made = MAKERS[api](rng)
        decoder = StreamDecoder(api)
        cut = rng.choice([[made.body], [bytes([one]) for one in made.body], random_cut(made.body, rng)])
        chunks = [chunk for piece in cut for chunk in decoder.feed(piece)]
        decoder.close()
        reply = decoder.reply
        assert reply.text == made.text, seed
        assert told(reply.hosted) == made.hosted, seed
        assert [(one.url, one.start, one.end) for one in reply.citations] == made.cited, seed
        assert [(one.file_id, one.data) for one in reply.files] == made.files, seed
        assert [(one.name, one.arguments) for one in reply.tool_calls] == made.calls, seed
        shown = [part.raw for chunk in chunks for part in chunk.hosted]
        assert all(part.raw in shown for part in reply.hosted), seed
        assert reply.message.hosted == reply.hosted, seed
        assert Message.from_dict(json.loads(json.dumps(reply.message.to_dict()))) == reply.message, seed


async def answered(profile: str, body: bytes) -> Message:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=body, headers={"content-type": "text/event-stream"})

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    async with Provider.from_config(profile, api_key="k", http_client=client) as provider:
        return (await provider.chat("Hi", [F])).message


def results(message: Message) -> list[Message]:
    return [Message("tool", "1", tool_call_id=call.id) for call in message.tool_calls]


def sent_back(api: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    if api == "anthropic":
        return [block for turn in body["messages"] if turn["role"] == "assistant" for block in turn["content"]]
    if api == "gemini":
        return [part for turn in body["contents"] if turn["role"] == "model" for part in turn["parts"]]
    return [item for item in body["input"] if item.get("role") != "user" and "output" not in item.get("type", "")]


@EACH
async def test_it_goes_back_to_its_maker_and_to_nobody_else(api: str) -> None:
    """Verbatim and in order; another provider gets the text and the calls, and a warning names the rest."""
    others = {name: Provider.from_config(profile, api_key="k") for name, profile in PROFILES.items()}
    for seed in range(scale.pick(1000, 24)):
        made = MAKERS[api](Random(seed))
        message = await answered(PROFILES[api], made.body)
        turns = [user("Hi"), message, *(results(message) or [user("On")])]
        for name, other in others.items():
            preview = other.preview(turns, [F], repair_history=True)
            if name == api:
                sent = sent_back(name, preview.json())
                assert back(api, sent) == back(api, made.back), seed
                assert not [one for one in preview.warnings if one.code == "provider_data_dropped"], seed
                continue
            written = json.dumps(preview.json(), ensure_ascii=False)
            assert not [word for word in SECRETS if word in written], (seed, name)
            if made.text:
                assert json.dumps(made.text, ensure_ascii=False)[1:-1] in written, seed
            dropped = " ".join(one.detail for one in preview.warnings)  # a turn of nothing else is left out as a whole
            assert "has only items" in dropped or all(
                kind in dropped for kind, _, _ in made.hosted if kind != "unknown"
            ), (seed, name, dropped)


def back(api: str, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if api == "gemini":  # the pieces of a text are one
        joined: list[dict[str, Any]] = []
        for part in blocks:
            if part.keys() == {"text"} and joined and joined[-1].keys() == {"text"}:
                joined[-1] = {"text": joined[-1]["text"] + part["text"]}
            else:
                joined.append(part)
        return joined
    return blocks


def everything(reply: Reply) -> list[Any]:
    cited = [(one.url, one.start, one.end) for one in reply.citations]
    calls = [(one.kind, one.name, one.arguments) for one in reply.tool_calls]
    return [reply.text, told(reply.hosted), cited, [(one.file_id, one.data) for one in reply.files], calls]


@EACH
def test_it_is_the_same_when_it_is_written_again(api: str) -> None:
    """By a gateway and by the repair of somebody else's client, at any cut; and from the reply alone."""
    for seed in range(scale.pick(1000, 24)):
        rng = Random(seed)
        body = MAKERS[api](rng).body
        reply = read(api, body)
        for writer in (StreamRewriter(api, ReplyWriter(serializer(api))), RepairSettings().stream(api, {})):
            out = b"".join([writer.feed(piece) for piece in random_cut(body, rng)]) + writer.close()
            assert everything(read(api, out)) == everything(reply), seed
        if api == "responses":
            made = serializer(api)
            out = made.feed_all(reply_deltas(reply)) + made.finish()
            assert everything(read(api, out)) == everything(reply), seed
