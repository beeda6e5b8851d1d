"""Keys with names: which models they may ask for, and how much they may use."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, event, fin, text
from gateways import CHAT, MESSAGES, RESPONSES, asking, client_of
from streamfold import ConfigError, Provider
from streamfold.config import read_config
from streamfold.recording import Recording, ReplayTransport
from streamfold_gateway import create_app, gateway
from streamfold_gateway.config import GatewaySettings
from tables import each_row

USAGE = event({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}})
HELLO = Recording("hello", text("Hello") + USAGE + fin("stop") + DONE)
GEMINI = "/v1beta/models/main:generateContent"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: asking(CHAT),
    RESPONSES: asking(RESPONSES, store=False),
    MESSAGES: {**asking(CHAT), "max_tokens": 9},
    GEMINI: {"contents": [{"parts": [{"text": "Hi"}]}]},
}
PRICES = {"input": 1000, "output": 2000}  # 0.018 for an answer


@asynccontextmanager
async def keyed(keys: Any, *recordings: Recording, **rest: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    """A client of a gateway with these keys, and the transport of its two providers."""
    transport = ReplayTransport([*recordings] or [HELLO] * 500)
    config = {"base_url": "http://u/v1", "model": "m", "max_retries": 0, "prices": PRICES}
    async with httpx.AsyncClient(transport=transport) as upstream:
        providers = {
            name: Provider.from_config({**config, "name": name}, http_client=upstream) for name in ("main", "other")
        }
        app = gateway(providers, keys=keys, **rest)
        try:
            async with client_of(app) as client:
                yield client, transport
        finally:
            await app.aclose()


def by(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def ask(client: httpx.AsyncClient, key: str, path: str = CHAT, **members: Any) -> httpx.Response:
    return await client.post(path, json={**BODIES[path], **members}, headers=by(key))


# --- models -----------------------------------------------------------------------------------------------------------


async def test_a_key_may_use_its_models_alone() -> None:
    """Others are not listed for it, and asking for one is the same error as for a model that does not exist."""
    keys = {"alice": {"key": "a", "models": ["main", "other:*"]}, "bob": "b"}
    async with keyed(keys, aliases={"gpt": "main"}) as (client, upstream):

        async def listed(key: str) -> list[str]:
            return [model["id"] for model in (await client.get("/v1/models", headers=by(key))).json()["data"]]

        assert (await listed("a"), await listed("b")) == (["main"], ["main", "other", "gpt"])
        for model, status in {"main": 200, "other": 404, "other:m2": 200, "main:m2": 404, "gpt": 404}.items():
            answer = await ask(client, "a", model=model)
            assert (model, answer.status_code) == (model, status)
            if status == 404:
                assert answer.json()["error"]["code"] == "model_not_found"
                assert answer.json()["error"]["message"].endswith("Allowed: main, other:*")
            assert (await ask(client, "b", model=model)).status_code == 200
        assert (await client.get("/v1/models/other", headers=by("a"))).status_code == 404
        assert (await client.get("/v1/models/other", headers=by("b"))).status_code == 200
        background = await ask(client, "a", RESPONSES, model="other", background=True, store=True)
        assert background.status_code == 404
        assert len(upstream.requests) == 2 + 5


# --- limits -----------------------------------------------------------------------------------------------------------


@each_row("path", BODIES)
async def test_requests_per_minute(path: str) -> None:
    """Those beyond get a 429 in the shape of their API, with the seconds to wait, and nothing is sent."""
    keys = {"alice": {"key": "a", "rpm": 20}, "bob": {"key": "b", "rpm": 20}}
    async with keyed(keys) as (client, upstream):
        began = monotonic()
        statuses = [(await ask(client, "a", path)).status_code for _ in range(30)]
        assert 20 <= statuses.count(200) <= 20 + (monotonic() - began) / 3  # all at once, and not one more
        while (answer := await ask(client, "a", path)).status_code != 429:
            pass
        assert len(upstream.requests) < 40
        assert 1 <= int(answer.headers["retry-after"]) <= 3
        error = answer.json()["error"]
        assert "the limit of 20 requests per minute" in error["message"]
        if path in (CHAT, RESPONSES):
            assert error["code"] == "rate_limit_exceeded"
        elif path == MESSAGES:
            assert (answer.json()["type"], error["type"]) == ("error", "rate_limit_error")
        else:
            assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
            assert any("retryDelay" in detail for detail in error["details"])
        assert (await ask(client, "b", path)).status_code == 200  # another key has a limit of its own


@each_row("path", BODIES)
async def test_a_spent_budget(path: str) -> None:
    """It is refused before anything is sent, as an empty account is, until the next day."""
    keys = {"alice": {"key": "a", "max_cost_per_day": 0.05}}
    async with keyed(keys) as (client, upstream):
        statuses = [(await ask(client, "a", path)).status_code for _ in range(5)]
        spent = 402 if path == MESSAGES else 429  # as Anthropic says it
        assert statuses == [200, 200, spent, spent, spent]  # a third one would be 0.054
        assert len(upstream.requests) == 2
        answer = await ask(client, "a", path)
        assert answer.headers["x-should-retry"] == "false"
        assert 0 < int(answer.headers["retry-after"]) <= 86400
        error = answer.json()["error"]
        assert "budget of 0.05" in error["message"]
        if path in (CHAT, RESPONSES):
            assert (error["type"], error["code"]) == ("insufficient_quota", "insufficient_quota")
        elif path == MESSAGES:
            assert error["type"] == "billing_error"
        else:
            assert error["status"] == "RESOURCE_EXHAUSTED"


async def test_a_budget_spent_on_one_model_leaves_the_rest_to_a_cheaper_one() -> None:
    """A key is refused a model when an answer of it doesn't fit any more, not a model that costs less than is left."""
    config, prices = {"base_url": "http://u/v1", "max_retries": 0}, {"large": 1000.0, "small": 1.0}
    keys, statuses = {"alice": {"key": "a", "max_cost_per_day": 0.05}}, []
    async with httpx.AsyncClient(transport=ReplayTransport([HELLO] * 5)) as upstream:
        models = {
            name: Provider.from_config(
                {**config, "model": name, "prices": {"input": price, "output": 2 * price}}, http_client=upstream
            )
            for name, price in prices.items()
        }
        async with gateway(models, keys=keys) as app, client_of(app) as client:
            for model in ("large", "large", "large", "small"):
                body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 500}
                answer = await client.post(CHAT, json=body, headers={"Authorization": "Bearer a"})
                statuses.append((model, answer.status_code))
    assert statuses == [("large", 200), ("large", 200), ("large", 429), ("small", 200)]


