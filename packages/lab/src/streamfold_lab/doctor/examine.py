"""Runs the probes, one request at a time, and learns on the way: what a probe finds, later requests respect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from streamfold.config import Profile
from streamfold.requests import Capabilities
from streamfold.values import AuthenticationError, PermissionDeniedError

from .sending import ExaminedEndpoint
from .values import Answers, Conclusion, Finding, Probe, ProbeRequest, ProbeResponse, Setting

ROUNDS = 3  # how often a model is asked what depends on its mood
_DROPS = 5  # times that a kept connection may be found closed
_USELESS = ("no", "fault", "skipped")
_DECIDED = ("fine", "left", "refused")


@dataclass(slots=True)
class ProbeRunner:
    """One examination of one API.

    Attributes:
        endpoint: where the requests go.
        probes: in the order in which they are asked. Those without requests judge all answers, at the end.
        budget: the largest number of requests.
        report: called with each finding as it is made.
    """

    endpoint: ExaminedEndpoint
    probes: Sequence[Probe]
    budget: int
    report: Callable[[Finding], None] = lambda finding: None
    seen: list[ProbeResponse] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    hopeless: str = ""

    async def run(self) -> list[Finding]:
        """Asks all probes of this API. Returns their findings, in the order of the probes."""
        probes = [probe for probe in self.probes if self.endpoint.profile.adapter in probe.wires]
        for probe in sorted(probes, key=lambda probe: not probe.asks):
            finding = await self._examine(probe)
            self.findings[probe.name] = finding
            self.endpoint.use(with_settings(self.endpoint.profile, finding.settings))
            self.report(finding)
        return [self.findings[probe.name] for probe in probes]

    async def _examine(self, probe: Probe) -> Finding:
        if not probe.asks:
            everything = {str(seen.number): seen for seen in self.seen}
            return _finding(probe, probe.judge(everything), list(everything.values()) if everything else [])
        if reason := self._reason_to_skip(probe):
            return _finding(probe, Conclusion("skipped", reason), [])
        outcomes: list[Conclusion] = []
        asked: list[ProbeResponse] = []
        while len(outcomes) < (ROUNDS if probe.whim else 1):
            answers = await self._round(probe, again=bool(outcomes))
            asked = [*reversed(answers.values()), *asked]
            outcomes.append(self._judged(probe, answers))
            if outcomes[-1].verdict != "unclear" or self._left() <= 0:
                break
        self.endpoint.avoided.update(outcomes[-1].avoid)
        clear = sum(outcome.verdict != "unclear" for outcome in outcomes)
        tally = f"{clear} of {len(outcomes)}" if len(outcomes) > 1 else ""
        return _finding(probe, outcomes[-1], asked, tally)

    async def _round(self, probe: Probe, *, again: bool) -> dict[str, ProbeResponse]:
        """Asks a probe. The second time without a temperature: at 0 a model would say the same again."""
        answers: dict[str, ProbeResponse] = {}
        for ask in probe.asks:
            if self._left() > 0 and not self.hopeless and (ask.when is None or ask.when(answers)):
                options = {name: value for name, value in ask.options.items() if not (again and name == "temperature")}
                answers[ask.name] = await self._patiently(probe, replace(ask, options=options))
        return answers

    async def _patiently(self, probe: Probe, ask: ProbeRequest) -> ProbeResponse:
        """Sends a request again if its answer broke off: what fails now and then is no property of the request."""
        patience = ask.patience * 2 if probe.basic else ask.patience
        seen = await self._send(probe, ask)
        tries = drops = 0
        while seen.way not in _DECIDED and self._left() > 0 and not self.hopeless:
            # A kept connection that was closed meanwhile says nothing about the request.
            tries, drops = (tries, drops + 1) if seen.way == "dropped" else (tries + 1, drops)
            if tries >= patience or drops > _DROPS:
                break
            seen = await self._send(probe, ask)
        if seen.way not in _DECIDED and probe.basic:
            self.hopeless = f"no whole answer came in {patience} tries: {seen.said}"
        return seen

    async def _send(self, probe: Probe, ask: ProbeRequest) -> ProbeResponse:
        seen = await self.endpoint.ask(probe.name, ask)
        self.seen.append(seen)
        if isinstance(seen.error, AuthenticationError | PermissionDeniedError):
            self.hopeless = f"the server wants another key: {seen.said}"
        return seen

    def _judged(self, probe: Probe, answers: Answers) -> Conclusion:
        if not answers:
            return Conclusion("skipped", self._reason_to_skip(probe) or "no request was sent")
        broken = [seen for seen in answers.values() if seen.way not in _DECIDED]
        if len(broken) == len(answers):
            return Conclusion("fault", f"no whole answer: {broken[0].said}")
        return probe.judge({name: seen for name, seen in answers.items() if seen.way in _DECIDED})

    def _reason_to_skip(self, probe: Probe) -> str:
        if self.hopeless:
            return self.hopeless
        if self._left() <= 0:
            return f"the budget of {self.budget} requests is used up"
        needed = self.findings.get(probe.needs)
        if probe.needs and (needed is None or needed.verdict in _USELESS):
            return f"{probe.needs}: {needed.saw if needed else 'not asked'}"
        return ""

    def _left(self) -> int:
        return self.budget - self.endpoint.requests


def _finding(probe: Probe, outcome: Conclusion, seen: Sequence[ProbeResponse], tally: str = "") -> Finding:
    return Finding(
        probe=probe.name,
        theme=probe.theme,
        question=probe.question,
        verdict=outcome.verdict,
        saw=outcome.saw,
        does=outcome.does,
        settings=outcome.settings,
        answers=outcome.telling or tuple(each.number for each in seen if probe.asks),
        tally=tally,
    )


def _as_dict(table: Any) -> dict[str, Any]:
    return asdict(table) if isinstance(table, Capabilities) else dict(table)


def with_settings(profile: Profile, settings: Iterable[Setting]) -> Profile:
    """Returns a profile with settings on top."""
    settings = list(settings)
    if not settings:
        return profile
    values = {name: getattr(profile, name) for name in profile.model_fields_set}
    for setting in settings:
        head, *rest = setting.key
        if rest:
            before = values.get(head) or {}
            values[head] = {**_as_dict(before), rest[0]: setting.value}
        elif head == "dialect" and values.get(head):
            values[head] = "+".join(dict.fromkeys([*values[head].split("+"), *setting.value.split("+")]))
        else:
            values[head] = setting.value
    return type(profile).model_validate(values)
