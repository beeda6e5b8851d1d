"""Repairs the body of a response without I/O. The repaired body has the format of the same API.

`StreamRepair` decodes a streamed response, and rewrites it from its first defect on. It writes each tool call once and
complete, or not at all. A truncated response ends with an error event.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from streamfold import (
    APIError,
    ConfigError,
    EmptyResponseError,
    Limits,
    ProtocolError,
    Reply,
    ReplyWarning,
    StreamDecoder,
    StreamError,
    Tool,
    UpstreamError,
    WarningCode,
)
from streamfold.adapters import adapter_by_path, find_adapter
from streamfold.engine import EventScanner
from streamfold.net import Redactor
from streamfold.serving import ReadToolChoice, as_tools, json_text, read_tool_choice

from .observed_adapter import ObservedAdapter, UnreadError
from .passthrough import Passthrough
from .patchers.anthropic import AnthropicStreamPatcher
from .patchers.chat import ChatStreamPatcher
from .patchers.gemini import GeminiStreamPatcher
from .patchers.responses import ResponsesStreamPatcher
from .rewriter import StreamRewriter

__all__ = ["RepairSettings", "Repaired", "StreamRepair", "UnreadError", "WholeRepair"]

_log = logging.getLogger("streamfold.repair")


@dataclass(slots=True)
class Repaired:
    """A parsed response, and what was repaired in it. The transport sets the attributes while the client reads the
    response.

    Attributes:
        warnings: the defects of the response, and what was done about each defect.
        reply: the complete reply; None until the response has ended.
        error: the error of a failed response; None otherwise.
    """

    warnings: tuple[ReplyWarning, ...] = ()
    reply: Reply | None = None
    error: APIError | None = field(default=None, repr=False)


_PATCHERS: dict[str, Any] = {
    "anthropic": AnthropicStreamPatcher,
    "chat": ChatStreamPatcher,
    "gemini": GeminiStreamPatcher,
    "kimi": ChatStreamPatcher,
    "responses": ResponsesStreamPatcher,
}
# Defects that a client would parse in another way than streamfold. Other defects are only reported.
_REPAIRED: frozenset[WarningCode] = frozenset(
    {
        "duplicate_id",
        "error_after_finish",
        "guessed_call",
        "interrupted_after_finish",
        "invalid_utf8",
        "late_content",
        "malformed_event",
        "markup_dropped",
        "missing_id",
        "repaired_arguments",
        "repeated_event",
        "truncated_event",
        "unfinished_markup",
        "unseparated_events",
    }
)
# An event with its data, and comments before it. Clients parse everything else in different ways.
_EVENT = re.compile(
    rb"(?:(?::[^\r\n]*)?(?:\r\n|\n|\r))*(?:(?:(?:data|event|id|retry):|:)[^\r\n]*(?:\r\n|\n|\r))*(?:data:[^\r\n]*)?\s*"
)
# Bytes that are forwarded after the end: comments, blank lines, and `[DONE]`.
_AFTER_END = re.compile(
    rb"(?:(?::[^\r\n]*)?(?:\r\n|\n|\r))*(?:(?:(?:event|id|retry):[^\r\n]*(?:\r\n|\n|\r))*data: ?\[DONE\]\s*)?"
)
_MOST_AFTER_END = 2**14
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """Settings for the repair of responses.

    Args:
        adapter: the name of the adapter that parses responses, or None to choose the adapter by the path of the
            request.
        dialect, start_in_reasoning, limits: see `StreamDecoder`.
        fill_finish_reason, partial_tool_calls: see `BaseRepairTransport`.
    """

    adapter: str | None = None
    dialect: str | None = None
    start_in_reasoning: bool = False
    fill_finish_reason: bool = False
    limits: Limits = field(default_factory=Limits)
    partial_tool_calls: bool = True

    def __post_init__(self) -> None:
        if self.adapter is not None and self.adapter not in _PATCHERS:
            raise ConfigError(
                f"responses of the adapter {self.adapter!r} can't be repaired. Allowed: {', '.join(sorted(_PATCHERS))}"
            )
        StreamDecoder(self.adapter or "chat", dialect=self.dialect)  # raises ConfigError for an unknown dialect

    def api(self, path: str) -> str | None:
        """Returns the name of the adapter for requests to this path, or None if no supported API has this path."""
        if self.adapter is not None:
            return self.adapter
        api = adapter_by_path(path)
        return api if api in _PATCHERS else None

    def stream(self, api: str, request: Mapping[str, Any], redactor: Redactor | None = None) -> StreamRepair:
        """Returns a `StreamRepair` for the streamed response to a request with this JSON body."""
        return StreamRepair(self, api, request, redactor or Redactor())

    def whole(self, api: str, request: Mapping[str, Any], redactor: Redactor | None = None) -> WholeRepair:
        """Returns a `WholeRepair` for a response that isn't streamed."""
        return WholeRepair(self, api, request, redactor or Redactor())


