"""The whole path without I/O: bytes in, chunks out. A provider is a thin asynchronous loop round this."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .adapters import Adapter, find_adapter
from .deltas import Done, Failure, Finish, Meta, Reasoning, Refusal, Sequence, Text
from .dialects import Dialect, DialectContext, describe_leak, find_dialect
from .errors import IncompleteStreamError, ProtocolError, StreamError, StreamfoldError
from .fold import Fold
from .jsontext import parse_event, parse_partial
from .parts import Parts, Resumption
from .sse import SSEDecoder, body_kind, skip_blank
from .tools import ToolLike, read_tool, read_tool_choice
from .types import Limits, Reply, StreamChunk

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from .deltas import Delta

__all__ = ["StreamDecoder"]

_HEAD = 512  # bytes of a body that is not an event stream which are enough to show what it is
_TRANSCRIPT = 20  # events


class StreamDecoder:
    """Turns the body of one answer into chunks.

    Args:
        adapter: the wire format, by name or as a value.
        dialect: how the model writes calls inside its text, if it does; none is ever guessed.
        tools: the tools that the request declared.
        tool_choice: the tool choice of the request; after `"none"` no call is handed out.
        start_in_reasoning: the output begins inside reasoning (the prompt opened it); for dialects.
        limits: what is accepted before it is called a ProtocolError.

    Attributes:
        events: how many events have come.

    >>> decoder = StreamDecoder("chat")
    >>> chunks = decoder.feed(b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\\n\\n')
    >>> [chunk.delta for chunk in chunks], decoder.close()[-1].finish_reason
    (['Hi'], 'stop')
    """

    def __init__(
        self,
        adapter: str | Adapter,
        *,
        dialect: str | Dialect | None = None,
        tools: Iterable[ToolLike] = (),
        tool_choice: Any = "auto",
        start_in_reasoning: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self._adapter = find_adapter(adapter)() if isinstance(adapter, str) else adapter
        self._limits = limits or Limits()
        read_tools = tuple(read_tool(tool) for tool in tools)
        choice = read_tool_choice(tool_choice, read_tools)
        self._reads_calls = dialect not in (None, "think") and choice != "none"
        if isinstance(dialect, str):
            dialect = find_dialect(dialect, DialectContext(read_tools, choice, start_in_reasoning))
        self._dialect = dialect
        self._fold = Fold(tool_names=[tool.name for tool in read_tools], tool_choice=choice, limits=self._limits)
        self._parts = Parts()
        self._numbers = Resumption()
        self._sse = SSEDecoder(self._limits)
        self._head = b""  # the first bytes, kept to say what the body was
        self._kind: str | None = None
        self._body: list[bytes] = []  # a body that is not an event stream
        self._body_size = 0
        self._transcript: deque[str] = deque(maxlen=_TRANSCRIPT)
        self.events = 0
        self._finish_reason: Finish | None = None
        self._error: StreamError | None = None
        self._closed = False

    @property
    def finished(self) -> bool:
        """Whether the finished chunk has been handed out."""
        return self._fold.finished

    @property
    def done(self) -> bool:
        """Whether nothing that may still come can matter: the answer is finished, or an error waits to be raised."""
        return self._fold.finished or self._error is not None

    @property
    def reply(self) -> Reply:
        """The whole answer. Raises StreamfoldError before the finished chunk."""
        return self._fold.reply

    def feed(self, data: bytes) -> list[StreamChunk]:
        """The chunks that `data` completes, however the body was cut.

        What came before an error is returned; the error is raised by the next call (`done` is true until then).

        Raises:
            StreamError: one of its kinds, with the partial answer.
        """
        self._raise_pending()
        if self._closed:
            raise StreamfoldError("feed() after close(): a decoder reads one answer")
        chunks: list[StreamChunk] = []
        if not self._fold.finished:
            try:
                self._feed(data, chunks)
            except StreamError as error:
                self._error = error
                self._fold_many((held for held in self._held_back() if isinstance(held, Text | Reasoning)), chunks)
        return chunks

    def close(self, *, interrupted: str | None = None) -> list[StreamChunk]:
        """The input has ended: the chunks that are left, the finished one last.

        Args:
            interrupted: how the input broke off, if it did. An answer that was finished stays one, with a warning.

        Raises:
            IncompleteStreamError: the answer was not finished.
            StreamError: another of its kinds.
        """
        self._raise_pending()
        chunks: list[StreamChunk] = []
        if self._closed or self._fold.finished:
            self._closed = True
            return chunks
        self._closed = True
        try:
            self._finish(interrupted, chunks)
        except StreamError as error:
            self._error = error
            self._raise_pending()
        return chunks

    def _feed(self, data: bytes, chunks: list[StreamChunk]) -> None:
        if self._kind is None:
            data = skip_blank(self._head + data)  # white space, as some servers send to keep a connection open
            self._head = data[:_HEAD]
            self._kind = body_kind(data)
            if self._kind is None:
                return
        elif len(self._head) < _HEAD:
            self._head += data[: _HEAD - len(self._head)]
        if self._kind == "events":
            for event in self._sse.feed(data):
                self._event(event, chunks)
                if self._fold.finished:
                    return
        else:
            self._body.append(data)
            self._body_size += len(data)
            if self._kind == "markup" and self._body_size >= _HEAD:
                raise self._not_a_stream()
            if self._body_size > self._limits.event_bytes:
                raise ProtocolError(f"the body is larger than {self._limits.event_bytes} bytes (limits.event_bytes)")

    def _event(self, event: ServerSentEvent, chunks: list[StreamChunk]) -> None:
        self.events += 1
        self._transcript.append(event.data)
        try:
            deltas = list(self._adapter.decode(event))
        except ValueError as exc:
            self._malformed(event, exc)
            return
        self._fold_in(deltas, chunks, event.data)

    def _malformed(self, event: ServerSentEvent, cause: ValueError) -> None:
        if self._fold.has_finish_reason or self._finish_reason:
            self._fold.warn("malformed_event", f"after the finish reason: {_shown(event.data)}")
            return
        body = event.data[: self._limits.error_body_bytes]
        raise ProtocolError(f"an event can't be read ({cause}): {_shown(event.data)}", body=body) from cause

    def _fold_in(self, deltas: Iterable[Delta], chunks: list[StreamChunk], data: str = "") -> None:
        if self._sse.invalid_utf8:
            self._warn_of_utf8()
        for delta in deltas:
            if isinstance(delta, Text | Reasoning | Refusal) and (delta.whole or delta.part):
                for new in self._parts.feed(delta):
                    self._fold_one(new, chunks)
            elif isinstance(delta, Sequence):
                warning = self._numbers.feed(delta, data)
                if warning:
                    self._fold.warn(warning.code, warning.detail)
                if warning and warning.code == "repeated_event":
                    return
            else:
                self._fold_one(delta, chunks)

    def _fold_one(self, delta: Delta, chunks: list[StreamChunk]) -> None:
        if isinstance(delta, Finish) and self._dialect is not None:
            self._finish_reason = delta  # what the dialect holds back came before it
            return
        if isinstance(delta, Done | Failure):
            self._end_of_text(chunks)
        self._fold_many((delta,) if self._dialect is None else self._dialect.feed(delta), chunks)

    def _fold_many(self, deltas: Iterable[Delta], chunks: list[StreamChunk]) -> None:
        for delta in deltas:
            if (chunk := self._fold.feed(delta)) is not None:
                chunks.append(chunk)

    def _end_of_text(self, chunks: list[StreamChunk]) -> None:
        """Before the answer ends: what the dialect held back, and whether the text shows what one should have read."""
        self._fold_many(self._held_back(), chunks)
        if not self._reads_calls and (leaked := describe_leak(self._fold.text)):
            self._fold.warn("leaked_markup", leaked)

    def _held_back(self) -> Iterator[Delta]:
        dialect, self._dialect = self._dialect, None
        if dialect is not None:
            yield from dialect.finish()
        if self._finish_reason is not None:
            finish_reason, self._finish_reason = self._finish_reason, None
            yield finish_reason

    def _finish(self, interrupted: str | None, chunks: list[StreamChunk]) -> None:
        if self._kind == "json":
            self._json_body(interrupted, chunks)
        elif self._kind == "markup":
            raise self._not_a_stream()
        elif self._kind == "events":
            if event := self._sse.finish():
                self._last_event(event, chunks)
            if not self.events and self._sse.foreign:
                raise self._not_a_stream()
        if not self._fold.finished:
            self._end_of_text(chunks)
            if (chunk := self._fold.finish(interrupted)) is not None:
                chunks.append(chunk)

    def _last_event(self, event: ServerSentEvent, chunks: list[StreamChunk]) -> None:
        """The event before the end of the body, without its blank line. Only a payload that is whole is one."""
        self.events += 1
        self._transcript.append(event.data)
        try:
            deltas = list(self._adapter.decode(event))
        except ValueError:
            self._fold.feed(Meta())  # the server has begun to speak, so that the answer is incomplete and not empty
            self._fold.warn("truncated_event", f"the last event was cut off: {_shown(event.data)}")
            before = event.data.rpartition("\n")[0]  # without blank lines between them, all but the last are whole
            with suppress(ValueError):
                deltas = list(self._adapter.decode(type(event)(event.event, before)))
                self._fold_in(deltas, chunks, before)
            return
        self._fold_in(deltas, chunks, event.data)

    def _warn_of_utf8(self) -> None:
        self._fold.warn("invalid_utf8", "bytes that are not UTF-8 were replaced by U+FFFD")

    def _json_body(self, interrupted: str | None, chunks: list[StreamChunk]) -> None:
        raw = b"".join(self._body)
        text = raw.decode("utf-8", "replace")
        self.events += 1
        self._transcript.append(text)
        try:
            body = parse_event(text)
        except ValueError as exc:
            if interrupted or parse_partial(text):
                how = interrupted or "the body ended"
                raise IncompleteStreamError(f"{how} in the middle of a JSON answer", retryable=True) from exc
            what = (
                "newline-delimited JSON instead of server-sent events" if "\n{" in text else "JSON that can't be read"
            )
            raise ProtocolError(f"the answer is {what}: {_shown(text)}", body=text[:_HEAD]) from exc
        try:
            deltas = list(self._adapter.decode_body(body))
        except ValueError as exc:
            raise ProtocolError(f"the answer can't be read ({exc}): {_shown(text)}", body=text[:_HEAD]) from exc
        if text.encode("utf-8", "replace") != raw:
            self._warn_of_utf8()
        self._fold_in(deltas, chunks)

    def _not_a_stream(self) -> ProtocolError:
        start = self._head[:_HEAD].decode("utf-8", "replace")
        what = "a web page" if self._kind == "markup" else "plain text"
        return ProtocolError(
            f"the answer is {what} instead of server-sent events; is the base URL right? It begins: {_shown(start)}",
            body=start,
        )

    def _raise_pending(self) -> None:
        if self._error is not None:
            self._error.partial = self._error.partial or self._fold.partial()
            self._error.transcript = tuple(self._transcript)
            raise self._error


def _shown(text: str) -> str:
    """The beginning of a text, for a message."""
    text = " ".join(text.split())
    return repr(text if len(text) <= 200 else text[:200] + "...")
