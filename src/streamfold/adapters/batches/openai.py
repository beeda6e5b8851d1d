"""Batch APIs in OpenAI's format. One HTTP request uploads a file of rows to `/files`, and another creates a batch from
this file at `/batches`.

OpenAI documents the format at https://platform.openai.com/docs/api-reference/batch. Azure
(https://learn.microsoft.com/azure/foundry/openai/how-to/batch), Moonshot
(https://platform.kimi.ai/docs/api/batch-create), DashScope
(https://www.alibabacloud.com/help/en/model-studio/batch-interfaces-compatible-with-openai) and Together
(https://docs.together.ai/reference/batch-create) have the same format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

from ...jsontext import count_or_none
from ..prepared_request import PreparedRequest
from .base import BatchListing, BatchResult, BatchSettings, BatchStatus, EndpointRequest, UploadedBatchAPI, split_lines

_KEY = "streamfold"  # in the metadata of a batch
_ENDED = ("completed", "expired", "cancelled")
_RESULTS = ("output_file_id", "error_file_id")
_STREAMED = ("stream", "stream_options")  # a batch has no streams
_PAGE = 100


class OpenAIBatchAPI(UploadedBatchAPI):
    """Batches of requests to one endpoint of an API in OpenAI's format.

    Args:
        endpoint: the URL path to which the provider sends the rows of a batch, for example "/v1/chat/completions".
    """

    max_rows = 50_000
    max_bytes = 200_000_000

    def __init__(self, endpoint: str, settings: BatchSettings) -> None:
        super().__init__(settings)
        self._endpoint = endpoint

    def line(self, name: str, prepared: PreparedRequest) -> bytes:
        body = {member: value for member, value in json.loads(prepared.body).items() if member not in _STREAMED}
        line = {"custom_id": name, "method": "POST", "url": self._endpoint, "body": body}
        return json.dumps(line, separators=(",", ":")).encode()

    def upload(self, key: str, lines: bytes) -> EndpointRequest:
        """Returns the HTTP request that uploads the rows:
        https://platform.openai.com/docs/api-reference/files/create."""
        mark = f"streamfold-{key}"
        head = (
            f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{self.settings.purpose}\r\n--{mark}\r\n'
            f'Content-Disposition: form-data; name="file"; filename="{self.file_name(key)}"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )  # no JSON line begins with two hyphens, so the rows can't contain the boundary
        body = b"".join((head.encode(), lines, f"\r\n--{mark}--\r\n".encode()))
        headers = {"Accept": "application/json", "Content-Type": f"multipart/form-data; boundary={mark}"}
        return EndpointRequest("POST", "/files", headers, body)

    def read_upload(self, value: Any) -> str:
        return _text(value, "id")

    def files(self) -> EndpointRequest:
        return EndpointRequest.get(f"/files?purpose={self.settings.purpose}&limit={_PAGE}")

    def read_files(self, value: Any) -> BatchListing:
        files = [file for file in _list(value) if isinstance(file, Mapping)]
        more = _more(value, files)
        return BatchListing(
            files={str(file.get("filename")): _text(file, "id") for file in files},
            more=EndpointRequest.get(f"{self.files().path}&after={more}") if more else None,
        )

    def create_from(self, key: str, file: str) -> EndpointRequest:
        body = {
            "input_file_id": file,
            "endpoint": self._endpoint,
            "completion_window": self.settings.window,
            "metadata": {_KEY: key},
        }
        return EndpointRequest.post("/batches", body)

    def status(self, batch: str) -> EndpointRequest:
        return EndpointRequest.get(f"/batches/{quote(batch, safe='')}")

    def read(self, value: Any) -> BatchStatus:
        """Parses a response that describes a batch. Together AI puts a new batch into the field `job`, and writes
        states in capital letters."""
        if isinstance(value, Mapping) and isinstance(value.get("job"), Mapping):
            value = value["job"]
        word = _text(value, "status").lower()
        counts, metadata = value.get("request_counts"), value.get("metadata")
        counts = counts if isinstance(counts, Mapping) else {}
        total, good, bad = (count_or_none(counts, name) or 0 for name in ("total", "completed", "failed"))
        file, created = value.get("input_file_id"), value.get("created_at")
        results = [found for name in _RESULTS if isinstance(found := value.get(name), str) and found]
        state: Literal["running", "ended", "failed"] = "running"
        if word == "failed":
            state = "failed"
        elif word in _ENDED and (results or not good):  # the server may name the files later
            state = "ended"
        return BatchStatus(
            _text(value, "id"),
            state,
            word,
            key=metadata.get(_KEY) if isinstance(metadata, Mapping) else None,
            file=file if isinstance(file, str) else None,
            created=created if isinstance(created, int | float) else None,
            rows=total or None,
            finished=good + bad,
            results=tuple(EndpointRequest.get(f"/files/{quote(found, safe='')}/content") for found in results),
            problem=value.get("errors") or value.get("error"),
        )

    def batches(self) -> EndpointRequest:
        return EndpointRequest.get(f"/batches?limit={_PAGE}")

    def read_batches(self, value: Any) -> BatchListing:
        batches = _list(value)
        more = _more(value, batches)
        next_page = EndpointRequest.get(f"{self.batches().path}&after={more}") if more else None
        return BatchListing(tuple(map(self.read, batches)), more=next_page)

    def results(self, body: Iterable[bytes], names: Iterable[str]) -> Iterator[BatchResult]:
        """Parses a file of results. A batch has one file with the responses, and another file with the errors."""
        for line in split_lines(body):
            response, name = line.get("response"), line.get("custom_id")
            if not isinstance(name, str):  # an entry about the whole file
                continue
            if not isinstance(response, Mapping):
                yield BatchResult(name, problem=line.get("error") or line)
                continue
            status, answer, asked = response.get("status_code"), response.get("body"), response.get("request_id")
            if line.get("error") or (isinstance(status, int) and status >= 400):
                yield BatchResult(name, None, line.get("error") or answer, status, asked)
            else:
                yield BatchResult(name, answer, request_id=asked)


def _text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(found, str) or not found:
        raise ValueError(f"the response has no {name!r}")
    return found


def _list(value: Any) -> list[Any]:
    """Returns the list in a response. Together AI sends the list itself, without an object around it."""
    found = value.get("data") if isinstance(value, Mapping) else value
    if not isinstance(found, list):
        raise ValueError("the response is not a list of batches or files")
    return found


def _more(value: Any, entries: list[Any]) -> str | None:
    if not entries or not isinstance(value, Mapping) or not value.get("has_more"):
        return None
    return quote(_text(entries[-1], "id"), safe="")
