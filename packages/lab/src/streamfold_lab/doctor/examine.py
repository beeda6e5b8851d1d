"""Sends the probes to the server, one request at a time. Later requests use the settings that earlier probes found.

If the server can respond with and without streaming, the runner sends the probes in both modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random

from streamfold import AuthenticationError, ConfigError, PermissionDeniedError
from streamfold.types import Capabilities, Profile

from .confidence import CONFIDENCE, interval
from .modes import differences
from .sending import ExaminedEndpoint
from .values import Answers, Conclusion, Finding, Probe, ProbeRequest, ProbeResponse, Setting

ROUNDS = 3  # how often a probe is sent at most, while its result is unclear or doubtful
_DROPS = 5  # how often a reused connection may turn out to be closed
_USELESS = ("no", "fault", "skipped")
_DECIDED = ("fine", "left", "refused")
_BAD = ("fault", "unfaithful")


@dataclass(slots=True)
class ProbeRunner:
    """The test of one API of a server: sends the probes, and collects their findings.

    Attributes:
        endpoint: the endpoint that is tested.
        probes: the probes, in the order in which they are sent. Probes without requests judge all responses at the end.
        report: called with the finding of each probe.
        repeats: the number of times that the runner sends a probe for occasional errors. With 0, it doesn't repeat it.
        seed: the seed for random values in prompts.
        whole: true: also send probes without streaming. Set to false when a basic probe gets no complete response
            without streaming.
    """

    endpoint: ExaminedEndpoint
    probes: Sequence[Probe]
    report: Callable[[Finding], None] = lambda finding: None
    repeats: int = 0
    seed: int = 0
    whole: bool = True
    seen: list[ProbeResponse] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    hopeless: str = ""

    async def run(self) -> list[Finding]:
        """Sends all probes that apply to this API, and returns the findings in the order of the probes."""
        probes = [probe for probe in self.probes if self.endpoint.profile.adapter in probe.apis]
        for probe in sorted(probes, key=lambda probe: not probe.asks):
            finding = await self._examine(probe)
            self.findings[probe.name] = finding
            self.endpoint.use(with_settings(self.endpoint.profile, finding.settings))
            self.report(finding)
        return [self.findings[probe.name] for probe in probes]

    async def _examine(self, probe: Probe) -> Finding:
        if not probe.asks:
            judged = [seen for seen in self.seen if probe.both_modes or not seen.whole]
            return _finding(probe, probe.judge({str(seen.number): seen for seen in judged}), judged)
        if reason := self._reason_to_skip(probe):
            return _finding(probe, Conclusion("skipped", reason), [])
        outcome, asked, tally = await self._concluded(probe, whole=False)
        self.endpoint.avoided.update(outcome.avoid)
        if self.whole and outcome.verdict != "skipped" and any(ask.modes == "both" for ask in probe.asks):
            # Without streaming, an unclear result will hardly become clearer.
            rounds = 1 if outcome.verdict == "unclear" else ROUNDS
            in_one_piece, more, _ = await self._concluded(probe, whole=True, rounds=rounds)
            if probe.basic and not any(seen.fine for seen in more):
                self.whole = False
            outcome = in_both_modes(outcome, in_one_piece)
            if outcome.verdict not in _BAD and (found := await self._different(probe, asked, more)):
                outcome = replace(outcome, verdict="unfaithful", saw=found)
            asked = [*asked, *more]
        if probe.repeated and self.repeats and outcome.verdict not in ("skipped", "no"):
            outcome, more, tally = await self._repeated(probe, outcome)
            asked = [*more, *asked]
        return _finding(probe, outcome, asked, tally)

    async def _concluded(
        self, probe: Probe, *, whole: bool, rounds: int = ROUNDS
    ) -> tuple[Conclusion, list[ProbeResponse], str]:
        """Sends a probe with or without streaming. Repeats the probe while its result is unclear or unconfirmed."""
        outcomes: list[Conclusion] = []
        asked: list[ProbeResponse] = []
        while len(outcomes) < rounds:
            answers = await self._round(probe, len(outcomes), whole=whole)
            asked = [*reversed(answers.values()), *asked]
            outcomes.append(self._judged(probe, answers))
            undecided = outcomes[-1].verdict == "unclear" and probe.whim
            if not (undecided or is_doubtful(outcomes[-1])) or self.hopeless or not answers:
                break
        last = outcomes[-1]
        if is_doubtful(last) and not (len(outcomes) == ROUNDS and all(map(is_doubtful, outcomes))):
            last = replace(last, verdict="unclear", saw=f"{last.saw}; not in every repetition")
        clear = sum(outcome.verdict == last.verdict and last.verdict != "unclear" for outcome in outcomes)
        return last, asked, f"{clear} of {len(outcomes)}" if len(outcomes) > 1 else ""

    async def _different(self, probe: Probe, streamed: list[ProbeResponse], whole: list[ProbeResponse]) -> str:
        """Returns the differences between responses with and without streaming that occur in every repetition."""
        found = differences(by_request(streamed), by_request(whole))
        for number in range(ROUNDS - 1):
            if not found:
                break
            again = [await self._round(probe, number, whole=mode) for mode in (False, True)]
            found = found & differences(*again) if all(again) else set()
        return "; ".join(sorted(found))

    async def _repeated(self, probe: Probe, first: Conclusion) -> tuple[Conclusion, list[ProbeResponse], str]:
        """Repeats a probe until it has been sent `repeats` times. Returns the worst conclusion and the number of times
        that it occurred.
        """
        bad = [first] if first.verdict in _BAD else []
        asked: list[ProbeResponse] = []
        tries = 1
        while tries < self.repeats and not self.hopeless:
            answers = await self._round(probe, ROUNDS + tries, whole=self.whole and tries % 2 == 1)
            if not answers:
                break
            tries += 1
            asked = [*answers.values(), *asked]
            outcome = self._judged(probe, answers)
            bad += [outcome] if outcome.verdict in _BAD else []
        # A single bad result may be a mistake of the model.
        if len(bad) == 1 and is_doubtful(bad[0]) and first not in bad:
            return replace(first, saw=f"{first.saw}; once: {bad[0].saw}"), asked, f"1 of {tries}"
        low, high = interval(len(bad), tries)
        sure = f"with {CONFIDENCE:.0%} confidence"
        if not bad:
            said = f"{first.saw}; {sure}, fewer than {high:.1%} of all requests have another result"
            return replace(first, saw=said), asked, f"0 of {tries}"
        said = f"{bad[0].saw}; {sure}, {low:.1%} to {high:.1%} of all requests have this result"
        return replace(bad[0], saw=said, settings=first.settings), asked, f"{len(bad)} of {tries}"

    async def _round(self, probe: Probe, number: int, *, whole: bool) -> dict[str, ProbeResponse]:
        """Sends each request of a probe once. A repetition has no temperature setting, because with temperature 0 the
        model would repeat its response.
        """
        answers: dict[str, ProbeResponse] = {}
        for ask in probe.asks:
            if self.hopeless or (whole and ask.modes != "both") or not (ask.when is None or ask.when(answers)):
                continue
            chosen = ask.follow(answers) if ask.follow else with_fresh_values(probe, ask, self.seed, number)
            if chosen is None:
                continue
            if number:
                options = {name: value for name, value in chosen.options.items() if name != "temperature"}
                chosen = replace(chosen, options=options)
            if self._skipping(chosen, whole=whole):
                break
            answers[ask.name] = await self._patiently(probe, chosen, whole=whole)
        return answers

    async def _patiently(self, probe: Probe, ask: ProbeRequest, *, whole: bool) -> ProbeResponse:
        """Sends a request, and repeats the request if the response breaks off, because that may happen by chance."""
        patience = ask.patience * 2 if probe.basic and not whole else ask.patience
        seen = await self._send(probe, ask, whole=whole)
        tries = drops = 0
        while seen.way not in _DECIDED and not self._skipping(ask, whole=whole) and not self.hopeless:
            # If the server closed a reused connection, the request isn't the reason.
            tries, drops = (tries, drops + 1) if seen.way == "dropped" else (tries + 1, drops)
            if tries >= patience or drops > _DROPS:
                break
            seen = await self._send(probe, ask, whole=whole)
        if seen.way not in _DECIDED and probe.basic and not whole:
            self.hopeless = f"no complete response in {patience} tries: {seen.said}"
        return seen

    async def _send(self, probe: Probe, ask: ProbeRequest, *, whole: bool) -> ProbeResponse:
        seen = await self.endpoint.ask(probe.name, ask, whole=whole)
        self.seen.append(seen)
        if isinstance(seen.error, AuthenticationError | PermissionDeniedError):
            self.hopeless = f"the server rejects the API key: {seen.said}"
        return seen

    def _judged(self, probe: Probe, answers: Answers) -> Conclusion:
        if not answers:
            return Conclusion("skipped", self._reason_to_skip(probe) or "no request was sent")
        broken = [seen for seen in answers.values() if seen.way not in _DECIDED]
        if len(broken) == len(answers):
            return Conclusion("fault", f"no complete response: {broken[0].said}")
        return probe.judge({name: seen for name, seen in answers.items() if seen.way in _DECIDED})

    def _reason_to_skip(self, probe: Probe) -> str:
        if self.hopeless:
            return self.hopeless
        needed = self.findings.get(probe.needs)
        if probe.needs and (needed is None or needed.verdict in _USELESS):
            return f"{probe.needs}: {needed.saw if needed else 'not tested'}"
        return self._skipping(with_fresh_values(probe, probe.asks[0], self.seed, 0))

    def _skipping(self, ask: ProbeRequest, *, whole: bool = False) -> str:
        """Returns why a request can't be sent; empty if it can be sent."""
        try:
            return self.endpoint.over_budget(ask, whole=whole)
        except ConfigError as error:
            return f"can't be sent: {error}"


