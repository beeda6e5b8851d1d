"""What an endpoint has refused, remembered: for whom, for which requests, and how long."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from folding import DONE, fin, text
from served_apps import client_of
from servers import Connection, Server, answer, serving
from streamfold.client import OptionRestriction
from streamfold.client.rejected_options import RestrictionCache, Restrictions, combination_of
from streamfold.limits import RateLimiter
from streamfold.middleware import Middleware
from streamfold.requests import Request
from tables import each_row

GOOD = answer("200 OK", text("Hi") + fin("stop") + DONE)


def refused(message: str, param: str) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_value"}
    return answer("400 Bad Request", json.dumps({"error": error}).encode())


async def no_temperature_beside_reasoning(peer: Connection) -> None:
    """A server that refuses `temperature` while the model thinks, `stream_options` always, and a `seed` never."""
    while True:
        body = json.loads(await peer.request())
        thinks = body.get("reasoning_effort", "none") != "none" or "thinking" in body
        if "stream_options" in body:
            await peer.send(refused("Unknown parameter: 'stream_options'.", "stream_options"))
        elif thinks and body.get("temperature") not in (None, 1):
            await peer.send(refused("'temperature' may only be 1 when reasoning is enabled.", "temperature"))
        else:
            await peer.send(GOOD)


def bodies(server: Server) -> list[dict[str, Any]]:
    """What the server got since the last call."""
    found = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]
    server.requests.clear()
    return found


def asked(**options: Any) -> Request:
    return Request.read("m", "Hello", None, "auto", options)


LEARNED = Restrictions((OptionRestriction("temperature", "no"),))


def test_a_restriction_holds_for_the_combination_that_was_refused() -> None:
    """And for requests that ask for more; not for those that lack a part of it, or have a switch set otherwise."""
    cache = RestrictionCache(lambda: 0.0)
    cache.add("m", "a", combination_of(asked(temperature=0.2, reasoning_effort="high")), LEARNED)

    def found(model: str = "m", owner: str = "a", **options: Any) -> Restrictions:
        return cache.find(model, owner, asked(**options))

    assert found(temperature=0.9, reasoning_effort="high") == LEARNED
    assert found(temperature=0.2, reasoning_effort="high", seed=1) == LEARNED
    for other in ({"temperature": 0.2}, {"reasoning_effort": "high"}, {"temperature": 0.2, "reasoning_effort": "none"}):
        assert found(**other) == Restrictions()
    assert found("other", temperature=0.2, reasoning_effort="high") == Restrictions()
    assert found(owner="b", temperature=0.2, reasoning_effort="high") == Restrictions()


def test_a_restriction_is_forgotten_after_an_hour() -> None:
    """Servers change: then the request is sent as it is, and refused again or not."""
    now = [0.0]
    cache = RestrictionCache(lambda: now[0])
    cache.add("m", "a", combination_of(asked(temperature=0.2)), LEARNED)
    for seconds, known in {3599.0: LEARNED, 3600.0: Restrictions()}.items():
        now[0] = seconds
        assert cache.find("m", "a", asked(temperature=0.2)) == known


def test_the_cache_is_bounded() -> None:
    """Whatever names and combinations callers invent; the latest stay."""
    cache = RestrictionCache(lambda: 0.0)
    for number in range(5000):
        cache.add("m", "a", combination_of(asked(extra_body={"x": number})), LEARNED)
        cache.add(f"m{number}", "a", combination_of(asked(temperature=1)), LEARNED)
        cache.add("m", f"owner {number}", combination_of(asked(temperature=1)), LEARNED)
    assert cache.find("m", "a", asked(extra_body={"x": 4999})) == LEARNED
    assert cache.find("m", "owner 4999", asked(temperature=1)) == LEARNED
    assert cache.find("m", "a", asked(extra_body={"x": 4900})) == Restrictions()
    assert cache.find("m", "owner 3000", asked(temperature=1)) == Restrictions()


async def test_a_combination_in_extra_body() -> None:
    """A member that turns thinking on is a part of it, by its value."""
    async with serving(no_temperature_beside_reasoning) as server, server.provider() as provider:
        thinking = {"thinking": {"type": "enabled"}}
        await provider.chat("Hello", temperature=0.2, extra_body=thinking)
        bodies(server)
        await provider.chat("Hello", temperature=0.2, extra_body=thinking)
        await provider.chat("Hello", temperature=0.2)
        assert [body.get("temperature") for body in bodies(server)] == [None, 0.2]


async def test_other_limiters_share_what_was_refused() -> None:
    """After `with_limiter`, nothing is refused again, `stream_options` included."""
    async with serving(no_temperature_beside_reasoning) as server, server.provider() as provider:
        await provider.chat("Hello", temperature=0.2, reasoning_effort="high")
        assert len(bodies(server)) == 3
        limited = provider.with_limiter(RateLimiter("batch", rpm=1000))
        await limited.chat("Hello", temperature=0.2, reasoning_effort="high")
        assert len(bodies(server)) == 1


async def test_another_api_key_is_another_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """An account may be allowed what another one is not: with a new key, the request is sent as it is."""
    async with serving(no_temperature_beside_reasoning) as server:
        monkeypatch.setenv("SOME_KEY", "first")
        async with server.provider(api_key_env="SOME_KEY") as provider:
            for key, requests in (("first", 3), ("first", 1), ("second", 3), ("first", 1)):
                monkeypatch.setenv("SOME_KEY", key)
                await provider.chat("Hello", temperature=0.2, reasoning_effort="high")
                assert (key, len(bodies(server))) == (key, requests)


class Plain(Middleware):
    """Passes everything on."""


@asynccontextmanager
async def two_keys(server: Server, *, wrapped: bool) -> AsyncIterator[Any]:
    gateway = pytest.importorskip("streamfold_gateway").gateway
    provider = server.provider()
    model = Plain(provider) if wrapped else provider
    async with provider, gateway({"main": model}, keys=["key-a", "key-b"]) as app, client_of(app) as client:

        async def ask(key: str, **options: Any) -> list[Mapping[str, Any]]:
            body = {"model": "main", "messages": [{"role": "user", "content": "hi"}], **options}
            got: httpx.Response = await client.post(
                "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}
            )
            assert got.status_code == 200
            return bodies(server)

        yield ask


@each_row("wrapped", [False, True])
async def test_one_keys_refusals_change_no_request_of_another_key(wrapped: bool) -> None:
    """Of a gateway, also around a model of a program's own; nor requests of the same key that ask for less."""
    async with serving(no_temperature_beside_reasoning) as server, two_keys(server, wrapped=wrapped) as ask:
        first = await ask("key-b", temperature=0.2)
        assert [body.get("temperature") for body in first] == [0.2, 0.2]  # refused for its stream_options
        refused = await ask("key-a", temperature=0.2, reasoning_effort="high")
        assert [body.get("temperature") for body in refused] == [0.2, 0.2, None]
        for key, options, sent in (
            ("key-a", {"temperature": 0.2, "reasoning_effort": "high"}, [None]),
            ("key-a", {"temperature": 0.2}, [0.2]),
            ("key-b", {"temperature": 0.2}, [0.2]),
            ("key-b", {"temperature": 0.2, "reasoning_effort": "high"}, [0.2, None]),
        ):
            assert [body.get("temperature") for body in await ask(key, **options)] == sent, (key, options)
