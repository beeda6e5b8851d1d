"""httpx and `json`, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
from bare import BareLoop
from payloads import TOOLS

from . import KEY, MODEL, PATHS, Answer, Ask

PACKAGES = ("httpx",)


def prepare(url: str, api: str, _: str | None, parse: Callable[[bytes], Any] = json.loads) -> Ask:
    client = httpx.AsyncClient(timeout=None)
    path = url + PATHS[api]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True, "tools": TOOLS}

    async def ask() -> Answer:
        loop = BareLoop(api, parse)
        async with client.stream("POST", path, json=body, headers={"authorization": f"Bearer {KEY}"}) as response:
            async for data in response.aiter_bytes():
                loop.feed(data)
        return loop.text, loop.calls, loop.chunks

    return ask
