"""Common parts of providers' batch APIs: HTTP requests as values, and the parsing of their responses.

A batch is created by one HTTP request, or by two if its rows are a file. Each batch has a unique `key` of streamfold's.
After a crash, a process can find the batch by its key, and never creates a batch twice.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias

from ..prepared_request import PreparedRequest


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Limits of a provider's batch API: the table `batches` of its settings.

    Attributes:
        rows: the maximum number of rows of a batch. None: the limit of the API.
        bytes: the maximum size of all rows together, in bytes. None: the limit of the API.
        window: the time limit of a batch, after which unfinished rows expire.
        purpose: the purpose of the uploaded file; "batch-api" at Together.

    Raises:
        ValueError: a limit is not above 0.
    """

    rows: int | None = None
    bytes: int | None = None
    window: str = "24h"
    purpose: Literal["batch", "batch-api"] = "batch"

    def __post_init__(self) -> None:
        for name, value in (("rows", self.rows), ("bytes", self.bytes)):
            if value is not None and value < 1:
                raise ValueError(f"{name}: must be greater than 0")


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """An HTTP request to a batch API, without the base URL and the API key, which the provider adds.

    Attributes:
        path: the path below the base URL; may have a query.
    """

    method: Literal["GET", "POST"]
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def get(cls, path: str, headers: Mapping[str, str] | None = None) -> EndpointRequest:
        """Returns a GET request."""
        return cls("GET", path, {**(headers or {}), "Accept": "application/json"})

    @classmethod
    def post(cls, path: str, value: Any, headers: Mapping[str, str] | None = None) -> EndpointRequest:
        """Returns a POST request with a JSON value or JSON text."""
        body = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        return cls(
            "POST", path, {**(headers or {}), "Accept": "application/json", "Content-Type": "application/json"}, body
        )


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch as the provider describes it.

    Attributes:
        state: "running"; "ended" (has results, perhaps not for all rows); "failed" (has no results).
        word: the provider's name of the state.
        key: the batch's key; None if the API doesn't store keys.
        file: the id of the file with the rows; None if the create request contained the rows.
        created: seconds since 1970; None if unknown.
        rows: the number of rows; None if unknown.
        finished: the number of finished rows.
        results: the HTTP requests for the results.
        problem: the provider's error message about the whole batch.
    """

    id: str
    state: Literal["running", "ended", "failed"]
    word: str
    key: str | None = None
    file: str | None = None
    created: float | None = None
    rows: int | None = None
    finished: int = 0
    results: tuple[EndpointRequest, ...] = ()
    problem: Any = None


@dataclass(frozen=True, slots=True)
class BatchListing:
    """One page of a list.

    Attributes:
        found: the batches, or the ids of files by name.
        more: the HTTP request for the next page; None at the end.
    """

    found: tuple[BatchStatus, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    more: EndpointRequest | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one row.

    Attributes:
        name: the name of the row in the batch.
        answer: the complete answer, in the format of a live request; None if the row failed.
        problem: the error object of a failed row.
        status: the HTTP status of the error, if any.
        request_id: the provider's id for the request.
    """

    name: str
    answer: Any = None
    problem: Any = None
    status: int | None = None
    request_id: str | None = None


class BaseBatchAPI(ABC):
    """Base class of batch APIs. Instances are stateless.

    Attributes:
        max_rows, max_bytes: the maximum number of rows of a batch, and their maximum total size.
        keyed: whether a list of batches contains their keys. Otherwise only the results do, in the names of the rows.
    """

    max_rows: int
    max_bytes: int
    keyed: ClassVar[bool] = True

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        self.max_rows = settings.rows or type(self).max_rows
        self.max_bytes = settings.bytes or type(self).max_bytes

    # --- requests -----------------------------------------------------------------------------------------------------

    def group(self, prepared: PreparedRequest) -> str:
        """Returns a text that all requests of a batch must share."""
        return prepared.request.model

    @abstractmethod
    def line(self, name: str, prepared: PreparedRequest) -> bytes:
        """Returns one request as JSON on one line."""

    # --- answers ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, value: Any) -> BatchStatus:
        """Parses a batch. Raises ValueError for another response."""

    @abstractmethod
    def status(self, batch: str) -> EndpointRequest:
        """Returns the HTTP request for the status of a batch."""

    @abstractmethod
    def batches(self) -> EndpointRequest:
        """Returns the HTTP request that lists batches, the latest first."""

    @abstractmethod
    def read_batches(self, value: Any) -> BatchListing:
        """Parses such a list. Raises ValueError for another response."""

    @abstractmethod
    def results(self, body: Iterable[bytes], names: Iterable[str]) -> Iterator[BatchResult]:
        """Parses the response body of a request of `BatchStatus.results`, in pieces.

        Args:
            names: the names of all rows of the batch, in order.

        Raises:
            ValueError: the body can't be parsed.
        """


class InlineBatchAPI(BaseBatchAPI):
    """Batches whose create request contains the rows."""

    @abstractmethod
    def create(self, key: str, lines: bytes, first: PreparedRequest) -> EndpointRequest:
        """Returns the HTTP request that creates a batch.

        Args:
            first: the first request; all requests have the same `group`.
        """


class UploadedBatchAPI(BaseBatchAPI):
    """Batches that are created from an uploaded file of rows."""

    @abstractmethod
    def upload(self, key: str, lines: bytes) -> EndpointRequest:
        """Returns the HTTP request that uploads the rows."""

    @abstractmethod
    def read_upload(self, value: Any) -> str:
        """Returns the id of the uploaded file. Raises ValueError if the response has no id."""

    @abstractmethod
    def files(self) -> EndpointRequest:
        """Returns the HTTP request that lists uploaded files, the latest first."""

    @abstractmethod
    def read_files(self, value: Any) -> BatchListing:
        """Parses such a list. Raises ValueError for another response."""

    @abstractmethod
    def create_from(self, key: str, file: str) -> EndpointRequest:
        """Returns the HTTP request that creates a batch from an uploaded file."""

    def file_name(self, key: str) -> str:
        """Returns the name of an uploaded file."""
        return f"streamfold-{key}.jsonl"


BatchAPI: TypeAlias = InlineBatchAPI | UploadedBatchAPI


def read_time(text: Any) -> float | None:
    """Converts an RFC 3339 time to seconds since 1970; None for another text."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def split_lines(body: Iterable[bytes]) -> Iterator[Any]:
    """Yields the JSON objects of JSON lines. Raises ValueError for a line that isn't a JSON object."""
    rest = b""
    for piece in body:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield _object(line)
    if rest.strip():
        yield _object(rest)


def _object(line: bytes) -> dict[str, Any]:
    value = json.loads(line.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise ValueError(f"a result must be an object, not {type(value).__name__}")
    return value
