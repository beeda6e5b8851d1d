"""Sends rows through the provider's batch API: submits all batches, polls their status, and records the answers."""

from __future__ import annotations

import time

import anyio
import anyio.lowlevel

from streamfold import APIError, ConfigError, NotFoundError, StreamfoldError
from streamfold.adapters.batches import BatchStatus
from streamfold.types import BatchClient, DirectModel

from ..answers import Answer, error_members
from ..queue import RowQueue
from ..settings import JobPausedError
from .results import NotOurBatchError, Results
from .submit import BatchBuilder, BatchStore, BatchSubmitter, PendingBatch, ProviderBatch, request_of, row_name

# Seconds between two requests for the status of a batch: the shortest and the longest pause.
_FIRST_POLL = 1.0
_LAST_POLL = 60.0
_GROWTH = 1.5
_FAILED_POLLS = 30  # consecutive failures after which the job pauses
_GROUP = 200  # number of answers in each write
_SETTLED = 600.0  # seconds after its creation in which a missing batch may still appear


class ProviderBatchBackend:
    """Sends rows through the provider's batch API.

    Args:
        wait: wait for the answers. If false, the job pauses after it has submitted all rows.

    Raises:
        ConfigError: the provider has no batch API.
    """

    via = "provider-batch"

    def __init__(self, provider: DirectModel, *, wait: bool = True) -> None:
        self._client: BatchClient = provider.batches()
        self._wait = wait

    async def send_rows(self, queue: RowQueue) -> None:
        run = _BatchRun(self._client, queue)
        refused: APIError | None = None
        try:
            try:
                await run.submit_all()
            except APIError as error:  # for one batch; others may have ended
                refused = error
            await run.fetch(wait=self._wait and refused is None)
        except JobPausedError:
            raise
        except StreamfoldError as error:
            queue.stop(f"the job has paused: {error}", error)
        except Exception as error:  # from the caller's `check`; no answers are lost
            queue.stop(f"the job has stopped: {type(error).__name__}: {error}", error)
        if refused is not None:
            queue.stop(f"the job has paused: {refused}", refused)
        elif run.open:
            names = ", ".join(str(batch.id) for batch in run.open)
            queue.stop(f"the job has paused: {queue.status_text} ({names})")


