"""The rows of a job asked by live requests: one for each row, with so many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import anyio

from ..client import ChatModel, run_tools
from ..values import (
    APIError,
    AuthenticationError,
    Cost,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    Reply,
    StreamfoldError,
    total_cost,
)
from .answers import Answer, error_members
from .errors import JobPausedError
from .ledger import SENT
from .pace import Pace
from .rows import Row
from .work import Work

__all__ = ["LiveAsker"]

_PAUSE = 1.0  # seconds to wait after "too many requests" without a Retry-After; doubled each time
_LONGEST_PAUSE = 60.0
# Nothing that is asked afterwards will be answered either.
_HOPELESS = (AuthenticationError, PermissionDeniedError, QuotaExceededError)


class LiveAsker:
    """Asks each row by a request of its own, at a pace."""

    def __init__(self, model: ChatModel, pace: Pace) -> None:
        self._model = model
        self._pace = pace
        self._running = 0
        self._refused = 0  # "too many requests", one after the other

    async def ask(self, work: Work) -> None:
        """See `Asker`."""
        todo = work.todo()
        async with anyio.create_task_group() as workers:
            for _ in range(work.settings.concurrency):
                workers.start_soon(self._worker, work, todo)

    async def _worker(self, work: Work, todo: Iterator[tuple[int, bytes | Mapping[str, Any]]]) -> None:
        for number, raw in todo:
            if work.stopped:
                return
            self._running += 1
            try:
                if (row := await work.row(number, raw)) is not None:
                    await self._row(work, row)
            except JobPausedError as error:
                work.stop(str(error), error)
            except Exception as error:  # of the caller's check or tools: what was asked is not lost
                place = work.rows.place(number)
                work.stop(f"the job has stopped at {place}: {type(error).__name__}: {error}", error)
            finally:
                self._running -= 1

    async def _row(self, work: Work, row: Row) -> None:
        """Asks for one row until there is an answer, or an error that stays."""
        if work.states[row.number] == SENT and work.settings.in_flight == "error":
            lost = {"type": "InFlight", "message": "it had been sent when the job died; the answer is lost"}
            work.end(Answer(row.id, row.number, error=lost))
            await work.ledger.written()
            return
        tries = 0
        while True:
            reserved = await self._pace.wait()
            if work.stopped or work.too_expensive(self._running):
                return
            await work.sent(row)
            tries, began = tries + 1, anyio.current_time()
            try:
                reply, cost = await self._reply(work, row)
            except RateLimitError as error:
                await work.not_sent(row)
                if isinstance(error, _HOPELESS):
                    work.stop(f"the job has paused, because nothing more would be answered: {error}", error)
                    return
                tries -= 1
                self._rest(error)
            except _HOPELESS as error:
                await work.not_sent(row)
                work.stop(f"the job has paused, because nothing more would be answered: {error}", error)
                return
            except StreamfoldError as error:
                self._pace.settle(reserved, None)
                if tries < work.settings.tries and isinstance(error, APIError) and error.retryable:
                    await anyio.sleep(min(_PAUSE * 2 ** (tries - 1), _LONGEST_PAUSE))
                    continue
                seconds = anyio.current_time() - began
                work.end(Answer(row.id, row.number, None, error_members(error), tries, seconds))
                return
            else:
                self._refused = 0
                self._pace.settle(reserved, reply.usage)
                work.end(work.answer(row, reply, cost, tries, anyio.current_time() - began))
                return

    async def _reply(self, work: Work, row: Row) -> tuple[Reply, Cost | None]:
        settings = work.settings
        options = {**settings.options, **row.options}
        tools = row.tools if row.tools is not None else settings.tools
        if settings.run_tools:
            run = run_tools(self._model, row.messages, tools or (), tool_choice=row.tool_choice, **options)
            await run
            return run.reply, total_cost(run.replies)
        reply = await self._model.chat(row.messages, tools or None, tool_choice=row.tool_choice, **options)
        return reply, reply.cost

    def _rest(self, error: RateLimitError) -> None:
        self._refused += 1
        wanted = min(_PAUSE * 2 ** min(self._refused - 1, 6), _LONGEST_PAUSE)
        self._pace.rest(wanted if error.retry_after is None else error.retry_after)
