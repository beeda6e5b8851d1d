"""Builds batches, records them in the ledger, and creates each batch exactly once, even after a crash.

The job records every HTTP request in the ledger before it sends the request. If the response is lost, the request may
have succeeded. So before the job repeats a request, it searches the provider's files for the file's name, or the
provider's batches for the batch's unique key. If the provider doesn't list keys, the job reads the results of similar
batches to find out which of them it created.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields, replace
from functools import partial
from typing import IO, Any, TypeVar

import anyio

from streamfold import (
    APIError,
    APIStatusError,
    BadRequestError,
    ConfigError,
    NotFoundError,
    StreamfoldError,
)
from streamfold.adapters import PreparedRequest
from streamfold.adapters.batches import BatchListing, BatchStatus, EndpointRequest, UploadedBatchAPI
from streamfold.client import Backoff
from streamfold.types import BatchClient, BatchRequest, ChatParams

from ..ledger import Ledger
from ..rows import Row
from ..settings import JobSettings

T = TypeVar("T")
_TABLE = (
    "CREATE TABLE IF NOT EXISTS batch (key TEXT PRIMARY KEY, id TEXT, account TEXT NOT NULL, file TEXT,"
    " state TEXT NOT NULL, created REAL NOT NULL, asked REAL, model TEXT NOT NULL, rows INTEGER NOT NULL,"
    " word TEXT NOT NULL, finished INTEGER NOT NULL) WITHOUT ROWID"
)
# Less than most providers allow, so that a batch fits into memory while it is uploaded.
_MOST_BYTES = 32 * 2**20
_SKEW = 3600.0  # maximum difference between the provider's clock and ours, in seconds
# Seconds after a lost response in which the provider may still create the batch, so the search is repeated.
_UNDER_WAY = 5.0
_SEARCH = 1.0
_TRIES = 5


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch of requests that the provider processes, as the ledger records it.

    Attributes:
        key: the unique name by which the job finds the batch in the provider's list of batches.
        account: a hash of the provider's base URL and the API key.
        model: the model of the requests in the batch.
        rows: the number of requests in the batch.
        created: when the ledger recorded the batch, in seconds since 1970.
        state: "creating": the ledger has recorded the batch, and the provider may have created it; "created": the
            provider has created it; "done": the ledger contains its results.
        file: the id of the uploaded file that contains the batch's requests.
        asked: when the job sent the HTTP request that creates the batch; None before that, or if the provider rejected
            the request.
        id: the provider's id of the batch.
        word: the provider's name for the status of the batch.
        finished: the number of finished requests, according to the provider.
    """

    key: str
    account: str
    model: str
    rows: int
    created: float
    state: str = "creating"
    file: str | None = None
    asked: float | None = None
    id: str | None = None
    word: str = ""
    finished: int = 0


_NAMES = tuple(field.name for field in fields(ProviderBatch))
_SAVE = f"INSERT OR REPLACE INTO batch ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"  # noqa: S608
_ALL = f"SELECT {', '.join(_NAMES)} FROM batch ORDER BY created, key"  # noqa: S608 - names of our own
_OF_ROW = "UPDATE row SET batch = ? WHERE n = ?"


class BatchStore:
    """Loads and stores the provider batches of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def all(self) -> list[ProviderBatch]:
        """Returns all batches in the order of their creation."""
        if not self._ledger.select("SELECT 1 FROM sqlite_master WHERE name = 'batch'"):
            return []
        return [ProviderBatch(*row) for row in self._ledger.select(_ALL)]

    def open(self) -> list[ProviderBatch]:
        """Returns the batches whose results the ledger doesn't contain yet."""
        return [batch for batch in self.all() if batch.state != "done"]

    def rows_of(self, batch: ProviderBatch) -> list[tuple[int, str]]:
        """Returns the numbers and ids of a batch's rows, in the order of the batch's requests."""
        return [
            (number, name)
            for number, name in self._ledger.select("SELECT n, id FROM row WHERE batch = ? ORDER BY n", (batch.key,))
        ]

    async def begin(self, batch: ProviderBatch, rows: Iterable[tuple[int, str]]) -> None:
        """Records a batch and marks its rows as sent, in one transaction. When the method returns, the transaction is
        on disk.
        """
        self._ledger.transactions.note(_TABLE, ())
        self._ledger.transactions.note(_SAVE, astuple(batch))
        for number, name in rows:
            self._ledger.mark_sent(number, name)
            self._ledger.transactions.note(_OF_ROW, (batch.key, number))
        await self._ledger.transactions.written()

    async def save(self, batch: ProviderBatch, **changes: Any) -> ProviderBatch:
        """Records changed fields of a batch, and returns the changed batch. When the method returns, the changes are on
        disk.
        """
        changed = replace(batch, **changes)
        if changed != batch:
            self._ledger.transactions.note(_SAVE, astuple(changed))
            await self._ledger.transactions.written()
        return changed


