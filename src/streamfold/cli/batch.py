"""`streamfold batch`: ask about many rows, and see, export and merge what came back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

from ..client import Provider
from ..jobs import (
    BatchJob,
    BatchStore,
    JobPausedError,
    JobSummary,
    Ledger,
    batch,
    check_output,
    export,
    export_columns,
    schema_check,
)
from ..values import ConfigError
from . import config as config_commands
from .errors import reported_errors
from .output import console, print_json, say

__all__ = ["app"]


class _RunByDefault(TyperGroup):
    """`batch rows.jsonl` is `batch run rows.jsonl`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    help="Ask about many rows, each of them once: streamfold batch rows.jsonl -o answers.jsonl -p PROVIDER.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ledgers = Annotated[list[Path], typer.Argument(help="The ledgers of a job, one for each of its shards.")]
Output = Annotated[Path, typer.Option("-o", "--output", dir_okay=False, help="A .jsonl or .parquet file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]


@app.command()
def run(
    rows: Annotated[Path, typer.Argument(help="A .jsonl or .parquet file; lines of OpenAI's Batch API are read too.")],
    output: Output,
    provider: Annotated[
        list[str] | None,
        typer.Option("-p", "--provider", help="PROVIDER or PROVIDER:MODEL. Repeat it to compare several."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Another model than the configured one.")] = None,
    config: config_commands.File = None,
    ledger: Annotated[
        Path | None, typer.Option(dir_okay=False, help="The ledger; by default the output's name with .ledger.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="How many rows are asked at once.")] = 50,
    tries: Annotated[int, typer.Option(min=1, help="How often a row is asked before it is an error.")] = 3,
    rpm: Annotated[float | None, typer.Option(help="Requests a minute.")] = None,
    tpm: Annotated[float | None, typer.Option(help="Tokens a minute, of input and output together.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Pause before the answers cost more.")] = None,
    schema: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A JSON schema that each answer must fit.")
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A JSON list of tools; calls are recorded and not run."),
    ] = None,
    max_output_tokens: Annotated[int | None, typer.Option(min=1, help="The most tokens of an answer.")] = None,
    temperature: Annotated[float | None, typer.Option(help="The sampling temperature.")] = None,
    shard: Annotated[str, typer.Option(help="i/n: only every n-th row, from row i on (0 to n-1).")] = "0/1",
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Ask again for rows that were errors.")] = False,
    in_flight: Annotated[
        Literal["ask", "error"], typer.Option(help="Rows that were under way when a job died: ask again, or errors.")
    ] = "ask",
    via: Annotated[
        Literal["live", "provider-batch"],
        typer.Option(help="Ask by live requests, or by the provider's batch API, which takes hours and costs less."),
    ] = "live",
    wait: Annotated[bool, typer.Option(help="Wait for the answers of the provider's batches.")] = True,
    as_json: AsJson = False,
) -> None:
    """Ask about every row, and write the answers in the order of the rows.

    Start the same command again to go on after an interruption: nothing that was answered is asked again. The exit code
    is 0 if every row has an answer, 1 if some are errors, 2 for a mistake in the command, and 3 if the job paused.
    """
    with reported_errors(as_json):
        check_output(output)
        options = {"temperature": temperature, "max_output_tokens": max_output_tokens}
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if schema is not None:
            given["response_format"] = _read_json(schema)
            given["check"] = schema_check(given["response_format"], str(schema))
        given |= {"concurrency": concurrency, "tries": tries, "rpm": rpm, "tpm": tpm, "max_cost": max_cost}
        given |= {
            "via": via,
            "wait": wait,
            "retry_errors": retry_errors,
            "in_flight": in_flight,
            "shard": _read_shard(shard),
        }
        given |= {"tools": _read_json(tools) if tools else ()}
        specs: list[str | None] = [*dict.fromkeys(provider or ())] or [None]
        models = [Provider.from_config(spec, config=config, model=model, max_retries=0) for spec in specs]
        path = ledger or output.with_name(f"{output.name}.ledger")
        paths = {spec or "": _ledger(path, spec) if spec and len(specs) > 1 else path for spec in specs}
        made = [
            anyio.run(_work, each, rows, own, given, not as_json)
            for each, own in zip(models, paths.values(), strict=True)
        ]
        paused = next((problem for _, problem in made if problem), None)
        alike = None if paused else _write(output, paths)
        _report([summary for summary, _ in made], alike, paused, output, as_json)


async def _work(
    provider: Provider, rows: Path, ledger: Path, given: dict[str, Any], shown: bool
) -> tuple[JobSummary, JobPausedError | None]:
    async with provider, batch(provider, rows, ledger=ledger, **given) as job, anyio.create_task_group() as tasks:
        with _progress(job, provider.name, shown) as update:

            async def watch() -> None:
                while True:
                    await anyio.sleep(0.2)
                    update()

            tasks.start_soon(watch)
            problem = None
            try:
                await job.run()
            except JobPausedError as error:
                problem = error
            update()
            tasks.cancel_scope.cancel()
    return job.summary, problem


@contextmanager
def _progress(job: BatchJob, name: str, shown: bool) -> Iterator[Callable[[], None]]:
    """Shows on a terminal how far a job is, and yields what brings it up to date."""
    target = console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[speed]} rows/s, {task.fields[tokens]:,} tokens{task.fields[cost]}, "
                   "{task.fields[errors]} errors"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=target, disable=not (shown and target.is_terminal)) as progress:
        task = progress.add_task(name, total=job.summary.rows, **_fields(job.summary, 0.0))

        def update() -> None:
            speed = progress.tasks[0].speed or 0.0
            summary = job.summary
            progress.update(task, completed=summary.done + summary.errors, **_fields(summary, speed))

        yield update


def _fields(summary: JobSummary, speed: float) -> dict[str, Any]:
    tokens = (summary.usage.input_tokens or 0) + (summary.usage.output_tokens or 0)
    cost = "".join(f", {cost.amount:.4f} {cost.currency}" for cost in summary.costs.values())
    return {"speed": f"{speed:.0f}", "tokens": tokens, "cost": cost, "errors": summary.errors}


def _write(output: Path, paths: Mapping[str, Path]) -> dict[str, int] | None:
    """Writes the answers. Returns how alike they are if there are several models."""
    with ExitStack() as stack:
        ledgers = {name: stack.enter_context(Ledger(path, readonly=True)) for name, path in paths.items()}
        if len(ledgers) > 1:
            return dict(export_columns(ledgers, output))
        export(ledgers.values(), output)
    return None


def _report(
    summaries: list[JobSummary],
    alike: dict[str, int] | None,
    paused: JobPausedError | None,
    output: Path,
    as_json: bool,
) -> None:
    lines = [_summary(summary) for summary in summaries]
    if as_json:
        more = {"compared": alike} if alike else {}
        print_json({"jobs": lines, "paused": str(paused) if paused else None, "output": str(output), **more})
    else:
        for line in lines:
            costs = "".join(f", {amount} {currency}" for currency, amount in line["costs"].items())
            say(
                f"{line['done']} answers, {line['errors']} errors, {line['rows']} rows;"
                f" {line['input_tokens']} + {line['output_tokens']} tokens{costs}"
            )
        if alike:
            say(", ".join(f"{name}: {alike.get(name, 0)}" for name in ("rows", "answered", "same text", "same calls")))
        if paused:
            say(f"{paused}\nStart the same command again to go on.", err=True)
    if paused:
        raise typer.Exit(3)
    if any(line["errors"] for line in lines):
        raise typer.Exit(1)


def _summary(summary: JobSummary) -> dict[str, Any]:
    return {
        "rows": summary.rows, "done": summary.done, "errors": summary.errors, "recorded": summary.recorded,
        "input_tokens": summary.usage.input_tokens, "output_tokens": summary.usage.output_tokens,
        "costs": {currency: f"{cost.amount:f}" for currency, cost in summary.costs.items()},
        "unpriced": summary.unpriced,
    }  # fmt: skip


@app.command()
def status(ledger: Annotated[Path, typer.Argument(help="The ledger of a job.")], as_json: AsJson = False) -> None:
    """Print how far a job is. It may be running."""
    with reported_errors(as_json), Ledger(ledger, readonly=True) as opened:
        settings, counts = opened.settings(), opened.counts()
        batches = BatchStore(opened).all()
        if as_json:
            print_json({**settings, **counts, "batches": [asdict(found) for found in batches]})
            return
        first, step = (int(part) for part in settings.get("shard", "0/1").split("/"))
        rows = len(range(first, int(settings.get("count", 0)), step))
        say(f"{counts['done']} answers, {counts['error']} errors, {counts['sent']} under way, {rows} rows")
        say(f"model: {settings.get('model', 'unknown')}")
        for found in batches:
            said = f"{found.finished} of {found.rows} requests done" + (f", {found.word}" if found.word else "")
            say(f"batch {found.id or found.key}: {found.state}, {said}")


@app.command(name="export")
def export_command(ledgers: Ledgers, output: Output) -> None:
    """Write what a job has so far, in the order of the rows."""
    with reported_errors(), ExitStack() as stack:
        count = export([stack.enter_context(Ledger(path, readonly=True)) for path in ledgers], output)
        say(f"{output}: {count} rows")


@app.command()
def merge(ledgers: Ledgers, output: Output) -> None:
    """Write the answers of all shards of a job into one file, in the order of the rows."""
    export_command(ledgers, output)


def _ledger(path: Path, spec: str) -> Path:
    """Returns the ledger of one of several models."""
    return path.with_name(f"{path.name}.{re.sub(r'[^A-Za-z0-9._-]+', '_', spec)}")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from None


def _read_shard(text: str) -> tuple[int, int]:
    first, mark, count = text.partition("/")
    if not (mark and first.isdecimal() and count.isdecimal()):
        raise ConfigError(f"--shard must look like 3/16, not {text!r}")
    return int(first), int(count)
