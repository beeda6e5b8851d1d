"""The command `streamfold batch` with its subcommands `run`, `status`, `export` and `merge`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from itertools import combinations
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated, Any, Literal

import anyio
import anyio.abc
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from typer.core import TyperGroup

from streamfold import ConfigError, Provider
from streamfold.config import tune_gc_for_server
from streamfold.terminal import (
    File,
    ProviderSpecs,
    console,
    one_provider,
    print_json,
    print_status,
    read_json,
    reported_errors,
)

from . import BatchJob, BatchStore, JobPausedError, JobSummary, Ledger, batch, check_output, export, schema_check
from .load_tools import read_tools

_LOOKS = 0.2  # seconds between two updates of the progress
_WINDOW = 15.0  # seconds over which the speed is measured
_BAR = 10  # width of the progress bar in characters
_LINES = 30.0  # seconds between two lines without a terminal


class _RunByDefault(TyperGroup):
    """Runs the command line `batch rows.jsonl` as `batch run rows.jsonl`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    help="""Send rows to a model and store their answers: streamfold batch rows.jsonl -o answers.jsonl -p PROVIDER.

    `streamfold batch run --help` shows the options.""",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Ledgers = Annotated[list[Path], typer.Argument(help="The job's ledgers, one for each shard.")]
Output = Annotated[Path, typer.Option("-o", "--output", dir_okay=False, help="A .jsonl or .parquet file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]
RowsPath = Annotated[
    str,
    typer.Argument(
        help="A .jsonl or .parquet file, or - for JSON lines from standard input. Lines for OpenAI's Batch API are"
        " accepted too."
    ),
]
Model = Annotated[str | None, typer.Option(help="The model; by default the configured model.")]
LedgerPath = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="The file that records the job; by default the output's name with .ledger."),
]
Concurrency = Annotated[int, typer.Option(min=1, help="Maximum number of rows in flight.")]
Tries = Annotated[int, typer.Option(min=1, help="Maximum number of tries for each row.")]
Rpm = Annotated[float | None, typer.Option(help="Maximum requests per minute.")]
Tpm = Annotated[float | None, typer.Option(help="Maximum input and output tokens per minute.")]
MaxCost = Annotated[float | None, typer.Option(help="Pause before the total cost exceeds this amount.")]
SchemaPath = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="A JSON schema that each answer must match.")
]
Tools = Annotated[
    str | None,
    typer.Option(
        help="Tools: a .json file, or functions as MODULE, FILE.py, MODULE:NAME,NAME. Tool calls are recorded, and"
        " run only with --run-tools."
    ),
]
RunTools = Annotated[bool, typer.Option("--run-tools", help="Run the tool calls, and send the results to the model.")]
MaxOutputTokens = Annotated[int | None, typer.Option(min=1, help="Maximum number of output tokens.")]
Temperature = Annotated[float | None, typer.Option(help="The sampling temperature.")]
Shard = Annotated[str, typer.Option(help="I/N: process only every N-th row, beginning with row I (0 to N-1).")]
RetryChecks = Annotated[
    bool,
    typer.Option("--retry-checks", help="Send a row again if its answer doesn't match --schema, up to --tries times."),
]
RetryErrors = Annotated[
    bool, typer.Option("--retry-errors", help="Send the rows again that ended with an error in an earlier run.")
]
InFlight = Annotated[
    Literal["ask", "error"],
    typer.Option(
        help="Rows that were in flight at a crash: send them again (ask), or record an error for them (error)."
    ),
]
Via = Annotated[
    Literal["live", "provider-batch"],
    typer.Option(help="Send live requests, or use the provider's cheaper batch API, which may take hours."),
]
Stream = Annotated[bool, typer.Option(help="Stream the answers. For short answers, --no-stream needs less CPU time.")]
Wait = Annotated[bool, typer.Option(help="Wait for the answers of the provider's batches.")]