@dataclass(slots=True)
class PendingBatch:
    """A batch whose requests are still being collected.

    Attributes:
        rows: the numbers and ids of the rows in the batch.
        first: the first request. All requests of the batch have its path and headers.
        file: the temporary file that contains the requests.
    """

    key: str
    first: PreparedRequest
    file: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    rows: list[tuple[int, str]] = field(default_factory=list)
    size: int = 0

    def add(self, row: Row, line: bytes) -> None:
        """Adds a row's request to the batch."""
        self.file.write(line + b"\n")
        self.rows.append((row.number, row.id))
        self.size += len(line) + 1

    def lines(self) -> bytes:
        """Returns all requests as JSON lines, and deletes the temporary file."""
        with self.file as file:
            file.seek(0)
            return file.read()


class BatchBuilder:
    """Collects requests into batches, one batch at a time for each model.

    Args:
        client: the client for the provider. The provider limits the size of a batch.
    """

    def __init__(self, client: BatchClient) -> None:
        self._most_rows = client.api.max_rows
        self._most_bytes = min(client.api.max_bytes, _MOST_BYTES)
        self._limit = client.api.max_bytes
        self._open: dict[str, PendingBatch] = {}

    def add(self, row: Row, request: BatchRequest) -> PendingBatch | None:
        """Adds a request to the incomplete batch of its model. If the batch is full, begins another one and returns the
        full one.

        Raises:
            ConfigError: the request is larger than the maximum size of a batch.
        """
        draft, full = self._open.get(request.group) or PendingBatch(new_key(), request.prepared), None
        line = request.line(row_name(draft.key, row.number))
        if len(line) >= self._limit:
            raise ConfigError(
                f"the request has {len(line)} bytes, but a batch of the provider may have at most {self._limit}"
            )
        if draft.rows and (len(draft.rows) >= self._most_rows or draft.size + len(line) >= self._most_bytes):
            draft, full = PendingBatch(new_key(), request.prepared), draft
            line = request.line(row_name(draft.key, row.number))
        draft.add(row, line)
        self._open[request.group] = draft
        return full

    def rest(self) -> list[PendingBatch]:
        """Returns the incomplete batches. Call this after the last request."""
        return list(self._open.values())


def new_key() -> str:
    """Returns a unique name for a batch."""
    return secrets.token_hex(8)


def row_name(key: str, number: int) -> str:
    """Returns the name of a row's request: at most 64 letters, digits and hyphens, as Anthropic's API requires."""
    return f"{key}-{number}"


def request_of(client: BatchClient, settings: JobSettings, row: Row) -> BatchRequest:
    """Builds the batch request for a row. Raises ConfigError if the row can't be part of a provider batch."""
    options: Any = {**settings.options, **row.options}
    tools = row.tools if row.tools is not None else settings.tools
    return client.request(ChatParams.read(row.messages, tools or None, row.tool_choice, options))


