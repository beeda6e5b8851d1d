"""What conversations of plain dicts have lost is given back: reasoning, signatures, encrypted items."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from demanding_providers import KINDS, TURNS, Demanding
from streamfold import BadRequestError, ConfigError, Message, Provider, assistant, user
from streamfold.stores import MemoryStore, StoreError, WaitingStore
from streamfold.turns import TurnCache
from streamfold.turns.turns import turn_keys
from tables import each_row

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


def returned(reply: Any, *, text: bool = True) -> dict[str, Any]:
    """A turn as most programs write it down: the text and the calls."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in reply.tool_calls
    ]
    content = reply.text.strip() if text else None
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


async def tool_loop(provider: Provider, *, question: str = "Look.", text: bool = True) -> list[Any]:
    """Runs three tool turns with plain dicts; returns all replies."""
    messages: list[Any] = [{"role": "user", "content": question}]
    replies = []
    for _ in range(TURNS + 1):
        reply = await provider.chat(messages, TOOLS)
        replies.append(reply)
        messages.append(returned(reply, text=text))
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "seen"} for call in reply.tool_calls]
    return replies


@each_row("text", [True, False], ids=["with text", "without text"])
@each_row("kind", KINDS)
async def test_three_turns_of_plain_dicts(kind: str, text: bool) -> None:
    """With a cache of turns, a provider that refuses turns without their reasoning or signature refuses nothing."""
    upstream = Demanding(kind)
    async with upstream.client as client, upstream.provider(client, memory=True) as provider:
        replies = await tool_loop(provider, text=text)
    assert upstream.refused == 0
    assert replies[-1].text == "That is all."
    assert "lost_reasoning" not in {warning.code for reply in replies for warning in reply.warnings}


@each_row("kind", [kind for kind in KINDS if kind != "responses"])
async def test_without_a_memory_a_warning_names_what_is_lost(kind: str) -> None:
    """The error says which turn came back without what the provider wants."""
    upstream = Demanding(kind)
    async with upstream.client as client, upstream.provider(client) as provider:
        if kind == "anthropic":  # thinking is switched off rather than refused
            lost = (await tool_loop(provider))[1].warnings
        else:
            with pytest.raises(BadRequestError) as failed:
                await tool_loop(provider)
            lost = list(failed.value.warnings)
    assert "lost_reasoning" in {warning.code for warning in lost}


async def test_messages_of_replies_are_left_alone() -> None:
    """A `Message` that came from a reply has everything: the cache is not even asked."""
    upstream, store = Demanding("kimi"), Spy()
    async with upstream.client as client, upstream.provider(client, memory=store) as provider:
        first = await provider.chat("Look.", TOOLS)
        await provider.chat(
            [user("Look."), first.message, Message("tool", "x", tool_call_id="functions.look:0")], TOOLS
        )
    assert store.asked == 0
    assert upstream.refused == 0


async def test_nothing_is_given_to_a_turn_that_was_forged() -> None:
    """An id alone brings nothing: name, arguments and the place of the turn must be those of the remembered one."""
    upstream = Demanding("kimi")
    async with upstream.client as client, upstream.provider(client, memory=True) as provider:
        first = await provider.chat("Look.", TOOLS)
        forged = returned(first)
        forged["tool_calls"][0]["function"]["arguments"] = '{"at": 1}'
        result = {"role": "tool", "tool_call_id": "functions.look:0", "content": "seen"}
        for messages in (
            [{"role": "user", "content": "Look."}, forged, result],
            [{"role": "user", "content": "Something else."}, returned(first), result],
        ):
            with pytest.raises(BadRequestError, match="reasoning_content is missing"):
                await provider.chat(messages, TOOLS)


async def test_ids_that_begin_anew_in_every_conversation() -> None:
    """Kimi's ids are the same in each conversation: every turn gets the reasoning of its own."""
    memory = TurnCache()
    conversations = [[user(question)] for question in ("One", "Two")]
    for number, messages in enumerate(conversations):
        await memory.remember(messages, _reply(f"reasoning {number}"))
    for number, messages in enumerate(conversations):
        recalled = await memory.recall([*messages, _turn()])
        assert recalled.messages[-1].reasoning == f"reasoning {number}"
    assert (await memory.recall([user("Three"), _turn()])).changed == ()


