"""Repairs the body of an answer without I/O: bytes of one wire format in, bytes of the same format out.

The answer is decoded as if a program had asked streamfold for it, and written again: a call goes out once and whole,
or not at all, and what broke off ends with an error.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
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
    UpstreamError,
    WarningCode,
)
from streamfold.adapters import adapter_by_path, find_adapter
from streamfold.engine import EventScanner
from streamfold.net import Redactor

from .observed_adapter import ObservedAdapter, UnreadError
from .passthrough import Passthrough
from .patchers.anthropic import AnthropicStreamPatcher
from .patchers.chat import ChatStreamPatcher
from .patchers.gemini import GeminiStreamPatcher
from .patchers.responses import ResponsesStreamPatcher
from .request_tools import choice_asked, tools_asked
from .rewriter import StreamRewriter

__all__ = ["RepairSettings", "Repaired", "StreamRepair", "UnreadError", "WholeRepair"]

_log = logging.getLogger("streamfold.repair")


@dataclass(slots=True)
class Repaired:
    """What was read of an answer, and what was mended. It fills up while the answer is read.

    Attributes:
        warnings: what the server did wrong, and how each was handled.
        reply: the whole answer, once it has ended in order.
        error: how it failed, if it did.
    """

    warnings: tuple[ReplyWarning, ...] = ()
    reply: Reply | None = None
    error: APIError | None = field(default=None, repr=False)


_OVERLAYS: dict[str, Any] = {
    "anthropic": AnthropicStreamPatcher,
    "chat": ChatStreamPatcher,
    "gemini": GeminiStreamPatcher,
    "kimi": ChatStreamPatcher,
    "responses": ResponsesStreamPatcher,
}
# What a client would read otherwise than we did. The others are told, and nothing is changed.
_MENDED: frozenset[WarningCode] = frozenset(
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
# An event with its data, and comments before it. Clients differ in what they make of everything else.
_EVENT = re.compile(
    rb"(?:(?::[^\r\n]*)?(?:\r\n|\n|\r))*(?:(?:(?:data|event|id|retry):|:)[^\r\n]*(?:\r\n|\n|\r))*(?:data:[^\r\n]*)?\s*"
)
# All that goes on behind the end: comments, blank lines, and a word for the end.
_BEHIND = re.compile(
    rb"(?:(?::[^\r\n]*)?(?:\r\n|\n|\r))*(?:(?:(?:event|id|retry):[^\r\n]*(?:\r\n|\n|\r))*data: ?\[DONE\]\s*)?"
)
_MOST_BEHIND = 2**14
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """How answers are repaired.

    Args:
        adapter: the name of the adapter that reads them. None: the wire format that the path of a request belongs to.
        dialect, start_in_reasoning, limits: see `StreamDecoder`.
        mend_finish: write a finish reason also where the server sent none and the answer ended in order all the same.
        fragments: write calls as they come, not only at the end.
    """

    adapter: str | None = None
    dialect: str | None = None
    start_in_reasoning: bool = False
    mend_finish: bool = False
    limits: Limits = field(default_factory=Limits)
    fragments: bool = True

    def __post_init__(self) -> None:
        if self.adapter is not None and self.adapter not in _OVERLAYS:
            raise ConfigError(f"adapter {self.adapter!r} can't be repaired. Allowed: {', '.join(sorted(_OVERLAYS))}")
        StreamDecoder(self.adapter or "chat", dialect=self.dialect)  # raises ConfigError for an unknown dialect

    def api(self, path: str) -> str | None:
        """Returns the name of the adapter for requests to this path; None for requests that are none of ours."""
        if self.adapter is not None:
            return self.adapter
        return adapter_by_path(path)

    def stream(self, api: str, request: Mapping[str, Any], redactor: Redactor | None = None) -> StreamRepair:
        """Returns the repair of a streamed answer to a request with this body."""
        return StreamRepair(self, api, request, redactor or Redactor())

    def whole(self, api: str, request: Mapping[str, Any], redactor: Redactor | None = None) -> WholeRepair:
        """Returns the repair of an answer that is not streamed."""
        return WholeRepair(self, api, request, redactor or Redactor())


class _Repair:
    """What both kinds of answers have in common.

    Attributes:
        repaired: what was read and mended.
    """

    def __init__(self, repairs: RepairSettings, api: str, request: Mapping[str, Any], redactor: Redactor) -> None:
        overlay = _OVERLAYS[api]
        tools = tools_asked(overlay.tools(request))
        choice = choice_asked(request.get("tool_choice"), tools)
        self.repaired = Repaired()
        self._redactor = redactor
        self._serializer = overlay(request=request, tool_choice=choice, mend_finish=repairs.mend_finish)
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
            _log.info("repaired an answer: %s: %s", warning.code, self._redactor.text(warning.detail))
        if error is not None:
            _log.warning("an answer failed: %s", self._redactor.text(str(error)))


class StreamRepair(_Repair):
    """Repairs one streamed answer.

    Events go on as they came, as long as nothing had to be mended; from the first thing to mend on they are written
    again. See `Passthrough` for what waits.
    """

    def __init__(self, repairs: RepairSettings, *others: Any) -> None:
        super().__init__(repairs, *others)
        self._passage = self._adapter.passage = Passthrough(self._serializer, texts=repairs.dialect is not None)
        self._rewriter = StreamRewriter(
            self._adapter, self._serializer, self._passage, partial_tool_calls=repairs.fragments, **self._options
        )
        self._scanner = EventScanner()
        self._raw = b""  # of the event that is arriving
        self._largest = repairs.limits.event_bytes
        self._warnings = 0  # so many have been looked at
        self._ended = False

    @property
    def known(self) -> bool:
        """Whether something has come that is an answer of this API, or an error."""
        return self._adapter.known

    @property
    def left(self) -> bytes:
        """What still had to be written when the answer broke off, without the error."""
        return self._passage.left or self._rewriter.left

    def feed(self, data: bytes) -> bytes:
        """Returns what is to be handed on now. Never raises: a failure is an event of its own.

        Events before the first one of this API go on as they came; so does a stream that has none. Behind the end
        nothing goes on that could be read as more of the answer.
        """
        parts = self._scanner.feed(data)
        return b"".join([(self._behind if self._ended else self._feed)(piece, ends=ends) for piece, ends in parts])

    def close(self, *, interrupted: str | None = None) -> bytes:
        """Returns the rest of the answer, at the end of its body.

        Args:
            interrupted: how the body broke off, if it did.
        """
        if self._ended:
            out = self._behind(b"", ends=True)
            return out + _missing_end(out) if out.strip() and self._scanner.in_event else out
        raw, self._raw = self._raw, b""
        try:
            out = self._rewriter.close(interrupted=interrupted)
        except UnreadError:
            return self._as_it_came(raw)
        if self._unread:
            return self._as_it_came(raw)
        if self._passage.passes and interrupted and not self._rewriter.whole:
            out = self._passage.fail()  # `raw` is no whole event: readers of events ignore it
            self._check_end()
            return out
        if self._passage.passes:
            whole = not raw.strip() or b"data" in raw
            is_missed = self._scanner.in_event and not self._passage.ends
            return self._passed(raw + _missing_end(raw) if is_missed else raw, whole=whole)
        self._check_end()
        return out

    @property
    def _unread(self) -> bool:
        """Whether nothing of this API has come, and nothing that can't be read: not for us to judge."""
        error, adapter = self._rewriter.error, self._adapter
        return not adapter.known and (error is None or adapter.unread or isinstance(error, EmptyResponseError))

    def _feed(self, piece: bytes, *, ends: bool) -> bytes:
        """Takes the next bytes of an event. Returns what is to be handed on."""
        self._raw += piece
        try:
            out = self._rewriter.feed(piece)
        except UnreadError:
            return self._as_it_came(self._raw)
        if not self._passage.passes:
            self._check_end()
            return out
        if not ends and not self._rewriter.done:
            return b""
        raw, self._raw = self._raw, b""
        if self._unread:
            return self._as_it_came(raw) if self._rewriter.done else raw
        # Of an event that is too large nothing is passed on: half of it would be read together with the error.
        if not ends or (self._rewriter.error is not None and len(raw) > self._largest):
            out = self._passage.fail()
            self._check_end()
            return out
        return self._passed(raw)

    def _behind(self, piece: bytes, *, ends: bool) -> bytes:
        """Returns what is to be handed on of what comes behind the end."""
        if not self._passage.passes:
            return b""
        if not self._adapter.known:
            return piece
        raw, self._raw = self._raw + piece, b""
        if ends:
            return raw if _BEHIND.fullmatch(raw) or self._serializer.passes_over(raw) else b""
        self._raw = raw[:_MOST_BEHIND]
        return b""

    def _passed(self, raw: bytes, *, whole: bool = True) -> bytes:
        """Returns what goes on of an event that has been read, and of those before it, or is written for them.

        Args:
            whole: the bytes are an event, and not the body of an answer that was not streamed.
        """
        rewriter, passage = self._rewriter, self._passage
        right = self._nothing_to_mend() and self._adapter.right and (not raw or _EVENT.fullmatch(raw) is not None)
        if rewriter.done:
            right = right and whole and (not rewriter.whole or passage.fits(rewriter.reply))
        if not right:
            out = passage.start_rewriting()
        else:
            out = passage.forward(raw)
            if rewriter.done and passage.passes:
                said = rewriter.whole or self._adapter.failed or isinstance(rewriter.error, EmptyResponseError)
                out += passage.flush(failed=not rewriter.whole) if said else passage.fail()
        self._check_end()
        return out

    def _nothing_to_mend(self) -> bool:
        warnings = self._rewriter.warnings[self._warnings :]
        self._warnings += len(warnings)
        mended = _MENDED if self._serializer.calls_have_ids else _MENDED - {"missing_id"}
        return not self._passage.differs and not any(warning.code in mended for warning in warnings)

    def _as_it_came(self, raw: bytes) -> bytes:
        if not self._adapter.unread:
            self._check_end()
        self._ended = True
        return self._passage.flush() + raw

    def _check_end(self) -> None:
        if self._rewriter.done and not self._ended:
            self._ended = True
            error = None if self._rewriter.whole and self._passage.passes else self._rewriter.error
            self._report(self._rewriter.warnings, None if error else self._rewriter.reply, error)


