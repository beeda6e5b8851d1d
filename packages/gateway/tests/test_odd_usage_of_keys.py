"""A provider whose usage has numbers that can't be counts, behind keys with limits, metrics and a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from gateways import CHAT, MESSAGES, RESPONSES, client_of
from odd_usage import MEMBERS, ODD, STREAMS
from streamfold import Provider
from streamfold.recording import Recording, ReplayTransport
from streamfold_gateway import gateway
from tables import each_row

SAID = [{"role": "user", "content": "Hi"}]
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": SAID}),
    "kimi": (CHAT, {"messages": SAID}),
    "responses": (RESPONSES, {"input": "Hi", "store": False}),
    "anthropic": (MESSAGES, {"messages": SAID}),
    "gemini": ("/v1beta/models/main:generateContent", {"contents": [{"parts": [{"text": "Hi"}]}]}),
}
LENGTH = {CHAT: "max_tokens", RESPONSES: "max_output_tokens", MESSAGES: "max_tokens"}


def recording(adapter: str, member: str, odd: str) -> Recording:
    name = member.partition(":")[0]
    return Recording(odd, STREAMS[adapter].replace(member, f"{name}:{odd}").encode(), adapter)


@pytest.mark.slow
@each_row(("adapter", "member"), MEMBERS)
async def test_an_odd_number_changes_no_later_request(adapter: str, member: str, tmp_path: Path) -> None:
    """Each request of the key is answered, its cost stays within the budget, and the metrics can be read."""
    answers = [recording(adapter, member, odd) for odd in ODD]
    prices = {"input": 1.0, "output": 2.0, "reported": "cost"}
    config = {"base_url": "http://u/v1", "model": "m", "adapter": adapter, "max_retries": 0, "prices": prices}
    key = {"key": "a", "max_cost_per_day": 1000, "tpm": 10**9, "rpm": 1000}
    path, body = ASKED[adapter]
    if path in LENGTH:
        body = {"model": "main", LENGTH[path]: 10, **body}
    async with httpx.AsyncClient(transport=ReplayTransport(answers)) as upstream:
        provider = Provider.from_config(config, http_client=upstream)
        app = gateway(
            {"main": provider}, keys={"alice": key}, metrics=True, json_log=True,
            rate_limits=f"sqlite:///{tmp_path / f'{adapter}-{abs(hash(member))}.db'}",
        )  # fmt: skip
        async with app, client_of(app) as client:
            by = {"authorization": "Bearer a"}
            for odd in ODD:
                answer = await client.post(path, json=body, headers=by)
                assert (odd, answer.status_code) == (odd, 200), answer.text
                assert "usage_invalid" in answer.headers["x-streamfold-warnings"]
            metrics = await client.get("/metrics", headers=by)
            assert metrics.status_code == 200
            assert "nan" not in metrics.text.lower().replace("nanos", "")
