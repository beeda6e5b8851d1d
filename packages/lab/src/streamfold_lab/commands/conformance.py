"""`streamfold conformance`: checks whether a server follows the documentation of its API."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer
from rich.text import Text

from streamfold.terminal import (
    File,
    console,
    escape_control_characters,
    print_json,
    print_rows,
    print_status,
    reported_errors,
)

from ..conformance import RuleResult, judge_server, rulings_to_dict
from ..doctor import AUTO, DEFAULT_BUDGET, read_target

BROKEN = 3


def conformance(
    target: Annotated[str, typer.Argument(help="The base URL of a server, or PROVIDER, or PROVIDER:MODEL.")],
    model: Annotated[str | None, typer.Option(help="The model; by default the first in the server's list.")] = None,
    adapter: Annotated[
        str | None, typer.Option(help="The API to check; by default all APIs that the server supports.")
    ] = None,
    api_key_env: Annotated[str | None, typer.Option(help="The environment variable with the API key.")] = None,
    budget: Annotated[
        int, typer.Option(min=1, help="Maximum number of requests for each API.")
    ] = DEFAULT_BUDGET.requests,
    config: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a server against the documentation of its API, and print every violated rule and a score.

    The exit code is 0 if no rule is violated, 3 if a rule is violated, 1 if the server doesn't respond, and 2 if the
    command is invalid.
    """
    with reported_errors(as_json):
        profile = read_target(target, config, model=model, api_key_env=api_key_env)
        rulings = anyio.run(judge_server, profile, adapter or (AUTO if "://" in target else profile.adapter), budget)
    if as_json:
        print_json(rulings_to_dict(rulings))
    else:
        for ruling in rulings:
            head = f"{ruling.card.model} over {ruling.card.adapter} at {ruling.card.base_url}"
            console().print(Text(escape_control_characters(head), "bold"), soft_wrap=True)
            print_rows(console(), ("rule", "", "answers", ""), [_row(each) for each in ruling.judged])
            print_status(f"{ruling.kept} of {ruling.applied} rules are followed")
    if any(not each.kept for ruling in rulings for each in ruling.judged):
        raise typer.Exit(BROKEN)


def _row(judged: RuleResult) -> list[Text]:
    word, style = ("kept", "green") if judged.kept else ("broken", "red")
    if not judged.answers:
        word, style = "not seen", "dim"
    first = judged.violations[0] if judged.violations else None
    broken = len({violation.answer for violation in judged.violations})
    counts = f"{broken} of {judged.answers}" if first else str(judged.answers)
    what = f"{judged.rule.text} Response {first.answer} ({first.asked}): {first.what}" if first else judged.rule.text
    return [Text(judged.rule.name), Text(word, style), Text(counts), Text(escape_control_characters(what))]
