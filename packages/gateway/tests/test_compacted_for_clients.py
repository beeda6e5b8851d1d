"""`POST /v1/responses/compact`: conversations that the provider behind the gateway compacts."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from gateways import MESSAGES, RESPONSES, behind, client_of
from streamfold import Provider
from streamfold.stores import MemoryStore
from streamfold.testing import ScriptedProvider
from streamfold_gateway import gateway
from tables import each_row

SAID = {
    "id": "msg_1", "type": "message", "status": "completed", "role": "user",
    "content": [{"type": "input_text", "text": "Look."}],
}  # fmt: skip
OPAQUE = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAA"}
USAGE = {
    "input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip
COMPACTED = json.dumps(
    {"id": "resp_up", "object": "response.compaction", "created_at": 1, "output": [SAID, OPAQUE], "usage": USAGE}
).encode()
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
TALK = [
    {"type": "message", "role": "user", "content": "Look."},
    CALL,
    {"type": "function_call_output", "call_id": "c1", "output": "A cat."},
]


def answer(text: str) -> bytes:
    message = {"type": "message", "id": "msg_9", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": text, "annotations": []}]}  # fmt: skip
    whole = {"id": "resp_9", "object": "response", "status": "completed", "output": [message], "usage": USAGE}
    return json.dumps(whole).encode()


async def test_the_provider_compacts() -> None:
    """Its items come back unchanged, and the client's next input is sent as the client wrote it: with both."""
    async with behind(COMPACTED, answer("A cat."), adapter="responses") as client:
        body = {"model": "main", "input": TALK, "instructions": "Be brief."}
        compacted = await client.post(f"{RESPONSES}/compact", json=body)
        found = compacted.json()
        then = {"type": "message", "role": "user", "content": "And now?"}
        after = await client.post(RESPONSES, json={"model": "main", "input": [*found["output"], then]})
        first, second = client.upstream.requests  # type: ignore[attr-defined]
    assert compacted.status_code == 200, compacted.text
    assert (found["object"], found["output"], found["usage"]) == ("response.compaction", [SAID, OPAQUE], USAGE)
    assert found["id"] == compacted.headers["x-request-id"]
    assert first.url.path == "/v1/responses/compact"
    sent = json.loads(first.content)
    assert sorted(sent) == ["input", "instructions", "model"]
    assert sent["input"][1:] == TALK[1:]
    assert after.status_code == 200, after.text
    assert json.loads(second.content)["input"] == [SAID, OPAQUE, then]


class Read(MemoryStore):
    """A store of turns that notes whose turns were looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: list[str] = []

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        self.owners.append(owner)
        return await super().get(owner, keys)


async def test_no_turn_is_restored_to_be_compacted() -> None:
    """The turn cache isn't read: its turns have owners, and a summary goes to the one who asked for it."""
    store = Read()
    async with behind(COMPACTED, answer("A cat."), adapter="responses", turn_cache=store, keys=["k"]) as client:
        headers = {"authorization": "Bearer k"}
        await client.post(f"{RESPONSES}/compact", json={"model": "main", "input": TALK}, headers=headers)
        assert store.owners == []
        await client.post(RESPONSES, json={"model": "main", "input": TALK}, headers=headers)
    assert len(store.owners) == 1
    assert store.owners != [""]


async def test_what_is_not_compacted_stays() -> None:
    """A provider gets the opening instructions as such, and compacts what follows: the client keeps them."""
    rules = {"type": "message", "role": "developer", "content": "Be brief."}
    async with behind(COMPACTED, adapter="responses") as client:
        compacted = await client.post(f"{RESPONSES}/compact", json={"model": "main", "input": [rules, *TALK]})
        [request] = client.upstream.requests  # type: ignore[attr-defined]
    assert compacted.json()["output"] == [rules, SAID, OPAQUE]
    assert json.loads(request.content)["instructions"] == "Be brief."


@each_row("stored", [True, False])
async def test_a_stored_conversation(stored: bool) -> None:
    """It is compacted whole if it is stored here; else the member is refused that names it."""
    async with behind(answer("A cat."), COMPACTED, adapter="responses", responses=stored) as client:
        first = await client.post(RESPONSES, json={"model": "main", "input": "What is it?"})
        body = {"model": "main", "input": "Sure?", "previous_response_id": first.json()["id"]}
        compacted = await client.post(f"{RESPONSES}/compact", json=body)
        requests = client.upstream.requests  # type: ignore[attr-defined]
    if not stored:
        assert (compacted.status_code, len(requests)) == (400, 1)
        assert compacted.json()["error"]["message"].startswith("previous_response_id")
        return
    assert compacted.json()["output"] == [SAID, OPAQUE]
    texts = [item["content"] for item in json.loads(requests[1].content)["input"]]
    assert texts[0] == "What is it?"
    assert texts[1][0]["text"] == "A cat."
    assert texts[2] == "Sure?"


