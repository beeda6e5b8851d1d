"""Answers that workers of a Ray job keep: what was damaged in the store is asked again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamfold.jobs.answers import Answer
from streamfold.jobs.ray.kept import KeptAnswers
from streamfold.stores import MemoryStore

REPLY: dict[str, Any] = {
    "text": "Hi",
    "finish_reason": "stop",
    "usage": {"input_tokens": 3, "output_tokens": 1},
    "cost": {"amount": "0.5", "currency": "USD", "source": "prices", "estimated": False},
}
WHOLE: dict[str, Any] = {"reply": REPLY, "error": None, "tries": 1, "seconds": 0.5}


async def test_an_answer_is_found_again() -> None:
    """A reply and an error."""
    kept = KeptAnswers(MemoryStore())
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
    assert await KeptAnswers(store).find(["a", "b"]) == {"b": Answer("", 0, REPLY, None, 1, 0.5)}
    assert "1 answers in the store are damaged: their rows are asked again" in caplog.text
