"""httpx and nothing else."""

from __future__ import annotations

import httpx
from bare import BareLoop
from payloads import TOOLS

from . import KEY, MODEL, PATHS, Answer, Ask

PACKAGES = ("httpx",)


def prepare(url: str, wire: str, _: str | None) -> Ask:
    client = httpx.AsyncClient(timeout=None)
    path = url + PATHS[wire]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True, "tools": TOOLS}

    async def ask() -> Answer:
        loop = BareLoop(wire)
        async with client.stream("POST", path, json=body, headers={"authorization": f"Bearer {KEY}"}) as response:
            async for data in response.aiter_bytes():
                loop.feed(data)
        return loop.text, loop.calls, loop.chunks

    return ask