def with_fresh_values(probe: Probe, ask: ProbeRequest, seed: int, number: int) -> ProbeRequest:
    """Returns a probe's request for one repetition. Random values in the request differ between repetitions."""
    if ask.fresh is None:
        return ask
    return ask.fresh(Random(f"{seed}/{probe.name}/{ask.name}/{number}"))  # noqa: S311 - the same ones can be sent again


def is_doubtful(outcome: Conclusion) -> bool:
    """Returns whether a conclusion counts only if repetitions confirm it."""
    return outcome.verdict == "unfaithful" and not outcome.certain


def by_request(responses: Iterable[ProbeResponse]) -> dict[str, ProbeResponse]:
    """Returns the earliest complete response to each request, with the request's name as the key."""
    found: dict[str, ProbeResponse] = {}
    for seen in sorted(responses, key=lambda seen: seen.number):
        if seen.way in _DECIDED and seen.ask not in found:
            found[seen.ask] = seen
    return found


def in_both_modes(streamed: Conclusion, whole: Conclusion) -> Conclusion:
    """Combines a probe's conclusions with and without streaming. The combined conclusion has the settings that the
    probe found with streaming.

    If the feature is missing only without streaming, the combined verdict is the verdict with streaming.
    """
    if whole.verdict in _BAD and streamed.verdict not in _BAD:
        return replace(whole, saw=f"without streaming: {whole.saw}", settings=streamed.settings, avoid=streamed.avoid)
    if whole.verdict == "no" and streamed.verdict in ("ok", "handled", "set"):
        return replace(streamed, saw=f"{streamed.saw}; without streaming: {whole.saw}")
    return streamed


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


def with_settings(profile: Profile, settings: Iterable[Setting]) -> Profile:
    """Returns a copy of the profile with additional settings."""
    settings = list(settings)
    if not settings:
        return profile
    values = {name: getattr(profile, name) for name in profile.model_fields_set}
    for setting in settings:
        head, *rest = setting.key
        if rest:
            before = values.get(head) or {}
            table = asdict(before) if isinstance(before, Capabilities) else before
            values[head] = {**table, rest[0]: setting.value}
        elif head == "dialect" and values.get(head):
            values[head] = "+".join(dict.fromkeys([*values[head].split("+"), *setting.value.split("+")]))
        else:
            values[head] = setting.value
    return type(profile).model_validate(values)
