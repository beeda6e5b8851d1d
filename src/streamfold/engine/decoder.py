"""`StreamDecoder`, which converts a response body's bytes into chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from ..adapters import Adapter, Framing, find_adapter
from ..deltas import Meta, UsageUpdate
from ..errors import ProtocolError, StreamError, StreamfoldError
from ..types import (
    ChunkDetails,
    Limits,
    PartialToolCall,
    Reply,
    ReplyWarning,
    StreamChunk,
    ToolChoice,
    ToolLike,
    Usage,
    as_tools,
    read_tool_choice,
)
from .accumulator import PartialCalls, StreamAccumulator
from .dialects import Dialect, DialectChain, DialectContext, find_dialect
from .pipeline import Pipeline, is_progress
from .response_body import HEAD, REPLACED, NonStreamBody, excerpt, not_a_stream
from .sse import SSEDecoder, body_kind, strip_bom_and_space
from .stop_sequences import StopSequences
from .tool_call_assembly import Listener
from .tool_call_delivery import ToolNameMap

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent


def merge_chunks(chunks: list[StreamChunk]) -> list[StreamChunk]:
    """Joins consecutive text deltas, and consecutive reasoning deltas, of chunks that arrived in one network read.

    >>> [chunk.delta for chunk in merge_chunks([StreamChunk("a"), StreamChunk("b")])]
    ['ab']
    """
    out: list[StreamChunk] = []
    at, end = 0, len(chunks)
    while at < end:
        first, behind = chunks[at], at + 1
        while behind < end and _continues(first, chunks[behind]):
            behind += 1
        if behind > at + 1:
            text = "".join([chunk.delta for chunk in chunks[at:behind]])
            reasoning = "".join([chunk.reasoning for chunk in chunks[at:behind]])
            details = None
            if first.details is not None:
                details = ChunkDetails(first.preceding_calls, first.marks, part=first.part)
            first = StreamChunk(text, reasoning=reasoning, details=details)
        out.append(first)
        at = behind
    return out


def _continues(first: StreamChunk, chunk: StreamChunk) -> bool:
    """The finished chunk is never joined with another chunk."""
    if chunk.finished or (not first.delta) != (not chunk.delta) or (not first.reasoning) != (not chunk.reasoning):
        return False
    if first.details is None and chunk.details is None:  # nearly always
        return True
    if first.silent or chunk.silent or chunk.marks or chunk.part != first.part:
        return False
    return chunk.preceding_calls == first.preceding_calls


_TRANSCRIPT = 20  # the last events that `StreamError.transcript` contains


class BodyReader:
    """Splits a response body into events, and collects a body that isn't an event stream.

    Attributes:
        head: the first bytes of the body.
        events: the parser of the event stream, or None if the body isn't known to be an event stream.
        document: the body if it isn't an event stream, otherwise None.
    """

    def __init__(self, framing: type[Framing] | None, limits: Limits) -> None:
        self._framing = framing
        self._limits = limits
        self.head = b""
        self.events: SSEDecoder | Framing | None = None
        self.document: NonStreamBody | None = None

    def feed(self, data: bytes) -> Iterable[ServerSentEvent]:
        """Returns the SSE events that `data` completes. Exhaust the iterable before you call `feed` again."""
        if self.events is None and self.document is None:
            data = self._detect(data)
        elif len(self.head) < HEAD:
            self.head += data[: HEAD - len(self.head)]
        if self.events is not None:
            return self.events.feed(data)
        if self.document is not None:
            self.document.feed(data)
        return ()

    def _detect(self, data: bytes) -> bytes:
        framing = self._framing or SSEDecoder
        if self._framing is not None and not getattr(framing, "is_binary", False):
            self.events, self.head = framing(self._limits), data[:HEAD]
            return data
        data = strip_bom_and_space(self.head + data)  # white space, as some servers send to keep a connection open
        self.head = data[:HEAD]
        kind = body_kind(data)
        if kind == "events":
            self.events = framing(self._limits)
        elif kind is not None:
            self.document = NonStreamBody(kind, self._limits)
        return data


class StreamDecoder:
    r"""Converts the body of one response into chunks.

    Args:
        adapter: the adapter of the API, or its name.
        dialect: the format of tool calls in the model's text, if the server doesn't parse them. The decoder never
            guesses this format.
        stop: stop sequences that the API doesn't support. If the decoder ends a response at a stop sequence, the
            reply's usage is unknown.
        tools: the tools that the request declared.
        tool_choice: the tool choice of the request. With `"none"`, no tool call is delivered.
        start_in_reasoning: true if the model's output begins with reasoning, because the chat template contains
            the opening marker. Only dialects use this.
        limits: size limits. A larger response raises ProtocolError.
        names: maps the tool names in the request to the names that the program declared, if they differ.
        listener: a function that the decoder calls in two cases: with a `CallMatch` for each tool call fragment, and
            with each warning and the tool call that the warning is about, as a tuple.
        partial_tool_calls: also return a chunk for each tool call fragment, so that a program can show a tool
            call while the model writes it.
        coalesce: join the consecutive pieces of text, and of reasoning, that one call of `feed` returns.
        continues: true if the caller sends another HTTP request when the server pauses an answer (`part_ended`,
            `next_part`). If false, a paused answer ends: its finish reason is "unknown", and its tool calls are
            dropped.

    Attributes:
        events: the number of SSE events with content. Pings, empty deltas and metadata don't count.
        done: true if the decoder needs no more data. The response has then ended, or the next call raises an error.

    >>> decoder = StreamDecoder("chat")
    >>> chunks = decoder.feed(b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n')
    >>> [chunk.delta for chunk in chunks], decoder.close()[-1].finish_reason
    (['Hi'], 'stop')
    """

    def __init__(
        self,
        adapter: str | Adapter,
        *,
        dialect: str | Dialect | None = None,
        stop: Collection[str] = (),
        tools: Iterable[ToolLike] = (),
        tool_choice: ToolChoice = "auto",
        start_in_reasoning: bool = False,
        limits: Limits | None = None,
        names: ToolNameMap | None = None,
        listener: Listener | None = None,
        partial_tool_calls: bool = False,
        coalesce: bool = False,
        continues: bool = False,
    ) -> None:
        self._adapter = find_adapter(adapter)() if isinstance(adapter, str) else adapter
        self._limits = limits or Limits()
        read_tools = as_tools(tools)
        choice = read_tool_choice(tool_choice, read_tools)
        names = names or ToolNameMap()
        self._drafts = PartialCalls(names.own, chunks=partial_tool_calls)
        read: set[str] = set()
        functions = tuple(tool for tool in read_tools if tool.hosted is None)
        context = DialectContext(functions, choice, start_in_reasoning, self._drafts.feed)
        if isinstance(dialect, str):
            read = {"think", *dialect.split("+")} if context.calls_allowed else {"think"}
            dialect = find_dialect(dialect, context)
        if stop:
            dialect = DialectChain([dialect, StopSequences(stop)]) if dialect else StopSequences(stop)
        self._accumulator = StreamAccumulator(
            tools=read_tools,
            tool_choice=choice,
            limits=self._limits,
            names=names,
            listener=listener,
            partial_tool_calls=partial_tool_calls,
            continues=continues,
            blocks_name=getattr(self._adapter, "blocks_name", "blocks"),  # adapters without the base class lack it
        )
        self._pipeline = Pipeline(
            self._accumulator,
            dialect,
            read=read,
            limits=self._limits,
            drafts=self._drafts,
            context=DialectContext(functions, "auto" if names.answer else choice),
        )
        self._body = BodyReader(self._adapter.framing, self._limits)
        self._transcript: deque[str] = deque(maxlen=_TRANSCRIPT)  # the payloads of the last events
        self._coalesce = coalesce
        self.events = 0
        self.done = False
        self._error: StreamError | None = None
        self._closed = False

    @property
    def finished(self) -> bool:
        """True if the finished chunk has been returned."""
        return self._accumulator.finished

    @property
    def stopped(self) -> bool:
        """True if the decoder ended the response at one of the stop sequences in `stop`. The server may still send
        more data."""
        return self._accumulator.stopped

    @property
    def part_ended(self) -> bool:
        """True if the server has paused the answer, so that another HTTP request must continue it."""
        return self._accumulator.part_ended

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        """All warnings so far. After the finished chunk, `Reply.warnings` contains the same warnings."""
        return self._accumulator.warnings

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The tool calls that have begun but aren't complete. The tuple is empty after the finished chunk."""
        if self._accumulator.finished:
            return ()
        return self._accumulator.partial_tool_calls or self._drafts.partial_tool_calls

    @property
    def meta(self) -> Meta:
        """The id, model and creation time of the response. Each of them is None until the server has sent it."""
        return self._accumulator.meta

    @property
    def calls_begun(self) -> int:
        """The number of tool calls of which the server has sent at least the beginning."""
        return self._accumulator.calls_begun

    @property
    def answer_id(self) -> str | None:
        """The provider's id of the response; None if the server hasn't sent it yet."""
        return self._accumulator.meta.id or None

    @property
    def broken_off_at(self) -> tuple[str, int | str] | None:
        """The id of an unfinished response, and the number or the id of the last SSE event. With both values, a client
        can request the rest of the response. If one of them is unknown, the result is None.

        If the last event had no id, the second value is `""`. The server then repeats the whole response.
        """
        numbers, answer_id = self._pipeline.numbers, self._accumulator.meta.id
        last = numbers.last_id if numbers.last is None else numbers.last
        if self.done or self._accumulator.has_finish_reason or last is None or not answer_id:
            return None
        return answer_id, last

    def resume(self, *, whole: bool = False) -> None:
        """Lets `feed` accept another response body, which continues the response after the last SSE event. Discards the
        bytes of an incomplete event.

        Args:
            whole: true if the new body repeats the response from its start. The decoder then skips repeated content.
        """
        self._body = BodyReader(self._adapter.framing, self._limits)
        self._accumulator.blocks.expect_again(whole=whole or not self._pipeline.numbers.last_id)

    def next_part(self) -> list[StreamChunk]:
        """Lets `feed` accept the next response body of a paused answer. Returns chunks with text that was held back."""
        chunks: list[StreamChunk] = []
        self._pipeline.next_part(chunks)
        self.resume()
        self._closed = self.done = False
        return chunks

    def end_answer(self) -> list[StreamChunk]:
        """Ends a paused answer that the caller doesn't continue. Returns the answer's last chunks."""
        self._accumulator.stop_continuing()
        chunks: list[StreamChunk] = []
        try:
            self._pipeline.end(chunks)
            if (chunk := self._accumulator.finish()) is not None:
                chunks.append(chunk)
            self.done = True
        except StreamError as error:
            self._fail(error, chunks)
        self._raise_pending()
        return chunks

    def give_up(self) -> list[StreamChunk]:
        """Returns chunks with text that was held back. Call this method before you raise an error that isn't from
        the decoder."""
        chunks: list[StreamChunk] = []
        with suppress(StreamError):  # the text that was held back exceeds a limit: the caller's error counts
            self._pipeline.give_up(chunks)
        return chunks

    @property
    def reply(self) -> Reply:
        """The complete reply. Raises StreamfoldError if the finished chunk hasn't been returned yet."""
        return self._accumulator.reply

    def part(self) -> Reply:
        """Returns a reply with only the text and usage of the current response body, without the earlier parts of a
        paused answer."""
        return self._accumulator.part()

    def turn(self) -> Reply:
        """Returns the answer so far, including its tool calls. The request that continues a paused answer contains this
        reply as an assistant message."""
        return self._accumulator.turn()

    def partial(self) -> Reply:
        """Returns the response so far, without tool calls."""
        return self._accumulator.partial()

    def feed(self, data: bytes) -> list[StreamChunk]:
        """Decodes the next bytes and returns the new chunks. The chunks' joined text is the same wherever the body is
        split.

        If the bytes contain an error, `feed` returns the chunks before the error, and `done` becomes true. The
        next call raises the error.

        Raises:
            StreamError: the response failed. The error contains the partial reply.
        """
        if self.done or self._closed:
            self._raise_pending()
            if self._closed:
                raise StreamfoldError("feed() after close(): a decoder reads only one response")
            return []
        chunks: list[StreamChunk] = []
        try:
            self._read(data, chunks)
        except StreamError as error:
            self._fail(error, chunks)
        return merge_chunks(chunks) if self._coalesce and len(chunks) > 1 else chunks

    def end(self, *, interrupted: str | None = None) -> list[StreamChunk]:
        """Ends the input and returns the remaining chunks. If the response is incomplete, `end` raises no error;
        only `close` does.

        Call `end` to get all text of a broken response as chunks. These chunks include the text of an incomplete SSE
        event, and text that was held back because it could have become a tool call.

        Args:
            interrupted: the connection error that ended the input; None if there was no error. After a finish
                reason, this error becomes a warning.

        Raises:
            StreamError: an earlier call of `feed` found an error.
        """
        self._raise_pending()
        chunks: list[StreamChunk] = []
        if not self._closed and not self.done:
            try:
                self._finish(interrupted, chunks)
            except StreamError as error:
                self._fail(error, chunks)
            self.done |= self._accumulator.finished or self._accumulator.part_ended
        self._closed = True
        return chunks

    def close(self, *, interrupted: str | None = None) -> list[StreamChunk]:
        """Ends the input and returns the remaining chunks. The last chunk is the finished chunk.

        If `close` raises an error, `error.partial` contains all received text. `end` returns this text as chunks.

        Raises:
            IncompleteStreamError: the response is incomplete.
            StreamError: the response failed for another reason.
        """
        chunks = self.end(interrupted=interrupted)
        self._raise_pending()
        return chunks

    def _read(self, data: bytes, chunks: list[StreamChunk]) -> None:
        accumulator, decode, feed = self._accumulator, self._adapter.decode, self._pipeline.feed
        events = self._body.feed(data)
        parser = self._body.events
        for event in events:
            payload = event.data
            self._transcript.append(payload)
            if parser is not None and (parser.invalid_utf8 or parser.foreign):
                self._warn_of_bytes(parser)
            try:
                deltas = decode(event)
                if type(deltas) is not list:
                    deltas = list(deltas)
            except ValueError as exc:
                if not accumulator.has_finish_reason:
                    body = payload[: self._limits.error_body_bytes]
                    raise ProtocolError(f"invalid SSE event ({exc}): {excerpt(payload)}", body=body) from exc
                accumulator.warn("malformed_event", f"after the finish reason: {excerpt(payload)}")
                continue
            if is_progress(deltas):
                self.events += 1
            feed(deltas, payload, chunks)
            if accumulator.finished or accumulator.part_ended:
                self.done = True
                return

    def _finish(self, interrupted: str | None, chunks: list[StreamChunk]) -> None:
        document, parser = self._body.document, self._body.events
        if document is not None:
            if document.kind == "json":
                self._transcript.append(document.text)
            deltas, cut = document.deltas(self._adapter, interrupted)
            if not document.is_utf8:
                self._accumulator.warn("invalid_utf8", REPLACED)
            if cut is None:  # the usage must be read before a stop sequence in the text
                self._accumulator.keeps_usage = True
                deltas.sort(key=lambda delta: not isinstance(delta, Usage | UsageUpdate))
            self._pipeline.feed(deltas, document.text, chunks)
            if cut is not None:
                raise cut
        elif parser is not None:
            if event := parser.finish():
                self._warn_of_bytes(parser)
                self._last_event(event, chunks)
            if not self._transcript and parser.foreign:
                raise not_a_stream(self._body.head, "plain text")
        if not (self._accumulator.finished or self._accumulator.part_ended):
            if not self._accumulator.will_continue:
                self._pipeline.end(chunks)
            if (chunk := self._accumulator.finish(interrupted)) is not None:
                chunks.append(chunk)

    def _last_event(self, event: ServerSentEvent, chunks: list[StreamChunk]) -> None:
        """Decodes the last SSE event, after which the blank line is missing. If the event's data is truncated, only
        its text is used."""
        self._transcript.append(event.data)
        data = event.data
        try:
            deltas = list(self._adapter.decode(event))
        except ValueError:
            self._accumulator.feed(Meta())  # the response isn't empty, but incomplete
            self._accumulator.warn("truncated_event", f"the last SSE event is incomplete: {excerpt(data)}")
            data, _, cut = data.rpartition("\n")  # without blank lines between events, only the last event is truncated
            deltas = []
            with suppress(ValueError):
                deltas = list(self._adapter.decode(type(event)(event.event, data)))
            self._pipeline.feed(deltas, data, chunks)
            if not self._accumulator.has_finish_reason:
                with suppress(ValueError):  # too little of the event came to tell
                    begun = self._adapter.decode_cut(type(event)(event.event, cut if deltas else event.data))
                    self._pipeline.feed_cut(begun, chunks)
            return
        self._pipeline.feed(deltas, data, chunks)

    def _warn_of_bytes(self, parser: SSEDecoder | Framing) -> None:
        if parser.invalid_utf8:
            self._accumulator.warn("invalid_utf8", REPLACED)
        if parser.foreign:
            self._accumulator.warn(
                "malformed_event", f"a line that doesn't belong to an SSE event was ignored: {excerpt(parser.foreign)}"
            )

    def _fail(self, error: StreamError, chunks: list[StreamChunk]) -> None:
        self._error, self.done = error, True
        chunks += self.give_up()

    def _raise_pending(self) -> None:
        if self._error is not None:
            self._error.partial = self._error.partial or self._accumulator.partial()
            self._error.transcript = tuple(self._transcript)
            self._error.partial_tool_calls = self.partial_tool_calls
            raise self._error
