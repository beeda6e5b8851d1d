"""Writes the answer of a script as a well-behaved server would send it, with the emitters of the adapters."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from ..adapters.anthropic import STOP_REASONS, AnthropicSerializer, anthropic_error_body
from ..adapters.chat import ChatSerializer
from ..adapters.gemini import FINISH_REASONS, OTHER_REASONS, SIGNATURE, GeminiSerializer, gemini_error_body
from ..adapters.responses import ResponsesSerializer
from ..adapters.serializing import StreamSerializer, comment, openai_error_body
from ..values import (
    ConfigError,
    Delta,
    ErrorInfo,
    ExtraPart,
    Failure,
    Finish,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from .failures import Fail
from .script import Pause, ScriptedTurn, Step, StopReason, ToolCallStep

_CREATED = 1_700_000_000  # always the same, like everything in a test
_KINDS: dict[str, Callable[[str], Delta]] = {"say": TextDelta, "think": ReasoningDelta, "refuse": RefusalDelta}
_ENDS = ("stop", "tool_calls", "length", "content_filter")


def _plain_error(info: ErrorInfo) -> dict[str, Any]:
    return openai_error_body(replace(info, status=None))


@dataclass(frozen=True, slots=True)
class _Format:
    """How the answers of one wire format are written.

    Attributes:
        prefix: how their ids begin.
        error: returns the body of a response with an error status.
        reasons: further finish reasons, in the words of the format. None: any word, and "unknown" for none at all.
        refusals: whether a refusal has a place of its own.
        signs: what the API signs, so that it can check it when it comes back.
    """

    emitter: Callable[..., StreamSerializer]
    prefix: str
    error: Callable[[ErrorInfo], dict[str, Any]] = _plain_error
    reasons: Collection[str] | None = None
    refusals: bool = True
    signs: Literal["thinking", "first call"] | None = None


_CHAT = _Format(partial(ChatSerializer, include_usage=True), "chatcmpl-")
_FORMATS = {
    "anthropic": _Format(AnthropicSerializer, "msg_", anthropic_error_body, {*STOP_REASONS}, False, "thinking"),
    "chat": _CHAT,
    "gemini": _Format(GeminiSerializer, "", gemini_error_body, {*FINISH_REASONS, *OTHER_REASONS}, False, "first call"),
    "kimi": _CHAT,
    "responses": _Format(ResponsesSerializer, "resp_", reasons=()),
}


class ScriptSerializer:
    """Makes the events of one answer.

    Args:
        adapter: the adapter that will read them.
        model: the model that answers.
        number: of the answer; ids are made from it.
        next_id: returns the id of the next call, given the name of the tool.

    Raises:
        ConfigError: there is no emitter for this adapter.
    """

    def __init__(
        self, adapter: str, model: str = "", number: int = 1, next_id: Callable[[str], str] = "call_{}".format
    ) -> None:
        self._next_id = next_id
        self._calls = 0
        self._adapter = adapter
        self._signature = b64encode(b"the signature of answer %d" % number).decode()
        self._format = _format(adapter)
        self._emitter = self._format.emitter(id=f"{self._format.prefix}{number}", model=model, created=_CREATED)

    def events(self, steps: Sequence[Step]) -> Iterator[tuple[float, bytes]]:
        """Yields pieces of the body, each with the seconds to wait before it."""
        yield 0.0, self._emitter.begin()
        wait, reason = 0.0, ""
        for step in steps:
            pieces: list[bytes] = []
            match step:
                case ScriptedTurn("refuse") if not self._format.refusals:
                    raise ConfigError(
                        f"{step!r}: a refusal has no place of its own in the format {self._adapter!r}; use say(), and"
                        ' finish("content_filter") if the provider stopped the answer'
                    )
                case ScriptedTurn():
                    pieces = [self._emitter.feed(_KINDS[step.kind](piece)) for piece in step.pieces]
                    if (step.kind, self._format.signs) == ("think", "thinking"):
                        self._emitter.feed(ExtraPart("signature", self._signature))
                case ToolCallStep():
                    pieces, reason = [self._emitter.feed(delta) for delta in self._call(step)], reason or "tool_calls"
                case Pause(seconds) if seconds == math.inf:
                    yield seconds, comment("never")
                    return
                case Pause(seconds):
                    wait += seconds
                case StopReason(word):
                    reason = word
                case Usage():
                    self._emitter.feed(_summed(step))
                case Fail():
                    yield wait, self._failed(step)
                    return
            for piece in filter(None, pieces):
                yield wait, piece
                wait = 0.0
        yield wait, self._end(reason or "stop")

    def _call(self, step: ToolCallStep) -> Iterator[ToolCallDelta]:
        number, self._calls = self._calls, self._calls + 1
        signed = number == 0 and self._format.signs == "first call"
        extra = {SIGNATURE: self._signature} if signed else None
        yield ToolCallDelta(
            number, self._next_id(step.name) if step.call_id is None else step.call_id, step.name, extra=extra
        )
        for piece in step.pieces:
            yield ToolCallDelta(number, arguments=piece)
        yield ToolCallDelta(number, arguments=step.arguments, whole=True)

    def _end(self, reason: str) -> bytes:
        own = self._format.reasons
        if own is not None and reason not in _ENDS and reason not in own:
            allowed = ", ".join([*_ENDS, *sorted(word for word in own if not word.isdecimal())])
            raise ConfigError(f"finish({reason!r}): unknown in the format {self._adapter!r}. Allowed: {allowed}")
        if own is not None and reason in _ENDS:
            self._emitter.feed(Finish(reason, reason))  # type: ignore[arg-type] # one of the four
        elif own is not None or reason != "unknown":
            self._emitter.feed(Finish("unknown", reason))  # so that the word itself is written
        return self._emitter.finish()

    def _failed(self, step: Fail) -> bytes:
        match step.how:
            case "event":
                return self._emitter.feed(Failure(_info(step)))
            case "garbage":
                return b"data: {" + json.dumps(step.message).encode() + b"\n\n"
            case _:
                return comment("nothing more")  # the end of the body comes after it


def failed_body(step: Fail, adapter: str = "chat") -> bytes:
    """Returns the body of an answer with an error status, in the format that this adapter reads."""
    info = _info(step)
    return json.dumps(_format(adapter).error(info)).encode()


def _format(adapter: str) -> _Format:
    if adapter in _FORMATS:
        return _FORMATS[adapter]
    allowed = ", ".join(_FORMATS)
    raise ConfigError(f"unknown adapter {adapter!r} for a script. Allowed: {allowed}. Replay recordings instead")


def _info(step: Fail) -> ErrorInfo:
    return ErrorInfo(step.message, step.kind, step.code, step.status)


def _summed(usage: Usage) -> Usage:
    counts: list[Any] = [usage.input_tokens, usage.output_tokens]
    return usage if usage.total_tokens is not None or None in counts else replace(usage, total_tokens=sum(counts))
