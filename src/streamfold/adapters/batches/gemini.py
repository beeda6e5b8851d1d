"""Gemini's batch API: https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api.

The HTTP request that creates a batch contains the rows, at most 20 MB. For more rows, streamfold creates several
batches instead of uploading a file. Gemini reports a batch as a long-running operation, whose final state contains the
results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ...jsontext import int_or_none
from ..prepared_request import PreparedRequest
from .base import BatchListing, BatchResult, BatchStatus, EndpointRequest, InlineBatchAPI, read_time

_PAGE = 100
# BATCH_STATE_..., which the SDK calls JOB_STATE_...
_ENDED = ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "CANCELLED", "EXPIRED")


class GeminiBatchAPI(InlineBatchAPI):
    """Batches of requests to `generateContent`."""

    max_rows = 100_000
    max_bytes = 19_000_000  # the limit is 20 MB for the HTTP request

    def line(self, name: str, prepared: PreparedRequest) -> bytes:
        request = json.loads(prepared.body)
        return json.dumps({"request": request, "metadata": {"key": name}}, separators=(",", ":")).encode()

    def create(self, key: str, lines: bytes, first: PreparedRequest) -> EndpointRequest:
        place = first.path.rpartition(":")[0]
        body = b'{"batch":{"displayName":"streamfold-%b","inputConfig":{"requests":{"requests":[%b]}}}}'
        rows = b",".join(lines.splitlines())
        return EndpointRequest.post(f"{place}:batchGenerateContent", body % (key.encode(), rows))

    def status(self, batch: str) -> EndpointRequest:
        """Returns the HTTP request that fetches a batch's status. Gemini's batch names begin with `batches/`."""
        return EndpointRequest.get(f"/{quote(batch)}")

    def read(self, value: Any) -> BatchStatus:
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            raise ValueError("the response has no 'name'")
        about = _members(value, "metadata")
        word = str(about.get("state", "")).rpartition("STATE_")[2]
        stats = _members(about, "batchStats")
        counts = [int_or_none(stats.get(f"{name}RequestCount")) or 0 for name in ("successful", "failed")]
        if word == "FAILED" or "error" in value:
            state: Any = "failed"
        else:
            state = "ended" if word in _ENDED or value.get("done") is True else "running"
        name = str(about.get("displayName") or "")
        return BatchStatus(
            value["name"],
            state,
            word.lower(),
            key=name.removeprefix("streamfold-") if name.startswith("streamfold-") else None,
            created=read_time(about.get("createTime")),
            rows=int_or_none(stats.get("requestCount")) or None,
            finished=sum(counts),
            results=(self.status(value["name"]),) if state == "ended" else (),
            problem=value.get("error"),
        )

    def batches(self) -> EndpointRequest:
        return EndpointRequest.get(f"/batches?pageSize={_PAGE}")

    def read_batches(self, value: Any) -> BatchListing:
        """Parses a response with a list of batches. If there are no batches, Gemini sends an empty JSON object."""
        if not isinstance(value, Mapping):
            raise ValueError("the response is not a list of operations")
        token, operations = value.get("nextPageToken"), value.get("operations") or []
        if not isinstance(operations, list):
            raise ValueError("the response is not a list of operations")
        more = None
        if isinstance(token, str) and token:
            more = EndpointRequest.get(f"{self.batches().path}&pageToken={quote(token, safe='')}")
        return BatchListing(tuple(map(self.read, operations)), more=more)

    def results(self, body: Iterable[bytes], names: Iterable[str]) -> Iterator[BatchResult]:
        """Parses the results inside an operation.

        Gemini sends the results in the order of the rows, and doesn't always repeat the names of the rows:
        https://discuss.ai.google.dev/t/gemini-batch-api-doesnt-return-the-user-metadata-back/112386
        """
        operation = json.loads(b"".join(body))
        if not isinstance(operation, Mapping):
            raise ValueError("the response is not an operation")
        found: Any = operation.get("response") or _members(operation, "metadata").get("output")
        while isinstance(found, Mapping) and "inlinedResponses" in found:
            found = found["inlinedResponses"]
        for name, result in zip(names, found if isinstance(found, list) else (), strict=False):
            if not isinstance(result, Mapping):
                raise ValueError(f"a result must be an object, not {type(result).__name__}")
            key = _members(result, "metadata").get("key")
            name = key if isinstance(key, str) else name
            if "response" in result:
                yield BatchResult(name, result["response"])
            else:
                yield BatchResult(name, problem={"error": result.get("error")})


def _members(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}
