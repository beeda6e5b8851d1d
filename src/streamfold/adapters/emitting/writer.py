"""Chunks and replies in, the events of a wire out: the way of an answer through whoever writes it again."""

from __future__ import annotations

from ...values import ErrorInfo, Failure, Reply, StreamChunk
from .emitter import Emitter
from .order import Order

__all__ = ["ReplyWriter"]


class ReplyWriter:
    """Writes one answer as it arrives. It does no I/O.

    Calls of which the chunks bring fragments (the option `fragments`) are written as they grow. The last character of
    each waits for the end, so that a call that is cut off never looks whole.

    Args:
        emitter: writes the events.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._order = Order()

    def feed(self, chunk: StreamChunk) -> bytes:
        """Returns the events for a chunk. Give it all chunks, the finished one too."""
        return self._emitter.feed_all(self._order.feed(chunk))

    def finish(self, reply: Reply) -> bytes:
        """Returns the events that end the answer.

        Raises:
            StreamError: the answer can't be ended in order: a call was begun that the reply does not have, or has
                otherwise. End it with `fail`.
        """
        rest = self._order.end(reply, may_be_cut=self._emitter.calls_may_be_cut)
        return self._emitter.feed_all(rest) + self._emitter.finish()

    def fail(self, info: ErrorInfo) -> bytes:
        """Returns the events that end the answer with an error: no client takes it, or a call in it, for whole."""
        return self._emitter.feed_all([*self._order.rest(), Failure(info)])
