"""The gateway, watched by programs: metrics, a log of JSON, and whether it is alive and ready."""

from __future__ import annotations

import json
import logging
import re

import httpx
import pytest

from folding import DONE, event, fin, text
from gateways import CHAT, MESSAGES, PATHS, RESPONSES, asking, behind, client_of
from mirror import APIS
from streamfold_gateway import gateway
from streamfold_gateway.metrics import Metrics
from streamfold_gateway.request_log import RequestOutcome
from tables import each_row

USAGE = event({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}})
HELLO = text("Hello") + USAGE + fin("stop") + DONE
ODD = text("Hello") + DONE  # without a finish reason


async def metrics(client: httpx.AsyncClient, **headers: str) -> dict[str, float]:
    """The metrics by name and labels, without buckets and times of creation."""
    pytest.importorskip("prometheus_client")
    answer = await client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    found = dict(line.rsplit(" ", 1) for line in lines if "_bucket" not in line and "_created" not in line)
    return {name: float(value) for name, value in found.items()}


@each_row("api", APIS)
@each_row("stream", [True, False])
async def test_a_whole_answer_is_counted(api: str, stream: bool) -> None:
    """By API, model, provider and outcome; with its tokens, its time and its warnings."""
    async with behind(HELLO, ODD, name="kimi", metrics=True) as client:
        for _ in range(2):
            await client.post(PATHS[api], json=asking(PATHS[api], stream=stream))
        found = await metrics(client)
    labels = f'api="{api}",model="main",outcome="completed",provider="kimi",status="200"'
    assert found[f"streamfold_requests_total{{{labels}}}"] == 2
    assert found['streamfold_tokens_total{kind="input",model="main",provider="kimi"}'] == 12
    assert found['streamfold_tokens_total{kind="output",model="main",provider="kimi"}'] == 3
    assert found['streamfold_warnings_total{code="missing_finish_reason"}'] == 1
    assert found[f'streamfold_request_seconds_count{{api="{api}",model="main"}}'] == 2
    assert found['streamfold_first_chunk_seconds_count{model="main",provider="kimi"}'] == 2
    assert found["streamfold_requests_running"] == 0


async def test_refusals_and_failures_are_counted() -> None:
    """What the client did wrong is apart from what the provider did; unknown names of models are all one label."""
    async with behind(b'{"error": {"message": "no"}}', status=429, name="kimi", metrics=True) as client:
        await client.post(CHAT, json=asking(CHAT))
        for name in ("nobody", "somebody", "x" * 300):
            await client.post(MESSAGES, json={**asking(CHAT), "model": name, "max_tokens": 1})
        await client.post(RESPONSES, content=b"{")
        found = await metrics(client)
    counted = {name: count for name, count in found.items() if name.startswith("streamfold_requests_total")}
    said = {tuple(re.findall(r'="([^"]*)"', name)): count for name, count in counted.items()}
    assert said == {
        ("chat", "main", "failed", "kimi", "429"): 1,
        ("anthropic", "other", "refused", "", "404"): 2,
        ("anthropic", "other", "refused", "", "400"): 1,
        ("responses", "other", "refused", "", "400"): 1,
    }


async def test_metrics_by_key() -> None:
    """Requests, tokens and cost are counted by the names of keys, if that is configured; the keys are nowhere."""
    keys = {"alice": "secret-a", "bob": "secret-b"}
    for by_key in (True, False):
        options = {"metrics": True, "metrics_by_key": by_key}
        async with behind(HELLO, HELLO, HELLO, name="kimi", prices=PRICES, keys=keys, **options) as client:
            for name in ("alice", "bob", "bob"):
                by = {"authorization": f"Bearer {keys[name]}"}
                await client.post(PATHS["chat"], json=asking(PATHS["chat"]), headers=by)
            found = await metrics(client, **by)
        counts = {name: count for name, count in found.items() if "_key_" in name}
        assert "secret" not in str(found)
        if by_key:
            assert counts.pop('streamfold_key_cost_total{currency="EUR",key="alice"}') > 0
            assert counts.pop('streamfold_key_requests_total{key="bob",outcome="completed"}') == 2
            assert counts.pop('streamfold_key_tokens_total{key="bob",kind="output"}') == 6
        else:
            assert counts == {}


