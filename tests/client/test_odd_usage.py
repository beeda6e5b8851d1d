"""A provider with limits whose answers have numbers that can't be counts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from odd_usage import MEMBERS, ODD, STREAMS
from streamfold import ProtocolError, Provider
from streamfold.jobs import JobPausedError, batch
from streamfold.recording import Recording, ReplayTransport
from tables import each_row


def odd_answers(adapter: str, member: str) -> list[Recording]:
    """An answer for each odd number in the place of this one."""
    name = member.partition(":")[0]
    return [Recording(odd, STREAMS[adapter].replace(member, f"{name}:{odd}").encode(), adapter) for odd in ODD]


@asynccontextmanager
async def provided(config: dict[str, Any], answers: list[Recording]) -> AsyncIterator[Provider]:
    """A provider that gives these answers."""
    upstream = httpx.AsyncClient(transport=ReplayTransport(answers))
    async with upstream, Provider.from_config(config, http_client=upstream) as provider:
        yield provider


@pytest.mark.slow
@each_row(("adapter", "member"), MEMBERS)
async def test_an_odd_number_makes_no_later_request_fail_or_wait(adapter: str, member: str) -> None:
    """With a budget and with a limit of tokens: an answer counts as what it seems to have used."""
    config = {"base_url": "http://u/v1", "model": "m", "adapter": adapter, "max_retries": 0}
    config |= {"prices": {"input": 1.0, "output": 2.0, "reported": "cost"}, "max_cost_per_day": 1000, "tpm": 10**9}
    async with provided(config, odd_answers(adapter, member)) as provider:
        for odd in ODD:
            reply = await provider.chat("Hi")
            assert (odd, reply.text) == (odd, "Hi")
            assert reply.cost is None or Decimal(0) <= reply.cost.amount <= Decimal(3)


@each_row("odd", ODD)
async def test_an_odd_count_of_tokens(odd: str) -> None:
    """A token counter that isn't one is an error of the provider, not a count."""
    body = json.dumps({"input_tokens": 0}).replace("0", odd).encode()
    answer = Recording("count", body, "anthropic", headers={"content-type": "application/json"})
    config = {"base_url": "http://u/v1", "model": "m", "adapter": "anthropic", "max_retries": 0}
    async with provided(config, [answer]) as provider:
        with pytest.raises(ProtocolError):
            await provider.count_tokens("Hi")


@each_row("odd", ODD)
async def test_an_odd_count_in_a_job(odd: str, tmp_path: Path) -> None:
    """It gives no money back: a job asks no more rows than its budget allows."""
    good = STREAMS["chat"].replace('"cost":3,', "").replace('"completion_tokens":5', '"completion_tokens":1000000')
    bad = STREAMS["chat"].replace('"cost":3,', "").replace('"completion_tokens":5', f'"completion_tokens":{odd}')
    answers = [Recording("good", good.encode(), "chat"), Recording("bad", bad.encode(), "chat")]
    answers += [Recording("good", good.encode(), "chat")] * 8
    config = {"base_url": "http://u/v1", "model": "m", "prices": {"input": 0.0, "output": 3.0}, "max_retries": 0}
    rows = [{"id": str(number), "prompt": "Hi"} for number in range(10)]
    async with provided(config, answers) as provider:
        job = batch(provider, rows, ledger=tmp_path / f"{abs(hash(odd))}.ledger", max_cost=10)

        async def finish() -> None:
            async with job as running:
                async for _ in running:
                    pass

        with pytest.raises(JobPausedError, match="max_cost is 10, and 9 USD are spent"):
            await finish()
        assert (job.summary.done, job.summary.unpriced) == (3, 1)
