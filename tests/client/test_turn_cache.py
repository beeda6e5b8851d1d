"""What conversations of plain dicts have lost is given back: reasoning, signatures, encrypted items."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from demanding_providers import KINDS, TURNS, Demanding
from streamfold import (
    BadRequestError,
    ConfigError,
    Message,
    Provider,
    Reply,
    ToolCall,
    assistant,
    system,
    user,
)
from streamfold.stores import MemoryStore, StoreError, WriteBehindStore
from streamfold.turn_cache import TurnCache, named_end_user
from streamfold.types import ImagePart, TextPart
from tables import each_row

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


def _turn(number: int = 0) -> Message:
    return Message(
        "assistant", None, (ToolCall(f"functions.look:{number}", "look", {"at": number}, f'{{"at":{number}}}'),)
    )


def _reply(reasoning: str, number: int = 0, calls: Any = None) -> Any:
    made = _turn(number).tool_calls if calls is None else calls
    return Reply(tool_calls=list(made), reasoning=reasoning, reasoned=True, origin="chat http://x/v1")


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
    async with upstream.client as client, upstream.provider(client, turn_cache=True) as provider:
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
    async with upstream.client as client, upstream.provider(client, turn_cache=store) as provider:
        first = await provider.chat("Look.", TOOLS)
        await provider.chat(
            [user("Look."), first.message, Message("tool", "x", tool_call_id="functions.look:0")], TOOLS
        )
    assert store.asked == 0
    assert upstream.refused == 0


async def test_nothing_is_given_to_a_turn_that_was_forged() -> None:
    """An id alone brings nothing: name, arguments and the place of the turn must be those of the remembered one."""
    upstream = Demanding("kimi")
    async with upstream.client as client, upstream.provider(client, turn_cache=True) as provider:
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


RESULT = Message("tool", "a long result", tool_call_id="functions.look:0")


@each_row(
    "rewritten",
    [
        [user("Look."), "turn", replace(RESULT, content="[cleared]"), "second"],
        [user("Summary: it looked once."), "turn", RESULT, "second"],
        [user("Summary: it looked once."), "second"],
    ],
    ids=["a cleared result", "a summary before the turn", "a summary in its place"],
)
async def test_a_rewritten_conversation_is_another_one(rewritten: list[Any]) -> None:
    """Where old results are cleared or the beginning is summarized, later turns are not found."""
    cache, turns = TurnCache(), {"turn": _turn(), "second": _turn(1)}
    await cache.remember([user("Look."), _turn(), RESULT], _reply("why", 1))
    messages = [turns[each] if isinstance(each, str) else each for each in rewritten]
    assert (await cache.recall(messages)).changed == ()
    assert (await cache.recall([user("Look."), _turn(), RESULT, _turn(1)])).changed == (3,)


HELLO = [system("You help Ann."), user("Hi"), assistant("Hello"), Message("user", "Look.", name="ann"), _turn()]
PICTURE = ImagePart(data=b"one", media_type="image/png")
SHOWN = [*HELLO, replace(RESULT, content=[TextPart("seen"), PICTURE])]


@each_row(
    "at, changed",
    [
        (0, system("You help Bob.")),
        (0, Message("developer", "You help Ann.")),
        (1, user("Hey")),
        (1, user("H i")),
        (2, assistant("Hello!")),
        (2, assistant("Hel lo")),
        (3, Message("user", "Look.", name="bob")),
        (3, user("Look.")),
        (4, _turn(7)),
        (4, replace(_turn(), content="I look.")),
        (4, replace(_turn(), name="helper")),
        (5, replace(RESULT, content=[TextPart("seen"), replace(PICTURE, data=b"two")])),
        (5, replace(RESULT, content=[TextPart("seen")])),
        (5, replace(RESULT, content=[TextPart("se"), TextPart("en"), PICTURE])),
        (5, replace(RESULT, content=[TextPart("seen"), PICTURE], tool_call_id="functions.look:1")),
        (5, replace(RESULT, content=[TextPart("seen"), PICTURE], error=True)),
        (5, replace(RESULT, content=[TextPart("seen"), replace(PICTURE, detail="high")])),
        (6, _turn(2)),
        (6, replace(_turn(1), content="I looked.")),
        (6, replace(_turn(1), name="helper")),
    ],
)
async def test_every_part_of_a_conversation_counts(at: int, changed: Message) -> None:
    """A turn is found only after the same instructions, texts, images, results, names and ids."""
    cache = TurnCache()
    await cache.remember(SHOWN, _reply("why", 1))
    messages = [*SHOWN, _turn(1)]
    assert (await cache.recall(messages)).changed == (6,)
    messages[at] = changed
    assert (await cache.recall(messages)).changed == ()
    assert (await cache.recall([*SHOWN[1:], _turn(1)])).changed == ()
    assert (await cache.recall([SHOWN[1], SHOWN[0], *SHOWN[2:], _turn(1)])).changed == ()


@each_row(
    ("first", "second", "known"),
    [
        ("<system-reminder>Be brief.</system-reminder>", None, True),
        (None, "<system-reminder>Be brief.</system-reminder>\n", True),
        ("<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>", None, True),
        ("<system-reminder>a</system-reminder> 4711 <system-reminder>b</system-reminder>", None, False),
        ("<system-reminder><system-reminder>a</system-reminder>", None, False),
        ("Be brief.", None, False),
    ],
)
async def test_reminders_beside_results(first: str | None, second: str | None, known: bool) -> None:
    """Claude Code adds `<system-reminder>` texts behind results of tools, and takes them away later."""
    cache = TurnCache()

    def conversation(reminder: str | None) -> list[Message]:
        added = [user(TextPart(reminder), TextPart("Go on."))] if reminder else [user(TextPart("Go on."))]
        return [user("Look."), _turn(), RESULT, *added]

    await cache.remember(conversation(first), _reply("why", 1))
    assert (await cache.recall([*conversation(second), _turn(1)])).changed == ((4,) if known else ())
    alone = [user("Look."), _turn(), RESULT]
    await cache.remember([*alone, user(first or second or "")], _reply("why", 1))
    assert (await cache.recall([*alone, _turn(1)])).changed == ((3,) if known else ())


async def test_reminders_elsewhere_count() -> None:
    """The reminders of the first turn of the user hold the user's own files, and those of other turns are its words."""
    cache = TurnCache()
    ann, bob = (f"<system-reminder>CLAUDE.md of {name}</system-reminder>" for name in ("ann", "bob"))
    for conversation in (
        lambda text: [user(TextPart(text), TextPart("Look."))],
        lambda text: [user("Hi"), assistant("Hello"), user(TextPart(text), TextPart("Look."))],
        lambda text: [_turn(), RESULT, user(TextPart(text), TextPart("Look."))],  # it is the first turn of the user
        lambda text: [system(text), user("Look.")],
        lambda text: [user("Look."), _turn(), replace(RESULT, content=text)],
        lambda text: [user("Look."), _turn(), RESULT, system(text)],
    ):
        await cache.remember(conversation(ann), _reply("why", 1))
        assert (await cache.recall([*conversation(bob), _turn(1)])).changed == ()
        assert (await cache.recall([*conversation(ann), _turn(1)])).changed == (len(conversation(ann)),)