class WholeRepair(_Repair):
    """Repairs one answer that is not streamed."""

    def repair(self, body: bytes) -> bytes:
        """Returns the body with what was mended in it, or as it was.

        Raises:
            StreamError: it is an error, or has a call in it that would be run and can't be.
            UnreadError: it is no answer of this API.
        """
        decoder = StreamDecoder(self._adapter, **self._options)
        try:
            decoder.feed(body)
            decoder.close()
        except UpstreamError as error:
            self._report(decoder.warnings, None, error)
            raise
        except StreamError as error:  # a page, a file, the body of a test: not for us to judge
            raise UnreadError from error
        for call in decoder.reply.tool_calls:
            if call.error and not self._serializer.shows_broken(call):
                broken = ProtocolError(f"the arguments of {call.name} are broken or not complete")
                broken.partial = replace(decoder.reply, tool_calls=[])
                self._report(decoder.warnings, None, broken)
                raise broken
        self._report(decoder.warnings, decoder.reply, None)
        given = json.loads(body)
        if not isinstance(given, dict):  # Gemini's chunks in one array
            return body
        made = self._serializer.patch_body(given, decoder.reply)
        return body if made == given else json.dumps(made, ensure_ascii=False).encode()


def _missing_end(raw: bytes) -> bytes:
    """Returns what is missing behind an event so that a blank line ends it."""
    found = _LINE_END.search(raw)
    line_end = found[0] if found else b"\n"
    return line_end if raw.endswith((b"\n", b"\r")) else line_end * 2