class _BatchRun:
    """One run of a job that uses provider batches.

    Attributes:
        open: the batches whose results the job hasn't fetched yet.
    """

    def __init__(self, client: BatchClient, queue: RowQueue) -> None:
        self._client = client
        self._queue = queue
        self._store = BatchStore(queue.ledger)
        self._submitter = BatchSubmitter(client, self._store)
        self.open: list[ProviderBatch] = []

    # --- submitting --------------------------------------------------------------------------------------------------

    async def submit_all(self) -> None:
        """Submits all rows that the provider doesn't have yet. Begins with batches that an earlier run didn't finish
        creating.
        """
        found = self._store.open()
        if any(batch.account != self._client.account for batch in found):
            raise ConfigError(
                "the provider's batches of this job were created with another API key or base_url. Use these to"
                " continue: batches belong to the account that created them"
            )
        taken = {number for batch in found for number, _ in self._store.rows_of(batch)}
        for batch in found:
            if batch.state == "created":
                self._opened(batch)
        for batch in found:
            if batch.state == "creating":
                self._opened(await self._create_again(batch))
        drafts = BatchBuilder(self._client)
        while (row := await self._queue.next_row(skip=taken)) is not None:
            try:
                full = drafts.add(row, request_of(self._client, self._queue.settings, row))
            except ConfigError as error:
                self._queue.record(Answer(row.id, row.number, error=error_members(error)))
                continue
            if full is not None:
                await self._create(full)
            await anyio.lowlevel.checkpoint()
        if self._queue.stopped:
            return
        for draft in drafts.rest():
            await self._create(draft)

    async def _create(self, draft: PendingBatch) -> None:
        model, account = draft.first.request.model, self._client.account
        batch = ProviderBatch(draft.key, account, model, len(draft.rows), time.time())
        await self._store.begin(batch, draft.rows)
        self._queue.note_sent(number for number, _ in draft.rows)
        self._opened(await self._submitter.create(batch, lambda: draft, again=False))

    def _opened(self, batch: ProviderBatch) -> None:
        self.open.append(batch)
        self._update_status()

    def _update_status(self) -> None:
        done, rows = sum(batch.finished for batch in self.open), sum(batch.rows for batch in self.open)
        number = f"{len(self.open)} batches" if len(self.open) > 1 else "1 batch"
        self._queue.status_text = f"{number} at the provider, {done:,} of {rows:,} requests done" if self.open else ""

    async def _create_again(self, batch: ProviderBatch) -> ProviderBatch:
        """Creates a batch that an earlier run recorded in the ledger, unless the provider already has the batch."""
        queue = self._queue

        def build() -> PendingBatch:
            draft = None
            for number, raw in queue.rows.select({number for number, _ in self._store.rows_of(batch)}):
                row = queue.rows.parse(number, raw)
                request = request_of(self._client, queue.settings, row)
                draft = draft or PendingBatch(batch.key, request.prepared)
                draft.add(row, request.line(row_name(batch.key, number)))
            if draft is None:
                raise ConfigError(f"{queue.ledger.path}: the batch {batch.key} has no rows")
            return draft

        return await self._submitter.create(batch, build, again=True)

    # --- fetching -----------------------------------------------------------------------------------------------------

    async def fetch(self, *, wait: bool) -> None:
        """Fetches the results of batches as they end. Without `wait`, only fetches the results of batches that have
        already ended.
        """
        pause, failed = _FIRST_POLL, 0
        while self.open and not self._queue.stopped:
            for batch in list(self.open):
                try:
                    await self._poll(batch)
                    failed = 0
                except APIError as error:
                    failed += 1
                    if not error.retryable or failed > _FAILED_POLLS:
                        raise
            self._update_status()
            if not (self.open and wait):
                return
            with anyio.move_on_after(pause):
                await self._queue.stopping.wait()
            pause = min(pause * _GROWTH, _LAST_POLL)

    async def _poll(self, batch: ProviderBatch) -> None:
        status = await self._status(batch)
        batch = self._replace(batch, await self._store.save(batch, word=status.word, finished=status.finished))
        if status.state == "running":
            return
        rows = self._store.rows_of(batch)
        with Results(self._client, batch, rows) as results:
            try:
                await results.fetch(status)
            except NotOurBatchError:
                self._submitter.foreign.add(str(batch.id))
                batch = self._replace(batch, await self._store.save(batch, id=None, state="creating"))
                self._replace(batch, await self._create_again(batch))
                return
            await self._record(results, status, time.time() - batch.created)
        await self._store.save(batch, state="done")
        self.open.remove(batch)

    def _replace(self, old: ProviderBatch, new: ProviderBatch) -> ProviderBatch:
        self.open[self.open.index(old)] = new
        return new

    async def _status(self, batch: ProviderBatch) -> BatchStatus:
        api = self._client.api
        try:
            return await self._client.ask(api.status(str(batch.id)), "a batch", api.read)
        except NotFoundError as error:
            if time.time() - batch.created < _SETTLED:  # not all servers of the provider may know it yet
                return BatchStatus(str(batch.id), "running", "not found yet")
            return BatchStatus(str(batch.id), "failed", "gone", problem=str(error))

    async def _record(self, results: Results, status: BatchStatus, seconds: float) -> None:
        queue, count = self._queue, 0
        for answer in results.answers(queue, status, seconds):
            if queue.has_ended(answer.number):
                continue
            queue.record(answer)
            count += 1
            if count % _GROUP == 0:
                await queue.written()
        await queue.written()