class _Repair:
    """Base class of `StreamRepair` and `WholeRepair`."""

    def __init__(self, repairs: RepairSettings, api: str, request: Mapping[str, Any], redactor: Redactor) -> None:
        patcher = _PATCHERS[api]
        tools = _tools_of(patcher.tools(request))
        choice = _choice_of(request.get("tool_choice"), tools)
        self.repaired = Repaired()
        self._redactor = redactor
        self._serializer = patcher(request=request, tool_choice=choice, fill_finish_reason=repairs.fill_finish_reason)
        self._adapter = ObservedAdapter(find_adapter(api)(), self._serializer, skips=repairs.dialect is None)
        self._options: dict[str, Any] = {
            "dialect": repairs.dialect,
            "tools": tools,
            "tool_choice": choice,
            "start_in_reasoning": repairs.start_in_reasoning,
            "limits": repairs.limits,
        }

    def _report(self, warnings: Iterable[ReplyWarning], reply: Reply | None, error: StreamError | None) -> None:
        self.repaired.warnings, self.repaired.reply, self.repaired.error = tuple(warnings), reply, error
        for warning in self.repaired.warnings:
            _log.info("repaired a response: %s: %s", warning.code, self._redactor.text(warning.detail))
        if error is not None:
            _log.warning("a response failed: %s", self._redactor.text(str(error)))


class StreamRepair(_Repair):
    """Repairs one streamed response.

    It forwards the server's events byte for byte up to the first defect, and rewrites all events from there on. See
    `Passthrough`.
    """

    def __init__(self, repairs: RepairSettings, *others: Any) -> None:
        super().__init__(repairs, *others)
        self._passthrough = self._adapter.passthrough = Passthrough(self._serializer, texts=repairs.dialect is not None)
        self._rewriter = StreamRewriter(
            self._adapter,
            self._passthrough,
            partial_tool_calls=repairs.partial_tool_calls,
            **self._options,
        )
        self._scanner = EventScanner()
        self._raw = b""  # the bytes of the event that is arriving
        self._largest = repairs.limits.event_bytes
        self._warnings = 0  # the number of warnings that `_passed` has read
        self._ended = False

    @property
    def known(self) -> bool:
        """True if an event of this API, or an error event, has arrived."""
        return self._adapter.known

    @property
    def left(self) -> bytes:
        """The delayed text of a response that broke off, without the error event."""
        return self._passthrough.left or self._rewriter.left

    def feed(self, data: bytes) -> bytes:
        """Returns the bytes to forward to the client now. Never raises an exception, because a failure becomes an error
        event.

        Events before the first event of this API are forwarded byte for byte. A stream without any event of this API is
        therefore forwarded completely. After the end of the response, events that clients could parse as a part of the
        response are dropped.
        """
        parts = self._scanner.feed(data)
        return b"".join([(self._after_end if self._ended else self._feed)(piece, ends=ends) for piece, ends in parts])

    def close(self, *, interrupted: str | None = None) -> bytes:
        """Returns the remaining bytes of the response, after the end of the server's body.

        Args:
            interrupted: the reason why the connection broke off, or None if it didn't.
        """
        if self._ended:
            out = self._after_end(b"", ends=True)
            return out + _missing_end(out) if out.strip() and self._scanner.in_event else out
        raw, self._raw = self._raw, b""
        try:
            out = self._rewriter.close(interrupted=interrupted)
        except UnreadError:
            return self._unchanged(raw)
        if self._unread:
            return self._unchanged(raw)
        if self._passthrough.passes:
            if not interrupted or self._rewriter.whole:
                whole = not raw.strip() or b"data" in raw
                is_missed = self._scanner.in_event and not self._passthrough.ends
                return self._passed(raw + _missing_end(raw) if is_missed else raw, whole=whole)
            out = self._passthrough.break_off()  # `raw` isn't a complete event, so clients ignore it
        self._check_end()
        return out

    @property
    def _unread(self) -> bool:
        """True if no event of this API has arrived. The body is then forwarded byte for byte."""
        error, adapter = self._rewriter.error, self._adapter
        return not adapter.known and (error is None or adapter.unread or isinstance(error, EmptyResponseError))

    def _feed(self, piece: bytes, *, ends: bool) -> bytes:
        """Decodes bytes of one SSE event. Returns the bytes to forward to the client."""
        self._raw += piece
        try:
            out = self._rewriter.feed(piece)
        except UnreadError:
            return self._unchanged(self._raw)
        if not self._passthrough.passes:
            self._check_end()
            return out
        if not ends and not self._rewriter.done:
            return b""
        raw, self._raw = self._raw, b""
        if self._unread:
            return self._unchanged(raw) if self._rewriter.done else raw
        # Clients would parse a part of a too large event together with the error event.
        if not ends or (self._rewriter.error is not None and len(raw) > self._largest):
            out = self._passthrough.break_off()
            self._check_end()
            return out
        return self._passed(raw)

    def _after_end(self, piece: bytes, *, ends: bool) -> bytes:
        """Returns those bytes after the end of the response that are forwarded to the client, and drops all other
        bytes.
        """
        if not self._passthrough.passes:
            return b""
        if not self._adapter.known:
            return piece
        raw, self._raw = self._raw + piece, b""
        if ends:
            return raw if _AFTER_END.fullmatch(raw) or self._serializer.passes_over(raw) else b""
        self._raw = raw[:_MOST_AFTER_END]
        return b""

    def _passed(self, raw: bytes, *, whole: bool = True) -> bytes:
        """Returns the bytes of a parsed event, or the bytes that replace the event.

        Args:
            whole: True if the bytes are a complete SSE event, False if they are the body of a response that wasn't
                streamed.
        """
        rewriter, passthrough = self._rewriter, self._passthrough
        new_codes = {warning.code for warning in rewriter.warnings[self._warnings :]}
        self._warnings = len(rewriter.warnings)
        repaired = _REPAIRED if self._serializer.calls_have_ids else _REPAIRED - {"missing_id"}
        right = new_codes.isdisjoint(repaired) and not passthrough.differs and self._adapter.is_well_formed
        right = right and (not raw or _EVENT.fullmatch(raw) is not None)
        if rewriter.done:
            right = right and whole and (not rewriter.whole or passthrough.fits(rewriter.reply))
        if not right:
            out = passthrough.start_rewriting()
        else:
            out = passthrough.forward(raw)
            if rewriter.done and passthrough.passes:
                said = rewriter.whole or self._adapter.failed or isinstance(rewriter.error, EmptyResponseError)
                out += passthrough.flush(failed=not rewriter.whole) if said else passthrough.break_off()
        self._check_end()
        return out

    def _unchanged(self, raw: bytes) -> bytes:
        if not self._adapter.unread:
            self._check_end()
        self._ended = True
        return self._passthrough.flush() + raw

    def _check_end(self) -> None:
        if self._rewriter.done and not self._ended:
            self._ended = True
            error = None if self._rewriter.whole and self._passthrough.passes else self._rewriter.error
            self._report(self._rewriter.warnings, None if error else self._rewriter.reply, error)