@app.command()
def run(
    rows: RowsPath,
    output: Output,
    provider: ProviderSpecs = None,
    model: Model = None,
    config: File = None,
    ledger: LedgerPath = None,
    concurrency: Concurrency = 50,
    tries: Tries = 5,
    rpm: Rpm = None,
    tpm: Tpm = None,
    max_cost: MaxCost = None,
    schema: SchemaPath = None,
    tools: Tools = None,
    run_tools: RunTools = False,
    max_output_tokens: MaxOutputTokens = None,
    temperature: Temperature = None,
    shard: Shard = "0/1",
    retry_errors: RetryErrors = False,
    retry_checks: RetryChecks = False,
    in_flight: InFlight = "ask",
    via: Via = "live",
    wait: Wait = True,
    stream: Stream = True,
    as_json: AsJson = False,
) -> None:
    """Send every row to the model, and write the answers in the order of the rows.

    Start the same command again to continue after an interruption: no row with an answer is sent again. The exit code
    is 0 if every row has an answer, 1 if some rows are errors, 2 for an invalid command, 3 if the job paused, and 130
    if it was interrupted.
    """
    with reported_errors(as_json), ExitStack() as opened:
        source = Path(rows)
        if rows == "-":  # a job reads its rows more than once
            source = Path(opened.enter_context(TemporaryDirectory())) / "stdin.jsonl"
            with source.open("wb") as copy:
                copyfileobj(sys.stdin.buffer, copy)
        path = ledger or output.with_name(f"{output.name}.ledger")
        check_output(output)
        files = {"the rows": source.resolve(), "the output": output.resolve(), "the ledger": path.resolve()}
        for (one, first), (other, second) in combinations(files.items(), 2):
            if first == second:
                raise ConfigError(f"{first}: {one} and {other} must be different files")
        sampling = {"temperature": temperature, "max_output_tokens": max_output_tokens}
        given: dict[str, Any] = {
            "concurrency": concurrency, "tries": tries, "rpm": rpm, "tpm": tpm, "max_cost": max_cost,
            "retry_errors": retry_errors, "retry_checks": retry_checks, "in_flight": in_flight,
            "shard": _read_shard(shard),
            "via": via, "wait": wait, "stream": stream, "run_tools": run_tools,
            **{name: value for name, value in sampling.items() if value is not None},
        }  # fmt: skip
        if schema is not None:
            form = read_json(schema)
            given |= {"response_format": form, "check": schema_check(form, str(schema))}
        if tools is not None:
            given["tools"] = read_tools(tools, to_run=run_tools)
        elif run_tools:
            raise ConfigError("--run-tools needs functions: name them with --tools MODULE:NAME,NAME")
        spec = one_provider(provider)
        asked = Provider.from_config(spec, config=config, model=model, max_retries=0).prefer_aiohttp()
        tune_gc_for_server()
        opened.enter_context(_transport_logged())
        ended = anyio.run(partial(run_job, asked, source, path, given, shown=not as_json))
        if not ended.paused:
            with Ledger(path, readonly=True) as written:
                export([written], output)
        _report(asked.name, ended, output, as_json)
        if ended.paused and via == "provider-batch":
            print_status("The provider continues to process the batches that were created.", err=True)
        if ended.paused:
            raise typer.Exit(130 if ended.interrupted else 3)
        if ended.summary.errors:
            raise typer.Exit(1)


@contextmanager
def _transport_logged() -> Iterator[None]:
    log, handler = logging.getLogger("streamfold.transport"), logging.StreamHandler()
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _report(name: str, ended: JobOutcome, output: Path, as_json: bool) -> None:
    summary, paused = ended.summary, ended.paused
    read, written = summary.usage.input_tokens, summary.usage.output_tokens
    costs = {currency: f"{cost.amount:f}" for currency, cost in summary.costs.items()}
    if as_json:
        print_json({
            "provider": name, "rows": summary.rows, "done": summary.done, "errors": summary.errors,
            "recorded": summary.recorded, "input_tokens": read, "output_tokens": written, "costs": costs,
            "unpriced": summary.unpriced, "paused": paused and str(paused), "output": str(output),
        })  # fmt: skip
        return
    counts = f"{_number(summary.done, 'answer')}, {_number(summary.errors, 'error')}, {_number(summary.rows, 'row')}"
    amounts = "".join(f", {amount} {currency}" for currency, amount in costs.items())
    print_status(f"{counts}; {read} + {written} tokens{amounts}")
    if paused:
        print_status(f"{paused}\nStart the same command again to continue.", err=True)


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


@app.command()
def status(ledger: Annotated[Path, typer.Argument(help="The ledger of a job.")], as_json: AsJson = False) -> None:
    """Print the progress of a job, even while the job is running."""
    with reported_errors(as_json), Ledger(ledger, readonly=True) as opened:
        settings, counts = opened.settings(), opened.counts()
        batches = BatchStore(opened).all()
        if as_json:
            read = {"count": int(settings.get("count", 0)), "run_tools": settings.get("run_tools") == "true"}
            print_json({**settings, **read, **counts, "batches": [asdict(found) for found in batches]})
            return
        first, step = opened.shard
        rows = len(range(first, int(settings.get("count", 0)), step))
        answers, errors = _number(counts["done"], "answer"), _number(counts["error"], "error")
        print_status(f"{answers}, {errors}, {counts['sent']} in flight, {_number(rows, 'row')}")
        print_status(f"model: {settings.get('model', 'unknown')}")
        for found in batches:
            said = f"{found.finished} of {found.rows} requests done" + (f", {found.word}" if found.word else "")
            print_status(f"batch {found.id or found.key}: {found.state}, {said}")


@app.command(name="export")
def export_command(ledgers: Ledgers, output: Output) -> None:
    """Write the answers that a job has so far, in the order of the rows."""
    _export(ledgers, output, whole=False)


@app.command()
def merge(ledgers: Ledgers, output: Output) -> None:
    """Write the answers of all shards of a job into one file, in the order of the rows.

    If rows are missing or two ledgers contain the same rows, the command writes nothing and exits with code 2.
    """
    _export(ledgers, output, whole=True)


