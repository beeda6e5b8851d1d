"""A job over real sockets: it has as many connections as rows are asked at once, and no more."""

from __future__ import annotations

import json

import anyio
import pytest

import scale
from folding import DONE, fin, text
from servers import END, STREAM, Connection, framed, serving
from streamfold_jobs import batch

pytestmark = pytest.mark.transports


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [10, pytest.param(100, marks=pytest.mark.thorough), scale.pick(400, 30)])
async def test_connections_are_never_more_than_rows_at_once(concurrency: int) -> None:
    """Each of them is used for one row after the other."""

    async def script(peer: Connection) -> None:
        while True:
            prompt = json.loads(await peer.request())["messages"][-1]["content"]
            await anyio.sleep(0.001)
            await peer.send(STREAM, framed(text(f"{prompt}!"), fin("stop"), DONE), END)

    given = [{"prompt": str(number)} for number in range(concurrency * 4)]
    async with (
        serving(script) as server,
        server.provider(timeouts={"connect": 60}) as provider,
        batch(provider, given, concurrency=concurrency) as job,
    ):
        answers = [answer.text async for answer in job]
    assert answers == [f"{number}!" for number in range(concurrency * 4)]
    assert server.most_open <= concurrency
