"""Decodes a response and serializes it again, for the same API or a different API, without I/O."""

from __future__ import annotations

from typing import Any

from streamfold import Reply, ReplyWarning, StreamChunk, StreamDecoder, StreamError
from streamfold.adapters import Adapter
from streamfold.serving import ReplyWriter, StreamSerializer, error_delta

from .observed_adapter import ObservedAdapter


class StreamRewriter:
    """Rewrites the body of one response. In the new body, events are in the right order, each tool call has an index
    and a name, and the last event is never missing.

    The rewriter writes text and tool calls as they arrive; `ReplyWriter` describes the exceptions. If a response breaks
    off or can't be decoded, the new body ends with an error in the format of the writer's API, and `error` is the
    exception.

    Args:
        adapter: the name of the adapter that decodes the server's response.
        writer: writes the new events, with the id, the model and the time that the server sent. A serializer is
            wrapped in a `ReplyWriter`.
        options: further arguments of `StreamDecoder`. Unless `partial_tool_calls` is False, the rewriter writes tool
            calls as they arrive.

    Attributes:
        error: the error of a failed response; None otherwise.
        left: if `close` returned an error event, the bytes that it returned before this event.

    >>> from streamfold.serving import ChatSerializer
    >>> rewriter = StreamRewriter("chat", ChatSerializer(id="", model=""))
    >>> body = rewriter.feed(b'data: {"id":"a","choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}')
    >>> b"[DONE]" in rewriter.close(), rewriter.reply.text
    (True, 'Hi')
    """

    def __init__(self, adapter: str | Adapter, writer: ReplyWriter | StreamSerializer, **options: Any) -> None:
        self._adapter = adapter
        self._decoder = StreamDecoder(adapter, **{"partial_tool_calls": True, **options})
        self._writer = ReplyWriter(writer) if isinstance(writer, StreamSerializer) else writer
        self._ended = False
        self.error: StreamError | None = None
        self.left = b""

    @property
    def done(self) -> bool:
        """True if the response is complete or has failed. Later bytes of the server's body are ignored."""
        return self._ended

    @property
    def whole(self) -> bool:
        """True if the server's response is complete, even if the rewriter could not write it."""
        return self._decoder.finished

    @property
    def reply(self) -> Reply:
        """The complete reply. Raises StreamfoldError if the response isn't complete yet, or has failed."""
        return self._decoder.reply

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        """The warnings about the response so far."""
        return self._decoder.warnings

    def feed(self, data: bytes) -> bytes:
        """Returns the new events for a piece of the server's body. The body may be split anywhere."""
        out, before = b"", self._decoder.calls_begun
        try:
            out = self._written(self._decoder.feed(data), before)
            if self._decoder.done and not self._ended:
                self._decoder.close()  # raises what went wrong
        except StreamError as error:
            out += self._failed(error)
        return out

    def close(self, *, interrupted: str | None = None) -> bytes:
        """Ends the server's body. Returns the remaining new events.

        Args:
            interrupted: the reason why the server's body broke off, or None if it is complete.
        """
        if self._ended:
            return b""
        out, before = b"", self._decoder.calls_begun
        try:
            out = self._written(self._decoder.end(interrupted=interrupted), before)
            self._decoder.close()  # raises what went wrong
        except StreamError as error:
            self.left = out + self._writer.rest(error.partial)
            out = self.left + self._failed(error)
        return out

    def _written(self, chunks: list[StreamChunk], preceding_calls: int) -> bytes:
        extras = self._adapter.take_extras() if isinstance(self._adapter, ObservedAdapter) else []
        if not chunks and not extras:
            return b""
        out = [self._writer.write([self._decoder.meta])]
        out += [self._writer.note(preceding_calls, extra) for extra in extras]
        out += map(self._writer.feed, chunks)
        if chunks and chunks[-1].finished:
            self._ended = True
            try:
                out.append(self._writer.finish(self._decoder.reply))
            except StreamError as error:
                out.append(self._failed(error))
        return b"".join(out)

    def _failed(self, error: StreamError) -> bytes:
        self._ended, self.error = True, error
        return self._writer.rest(error.partial) + self._writer.fail(error_delta(error).info)