def test_few_labels() -> None:
    """Beyond a thousand names of keys, all are one."""
    pytest.importorskip("prometheus_client")
    counts = Metrics([], by_key=True)
    for number in range(1001):
        counts.observe(RequestOutcome("1", "chat", "m", "refused", 400, 0.1, key=f"key {number}"))
    samples = [sample for family in counts._registry.collect() for sample in family.samples]
    found = [sample.labels["key"] for sample in samples if sample.name == "streamfold_key_requests_total"]
    assert (len(found), found[-1]) == (1001, "other")


async def test_metrics_need_the_key() -> None:
    """They say how the server is used. Where nobody has switched them on, there are none."""
    config = {"main": {"base_url": "http://x/v1", "model": "m"}}
    async with client_of(gateway(config, keys=["k"], metrics=True)) as client:
        assert (await client.get("/metrics")).status_code == 401
        assert await metrics(client, authorization="Bearer k")
    async with client_of(gateway(config)) as client:
        assert (await client.get("/metrics")).status_code == 404


async def test_a_log_for_programs(caplog: pytest.LogCaptureFixture) -> None:
    """One object for each request, in one line, with nothing that was said in it."""
    caplog.set_level(logging.INFO, "streamfold.gateway.requests")
    async with behind(HELLO, ODD, name="kimi", json_log=True) as client:
        answers = [await client.post(CHAT, json=asking(CHAT, stream=True)) for _ in range(2)]
        await client.post(CHAT, json={**asking(CHAT), "model": "no\nbody"})
    lines = [record.getMessage() for record in caplog.records if record.name == "streamfold.gateway.requests"]
    whole, odd, refused = (json.loads(line) for line in lines)
    times = {name: whole.pop(name) for name in ("seconds", "first_seconds")}
    assert 0 <= times["first_seconds"] <= times["seconds"]
    assert whole == {
        "id": answers[0].headers["x-request-id"], "api": "chat", "model": "main", "outcome": "completed", "status": 200,
        "provider": "kimi", "finish_reason": "stop", "input_tokens": 12, "output_tokens": 3,
    }  # fmt: skip
    assert odd["warnings"] == ["missing_finish_reason"]
    assert (refused["outcome"], refused["status"], refused["model"]) == ("refused", 404, "no\nbody")
    assert not any("\n" in line or "Hello" in line for line in lines)


async def test_alive_and_ready() -> None:
    """Both answer without a key; a server that is going to stop is alive, and not ready."""
    app = gateway({"main": {"base_url": "http://x/v1", "model": "m"}}, keys=["k"])
    async with client_of(app) as client:
        for path in ("/livez", "/readyz", "/healthz"):
            assert (await client.get(path)).status_code == 200
        app.draining = True
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200


PRICES = {"input": 1000, "output": 2000, "currency": "EUR"}  # for a million tokens


async def test_what_answers_cost(caplog: pytest.LogCaptureFixture) -> None:
    """The cost is in the log for people, in the one for programs, and in the metrics, by its currency."""
    caplog.set_level(logging.INFO, "streamfold.gateway")
    async with behind(HELLO, HELLO, name="kimi", prices=PRICES, metrics=True, json_log=True) as client:
        for path in (CHAT, RESPONSES):
            await client.post(path, json=asking(path))
        found = await metrics(client)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.rpartition("tokens, ")[2] for line in lines if "completed by" in line] == ["0.018 EUR"] * 2
    outcomes = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(line["cost"], line["currency"]) for line in outcomes] == [(0.018, "EUR")] * 2
    assert "cost_estimated" not in outcomes[0]
    assert found['streamfold_cost_total{currency="EUR",model="main",provider="kimi"}'] == pytest.approx(0.036)
    assert not [name for name in found if name.startswith("streamfold_cost_estimated_total")]


async def test_what_an_answer_cost_that_broke_off(caplog: pytest.LogCaptureFixture) -> None:
    """What is known of it is counted, and marked: its token counts are not the last ones."""
    caplog.set_level(logging.INFO, "streamfold.gateway.requests")
    broken = text("Hel") + USAGE + event({"error": {"message": "overloaded"}})
    async with behind(broken, name="kimi", prices=PRICES, metrics=True, json_log=True) as client:
        await client.post(CHAT, json=asking(CHAT, stream=True))
        found = await metrics(client)
    (outcome,) = [json.loads(record.getMessage()) for record in caplog.records if record.name.endswith("requests")]
    assert (outcome["outcome"], outcome["cost"], outcome["cost_estimated"]) == ("failed", 0.018, True)
    assert found['streamfold_cost_estimated_total{currency="EUR",model="main",provider="kimi"}'] == 0.018
