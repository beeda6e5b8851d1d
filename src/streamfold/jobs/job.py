"""A job: every row is asked once, with so many at a time, and the answers come in the order of the rows."""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc
import anyio.to_thread

from ..client import ChatModel, Provider, run_tools
from ..values import (
    APIError,
    AuthenticationError,
    ConfigError,
    Cost,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    Reply,
    StreamfoldError,
    shown_url,
    total_cost,
)
from .answers import Answer, JobSummary, error_members, reply_members
from .ledger import DONE, ERROR, SENT, Ledger
from .pace import Pace
from .rows import Row, Rows
from .settings import JobSettings

__all__ = ["BatchJob", "JobPausedError"]

_PAUSE = 1.0  # seconds to wait after "too many requests" without a Retry-After; doubled each time
_LONGEST_PAUSE = 60.0
_BATCH = 200  # answers that are read from the ledger at once
# Nothing that is asked afterwards will be answered either.
_HOPELESS = (AuthenticationError, PermissionDeniedError, QuotaExceededError)


class JobPausedError(StreamfoldError):
    """A job stopped asking: the key or the account is refused, or the money is spent. What came is in the ledger.

    The same job goes on where it was when it is started again.
    """


class BatchJob:
    """A running job: an async context manager, and an async iterator of its answers in the order of the rows.

    Attributes:
        summary: what the job has done so far.
    """

    def __init__(
        self, model: ChatModel, rows: Rows, ledger: str | os.PathLike[str] | None, settings: JobSettings, pace: Pace
    ) -> None:
        self.summary = JobSummary()
        self._model = model
        self._rows = rows
        self._path = ledger
        self._settings = settings
        self._pace = pace
        self._states = bytearray()
        self._running = 0
        self._over = False  # nobody asks any more
        self._paused: StreamfoldError | None = None
        self._next = settings.shard[0]  # the row whose answer comes next
        self._ready: deque[Answer] = deque()
        self._refused = 0  # "too many requests", one after the other
        self._changed = anyio.Event()

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory() if self._path is None else None
        path = Path(self._folder.name) / "ledger" if self._folder else Path(str(self._path))
        try:
            self._ledger = await anyio.to_thread.run_sync(Ledger, path)
        except BaseException:
            self._clean_up()
            raise
        try:
            await anyio.to_thread.run_sync(self._prepare)
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
        except BaseException:
            self._ledger.close()
            self._clean_up()
            raise
        self._tasks.start_soon(self._work)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._ledger.close)
            self._clean_up()

    async def run(self) -> JobSummary:
        """Waits until every row has an answer or an error.

        Raises:
            JobPausedError: the job stopped asking.
        """
        while not self._over:
            await self._changed.wait()
        if self._paused is not None and not self._complete():
            raise self._paused
        return self.summary

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Answer:
        while not self._ready:
            if self._next >= len(self._states):
                raise StopAsyncIteration
            if self._states[self._next] in (DONE, ERROR):
                self._ready = deque(await anyio.to_thread.run_sync(self._read, *self._next_group()))
            elif self._over:
                raise self._paused or StreamfoldError("the job has ended: leave its block only after its answers")
            else:
                await self._changed.wait()
        answer = self._ready.popleft()
        self._next = answer.number + self._settings.shard[1]
        return answer

    def _next_group(self) -> tuple[int, int]:
        """Returns the next row, and how many rows from there on have ended, up to a limit."""
        step = self._settings.shard[1]
        states = self._states[self._next : self._next + _BATCH * step : step]
        return self._next, next((at for at, state in enumerate(states) if state not in (DONE, ERROR)), len(states))

    @property
    def ledger(self) -> Ledger:
        """The ledger, while the job runs."""
        return self._ledger

    def _read(self, start: int, limit: int) -> list[Answer]:
        return list(self._ledger.answers(start, limit))

    def _prepare(self) -> None:
        """Checks the rows unless they were checked before, and counts what earlier runs have done."""
        first, step = self._settings.shard
        rows = {"rows": self._rows.digest(), "shard": f"{first}/{step}"}
        settings = {"model": _described(self._model), "options": _canonical(self._settings.options)}
        before = self._ledger.settings()
        count = int(before["count"]) if before.get("rows") == rows["rows"] and "count" in before else None
        count = self._rows.check() if count is None else count
        self._ledger.begin({**rows, "count": str(count), **settings})
        self._states = self._ledger.states(count)
        self.summary = self._ledger.summary(len(range(first, count, step)))
        if self._settings.retry_errors:
            self._states = self._states.replace(bytes([ERROR]), bytes([0]))
            self.summary.recorded, self.summary.errors = self.summary.done, 0

    async def _work(self) -> None:
        """Asks for all rows that have no answer. What is written to the ledger is committed while this runs."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ledger.commit)
            try:
                async with anyio.create_task_group() as workers:
                    todo = self._todo()
                    for _ in range(self._settings.concurrency):
                        workers.start_soon(self._worker, todo)
            finally:
                self._over = True
                self._notice()
            tasks.cancel_scope.cancel()

    def _todo(self) -> Iterator[tuple[int, bytes | Mapping[str, Any]]]:
        first, step = self._settings.shard
        for number, raw in enumerate(self._rows):
            if number % step == first and self._states[number] not in (DONE, ERROR):
                yield number, raw

    async def _worker(self, todo: Iterator[tuple[int, bytes | Mapping[str, Any]]]) -> None:
        for number, raw in todo:
            if self._stopped():
                return
            self._running += 1
            try:
                await self._row(number, raw)
            except Exception as error:  # of the caller's check or tools: what was asked is not lost
                self._stop(f"the job has stopped at {self._rows.place(number)}: {type(error).__name__}: {error}", error)
            finally:
                self._running -= 1

    async def _row(self, number: int, raw: bytes | Mapping[str, Any]) -> None:
        """Asks for one row until there is an answer, or an error that stays."""
        try:
            row = self._rows.parse(number, raw)
        except ConfigError as error:
            await self._ledger.sent(number, str(number))
            await self._end(Answer(str(number), number, error=error_members(error)))
            return
        if self._states[number] == SENT and self._settings.in_flight == "error":
            lost = {"type": "InFlight", "message": "it had been sent when the job died; the answer is lost"}
            await self._end(Answer(row.id, number, error=lost))
            return
        tries = 0
        while True:
            reserved = await self._pace.wait()
            if self._stopped() or self._too_expensive():
                return
            await self._ledger.sent(number, row.id)
            self._states[number] = SENT
            tries, began = tries + 1, anyio.current_time()
            try:
                reply, cost = await self._ask(row)
            except RateLimitError as error:
                if isinstance(error, _HOPELESS):
                    await self._pause(number, error)
                    return
                tries -= 1
                await self._ledger.not_sent(number)
                self._rest(error)
            except _HOPELESS as error:
                await self._pause(number, error)
                return
            except StreamfoldError as error:
                self._pace.settle(reserved, None)
                if tries < self._settings.tries and isinstance(error, APIError) and error.retryable:
                    await anyio.sleep(min(_PAUSE * 2 ** (tries - 1), _LONGEST_PAUSE))
                    continue
                seconds = anyio.current_time() - began
                await self._end(Answer(row.id, number, None, error_members(error), tries, seconds))
                return
            else:
                self._refused = 0
                self._pace.settle(reserved, reply.usage)
                await self._end(self._checked(row, reply, cost, tries, anyio.current_time() - began))
                return

    async def _ask(self, row: Row) -> tuple[Reply, Cost | None]:
        settings = self._settings
        options = {**settings.options, **row.options}
        tools = row.tools if row.tools is not None else settings.tools
        if settings.run_tools:
            run = run_tools(self._model, row.messages, tools or (), tool_choice=row.tool_choice, **options)
            await run
            return run.reply, total_cost(run.replies)
        reply = await self._model.chat(row.messages, tools or None, tool_choice=row.tool_choice, **options)
        return reply, reply.cost

    def _checked(self, row: Row, reply: Reply, cost: Cost | None, tries: int, seconds: float) -> Answer:
        wrong = self._settings.check(reply) if self._settings.check else None
        members = reply_members(reply, cost)
        if wrong is None:
            return Answer(row.id, row.number, members, None, tries, seconds)
        error = {"type": "CheckFailed", "message": wrong, "reply": members}
        return Answer(row.id, row.number, None, error, tries, seconds)

    async def _end(self, answer: Answer) -> None:
        await self._ledger.ended(answer)
        self._states[answer.number] = ERROR if answer.error else DONE
        self.summary.add(answer)
        if answer.cost is None and self._settings.max_cost is not None and not answer.error:
            self._stop(f"max_cost: what {self._model.name} costs is not known; give its prices in the configuration")
        self._notice()

    async def _pause(self, number: int, error: APIError) -> None:
        await self._ledger.not_sent(number)
        self._states[number] = 0
        self._stop(f"the job has paused, because nothing more would be answered: {error}", error)

    def _stop(self, text: str, cause: Exception | None = None) -> None:
        if self._paused is None:
            self._paused = JobPausedError(text)
            self._paused.__cause__ = cause

    def _too_expensive(self) -> bool:
        """Whether one answer more, beside those under way, may cost more than there is to spend."""
        limit, known = self._settings.max_cost, sum((cost.amount for cost in self.summary.costs.values()), Decimal(0))
        if limit is None:
            return False
        mean = known / max(self.summary.done - self.summary.unpriced, 1)
        if float(known + mean * self._running) < limit:
            return False
        self._stop(f"the job has paused: max_cost is {limit:g}, and {known:f} are spent")
        return True

    def _rest(self, error: RateLimitError) -> None:
        self._refused += 1
        wanted = min(_PAUSE * 2 ** min(self._refused - 1, 6), _LONGEST_PAUSE)
        self._pace.rest(wanted if error.retry_after is None else error.retry_after)

    def _stopped(self) -> bool:
        return self._paused is not None

    def _complete(self) -> bool:
        return self.summary.done + self.summary.errors >= self.summary.rows

    def _notice(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _clean_up(self) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()


def _described(model: ChatModel) -> str:
    """Returns the model as it must be the same when a job goes on."""
    if not isinstance(model, Provider):
        return model.name
    profile = model.profile
    return f"{profile.name} {profile.adapter} {shown_url(profile.base_url)} {profile.model or ''}".strip()


def _canonical(options: Mapping[str, Any]) -> str:
    def other(value: Any) -> Any:
        schema = getattr(value, "model_json_schema", None)
        return schema() if callable(schema) else str(value)

    return json.dumps(options, sort_keys=True, default=other)
