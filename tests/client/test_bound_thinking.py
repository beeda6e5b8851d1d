"""Claude 5.1 and later refuse thinking once what was sent before it has changed: it is left out, and it alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import httpx
import pytest

from binding_server import BETA, BindingServer, invalid, is_thinking
from streamfold import BadRequestError, Message, Provider, Reply, Tool, assistant, system, tool_result, user
from streamfold.types import TextPart
from support.builders.scale import pick

TOOLS = [Tool(name, f"Does {name}.", {"type": "object", "properties": {}}) for name in ("look", "edit", "find", "run")]
pytestmark = pytest.mark.one_loop


@asynccontextmanager
async def asked(server: BindingServer, model: str = "claude-fable-5-2", **config: Any) -> AsyncIterator[Provider]:
    """A provider in front of a server."""
    async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as client:
        spec = f"anthropic:{model}"
        yield Provider.from_config(spec, api_key="k", http_client=client, max_retries=0, **config)


def dropped(reply: Reply) -> list[str]:
    """The warnings about thinking."""
    return [warning.detail for warning in reply.warnings if warning.code == "reasoning_dropped"]


def thinking(body: dict[str, Any]) -> list[str]:
    """The thinking that was sent."""
    return [str(block) for turn in body["messages"] for block in turn["content"] if is_thinking(block)]


# --- generated runs of agents -----------------------------------------------------------------------------------------


class Agent:
    """A program with a conversation, which it changes in the ways in which agents do."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.system = "Be brief."
        self.tools = TOOLS[:2]
        self.history: list[Message] = []
        self.saved: list[list[Message]] = []

    def change(self) -> None:
        """Changes something, or nothing."""
        self.saved.append(list(self.history))
        random, history = self.random, self.history
        turns = [at for at, message in enumerate(history) if message.role == "user"]
        match random.randrange(14):
            case 0:
                self.system = random.choice(["Be brief.", "It is 10:01.", "It is 10:02."])
            case 1:
                self.tools = random.sample(TOOLS, random.randint(1, 4))
            case 2:
                random.shuffle(self.tools)  # no change to the API
            case 3 if turns:
                at = random.choice(turns)
                history[at] = replace(history[at], content=f"{history[at].text} (edited {random.randrange(3)})")
            case 4 if len(turns) > 1:
                del history[: random.choice(turns[1:])]  # trimmed
            case 5 if len(turns) > 1:
                history[: turns[-1]] = [user("So far: a summary."), assistant("I see.")]
            case 6 if history:
                self.history = random.choice(self.saved)  # back to where it was
            case 7 if history:
                self.history = [Message.from_json(message.to_json()) for message in history]  # a restart
            case 8 if turns:
                at = random.choice(turns)
                history[at] = replace(history[at], cache=not history[at].cache)
            case 9 if answers := [at for at, message in enumerate(history) if message.role == "tool"]:
                at = random.choice(answers)
                history[at] = replace(history[at], content="[cleared]")

    def ask(self) -> list[Message]:
        """The conversation with the next question, or with the results that are due."""
        last = self.history[-1] if self.history else None
        if last is not None and last.tool_calls:
            self.history += [tool_result(call, f"Found {call.name}.") for call in last.tool_calls]
        else:
            wanted = self.random.sample([tool.name for tool in self.tools], self.random.randint(0, len(self.tools)))
            self.history.append(user(f"Question {len(self.saved)} {''.join(f'[{name}]' for name in wanted[:2])}"))
        return [system(self.system), *self.history]


def assert_none_could_be_kept(messages: Sequence[Message], body: dict[str, Any]) -> None:
    """Each block of thinking that was left out would have been refused, or would have had another one refused."""
    answers = [message for message in messages if message.role == "assistant"]
    sent = [at for at, turn in enumerate(body["messages"]) if turn["role"] == "assistant"]
    assert len(answers) == len(sent)
    for at, message in zip(sent, answers, strict=True):
        turn, blocks = body["messages"][at], message.extras.get("blocks", [])
        if any(map(is_thinking, blocks)) and not any(map(is_thinking, turn["content"])):
            restored = [*body["messages"][:at], {**turn, "content": blocks}, *body["messages"][at + 1 :]]
            assert next(invalid({**body, "messages": restored}), None), (at, body)


