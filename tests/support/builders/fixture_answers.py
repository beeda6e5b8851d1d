"""Stored answers that a client of others, or a framework, is given, and whether its program sees what they mean."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from streamfold import Provider
from streamfold.recording import Recording


@dataclass
class Seen:
    """What a program sees of an answer through its client.

    Attributes:
        calls: name and arguments of each, as text.
        whole: the client's own object for the whole answer.
        error: what the client raised.
    """

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str | None = None
    whole: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    extensions: dict[str, Any] = field(default_factory=dict)


def stored(http: Any, body: bytes | Iterable[bytes], kind: str = "text/event-stream", status: int = 200) -> Any:
    """A transport of httpx or httpx2 that answers every request with this body."""
    pieces = [body] if isinstance(body, bytes) else list(body)

    class Stored(http.AsyncBaseTransport, http.BaseTransport):  # type: ignore[misc, name-defined]
        requests: list[Any] = []  # noqa: RUF012

        async def handle_async_request(self, request: Any) -> Any:
            self.requests.append(request)
            return http.Response(status, headers={"content-type": kind}, content=self._pieces())

        def handle_request(self, request: Any) -> Any:
            self.requests.append(request)
            return http.Response(status, headers={"content-type": kind}, content=iter(pieces))

        async def _pieces(self) -> Any:
            for piece in pieces:
                yield piece

    return Stored()


def request_of(recording: Recording) -> dict[str, Any]:
    """What the request of a recording says that decides how its answer is read."""

    def function(name: str, **rest: Any) -> dict[str, Any]:
        inner = {"name": name, **rest}
        return {"type": "function", **({"function": inner} if recording.adapter == "chat" else inner)}

    schema = {"type": "object", "properties": {}}
    request: dict[str, Any] = {}
    if recording.tools:
        request["tools"] = [function(name, parameters=schema) for name in recording.tools]
    if recording.tool_choice != "auto":
        named = recording.tool_choice in recording.tools
        request["tool_choice"] = function(recording.tool_choice) if named else recording.tool_choice
    return request


def is_right(recording: Recording, seen: Seen) -> bool:
    """Whether a client's program sees what the answer means: its text, its calls, its end, or an error."""
    expect = recording.expect
    if "error" in expect:
        return seen.error is not None
    if seen.error is not None:
        return False
    cut = expect.get("finish_reason") in ("length", "content_filter")
    if cut:
        half = all(_meaning(text) == text for _, text in seen.calls)  # what was begun can't be run
        return seen.finish in ("length", "content_filter", "incomplete", "max_tokens", "refusal", "safety") and half
    wanted = [(call["name"], _meaning(call["arguments"])) for call in expect.get("calls", ())]
    calls = [(name, _meaning(text)) for name, text in seen.calls]
    if recording.adapter == "responses":  # calls come in the order in which they began
        calls, wanted = sorted(calls, key=repr), sorted(wanted, key=repr)
    return seen.text == expect.get("text", "") and calls == wanted


def _meaning(arguments: Any) -> Any:
    try:
        return (json.loads(arguments or "{}") if isinstance(arguments, str) else arguments) or {}
    except ValueError:
        return arguments


def provider_of(recording: Recording) -> Provider:
    """A provider whose every answer is this recording."""
    client = httpx.AsyncClient(transport=stored(httpx, recording.body))
    config = {"adapter": recording.adapter, "base_url": "http://test/v1", "model": "m", "max_retries": 0}
    return Provider.from_config({**config, "dialect": recording.dialect or None}, http_client=client)