def _export(ledgers: list[Path], output: Path, *, whole: bool) -> None:
    with reported_errors(), ExitStack() as stack:
        opened = [stack.enter_context(Ledger(path, readonly=True)) for path in ledgers]
        count = export(opened, output, whole=whole)
        total = int(opened[0].settings().get("count", count))
        print_status(f"{output}: {_number(count, 'row')}" if count == total else f"{output}: {count} of {total} rows")


def _read_shard(text: str) -> tuple[int, int]:
    first, mark, count = text.partition("/")
    if not (mark and first.isdecimal() and count.isdecimal()):
        raise ConfigError(f"--shard must look like 3/16, not {text!r}")
    return int(first), int(count)


# --- running ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class JobOutcome:
    """The result of one `streamfold batch` run.

    Attributes:
        paused: the reason why the job paused before all rows had an answer or an error; None if it didn't pause.
        interrupted: true if the user or the system stopped the run.
    """

    summary: JobSummary
    paused: JobPausedError | None = None
    interrupted: bool = False


async def run_job(
    provider: Provider, rows: Path, ledger: Path, settings: Mapping[str, Any], *, shown: bool
) -> JobOutcome:
    """Runs a job and returns its outcome.

    After Ctrl-C or SIGTERM, the job sends no more rows, and waits for the rows in flight. A second signal cancels the
    rows in flight.
    """
    async with provider, batch(provider, rows, ledger=ledger, **settings) as job:
        ended = JobOutcome(job.summary)

        def interrupt() -> None:
            if ended.interrupted:
                running.cancel()
                return
            ended.interrupted = True
            print_status("\nwaiting for the rows in flight; press Ctrl-C again to cancel them", err=True)
            job.stop()

        async with anyio.create_task_group() as around:
            around.start_soon(_on_signals, interrupt)
            if shown:
                around.start_soon(show_progress, provider.name, job)
            with anyio.CancelScope() as running:
                try:
                    await job.run()
                except JobPausedError as error:
                    ended.paused = error
            around.cancel_scope.cancel()
    return ended


async def _on_signals(interrupt: Callable[[], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread can handle signals
    try:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                interrupt()
    except NotImplementedError:  # on Windows, Ctrl-C raises KeyboardInterrupt and cancels all requests
        return


class SpeedMeter:
    """Measures the speed of a job over the last 15 seconds."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int, int]] = deque()

    def look(self, now: float, job: BatchJob) -> tuple[int, int]:
        """Records how many rows have finished and how many tokens they used, and returns both numbers."""
        summary, usage = job.summary, job.summary.usage
        ended, tokens = summary.done + summary.errors, (usage.input_tokens or 0) + (usage.output_tokens or 0)
        self._looks.append((now, ended, tokens))
        while len(self._looks) > 2 and now - self._looks[1][0] >= _WINDOW:
            self._looks.popleft()
        return ended, tokens

    def said(self, now: float, job: BatchJob, room: int | None = None) -> str:
        """Describes the current speed of a job, the estimated time left, the number of errors and the costs.

        Args:
            room: the maximum number of characters. The method leaves out details that don't fit.
        """
        summary = job.summary
        ended, tokens = self.look(now, job)
        began, ended_then, tokens_then = self._looks[0]
        seconds = max(now - began, _LOOKS)
        rate = (ended - ended_then) / seconds
        parts = [f"{rate:.1f} rows/s" if rate < 10 else f"{rate:,.0f} rows/s"]
        if rate and summary.rows > ended:
            parts.append(f"{timedelta(seconds=round((summary.rows - ended) / rate))} left")
        parts += [
            f"{summary.errors:,} error{'s' * (summary.errors != 1)}",
            *(f"{cost.amount:,.4f} {cost.currency}" for cost in summary.costs.values()),
            *([job.status_text] if job.status_text else ()),
            f"{(tokens - tokens_then) / seconds:,.0f} tokens/s",
        ]
        while room is not None and len(", ".join(parts)) > room and len(parts) > 1:
            parts.pop()
        return ", ".join(parts)


async def show_progress(name: str, job: BatchJob) -> None:
    """Shows the progress of a job on standard error, until the task is cancelled."""
    target, meter = console(stderr=True), SpeedMeter()
    if not target.is_terminal:
        meter.look(monotonic(), job)  # the start of the first measurement
        while True:
            await anyio.sleep(_LINES)
            summary, said = job.summary, meter.said(monotonic(), job)
            print_status(f"{name}: {summary.done + summary.errors:,} of {summary.rows:,} rows, {said}", err=True)
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(_BAR), MofNCompleteColumn(),
        TextColumn("{task.fields[said]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=target) as progress:
        rows = job.summary.rows
        task = progress.add_task(name, total=rows, said="")
        room = target.width - len(name) - _BAR - len(f"{rows}/{rows}") - 3  # a space between two columns

        def update() -> None:
            ended = job.summary.done + job.summary.errors
            progress.update(task, completed=ended, said=meter.said(monotonic(), job, room))

        try:
            while True:
                update()
                await anyio.sleep(_LOOKS)
        finally:
            update()