@pytest.mark.parametrize("seed", range(pick(300, 25)))
async def test_generated_runs(seed: int) -> None:
    """No run is refused a request, each change is named in a warning, and no thinking is left out without need."""
    server, agent = BindingServer(random=Random(-seed)), Agent(Random(seed))
    async with asked(server) as provider:
        for _ in range(agent.random.randint(4, 14)):
            agent.change()
            messages = agent.ask()
            reply = await provider.chat(messages, agent.tools, stream=seed % 2 == 0)
            body = server.bodies[-1]
            assert next(invalid(body), None) is None
            assert "block_binding" not in str(body.get("thinking"))
            made = sum(is_thinking(block) for each in messages for block in each.extras.get("blocks", ()))
            assert bool(dropped(reply)) is (len(thinking(body)) < made)
            assert_none_could_be_kept(messages, body)
            agent.history = [*agent.history, reply.message]
    assert server.refused == 0


@pytest.mark.parametrize("seed", range(pick(300, 15)))
async def test_generated_runs_of_unknown_histories(seed: int) -> None:
    """A history without digests, as of another program, is refused at most once for each change, and never twice."""
    server, agent = BindingServer(random=Random(-seed)), Agent(Random(seed))
    async with asked(server, agent.random.choice(["claude-fable-5-2", "claude-opus-5-5"])) as provider:
        for _ in range(agent.random.randint(4, 14)):
            agent.change()
            reply = await provider.chat(agent.ask(), agent.tools, stream=False)
            agent.history = [*agent.history, replace(reply.message, prefix=None, origin=None)]
    asked_to_drop = ["block_binding" in str(body.get("thinking")) for body in server.bodies]
    assert server.refused <= sum(asked_to_drop)


# --- single cases -----------------------------------------------------------------------------------------------------


async def test_what_has_changed_is_named() -> None:
    """The warning names system prompt, tools or messages, also for messages that were saved and loaded."""
    server = BindingServer()
    async with asked(server) as provider:
        first = await provider.chat([system("It is 10:00."), user("Hi")], TOOLS[:1], stream=False)
        kept = Message.from_json(first.message.to_json())
        talk = [user("Hi"), kept, user("And now?")]
        for messages, tools, words in (
            ([system("It is 10:00."), *talk], TOOLS[:1], None),
            ([system("It is 10:01."), *talk], TOOLS[:1], "the system prompt has changed"),
            ([system("It is 10:00."), *talk], TOOLS[:2], "the tools have changed"),
            ([system("It is 10:00."), user("Hello"), *talk[1:]], TOOLS[:1], "something in messages[0:2] has changed"),
        ):
            reply = await provider.chat(messages, tools, stream=False)
            where = "messages[2]: the thinking was left out, because it is bound to the messages before it"
            assert dropped(reply) == ([] if words is None else [f"{where}: {words}"])
            assert len(thinking(server.bodies[-1])) == (words is None)
            assert "messages[2]" in str(dropped(reply)) or words is None
    assert server.refused == 0


async def test_what_is_no_change() -> None:
    """The order of tools, tools that are loaded later, and cache marks are not part of what thinking is bound to."""
    server = BindingServer(enforces=False)
    later = Tool("later", "Loaded later.", {"type": "object", "properties": {}}, extra={"defer_loading": True})
    async with asked(server) as provider:
        first = await provider.chat([system("Hi"), user("[look]")], TOOLS[:2], stream=False)
        [call] = first.message.tool_calls
        talk = [system("Hi"), user("[look]"), first.message, tool_result(call, [TextPart("a"), TextPart("b")])]
        second = await provider.chat(talk, TOOLS[:2], stream=False)
        marked = tool_result(call, [TextPart("a", cache=True), TextPart("b")])
        changed = [
            system("Hi", cache=True),
            user("[look]", cache=True),
            first.message,
            marked,
            second.message,
            user("So?"),
        ]
        reply = await provider.chat(changed, [later, *reversed(TOOLS[:2])], stream=False)
    assert (dropped(reply), len(thinking(server.bodies[-1]))) == ([], 2)


async def test_an_older_account() -> None:
    """Where changes are not checked, as on accounts before 31 August 2026, all thinking is sent, and nothing asked."""
    server = BindingServer(enforces=False)
    async with asked(server, "claude-opus-5-5") as provider:
        first = await provider.chat([system("10:00"), user("Hi")], stream=False)
        reply = await provider.chat([system("10:01"), user("Hi"), first.message, user("Now?")], stream=False)
    assert (len(thinking(server.bodies[-1])), dropped(reply)) == (1, [])
    assert "block_binding" not in str(server.bodies)


