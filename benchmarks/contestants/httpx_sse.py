"""httpx with httpx-sse, and `json`: the bare loop of somebody who would rather not cut bytes."""

from __future__ import annotations

import json

import httpx
from bare import BareLoop
from httpx_sse import aconnect_sse
from payloads import TOOLS

from . import KEY, MODEL, PATHS, Answer, Ask

PACKAGES = ("httpx", "httpx-sse")


def prepare(url: str, api: str, _: str | None) -> Ask:
    client = httpx.AsyncClient(timeout=None)
    path = url + PATHS[api]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True, "tools": TOOLS}
    headers = {"authorization": f"Bearer {KEY}"}

    async def ask() -> Answer:
        loop = BareLoop(api)
        async with aconnect_sse(client, "POST", path, json=body, headers=headers) as source:
            async for event in source.aiter_sse():
                if event.data != "[DONE]":
                    loop.collect(json.loads(event.data))
        return loop.text, loop.calls, loop.chunks

    return ask
