"""Who may use the gateway, besides the keys of clients (test_gateway.py): hosts and web pages."""

from __future__ import annotations

from typing import Any

import httpx

from folding import DONE, fin, text
from gateways import CHAT, asking
from streamfold import Provider
from streamfold.recording import Recording, ReplayTransport
from streamfold_gateway import gateway
from tables import each_row

HELLO = text("Hello") + fin("stop") + DONE


async def statuses(host: str, *, server: str = "127.0.0.1", **rest: Any) -> set[int]:
    """The statuses of a question, of the list of models and of one model, asked on `server` for `host`."""
    headers = {"host": host, **rest.pop("headers", {})}
    transport = ReplayTransport([Recording("test", HELLO)])
    async with httpx.AsyncClient(transport=transport) as upstream:
        provider = Provider.from_config({"base_url": "http://u/v1", "model": "m"}, http_client=upstream)
        app = gateway({"main": provider}, **rest)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{server}") as client:
            assert (await client.get("/healthz", headers=headers)).status_code == 200
            answers = [
                await client.post(CHAT, json=asking(CHAT), headers=headers),
                await client.get("/v1/models", headers=headers),
                await client.get("/v1/models/main", headers=headers),
            ]
    return {answer.status_code for answer in answers}


@each_row("host", ["127.0.0.1", "127.0.0.1:8100", "localhost:8100", "[::1]:8100", "app.localhost"])
async def test_names_of_this_machine(host: str) -> None:
    """A server on a loopback address answers to every name of this machine."""
    assert await statuses(host) == {200}


@each_row("host", ["evil.example", "evil.example:8100", "127.0.0.1.evil.example", "localhost.evil", "["])
async def test_a_name_that_was_made_to_point_here(host: str) -> None:
    """A page whose own name leads to this machine (DNS rebinding) can neither ask nor list the models."""
    assert await statuses(host) == {403}


async def test_other_names_where_they_are_meant() -> None:
    """With keys, on other addresses, or by `hosts`, other names are answered; with `hosts`, those alone."""
    key = {"authorization": "Bearer k"}
    assert await statuses("llm.example", keys=["k"], headers=key) == {200}
    assert await statuses("llm.example", server="192.0.2.1") == {200}
    assert await statuses("LLM.example:80", hosts=["llm.example"]) == {200}
    assert await statuses("anything.example", hosts="*") == {200}
    assert await statuses("localhost", hosts=["llm.example"]) == {403}
    assert await statuses("other.example", hosts=["llm.example"], keys=["k"], headers=key) == {403}