async def test_a_newer_account() -> None:
    """The first refusal says that changes are checked: later ones are found before a request is sent."""
    server = BindingServer()
    async with asked(server, "claude-opus-5-5") as provider:
        for number in range(3):
            first = await provider.chat([system("10:00"), user(f"Hi {number}")], stream=False)
            talk = [user(f"Hi {number}"), first.message, user("Now?")]
            reply = await provider.chat([system("10:01"), *talk], stream=False)
            assert "the system prompt has changed" in dropped(reply)[-1]
            assert server.refused == 1


async def test_an_unknown_history_is_remembered_for_itself() -> None:
    """After a refusal, the server is asked to leave out thinking in this conversation, and in no other one."""
    server = BindingServer()
    async with asked(server) as provider:
        first = await provider.chat([system("10:00"), user("Hi")], stream=False)
        other = await provider.chat([system("10:00"), user("Hello")], stream=False)
        bare = replace(first.message, prefix=None)
        talk = [system("10:01"), user("Hi"), bare, user("Now?")]
        reply = await provider.chat(talk, stream=False)
        assert (server.refused, len(server.bodies)) == (1, 4)
        assert server.bodies[-1]["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
        assert BETA in server.bodies[-1]["betas"]
        assert "The `system` differs" in dropped(reply)[0]
        assert dropped(reply)[1] == "the provider left out the thinking messages.1.content.0 (prefix_binding_mismatch)"
        reply = await provider.chat([*talk, reply.message, user("And now?")], stream=False)
        assert (server.refused, len(server.bodies)) == (1, 5)
        assert "block_binding" in server.bodies[-1]["thinking"]
        unchanged = [system("10:00"), user("Hello"), replace(other.message, prefix=None), user("Now?")]
        reply = await provider.chat(unchanged, stream=False)
        assert "block_binding" not in str(server.bodies[-1].get("thinking"))
        assert (dropped(reply), len(thinking(server.bodies[-1])), server.refused) == ([], 1, 1)


async def test_the_callers_own_word() -> None:
    """A caller who sends the option decides: nothing is left out before, and nothing is sent again."""
    server = BindingServer()
    binding = {
        "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}},
        "betas": [BETA],
    }
    async with asked(server) as provider:
        first = await provider.chat([system("10:00"), user("Hi")], stream=False)
        talk = [system("10:01"), user("Hi"), first.message, user("Now?")]
        with pytest.raises(BadRequestError, match="bound to a different conversation"):
            await provider.chat(talk, stream=False, extra_body=binding)
        assert server.refused == 1
        binding["thinking"]["block_binding"]["prefix_mismatch_behavior"] = "drop_block"  # type: ignore[index]
        reply = await provider.chat(talk, stream=False, extra_body=binding)
        left_out = ["the provider left out the thinking messages.1.content.0 (prefix_binding_mismatch)"]
        assert (dropped(reply), len(thinking(server.bodies[-1]))) == (left_out, 1)


async def test_thinking_of_another_model() -> None:
    """Thinking that is refused as that of another model is left out once, and remembered for those turns alone."""
    sent: list[list[str]] = []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append([signature for signature in ("first", "second") if f'"{signature}"' in request.content.decode()])
        if "first" in sent[-1]:
            error = {
                "type": "invalid_request_error",
                "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
            }
            return httpx.Response(400, json={"type": "error", "error": error})
        content = [{"type": "thinking", "thinking": "", "signature": "second"}, {"type": "text", "text": "Yes"}]
        return httpx.Response(200, json={"type": "message", "content": content, "stop_reason": "end_turn"})

    blocks = [{"type": "thinking", "thinking": "", "signature": "first"}, {"type": "text", "text": "Hi"}]
    turn = Message("assistant", "Hi", extras={"blocks": blocks})
    async with httpx.AsyncClient(transport=httpx.MockTransport(serve)) as client:
        provider = Provider.from_config("anthropic:claude-sonnet-5", api_key="k", http_client=client)
        talk = [user("Hi"), turn, user("So?")]
        first = await provider.chat(talk, stream=False)
        assert "messages[1]: the reasoning was not sent: claude-sonnet-5 refused it" in dropped(first)[0]
        await provider.chat([*talk, first.message, user("And?")], stream=False)
    assert sent == [["first"], [], ["second"]]
