"""`streamfold doctor`: tests a server, and writes the results as a table, a configuration, JSON, an HTML report or
recordings.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from secrets import randbelow
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from streamfold import ConfigError, Cost
from streamfold.terminal import (
    File,
    console,
    escape_control_characters,
    print_json,
    print_rows,
    print_status,
    reported_errors,
)
from streamfold.types import Profile

from ..doctor import (
    AUTO,
    DEFAULT_BUDGET,
    Budget,
    Change,
    Doctor,
    Finding,
    ReportCard,
    cards_to_dict,
    compare_cards,
    find_apis,
    plan,
    read_cards,
    read_target,
    render_card,
    write_profile,
)
from .inspect import write_page

FAULTY = 3
UNFAITHFUL = 4
_REPEATS = 60  # for --thorough: finds an error in 5 percent of requests with 95 percent confidence
_STYLES = {
    "ok": "green", "handled": "cyan", "set": "yellow", "no": "dim", "fault": "red", "unfaithful": "bold red",
    "unclear": "magenta", "skipped": "dim",
}  # fmt: skip
_THOROUGH = 1500  # requests
_LONGEST_BODY = 160


def doctor(
    target: Annotated[
        str | None, typer.Argument(help="The base URL of a server, or PROVIDER, or PROVIDER:MODEL.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model; by default the first in the server's list.")] = None,
    adapter: Annotated[
        str | None,
        typer.Option(help="The API: chat, responses, anthropic, ..., or auto for all APIs that the server supports."),
    ] = None,
    api_key_env: Annotated[str | None, typer.Option(help="The environment variable with the API key.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The provider's name in the configuration; by default derived from the URL.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Maximum number of requests for each API: {DEFAULT_BUDGET.requests}, or 1500 with --thorough.",
        ),
    ] = None,
    max_bytes: Annotated[
        int, typer.Option(min=1, help="Maximum size of all responses of an API, in bytes.")
    ] = DEFAULT_BUDGET.bytes,
    max_seconds: Annotated[
        float, typer.Option(min=1, help="Maximum duration for each API, in seconds.")
    ] = DEFAULT_BUDGET.seconds,
    max_cost: Annotated[
        float,
        typer.Option(
            min=0,
            help="Maximum cost for each API, in the currency of the model's prices. Without known prices, there is no"
            " maximum.",
        ),
    ] = float(DEFAULT_BUDGET.cost),
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help=f"Repeat tests that one response can't decide, up to {_REPEATS} times."),
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="Compare with this endpoint of the same model: PROVIDER, PROVIDER:MODEL or a URL."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed for random values in prompts; by default different in each run.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the requests, and send none.")] = False,
    write: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Add the provider's settings to this streamfold.toml, or update them."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write the report card as one self-contained HTML page.")
    ] = None,
    record: Annotated[Path | None, typer.Option(file_okay=False, help="Record all responses in this folder.")] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Compare two earlier results of --json, BEFORE and AFTER, instead of testing a server."),
    ] = None,
    config: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")] = False,
) -> None:
    """Test a server, and write the configuration that it needs.

    The exit code is 0 if no fault is found, 4 if a response doesn't match its request, and 3 for other faults. The exit
    code is 1 if the server doesn't respond or --compare finds a difference, and 2 if the command is invalid.
    """
    with reported_errors(as_json):
        if compare is not None:
            _compare(*compare, as_json)
            return
        if target is None:
            raise ConfigError("name a server: streamfold doctor http://127.0.0.1:8080/v1")
        profile = read_target(target, config, model=model, api_key_env=api_key_env, name=name)
        api = adapter or (AUTO if "://" in target else profile.adapter)
        seed = randbelow(10**9) if seed is None else seed
        budget = budget or (_THOROUGH if thorough else DEFAULT_BUDGET.requests)
        bounds = Budget(budget, max_bytes, max_seconds, Decimal(str(max_cost)))
        if dry_run:
            _plan(profile if api == AUTO else profile.model_copy(update={"adapter": api}), bounds, seed, as_json)
            return
        other = None if reference is None else read_target(reference, config)
        if other and not other.model:
            other = other.model_copy(update={"model": profile.model})
        repeats = _REPEATS if thorough else 0
        examiner = Doctor(bounds, repeats=repeats, seed=seed, reference=other, folder=record)
        cards = anyio.run(_examine, examiner, profile, api, not as_json)
    if as_json:
        print_json(cards_to_dict(card for card, _ in cards))
    with reported_errors():
        if html:
            write_page(html, render_card(cards))
        if write:
            for card, found in cards:
                for change in write_profile(write, card, found):
                    print_status(f"{write}: {change}", err=True)
    if any(card.with_verdict("unfaithful") for card, _ in cards):
        raise typer.Exit(UNFAITHFUL)
    if any(card.with_verdict("fault") for card, _ in cards):
        raise typer.Exit(FAULTY)


async def _examine(examiner: Doctor, profile: Profile, api: str, show: bool) -> list[tuple[ReportCard, Profile]]:
    cards = []
    for found in await find_apis(profile, api):
        card, learned = await examiner.run(found)
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
        print_rows(target, (theme, "", "observed", "effect"), rows)
        target.print()
    print_status(f"{card.requests} requests in {card.seconds:.1f} s: {card.summary}")
    for setting in card.settings:
        print_status(f"  {'.'.join(setting.key)} = {json.dumps(setting.value, ensure_ascii=False)}")


def _row(finding: Finding) -> list[Text]:
    saw = f"{finding.saw} ({finding.tally})" if finding.tally else finding.saw
    observed, effect = (Text(escape_control_characters(text)) for text in (saw, finding.does))
    return [Text(finding.question), Text(finding.verdict, _STYLES[finding.verdict]), observed, effect]


def _plan(profile: Profile, bounds: Budget, seed: int, as_json: bool) -> None:
    planned = plan(profile, seed=seed)
    for each in planned:
        name, body, mode = f"{each.probe.name}/{each.ask.name}", each.written.body, "whole" if each.whole else "stream"
        if as_json:
            tokens = {"input_tokens": each.written.input_tokens, "output_tokens": each.written.output_tokens}
            what = {"probe": each.probe.name, "ask": each.ask.name, "question": each.probe.question, "mode": mode}
            print_json({**what, **tokens, "max_cost": _amount(each.written.cost), "body": body})
            continue
        only = " (if needed)" if each.ask.when else ""
        special = f": {each.ask.special}" if each.ask.special else ""
        print_status(f"{name}{' without streaming' if each.whole else ''}{only}{special}")
        text = json.dumps(body, ensure_ascii=False)
        print_status(f"    {text if len(text) <= _LONGEST_BODY else text[:_LONGEST_BODY] + '...'}")
    costs = [each.written.cost for each in planned if each.written.cost is not None]
    total = sum(costs[1:], costs[0]) if costs else None
    read = sum(each.written.input_tokens for each in planned)
    written = sum(each.written.output_tokens for each in planned)
    if as_json:
        size = {"requests": len(planned), "input_tokens": read, "output_tokens": written, "max_cost": _amount(total)}
        print_json({"planned": size, "limits": {**asdict(bounds), "cost": f"{bounds.cost:f}"}})
        return
    price = f"at most {total.amount:.4f} {total.currency}" if total else "the model's price is unknown"
    print_status(
        f"{len(planned)} different requests, each sent up to 3 times if its result depends on the model. Sent once"
        f" each, they have about {read:,} input tokens and at most {written:,} output tokens: {price}"
    )
    most = f", {bounds.cost} {total.currency}" if total else ""
    print_status(f"limits: {bounds.requests} requests, {bounds.bytes:,} bytes, {bounds.seconds:g} seconds{most}")


def _amount(cost: Cost | None) -> str | None:
    return None if cost is None else f"{cost.amount:f}"


def _compare(before: Path, after: Path, as_json: bool) -> None:
    changes = compare_cards(read_cards(before), read_cards(after))
    if as_json:
        print_json({"format": "streamfold.doctor-changes/1", "changes": [_change(change) for change in changes]})
    elif not changes:
        print_status("no finding has changed")
    else:
        rows = []
        for change in changes:
            sides = [f"{side.verdict}: {side.saw}" if side else "not tested" for side in (change.before, change.after)]
            cells = [change.adapter, change.question, *map(escape_control_characters, sides)]
            rows.append([*map(Text, cells)])
        print_rows(console(), ("api", "question", "before", "after"), rows)
    if changes:
        raise typer.Exit(1)


def _change(change: Change) -> dict[str, Any]:
    sides = {"before": change.before, "after": change.after}
    shown = {name: side and {"verdict": side.verdict, "saw": side.saw} for name, side in sides.items()}
    return {"adapter": change.adapter, "probe": change.probe, **shown}
