"""How an examination is run: in both modes, repeated where one answer decides nothing, and within its limits."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import anyio
import httpx
import pytest

from examined import PROFILE, examine
from patients import Patient
from streamfold.config import read_profile
from streamfold.types import user
from streamfold_lab.doctor import Budget, plan
from streamfold_lab.doctor.confidence import interval
from streamfold_lab.doctor.questions import LINE, capped
from streamfold_lab.doctor.values import Answers, Conclusion, Probe, ProbeRequest

# httpx on trio, when a stream is left before its end.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

PRICED = {"prices": {"input": 1.0, "output": 10.0}}


def fresh(rng: Random) -> ProbeRequest:
    return replace(LINES, messages=[user(f"Repeat this line exactly, and write nothing else: {rng.randrange(10**6)}")])


LINES = ProbeRequest("line", LINE, options=capped(32), fresh=fresh)


def wrong_line(answers: Answers) -> Conclusion:
    """The line came back, or not."""
    (seen,) = answers.values()
    wanted = seen.sent["messages"][-1]["content"].partition(": ")[2]
    return Conclusion("ok" if seen.text == wanted else "unfaithful", f"{wanted!r} came back as {seen.text!r}")


PROBE = Probe("lines", "basics", "Does a line come back?", wrong_line, (LINES,), repeated=True)


class Forgetful(Patient):
    """Answers every tenth question with something else."""

    def _deltas(self, body: dict[str, Any]) -> Any:
        if len(self.requests) % 10 == 0:
            body = {**body, "messages": [{"role": "user", "content": "Repeat this line: nothing"}]}
        return super()._deltas(body)


def test_every_question_is_sent_in_both_modes() -> None:
    """The stream first; the body in one piece differs in nothing else."""
    patient = Patient()
    card, _ = examine(patient, probes=[PROBE])
    streamed, whole = patient.requests
    assert (streamed["stream"], whole["stream"]) == (True, False)
    assert {**streamed, "stream": False, "stream_options": None} == {**whole, "stream_options": None}
    assert [seen.whole for seen in card.answers] == [False, True]
    assert [seen.text for seen in card.answers] == [streamed["messages"][-1]["content"].partition(": ")[2]] * 2


def test_repetitions_state_what_they_prove() -> None:
    """Sixty requests, each with a line of its own: how often it went wrong, and the interval of its share."""
    patient = Patient()
    (finding,) = examine(patient, probes=[PROBE], repeats=60)[0].findings
    assert (finding.verdict, finding.tally) == ("ok", "0 of 60")
    assert finding.saw.endswith("with 95% confidence, fewer than 4.9% of all requests have another result")
    assert len({body["messages"][-1]["content"] for body in patient.requests}) == 60
    (finding,) = examine(Forgetful(), probes=[PROBE], repeats=60)[0].findings
    assert (finding.verdict, finding.tally) == ("unfaithful", "6 of 60")
    assert finding.saw.endswith("with 95% confidence, 3.8% to 20.5% of all requests have this result")


@pytest.mark.parametrize(
    ("found", "tries", "low", "high"), [(0, 59, 0.0, 0.0495), (3, 10, 0.0667, 0.6525), (10, 10, 0.7411, 1.0)]
)
def test_intervals_are_those_of_clopper_and_pearson(found: int, tries: int, low: float, high: float) -> None:
    """With 95 percent confidence, as tables of the exact interval have them."""
    assert interval(found, tries) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("budget", "saw"),
    [
        (Budget(requests=3), "the budget of 3 requests is used up"),
        (Budget(bytes=2000), "the budget of 2000 bytes is used up"),
        (Budget(cost=Decimal("0.0005")), "the next request may cost more"),
    ],
)
def test_limits_are_kept(budget: Budget, saw: str) -> None:
    """A request that could exceed a limit isn't sent, and the remaining questions say why."""
    patient = Patient()
    probes = [replace(PROBE, name=f"lines{number}") for number in range(9)]
    card, _ = examine(patient, PRICED, probes=probes, budget=budget)
    assert 0 < card.requests == len(patient.requests) < 18
    assert card.findings[0].verdict == "ok"
    assert saw in card.findings[-1].saw


class Slow(Patient):
    """Takes seven seconds for each answer."""

    def client(self) -> httpx.AsyncClient:
        async def respond(request: httpx.Request) -> httpx.Response:
            await anyio.sleep(7)
            return self.respond(request)

        return httpx.AsyncClient(transport=httpx.MockTransport(respond))


def test_an_examination_ends_in_time() -> None:
    """The request that is in flight when the time is up is cut, and none is sent after it."""
    patient = Slow()
    card, _ = examine(patient, probes=[replace(PROBE, name=f"lines{n}") for n in range(9)], budget=Budget(seconds=30))
    assert (card.seconds, card.requests, len(patient.requests)) == (30, 5, 4)
    assert [finding.verdict for finding in card.findings[:2]] == ["ok", "ok"]
    assert card.findings[-1].saw == "the budget of 30 seconds is used up"


def test_the_plan_says_what_is_sent_and_what_it_costs() -> None:
    """The bodies are those that the server gets, and no answer costs more than was said."""
    patient = Patient()
    profile = read_profile({**PROFILE, **PRICED})
    planned = plan(profile, [PROBE], seed=7)
    examine(patient, PRICED, probes=[PROBE], seed=7)
    assert [each.written.body for each in planned] == patient.requests
    for each in planned:
        assert each.written.output_tokens == 32
        assert each.written.cost is not None
        read = Decimal(each.written.input_tokens) * 1 + Decimal(32) * 10
        assert each.written.cost.amount == read / 1_000_000
    assert json.dumps(planned[0].written.body)