class BatchSubmitter:
    """Creates the provider batches of a job.

    Attributes:
        foreign: the ids of batches whose results belong to other programs.
    """

    def __init__(self, client: BatchClient, store: BatchStore) -> None:
        self._client = client
        self._api = client.api
        self._store = store
        self.foreign: set[str] = set()

    async def create(self, batch: ProviderBatch, build: Callable[[], PendingBatch], *, again: bool) -> ProviderBatch:
        """Creates a batch at the provider. Returns the batch with the id that the provider gave it.

        Args:
            build: returns the requests of the batch; called only if the batch or its file must still be sent.
            again: true if an earlier run recorded the batch, so that the provider may have it already.

        Raises:
            APIError: the batch could not be created. The ledger contains the state from which the next run continues.
        """
        if batch.asked is not None and (found := await self._find(batch)) is not None:
            return await self._found(batch, found)
        if isinstance(api := self._api, UploadedBatchAPI):
            if batch.file is None:
                file = await self._find_file(api, batch) if again else None
                if file is None:
                    upload = api.upload(batch.key, build().lines())
                    file = await with_backoff(partial(self._client.ask, upload, "an uploaded file", api.read_upload))
                batch = await self._store.save(batch, file=file)
            call = api.create_from(batch.key, str(batch.file))
        else:
            draft = build()
            call = api.create(batch.key, draft.lines(), draft.first)
        for pause in [*pauses(), None]:
            batch = await self._store.save(batch, asked=time.time())
            try:
                return await self._found(batch, await self._client.ask(call, "a batch", self._api.read, max_retries=0))
            except APIError as error:
                if _refused(error):  # the file may have been deleted; then the next run uploads another one
                    gone = isinstance(error, BadRequestError | NotFoundError)
                    batch = await self._store.save(batch, asked=None, file=None if gone else batch.file)
                elif (found := await self._find(batch)) is not None:
                    return await self._found(batch, found)
                if pause is None or not error.retryable:
                    raise
                await anyio.sleep(max(pause, error.retry_after or 0.0))
        raise AssertionError("unreachable")

    async def _found(self, batch: ProviderBatch, status: BatchStatus) -> ProviderBatch:
        return await self._store.save(batch, id=status.id, state="created", word=status.word)

    async def _find_file(self, api: UploadedBatchAPI, batch: ProviderBatch) -> str | None:
        """Returns the id of a batch's uploaded file; None if it isn't found. If the provider can't list files, the job
        uploads the file a second time, which does no harm.
        """
        name = api.file_name(batch.key)
        listed = api.files(), "a list of files", api.read_files
        with suppress(BadRequestError, NotFoundError):
            return await self._first(*listed, lambda page: page.files.get(name))
        return None

    async def _find(self, batch: ProviderBatch) -> BatchStatus | None:
        """Searches the provider's batches for a batch whose HTTP response was lost. Returns None if the provider didn't
        create the batch.
        """
        asked = batch.asked or 0.0
        while True:
            began = time.time()
            try:
                found = await self._search(batch, asked)
            except APIError as error:
                raise StreamfoldError(
                    "it is unknown whether the provider has created a batch, because its list of batches can't be"
                    f" read: {error}. To avoid a duplicate, the batch isn't created again"
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
        """Returns the first match in the pages of a list. Reads all pages if necessary, because some providers don't
        document the order of their lists.
        """
        seen: set[str] = set()
        while call is not None:
            page = await with_backoff(partial(self._client.ask, call, what, read))
            if (found := pick(page)) is not None:
                return found
            names = {status.id for status in page.found} | set(page.files)
            if names <= seen:  # the server repeats a page
                return None
            seen, call = seen | names, page.more
        return None


def pauses() -> list[float]:
    """Returns the pauses between the tries of an HTTP request, in seconds."""
    backoff = Backoff(first=1.0)
    return [backoff.delay(number) for number in range(_TRIES - 1)]


async def with_backoff(call: Callable[[], Awaitable[T]]) -> T:
    """Calls a function, and calls it again after growing pauses while it raises a retryable error."""
    for pause in pauses():
        try:
            return await call()
        except APIError as error:
            if not error.retryable:
                raise
            await anyio.sleep(max(pause, error.retry_after or 0.0))
    return await call()


def _refused(error: APIError) -> bool:
    """Returns whether the error proves that the provider has not processed the HTTP request."""
    return isinstance(error, APIStatusError) and 400 <= error.status_code < 500 and error.status_code not in (408, 409)
