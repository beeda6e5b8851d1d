"""What batch APIs answer is read, or refused with a ValueError: whatever a server sends, nothing else is raised."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale import examples
from streamfold.adapters import PreparedRequest, find_adapter
from streamfold.adapters.batches import BatchAPI, BatchSettings, UploadedBatchAPI
from streamfold.requests import Request
from tables import each_row

WORDS = (
    "id", "status", "data", "job", "has_more", "last_id", "metadata", "request_counts", "completed", "created_at",
    "input_file_id", "output_file_id", "errors", "processing_status", "name", "state", "batchStats", "operations",
    "nextPageToken", "custom_id", "response", "result", "type", "message", "body", "status_code", "error", "key",
    "inlinedResponses", "output", "filename", "done", "displayName", "streamfold",
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from([*WORDS, "completed", "ended", "1", "2026-01-01"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)


def api(adapter: str) -> BatchAPI:
    found: BatchAPI = find_adapter(adapter)().batch_api(BatchSettings())
    return found


@pytest.mark.parametrize("adapter", ["chat", "responses", "anthropic", "gemini"])
@settings(max_examples=examples(500), deadline=None)
@given(value=VALUES)
def test_anything_is_read_or_refused(adapter: str, value: Any) -> None:
    """A shape that nobody expects is a ValueError, which becomes an error that names it."""
    found = api(adapter)
    reads = [found.read, found.read_batches]
    if isinstance(found, UploadedBatchAPI):
        reads += [found.read_upload, found.read_files]  # type: ignore[list-item]
    for read in reads:
        with contextlib.suppress(ValueError):
            read(value)
    with contextlib.suppress(ValueError):
        list(found.results([json.dumps(value).encode()], ["a", "b"]))


@each_row("cut", range(1, 60, 7))
def test_results_are_lines_wherever_their_bytes_are_cut(cut: int) -> None:
    """A piece of the body may end anywhere, and the last line may lack its end."""
    lines = [{"custom_id": f"k-{number}", "response": {"status_code": 200, "body": {"é": number}}} for number in "12"]
    body = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode()
    pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
    assert [(found.name, found.answer) for found in api("chat").results(pieces, [])] == [
        ("k-1", {"é": "1"}),
        ("k-2", {"é": "2"}),
    ]


def test_results_without_a_name_belong_to_nobody() -> None:
    """A line about the whole file is no result; the rows that it leaves out have none, and say so."""
    body = b'{"custom_id": null, "error": {"message": "line 3 is odd"}}\n{"custom_id": "k", "response": {"body": {}}}'
    assert [found.name for found in api("chat").results([body], [])] == ["k"]


def test_a_batch_has_not_ended_before_its_results_are_there() -> None:
    """A batch that is complete, and whose file is not named yet, is looked at again: its answers are paid for."""
    batch = {"id": "b", "status": "completed", "request_counts": {"total": 2, "completed": 2, "failed": 0}}
    assert api("chat").read(batch).state == "running"
    assert api("chat").read({**batch, "output_file_id": "f"}).state == "ended"
    assert api("chat").read({**batch, "request_counts": {"total": 2, "completed": 0, "failed": 2}}).state == "ended"


def test_a_form_has_the_lines_and_the_purpose() -> None:
    """The upload is a form of two fields, as the documentation shows it."""
    call = api("chat").upload("k", b'{"a": 1}\n')
    assert call.headers["Content-Type"] == "multipart/form-data; boundary=streamfold-k"
    assert call.body.split(b"\r\n") == [
        b"--streamfold-k",
        b'Content-Disposition: form-data; name="purpose"',
        b"",
        b"batch",
        b"--streamfold-k",
        b'Content-Disposition: form-data; name="file"; filename="streamfold-k.jsonl"',
        b"Content-Type: application/jsonl",
        b"",
        b'{"a": 1}\n',
        b"--streamfold-k--",
        b"",
    ]


def test_the_model_of_a_batch_stands_in_the_path() -> None:
    """Gemini's batches are of one model each."""
    prepared = PreparedRequest(
        Request("m", ()), "POST", "/models/m:streamGenerateContent?alt=sse", {}, b'{"contents": [1]}'
    )
    found = api("gemini")
    call = found.create("k", found.line("k-1", prepared), prepared)
    assert call.path == "/models/m:batchGenerateContent"
    assert json.loads(call.body) == {
        "batch": {
            "displayName": "streamfold-k",
            "inputConfig": {"requests": {"requests": [{"request": {"contents": [1]}, "metadata": {"key": "k-1"}}]}},
        }
    }
