"""Common parts of the batch APIs of providers: calls to make, as values, and how their answers are read.

A batch is handed over by one call, or by two where its requests are a file. It is given a `key` of ours, which tells it
from all others: a process that died between a call and its answer can look for it, and never creates a batch twice.
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
        rows: how many requests a batch may have. None: as many as the API that the provider follows.
        bytes: how large its requests may be together, in bytes. None: as for `rows`.
        window: the time that the provider has for a batch. Unfinished requests expire then.
        purpose: what an uploaded file is for. Together calls it "batch-api".

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
    """An HTTP request to a batch API. It has no secrets: the base URL and the key are added by the provider.

    Attributes:
        path: below the base URL; may have a query.
    """

    method: Literal["GET", "POST"]
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def get(cls, path: str, headers: Mapping[str, str] | None = None) -> EndpointRequest:
        """Returns a call that reads something."""
        return cls("GET", path, {**(headers or {}), "Accept": "application/json"})

    @classmethod
    def post(cls, path: str, value: Any, headers: Mapping[str, str] | None = None) -> EndpointRequest:
        """Returns a call that sends a JSON value, or the text of one."""
        body = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        return cls(
            "POST", path, {**(headers or {}), "Accept": "application/json", "Content-Type": "application/json"}, body
        )


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch as the provider describes it.

    Attributes:
        state: "running"; "ended": there are results, perhaps not for all requests; "failed": there are none.
        word: the provider's own status.
        key: the key that it was given; None if the API has no place for one.
        file: the file with its requests; None if they came with the call.
        created: seconds since 1970; None if it does not say.
        rows: how many requests it has; None if it does not say.
        finished: how many of them are done.
        results: the calls that bring its results.
        problem: the provider's error message for the whole batch.
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
        found: the batches, or the ids of files by their names.
        more: the call for the next page; None at the end.
    """

    found: tuple[BatchStatus, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    more: EndpointRequest | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of one request.

    Attributes:
        name: the name that the request was given in the batch.
        answer: the whole answer, as the same request gets it outside of a batch; None if there is none.
        problem: the error object otherwise.
        status: the HTTP status of the error, where it has one.
        request_id: the provider's id for the request.
    """

    name: str
    answer: Any = None
    problem: Any = None
    status: int | None = None
    request_id: str | None = None


class BaseBatchAPI(ABC):
    """One way of handing over batches. Stateless.

    Attributes:
        max_rows, max_bytes: the most requests of one batch, and how large they may be together.
        keyed: whether a batch in the list tells its key. Otherwise only its results do, in the names of the requests.
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
        """Returns a text that requests must share to be in one batch. No provider is known to refuse one model."""
        return prepared.request.model

    @abstractmethod
    def line(self, name: str, prepared: PreparedRequest) -> bytes:
        """Returns one request as JSON on one line."""

    # --- answers ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, value: Any) -> BatchStatus:
        """Reads a batch. Raises ValueError if it is not one."""

    @abstractmethod
    def status(self, batch: str) -> EndpointRequest:
        """Returns the call that asks for a batch by its id."""

    @abstractmethod
    def batches(self) -> EndpointRequest:
        """Returns the call that lists batches, the latest first."""

    @abstractmethod
    def read_batches(self, value: Any) -> BatchListing:
        """Reads such a list. Raises ValueError if it is not one."""

    @abstractmethod
    def results(self, body: Iterable[bytes], names: Iterable[str]) -> Iterator[BatchResult]:
        """Reads the body that one of `BatchStatus.results` brought, in pieces.

        Args:
            names: the names of all requests of the batch, in their order.

        Raises:
            ValueError: it can't be read.
        """


class InlineBatchAPI(BaseBatchAPI):
    """Batches whose requests come with the call that creates them."""

    @abstractmethod
    def create(self, key: str, lines: bytes, first: PreparedRequest) -> EndpointRequest:
        """Returns the call that creates a batch.

        Args:
            first: the first request; all have its `group`.
        """


class UploadedBatchAPI(BaseBatchAPI):
    """Batches that are created from a file of requests, which is uploaded before."""

    @abstractmethod
    def upload(self, key: str, lines: bytes) -> EndpointRequest:
        """Returns the call that uploads requests."""

    @abstractmethod
    def read_upload(self, value: Any) -> str:
        """Returns the id of the file that was uploaded. Raises ValueError if the answer has none."""

    @abstractmethod
    def files(self) -> EndpointRequest:
        """Returns the call that lists uploaded files, the latest first."""

    @abstractmethod
    def read_files(self, value: Any) -> BatchListing:
        """Reads such a list. Raises ValueError if it is not one."""

    @abstractmethod
    def create_from(self, key: str, file: str) -> EndpointRequest:
        """Returns the call that creates a batch from an uploaded file."""

    def file_name(self, key: str) -> str:
        """Returns the name of an uploaded file."""
        return f"streamfold-{key}.jsonl"


BatchAPI: TypeAlias = InlineBatchAPI | UploadedBatchAPI


def read_time(text: Any) -> float | None:
    """Returns the seconds since 1970 of a time by RFC 3339; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def split_lines(body: Iterable[bytes]) -> Iterator[Any]:
    """Yields the JSON objects of JSON lines. Raises ValueError for a line that is not one."""
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
