"""Writes the answer of a script as a well-behaved server would send it, with the emitters of the adapters."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..adapters.chat import ChatEmitter
from ..adapters.emitting import Emitter, comment, error_body
from ..adapters.responses import ResponsesEmitter
from ..values import Call, ConfigError, Delta, ErrorInfo, Failure, Finish, Reasoning, Refusal, Text, Usage
from .failures import Fail
from .script import Pause, Said, Step, StopReason, ToolCallStep

__all__ = ["AnswerWriter", "failed_body"]

_CREATED = 1_700_000_000  # always the same, like everything in a test
_KINDS: dict[str, Callable[[str], Delta]] = {"say": Text, "think": Reasoning, "refuse": Refusal}
_RESPONSES_ENDS = ("stop", "tool_calls", "length", "content_filter")


class AnswerWriter:
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
        self._responses = adapter == "responses"
        self._emitter: Emitter
        if adapter in ("chat", "kimi"):
            self._emitter = ChatEmitter(id=f"chatcmpl-{number}", model=model, created=_CREATED, include_usage=True)
        elif self._responses:
            self._emitter = ResponsesEmitter(id=f"resp_{number}", model=model, created=_CREATED)
        else:
            raise ConfigError(
                f"unknown adapter {adapter!r} for a script. Allowed: chat, kimi, responses. Replay recordings instead"
            )

    def events(self, steps: Sequence[Step]) -> Iterator[tuple[float, bytes]]:
        """Yields pieces of the body, each with the seconds to wait before it."""
        yield 0.0, self._emitter.begin()
        wait, reason = 0.0, ""
        for step in steps:
            pieces: list[bytes] = []
            match step:
                case Said():
                    pieces = [self._emitter.feed(_KINDS[step.kind](piece)) for piece in step.pieces]
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

    def _call(self, step: ToolCallStep) -> Iterator[Call]:
        number, self._calls = self._calls, self._calls + 1
        yield Call(number, self._next_id(step.name) if step.call_id is None else step.call_id, step.name)
        for piece in step.pieces:
            yield Call(number, arguments=piece)
        yield Call(number, arguments=step.arguments, whole=True)

    def _end(self, reason: str) -> bytes:
        if self._responses:
            if reason not in _RESPONSES_ENDS:
                raise ConfigError(
                    f"finish({reason!r}): unknown for the Responses API. Allowed: {', '.join(_RESPONSES_ENDS)}"
                )
            self._emitter.feed(Finish(reason, reason))  # type: ignore[arg-type] # one of the four
        elif reason != "unknown":
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


def failed_body(step: Fail) -> bytes:
    """Returns the body of an answer with an error status."""
    return json.dumps(error_body(replace(_info(step), status=None))).encode()


def _info(step: Fail) -> ErrorInfo:
    return ErrorInfo(step.message, step.kind, step.code, step.status)


def _summed(usage: Usage) -> Usage:
    counts: list[Any] = [usage.input_tokens, usage.output_tokens]
    return usage if usage.total_tokens is not None or None in counts else replace(usage, total_tokens=sum(counts))