async def test_a_budget_survives_a_restart(tmp_path: Path) -> None:
    """Where it is counted in a file, or on a server."""
    keys, limits = {"alice": {"key": "a", "max_cost_per_day": 0.02}}, f"sqlite:///{tmp_path}/limits.db"
    for status in (200, 429):
        async with keyed(keys, rate_limits=limits) as (client, _):
            assert (await ask(client, "a")).status_code == status


async def test_a_budget_needs_prices() -> None:
    """Money that can't be counted can't be limited: the client gets an error, and the log says what is missing."""
    transport = ReplayTransport([HELLO] * 3)
    async with httpx.AsyncClient(transport=transport) as upstream:
        config = {"base_url": "http://u/v1", "model": "m", "max_retries": 0}
        app = gateway(
            {"main": Provider.from_config(config, http_client=upstream)},
            keys={"alice": {"key": "a", "max_cost_per_day": 1}},
        )
        async with client_of(app) as client:
            assert [(await ask(client, "a")).status_code for _ in range(2)] == [500, 500]
    assert not transport.requests


async def test_tokens_per_minute() -> None:
    """What answers used is settled: a key may go on as long as its tokens last."""
    async with keyed({"alice": {"key": "a", "tpm": 15 * 100}}) as (client, _):
        began = monotonic()
        statuses = [(await ask(client, "a")).status_code for _ in range(120)]
        assert 99 <= statuses.count(200) <= 102 + (monotonic() - began) / 0.6


async def test_what_failed_is_given_back() -> None:
    """Tokens of answers that never came are not counted, and a request that is wrong counts for nothing."""
    busy = Recording("busy", b'{"error": {"message": "no"}}', status=503)
    keys = {"alice": {"key": "a", "rpm": 10, "max_cost_per_day": 0.02}}
    async with keyed(keys, *[busy] * 5, HELLO, HELLO) as (client, _):
        assert {(await ask(client, "a", n=2)).status_code for _ in range(20)} == {400}
        assert [(await ask(client, "a")).status_code for _ in range(7)] == [503] * 5 + [200, 429]


