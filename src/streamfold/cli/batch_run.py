"""Runs the jobs of `streamfold batch`, and stops them in order when the user or the system wants it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from ..client import Provider
from ..jobs import BatchJob, JobPausedError, JobSummary, batch
from ..terminal import say
from .batch_progress import show_progress

__all__ = ["Ended", "Plan", "run_jobs"]


@dataclass(slots=True)
class Ended:
    """How a job has ended.

    Attributes:
        paused: why not all of its rows have an answer or an error.
    """

    name: str
    summary: JobSummary
    paused: JobPausedError | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One of the jobs: a provider, the ledger of its answers, and what the user calls it."""

    name: str
    provider: Provider
    ledger: Path


async def run_jobs(
    plans: Sequence[Plan], rows: Path, settings: Mapping[str, Any], *, shown: bool
) -> tuple[list[Ended], bool]:
    """Runs jobs beside each other. Returns how each of them has ended, and whether they were interrupted.

    Ctrl-C and SIGTERM stop asking: rows that are under way get their answers. A second one gives them up.
    """
    interrupted = False
    async with AsyncExitStack() as opened:
        jobs: dict[str, BatchJob] = {}
        for plan in plans:
            provider = await opened.enter_async_context(plan.provider)
            job = batch(provider, rows, ledger=plan.ledger, **settings)
            jobs[plan.name] = await opened.enter_async_context(job)

        def interrupt() -> None:
            nonlocal interrupted
            if interrupted:
                running.cancel_scope.cancel()
                return
            interrupted = True
            say("\nstopping: rows that are under way get their answers; once more gives them up", err=True)
            for job in jobs.values():
                job.stop()

        ended = [Ended(name, job.summary) for name, job in jobs.items()]
        async with anyio.create_task_group() as around:
            around.start_soon(_on_signals, interrupt)
            if shown:
                around.start_soon(show_progress, jobs)
            async with anyio.create_task_group() as running:
                for one, job in zip(ended, jobs.values(), strict=True):
                    running.start_soon(_run, job, one)
            around.cancel_scope.cancel()
    return ended, interrupted


async def _run(job: BatchJob, ended: Ended) -> None:
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
    except NotImplementedError:
        return  # Windows: Ctrl-C is a KeyboardInterrupt there, and gives up what is under way at once
