"""Converts a stream or a tool run to the events of a UI protocol, such as AG-UI."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from streamfold import (
    APIError,
    APIStatusError,
    AuthenticationError,
    ChatStream,
    PermissionDeniedError,
    Reply,
    StreamChunk,
    StreamError,
    StreamfoldError,
    ToolCall,
    ToolResult,
    ToolRun,
    TurnLimitError,
)
from streamfold.adapters import Delta, ExtraPart, ReasoningDelta, TextDelta, ToolCallDelta
from streamfold.serving import DeltaOrder, json_text, replace_non_finite, sse_event
from streamfold.stores import StoreError
from streamfold.tools import CallInDoubtError, PendingCall

from .hosted_tools import HostedStep, HostedSteps
from .ui_requests import Signatures

UIEvent: TypeAlias = dict[str, Any]
OnError: TypeAlias = Callable[[Exception], str]
OnPause: TypeAlias = Callable[[ToolRun], Awaitable[None] | None]

_logger = logging.getLogger("streamfold")


class UIWriter(ABC):
    """Writes the events of one UI protocol, without I/O: each method returns the events to send.

    Attributes:
        whole_calls_replace: true if the client replaces the earlier pieces of a tool call when it receives the complete
            tool call.
    """

    whole_calls_replace = False

    @abstractmethod
    def start(self) -> Iterable[UIEvent]:
        """Returns the events at the start of a run."""

    @abstractmethod
    def turn(self) -> Iterable[UIEvent]:
        """Returns the events before each response of the model."""

    @abstractmethod
    def text(self, text: str) -> Iterable[UIEvent]:
        """Returns the events for a piece of text."""

    @abstractmethod
    def reasoning(self, text: str) -> Iterable[UIEvent]:
        """Returns the events for a piece of reasoning."""

    @abstractmethod
    def call_piece(self, call_id: str, name: str, text: str) -> Iterable[UIEvent]:
        """Returns the events for a piece of a tool call's arguments, while the tool call is incomplete."""

    @abstractmethod
    def call(self, call: ToolCall, text: str) -> Iterable[UIEvent]:
        """Returns the events for a complete tool call. `text` contains all of the call's arguments, including the
        pieces that were sent before.
        """

    @abstractmethod
    def hosted(self, step: HostedStep) -> Iterable[UIEvent]:
        """Returns the events that display a call or result of a tool that the provider runs."""

    @abstractmethod
    def turn_end(self, reply: Reply) -> Iterable[UIEvent]:
        """Returns the events after the text and tool calls of a response."""

    @abstractmethod
    def result(self, result: ToolResult) -> Iterable[UIEvent]:
        """Returns the events for a tool's result."""

    @abstractmethod
    def end(self, pending: tuple[PendingCall, ...], signatures: Mapping[str, str] | None = None) -> Iterable[UIEvent]:
        """Returns the last events of a run that is complete or has paused.

        Args:
            pending: the tool calls that wait for an approval or a result, if the run has paused.
            signatures: the signatures of the pending tool calls, by tool call id.
        """

    def client_call_id(self, call_id: str) -> str:
        """Returns the id that a tool call has in the client."""
        return call_id

    @abstractmethod
    def abort(self) -> Iterable[UIEvent]:
        """Returns the last events for a stream that was closed before its end."""

    @abstractmethod
    def fail(self, error: Exception, text: str) -> Iterable[UIEvent]:
        """Returns the events for a run that failed. `text` is the error message for the user."""