async def test_requests_at_once() -> None:
    """Further ones get a 429 while they are answered, and are welcome afterwards."""
    keys = {"alice": {"key": "a", "max_concurrent": 2}}
    statuses: list[int] = []
    async with keyed(keys) as (client, _):

        async def one() -> None:
            statuses.append((await ask(client, "a")).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
        assert set(statuses) <= {200, 429}
        assert statuses.count(200) >= 2
        assert [(await ask(client, "a")).status_code for _ in range(10)] == [200] * 10


@each_row("limits", [{"rpm": 1}, {"max_cost_per_day": 0.02}])
async def test_what_is_beyond_a_limit_is_not_queued(limits: dict[str, float]) -> None:
    """A response in the background is refused as any other is: its client hears it at once, and nothing is kept."""
    async with keyed({"alice": {"key": "a", **limits}}) as (client, upstream):
        for members in ({"background": True}, {"store": True}, {"store": True, "stream": True}):
            first = await ask(client, "a", RESPONSES)
            refused = await ask(client, "a", RESPONSES, **{"store": None, **members})
            assert (refused.status_code, refused.json()["error"]["type"] != "") == (429, True)
            assert int(refused.headers["retry-after"]) >= 1
            assert first.status_code in (200, 429)
        assert len(upstream.requests) == 1


async def test_the_log_names_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """By its name, and never by itself."""
    caplog.set_level(logging.INFO, "streamfold.gateway")
    keys = {"alice": {"key": "secret-of-alice", "rpm": 2}}
    async with keyed(keys, json_log=True) as (client, _):
        assert [(await ask(client, "secret-of-alice")).status_code for _ in range(3)] == [200, 200, 429]
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name.endswith("requests")]
    assert [(line["key"], line["outcome"]) for line in lines] == [
        ("alice", "completed"),
        ("alice", "completed"),
        ("alice", "refused"),
    ]
    assert "secret-of-alice" not in caplog.text


# --- configuration ----------------------------------------------------------------------------------------------------

FILE = """\
[providers.main]
base_url = "http://127.0.0.1:9/v1"
model = "m"
[gateway.keys.alice]
key_env = "ALICE_KEY"
models = ["main"]
rpm = 60
tpm = 100000
max_concurrent = 4
max_cost_per_day = 5.0
"""


async def test_keys_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need no `api_key_env` beside them, and are in nothing that is shown."""
    file = tmp_path / "streamfold.toml"
    file.write_text(FILE)
    with pytest.raises(ConfigError, match=r"gateway\.keys\.alice\.key_env: ALICE_KEY is not set"):
        create_app(file)
    monkeypatch.setenv("ALICE_KEY", "secret-of-alice")
    async with client_of(create_app(file)) as client:
        assert (await client.get("/v1/models")).status_code == 401
        assert (await client.get("/v1/models", headers=by("secret-of-alice"))).status_code == 200
    settings = read_config(file).package_table("gateway", GatewaySettings)
    assert settings.keys["alice"].max_cost_per_day == 5
    assert settings.needs_key


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("rpm = 0", r":10: gateway\.keys\.alice\.rpm: must be greater than 0"),
        ('rpms = "x"', r"gateway\.keys\.alice\.rpms: unknown key \(did you mean 'rpm'\?\)"),
        ("max_cost_per_day = -1.0", "max_cost_per_day: must be greater than 0"),
    ],
)
async def test_mistakes_in_keys(tmp_path: Path, line: str, error: str) -> None:
    """An error names the place, and what is allowed."""
    file = tmp_path / "streamfold.toml"
    name = line.split(" ")[0]
    file.write_text("".join(each for each in FILE.splitlines(True) if not each.startswith(f"{name} ")) + line + "\n")
    with pytest.raises(ConfigError, match=error):
        create_app(file)


@each_row(
    ("keys", "error"),
    [
        ("k", "must be a list"),
        (["k", " "], "non-empty"),
        ({"alice": ""}, "'alice' must be a non-empty string"),
        ({"alice": {"rpm": 1}}, "'alice' must be a non-empty string"),
        ({"alice": "k", "bob": "k"}, "'bob' and 'alice' are the same key"),
        ({"alice": {"key": "k", "models": ["mian"]}}, r"'mian' is not served \(did you mean 'main'\?\)"),
        ({"alice": {"key": "k", "rpmm": 1}}, "unknown key"),
    ],
)
async def test_mistakes_in_keys_of_a_program(keys: Any, error: str) -> None:
    """They are errors when the app is made."""
    with pytest.raises(ConfigError, match=error):
        gateway({"main": {"base_url": "http://u/v1", "model": "m"}}, keys=keys)
