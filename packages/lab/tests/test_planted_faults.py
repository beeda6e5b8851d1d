"""Faults of the network and of servers, planted on four wire formats: the doctor names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import httpx
import pytest
import trio
from trio.testing import MockClock

from examined import TIMEOUTS
from patients import _Stream, _Turns
from scale import some
from simulated_endpoints.serving import Endpoint, _App
from streamfold import faults
from streamfold.config import read_profile
from streamfold.faults import Fault
from streamfold.recording import FaultTransport
from streamfold_lab.doctor import Doctor, ReportCard
from streamfold_lab.doctor.probes import PROBES

# httpx on trio, when a stream is left before its end.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

ADAPTERS = ("chat", "responses", "anthropic", "gemini")
ASKED = ("answers", "text", "unicode", "length", "one_call", "no_arguments", "usage", "stream_usage")
PROBES_HERE = [probe for probe in PROBES if probe.name in ASKED or probe.theme == "stream"]


def planted() -> Iterator[tuple[Fault, str, int | None]]:
    """Yields each fault, the probe that names it, and how often it happens; None: always."""
    for after, times in product((2, 3, 4), (1, None)):
        yield faults.cut_after(events=after), "cuts", times
        yield faults.reset(after_events=after), "resets", times
        yield faults.stall(after_events=after), "stalls", times
        yield faults.garbage(after_events=after), "garbage", times
        yield faults.keepalive(after_events=after), "comments", times
        yield faults.corrupt(after), "utf8", times
        yield faults.truncate_json(after), "truncated", times
    for size, times in product((40, 150, 300), (1, None)):
        yield faults.cut_after(bytes=size), "cuts", times
    for events, times in product(([4, 6], [5, 6, 7]), (2, None)):
        yield faults.drop(events), "lost", times
        yield faults.duplicate(events), "repeated", times
    for code, times in product((500, 502, 503, 504, 529), (1, None)):
        yield faults.status(code), "statuses", times
    for times in (1, 2, 3, None):
        yield faults.hang_up(), "hang_ups", times
    for seconds in (0.3, 0.5, 1.0, 2.0, 4.0):
        yield faults.slow(seconds), "pace", None


CASES = [(adapter, *case) for adapter in ADAPTERS for case in planted()]


def examine(adapter: str, fault: Fault, times: int | None) -> ReportCard:
    app = _App((Endpoint(),))

    def respond(request: httpx.Request) -> httpx.Response:
        status, kind, content = app.answer(app.endpoints[0], request.method, request.url.path, request.content)
        headers = {"content-type": kind.decode()}
        if isinstance(content, bytes):
            return httpx.Response(status, headers=headers, content=content)
        return httpx.Response(status, headers=headers, stream=_Stream(list(content)))

    async def run() -> ReportCard:
        inner = httpx.MockTransport(respond)
        async with httpx.AsyncClient(transport=_Turns(inner, [FaultTransport(inner, [fault])], times)) as client:
            base = "http://sim.test/v1beta" if adapter == "gemini" else "http://sim.test/v1"
            profile = read_profile(
                {"name": "sim", "base_url": base, "model": "sim-1", "adapter": adapter, "api_key": "k-0123456789"}
            )
            return (await Doctor(http_client=client, timeouts=TIMEOUTS, probes=PROBES_HERE).run(profile))[0]

    return trio.run(run, clock=MockClock(autojump_threshold=0))


def names(card: ReportCard, probe: str) -> bool:
    finding = card.of(probe)
    return finding is not None and finding.verdict in ("fault", "handled")


@pytest.mark.slow
def test_planted_faults_are_named() -> None:
    """Of 300 faults on four wire formats, at least 95 percent are named."""
    cases: Sequence[tuple[str, Fault, str, int | None]] = some(CASES, 12)
    missed = [case for case in cases if not names(examine(case[0], case[1], case[3]), case[2])]
    assert len(missed) <= 0.05 * len(cases), missed
