"""Answers that workers of a Ray job keep: what was damaged in the store is asked again."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamfold import Cost, Provider, Reply
from streamfold.recording import Recording, ReplayTransport
from streamfold.stores import MemoryStore
from streamfold_jobs import batch
from streamfold_jobs.answers import Answer, reply_members
from streamfold_jobs.live_requests import RowRequests
from streamfold_jobs.ray.answer_cache import AnswerCache
from tables import each_row

REPLY: dict[str, Any] = {
    "text": "Hi",
    "finish_reason": "stop",
    "usage": {"input_tokens": 3, "output_tokens": 1},
    "cost": {"amount": "0.5", "currency": "USD", "source": "prices", "estimated": False},
}
WHOLE: dict[str, Any] = {"reply": REPLY, "error": None, "tries": 1, "seconds": 0.5}


async def test_an_answer_is_found_again() -> None:
    """A reply and an error."""
    kept = AnswerCache(MemoryStore())
    answers = {"a": Answer("", 0, REPLY), "b": Answer("", 0, None, {"type": "BadRequestError", "message": "no"})}
    for key, answer in answers.items():
        await kept.keep(key, answer)
    assert await kept.find(["a", "b", "c"]) == answers


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"7",
        b"null",
        b'{"other": 1}',
        b"[" * 100_000,
        *[
            json.dumps({**WHOLE, **change}).encode()
            for change in (
                {"reply": "Hi"},
                {"reply": None},
                {"error": {"type": "X", "message": ""}},
                {"tries": "1"},
                {"tries": 10**30},
                {"seconds": None},
                {"seconds": "long"},
                {"reply": {**REPLY, "text": 5}},
                {"reply": {**REPLY, "usage": "much"}},
                {"reply": {**REPLY, "usage": {"tokens": 1}}},
                {"reply": {**REPLY, "usage": {"input_tokens": "7"}}},
                {"reply": {**REPLY, "cost": {"amount": "much"}}},
                {"reply": {**REPLY, "cost": {**REPLY["cost"], "amount": "NaN"}}},
                {"reply": {**REPLY, "cost": [1]}},
            )
        ],
    ],
)
async def test_a_damaged_answer_is_not_there(damaged: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It ends no job: its row is asked again, and the log says so."""
    store = MemoryStore()
    await store.put("", {"a": damaged, "b": json.dumps(WHOLE).encode()})
    assert await AnswerCache(store).find(["a", "b"]) == {"b": Answer("", 0, REPLY, None, 1, 0.5)}
    assert "1 answers in the store are damaged: their rows are sent again" in caplog.text


@each_row("day", [None, date(2026, 11, 28)])
def test_a_cost_is_the_same_when_it_is_read_back(day: date | None) -> None:
    """With the date of its prices."""
    cost = Cost(Decimal("0.25"), "EUR", "prices", day, estimated=True)
    reply = Reply(text="Hi", finish_reason="stop")
    stored = json.loads(json.dumps(reply_members(reply, cost)))
    assert Answer("1", 0, stored).cost == cost


@each_row("retry_after", [None, 4.0])
async def test_rows_that_fail_together_are_not_sent_again_together(
    retry_after: float | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each waits a little more or less than the others, and never less than the server asks for."""
    pauses: list[float] = []

    async def wait(self: RowRequests, seconds: float) -> bool:
        pauses.append(seconds)
        return True

    monkeypatch.setattr(RowRequests, "_wait", wait)
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    answers = [Recording("down", b'{"error":{"message":"down"}}', "chat", status=500, headers=headers)] * 60
    transport = httpx.AsyncClient(transport=ReplayTransport(answers))
    config = {"base_url": "http://u/v1", "model": "m", "max_retries": 0}
    async with transport, Provider.from_config(config, http_client=transport) as provider:
        rows = [{"id": str(number), "prompt": "Hi"} for number in range(30)]
        async with batch(provider, rows, ledger=tmp_path / f"{retry_after}.ledger", tries=2) as job:
            assert [answer.reply async for answer in job] == [None] * 30
    assert len(pauses) == 30
    assert len(set(pauses)) > 25
    least, most = (0.75, 1.0) if retry_after is None else (4.0, 5.0)
    assert all(least <= pause <= most for pause in pauses)
