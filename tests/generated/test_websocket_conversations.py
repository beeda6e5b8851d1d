"""Generated conversations over WebSockets: whatever happens to connections, the model sees the whole history."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from websockets.protocol import SERVER, Protocol

from scale import pick
from sockets import (
    SocketPeer,
    call_item,
    error_event,
    events_of,
    message_item,
    reasoning_item,
    serving_sockets,
)
from streamfold import APIError, Message, Provider, tool_result, user

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
HAPPENINGS = [None] * 8 + ["forgets", "expires", "closes", "closes idle", "cuts", "overloaded", "refuses"]


class RememberingServer:
    """A server that keeps the newest response of each connection in memory, and fails in every way.

    Attributes:
        seen: the whole input of each request that a model has answered.
        named: how many requests named a response that was remembered.
    """

    def __init__(self, rng: random.Random) -> None:
        self.seen: list[list[Any]] = []
        self.named = 0
        self._rng = rng
        self._number = 0

    async def script(self, peer: SocketPeer) -> None:
        await peer.accept()
        newest: tuple[str, list[Any]] | None = None
        while True:
            request = await peer.create()
            happens = self._rng.choice(HAPPENINGS)
            items, previous = request["input"], request.get("previous_response_id")
            if happens == "forgets":
                newest = None
            if happens == "expires":
                await peer.send(error_event(400, "websocket_connection_limit_reached"))
                return
            if happens == "closes":
                await peer.close(1001)
                return
            if happens in ("overloaded", "refuses"):
                newest = None
                code, status = ("server_error", 503) if happens == "overloaded" else ("invalid_request_error", 400)
                await peer.send(error_event(status, code))
                continue
            if previous is not None:
                if newest is None or newest[0] != previous:
                    newest = None
                    await peer.send(error_event(400, "previous_response_not_found"))
                    continue
                self.named += 1
                items = [*newest[1], *items]
            self._number += 1
            output = self._output()
            events = events_of(f"resp_{self._number}", *output)
            if happens == "cuts":
                await peer.send(*events[: self._rng.randrange(len(events))])
                return
            self.seen.append(items)
            newest = f"resp_{self._number}", [*items, *output]
            await peer.send(*events)
            if happens == "closes idle":
                await peer.close()
                return

    def _output(self) -> list[dict[str, Any]]:
        number = self._number
        thought = [{**reasoning_item(f"thought {number}"), "id": f"rs_{number}"}] if self._rng.random() < 0.4 else []
        if self._rng.random() < 0.4:
            return [*thought, *(call_item(f"call_{number}_{at}", "add", "{}") for at in range(self._rng.randint(1, 2)))]
        return [*thought, message_item(f"answer {number}", number)]


def sent_whole(provider: Provider, messages: list[Message]) -> list[Any]:
    """The input of a request that continues nothing."""
    body: dict[str, Any] = provider.preview(messages, TOOLS).json()
    return comparable(body["input"])


def comparable(items: list[Any]) -> list[Any]:
    """Items as they are sent back: without the status of reasoning, which no input has."""
    return [
        {name: value for name, value in item.items() if (item.get("type"), name) != ("reasoning", "status")}
        for item in items
    ]


async def a_conversation(seed: int) -> tuple[int, int]:
    """Checks one conversation with its branches. Returns how many turns it had, and how many sent only what was new."""
    rng = random.Random(seed)
    server_side = RememberingServer(rng)
    turns = 0
    async with serving_sockets(server_side.script) as server, server.provider(max_retries=0) as provider:
        conversations: list[list[Message]] = [[user(f"question {seed}")]]
        for step in range(12):
            messages = rng.choice(conversations)
            before, expected = len(server_side.seen), sent_whole(provider, messages)
            try:
                reply = await provider.chat(messages, TOOLS)
            except APIError:
                continue  # the next step asks again
            turns += 1
            assert len(server_side.seen) == before + 1, "a request was answered twice"
            assert comparable(server_side.seen[-1]) == expected, (seed, step)
            what = rng.random()
            if what < 0.1:
                conversations.append([*messages, reply.message, *results(reply), user(f"branch {step}")])
            elif what < 0.2 and len(messages) > 1:
                messages[0] = user(f"edited {step}")
            elif what < 0.25:
                pass  # the same request again
            else:
                messages += [reply.message, *results(reply)]
                if not reply.tool_calls:
                    messages.append(user(f"question {step}"))
    await server.all_closed()
    return turns, server_side.named


def results(reply: Any) -> list[Message]:
    return [tool_result(call, "3") for call in reply.tool_calls]


@pytest.mark.parametrize("part", range(4))
async def test_the_model_always_sees_the_whole_history(part: int) -> None:
    """Whatever is forgotten, closed, cut, edited or branched, remembered and sent items together are the history."""
    turns = named = 0
    for seed in range(part, pick(300, 24), 4):
        more, sent_less = await a_conversation(seed)
        turns, named = turns + more, named + sent_less
    assert turns > 25
    assert named > turns / 5  # else nothing was left to the server


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a few of them changed, lost, doubled or cut off."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(made))
        match rng.randrange(4):
            case 0:
                made[at] ^= 1 << rng.randrange(8)
            case 1:
                del made[at : at + rng.randint(1, 20)]
            case 2:
                made[at:at] = made[at : at + rng.randint(1, 20)]
            case _:
                del made[at + 1 :]
        made = made or bytearray(b"\0")
    return bytes(made)


async def test_damaged_frames_are_errors_of_ours() -> None:
    """Whatever a server sends in place of frames, the answer is whole or an error of ours, and nothing stays open."""
    frames = Protocol(SERVER)
    for event in events_of("resp_1", reasoning_item("hm"), message_item("Hi"), call_item("call_1", "add", "{}")):
        frames.send_text(json.dumps(event).encode())
    whole = b"".join(frames.data_to_send())
    rng = random.Random(1)

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send_bytes(damaged(whole, rng))

    outcomes = Counter[str]()
    async with serving_sockets(script) as server:
        for _ in range(pick(3000, 60)):
            async with server.provider(limits={"event_bytes": 100_000}) as provider:
                try:
                    reply = await provider.chat([user("Hello")], TOOLS)
                except APIError as error:
                    delivered = error.partial.tool_calls if error.partial else []
                    outcomes[f"{type(error).__name__}{' with calls' if delivered else ''}"] += 1
                else:
                    outcomes["whole"] += 1
                    assert reply.finish_reason is not None
        await server.all_closed()
    assert outcomes["IncompleteStreamError"] > sum(outcomes.values()) / 10, outcomes
    assert not [name for name in outcomes if name.endswith("with calls")]
