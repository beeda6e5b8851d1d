"""The rows of a job asked by live requests: one for each row, with so many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import anyio

from streamfold import PermissionDeniedError

from .answers import Answer, error_members
from .errors import JobPausedError
from .pacing import Pacing
from .row_queue import RowQueue
from .row_requests import RowRequests
from .rows import Row
from .settings import JobSettings
from .tables import SENT

_FEW = 3  # refusals of the last rows that are taken for their own


class LiveBackend:
    """Asks each row by a request of its own, at a pace.

    HTTP 403 is said of a key that may not ask, and by some providers of a single prompt. It is the row's own error if
    another row is answered that was asked later; if none is, nobody will be answered, and the job pauses.
    """

    via = "live"

    def __init__(self, settings: JobSettings, pace: Pacing) -> None:
        self._asking = RowRequests(settings, pace)
        self._answered = False
        self._denials = 0
        self._denied: deque[tuple[int, Row, PermissionDeniedError]] = (
            deque()
        )  # since the last answer to a row that was asked later

    async def ask(self, work: RowQueue) -> None:
        """See `Asker`."""
        todo = work.todo()
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._watch, work)
            async with anyio.create_task_group() as workers:
                for _ in range(work.settings.concurrency):
                    workers.start_soon(self._worker, work, todo)
            watching.cancel_scope.cancel()
        if self._denied and not work.stopped:
            if work.summary.recorded or (self._answered and len(self._denied) < _FEW):
                self._own_errors(work, self._denials)
            else:
                self._pause(work)

    async def _watch(self, work: RowQueue) -> None:
        await work.stopping.wait()
        self._asking.stop()

    async def _worker(self, work: RowQueue, todo: Iterator[tuple[int, bytes | Mapping[str, Any]]]) -> None:
        for number, raw in todo:
            if work.stopped:
                return
            try:
                if (row := await work.row(number, raw)) is not None:
                    await self._row(work, row)
            except JobPausedError as error:
                work.stop(str(error), error.__cause__)
            except Exception as error:  # of the caller's check or tools: what was asked is not lost
                place = work.rows.place(number)
                work.stop(f"the job has stopped at {place}: {type(error).__name__}: {error}", error)

    async def _row(self, work: RowQueue, row: Row) -> None:
        if work.states[row.number] == SENT and work.settings.in_flight == "error":
            lost = {"type": "InFlight", "message": "it had been sent when the job died; the answer is lost"}
            work.end(Answer(row.id, row.number, error=lost))
            await work.ledger.written()
            return
        earlier = 0  # denials before the request was sent

        async def sending(row: Row) -> bool:
            nonlocal earlier
            if not await work.paid(row.number):
                return False
            await work.sent(row)
            earlier = self._denials
            return True

        try:
            answer = await self._asking.answer(row, sending=sending, unsent=work.not_sent)
        except PermissionDeniedError as error:
            await work.not_sent(row)
            self._denials += 1
            self._denied.append((self._denials, row, error))
            if len(self._denied) > work.settings.concurrency:
                self._pause(work)
            return
        if answer is None:
            work.money.not_asked(row.number)
            work.notice()
        else:
            work.end(answer)
            if answer.error is None:
                self._answered = True
                self._own_errors(work, earlier)

    def _own_errors(self, work: RowQueue, until: int) -> None:
        """Takes the first denials for errors of their rows."""
        while self._denied and self._denied[0][0] <= until:
            _, row, error = self._denied.popleft()
            work.end(Answer(row.id, row.number, error=error_members(error)))

    def _pause(self, work: RowQueue) -> None:
        _, _, error = self._denied[0]
        work.stop(f"the job has paused, because nothing more would be answered: {error}", error)
