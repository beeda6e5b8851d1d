"""Anthropic's Message Batches API: https://docs.anthropic.com/en/api/creating-message-batches.

The HTTP request that creates a batch contains all rows. Anthropic's API can't store the key that streamfold gives a
batch. Instead, the name of each row contains the batch's key, and Anthropic's results contain these names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ...jsontext import as_count
from ..prepared_request import PreparedRequest
from .base import (
    BatchListing,
    BatchResult,
    BatchSettings,
    BatchStatus,
    EndpointRequest,
    InlineBatchAPI,
    read_time,
    split_lines,
)

_PAGE = 100
_WITHOUT_ANSWER = {
    "expired": "the batch expired before this request was processed",
    "canceled": "the batch was canceled before this request was processed",
}


class AnthropicBatchAPI(InlineBatchAPI):
    """Batches of requests to the Messages API.

    Args:
        version: the value of the header `anthropic-version`.
    """

    max_rows = 100_000
    max_bytes = 256_000_000
    keyed = False

    def __init__(self, settings: BatchSettings, version: str) -> None:
        super().__init__(settings)
        self._version = {"anthropic-version": version}

    def group(self, prepared: PreparedRequest) -> str:
        return f"{super().group(prepared)} {sorted(prepared.headers.items())}"

    def line(self, name: str, prepared: PreparedRequest) -> bytes:
        params = {member: value for member, value in json.loads(prepared.body).items() if member != "stream"}
        return json.dumps({"custom_id": name, "params": params}, separators=(",", ":")).encode()

    def create(self, key: str, lines: bytes, first: PreparedRequest) -> EndpointRequest:
        body = b'{"requests":[%b]}' % b",".join(lines.splitlines())
        return EndpointRequest.post("/messages/batches", body, first.headers)

    def status(self, batch: str) -> EndpointRequest:
        return EndpointRequest.get(f"/messages/batches/{quote(batch, safe='')}", self._version)

    def read(self, value: Any) -> BatchStatus:
        if not isinstance(value, Mapping) or not isinstance(value.get("id"), str):
            raise ValueError("the response has no 'id'")
        word, counts = value.get("processing_status"), value.get("request_counts")
        tallies = {name: as_count(n) or 0 for name, n in counts.items()} if isinstance(counts, Mapping) else {}
        ended = word == "ended"
        results = EndpointRequest.get(f"{self.status(value['id']).path}/results", self._version)
        return BatchStatus(
            value["id"],
            "ended" if ended else "running",
            str(word),
            created=read_time(value.get("created_at")),
            rows=sum(tallies.values()) or None,
            finished=sum(number for name, number in tallies.items() if name != "processing"),
            results=(results,) if ended else (),
        )

    def batches(self) -> EndpointRequest:
        return EndpointRequest.get(f"/messages/batches?limit={_PAGE}", self._version)

    def read_batches(self, value: Any) -> BatchListing:
        batches = value.get("data") if isinstance(value, Mapping) else None
        if not isinstance(batches, list):
            raise ValueError("the response has no 'data'")
        last, more = value.get("last_id"), None
        if value.get("has_more") and isinstance(last, str):
            more = EndpointRequest.get(f"{self.batches().path}&after_id={quote(last, safe='')}", self._version)
        return BatchListing(tuple(map(self.read, batches)), more=more)

    def results(self, body: Iterable[bytes], names: Iterable[str]) -> Iterator[BatchResult]:
        """Parses the response body with the results:
        https://docs.anthropic.com/en/api/retrieving-message-batch-results."""
        for line in split_lines(body):
            name, result = line.get("custom_id"), line.get("result")
            if not isinstance(name, str) or not isinstance(result, Mapping):
                raise ValueError("a line of the results has no custom_id or no result")
            kind = result.get("type")
            if kind == "succeeded":
                yield BatchResult(name, result.get("message"))
            elif kind == "errored":
                yield BatchResult(name, problem=result.get("error"))
            else:
                told = _WITHOUT_ANSWER.get(str(kind), f"the request has no answer: {kind}")
                yield BatchResult(name, problem={"error": {"type": f"batch_{kind}", "message": told}})
