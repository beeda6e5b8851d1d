"""The chunks of one attempt. Where the provider keeps the answer, a broken connection is replaced by another one."""

from __future__ import annotations

from collections.abc import Callable

from ..engine import StreamDecoder
from ..net import Exchange, HTTPRequest
from ..values import APIConnectionError, APITimeoutError, IncompleteStreamError, Reply, StreamChunk
from .retrying import RetryLoop


class AnswerReader:
    """Reads one answer. What comes after a broken connection goes on where it broke off: nobody notices.

    Args:
        reconnect: given the id of the answer and the number of its last event, returns the request for the rest; None
            if the provider does not keep the answer.
        tap: called with each piece of the body; None: nobody wants them.
        whole: nothing is handed out before the end.
    """

    def __init__(
        self,
        exchange: Exchange,
        decoder: StreamDecoder,
        attempts: RetryLoop,
        reconnect: Callable[[str, int], HTTPRequest | None],
        tap: Callable[[bytes], None] | None = None,
        whole: bool = False,
    ) -> None:
        self._tap = tap
        self._whole = whole
        self._attempts = attempts
        self._reconnect = reconnect
        self._reconnected_after = -1
        self._reconnects = 0  # since the last event
        self._exchange = exchange
        self._decoder = decoder
        self._shown = False  # a batch has been handed out
        self._broke: APIConnectionError | None = None

    @property
    def reply(self) -> Reply:
        """The whole answer, once its finished chunk has been read."""
        return self._decoder.reply

    async def next_batch(self) -> list[StreamChunk]:
        """Reads until there are chunks. Returns none if the stream was closed on our side.

        Text that is left when an answer breaks off is a batch of its own, before the error. If nothing has been handed
        out before, it is dropped: the request may still be sent again.

        Raises:
            APIError: the connection broke, a timeout ran out, or the answer went wrong.
        """
        decoder = self._decoder
        while not decoder.done:
            exchange = self._exchange
            try:
                data = await exchange.read(decoder.events)
            except APIConnectionError as error:
                if exchange.closed:
                    return []
                if not await self._reconnected(error):
                    self._broke = error
                    return self._rest()
                continue
            if data is None:
                if exchange.closed:
                    return []
                ended = APIConnectionError("the stream ended before the answer was finished", retryable=True)
                if not await self._reconnected(ended):
                    return self._rest()
                continue
            if self._tap is not None:
                self._tap(data)
            if chunks := decoder.feed(data):
                self._shown = True
                return chunks
        return self._rest()

    async def whole_batch(self) -> list[StreamChunk]:
        """Reads to the end, as `next_batch` does, and returns all chunks."""
        batch = await self.next_batch()
        while batch and not batch[-1].finished:  # streamed all the same
            more = await self.next_batch()
            batch = [*batch, *more] if more else []
        return batch

    async def drain(self) -> None:
        """Reads the rest behind the end of the answer. One that was ended here has more, which nobody wants."""
        if not self._decoder.stopped:
            await self._exchange.drain()

    async def _reconnected(self, error: APIConnectionError) -> bool:
        """Continues on another connection, if that is possible."""
        place = self._decoder.broken_off_at
        request = place and self._reconnect(*place)
        if place is None or request is None:
            return False
        after = place[1]
        self._reconnects = 0 if after > self._reconnected_after else self._reconnects + 1
        self._reconnected_after = after
        exchange = await self._attempts.reconnect(request, error, after, self._reconnects)
        if exchange is None:
            return False
        self._exchange = exchange
        self._decoder.resume()
        return True

    def _rest(self) -> list[StreamChunk]:
        """Returns what is left of an answer that has come to its end, or raises the error in which it ends."""
        decoder, error = self._decoder, self._broke
        interrupted = error.message if error else None
        if (self._shown or self._whole) and not decoder.done and (chunks := decoder.end(interrupted=interrupted)):
            return chunks
        try:
            return decoder.close(interrupted=interrupted)
        except IncompleteStreamError as incomplete:
            if error is None:
                raise
            if isinstance(error, APITimeoutError):
                error.partial, error.partial_tool_calls = incomplete.partial, incomplete.partial_tool_calls
                raise error from error.__cause__
            raise incomplete from error
