"""Batch APIs of providers on loopback, strict about what they are sent, that count what they create.

They are written from the documentation; `packages/jobs/tests/test_batch_servers.py` has the providers' own SDKs use
them.
"""

from __future__ import annotations

import json
import random
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx

KEY = "secret-key"
ANSWER = 'Hello to "{}"'  # what every prompt is answered


class Refused(Exception):
    """The server does not accept a request."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def check(condition: object, message: str, status: int = 400) -> None:
    if not condition:
        raise Refused(message, status)


@dataclass
class Call:
    """A request that the server got."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise Refused("the body is not JSON") from None


@dataclass
class BatchServer(ABC):
    """What the servers of all APIs have in common.

    Attributes:
        looks: how often a batch is looked at before it has ended.
        odd: for some prompts: "expired", "canceled", "missing", or the status and body of an error.
        calls: the calls that it got, as "POST /v1/batches".
        created: the batches that were created, by id.
        before, after: called with the number of each call, before and after it is carried out.
        broken: numbers of calls that are answered with 500 after they were carried out.
    """

    looks: int = 2
    odd: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    created: dict[str, dict[str, Any]] = field(default_factory=dict)
    before: Callable[[int], None] = lambda number: None
    after: Callable[[int], None] = lambda number: None
    broken: set[int] = field(default_factory=set)
    page: int = 2  # the most entries of a list
    failing: bool = False  # batches fail
    url: str = "http://127.0.0.1:9"
    _lock: Any = field(default_factory=threading.RLock)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Answers a request. Returns status and body."""
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            number = len(self.calls)
            self.calls.append(f"{method} {parts.path}")
            self.before(number)
            try:
                self.authenticate(headers)
                found = self.carry_out(Call(method, parts.path, query, headers, body))
                status, out = 200, found if isinstance(found, bytes) else json.dumps(found).encode()
            except Refused as refusal:
                status, out = refusal.status, json.dumps({"error": {"message": str(refusal)}}).encode()
            if number in self.broken:
                status, out = 500, b'{"error": {"message": "broken"}}'
            self.after(number)
        return status, out

    def authenticate(self, headers: Mapping[str, str]) -> None:
        keys = headers.get("authorization"), headers.get("x-api-key"), headers.get("x-goog-api-key")
        check(f"Bearer {KEY}" in keys or KEY in keys, "wrong key", 401)

    @abstractmethod
    def carry_out(self, call: Call) -> Any:
        """Returns what a call gives."""

    def progress(self, batch: dict[str, Any]) -> bool:
        """Notes that a batch was looked at. Returns whether it has ended."""
        batch["looked"] = batch.get("looked", 0) + 1
        return batch["looked"] > self.looks

    def paged(self, entries: list[Any], after: str | None, key: str = "id") -> tuple[list[Any], bool]:
        """Returns a page of a list, and whether there is more."""
        start = next((at + 1 for at, entry in enumerate(entries) if entry[key] == after), 0)
        return entries[start : start + self.page], start + self.page < len(entries)

    # --- endpoints
    # --------------------------------------------------------------------------------------------------------

    def client(self) -> httpx.AsyncClient:
        """Returns a client whose requests this server answers."""

        def handle(request: httpx.Request) -> httpx.Response:
            target = request.url.raw_path.decode()
            status, body = self.answer(request.method, target, request.headers, request.content)
            return httpx.Response(status, content=body, headers={"content-type": "application/json"})

        return httpx.AsyncClient(transport=httpx.MockTransport(handle))

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serves on a port of loopback. Yields the URL."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # heads and bodies are written apart, and the client waits for both

            def do_GET(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(size)
                if len(body) < size:
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, out = server.answer(self.command, self.path, headers, body)
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(out)))
                    self.end_headers()
                    self.wfile.write(out)
                except OSError:  # the client was killed
                    self.close_connection = True

            do_POST = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        self.url = f"http://127.0.0.1:{http.server_port}"
        try:
            yield self.url
        finally:
            http.shutdown()
            thread.join()
            http.server_close()


def chat_answer(prompt: str, model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{prompt}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ANSWER.format(prompt)},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }


def response_answer(prompt: str, model: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": ANSWER.format(prompt), "annotations": []}
    return {
        "id": f"resp_{prompt}",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "completed",
        "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}],
        "usage": {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100},
    }


@dataclass
class FilesServer(BatchServer):
    """`/v1/files` and `/v1/batches`: https://platform.openai.com/docs/api-reference/batch."""

    purpose: str = "batch"
    endpoint: str = "/v1/chat/completions"
    windows: tuple[str, ...] = ("24h",)
    most: int = 50_000
    with_metadata: bool = True
    wrapped: bool = False  # as Together does
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def carry_out(self, call: Call) -> Any:
        match call.method, unquote(call.path).split("/")[2:]:
            case "POST", ["files"]:
                return self._shown_file(self._upload(call))
            case "GET", ["files"]:
                files = [file for file in reversed(self.files.values()) if file["purpose"] == call.query.get("purpose")]
                return self._list([self._shown_file(file) for file in files], call)
            case "GET", ["files", name, "content"] if name in self.files:
                return self.files[name]["content"]
            case "POST", ["batches"]:
                return self._create(call)
            case "GET", ["batches"]:
                return self._list([self._shown(batch) for batch in reversed(self.created.values())], call)
            case "GET", ["batches", name] if name in self.created:
                return self._look(self.created[name])
        raise Refused(f"there is no {call.method} {call.path}", 404)

    def _list(self, entries: list[Any], call: Call) -> dict[str, Any]:
        page, more = self.paged(entries, call.query.get("after"))
        return {"object": "list", "data": page, "has_more": more}

    def _upload(self, call: Call) -> dict[str, Any]:
        kind = call.headers.get("content-type", "")
        check(re.fullmatch(r"multipart/form-data; ?boundary=\S+", kind), f"not a form: {kind}")
        form = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + call.body)
        check(form.is_multipart() and not form.defects, f"the form is broken: {form.defects}")
        mark = kind.partition("boundary=")[2]
        check(call.body.endswith(f"--{mark}--\r\n".encode()), "the form has no end")
        fields = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        check(set(fields) >= {"file", "purpose"}, f"file and purpose are needed, not {sorted(map(str, fields))}")
        check(fields["purpose"].get_content().strip() == self.purpose, f"purpose must be {self.purpose}")
        name = fields["file"].get_filename() or ""
        check(name.endswith(".jsonl"), "the file must be a .jsonl file")
        content = fields["file"].get_payload(decode=True)
        assert isinstance(content, bytes)
        self._check_lines(content)
        return self._keep(name, self.purpose, content)

    def _keep(self, name: str, purpose: str, content: bytes) -> dict[str, Any]:
        file = {"id": f"file-{len(self.files)}", "filename": name, "purpose": purpose, "content": content}
        self.files[str(file["id"])] = file
        return file

    def _check_lines(self, content: bytes) -> None:
        check(content.strip(), "the file is empty")
        seen: set[str] = set()
        models: set[str] = set()
        for line in content.decode().split("\n")[:-1]:
            row = json.loads(line)
            check(set(row) == {"custom_id", "method", "url", "body"}, f"a line has {sorted(row)}")
            check(row["method"] == "POST" and row["url"] == self.endpoint, f"{row['method']} {row['url']}")
            check(isinstance(row["custom_id"], str) and len(row["custom_id"]) <= 64, "custom_id")
            check(row["custom_id"] not in seen, f"custom_id {row['custom_id']} is there twice")
            check(not {"stream", "stream_options"} & set(row["body"]), "a batch does not stream")
            seen.add(row["custom_id"])
            models.add(row["body"]["model"])
        check(len(models) == 1, f"several models: {models}")
        check(len(seen) <= self.most, f"{len(seen)} requests")

    def _create(self, call: Call) -> dict[str, Any]:
        body = call.json
        check(set(body) <= {"input_file_id", "endpoint", "completion_window", "metadata"}, f"members: {sorted(body)}")
        check(body.get("input_file_id") in self.files, "there is no such file")
        check(body.get("endpoint") == self.endpoint, f"endpoint: {body.get('endpoint')}")
        check(body.get("completion_window") in self.windows, f"completion_window: {body.get('completion_window')}")
        metadata = body.get("metadata") or {}
        check(all(isinstance(value, str) and len(value) <= 512 for value in metadata.values()), "metadata")
        batch = {**body, "id": f"batch_{len(self.created)}", "metadata": metadata if self.with_metadata else None}
        self.created[batch["id"]] = batch
        shown = self._shown(batch)
        return {"job": shown} if self.wrapped else shown

    def _shown_file(self, file: dict[str, Any]) -> dict[str, Any]:
        shown = {name: file[name] for name in ("id", "filename", "purpose")}
        return {**shown, "object": "file", "bytes": len(file["content"]), "created_at": 1, "status": "processed"}

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        status = batch.get("status", "validating")
        return {
            "id": batch["id"],
            "object": "batch",
            "endpoint": batch["endpoint"],
            "errors": batch.get("errors"),
            "input_file_id": batch["input_file_id"],
            "completion_window": batch["completion_window"],
            "status": status.upper() if self.wrapped else status,
            "output_file_id": batch.get("output"),
            "error_file_id": batch.get("error"),
            "created_at": int(datetime.now(UTC).timestamp()),
            "request_counts": batch.get("counts", {"total": 0, "completed": 0, "failed": 0}),
            "metadata": batch["metadata"],
        }

    def _look(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.failing:
            problem = {"code": "token_limit_exceeded", "message": "too many tokens are enqueued"}
            batch |= {"status": "failed", "errors": {"object": "list", "data": [problem]}}
        elif not self.progress(batch):
            batch["status"] = "in_progress"
        elif "counts" not in batch:
            self._finish(batch)
        return self._shown(batch)

    def _finish(self, batch: dict[str, Any]) -> None:
        good, bad, expired = [], [], False
        content = self.files[batch["input_file_id"]]["content"]
        for line in content.splitlines():
            row = json.loads(line)
            said = row["body"].get("messages") or row["body"]["input"]
            prompt = said if isinstance(said, str) else said[-1]["content"]
            prompt = prompt if isinstance(prompt, str) else prompt[0]["text"]
            result = {"id": f"batch_req_{row['custom_id']}", "custom_id": row["custom_id"], "error": None}
            match self.odd.get(prompt):
                case None:
                    write = chat_answer if self.endpoint.endswith("completions") else response_answer
                    answer = {"status_code": 200, "request_id": f"req_{prompt}"}
                    good.append({**result, "response": {**answer, "body": write(prompt, row["body"]["model"])}})
                case "missing":
                    pass
                case "expired":
                    message = "This request could not be executed before the completion window expired."
                    error = {"code": "batch_expired", "message": message}
                    bad.append({**result, "response": None, "error": error})
                    expired = True
                case status, body:
                    answer = {"status_code": status, "request_id": f"req_{prompt}", "body": body}
                    (good if status < 400 else bad).append({**result, "response": answer})
        shuffle = random.Random(1).shuffle
        for name, lines in (("output", good), ("error", bad)):
            if lines:
                shuffle(lines)
                written = "".join(json.dumps(line) + "\n" for line in lines).encode()
                batch[name] = self._keep(f"{batch['id']}_{name}.jsonl", "batch_output", written)["id"]
        batch["counts"] = {"total": len(content.splitlines()), "completed": len(good), "failed": len(bad)}
        batch["status"] = "expired" if expired else "completed"


@dataclass
class MessagesServer(BatchServer):
    """`/v1/messages/batches`: https://docs.anthropic.com/en/api/creating-message-batches."""

    def carry_out(self, call: Call) -> Any:
        check("anthropic-version" in call.headers, "anthropic-version is required")
        match call.method, unquote(call.path).split("/")[2:]:
            case "POST", ["messages", "batches"]:
                return self._create(call)
            case "GET", ["messages", "batches"]:
                found = list(reversed(self.created.values()))
                page, more = self.paged(found, call.query.get("after_id"))
                ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
                return {"data": [self._shown(batch) for batch in page], "has_more": more, **ends}
            case "GET", ["messages", "batches", name] if name in self.created:
                batch = self.created[name]
                batch["ended"] = batch.get("ended") or self.progress(batch)
                return self._shown(batch)
            case "GET", ["messages", "batches", name, "results"] if name in self.created:
                check(self.created[name].get("ended"), "the batch has not ended")
                return self._results(self.created[name])
        raise Refused(f"there is no {call.method} {call.path}", 404)

    def add(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        """Creates a batch, as somebody else may do, too."""
        batch = {"id": f"msgbatch_{len(self.created)}", "requests": requests, "at": datetime.now(UTC)}
        self.created[str(batch["id"])] = batch
        return batch

    def _create(self, call: Call) -> dict[str, Any]:
        body = call.json
        check(set(body) == {"requests"} and body["requests"], f"members: {sorted(body)}")
        seen: set[str] = set()
        for row in body["requests"]:
            check(set(row) == {"custom_id", "params"}, f"a request has {sorted(row)}")
            check(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", row["custom_id"]), f"custom_id: {row['custom_id']}")
            check(row["custom_id"] not in seen, f"custom_id {row['custom_id']} is there twice")
            check({"model", "max_tokens", "messages"} <= set(row["params"]), f"params: {sorted(row['params'])}")
            check("stream" not in row["params"], "a batch does not stream")
            seen.add(row["custom_id"])
        return self._shown(self.add(body["requests"]))

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        ended = batch.get("ended", False)
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for row in batch["requests"]:
            counts[self._result(row)["type"] if ended else "processing"] += 1
        made = batch["at"].isoformat().replace("+00:00", "Z")
        url = f"{self.url}/v1/messages/batches/{batch['id']}/results"
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": made,
            "expires_at": made,
            "ended_at": made if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": url if ended else None,
        }

    def _results(self, batch: dict[str, Any]) -> bytes:
        lines = [{"custom_id": row["custom_id"], "result": self._result(row)} for row in batch["requests"]]
        random.Random(1).shuffle(lines)
        return "".join(json.dumps(line) + "\n" for line in lines).encode()

    def _result(self, row: dict[str, Any]) -> dict[str, Any]:
        said = row["params"]["messages"][-1]["content"]
        prompt = said if isinstance(said, str) else said[-1]["text"]
        match self.odd.get(prompt):
            case None:
                return {"type": "succeeded", "message": message(prompt, row["params"]["model"])}
            case "expired" | "canceled" as kind:
                return {"type": kind}
            case _, body:
                return {"type": "errored", "error": body}
        raise AssertionError(prompt)


def message(prompt: str, model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{prompt}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": ANSWER.format(prompt)}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }


@dataclass
class GeminiServer(BatchServer):
    """`batchGenerateContent` and its operations: https://ai.google.dev/api/batch-api.

    Attributes:
        keyless: the results come without the keys of their requests, as they sometimes do.
    """

    keyless: bool = False

    def carry_out(self, call: Call) -> Any:
        match call.method, unquote(call.path).split("/")[2:]:
            case "POST", ["models", name] if name.endswith(":batchGenerateContent"):
                return self._create(call, name.partition(":")[0])
            case "GET", ["batches"]:
                page, more = self.paged(list(reversed(self.created.values())), call.query.get("pageToken"), "name")
                entries = {"operations": [self._shown(batch) for batch in page]} if page else {}
                return {**entries, **({"nextPageToken": page[-1]["name"]} if more else {})}
            case "GET", ["batches", name] if f"batches/{name}" in self.created:
                batch = self.created[f"batches/{name}"]
                batch["ended"] = batch.get("ended") or self.progress(batch)
                return self._shown(batch)
        raise Refused(f"there is no {call.method} {call.path}", 404)

    def _create(self, call: Call, model: str) -> dict[str, Any]:
        body = call.json
        check(set(body) == {"batch"}, f"members: {sorted(body)}")
        check(set(body["batch"]) == {"displayName", "inputConfig"}, f"batch: {sorted(body['batch'])}")
        requests = body["batch"]["inputConfig"]["requests"]["requests"]
        check(requests and len(call.body) <= 20_000_000, "no requests, or too many")
        for row in requests:
            check(set(row) <= {"request", "metadata"} and row["request"]["contents"], f"a request has {sorted(row)}")
        name = f"batches/b{len(self.created)}"
        self.created[name] = {
            "name": name,
            "model": f"models/{model}",
            "requests": requests,
            "displayName": body["batch"]["displayName"],
            "at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        return self._shown(self.created[name])

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        ended = batch.get("ended", False)
        count = len(batch["requests"])
        about = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": batch["model"],
            "displayName": batch["displayName"],
            "createTime": batch["at"],
            "updateTime": batch["at"],
            "batchStats": {"requestCount": str(count), **({"successfulRequestCount": str(count)} if ended else {})},
            "state": "BATCH_STATE_SUCCEEDED" if ended else "BATCH_STATE_RUNNING",
            "name": batch["name"],
        }
        if not ended:
            return {"name": batch["name"], "metadata": about}
        results = {"inlinedResponses": {"inlinedResponses": [self._result(row) for row in batch["requests"]]}}
        about["output"] = results
        return {"name": batch["name"], "metadata": about, "done": True, "response": results}

    def _result(self, row: dict[str, Any]) -> dict[str, Any]:
        prompt = row["request"]["contents"][-1]["parts"][-1]["text"]
        about = {} if self.keyless else {"metadata": row.get("metadata", {})}
        match self.odd.get(prompt):
            case None:
                return {"response": content(prompt), **about}
            case _, body:
                return {**body, **about}
        raise AssertionError(prompt)


def content(prompt: str) -> dict[str, Any]:
    part = {"text": ANSWER.format(prompt)}
    return {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100},
        "modelVersion": "m",
        "responseId": f"r-{prompt}",
    }
