"""Examinations of a planted server, on a clock that does not wait."""

from __future__ import annotations

from typing import Any

import trio
from trio.testing import MockClock

from patients import Patient
from streamfold import Timeouts
from streamfold.config import Profile, read_profile
from streamfold.testing.doctor import Card, Diagnosis

KEY = "sk-planted-0123456789abcdef"
PROFILE = {"name": "patient", "base_url": "http://patient.test/v1", "model": "patient-1"}


def examine(patient: Patient, profile: dict[str, Any] | None = None, **others: Any) -> tuple[Card, Profile]:
    """Examines a server. Returns the card, and the profile with what was found."""

    async def run() -> tuple[Card, Profile]:
        async with patient.client() as client:
            diagnosis = Diagnosis(http_client=client, timeouts=Timeouts(10, 30, 20, 30, 90), **others)
            return await diagnosis.run(read_profile({**PROFILE, "api_key": KEY, **(profile or {})}))

    return trio.run(run, clock=MockClock(autojump_threshold=0))
