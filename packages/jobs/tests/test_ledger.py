"""The ledger of a job: whose it is, what it knows, and that money in it is counted."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from folding import DONE, fin, text
from odd_usage import ODD, STREAMS
from streamfold import ConfigError, Fallback, Provider
from streamfold.middleware import Middleware
from streamfold.recording import Recording, ReplayTransport
from streamfold.testing import ScriptedProvider
from streamfold_jobs import JobPausedError, Ledger, batch
from tables import each_row

CONFIG = {"base_url": "http://u/v1", "model": "m", "max_retries": 0}
WRAPS: dict[str, Any] = {"bare": lambda model: model, "middleware": Middleware, "fallback": Fallback}


@pytest.mark.parametrize("wrap", WRAPS)
async def test_a_job_does_not_go_on_with_another_model(tmp_path: Path, wrap: str) -> None:
    """The ledger knows the endpoint behind the wrapper."""
    replay = ReplayTransport([Recording("hi", text("hi") + fin("stop") + DONE, "chat")])
    async with httpx.AsyncClient(transport=replay) as client:
        first, second = (
            WRAPS[wrap](Provider.from_config({**CONFIG, "model": model}, http_client=client)) for model in ("m1", "m2")
        )
        async with batch(first, [{"prompt": "1"}], ledger=tmp_path / "ledger") as job:
            assert [answer.text async for answer in job] == ["hi"]
        with pytest.raises(ConfigError, match="m2"):
            async with batch(second, [{"prompt": "1"}], ledger=tmp_path / "ledger"):
                pass


@each_row("odd", ODD)
async def test_an_odd_count_in_a_job(odd: str, tmp_path: Path) -> None:
    """It gives no money back: a job asks no more rows than its budget allows."""
    good = STREAMS["chat"].replace('"cost":3,', "").replace('"completion_tokens":5', '"completion_tokens":1000000')
    bad = STREAMS["chat"].replace('"cost":3,', "").replace('"completion_tokens":5', f'"completion_tokens":{odd}')
    answers = [Recording("good", good.encode(), "chat"), Recording("bad", bad.encode(), "chat")]
    answers += [Recording("good", good.encode(), "chat")] * 8
    config = {**CONFIG, "prices": {"input": 0.0, "output": 3.0}}
    rows = [{"id": str(number), "prompt": "Hi"} for number in range(10)]
    upstream = httpx.AsyncClient(transport=ReplayTransport(answers))
    async with upstream, Provider.from_config(config, http_client=upstream) as provider:
        job = batch(provider, rows, ledger=tmp_path / f"{abs(hash(odd))}.ledger", max_cost=10)

        async def finish() -> None:
            async with job as running:
                async for _ in running:
                    pass

        with pytest.raises(JobPausedError, match="max_cost is 10, and 9 USD are spent"):
            await finish()
        assert (job.summary.done, job.summary.unpriced) == (3, 1)


def is_free(path: Path) -> bool:
    """Whether the next job may use a ledger."""
    try:
        Ledger(path).close()
    except ConfigError:
        return False
    return True


def test_a_ledger_that_nobody_waits_for_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio's own cancellation does not wait for a file that is being opened; the next job may use it."""
    opening, go_on, connect = threading.Event(), threading.Event(), sqlite3.connect

    def slow(*args: Any, **settings: Any) -> sqlite3.Connection:
        opening.set()
        go_on.wait(10)
        return connect(*args, **settings)

    monkeypatch.setattr(sqlite3, "connect", slow)

    async def main() -> None:
        job = batch(ScriptedProvider(), [{"prompt": "one"}], ledger=tmp_path / "ledger")
        task = asyncio.create_task(job.__aenter__())
        await asyncio.to_thread(opening.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        async with asyncio.timeout(10):
            while not is_free(tmp_path / "ledger"):
                await asyncio.sleep(0.01)

    asyncio.run(main())
