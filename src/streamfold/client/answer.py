"""One answer over the network: attempts until it begins, then its chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import anyio

from ..adapters import Adapter
from ..engine import StreamDecoder
from ..net import Clocks, Exchange, HTTPRequest, redact_error, retry_delay
from ..values import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    Attempt,
    IncompleteStreamError,
    ProtocolWarning,
    Reply,
    StreamChunk,
    Timing,
)
from .hooks import Notifier
from .pricing import ProfilePricing

if TYPE_CHECKING:
    import httpx

__all__ = ["ChunkSource", "NetworkAnswer", "Plan"]


class ChunkSource(Protocol):
    """Where the chunks of a `ChatStream` come from.

    Attributes:
        reply: the whole answer, once its last chunks have been yielded.
        warnings: the warnings so far.
    """

    @property
    def reply(self) -> Reply | None: ...

    @property
    def warnings(self) -> tuple[ProtocolWarning, ...]: ...

    def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks, grouped by network read. Called once."""
        ...

    async def aclose(self) -> None:
        """Closes the connection and wakes the task that waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """One request in the form in which it is sent, and how its answer is read.

    Attributes:
        adapter: the adapter that wrote it.
        decoder: makes a new decoder; each attempt needs one.
        warnings: what had to be changed in the request.
        origin: the `origin` of the message that the answer becomes.
        pricing: finds out what the answer cost; None: nobody can.
    """

    adapter: Adapter
    request: HTTPRequest
    decoder: Callable[[], StreamDecoder]
    warnings: Sequence[ProtocolWarning] = ()
    origin: str | None = None
    pricing: ProfilePricing | None = None


class NetworkAnswer:
    """Gets one answer: attempts up to its first chunk, then the rest of that attempt.

    Args:
        client: returns the HTTP client; called once for each attempt.
        max_retries: how often a request that failed before its first chunk is sent again.
        retry_without: given the adapter and the error of an attempt, returns a plan without the optional part of the
            request that the server rejected, or None.
    """

    def __init__(
        self,
        plan: Plan,
        notifier: Notifier,
        client: Callable[[], httpx.AsyncClient],
        *,
        max_retries: int,
        retry_without: Callable[[Adapter, APIError], Plan | None],
    ) -> None:
        self._plan = plan
        self._notifier = notifier
        self._client = client
        self._max_retries = max_retries
        self._retry_without = retry_without
        self._exchange: Exchange | None = None
        self._decoder: StreamDecoder | None = None
        self._closed = False
        self._began = 0.0
        self._headers_at: float | None = None
        self._attempts: list[Attempt] = []
        self._retries = 0
        self.reply: Reply | None = None

    @property
    def warnings(self) -> tuple[ProtocolWarning, ...]:
        """Those of the request, and those that the answer has brought so far."""
        if self.reply is not None:
            return tuple(self.reply.warnings)
        return (*self._plan.warnings, *(self._decoder.warnings if self._decoder else ()))

    async def aclose(self) -> None:
        """Closes the connection and wakes the task that waits for it."""
        self._closed = True
        if self._exchange is not None:
            await self._exchange.aclose()

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks of the answer, grouped by network read."""
        if self._closed:
            return
        self._began = anyio.current_time()
        try:
            exchange, decoder, batch = await self._begin()
            first_chunk = self._since_began()
            if batch:
                self._notifier.notify("on_first_chunk", first_chunk)
            while batch and not batch[-1].finished:
                yield batch
                batch = await _next_batch(exchange, decoder)
            if batch:
                self.reply = self._reply(decoder, Timing(self._headers_at, first_chunk, self._since_began()))
                self._notifier.notify("on_finish", self.reply)
                yield batch
                await exchange.drain()
        except APIError as error:
            if not self._closed:  # after aclose() the broken connection is our own doing
                self._notifier.notify("on_error", self._signed(error))
                raise
        finally:
            try:
                await self.aclose()
            finally:
                self._notifier.notify("on_close")

    async def _begin(self) -> tuple[Exchange, StreamDecoder, list[StreamChunk]]:
        """Sends the request until an attempt brings a chunk: nothing has been shown, so nothing can be shown twice."""
        clocks = Clocks(self._plan.request.timeouts, self._began)
        pause = 0.0
        while True:
            exchange = self._exchange = Exchange(self._client(), self._plan.request, clocks)
            decoder = self._decoder = self._plan.decoder()
            await exchange.pause(pause)
            try:
                if not self._closed:
                    self._notifier.notify("on_request")
                await exchange.open()
                self._headers_at = self._since_began()
                return exchange, decoder, await _next_batch(exchange, decoder)
            except APIError as error:
                await exchange.aclose()
                if self._closed or (wanted := self._next_try(error, clocks)) is None:
                    raise
                pause = wanted

    def _next_try(self, error: APIError, clocks: Clocks) -> float | None:
        """Returns the seconds to wait before the next attempt, or None if there is none."""
        if (milder := self._retry_without(self._plan.adapter, error)) is not None:
            self._plan, pause = milder, 0.0
        else:
            wanted = retry_delay(error, self._retries) if self._retries < self._max_retries else None
            if wanted is None or anyio.current_time() + wanted >= clocks.ends:
                return None
            self._retries, pause = self._retries + 1, wanted
        failed = Attempt(self._notifier.info.provider, self._signed(error).message, type(error).__name__, pause)
        self._notifier.notify("on_retry", failed)
        self._attempts.append(failed)
        return pause

    def _reply(self, decoder: StreamDecoder, timing: Timing) -> Reply:
        reply = decoder.reply
        return replace(
            reply,
            request_id=self._exchange.request_id if self._exchange else None,
            rate_limit=self._exchange.rate_limit if self._exchange else None,
            timing=timing,
            warnings=[*self._plan.warnings, *reply.warnings],
            attempts=tuple(self._attempts),
            provider=self._notifier.info.provider,
            origin=self._plan.origin,
            pricing=self._plan.pricing,
        )

    def _since_began(self) -> float:
        return anyio.current_time() - self._began

    def _signed(self, error: APIError) -> APIError:
        """The error with provider, attempts and request id, and without secrets."""
        error.provider = self._notifier.info.provider
        error.attempts = tuple(self._attempts)
        error.url = self._plan.request.shown_url
        if error.partial is not None and self._plan.pricing is not None:
            error.partial = replace(error.partial, pricing=replace(self._plan.pricing, partial=True))
        if self._exchange is not None:
            error.request_id = error.request_id or self._exchange.request_id
        redact_error(error, self._exchange.redactor if self._exchange else self._plan.request.redactor)
        return error


async def _next_batch(exchange: Exchange, decoder: StreamDecoder) -> list[StreamChunk]:
    """Reads until there are chunks. Returns none if the stream was closed on our side.

    Raises:
        APIError: the connection broke, a timeout ran out, or the answer went wrong.
    """
    while not decoder.done:
        try:
            data = await exchange.read(decoder.events)
        except APIConnectionError as error:
            return [] if exchange.closed else _broken_off(decoder, error)
        if data is None:
            return [] if exchange.closed else decoder.close()
        if chunks := decoder.feed(data):
            return chunks
    return decoder.close()


def _broken_off(decoder: StreamDecoder, error: APIConnectionError) -> list[StreamChunk]:
    """Returns the finished chunk if the answer was finished when its connection broke; else raises the error."""
    try:
        return decoder.close(interrupted=error.message)
    except IncompleteStreamError as incomplete:
        if isinstance(error, APITimeoutError):
            error.partial = incomplete.partial
            raise error from error.__cause__
        raise incomplete from error