async def test_the_billing_line_of_claude_code() -> None:
    """Claude Code puts a line before its instructions that differs from request to request."""
    cache = TurnCache()

    def conversation(line: str, *, rest: str = "You are Claude Code.") -> list[Message]:
        return [Message("system", [TextPart(line), TextPart(rest)]), user("Look.")]

    lines = [f"x-anthropic-billing-header: cc_version=2.1.197; cch={number};" for number in (1, 2)]
    await cache.remember(conversation(lines[0]), _reply("why"))
    assert (await cache.recall([*conversation(lines[1]), _turn()])).changed == (2,)
    assert (await cache.recall([*conversation(lines[1], rest="You are Bob's."), _turn()])).changed == ()
    assert (await cache.recall([*conversation(f"{lines[1]}\nThe user is Bob."), _turn()])).changed == ()


async def test_what_is_given_back_is_a_warning() -> None:
    """`turn_restored` names each turn, and what it had lost."""
    cache = TurnCache()
    await cache.remember([user("Look.")], _reply("why"))
    (warning,) = (await cache.recall([user("Look."), _turn()])).warnings
    assert warning.code == "turn_restored"
    assert warning.detail.endswith(": messages[1]: reasoning")
    complete = replace(_turn(), reasoning="why")
    assert (await cache.recall([user("Look."), complete])).warnings == ()


