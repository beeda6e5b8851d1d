"""`streamfold doctor`: what a server really does, as a table, a profile, JSON, a report card and recordings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from streamfold.config import Profile
from streamfold.terminal import (
    File,
    console,
    escape_control_characters,
    print_json,
    print_rows,
    print_status,
    reported_errors,
)
from streamfold.values import ConfigError

from ..doctor import (
    AUTO,
    VERDICTS,
    Change,
    Doctor,
    Finding,
    ReportCard,
    cards_to_dict,
    compare_cards,
    find_wires,
    plan,
    read_cards,
    read_target,
    render_card,
    write_profile,
)
from .inspect import write_page

FAULTY = 3
_STYLES = {
    "ok": "green", "handled": "cyan", "set": "yellow", "no": "dim", "fault": "red", "unclear": "magenta",
    "skipped": "dim",
}  # fmt: skip
_LONGEST_BODY = 160


def doctor(
    target: Annotated[
        str | None, typer.Argument(help="The base URL of a server, or PROVIDER, or PROVIDER:MODEL.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model to ask; by default the first that is listed.")] = None,
    adapter: Annotated[
        str | None, typer.Option(help="The wire: chat, responses, anthropic, ..., or auto for all that answer.")
    ] = None,
    api_key_env: Annotated[str | None, typer.Option(help="The environment variable that holds the key.")] = None,
    name: Annotated[str | None, typer.Option(help="The provider's name in the profile; by default from URL.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="The largest number of requests on each wire.")] = 120,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the requests, and send none.")] = False,
    write: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Add the provider to this streamfold.toml, or update it.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write the report card as one self-contained HTML page.")
    ] = None,
    record: Annotated[Path | None, typer.Option(file_okay=False, help="Keep all answers in this folder.")] = None,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Compare two results of --json instead: BEFORE AFTER.")
    ] = None,
    config: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, as the guide describes it.")] = False,
) -> None:
    """Ask a server what it really does, and write a profile for it.

    Exit with 0 if nothing is at fault, with 3 if something is, with 1 if there was no answer, or if --compare finds a
    difference, and with 2 for a mistake in the command.
    """
    with reported_errors(as_json):
        if compare is not None:
            _compare(*compare, as_json)
            return
        if target is None:
            raise ConfigError("name a server: streamfold doctor http://127.0.0.1:8080/v1")
        profile = read_target(target, config, model=model, api_key_env=api_key_env, name=name)
        wire = adapter or (AUTO if "://" in target else profile.adapter)
        if dry_run:
            _plan(profile if wire == AUTO else profile.model_copy(update={"adapter": wire}), budget, as_json)
            return
        cards = anyio.run(_examine, profile, wire, budget, record, not as_json)
    if as_json:
        print_json(cards_to_dict(card for card, _ in cards))
    with reported_errors():
        if html:
            write_page(html, render_card(cards))
        for card, found in cards if write else ():
            for change in write_profile(write or Path(), card, found):
                print_status(f"{write}: {change}", err=True)
    if any(card.with_verdict("fault") for card, _ in cards):
        raise typer.Exit(FAULTY)


async def _examine(
    profile: Profile, wire: str, budget: int, record: Path | None, show: bool
) -> list[tuple[ReportCard, Profile]]:
    cards = []
    for found in await find_wires(profile, wire):
        card, learned = await Doctor(budget=budget, folder=record).run(found)
        cards.append((card, learned))
        if show:
            _print_card(card)
    return cards


def _print_card(card: ReportCard) -> None:
    target = console()
    server = f", {card.server}" if card.server else ""
    head = f"{card.name}: {card.model} over {card.adapter} at {card.base_url}{server}"
    target.print(Text(escape_control_characters(head), "bold"), soft_wrap=True)
    for theme in dict.fromkeys(finding.theme for finding in card.findings):
        rows = [_row(finding) for finding in card.findings if finding.theme == theme]
        print_rows(target, (theme, "", "seen", "so"), rows)
        target.print()
    counts = {verdict: len(card.with_verdict(verdict)) for verdict in VERDICTS}
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print_status(f"{card.requests} requests in {card.seconds:.1f} s: {words}")
    for setting in card.settings:
        print_status(f"  {'.'.join(setting.key)} = {json.dumps(setting.value, ensure_ascii=False)}")


def _row(finding: Finding) -> list[Text]:
    saw = f"{finding.saw} ({finding.tally})" if finding.tally else finding.saw
    verdict = Text(finding.verdict, _STYLES[finding.verdict])
    return [
        Text(finding.question),
        verdict,
        Text(escape_control_characters(saw)),
        Text(escape_control_characters(finding.does)),
    ]


def _plan(profile: Profile, budget: int, as_json: bool) -> None:
    wanted = plan(profile)
    for probe, ask, sent in wanted:
        if as_json:
            print_json({"probe": probe.name, "ask": ask.name, "question": probe.question, "body": sent})
            continue
        only = " (if needed)" if ask.when else ""
        body = json.dumps(sent, ensure_ascii=False)
        special = f": {ask.special}" if ask.special else ""
        print_status(f"{probe.name}/{ask.name}{only}{special}")
        print_status(f"    {body if len(body) <= _LONGEST_BODY else body[:_LONGEST_BODY] + '...'}")
    if not as_json:
        print_status(f"at most {len(wanted)} different requests, those about the model up to 3 times, {budget} in all")


def _compare(before: Path, after: Path, as_json: bool) -> None:
    changes = compare_cards(read_cards(before), read_cards(after))
    if as_json:
        print_json({"format": "streamfold.doctor-changes/1", "changes": [_change(change) for change in changes]})
    elif not changes:
        print_status("no finding has changed")
    else:
        print_rows(console(), ("wire", "question", "before", "after"), [_change_row(change) for change in changes])
    if changes:
        raise typer.Exit(1)


def _change(change: Change) -> dict[str, Any]:
    sides = {name: side and {"verdict": side.verdict, "saw": side.saw} for name, side in _sides(change)}
    return {"adapter": change.adapter, "probe": change.probe, **sides}


def _sides(change: Change) -> Sequence[tuple[str, Finding | None]]:
    return (("before", change.before), ("after", change.after))


def _change_row(change: Change) -> list[Text]:
    cells = [
        Text(escape_control_characters(f"{side.verdict}: {side.saw}") if side else "not asked")
        for _, side in _sides(change)
    ]
    return [Text(change.adapter), Text(change.question), *cells]
