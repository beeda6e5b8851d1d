"""The base classes of batch APIs, which create HTTP requests and parse the responses.

A batch consists of rows, and each row contains a request to a model. One HTTP request creates a batch, or two if the
rows must be uploaded as a file. streamfold gives each batch a unique `key`. After a crash, it finds the batch by this
key, and doesn't create it twice.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, ClassVar, Literal, TypeAlias

from ..prepared_request import PreparedRequest


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The settings for a provider's batch API, from the table `batches` in the provider's settings.

    Attributes:
        rows: the maximum number of rows in a batch, or None for the API's own limit.
        bytes: the maximum size of all rows of a batch together, in bytes, or None for the API's own limit.
        window: the provider's time limit for a batch. Rows that the provider hasn't finished by then expire.
        purpose: the value of the field `purpose` in the upload of the rows. Together AI requires "batch-api".

    Raises:
        ValueError: a limit isn't greater than 0.
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
    """An HTTP request to a provider's API, without the base URL and the API key. `Provider` adds both.

    Attributes:
        path: the URL path below the base URL, which may contain a query.
    """

    method: Literal["GET", "POST"]
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def get(cls, path: str, headers: Mapping[str, str] | None = None) -> EndpointRequest:
        """Creates a GET request."""
        return cls("GET", path, {**(headers or {}), "Accept": "application/json"})

    @classmethod
    def post(cls, path: str, value: Any, headers: Mapping[str, str] | None = None) -> EndpointRequest:
        """Creates a POST request whose body is a JSON value or JSON text."""
        body = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        types = {"Accept": "application/json", "Content-Type": "application/json"}
        return cls("POST", path, {**(headers or {}), **types}, body)


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch, as the provider reports it.

    Attributes:
        state: "running", "ended" (there are results, perhaps not for all rows) or "failed" (there are no results).
        word: the provider's own name for the state.
        key: the key that streamfold gave the batch, or None if the API doesn't store keys.
        file: the id of the uploaded file with the rows, or None if the rows weren't uploaded.
        created: the time at which the batch was created, in seconds since 1970, or None if unknown.
        rows: the number of rows in the batch, or None if unknown.
        finished: the number of rows that the provider has finished.
        results: the HTTP requests whose responses contain the results of the rows.
        problem: the provider's error object, if the batch as a whole failed.
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
    """One page of a list of batches or of uploaded files.

    Attributes:
        found: the batches on this page.
        files: the ids of the uploaded files on this page, by file name.
        more: the HTTP request for the next page, or None on the last page.
    """

    found: tuple[BatchStatus, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    more: EndpointRequest | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result for one row of a batch.

    Attributes:
        name: the name that streamfold gave the row in this batch.
        answer: the JSON body of the model's response, or None if the row failed.
        problem: the provider's error object, if the row failed.
        status: the HTTP status of the error, if the provider reports one.
        request_id: the provider's id for the row's request.
    """

    name: str
    answer: Any = None
    problem: Any = None
    status: int | None = None
    request_id: str | None = None


class BaseBatchAPI(ABC):
    """Base class of batch APIs. Instances have no state.

    Attributes:
        max_rows: the maximum number of rows in a batch.
        max_bytes: the maximum size of all rows of a batch together, in bytes.
        keyed: True if the provider's list of batches contains the batches' keys. With False, only the results of a
            batch contain its key, in the names of the rows.
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
        """Returns a request's group. All requests in a batch must have the same group."""
        return prepared.request.model

    @abstractmethod
    def line(self, name: str, prepared: PreparedRequest) -> bytes:
        """Returns the row of a batch for a request, as JSON on one line."""

    # --- answers ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, value: Any) -> BatchStatus:
        """Parses the JSON body of a response that describes a batch. Raises ValueError if the body has another
        format."""

    @abstractmethod
    def status(self, batch: str) -> EndpointRequest:
        """Returns the HTTP request that fetches a batch's status."""

    @abstractmethod
    def batches(self) -> EndpointRequest:
        """Returns the HTTP request that lists batches, the newest batch first."""

    @abstractmethod
    def read_batches(self, value: Any) -> BatchListing:
        """Parses the JSON body of a response that lists batches. Raises ValueError if the body has the wrong format."""

    @abstractmethod
    def results(self, body: Iterable[bytes], names: Iterable[str]) -> Iterator[BatchResult]:
        """Parses the response to a request in `BatchStatus.results`.

        Args:
            body: the response body, in pieces of any length.
            names: the names of all rows in the batch, in order.

        Raises:
            ValueError: the body isn't in the format of the API's results.
        """


class InlineBatchAPI(BaseBatchAPI):
    """Base class of batch APIs in which the request that creates a batch contains the rows."""

    @abstractmethod
    def create(self, key: str, lines: bytes, first: PreparedRequest) -> EndpointRequest:
        """Returns the HTTP request that creates a batch.

        Args:
            lines: the rows that `line` returned, one per line.
            first: the first request of the batch. All requests of the batch have the same `group`.
        """


class UploadedBatchAPI(BaseBatchAPI):
    """Base class of batch APIs that create a batch from an uploaded file, which contains the rows."""

    @abstractmethod
    def upload(self, key: str, lines: bytes) -> EndpointRequest:
        """Returns the HTTP request that uploads the rows as a file."""

    @abstractmethod
    def read_upload(self, value: Any) -> str:
        """Returns the id of the uploaded file from the JSON response. Raises ValueError if the response contains no
        id."""

    @abstractmethod
    def files(self) -> EndpointRequest:
        """Returns the HTTP request that lists uploaded files, the newest file first."""

    @abstractmethod
    def read_files(self, value: Any) -> BatchListing:
        """Parses the JSON body of a response that lists files. Raises ValueError if the body has the wrong format."""

    @abstractmethod
    def create_from(self, key: str, file: str) -> EndpointRequest:
        """Returns the HTTP request that creates a batch from an uploaded file."""

    def file_name(self, key: str) -> str:
        """Returns the name of the file that contains the rows of the batch with this key."""
        return f"streamfold-{key}.jsonl"


BatchAPI: TypeAlias = InlineBatchAPI | UploadedBatchAPI


def read_time(text: Any) -> float | None:
    """Converts a time in RFC 3339 format to seconds since 1970. Returns None for any other value."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def split_lines(body: Iterable[bytes]) -> Iterator[Any]:
    """Parses JSON lines from pieces of any length. Raises ValueError if a line isn't a JSON object."""
    rest = b""
    for piece in chain(body, [b"\n"]):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if not line.strip():
                continue
            value = json.loads(line.decode("utf-8", "replace"))
            if not isinstance(value, dict):
                raise ValueError(f"a result must be an object, not {type(value).__name__}")
            yield value
