"""Ways to leave an answer before its end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import anyio

from folding import DONE, fin, text
from servers import END, STREAM, Connection, framed
from streamfold import Provider

HELLO = text("Hi") + fin("stop") + DONE


async def trickling(peer: Connection) -> None:
    """An answer without an end, in small pieces; the request that asks for it gets a whole one."""
    while True:
        if b"whole" in await peer.request():
            await peer.send(STREAM, framed(HELLO), END)
            continue
        await peer.send(STREAM)
        while True:
            await peer.send(framed(text("more")))
            await anyio.sleep(0.002)


WAYS = ["break", "close", "cancel", "cancel at once", "abandon"]


async def leave(provider: Provider, rng: random.Random, ways: Sequence[str] = WAYS) -> None:
    """Leaves a stream at a random point, in one of these ways."""
    how = rng.choice(ways)
    chunks, delay = rng.randrange(4), rng.random() * 0.02
    if how == "abandon":
        async for _ in provider.chat_stream("Hello"):
            if (chunks := chunks - 1) <= 0:
                break
    elif how == "break":
        async with provider.chat_stream("Hello") as stream:
            async for _ in stream:
                if (chunks := chunks - 1) <= 0:
                    break
    elif how == "close":
        stream = provider.chat_stream("Hello")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, stream)
            await anyio.sleep(delay)
            tasks.start_soon(stream.aclose)
            await stream.aclose()
    else:
        with anyio.move_on_after(delay if how == "cancel" else 0):
            await read(provider.chat_stream("Hello"))


async def read(stream: Any) -> None:
    async for _ in stream:
        pass