class AnswerEvents:
    """Passes the parts of one model response to a writer, and yields the writer's events."""

    def __init__(self, writer: UIWriter) -> None:
        self._writer = writer
        self._order = DeltaOrder(keeps_ends=True)  # readers need the ids of calls, and the end of each
        self._begun: dict[int | None, tuple[str, str]] = {}  # ids and names of calls with pieces
        self._steps = HostedSteps()

    def feed(self, chunk: StreamChunk) -> Iterator[UIEvent]:
        """Yields the events for a chunk of the response."""
        yield from self._events(self._order.feed(chunk), {})
        for step in self._steps.feed(chunk.hosted) if chunk.hosted else ():
            yield from self._writer.hosted(step)

    def finish(self, reply: Reply) -> Iterator[UIEvent]:
        """Yields the remaining events of a complete response. Raises StreamError if the writer has already sent pieces
        of a tool call that the complete reply doesn't contain.
        """
        try:
            rest = self._order.end(reply)
        except StreamError:
            if not self._writer.whole_calls_replace:
                raise
            rest = self._order.rest()
            rest += [
                ToolCallDelta(None, call.id, call.name, call.raw_arguments, whole=True) for call in reply.tool_calls
            ]
        for step in self._steps.feed(reply.hosted, last=True):
            yield from self._writer.hosted(step)
        yield from self._events(rest, {call.id: call for call in reply.tool_calls})
        yield from self._writer.turn_end(reply)

    def fail(self) -> Iterator[UIEvent]:
        """Yields the remaining text of a response that broke off."""
        yield from self._events(self._order.rest(), {})

    def _events(self, deltas: Iterable[Delta], calls: dict[str | None, ToolCall]) -> Iterator[UIEvent]:
        for delta in deltas:
            match delta:
                case TextDelta(text):
                    yield from self._writer.text(text)
                case ReasoningDelta(text):
                    yield from self._writer.reasoning(text)
                case ToolCallDelta(whole=True):
                    yield from self._writer.call(calls.pop(delta.id), delta.arguments)
                case ExtraPart("output", {} as item):  # a call that isn't a function is an item
                    call = calls.get(item.get("call_id") or item.get("id"))
                    if call is not None and call.kind != "function":
                        yield from self._writer.call(calls.pop(call.id), json_text(call.arguments))
                case ToolCallDelta(index, call_id, name, arguments):
                    known = self._begun.setdefault(index, (call_id or "", name or ""))
                    yield from self._writer.call_piece(*known, arguments)


def error_text(error: Exception) -> str:
    """Returns an error message for a user, with the provider's message but without details of your server."""
    redirected = isinstance(error, APIStatusError) and error.status_code in range(300, 400)
    if isinstance(error, AuthenticationError | PermissionDeniedError) or redirected:
        return "the server is misconfigured for this model; see the server's log"
    if isinstance(error, APIError):
        return error.message
    if isinstance(error, TurnLimitError | CallInDoubtError):
        return str(error)
    return "the server failed; see its log"


async def run_events(
    source: ToolRun | ChatStream,
    writer: UIWriter,
    on_error: OnError | None = None,
    signatures: Signatures | None = None,
    on_pause: OnPause | None = None,
    on_end: OnPause | None = None,
) -> AsyncIterator[UIEvent]:
    """Yields the events of a run. If the run fails, the function logs the error and yields an error event, but raises
    no exception.
    """
    for event in writer.start():
        yield event
    answer: AnswerEvents | None = None
    try:
        finished, pending, signed = False, tuple[PendingCall, ...](), dict[str, str]()
        async with source:
            async for step in source.events() if isinstance(source, ToolRun) else source:
                found: list[UIEvent] = []
                if isinstance(step, ToolResult):
                    found += writer.result(step)
                else:
                    if answer is None:
                        answer = AnswerEvents(writer)
                        found += writer.turn()
                    found += answer.feed(step)
                    if finished := step.finished:
                        found += answer.finish(source.reply)
                        answer = None
                for event in found:
                    yield event
            if isinstance(source, ToolRun):
                finished, pending = source.finished, source.pending
                if pending and on_pause is not None:
                    await _told(on_pause, source)
                if finished and on_end is not None:
                    try:
                        await _told(on_end, source)
                    except Exception as failure:  # the answer is complete
                        _report(failure)
                signed = await signatures.of(source, writer.client_call_id) if signatures else signed
        last = writer.end(pending, signed) if finished or pending else writer.abort()
    except Exception as error:
        _report(error)
        if isinstance(error, StoreError) and isinstance(source, ToolRun) and on_pause is not None:
            try:  # no tool has run yet: the run can be resumed with the same decisions
                await _told(on_pause, source)
            except Exception as failure:
                _report(failure)
        last = [*(answer.fail() if answer else ()), *writer.fail(error, (on_error or error_text)(error))]
    for event in last:
        yield event


async def _told(function: OnPause, run: ToolRun) -> None:
    waiting = function(run)
    if waiting is not None:
        await waiting


async def server_sent(events: AsyncIterator[UIEvent], last: bytes = b"") -> AsyncIterator[bytes]:
    """Serializes UI events as server-sent events, and adds the bytes `last` at the end."""
    async for event in events:
        yield sse_event(replace_non_finite(event))  # JavaScript reads no NaN
    if last:
        yield last


def _report(error: Exception) -> None:
    """Logs the failure of a run: an error of streamfold in one line, any other exception with its traceback."""
    if isinstance(error, StreamfoldError):
        _logger.warning("the answer for a user interface failed: %s: %s", type(error).__name__, error)
    else:
        _logger.error("the answer for a user interface failed", exc_info=error)
