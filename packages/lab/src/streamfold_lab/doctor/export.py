"""Converts the doctor's reports to JSON data, and compares reports: `streamfold doctor --json` and `--compare`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from streamfold import ConfigError
from streamfold.terminal import read_json

from .values import Finding, ReportCard

FORMAT = "streamfold.doctor/1"
TIMED = ("pace",)  # probes whose result differs from one run to the next
_HEAD = ("name", "base_url", "adapter", "model", "server", "date", "version", "requests", "seconds")


def cards_to_dict(cards: Iterable[ReportCard]) -> dict[str, Any]:
    """Returns the doctor's reports as data for `json.dumps`, without the servers' responses."""
    heads = [({name: getattr(card, name) for name in _HEAD}, card.findings) for card in cards]
    return {"format": FORMAT, "cards": [{**head, "findings": [*map(asdict, findings)]} for head, findings in heads]}


def read_cards(path: Path) -> list[ReportCard]:
    """Reads a file that `streamfold doctor --json` has written. Raises ConfigError for any other file."""
    data = read_json(path)
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise ConfigError(f"{path}: not written by streamfold doctor --json ({FORMAT})")
    try:
        return cards_from(data)
    except (KeyError, TypeError, ValueError) as exc:
        raise ConfigError(f"{path}: a field is missing or wrong: {exc}") from exc


def cards_from(data: Mapping[str, Any]) -> list[ReportCard]:
    """Converts data from `cards_to_dict` back to reports."""
    findings = TypeAdapter(tuple[Finding, ...])
    return [
        ReportCard(**{name: card[name] for name in _HEAD}, findings=findings.validate_python(card["findings"]))
        for card in data["cards"]
    ]


@dataclass(frozen=True, slots=True)
class Change:
    """A finding that differs between two test runs. `before` or `after` is None if that run has no such finding.

    Attributes:
        adapter: the name of the tested API.
    """

    adapter: str
    probe: str
    question: str
    before: Finding | None
    after: Finding | None


def compare_cards(before: Iterable[ReportCard], after: Iterable[ReportCard]) -> list[Change]:
    """Returns the findings whose verdict or settings differ between two test runs.

    The comparison ignores descriptions and times, because they differ between any two runs.
    """
    old, new = _by_place(before), _by_place(after)
    changes = []
    for place in dict.fromkeys([*old, *new]):
        first, second = old.get(place), new.get(place)
        found = second or first
        if found and place[1] not in TIMED and _meaning(first) != _meaning(second):
            changes.append(Change(*place, found.question, first, second))
    return changes


def _by_place(cards: Iterable[ReportCard]) -> dict[tuple[str, str], Finding]:
    return {(card.adapter, finding.probe): finding for card in cards for finding in card.findings}


def _meaning(finding: Finding | None) -> Any:
    return finding and (finding.verdict, [(setting.key, setting.value) for setting in finding.settings])
