"""Clients of the Messages API before providers of each API: text, thinking, calls, results, errors, cuts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import corpus
from gateways import MESSAGES, behind
from mirror import emit, looks_whole, payloads, read, written_calls
from streamfold import StreamError
from streamfold.deltas import Delta, Finish, ReasoningDelta, TextDelta
from streamfold.recording import Recording
from streamfold.types import ExtraPart, ToolCallDelta, Usage
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

ADAPTERS = ("chat", "kimi", "responses", "anthropic", "gemini")
TOOLS = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("look", "edit")]
PICTURE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


def written(adapter: str, *deltas: Delta, reason: Any = "stop") -> bytes:
    """An answer in the format of a provider."""
    return emit("chat" if adapter == "kimi" else adapter, [*deltas, Usage(7, 3, 10), Finish(reason, reason)])


def body(*messages: Any, **members: Any) -> dict[str, Any]:
    asked = {"model": "main", "max_tokens": 4000, "messages": [{"role": "user", "content": "Hi"}, *messages]}
    return {**asked, "tools": TOOLS, **THINKING, **members}


def sent(client: Any, at: int) -> str:
    found: str = client.upstream.requests[at].content.decode()
    return found


@each_row("adapter", ADAPTERS)
async def test_an_answer_that_is_cut(adapter: str) -> None:
    """Wherever it is cut, the client never gets what it takes for a whole call, or for the end of a message."""
    whole = written(adapter, TextDelta("I"), ToolCallDelta(0, "c-1", "look", '{"at":1}'), reason="tool_calls")
    ends = [at for at in range(len(whole)) if whole[at - 2 : at] == b"\n\n"]
    finished = 0
    for end in ends[:-1]:
        async with behind(whole[:end], adapter=adapter) as client:
            answer = await client.post(MESSAGES, json=body(stream=True))
        if (
            answer.status_code == 200
            and (kinds := [payload["type"] for payload in payloads(answer.content)])[-1] != "error"
        ):
            finished += 1  # the provider had said that it was done
            assert [call.arguments for call in read("anthropic", answer.content).tool_calls] == [{"at": 1}]
        elif answer.status_code == 200:
            assert not {"message_delta", "message_stop"} & {*kinds}
            assert not any(map(looks_whole, written_calls(answer.content).values()))
            with pytest.raises(StreamError):
                read("anthropic", answer.content)
        else:
            assert answer.json()["type"] == "error"
    assert finished <= 3


@pytest.mark.parametrize("stream", [True, False])
async def test_signed_thinking_makes_the_round(stream: bool) -> None:
    """Anthropic's signature reaches the client behind the thinking that it signs, and Anthropic gets it back."""
    facts = [
        ReasoningDelta("Hm."),
        ExtraPart("signature", "c2ln"),
        TextDelta("I look."),
        ToolCallDelta(0, "toolu_1", "look", "{}", True),
    ]
    first = written("anthropic", *facts, reason="tool_calls")
    hidden = written("anthropic", ExtraPart("signature", "Z2Vo"), ToolCallDelta(0, "toolu_2", "look", "{}", True))
    async with behind(first, hidden, written("anthropic", TextDelta("Done.")), adapter="anthropic") as client:
        turns: list[Any] = []
        for signature, call_id in (("c2ln", "toolu_1"), ("Z2Vo", "toolu_2")):
            answer = await client.post(MESSAGES, json=body(*turns, stream=stream))
            blocks = read("anthropic", answer.content).extras["blocks"]
            assert (blocks[0]["type"], blocks[0]["signature"]) == ("thinking", signature)
            assert blocks[-1]["id"] == call_id
            result = {"type": "tool_result", "tool_use_id": call_id, "content": "1"}
            turns += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
        await client.post(MESSAGES, json=body(*turns, stream=stream))
        asked = json.loads(sent(client, 2))
    written_back = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    for block in (block for blocks in written_back for block in blocks):
        block.pop("caller", None)  # a whole answer has to say that the model called by itself
    assert [turn["content"] for turn in asked["messages"] if turn["role"] == "assistant"] == written_back


# --- requests of real clients -----------------------------------------------------------------------------------------


_NESTED = ("messages", "content", "source", "tools", "system")


def _restored(value: Any) -> Any:
    """A body with something in the place of what was cut out of it: schemas of tools and data of images."""
    match value:
        case list():
            return [_restored(item) for item in value]
        case {"type": "base64", **rest}:
            return {"type": "base64", **rest, "data": PICTURE["source"]["data"]}
        case dict():
            made = {name: _restored(item) if name in _NESTED else item for name, item in value.items()}
            for tool in made.get("tools", ()):
                if tool.get("type", "custom") == "custom":
                    tool["input_schema"] = {"type": "object", "properties": {}}
            return made
    return value


def _requests() -> list[Any]:
    if not (names := corpus.names("real-servers/anthropic/requests/*.json")) or not isinstance(names[0], str):
        return names
    return [
        pytest.param(request, id=f"{Path(name).stem}-{at}")
        for name in names
        for at, request in enumerate(corpus.read_json(name)["requests"])
        if request["method"] == "POST"
    ]


@each_row("adapter", ["kimi", "anthropic"])
@each_row("request_", _requests())
async def test_requests_of_real_clients(request_: dict[str, Any], adapter: str) -> None:
    """Each is answered. What only Anthropic's servers can do is refused by its name before any other provider."""
    asked = {**_restored(request_["body"]), "model": "main"}
    hosted = [tool["type"] for tool in asked.get("tools", []) if tool.get("type", "custom") != "custom"]
    answer_ = written(adapter, TextDelta("Hi"))
    async with behind(Recording("test", answer_, adapter), adapter=adapter) as client:
        headers = {name: value for name, value in request_["headers"].items() if name.startswith("anthropic")}
        answer = await client.post(request_["path"], json=asked, headers=headers)
    if hosted and adapter != "anthropic":
        assert answer.status_code == 400
        assert hosted[0] in answer.json()["error"]["message"]
    elif request_["path"].partition("?")[0].endswith("count_tokens"):
        assert answer.json()["input_tokens"] > 0
    else:
        assert answer.status_code == 200, answer.text
        assert read("anthropic", answer.content).text == "Hi"
        assert isinstance(read("anthropic", answer.content).tool_calls, list)
