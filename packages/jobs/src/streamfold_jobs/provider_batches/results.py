"""Converts the results of a provider batch to answers for the rows of a job."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.to_thread

from streamfold import ConfigError, ProtocolError, StreamfoldError
from streamfold.adapters.batches import BatchResult, BatchStatus
from streamfold.types import BatchClient

from ..answers import Answer, error_members
from ..queue import RowQueue
from .submit import ProviderBatch, request_of, row_name, with_backoff

_PIECE = 2**18


class NotOurBatchError(StreamfoldError):
    """A batch that looked like a batch of this job contains another program's requests."""


class Results:
    """The downloaded results of one provider batch, in a temporary file. Use this class as a context manager.

    Args:
        rows: the numbers and ids of the batch's rows, in the order of the batch's requests.
    """

    def __init__(self, client: BatchClient, batch: ProviderBatch, rows: list[tuple[int, str]]) -> None:
        self._client = client
        self._batch = batch
        self._rows = rows
        self._names = {row_name(batch.key, number): number for number, _ in rows}
        self._places: dict[int, int] = {}  # the position of each row's result in the file

    def __enter__(self) -> Results:
        self._folder = tempfile.TemporaryDirectory()
        self._file: IO[bytes] = (Path(self._folder.name) / "results").open("w+b")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._folder.cleanup()

    async def fetch(self, status: BatchStatus) -> None:
        """Downloads all results of the batch to the temporary file.

        Raises:
            APIError: the results can't be downloaded.
            NotOurBatchError: the results belong to requests of another program.
        """
        path = Path(self._folder.name) / "body"
        for call in status.results:
            await with_backoff(partial(self._client.save, call, path))
            try:
                await anyio.to_thread.run_sync(self._sort, path)
            except ValueError as error:
                raise ProtocolError(f"the results of batch {self._batch.id} can't be read: {error}") from error
            finally:
                path.unlink()

    def _sort(self, path: Path) -> None:
        """Copies the results of the batch from a downloaded file to the temporary file, and stores their positions."""
        with path.open("rb") as body:
            pieces = iter(lambda: body.read(_PIECE), b"")
            found = self._client.api.results(pieces, self._names)
            for count, result in enumerate(found):
                number = self._names.get(result.name)
                if number is None and count == 0 and not self._client.api.keyed:
                    raise NotOurBatchError(f"batch {self._batch.id} doesn't belong to this job")
                if number is not None and number not in self._places:
                    self._places[number] = self._file.tell()
                    self._file.write(json.dumps(asdict(result)).encode() + b"\n")

    def answers(self, queue: RowQueue, status: BatchStatus, seconds: float) -> Iterator[Answer]:
        """Yields an answer or an error for each row of the batch."""
        lost = _lost(self._batch, status)
        for number, raw in queue.rows.select({number for number, _ in self._rows}):
            try:
                row = queue.rows.parse(number, raw)
            except ConfigError as error:
                yield Answer(str(number), number, error=error_members(error))
                continue
            if number not in self._places:
                yield Answer(row.id, number, error=lost, seconds=seconds)
                continue
            self._file.seek(self._places[number])
            result = BatchResult(**json.loads(self._file.readline()))
            try:
                reply = request_of(self._client, queue.settings, row).reply(result)
            except StreamfoldError as error:
                yield Answer(row.id, number, error=error_members(error), seconds=seconds)
            else:
                yield row.answer(reply, reply.cost, 1, seconds, queue.settings.check)


def _lost(batch: ProviderBatch, status: BatchStatus) -> dict[str, Any]:
    problem = status.problem
    if problem and not isinstance(problem, str):
        problem = json.dumps(problem, ensure_ascii=False)[:500]
    said = f": {problem}" if problem else ""
    if status.state == "failed":
        return {"type": "BatchFailed", "message": f"the provider's batch {batch.id} failed{said}"}
    return {
        "type": "NoResult",
        "message": f"the provider's batch {batch.id} ended without a result for this row ({status.word}){said}",
        "retryable": True,
    }
