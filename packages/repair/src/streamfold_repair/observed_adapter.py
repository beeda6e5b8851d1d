"""An adapter that shows each parsed event to `Passthrough` and to a patcher, which forward or rewrite the response."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamfold.adapters import Adapter, Delta, EncodingReport, ExtraPart, Finish, parse_event

from .passthrough import Passthrough

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from streamfold.adapters import Request

# Every answer and every error has at least one of these members.
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
_HALF = re.compile("[\ud800-\udfff]")  # half of a surrogate pair, whose other half may be in another event
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class UnreadError(Exception):
    """The body isn't a response of the API to which the client sent its request."""


class ObservedAdapter(Adapter):
    """An adapter that shows each parsed event to a patcher and to a `Passthrough`.

    Args:
        skips: True to skip a text event that differs from the previous event only in its text.

    Attributes:
        known: True if an event of this API, or an error event, has arrived.
        unread: True if events have arrived, but none of them belongs to this API.
        is_well_formed: True if clients of this API accept the structure of all events so far.
        failed: True if an error event has arrived that clients can parse.
        passthrough: the `Passthrough` that sees each event, or None if there is none.
    """

    def __init__(self, adapter: Adapter, patcher: Any, *, skips: bool) -> None:
        self._adapter, self._patcher, self._skips = adapter, patcher, skips
        self.known = self.unread = False
        self.is_well_formed = True
        self.failed = False
        self.passthrough: Passthrough | None = None
        self._extras: list[ExtraPart] = []
        self.name, self.path, self.framing = adapter.name, adapter.path, adapter.framing
        self.blocks_name = adapter.blocks_name

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        return self._adapter.encode(request, report)

    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        try:
            payload = parse_event(event.data)
        except ValueError:  # [DONE], or payloads without a blank line between them (sse/no_blank_lines)
            first, together, _ = event.data.partition("\n")
            with suppress(ValueError):
                self.is_well_formed = not (together and self._knows(parse_event(first))) and self.is_well_formed
            return () if self.unread else self._observed(self._adapter.decode(event))
        if not self._knows(payload):
            return ()
        is_unknown = isinstance(payload, dict) and not payload.keys() & _MEMBERS[self.name]  # streamfold ignores it
        deltas = [] if is_unknown else list(self._adapter.decode(event))
        if _ESCAPED_HALF.search(event.data) and _HALF.search(json.dumps(payload, ensure_ascii=False)):
            self.is_well_formed = False
        if self.is_well_formed and self._skips and self._patcher.is_duplicate(payload):  # only text is new
            return deltas
        self.failed = isinstance(payload, dict) and (bool(payload.get("error")) or payload.get("type") in _FAILURES)
        self.is_well_formed = self.is_well_formed and (self.failed or self._patcher.accepts(payload, event.event))
        extras = self._patcher.extras_of(payload)
        self._extras += extras
        self._observed(deltas, payload, extras)
        return [_as_end(delta) for delta in deltas]

    def take_extras(self) -> list[ExtraPart]:
        """Returns the event fields that no delta contains, and that arrived since the last call of this method."""
        extras, self._extras = self._extras, []
        return extras

    def decode_cut(self, event: ServerSentEvent) -> Iterable[Delta]:
        """Decodes a truncated event. A truncated event is never forwarded, so `Passthrough` doesn't see it."""
        return self._adapter.decode_cut(event)

    def _observed(
        self, deltas: Iterable[Delta], payload: Any = None, extras: Iterable[ExtraPart] = ()
    ) -> Iterable[Delta]:
        deltas = list(deltas)
        if self.passthrough is not None:
            self.passthrough.observe(deltas, payload, extras)
        return deltas

    def _knows(self, payload: Any) -> bool:
        """Returns True if this payload or an earlier payload has a field of this API's responses or errors."""
        members = payload[0] if isinstance(payload, list) and payload else payload
        self.known = self.known or (isinstance(members, dict) and bool(members.keys() & _MEMBERS[self.name]))
        self.unread = not self.known
        return self.known

    def decode_body(self, body: Any) -> Iterable[Delta]:
        if not self._knows(body) or self._patcher.is_unfinished(body):
            raise UnreadError
        deltas = [_as_end(delta) for delta in self._adapter.decode_body(body)]
        self._extras += self._patcher.extras_of(body)
        return deltas

    def decode_cut_body(self, text: str) -> Iterable[Delta]:
        super().decode_cut_body(text)  # raises UnreadError if the response isn't one of this API
        return self._adapter.decode_cut_body(text)


def _as_end(delta: Delta) -> Delta:
    """Marks a paused response as complete, because the client itself sends the request that continues it."""
    return replace(delta, continues=False) if isinstance(delta, Finish) and delta.continues else delta