async def test_tools_are_not_part_of_a_conversation() -> None:
    """Agents load tools late: a turn is given back when others are offered."""
    upstream = Demanding("kimi")
    async with upstream.client as client, upstream.provider(client, turn_cache=True) as provider:
        first = await provider.chat("Look.", TOOLS)
        result = {"role": "tool", "tool_call_id": "functions.look:0", "content": "seen"}
        more = [*TOOLS, {"type": "function", "function": {"name": "more", "parameters": {"type": "object"}}}]
        second = await provider.chat([{"role": "user", "content": "Look."}, returned(first), result], more)
    assert upstream.refused == 0
    assert "turn_restored" in {warning.code for warning in second.warnings}


# --- end users --------------------------------------------------------------------------------------------------------


USERS: list[Callable[[str], dict[str, Any]]] = [
    lambda name: {"user": name},
    lambda name: {"safety_identifier": name},
    lambda name: {"prompt_cache_key": name},
    lambda name: {"user_id": name},
    lambda name: {"metadata": {"user_id": name}},
    lambda name: {"metadata": {"userId": name, "plan": "free"}},
    lambda name: {"metadata": {"customer": {"number": name}}},
    lambda name: {"labels": {"customer": name}},
    lambda name: {"requestMetadata": {"tenant": name}},
    lambda name: {"extra_body": {"user": name}},
    lambda name: {"extra_body": {"metadata": {"user_id": name}}},
]


@each_row("members", USERS)
async def test_end_users_of_one_owner(members: Callable[[str], dict[str, Any]]) -> None:
    """Whoever a request names as its end user gets back what requests with the same name have brought, and no more."""
    cache = TurnCache()
    names = [named_end_user(members(name)) for name in ("ann", "bob")]
    assert all(names)
    await cache.for_end_user(names[0]).remember([user("Look.")], _reply("a secret"))
    messages = [user("Look."), _turn()]
    assert (await cache.for_end_user(names[1]).recall(messages)).changed == ()
    assert (await cache.for_end_user("").recall(messages)).changed == ()
    assert (await cache.for_end_user(names[0]).recall(messages)).messages[-1].reasoning == "a secret"


async def test_end_users_of_a_provider() -> None:
    """In the library, `extra_body` names the end user."""
    upstream = Demanding("kimi")
    result = {"role": "tool", "tool_call_id": "functions.look:0", "content": "seen"}
    async with upstream.client as client, upstream.provider(client, turn_cache=True) as provider:
        first = await provider.chat("Look.", TOOLS, extra_body={"user": "ann"})
        messages = [{"role": "user", "content": "Look."}, returned(first), result]
        for other in ({"user": "bob"}, {"safety_identifier": "ann"}, {}):
            with pytest.raises(BadRequestError, match="reasoning_content is missing"):
                await provider.chat(messages, TOOLS, extra_body=other)
        await provider.chat(messages, TOOLS, extra_body={"user": "ann"})
        first = await provider.chat("Look.", TOOLS, extra_headers={"X-User-Id": "ann"})
        await provider.chat(messages, TOOLS, extra_headers={"X-User-Id": "ann"})


