"""Chunks and replies in, the events of an API out: the way of an answer through whoever writes it again."""

from __future__ import annotations

from dataclasses import replace

from ...deltas import Failure, RefusalDelta
from ...errors import ErrorInfo, StreamError
from ...types import ExtraPart, Reply, StreamChunk
from .delta_order import DeltaOrder
from .reply_deltas import keep_call_kinds, without_non_finite
from .stream_serializer import AnswerWriter


class ReplyWriter:
    """Writes one answer as it arrives. It does no I/O.

    Calls of which the chunks bring fragments (the option `partial_tool_calls`) are written as they grow, one behind the
    other. The last character of each waits until something else comes, so that a call that is cut off does not look
    whole.

    Args:
        emitter: writes the events.
    """

    def __init__(self, emitter: AnswerWriter) -> None:
        self._emitter = emitter
        self._order = DeltaOrder(keeps_ends=emitter.keeps_order)
        self._failed = False

    def feed(self, chunk: StreamChunk) -> bytes:
        """Returns the events for a chunk. Give it all chunks, the finished one too."""
        self._emitter.observe_chunk(chunk)
        return self._emitter.feed_all(self._order.feed(chunk))

    def note(self, preceding_calls: int, extra: ExtraPart) -> bytes:
        """Returns the events for what an event says beside its deltas (`StreamSerializer.seen`). To be called before
        `feed`.

        Args:
            preceding_calls: how many calls had begun before that event.
        """
        return self._emitter.feed_all(self._order.note(preceding_calls, extra))

    def finish(self, reply: Reply) -> bytes:
        """Returns the events that end the answer.

        Raises:
            StreamError: the answer can't be ended in order: a call was begun that the reply does not have, or has
                otherwise. End it with `fail`.
        """
        try:
            rest = self._order.end(keep_call_kinds(without_non_finite(reply), self._emitter.call_kinds), self._emitter)
        except StreamError as error:
            error.partial = replace(reply, tool_calls=[])
            raise
        self._emitter.said = (reply.text, reply.reasoning, reply.refusal or "")
        return self._emitter.feed_all(rest) + self._emitter.finish()

    def rest(self, partial: Reply | None) -> bytes:
        """Returns the events for what has not been written of an answer that fails, but for calls.

        Args:
            partial: what had arrived, with what no chunk has shown: the text of a refusal.
        """
        refusal = []
        if partial is not None and not self._failed:
            self._emitter.said = (partial.text, partial.reasoning, partial.refusal or "")
            refusal = [RefusalDelta((partial.refusal or "").removeprefix(self._order.refused))]
        self._failed = True
        return self._emitter.feed_all([*self._order.rest(), *refusal]) + self._emitter.release()

    def fail(self, info: ErrorInfo, partial: Reply | None = None) -> bytes:
        """Returns the events that end the answer with an error: no client takes it, or a call in it, for whole.

        Args:
            partial: see `rest`.
        """
        return self.rest(partial) + self._emitter.feed(Failure(info))