@each_row("adapter", ["chat", "anthropic", "gemini", "kimi"])
async def test_a_provider_of_another_api(adapter: str) -> None:
    """The endpoint isn't there for its models, as at servers without it; nothing is sent."""
    async with behind(b"{}", adapter=adapter) as client:
        refused = await client.post(f"{RESPONSES}/compact", json={"model": "main", "input": "Hi"})
        assert not client.upstream.requests  # type: ignore[attr-defined]
    assert refused.status_code == 404
    assert "doesn't compact conversations" in refused.json()["error"]["message"]


async def test_a_compaction_is_charged() -> None:
    """It counts as the tokens that it is, within the limits of the client's key."""
    keys = {"alice": {"key": "sk-alice-key-1234567890", "tpm": 1000}}
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=COMPACTED))) as up:
        config = {"base_url": "http://upstream/v1", "model": "m-1", "adapter": "responses", "max_retries": 0}
        app = gateway({"main": Provider.from_config(config, http_client=up)}, keys=keys)
        async with client_of(app) as client:
            client.headers["authorization"] = "Bearer sk-alice-key-1234567890"
            said = [
                (await client.post(f"{RESPONSES}/compact", json={"model": "main", "input": TALK})).status_code
                for _ in range(2)
            ]
    assert said == [200, 429]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # its type of messages is an answer's
async def test_openais_client() -> None:
    """`client.responses.compact` reads what the gateway writes, and sends it back."""
    async with behind(COMPACTED, answer("Yes."), adapter="responses") as client:
        openai = AsyncOpenAI(api_key="k", base_url="http://gateway/v1", http_client=client, max_retries=0)
        compacted = await openai.responses.compact(model="main", input=TALK)  # type: ignore[arg-type]
        assert [item.type for item in compacted.output] == ["message", "compaction"]
        assert compacted.usage.total_tokens == 1100
        items: Any = [*compacted.output, {"role": "user", "content": "Is it?"}]
        assert (await openai.responses.create(model="main", input=items)).output_text == "Yes."
        second = json.loads(client.upstream.requests[1].content)  # type: ignore[attr-defined]
    assert second["input"][0]["content"] == SAID["content"]
    assert {name: second["input"][1].get(name) for name in OPAQUE} == OPAQUE


async def test_a_model_without_endpoints() -> None:
    """A model of the program's own compacts nothing."""
    async with client_of(gateway({"main": ScriptedProvider("Hi")})) as client:
        refused = await client.post(f"{RESPONSES}/compact", json={"model": "main", "input": "Hi"})
    assert refused.status_code == 404


async def test_a_client_of_claude() -> None:
    """Claude's own parameter reaches Claude, and its signed block the client, in a stream and whole."""
    block = {"type": "compaction", "content": "A cat was seen.", "signature": "EuYB"}
    usage = {"input_tokens": 0, "output_tokens": 0}
    step = {"type": "compaction", "input_tokens": 1000, "output_tokens": 100}
    begun = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": usage}
    events: list[Any] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "compaction"}, "usage": {**usage, "iterations": [step]}},
        {"type": "message_stop"},
    ]
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
    turns = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "A cat. "}]
    ask = {"model": "main", "max_tokens": 4096, "messages": turns, "compaction": {"type": "summarize"}}
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "compact-2026-09-04"}
    async with behind(body, body, adapter="anthropic") as client:
        whole = (await client.post(MESSAGES, json=ask, headers=headers)).json()
        streamed = await client.post(MESSAGES, json={**ask, "stream": True}, headers=headers)
        requests = client.upstream.requests  # type: ignore[attr-defined]
    assert (whole["content"], whole["stop_reason"]) == ([block], "compaction")
    assert whole["usage"]["iterations"] == [step]
    assert f'"content_block":{json.dumps(block, separators=(",", ":"))}' in streamed.text
    for request in requests:
        sent = json.loads(request.content)
        assert request.headers["anthropic-beta"] == "compact-2026-09-04"
        assert sent["compaction"] == {"type": "summarize"}
        assert [turn["content"][0]["text"] for turn in sent["messages"]] == ["Look.", "A cat. "]