@each_row(
    "members", [{}, {"user": ""}, {"user": None}, {"metadata": {}}, {"metadata": {"trace_id": "a", "requestId": "b"}}]
)
def test_requests_that_name_nobody(members: dict[str, Any]) -> None:
    """Empty members name no end user, and nor does what names a single request."""
    assert named_end_user(members) == ""


@each_row(
    ("name", "is_user"),
    [
        ("X-OpenWebUI-User-Id", True),
        ("x-openwebui-user-email", True),
        ("x-forwarded-user", True),
        ("x-auth-request-email", True),
        ("user-agent", False),
        ("x-goog-user-project", False),
        ("x-request-id", False),
    ],
)
def test_headers_that_name_the_end_user(name: str, is_user: bool) -> None:
    """Applications and proxies that know the user say it in a header."""
    assert bool(named_end_user({}, {name: "ann"})) == is_user


async def test_owners_have_nothing_in_common() -> None:
    """What one user's conversation has brought is not found for another user."""
    memory = TurnCache()
    await memory.of("ann").remember([user("Look.")], _reply("a secret"))
    asked = [user("Look."), _turn()]
    assert (await memory.of("bob").recall(asked)).changed == ()
    assert (await memory.recall(asked)).changed == ()
    assert (await memory.of("ann").recall(asked)).messages[-1].reasoning == "a secret"


async def test_what_the_client_wrote_itself_wins() -> None:
    """Other reasoning stays; the rest of the turn is given back. A turn whose text was edited is another turn."""
    memory, reply = TurnCache(), _reply("why")
    reply.text = "I look."
    reply.extras["reasoning_details"] = [{"type": "reasoning.text", "text": "why", "signature": "c2ln"}]
    await memory.remember([user("Look.")], reply)
    mine = Message("assistant", " I look.\n", _turn().tool_calls, reasoning="because")
    recalled = (await memory.recall([user("Look."), mine])).messages[-1]
    assert (recalled.content, recalled.reasoning, recalled.origin) == ("I look.", "because", "chat http://x/v1")
    assert (await memory.recall([user("Look."), replace(mine, content="Edited.")])).changed == ()
    assert (await memory.recall([user("Look."), replace(mine, content=None)])).messages[-1].content == "I look."


