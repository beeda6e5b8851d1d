"""`streamfold swap-check`: what would be sent to each of several providers, and what becomes of what is in it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from ..config import read_config
from ..testing.swapcheck import Finding, Outcome, check_swap, read_conversation
from ..values import ConfigError
from . import config as config_commands
from .errors import reported_errors
from .output import console as output_console

__all__ = ["swap_check"]

_LONGEST = 300  # characters of one text in a body that is shown
_STYLES = {"kept": "green", "changed": "yellow", "lost": "red", "refused": "red", "not sent": "dim"}


def swap_check(
    conversation: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="JSON: a list of messages, or an object with messages, tools, tool_choice and options.",
        ),
    ],
    provider: Annotated[
        list[str], typer.Option("-p", "--provider", help="PROVIDER or PROVIDER:MODEL; give it once for each.")
    ],
    config: config_commands.File = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each provider.")] = False,
) -> None:
    """Show what several providers would be sent.

    Nothing is sent and no key is needed. Exits with 1 if something is lost or refused.
    """
    with reported_errors(as_json):
        asked = read_conversation(_read(conversation), str(conversation))
        read = read_config(config)
        outcomes = [check_swap(read.profile(spec), asked) for spec in provider]
    if as_json:
        for spec, outcome in zip(provider, outcomes, strict=True):
            typer.echo(json.dumps(_data(spec, outcome), ensure_ascii=False))
    else:
        _print(provider, outcomes)
    if not all(outcome.fine for outcome in outcomes):
        raise typer.Exit(1)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{path}: not JSON: {exc}") from exc


def _data(spec: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "provider": spec,
        "method": "POST",
        "url": outcome.url,
        "fine": outcome.fine,
        "error": outcome.error,
        "warnings": [asdict(warning) for warning in outcome.warnings],
        "facts": [
            {"path": made.fact.path, "state": made.state, "how": made.how, "silent": made.silent}
            for made in outcome.findings
        ],
        "body": outcome.body,
    }


def _print(specs: list[str], outcomes: list[Outcome]) -> None:
    console = output_console()
    for spec, outcome in zip(specs, outcomes, strict=True):
        console.rule(f"[bold]{spec}[/]", align="left")
        console.print(Text(f"POST {outcome.url}"), soft_wrap=True)
        if outcome.body is not None:
            body = json.dumps(_shortened(outcome.body), ensure_ascii=False, indent=2)
            console.print(Text(body), soft_wrap=True)
        for warning in outcome.warnings:
            console.print(Text.assemble(("warning ", "yellow"), f"{warning.code}: {warning.detail}"), soft_wrap=True)
        if outcome.error is not None:
            console.print(Text.assemble(("refused ", "red"), outcome.error), soft_wrap=True)
        console.print()
    table = Table("", "", *(Column(spec, overflow="fold") for spec in specs), title="what becomes of it")
    table.columns[0].overflow = table.columns[1].overflow = "fold"
    for row in zip(*(outcome.findings for outcome in outcomes), strict=True):
        table.add_row(Text(row[0].fact.path), Text(row[0].fact.shown, "dim"), *(_cell(made) for made in row))
    console.print(table)
    for spec, outcome in zip(specs, outcomes, strict=True):
        counts = Counter[str](made.state for made in outcome.findings)
        silent = sum(made.silent for made in outcome.findings)
        words = [f"{counts[state]} {state}" for state in _STYLES if counts[state]]
        words += [f"{silent} LOST WITHOUT A WARNING: this is a mistake of streamfold"] if silent else []
        console.print(Text.assemble(f"{spec}: ", ", ".join(words) or "nothing to compare"), soft_wrap=True)


def _cell(made: Finding) -> Text:
    if made.silent:
        return Text("LOST WITHOUT A WARNING" + (f": {made.how}" if made.how else ""), "bold red")
    how = made.how if made.state in ("kept", "changed", "lost") else ""  # why it is refused stands above
    return Text(f"{made.state}: {how}" if how else made.state, _STYLES[made.state])


def _shortened(value: Any) -> Any:
    match value:
        case str() if len(value) > _LONGEST:
            return f"{value[:60]}... ({len(value)} characters)"
        case dict():
            return {name: _shortened(member) for name, member in value.items()}
        case list():
            return [_shortened(member) for member in value]
        case _:
            return value
