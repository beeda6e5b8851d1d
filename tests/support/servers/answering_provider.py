"""A provider whose server answers in turn, with the key in whatever it says."""

from __future__ import annotations

from typing import Any

import httpx

from folding import DONE, fin, text
from streamfold import Hooks, Provider

USAGE = b'data: {"id":"r1","model":"m-1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
GOOD = text("Hi") + fin("stop") + USAGE + DONE
CANARY = "sk-canary-0123456789"


def client(*answers: bytes | int) -> httpx.AsyncClient:
    """A client that is answered in turn: a stream, or an error status; the last one again and again."""
    left = list(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        now = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(now, int):
            return httpx.Response(now, json={"error": {"message": f"busy with {CANARY}"}}, headers={"retry-after": "0"})
        return httpx.Response(200, content=now)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


def provider(http_client: httpx.AsyncClient, *hooks: Hooks, **config: Any) -> Provider:
    written = {"name": "main", "base_url": "http://test/v1", "model": "m", "api_key": CANARY, **config}
    return Provider.from_config(written, http_client=http_client, hooks=hooks)
