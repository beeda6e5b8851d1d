"""Repairs the body of an answer without I/O: bytes of one wire format in, bytes of the same format out.

The answer is decoded as if a program had asked streamfold for it, and written again: a call goes out once and whole,
or not at all, and what broke off ends with an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..adapters import Adapter, find_adapter
from ..adapters.anthropic import MessagesOverlay
from ..adapters.chat import ChatOverlay
from ..adapters.emitting import chunk_deltas, end_deltas, error_delta
from ..adapters.responses import ResponsesOverlay
from ..engine import EventScanner, StreamDecoder
from ..net import Redactor
from ..values import (
    APIError,
    ConfigError,
    Delta,
    Limits,
    ProtocolWarning,
    ReadToolChoice,
    Reply,
    StreamChunk,
    StreamError,
    Tool,
    as_tools,
    parse_event,
    read_tool_choice,
)

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ..requests import Request

__all__ = ["Repaired", "Repairs", "StreamRepair", "WholeRepair"]

_log = logging.getLogger("streamfold.integrations")


@dataclass(slots=True)
class Repaired:
    """What was read of an answer, and what was mended. It fills up while the answer is read.

    Attributes:
        warnings: what the server did wrong, and how each was handled.
        reply: the whole answer, once it has ended in order.
        error: how it failed, if it did.
    """

    warnings: tuple[ProtocolWarning, ...] = ()
    reply: Reply | None = None
    error: APIError | None = field(default=None, repr=False)


class Overlay(Protocol):
    """Writes an answer over the events that it came in; see `ChatOverlay`."""

    def see(self, payload: Any) -> None: ...

    def feed_all(self, deltas: Iterable[Delta]) -> bytes: ...

    def finish(self) -> bytes: ...

    def whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]: ...


_OVERLAYS: dict[str, Any] = {
    "anthropic": MessagesOverlay,
    "chat": ChatOverlay,
    "kimi": ChatOverlay,
    "responses": ResponsesOverlay,
}
_BY_PATH = ("chat", "responses", "anthropic")


@dataclass(frozen=True, slots=True)
class Repairs:
    """How answers are repaired.

    Args:
        adapter: the name of the adapter that reads them. None: the wire format that the path of a request belongs to.
        dialect, start_in_reasoning, limits: see `StreamDecoder`.
        mend_finish: write a finish reason also where the server sent none and the answer ended in order all the same.
        redactor: removes secrets from what is logged.
    """

    adapter: str | None = None
    dialect: str | None = None
    start_in_reasoning: bool = False
    mend_finish: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.adapter is not None and self.adapter not in _OVERLAYS:
            raise ConfigError(f"adapter {self.adapter!r} can't be repaired. Allowed: {', '.join(sorted(_OVERLAYS))}")
        StreamDecoder(self.adapter or "chat", dialect=self.dialect)  # raises ConfigError for an unknown dialect

    def wire(self, path: str) -> str | None:
        """Returns the name of the adapter for requests to this path; None for requests that are none of ours."""
        if self.adapter is not None:
            return self.adapter
        return next((name for name in _BY_PATH if find_adapter(name)().serves(path)), None)

    def stream(self, wire: str, request: Mapping[str, Any], redactor: Redactor | None = None) -> StreamRepair:
        """Returns the repair of a streamed answer to a request with this body."""
        return StreamRepair(self, wire, request, redactor or Redactor())

    def whole(self, wire: str, request: Mapping[str, Any], redactor: Redactor | None = None) -> WholeRepair:
        """Returns the repair of an answer that is not streamed."""
        return WholeRepair(self, wire, request, redactor or Redactor())


class _Repair:
    """What both kinds of answers have in common: a decoder, and a writer that is shown every payload."""

    def __init__(self, repairs: Repairs, wire: str, request: Mapping[str, Any], redactor: Redactor) -> None:
        overlay = _OVERLAYS[wire]
        tools = _tools(overlay.tools(request))
        choice = _choice(request.get("tool_choice"), tools)
        self.repaired = Repaired()
        self._redactor = redactor
        self._emitter: Overlay = overlay(request=request, tool_choice=choice, mend_finish=repairs.mend_finish)
        self._decoder = StreamDecoder(
            _Shown(find_adapter(wire)(), self._emitter),
            dialect=repairs.dialect,
            tools=tools,
            tool_choice=choice,
            start_in_reasoning=repairs.start_in_reasoning,
            limits=repairs.limits,
        )

    def _end(self) -> Reply:
        reply = self.repaired.reply = self._decoder.reply
        self._tell(reply.warnings)
        return reply

    def _tell(self, warnings: Iterable[ProtocolWarning]) -> None:
        self.repaired.warnings = tuple(warnings)
        for warning in self.repaired.warnings:
            _log.info("repaired an answer: %s: %s", warning.code, self._redactor.text(warning.detail))

    def _failed(self, error: StreamError) -> APIError:
        self.repaired.error = error
        self._tell(self._decoder.warnings)
        _log.warning("an answer failed: %s", self._redactor.text(str(error)))
        return error


class StreamRepair(_Repair):
    """Repairs one streamed answer.

    Attributes:
        repaired: what was read and mended.
    """

    def __init__(self, *others: Any) -> None:
        super().__init__(*others)
        self._scanner = EventScanner()
        self._ended = False

    def feed(self, data: bytes) -> bytes:
        """Returns what is to be handed on now. Never raises: a failure is an event of its own."""
        out = []
        for piece, _ in self._scanner.feed(data):  # event by event, so that each is written beside its own members
            if self._ended:
                break
            out.append(self._written(partial(self._decoder.feed, piece)))
        if self._decoder.done and not self._ended:
            out.append(self.close())
        return b"".join(out)

    def close(self, *, interrupted: str | None = None) -> bytes:
        """Returns the rest of the answer, at the end of its body.

        Args:
            interrupted: how the body broke off, if it did.
        """
        if self._ended:
            return b""
        out = self._written(partial(self._decoder.close, interrupted=interrupted))
        self._ended = True
        return out

    def _written(self, read: Callable[[], list[StreamChunk]]) -> bytes:
        try:
            chunks = read()
        except StreamError as error:
            self._ended = True
            failure = error_delta(self._failed(error))
            return self._emitter.feed_all([failure])
        out = [self._emitter.feed_all(chunk_deltas(chunk)) for chunk in chunks]
        if chunks and chunks[-1].finished:
            self._ended = True
            out += [self._emitter.feed_all(end_deltas(self._end())), self._emitter.finish()]
        return b"".join(out)


class WholeRepair(_Repair):
    """Repairs one answer that is not streamed.

    Attributes:
        repaired: what was read and mended.
    """

    def repair(self, body: bytes) -> bytes:
        """Returns the body with what was mended in it, or as it was. Raises StreamError for an error in a 200."""
        try:
            self._decoder.feed(body)
            self._decoder.close()
        except StreamError as error:
            raise self._failed(error) from None
        reply = self._end()
        given = json.loads(body)
        made = self._emitter.whole(given, reply)
        return body if made == given else json.dumps(made, ensure_ascii=False).encode()


class _Shown(Adapter):
    """An adapter that shows what it reads to a writer."""

    def __init__(self, adapter: Adapter, overlay: Overlay) -> None:
        self._adapter, self._overlay = adapter, overlay
        self.name, self.path, self.framing = adapter.name, adapter.path, adapter.framing

    def encode(self, request: Request) -> dict[str, Any]:
        return self._adapter.encode(request)

    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        deltas = self._adapter.decode(event)
        try:
            payload = parse_event(event.data)
        except ValueError:  # words such as [DONE]
            return deltas
        self._overlay.see(payload)
        return deltas

    def decode_body(self, body: Any) -> Iterable[Delta]:
        deltas = list(self._adapter.decode_body(body))
        self._overlay.see(body)
        return deltas


def _tools(entries: Iterable[Any]) -> tuple[Tool, ...]:
    """The functions among the tools of a request. It is somebody else's request: the server judges it."""
    return tuple(_functions(entries))


def _functions(entries: Iterable[Any]) -> Iterator[Tool]:
    for entry in entries:
        try:
            yield from as_tools([entry])
        except ConfigError:
            continue  # a tool of another kind


def _choice(choice: Any, tools: tuple[Tool, ...]) -> ReadToolChoice:
    try:
        return read_tool_choice(choice, tools)
    except ConfigError:
        return "auto"