class WholeRepair(_Repair):
    """Repairs one response that isn't streamed."""

    def repair(self, body: bytes) -> bytes:
        """Returns the repaired body, or the same body if the response needs no repair.

        Raises:
            StreamError: the body is an error, or contains a tool call whose arguments aren't a JSON object. A client
                would run such a tool call.
            UnreadError: the body isn't a response of the requested API.
        """
        decoder = StreamDecoder(self._adapter, **self._options)
        try:
            decoder.feed(body)
            decoder.close()
        except UpstreamError as error:
            self._report(decoder.warnings, None, error)
            raise
        except StreamError as error:  # for example a web page or a file
            raise UnreadError from error
        for call in decoder.reply.tool_calls:
            if call.error and not self._serializer.shows_broken(call):
                broken = ProtocolError(f"the arguments of {call.name} aren't a complete JSON object")
                broken.partial = replace(decoder.reply, tool_calls=[])
                self._report(decoder.warnings, None, broken)
                raise broken
        self._report(decoder.warnings, decoder.reply, None)
        given = json.loads(body)
        if not isinstance(given, dict):  # Gemini's chunks in one array
            return body
        made = self._serializer.patch_body(given, decoder.reply)
        return body if made == given else json_text(made).encode()


def _tools_of(entries: Iterable[Any]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for entry in entries:
        with suppress(ConfigError):  # a tool of another kind: the server checks the request
            tools += as_tools([entry])
    return tuple(tools)


def _choice_of(choice: Any, tools: tuple[Tool, ...]) -> ReadToolChoice:
    """Returns the tool choice of a request, or "auto" if the request chooses no function tool."""
    if isinstance(choice, Mapping) and choice.get("type") == "none":  # the form of the Messages API
        return "none"
    try:
        return read_tool_choice(read_tool_choice(choice, tools), tools)  # hosted tools have no name
    except ConfigError:
        return "auto"


def _missing_end(raw: bytes) -> bytes:
    """Returns the line ends that are missing after an event."""
    found = _LINE_END.search(raw)
    line_end = found[0] if found else b"\n"
    return line_end if raw.endswith((b"\n", b"\r")) else line_end * 2
