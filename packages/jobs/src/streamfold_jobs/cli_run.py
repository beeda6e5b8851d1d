"""Runs the job of `streamfold batch`, and stops it in order when the user or the system wants it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from streamfold import Provider
from streamfold.terminal import print_status

from . import BatchJob, JobPausedError, JobSummary, batch
from .cli_progress import show_progress


@dataclass(slots=True)
class JobOutcome:
    """How a job has ended.

    Attributes:
        paused: why not all of its rows have an answer or an error.
        interrupted: whether the user or the system stopped it.
    """

    summary: JobSummary
    paused: JobPausedError | None = None
    interrupted: bool = False


async def run_job(
    provider: Provider, rows: Path, ledger: Path, settings: Mapping[str, Any], *, shown: bool
) -> JobOutcome:
    """Runs a job, and returns how it has ended.

    Ctrl-C and SIGTERM stop asking: rows that are under way get their answers. A second one gives them up.
    """
    async with provider, batch(provider, rows, ledger=ledger, **settings) as job:
        ended = JobOutcome(job.summary)

        def interrupt() -> None:
            if ended.interrupted:
                running.cancel_scope.cancel()
                return
            ended.interrupted = True
            print_status("\nstopping: rows that are under way get their answers; once more gives them up", err=True)
            job.stop()

        async with anyio.create_task_group() as around:
            around.start_soon(_on_signals, interrupt)
            if shown:
                around.start_soon(show_progress, provider.name, job)
            async with anyio.create_task_group() as running:
                running.start_soon(_run, job, ended)
            around.cancel_scope.cancel()
    return ended


async def _run(job: BatchJob, ended: JobOutcome) -> None:
    try:
        await job.run()
    except JobPausedError as error:
        ended.paused = error


async def _on_signals(interrupt: Callable[[], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # signals come to the main thread only
    try:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                interrupt()
    except NotImplementedError:  # Windows: Ctrl-C raises KeyboardInterrupt there, which ends requests at once
        return
