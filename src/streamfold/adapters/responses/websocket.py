"""The Responses API over a WebSocket. Requests become WebSocket messages, and the server's messages become SSE events.

The client sends `{"type": "response.create", ...}` with the fields of a request. Each message from the server is one
event of a response. On one connection, the server answers one request after the other. The server keeps each
connection's newest response in memory, even if it doesn't store responses. For this reason, the next request can name
that response and contain only new items.

The documentation is https://developers.openai.com/api/docs/guides/websocket-mode and
https://docs.x.ai/developers/advanced-api-usage/websocket-mode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ...jsontext import int_or_none, str_or_none
from .encode import input_item
from .output_items import as_object

CONNECTION_EXPIRED = "websocket_connection_limit_reached"
"""The error code that a server sends before it closes a connection that is too old."""

RESPONSE_FORGOTTEN = "previous_response_not_found"
"""The error code that a server sends if it no longer has the response in `previous_response_id`."""

_ENDS = frozenset(f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled", "done"))
_HTTP_ONLY = ("stream", "stream_options", "background", "background_options")  # fields that messages must not have
_STATE = ("previous_response_id", "conversation")
_HEADERS = ("retry-after", "x-should-retry", "x-request-id", "x-ratelimit-")  # used from errors


@dataclass(frozen=True, slots=True)
class NewestResponse:
    """The newest response of a connection, which the server keeps in memory.

    Attributes:
        response_id: the id of the response.
        items: digests of all items in the conversation, including the items of the response. None if the request
            contained only the id of an earlier response.
        conversation: the id of the stored conversation to which the response belongs.
    """

    response_id: str
    items: tuple[bytes, ...] | None
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class SocketError:
    """An error that the server sent instead of a response.

    Attributes:
        status: the HTTP status with which the server would have responded over HTTP.
        headers: the headers that the error contains, such as `retry-after`.
        body: the error object as JSON text.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class SocketTurn:
    """One request for a response, and the server's messages that belong to the response.

    Attributes:
        names_response: True if the caller's request already names the response that it continues.
        begun: True if an event of the response has arrived.
        ended: True if the last message of the response has arrived.
        error_code: the code of the error that ended the response, or None.
        newest: the response that the connection can continue next, or None.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = {name: value for name, value in body.items() if name not in _HTTP_ONLY}
        self.names_response = any(self._body.get(name) for name in _STATE)
        conversation = self._body.get("conversation")
        self._conversation = str_or_none(as_object(conversation).get("id", conversation))
        given = self._body.get("input")
        self._input = given if isinstance(given, list) and not self.names_response else None
        self._digests = None if self._input is None else tuple(map(_digest, self._input))
        self._output: list[Any] = []  # finished items, for servers whose last event has no items
        self.begun = False
        self.ended = False
        self.error_code: str | None = None
        self.newest: NewestResponse | None = None

    @classmethod
    def read(cls, body: bytes) -> SocketTurn | None:
        """Creates a `SocketTurn` from the body of a POST request.

        Returns None for a request that isn't streamed or that runs in the background. Such a request must be sent over
        HTTP.
        """
        try:
            read = json.loads(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(read, dict) or read.get("stream") is not True or read.get("background"):
            return None
        return cls(read)

    def continues(self, newest: NewestResponse | None) -> bool:
        """Returns True if this request continues the response `newest`: the request contains the response's id, or its
        input begins with the same items as the conversation up to this response."""
        if newest is None:
            return False
        if self.names_response:
            same = self._conversation is not None and self._conversation == newest.conversation
            return same or self._body.get("previous_response_id") == newest.response_id
        if self._digests is None or newest.items is None or len(self._digests) <= len(newest.items):
            return False
        return self._digests[: len(newest.items)] == newest.items

    def message(self, newest: NewestResponse | None = None) -> str:
        """Returns the WebSocket message for the request.

        Args:
            newest: the response that the request continues, so that the message contains only new items. With None, the
                message contains all items of the conversation.
        """
        self._output, self.begun, self.ended, self.error_code, self.newest = [], False, False, None, None
        body = {"type": "response.create", **self._body}
        if newest is not None and newest.items is not None and self._input is not None:
            body |= {"previous_response_id": newest.response_id, "input": self._input[len(newest.items) :]}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))

    def feed(self, message: bytes) -> bytes | SocketError:
        """Converts a message from the server to a server-sent event. If no event of the response has arrived yet, an
        error with an HTTP status becomes a `SocketError`."""
        try:
            payload = as_object(json.loads(message))
        except (ValueError, RecursionError):  # the decoder raises the error
            payload = {}
        kind = payload.get("type")
        if kind == "error":
            self.ended = True
            return self._read_error(payload, message)
        if isinstance(kind, str) and kind.startswith("response."):
            self.begun = True
            if kind == "response.output_item.done":
                self._output.append(payload.get("item"))
            elif kind in _ENDS:
                self.ended = True
                self._end(as_object(payload.get("response")))
        return _event(message)

    def _read_error(self, payload: dict[str, Any], message: bytes) -> bytes | SocketError:
        error = as_object(payload.get("error")) or payload  # documented without `error` for streams
        self.error_code = str_or_none(error.get("code"))
        status = int_or_none(payload.get("status", payload.get("status_code")))
        if status is None or not 400 <= status < 600 or self.begun:
            return _event(message)
        # Codex reads HTTP headers from the error, too (openai/codex: codex-api/src/endpoint/responses_websocket.rs).
        found = {name.lower(): str(value) for name, value in as_object(payload.get("headers")).items()}
        headers = {name: value for name, value in found.items() if name.startswith(_HEADERS) and value.isascii()}
        return SocketError(status, headers, message)

    def _end(self, response: dict[str, Any]) -> None:
        """Stores the response in `newest` if a later request on this connection can continue it."""
        error = as_object(response.get("error"))
        self.error_code = str_or_none(error.get("code"))
        response_id, output = response.get("id"), response.get("output") or self._output
        if response.get("status") != "completed" or not isinstance(response_id, str) or not isinstance(output, list):
            return
        items = None
        if self._digests is not None:
            stored = self._body.get("store") is not False
            sent_back = [input_item(item, stored=stored) for item in output if isinstance(item, Mapping)]
            with suppress(RecursionError):  # nested too deeply: the next request contains all items
                items = (*self._digests, *(_digest(item) for item in sent_back if item is not None))
        self.newest = NewestResponse(response_id, items, self._conversation)


def _event(message: bytes) -> bytes:
    lines = message.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"".join(b"data: %b\n" % line for line in lines) + b"\n"


def _digest(item: Any) -> bytes:
    return sha256(json.dumps(item, sort_keys=True, separators=(",", ":")).encode()).digest()