async def test_reasoning_that_came_back_as_text() -> None:
    """pi makes a text of thinking without a signature: such a turn is found, and has the text of the model again."""
    cache, reply = TurnCache(), _reply("First I look.")
    reply.text = "I look."
    await cache.remember([user("Look.")], reply)
    shown = Message("assistant", [TextPart("First I look."), TextPart("I look.")], _turn().tool_calls)
    recalled = (await cache.recall([user("Look."), shown])).messages[-1]
    assert (recalled.content, recalled.reasoning) == ("I look.", "First I look.")
    other = replace(shown, content=[TextPart("Then I look."), TextPart("I look.")])
    assert (await cache.recall([user("Look."), other])).changed == ()


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
        kimi = upstream.provider(client, turn_cache=memory)
        other = Provider.from_config({**config, "max_retries": 0}, http_client=client, turn_cache=memory)
        first = await kimi.chat("Look.", TOOLS)
        messages = [{"role": "user", "content": "Look."}, returned(first)]
        messages.append({"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "seen"})
        with pytest.raises(BadRequestError) as failed:
            await other.chat(messages, TOOLS)
    assert not {warning.code for warning in failed.value.warnings} & {"reasoning_dropped", "provider_data_dropped"}


@pytest.mark.parametrize("method", ["get", "put"])
async def test_a_store_that_fails_does_not_fail_the_answer(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """The answer comes without the cache, with a warning, and the log says why."""
    upstream = Demanding("gemini")
    store = Spy()

    async def fails(*_: Any) -> Any:
        raise OSError("the disk is full")

    setattr(store, method, fails)
    async with upstream.client as client, upstream.provider(client, turn_cache=store) as provider:
        if method == "put":
            reply = await provider.chat("Look.", TOOLS)
        else:
            reply = await provider.chat(
                [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}, user("x")]
            )
    assert [warning.code for warning in reply.warnings] == ["turn_cache_failed"]
    assert "the disk is full" in caplog.text


async def test_keys_do_not_show_what_they_stand_for() -> None:
    """A store sees hashes."""
    seen: list[tuple[str, str]] = []

    class Sees(MemoryStore):
        async def put(self, owner: str, values: Any, *, new: bool = False, ahead: float = 0.0) -> bool:
            seen.extend((owner, key) for key in values)
            return await super().put(owner, values, new=new, ahead=ahead)

    await TurnCache(Sees()).of("ann", end_user="bob").remember([user("Look.")], _reply("why"))
    assert all(len(owner) == 64 and len(key) == 40 and (owner + key).isalnum() for owner, key in seen)
    assert seen


class Spy(MemoryStore):
    asked = 0

    async def get(self, owner: str, keys: Any) -> Mapping[str, bytes]:
        self.asked += 1
        return await super().get(owner, keys)


# --- what a cache is made of ------------------------------------------------------------------------------------------


@each_row("given", [3, {}, b"memory", object()])
def test_what_is_no_memory(given: Any) -> None:
    """A mistake in the argument is a ConfigError."""
    with pytest.raises(ConfigError, match="turn_cache must be a TurnCache"):
        Provider.from_config({"base_url": "http://x/v1"}, turn_cache=given)


async def test_whose_a_store_is(tmp_path: Path) -> None:
    """A provider closes the store that it made, and no other."""
    store = MemoryStore()
    await store.put("", {"a": b"1"})
    async with Provider.from_config({"base_url": "http://x/v1"}, turn_cache=TurnCache(store)):
        pass
    assert await store.get("", ["a"]) == {"a": b"1"}
    async with Provider.from_config(
        {"base_url": "http://x/v1", "turn_cache": f"sqlite:///{tmp_path}/a.db"}
    ) as provider:
        assert "a.db" in repr(provider.turn_cache)


async def test_valkey_that_is_not_there() -> None:
    """The memory fails, with a warning; what the client library raises is no reason to fail."""
    pytest.importorskip("valkey")
    conversation = [user("Hi"), assistant("Hello"), user("Well?")]
    recalled = await TurnCache("valkey://127.0.0.1:1/0").recall(conversation)
    assert [warning.code for warning in recalled.warnings] == ["turn_cache_failed"]


@pytest.mark.slow
async def test_a_store_that_hangs() -> None:
    """An answer waits two seconds for it at most."""

    class Hangs(MemoryStore):
        async def get(self, owner: str, keys: Any) -> Mapping[str, bytes]:
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.fail_after(4):
        recalled = await TurnCache(Hangs()).recall([user("Hi"), assistant("Hello"), user("Well?")])
    assert [warning.code for warning in recalled.warnings] == ["turn_cache_failed"]


async def test_what_was_found_before_a_store_failed() -> None:
    """Turns that wait to be kept are given back while the store is away."""

    class Away(MemoryStore):
        async def get(self, owner: str, keys: Any) -> Mapping[str, bytes]:
            raise StoreError("away")

        async def put(self, owner: str, values: Any, *, new: bool = False, ahead: float = 0.0) -> bool:
            raise StoreError("away")

    cache = TurnCache(WriteBehindStore(Away()))
    messages = [user("Look.")]
    assert await cache.remember(messages, _reply("I think.")) is None
    recalled = await cache.recall([user("Once."), assistant("Yes."), *messages, _turn()])
    assert recalled.messages[-1].reasoning is None  # it stood elsewhere
    recalled = await cache.recall([*messages, _turn(), assistant("Yes.")])
    assert recalled.messages[1].reasoning == "I think."
    assert [warning.code for warning in recalled.warnings] == ["turn_cache_failed", "turn_restored"]
