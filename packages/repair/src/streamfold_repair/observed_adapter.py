"""An adapter that shows what it reads to those who write the same answer again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streamfold.adapters import Adapter, Delta, EncodingReport, ExtraPart, parse_event

from .passthrough import Passthrough

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from streamfold.adapters import Request

# Of these an answer has at least one, or the error that stands in its place, in whatever words.
_OF_ERRORS = frozenset({"error", "errors", "message", "detail", "code", "error_code", "error_msg", "status"})
_OF_CHAT = _OF_ERRORS | {"choices", "usage", "delta"}
_MEMBERS: dict[str, frozenset[str]] = {
    "anthropic": _OF_ERRORS | {"type"},
    "chat": _OF_CHAT,
    "gemini": _OF_ERRORS | {"candidates", "usageMetadata", "promptFeedback", "responseId", "modelVersion"},
    "kimi": _OF_CHAT,
    "responses": _OF_ERRORS | {"type", "output"},
}
_FAILURES = ("error", "response.failed")
_HALF = re.compile("[\ud800-\udfff]")  # of a character, whose other half may be in another event
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class UnreadError(Exception):
    """A body is no answer of the API that its request belongs to."""


class ObservedAdapter(Adapter):
    """An adapter that shows what it reads to a writer.

    Attributes:
        known: whether something has come that is an answer of this API, or an error.
        unread: events have come, and none of them was.
        right: what has come so far has the shape that clients of this API read.
        failed: an error has come, in that shape.
        passage: hears of it too.

    Args:
        skips: what comes again and again around a text is read once.
    """

    def __init__(self, adapter: Adapter, overlay: Any, *, skips: bool) -> None:
        self._adapter, self._overlay, self._skips = adapter, overlay, skips
        self.known = self.unread = False
        self.right = True
        self.failed = False
        self.passage: Passthrough | None = None
        self._extras: list[ExtraPart] = []
        self.name, self.path, self.framing = adapter.name, adapter.path, adapter.framing
        self.kind_follows_text = adapter.kind_follows_text

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        return self._adapter.encode(request, report)

    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        try:
            payload = parse_event(event.data)
        except ValueError:  # words such as [DONE], or payloads without a blank line between them (sse/no_blank_lines)
            first, together, _ = event.data.partition("\n")
            with suppress(ValueError):
                self.right = not (together and self._knows(parse_event(first))) and self.right
            return () if self.unread else self._heard(self._adapter.decode(event))
        if not self._knows(payload):
            return ()
        is_unknown = isinstance(payload, dict) and not payload.keys() & _MEMBERS[self.name]  # and says nothing to us
        deltas = [] if is_unknown else list(self._adapter.decode(event))
        if _ESCAPED_HALF.search(event.data) and _HALF.search(json.dumps(payload, ensure_ascii=False)):
            self.right = False
        if self.right and self._skips and self._overlay.is_duplicate(payload):  # nothing to hear but text
            return deltas
        self.failed = isinstance(payload, dict) and (bool(payload.get("error")) or payload.get("type") in _FAILURES)
        self.right = self.right and (self.failed or self._overlay.reads(payload, event.event))
        extras = self._overlay.extras_of(payload)
        self._extras += extras
        self._heard(deltas, payload, extras)
        return deltas

    def take_extras(self) -> list[ExtraPart]:
        """Returns the members without a delta of the events since the last call."""
        extras, self._extras = self._extras, []
        return extras

    def decode_cut(self, event: ServerSentEvent) -> Iterable[Delta]:
        """Half an event is not forwarded, and its members are cut anywhere: only its text counts."""
        return self._adapter.decode_cut(event)

    def _heard(self, deltas: Iterable[Delta], payload: Any = None, extras: Iterable[ExtraPart] = ()) -> Iterable[Delta]:
        deltas = list(deltas)
        if self.passage is not None:
            self.passage.observe(deltas, payload, extras)
        return deltas

    def _knows(self, payload: Any) -> bool:
        """Whether this, or anything before it, has a member of an answer of this API, or of an error."""
        members = payload[0] if isinstance(payload, list) and payload else payload
        self.known = self.known or (isinstance(members, dict) and bool(members.keys() & _MEMBERS[self.name]))
        self.unread = not self.known
        return self.known

    def decode_body(self, body: Any) -> Iterable[Delta]:
        if not self._knows(body) or self._overlay.is_unfinished(body):
            raise UnreadError
        deltas = list(self._adapter.decode_body(body))
        self._extras += self._overlay.extras_of(body)
        return deltas