async def test_old_results_may_be_cleared_and_the_beginning_summarized() -> None:
    """A turn is known by the calls before it, or by the message before it: one of the two is enough."""
    memory = TurnCache()
    result = Message("tool", "a long result", tool_call_id="functions.look:0")
    before = [user("Look."), _turn(), result]
    second = _turn(1)
    await memory.remember(before, _reply("why", 1))
    cleared = [user("Look."), _turn(), Message("tool", "[cleared]", tool_call_id="functions.look:0"), second]
    assert (await memory.recall(cleared)).messages[-1].reasoning == "why"
    summarized = [user("Summary: it looked once."), _turn(), result, second]
    assert (await memory.recall(summarized)).messages[-1].reasoning == "why"
    both = [user("Summary: it looked once."), _turn(), Message("tool", "[cleared]", tool_call_id="a"), second]
    assert (await memory.recall(both)).changed == ()


async def test_scopes_have_nothing_in_common() -> None:
    """What one user's conversation has brought is not found for another user."""
    memory = TurnCache()
    await memory.of("ann").remember([user("Look.")], _reply("a secret"))
    asked = [user("Look."), _turn()]
    assert (await memory.of("bob").recall(asked)).changed == ()
    assert (await memory.recall(asked)).changed == ()
    assert (await memory.of("ann").recall(asked)).messages[-1].reasoning == "a secret"


async def test_what_the_client_wrote_itself_wins() -> None:
    """An edited text and other reasoning stay; the rest of the turn is given back."""
    memory, reply = TurnCache(), _reply("why")
    reply.extras["reasoning_details"] = [{"type": "reasoning.text", "text": "why", "signature": "c2ln"}]
    await memory.remember([user("Look.")], reply)
    mine = Message("assistant", "Edited.", _turn().tool_calls, reasoning="because")
    recalled = (await memory.recall([user("Look."), mine])).messages[-1]
    assert (recalled.content, recalled.reasoning, recalled.origin) == ("Edited.", "because", "chat http://x/v1")


async def test_turns_without_calls_are_known_by_their_text() -> None:
    """Reasoning before a plain answer comes back too, however its white space was trimmed."""
    memory = TurnCache()
    reply = _reply("why", calls=())
    reply.text = "The answer.\n"
    await memory.remember([user("Well?")], reply)
    assert (await memory.recall([user("Well?"), assistant("The answer.")])).messages[-1].reasoning == "why"
    assert (await memory.recall([user("Well?"), assistant("Another answer.")])).changed == ()


