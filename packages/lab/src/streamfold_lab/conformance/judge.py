"""Applies the documented rules of an API to the responses of a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from streamfold.types import Profile

from ..doctor import AUTO, DEFAULT_BUDGET, Budget, Doctor, ReportCard, find_apis
from .chat import CHAT
from .messages import MESSAGES
from .responses import RESPONSES
from .rules import Rule, Stream, Violation, read_stream

RULES: Mapping[str, Sequence[Rule]] = {
    "chat": CHAT,
    "kimi": CHAT,
    "responses": RESPONSES,
    "anthropic": MESSAGES,
}


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one conformance rule.

    Attributes:
        answers: the number of responses that the rule applies to; 0 if no response could show whether the server
            follows the rule.
    """

    rule: Rule
    answers: int
    violations: tuple[Violation, ...] = ()

    @property
    def kept(self) -> bool:
        """True if no response violates the rule."""
        return not self.violations


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The results of one server for all rules of one API."""

    card: ReportCard
    judged: tuple[RuleResult, ...]

    @property
    def applied(self) -> int:
        """The number of rules that could be checked."""
        return sum(each.answers > 0 for each in self.judged)

    @property
    def kept(self) -> int:
        """The number of rules without violations."""
        return sum(each.answers > 0 and each.kept for each in self.judged)


def judge(card: ReportCard) -> ConformanceReport:
    """Checks the responses of a test run against the rules of their API. If the API has no rules, the returned report
    has no results.
    """
    streams = [stream for stream in map(read_stream, card.answers) if stream is not None]
    return ConformanceReport(card, tuple(_judged(rule, streams) for rule in RULES.get(card.adapter, ())))


async def judge_server(
    profile: Profile, api: str = AUTO, budget: int = DEFAULT_BUDGET.requests
) -> list[ConformanceReport]:
    """Tests one API or all APIs of a server, and checks the responses against the rules.

    Raises:
        StreamfoldError: the server responds to none of the APIs.
    """
    cards = [(await Doctor(Budget(budget)).run(found))[0] for found in await find_apis(profile, api)]
    return [judge(card) for card in cards]


def _judged(rule: Rule, streams: Iterable[Stream]) -> RuleResult:
    violations: list[Violation] = []
    answers = 0
    for stream in streams:
        # A rule for streams doesn't apply to a stream that ends with an error.
        complete = rule.errors or stream.seen.fine
        if (stream.status >= 400) == rule.errors and complete and rule.about(stream):
            answers += 1
            asked = f"{stream.seen.probe}/{stream.seen.ask}"
            violations += [Violation(stream.seen.number, asked, what) for what in rule.check(stream)]
    return RuleResult(rule, answers, tuple(violations))


def rulings_to_dict(rulings: Iterable[ConformanceReport]) -> dict[str, Any]:
    """Returns conformance reports as data for `json.dumps`."""
    apis = []
    for ruling in rulings:
        about = {name: getattr(ruling.card, name) for name in ("adapter", "base_url", "model", "server")}
        rules = [
            {
                "rule": each.rule.name,
                "text": each.rule.text,
                "link": each.rule.link,
                "answers": each.answers,
                "violations": [asdict(violation) for violation in each.violations],
            }
            for each in ruling.judged
        ]
        apis.append({**about, "kept": ruling.kept, "applied": ruling.applied, "rules": rules})
    return {"format": "streamfold.conformance/1", "apis": apis}
