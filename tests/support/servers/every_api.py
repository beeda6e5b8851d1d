"""A client of any API, our gateway, and a scripted provider of any API behind it, all in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from streamfold import Provider
from streamfold.testing import ScriptedProvider

__all__ = ["APIS", "MODELS", "PAIRS", "Wiretap", "scripted", "through"]

# As clients, "kimi" is Chat Completions with Kimi's ids and reasoning in the history.
APIS = ("chat", "responses", "kimi", "anthropic", "gemini", "interactions")
PAIRS = [(client, provider) for client in APIS for provider in APIS]
MODELS = {
    "chat": "openai:gpt-5",
    "responses": "openai-responses:gpt-5",
    "kimi": "kimi:kimi-k2.6",
    "anthropic": "anthropic:claude-sonnet-4-5",
    "gemini": "gemini:gemini-3-pro-preview",
    "interactions": "gemini-interactions:gemini-3-pro-preview",
}


class Wiretap(httpx.AsyncBaseTransport):
    """Keeps the bodies of all answers."""

    def __init__(self, app: Any) -> None:
        self._app = httpx.ASGITransport(app)
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._app.handle_async_request(request)
        self.bodies.append(await answer.aread())
        return httpx.Response(answer.status_code, headers=answer.headers, content=self.bodies[-1])


@asynccontextmanager
async def through(client: str, script: ScriptedProvider, **options: Any) -> AsyncIterator[tuple[Provider, Wiretap]]:
    """A client of this API of a gateway before a scripted provider."""
    from streamfold_gateway import gateway  # a distribution of its own

    tap = Wiretap(gateway({"main": script.provider}, **options))
    base_url = "http://gateway/v1beta" if client == "gemini" else "http://gateway/v1"
    config = {"adapter": client, "base_url": base_url, "model": "main", "api_key": "k", "max_retries": 0}
    async with httpx.AsyncClient(transport=tap) as http:
        yield Provider.from_config(config, http_client=http), tap


def scripted(provider: str, *turns: Any) -> ScriptedProvider:
    """A provider of this API that answers with a script."""
    return ScriptedProvider(*turns, provider=MODELS[provider])
