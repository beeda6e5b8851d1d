"""Examinations of planted servers, on a clock that does not wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx
import trio
from trio.testing import MockClock

from patients import Patient
from streamfold import Provider, Timeouts
from streamfold.config import Profile, read_profile
from streamfold.faults import Fault
from streamfold.recording import FaultTransport
from streamfold_gateway import gateway
from streamfold_lab.doctor import Doctor, ReportCard

TIMEOUTS = Timeouts(10, 30, 20, 30, 90)
KEY = "sk-planted-0123456789abcdef"
PROFILE = {"name": "patient", "base_url": "http://patient.test/v1", "model": "patient-1"}


def examine(patient: Patient, profile: dict[str, Any] | None = None, **others: Any) -> tuple[ReportCard, Profile]:
    """Examines a server. Returns the card, and the profile with what was found."""

    async def run() -> tuple[ReportCard, Profile]:
        async with patient.client() as client:
            diagnosis = Doctor(http_client=client, timeouts=TIMEOUTS, **others)
            return await diagnosis.run(read_profile({**PROFILE, "api_key": KEY, **(profile or {})}))

    return trio.run(run, clock=MockClock(autojump_threshold=0))


def examine_gateway(adapter: str, patient: Patient, faults: Iterable[Fault] = ()) -> ReportCard:
    """Examines our gateway on one API, with a planted server as its provider, and faults between it and the doctor."""

    async def run() -> ReportCard:
        config = {"base_url": "http://patient.test/v1", "model": "patient-1", "max_retries": 0}
        async with (
            patient.client() as upstream,
            Provider.from_config(config, http_client=upstream) as provider,
            gateway({"main": provider}) as app,
            httpx.AsyncClient(transport=FaultTransport(httpx.ASGITransport(app), faults)) as client,
        ):
            base_url = f"http://gateway/{'v1beta' if adapter == 'gemini' else 'v1'}"
            profile = read_profile({"adapter": adapter, "base_url": base_url, "model": "main"})
            return (await Doctor(http_client=client, timeouts=TIMEOUTS).run(profile))[0]

    return trio.run(run, clock=MockClock(autojump_threshold=0))
