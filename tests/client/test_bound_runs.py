"""Agent runs that change what stands before bound thinking (Claude 5.1 and later), against a server that checks it.

The server is written from Anthropic's pages on preserved thinking. A signature holds the system prompt, the tools and
everything before the block, and the thinking block before it. Marks for the cache and the effort don't count. Leading
thinking may be left out, thinking between others may not.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from scale import pick
from streamfold import APIError, Message, Provider, Reply, Tool, run_tools, system, tool_result, user

Body = dict[str, Any]

BETA = "thinking-binding-controls-2026-08-01"
BOUND = (
    "messages.{}.content.{}: Invalid `signature` in `{}` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". '
    f"That setting requires the `{BETA}` value in the `anthropic-beta` header."
)
SIGNED = ("thinking", "redacted_thinking")
EVERY_ACCOUNT = "claude-fable-5-2"  # checked for every account; Opus 5.5 for accounts since 31 August 2026
ACCOUNTS = [(EVERY_ACCOUNT, True), ("claude-opus-5-5", True), (EVERY_ACCOUNT, True), ("claude-opus-5-5", False)]
SAID = {"system": "the system prompt has", "tools": "the tools have", "messages": "something in messages["}
PLACES = ("system", "tools", "messages")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def unmarked(value: Any) -> Any:
    """The value without its marks for the cache, which do not count as a change."""
    if isinstance(value, dict):
        return {key: unmarked(member) for key, member in value.items() if key != "cache_control"}
    return [unmarked(member) for member in value] if isinstance(value, list) else value


def blocks_of(content: Any) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


@dataclass
class Issued:
    """A thinking block that the server has made."""

    block: Body
    before: dict[str, str]
    previous: str | None


@dataclass
class Seen:
    """A request, and what the server made of it."""

    conversation: str
    drop_block: bool
    refused: bool = False
    unreadable: str = ""
    sent: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    usable: list[str] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)


class BoundServer:
    """Anthropic's Messages API with thinking that is bound to its prefix."""

    def __init__(self, seed: int, enforced: bool) -> None:
        self.random = random.Random(seed)
        self.enforced = enforced  # of accounts before 31 August 2026, only where a request asks for it
        self.count = 0
        self.issued: dict[str, Issued] = {}
        self.turns: dict[str, list[Body]] = {}
        self.forgotten: set[str] = set()  # what the caller has thrown away
        self.seen: list[Seen] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await anyio.lowlevel.checkpoint()
        body = json.loads(request.content)
        betas = request.headers.get("anthropic-beta", "").split(",")
        binding = (body.get("thinking") or {}).get("block_binding")
        seen = Seen(body["metadata"]["user_id"], bool(binding))
        self.seen.append(seen)
        if binding is not None and (
            BETA not in [beta.strip() for beta in betas] or binding != {"prefix_mismatch_behavior": "drop_block"}
        ):
            return self.refuse(seen, "thinking.block_binding: Extra inputs are not permitted")
        state = self.parts(body)
        messages = [(message["role"], blocks_of(message["content"])) for message in body["messages"]]
        kept, mismatch = self.check(state, messages, seen)
        if seen.unreadable:
            return self.refuse(seen, seen.unreadable)
        seen.usable = self.whole(state, messages, seen)
        if mismatch and not binding and self.enforced:
            return self.refuse(seen, mismatch)
        if not binding and not self.enforced:
            kept = list(seen.sent)
            seen.usable, seen.left_out, seen.dropped = [*seen.usable, *seen.left_out], [], []
        return self.answer(body, state, messages, kept, seen)

    def refuse(self, seen: Seen, message: str) -> httpx.Response:
        seen.refused = True
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        return httpx.Response(400, json=error)

    def parts(self, body: Body) -> dict[str, str]:
        return {
            "system": digest(unmarked(blocks_of(body.get("system")))),
            "tools": digest(sorted(unmarked(body.get("tools") or []), key=digest)),
        }

    def walk(
        self, state: dict[str, str], messages: list[tuple[str, list[Body]]]
    ) -> Iterator[tuple[int, int, Body, dict[str, str]]]:
        """Each thinking block, where it stands, and what stands before it."""
        before: list[Any] = []
        for at, (role, blocks) in enumerate(messages):
            turn: list[Any] = []
            for index, block in enumerate(blocks):
                if block["type"] in SIGNED:
                    yield at, index, block, {**state, "messages": digest([*before, [role, turn]])}
                else:
                    turn = [*turn, unmarked(block)]
            before = [*before, [role, turn]]

    def name(self, block: Body) -> str:
        return str(block.get("signature") or block.get("data") or "")

    def fits(self, name: str, before: dict[str, str], kept: list[str]) -> bool:
        issued = self.issued[name]
        return issued.before == before and (not kept or kept[-1] == issued.previous)

    def check(self, state: dict[str, str], messages: list[tuple[str, list[Body]]], seen: Seen) -> tuple[list[str], str]:
        kept: list[str] = []
        mismatch = ""
        for at, index, block, before in self.walk(state, messages):
            name = self.name(block)
            if name not in self.issued or unmarked(block) != self.issued[name].block:
                seen.unreadable = f"messages.{at}.content.{index}: Invalid `signature` in `thinking` block"
                continue
            seen.sent.append(name)
            if self.fits(name, before, kept):
                kept.append(name)
            else:
                seen.dropped.append(name)
                seen.paths.append(f"messages.{at}.content.{index}")
                was = self.issued[name].before
                place = next((place for place in PLACES if was[place] != before[place]), "thinking")
                mismatch = mismatch or BOUND.format(at, index, block["type"]) + f" The {place} differ."
        return kept, mismatch

    def whole(self, state: dict[str, str], messages: list[tuple[str, list[Body]]], seen: Seen) -> list[str]:
        """The thinking that the request could have had, and in `seen` what has changed before the rest."""
        full = []
        for role, blocks in messages:
            plain = [block for block in blocks if block["type"] not in SIGNED]
            made = self.turns.get(digest(unmarked(plain))) if role == "assistant" else None
            full.append((role, [block for block in made or blocks if self.name(block) not in self.forgotten]))
        kept: list[str] = []
        for _, _, block, before in self.walk(state, full):
            name = self.name(block)
            if self.fits(name, before, kept):
                kept.append(name)
            else:
                was = self.issued[name].before
                seen.changed |= {place for place in PLACES if was[place] != before[place]}
                seen.left_out.append(name)
        return kept

    def answer(
        self,
        body: Body,
        state: dict[str, str],
        messages: list[tuple[str, list[Body]]],
        kept: list[str],
        seen: Seen,
    ) -> httpx.Response:
        content: list[Body] = []
        previous = kept[-1] if kept else None
        offered = [tool["name"] for tool in body.get("tools") or ()]
        calls = messages[-1][1][0]["type"] != "tool_result" and bool(offered) and self.random.random() < 0.6
        shape = self.random.choice(["t", "tt", "r", "ot", "tx"]) + ("c" * self.random.randint(1, 2) if calls else "xs")
        for kind in shape:
            self.count += 1
            n = self.count
            if kind in "tro":
                name = f"sig-{n}-" + digest([state, n])
                block = {"type": "thinking", "thinking": f"Thought {n}." if kind == "t" else "", "signature": name}
                if kind == "r":
                    block = {"type": "redacted_thinking", "data": name}
                turn = [unmarked(part) for part in content if part["type"] not in SIGNED]
                history = [
                    [role, [unmarked(part) for part in blocks if part["type"] not in SIGNED]]
                    for role, blocks in messages
                ]
                before = {**state, "messages": digest([*history, ["assistant", turn]])}
                self.issued[name] = Issued(block, before, previous)
                previous = name
                content.append(block)
            elif kind == "c":
                name = self.random.choice(offered)
                content.append({"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": {"n": n}})
            else:
                content.append({"type": "text", "text": f"Text {n}."})
                if kind == "s" and self.random.random() < 0.5:
                    break
        plain = [block for block in content if block["type"] not in SIGNED]
        self.turns[digest(plain)] = content
        return httpx.Response(
            200,
            headers={"content-type": "text/event-stream"},
            content=stream(body["model"], content, "tool_use" if calls else "end_turn", seen, self.count),
        )


