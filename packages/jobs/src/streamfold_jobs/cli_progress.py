"""How far a job is: a bar on a terminal, else a line now and then, as logs want it."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from time import monotonic

import anyio
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from streamfold.terminal import console, print_status

from . import BatchJob

_LOOKS = 0.2  # seconds between two looks at a job
_WINDOW = 15.0  # seconds that a speed is measured over
_LINES = 30.0  # seconds between two lines where there is no terminal


class SpeedMeter:
    """The speed of a job, over its last seconds."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int, int]] = deque()

    def said(self, now: float, job: BatchJob) -> str:
        """Returns what there is to say of a job beside how many of its rows have ended."""
        summary = job.summary
        ended, usage = summary.done + summary.errors, summary.usage
        tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        self._looks.append((now, ended, tokens))
        while len(self._looks) > 2 and now - self._looks[1][0] >= _WINDOW:
            self._looks.popleft()
        began, ended_then, tokens_then = self._looks[0]
        seconds = max(now - began, _LOOKS)
        rate = (ended - ended_then) / seconds
        parts = [
            f"{rate:.1f} rows/s" if rate < 10 else f"{rate:,.0f} rows/s",
            f"{(tokens - tokens_then) / seconds:,.0f} tokens/s",
            *(f"{cost.amount:,.4f} {cost.currency}" for cost in summary.costs.values()),
            f"{summary.errors:,} error{'s' * (summary.errors != 1)}",
        ]
        if rate and summary.rows > ended:
            parts.append(f"{timedelta(seconds=round((summary.rows - ended) / rate))} left")
        return ", ".join([*parts, job.doing] if job.doing else parts)


async def show_progress(name: str, job: BatchJob) -> None:
    """Shows on standard error how far a job is, until it is cancelled."""
    target, meter = console(stderr=True), SpeedMeter()
    if not target.is_terminal:
        while True:
            said = meter.said(monotonic(), job)
            await anyio.sleep(_LINES)
            summary = job.summary
            print_status(f"{name}: {summary.done + summary.errors:,} of {summary.rows:,} rows, {said}", err=True)
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[said]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=target) as progress:
        task = progress.add_task(name, total=job.summary.rows, said="")

        def update() -> None:
            ended = job.summary.done + job.summary.errors
            progress.update(task, completed=ended, said=meter.said(monotonic(), job))

        try:
            while True:
                update()
                await anyio.sleep(_LOOKS)
        finally:
            update()