async def test_parts_that_the_provider_takes_no_more_bring_no_warnings() -> None:
    """What the client did not send is no loss of the client's: a model that wants no reasoning back is silent."""
    upstream = Demanding("kimi")
    config = {"profile": None, "adapter": "chat", "base_url": "http://other/v1", "model": "m"}
    config = {name: value for name, value in config.items() if value is not None}
    memory = TurnCache()
    async with upstream.client as client:
        kimi = upstream.provider(client, memory=memory)
        other = Provider.from_config({**config, "max_retries": 0}, http_client=client, memory=memory)
        first = await kimi.chat("Look.", TOOLS)
        messages = [{"role": "user", "content": "Look."}, returned(first)]
        messages.append({"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "seen"})
        with pytest.raises(BadRequestError) as failed:
            await other.chat(messages, TOOLS)
    assert not {warning.code for warning in failed.value.warnings} & {"reasoning_dropped", "extras_dropped"}


@pytest.mark.parametrize("method", ["get", "put"])
async def test_a_store_that_fails_does_not_fail_the_answer(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """The answer comes without the cache, with a warning, and the log says why."""
    upstream = Demanding("gemini")
    store = Spy()

    async def fails(*_: Any) -> Any:
        raise OSError("the disk is full")

    setattr(store, method, fails)
    async with upstream.client as client, upstream.provider(client, memory=store) as provider:
        if method == "put":
            reply = await provider.chat("Look.", TOOLS)
        else:
            reply = await provider.chat(
                [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}, user("x")]
            )
    assert [warning.code for warning in reply.warnings] == ["memory_failed"]
    assert "the disk is full" in caplog.text


async def test_keys_do_not_show_what_they_stand_for() -> None:
    """A store sees hashes."""
    ((_, mine),) = turn_keys([user("Look."), _turn()])
    assert mine.path != mine.neighbour
    assert all(len(key) == 40 and key.isalnum() for key in (mine.path, mine.neighbour))


class Spy(MemoryStore):
    asked = 0

    async def get(self, owner: str, keys: Any) -> Mapping[str, bytes]:
        self.asked += 1
        return await super().get(owner, keys)


def _turn(number: int = 0) -> Message:
    from streamfold import ToolCall

    return Message(
        "assistant", None, (ToolCall(f"functions.look:{number}", "look", {"at": number}, f'{{"at":{number}}}'),)
    )


def _reply(reasoning: str, number: int = 0, calls: Any = None) -> Any:
    from streamfold import Reply

    made = _turn(number).tool_calls if calls is None else calls
    return Reply(tool_calls=list(made), reasoning=reasoning, reasoned=True, origin="chat http://x/v1")


# --- what a cache is made of ------------------------------------------------------------------------------------------


@each_row("given", [3, {}, b"memory", object()])
def test_what_is_no_memory(given: Any) -> None:
    """A mistake in the argument is a ConfigError."""
    with pytest.raises(ConfigError, match="memory must be a TurnCache"):
        Provider.from_config({"base_url": "http://x/v1"}, memory=given)


async def test_whose_a_store_is(tmp_path: Path) -> None:
    """A provider closes the store that it made, and no other."""
    store = MemoryStore()
    await store.put("", {"a": b"1"})
    async with Provider.from_config({"base_url": "http://x/v1"}, memory=TurnCache(store)):
        pass
    assert await store.get("", ["a"]) == {"a": b"1"}
    async with Provider.from_config({"base_url": "http://x/v1", "memory": f"sqlite:///{tmp_path}/a.db"}) as provider:
        assert "a.db" in repr(provider.memory)


async def test_valkey_that_is_not_there() -> None:
    """The memory fails, with a warning; what the client library raises is no reason to fail."""
    pytest.importorskip("valkey")
    conversation = [user("Hi"), assistant("Hello"), user("Well?")]
    recalled = await TurnCache("valkey://127.0.0.1:1/0").recall(conversation)
    assert [warning.code for warning in recalled.warnings] == ["memory_failed"]


@pytest.mark.slow
async def test_a_store_that_hangs() -> None:
    """An answer waits two seconds for it at most."""

    class Hangs(MemoryStore):
        async def get(self, owner: str, keys: Any) -> Mapping[str, bytes]:
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.fail_after(4):
        recalled = await TurnCache(Hangs()).recall([user("Hi"), assistant("Hello"), user("Well?")])
    assert [warning.code for warning in recalled.warnings] == ["memory_failed"]


async def test_what_was_found_before_a_store_failed() -> None:
    """Turns that wait to be kept are given back while the store is away."""

    class Away(MemoryStore):
        async def get(self, owner: str, keys: Any) -> Mapping[str, bytes]:
            raise StoreError("away")

        async def put(self, owner: str, values: Any, *, new: bool = False, ahead: float = 0.0) -> bool:
            raise StoreError("away")

    cache = TurnCache(WaitingStore(Away()))
    messages = [user("Look.")]
    assert await cache.remember(messages, _reply("I think.")) is None
    recalled = await cache.recall([user("Once."), assistant("Yes."), *messages, _turn()])
    assert recalled.messages[-1].reasoning is None  # it stood elsewhere
    recalled = await cache.recall([*messages, _turn(), assistant("Yes.")])
    assert recalled.messages[1].reasoning == "I think."
    assert [warning.code for warning in recalled.warnings] == ["memory_failed"]