def stream(model: str, content: list[Body], reason: str, seen: Seen, n: int) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 1}
    start: Body = {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": model, "content": []}
    start |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    if seen.drop_block:
        start["input_transformations"] = [
            {"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"} for path in seen.paths
        ]
    events: list[Body] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(content):
        empty, deltas = dict(block), []
        if block["type"] == "thinking":
            empty |= {"thinking": "", "signature": ""}
            if block["thinking"]:
                deltas.append({"type": "thinking_delta", "thinking": block["thinking"]})
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            empty["text"] = ""
            deltas.append({"type": "text_delta", "text": block["text"]})
        elif block["type"] == "tool_use":
            empty["input"] = {}
            deltas.append({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": reason, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def a_tool(name: str, description: str = "Does it.") -> Tool:
    def function(n: int) -> str:
        return f"done {n}"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return Tool(name, description, schema, function=function)


@dataclass
class Conversation:
    """What one agent has in memory, and how it changes it between turns."""

    name: str
    random: random.Random
    system: str
    tools: list[Tool]
    forgotten: set[str]
    history: list[Message] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    refused_by: set[int] = field(default_factory=set)

    def exchanges(self) -> list[int]:
        """Where the user speaks: a turn may be cut away there."""
        return [at for at, message in enumerate(self.history) if message.role == "user"]

    def change(self) -> str:
        kinds = ["nothing"] * 4 + ["system", "restore", "add", "remove", "describe", "order", "edit", "trim", "drop"]
        kinds += ["say", "forget", "json", "json", "append", "mark", "result", "legacy", "note"]
        kind = self.random.choice(kinds)
        n = self.random.randint(100, 999)
        starts = self.exchanges()
        if kind == "system":
            self.system = f"It is {n}."
        elif kind == "restore":
            self.system = f"You are {self.name[0]}."
        elif kind == "add":
            self.tools.append(a_tool(f"tool_{n}_{len(self.done)}"))
        elif kind == "remove" and self.tools:
            self.tools.pop(self.random.randrange(len(self.tools)))
        elif kind == "describe" and self.tools:
            at = self.random.randrange(len(self.tools))
            self.tools[at] = a_tool(self.tools[at].name, f"Does {n}.")
        elif kind == "order":
            self.random.shuffle(self.tools)
        elif kind == "edit" and starts:
            self.history[self.random.choice(starts)] = user(f"Edited {n}.")
        elif kind == "trim" and len(starts) > 2:
            del self.history[: starts[1]]
        elif kind == "drop" and len(starts) > 2:
            at = self.random.randrange(len(starts) - 1)
            del self.history[starts[at] : starts[at + 1]]
        elif kind == "json":
            self.history = [Message.from_json(message.to_json()) for message in self.history]
        elif kind == "append":
            self.history.append(user(f"Also {n}."))
        elif kind == "note":
            self.history.append(system(f"Note {n}."))
        elif kind == "mark" and starts:
            at = self.random.choice(starts)
            self.history = [replace(message, cache=place == at) for place, message in enumerate(self.history)]
        elif kind == "result":
            results = [at for at, message in enumerate(self.history) if message.role == "tool"]
            if results:
                at = self.random.choice(results)
                self.history[at] = replace(self.history[at], content=f"cut {n}")
        elif kind in ("say", "forget"):
            replies = [at for at, message in enumerate(self.history) if message.role == "assistant"]
            at = self.random.choice(replies)
            if kind == "say":  # an answer is written anew, without its blocks
                change: Body = {"content": f"Said {n}."}
            else:
                change = {"content": self.history[at].content or None}
            for block in self.history[at].extras.get("blocks", ()):
                self.forgotten.add(block.get("signature") or block.get("data") or "?")
            self.history[at] = replace(self.history[at], reasoning=None, extras={}, **change)
        elif kind == "legacy":
            self.history = [replace(message, prefix=None) for message in self.history]
        else:
            kind = "nothing"
        self.done.append(kind)
        return kind


class Run:
    """One generated run: one or two conversations on one server."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.model, enforced = ACCOUNTS[seed % len(ACCOUNTS)]
        self.server = BoundServer(seed, enforced)
        self.failures: list[str] = []
        self.providers = 0
        self.refusals: set[str] = set()  # the conversations of which this provider has had one
        same = self.random.random() < 0.5  # two conversations may begin with the same words
        names = ["a1", "a2" if same else "b2"][: self.random.choice([1, 2, 2])]
        tools = [a_tool("first"), a_tool("second")]
        self.conversations = [
            Conversation(name, random.Random(seed * 10 + at), f"You are {name[0]}.", list(tools), self.server.forgotten)
            for at, name in enumerate(names)
        ]
        self.restart()

    def restart(self) -> None:
        self.providers += 1
        self.refusals = set()
        self.provider = Provider.from_config(
            {"profile": "anthropic", "model": self.model, "api_key": "test", "max_retries": 0},
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self.server)),
        )

    def fail(self, kind: str, what: str, it: Conversation) -> None:
        self.failures.append(f"{kind}: seed {self.seed}, {it.name}, {it.done}: {what}")

    async def go(self) -> list[str]:
        for _ in range(self.random.randint(4, 8)):
            if self.random.random() < 0.15:
                self.restart()
                for it in self.conversations:
                    it.done.append("restart")
            if self.random.random() < 0.3:
                async with anyio.create_task_group() as group:
                    for it in self.conversations:
                        group.start_soon(self.turn, it)
            else:
                await self.turn(self.random.choice(self.conversations))
        return self.failures

    async def turn(self, it: Conversation) -> None:
        if it.history:
            for _ in range(self.random.randint(1, 2)):
                it.change()
        it.history.append(user(f"Question {len(it.done)}." if it.history else f"Hello from {it.name[0]}."))
        if self.random.random() < 0.3:
            await self.ask_by_run(it)
            return
        for _ in range(4):
            reply = await self.ask(it)
            if reply is None:
                return
            it.history.append(reply.message)
            if not reply.tool_calls:
                return
            it.history += [tool_result(call, f"result {call.id}") for call in reply.tool_calls]
            if self.random.random() < 0.2:  # the prompt changes while a tool runs
                it.system = f"It is {self.random.randint(100, 999)}."
                it.done.append("system in the loop")

    def requests(self, it: Conversation) -> list[Seen]:
        return [seen for seen in self.server.seen if seen.conversation == it.name]

    def options(self, it: Conversation) -> dict[str, Any]:
        effort = self.random.choice(["low", "high"])
        return {"reasoning_effort": effort, "extra_body": {"metadata": {"user_id": it.name}}}

    async def ask(self, it: Conversation) -> Reply | None:
        since = len(self.requests(it))
        try:
            reply = await self.provider.chat([system(it.system), *it.history], it.tools, **self.options(it))
        except APIError as error:
            self.fail("refused", str(error), it)
            return None
        self.judge(it, since, [reply])
        return reply

    async def ask_by_run(self, it: Conversation) -> None:
        since = len(self.requests(it))
        messages = [system(it.system), *it.history]
        try:
            async with run_tools(self.provider, messages, it.tools, **self.options(it)) as run:
                async for _ in run:
                    pass
        except APIError as error:
            self.fail("refused in run_tools", str(error), it)
            return
        it.history = list(run.messages)[1:]
        self.judge(it, since, None)

    def judge(self, it: Conversation, since: int, replies: list[Reply] | None) -> None:
        requests = self.requests(it)[since:]
        for seen in requests:
            if seen.unreadable:
                self.fail("changed", seen.unreadable, it)
            if seen.drop_block and self.providers not in it.refused_by:
                self.fail("drop_block", "sent without a refusal of this conversation", it)
            if seen.refused:
                if "legacy" not in it.done and (self.model == EVERY_ACCOUNT or it.name in self.refusals):
                    self.fail("asked", f"a request that was refused, with digests: {sorted(seen.changed)}", it)
                it.refused_by.add(self.providers)
                self.refusals.add(it.name)
            kept = set(seen.sent) - set(seen.dropped)
            if len(kept) < len(seen.usable):  # where a reply has lost its blocks, either side of the gap can be kept
                self.fail("dropped", f"{len(seen.usable) - len(kept)} of {len(seen.usable)} that could be kept", it)
        if replies is None:
            return
        last = requests[-1]
        left = set(last.left_out) | set(last.dropped)
        details = [warning.detail for warning in replies[-1].warnings if warning.code == "reasoning_dropped"]
        if bool(left) != bool(details):
            self.fail("warning", f"{len(left)} left out, drop_block {last.drop_block}, but warned {details}", it)
        elif left and not last.drop_block:
            named = {place for place, words in SAID.items() if any(words in detail for detail in details)}
            if named != last.changed:
                self.fail("named", f"{sorted(last.changed)} changed, but warned {details}", it)


@pytest.mark.slow
@pytest.mark.one_loop
@pytest.mark.anyio
async def test_agents_that_change_what_thinking_is_bound_to() -> None:
    """No run is refused, nothing is left out that could be kept, and what is left out is said."""
    failures = [failure for seed in range(pick(300, 20)) for failure in await Run(seed).go()]
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:20])
