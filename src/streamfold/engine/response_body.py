"""Response bodies that aren't an event stream although streamfold requested a stream: JSON, a web page, or text."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from ..adapters import Adapter
from ..deltas import Block, BlockEnd, BlockPiece, Delta, Meta, ReasoningDelta, RefusalDelta, TextDelta, UsageUpdate
from ..errors import IncompleteStreamError, ProtocolError
from ..jsontext import is_truncated_json, parse_event
from ..types import Limits, Usage
from .sse import SSEDecoder, decode_cut

HEAD = 512  # bytes of the body that an error shows
_SAID = (
    Meta,
    TextDelta,
    ReasoningDelta,
    RefusalDelta,
    Block,
    BlockPiece,
    BlockEnd,
    Usage,
    UsageUpdate,
)  # deltas that the missing end of the body can't change
REPLACED = "bytes that are not UTF-8 were replaced by U+FFFD"


class NonStreamBody:
    """Collects a response body that isn't an event stream. A body of the kind "json" may be a complete response. A body
    of the kind "markup" is a web page."""

    def __init__(self, kind: str, limits: Limits) -> None:
        self.kind = kind
        self._limit = limits.event_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def raw(self) -> bytes:
        return b"".join(self._pieces)

    @property
    def text(self) -> str:
        return decode_cut(self.raw)

    @property
    def is_utf8(self) -> bool:
        return self.raw.startswith(self.text.encode())

    def feed(self, data: bytes) -> None:
        """Appends bytes to the body. Raises ProtocolError if the body is a web page or too large."""
        self._pieces.append(data)
        self._size += len(data)
        if self.kind == "markup":
            if self._size >= HEAD:
                raise not_a_stream(self.raw, "a web page")
        elif self._size > self._limit:
            raise ProtocolError(f"the body is larger than {self._limit} bytes (limits.event_bytes)")

    def finish(self, interrupted: str | None) -> Any:
        """Returns the body's JSON value. Raises IncompleteStreamError if the JSON is truncated, and ProtocolError if it
        is invalid."""
        if self.kind == "markup":
            raise not_a_stream(self.raw, "a web page")
        text = self.text
        try:
            return parse_event(text)
        except ValueError as exc:
            if interrupted or is_truncated_json(text):
                how = interrupted or "the body ended"
                raise IncompleteStreamError(f"{how} in the middle of a JSON response", retryable=True) from exc
            lines = "\n{" in text
            what = "newline-delimited JSON instead of server-sent events" if lines else "invalid JSON"
            raise ProtocolError(f"the answer is {what}: {excerpt(text)}", body=text[:HEAD]) from exc

    def deltas(self, adapter: Adapter, interrupted: str | None) -> tuple[list[Delta], IncompleteStreamError | None]:
        """Returns the body's deltas. If the body is truncated, also returns the error that the caller must raise after
        the deltas. Raises ProtocolError if the adapter can't decode the body."""
        try:
            body = self.finish(interrupted)
        except IncompleteStreamError as cut:
            said: list[Delta] = []
            with suppress(ValueError):  # too little of the body has arrived
                said = list(adapter.decode_cut_body(self.text))
            return [delta for delta in said if isinstance(delta, _SAID)], cut
        try:
            return list(adapter.decode_body(body)), None
        except ValueError as exc:
            text = self.text
            raise ProtocolError(f"the response is invalid ({exc}): {excerpt(text)}", body=text[:HEAD]) from exc


def error_body(text: str) -> Any:
    """Parses the body of an error response. Returns its JSON value, the title of a web page, or the first 500
    characters of any other text.

    LiteLLM 1.106 (2026) sends an SSE event where a client expects a JSON error.
    """
    if text.startswith("<"):  # a proxy's web page: its title has the error
        title = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
        return title.group(1).strip() if title else ""
    if text.startswith(("data:", "event:")):
        decoder = SSEDecoder()
        event = next(iter(decoder.feed(text.encode())), None) or decoder.finish()
        text = event.data if event is not None else text
    try:
        return parse_event(text)
    except ValueError:
        return text[:500]


def not_a_stream(head: bytes, what: str) -> ProtocolError:
    start = head[:HEAD].decode("utf-8", "replace")
    return ProtocolError(
        f"the answer is {what}, neither server-sent events nor JSON; is the base URL right?"
        f" It begins: {excerpt(start)}",
        body=start,
    )


def excerpt(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 200 else text[:200] + "...")
