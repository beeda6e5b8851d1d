"""A provider with limits whose answers have numbers that can't be counts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest

from odd_usage import MEMBERS, ODD, STREAMS
from streamfold import ProtocolError, Provider
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
