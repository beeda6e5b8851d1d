"""Creates a batch at the provider exactly once, whatever dies between two calls.

What is about to be asked is in the ledger before it is. A call whose answer never came may have been carried out all
the same, so it is not sent again before the provider's list was searched for what it would have made: a file by its
name, a batch by its key. Where the list does not show keys, every batch that could be ours is taken for it, until its
results show whose it is.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio

from streamfold import APIError, APIStatusError, BadRequestError, NotFoundError, RateLimitError, StreamfoldError
from streamfold.adapters import PreparedRequest
from streamfold.adapters.batches import BatchListing, BatchStatus, EndpointRequest, UploadedBatchAPI
from streamfold.types import BatchClient

from .store import BatchStore, ProviderBatch

T = TypeVar("T")
Lines: TypeAlias = Callable[[], Awaitable[tuple[bytes, PreparedRequest]]]

_SKEW = 3600.0  # by which two clocks may differ
# How long a call that broke off may still be on its way, in seconds. It is searched for until then.
_UNDER_WAY = 5.0
_SEARCH = 1.0
_TRIES = 5


def pauses() -> list[float]:
    """Returns the pauses between the tries of a call, in seconds."""
    return [float(2**number) for number in range(_TRIES - 1)]


async def with_backoff(call: Callable[[], Awaitable[T]]) -> T:
    """Returns what a call brings that may be repeated; one that fails and may succeed later is sent again."""
    for pause in pauses():
        try:
            return await call()
        except RateLimitError as error:
            if not error.retryable:
                raise
            await anyio.sleep(max(pause, error.retry_after or 0.0))
        except APIError as error:
            if not error.retryable:
                raise
            await anyio.sleep(pause)
    return await call()


class BatchSubmitter:
    """Creates the batches of a job.

    Attributes:
        foreign: ids of batches that were taken for ours and are not.
    """

    def __init__(self, client: BatchClient, store: BatchStore) -> None:
        self._client = client
        self._api = client.api
        self._store = store
        self.foreign: set[str] = set()

    async def create(self, batch: ProviderBatch, lines: Lines, *, again: bool) -> ProviderBatch:
        """Returns the batch when the provider has it.

        Args:
            lines: returns its requests and the first of them.
            again: whether it was noted by an earlier run, which may have got further than the ledger knows.

        Raises:
            APIError: it could not be created. It is noted what is known, and the next call goes on there.
        """
        if batch.asked is not None and (found := await self._find(batch)) is not None:
            return await self._found(batch, found)
        if isinstance(api := self._api, UploadedBatchAPI):
            if batch.file is None:
                file = again and await self._find_file(api, batch)
                batch = await self._store.save(batch, file=file or await self._upload(api, batch, lines))
            call = api.create_from(batch.key, str(batch.file))
        else:
            call = api.create(batch.key, *await lines())
        for pause in [*pauses(), None]:
            batch = await self._store.save(batch, asked=time.time())
            try:
                return await self._found(batch, await self._client.ask(call, "a batch", self._api.read, max_retries=0))
            except APIError as error:
                if _refused(error):  # perhaps because its file is gone: then the next run uploads another
                    gone = isinstance(error, BadRequestError | NotFoundError)
                    batch = await self._store.save(batch, asked=None, file=None if gone else batch.file)
                elif (found := await self._find(batch)) is not None:
                    return await self._found(batch, found)
                if pause is None or not error.retryable:
                    raise
                await anyio.sleep(max(pause, getattr(error, "retry_after", None) or 0.0))
        raise AssertionError("unreachable")

    async def _found(self, batch: ProviderBatch, status: BatchStatus) -> ProviderBatch:
        return await self._store.save(batch, id=status.id, state="created", word=status.word)

    async def _upload(self, api: UploadedBatchAPI, batch: ProviderBatch, lines: Lines) -> str:
        call = api.upload(batch.key, (await lines())[0])
        return await with_backoff(lambda: self._client.ask(call, "an uploaded file", api.read_upload))

    async def _find_file(self, api: UploadedBatchAPI, batch: ProviderBatch) -> str | None:
        """Returns the file of a batch, if it was uploaded. Where files can't be listed, a second one does no harm."""
        name = api.file_name(batch.key)
        listed = api.files(), "a list of files", api.read_files
        with suppress(BadRequestError, NotFoundError):
            return await self._first(*listed, lambda page: page.files.get(name))
        return None

    async def _find(self, batch: ProviderBatch) -> BatchStatus | None:
        """Returns the batch that a call has made whose answer never came; None if it made none."""
        asked = batch.asked or 0.0
        while True:
            began = time.time()
            try:
                found = await self._search(batch, asked)
            except APIError as error:
                raise StreamfoldError(
                    "whether the provider has created a batch is not known, because its list of batches can't be read:"
                    f" {error}. None is created twice"
                ) from error
            if found is not None or not 0 <= began - asked < _UNDER_WAY:
                return found
            await anyio.sleep(_SEARCH)

    async def _search(self, batch: ProviderBatch, asked: float) -> BatchStatus | None:
        known = {each.id for each in self._store.all()} | self.foreign
        likely: list[BatchStatus] = []

        def ours(page: BatchListing) -> BatchStatus | None:
            for status in page.found:
                if self._api.keyed:
                    if status.key == batch.key or (batch.file is not None and status.file == batch.file):
                        return status
                elif status.id not in known and status.rows == batch.rows and (status.created or asked) > asked - _SKEW:
                    likely.append(status)
            return None

        found = await self._first(self._api.batches(), "a list of batches", self._api.read_batches, ours)
        return found or min(likely, key=lambda status: abs((status.created or asked) - asked), default=None)

    async def _first(
        self,
        call: EndpointRequest | None,
        what: str,
        read: Callable[[Any], BatchListing],
        pick: Callable[[BatchListing], T | None],
    ) -> T | None:
        """Returns the first thing that is picked from the pages of a list. Not every provider says how it is sorted."""
        seen: set[str] = set()
        while call is not None:
            page = await with_backoff(partial(self._client.ask, call, what, read))
            if (found := pick(page)) is not None:
                return found
            names = {status.id for status in page.found} | set(page.files)
            if names <= seen:  # a server that does not know how to go on
                return None
            seen, call = seen | names, page.more
        return None


def _refused(error: APIError) -> bool:
    """Whether the provider has certainly not done what it was asked."""
    status = getattr(error, "status_code", None)
    return isinstance(error, APIStatusError) and status is not None and 400 <= status < 500 and status not in (408, 409)
