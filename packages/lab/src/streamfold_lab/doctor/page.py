"""Renders the doctor's report as one HTML page. Each response on the page opens in the inspector's timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from streamfold.types import Profile

from ..inspection import document, json_block, page_assets, page_data, page_frame
from .profile import profile_text
from .values import Finding, ProbeResponse, ReportCard, Verdict

# How many responses the page contains for each finding. Of further responses, the page shows only the number.
_OPENED: Mapping[Verdict, int] = {"set": 3, "handled": 3, "fault": 3, "unfaithful": 3, "unclear": 1, "no": 1}
_LONGEST_BODY = 20_000  # the maximum length of a shown body that isn't a stream, in characters


def render_card(cards: Sequence[tuple[ReportCard, Profile]]) -> str:
    """Returns the report on the APIs of one server as an HTML page. Write the page to a file as UTF-8.

    Args:
        cards: the reports on the APIs, each with the profile that `Doctor.run` returned.
    """
    title = f"{cards[0][0].name} at {cards[0][0].base_url}" if cards else "no API was tested"
    before, after = document(
        _asset("card.html"),
        command="doctor",
        title=title,
        style=_asset("card.css"),
        script=_asset("card.js"),
        framed=[page_assets()],
    )
    return before + json_block(_data(title, cards)) + after


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _data(title: str, cards: Sequence[tuple[ReportCard, Profile]]) -> dict[str, Any]:
    first = cards[0][0] if cards else None
    return {
        "title": title,
        "facts": f"by streamfold doctor {first.version}, {first.date}" if first else "",
        "frame": page_frame("an answer"),
        "cards": [_card(card, profile) for card, profile in cards],
        "answers": [answer for number, (card, _) in enumerate(cards) for answer in _answers(number, card)],
    }


def _card(card: ReportCard, profile: Profile) -> dict[str, Any]:
    facts = [card.model, card.server, f"{card.requests} requests in {card.seconds:.1f} s", card.summary]
    findings = [
        {**asdict(finding), "answers": _opened(finding), "count": len(finding.answers)} for finding in card.findings
    ]
    return {
        "adapter": card.adapter,
        "facts": " · ".join(filter(None, facts)),
        "findings": findings,
        "profile": profile_text(card, profile),
    }


def _opened(finding: Finding) -> tuple[int, ...]:
    return finding.answers[: _OPENED.get(finding.verdict, 0)]


def _answers(number: int, card: ReportCard) -> Iterator[dict[str, Any]]:
    """Yields the responses that the page must contain, because a finding links to them."""
    wanted = {answer for finding in card.findings for answer in _opened(finding)}
    for seen in card.answers:
        if seen.number in wanted:
            sent = seen.recording.sent if seen.recording else None
            yield {
                "card": number,
                "number": seen.number,
                "name": f"{seen.probe}/{seen.ask}: {seen.way}",
                "request": f"{sent.method} {sent.path}\n\n{sent.body}" if sent else "there was no response",
                "stream": page_data(seen.inspection) if seen.inspection else None,
                "body": None if seen.inspection else _body(seen),
            }


def _body(seen: ProbeResponse) -> str:
    if seen.recording is None:
        return seen.said
    headers = "\n".join(f"{name}: {value}" for name, value in seen.recording.headers.items())
    body = seen.recording.body[:_LONGEST_BODY].decode("utf-8", "replace")
    return f"status {seen.recording.status}\n{headers}\n\n{body}"
