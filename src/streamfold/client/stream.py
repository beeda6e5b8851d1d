"""One answer over the network: attempts until it begins, then its chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import anyio

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
    StreamfoldError,
    Timing,
)
from .hooks import Asked, Hooks
from .partial import Partial, PartialReader

if TYPE_CHECKING:
    import httpx
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)

__all__ = ["Answer", "Answering", "ChatStream", "Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that it takes to get one answer.

    Attributes:
        provider: what errors call it.
        client: gives the client to send with.
        decoder: makes a fresh decoder for each attempt.
        max_retries: how often a request is sent again that failed before its first chunk.
        changes: what was asked for and is not sent: the reply will say so.
        secrets: what must never be shown, should the server echo it.
        origin: the `origin` of the message that the answer is.
        asked, hooks: what is asked for, and who is told how it goes.
        retry_without: given a 400, returns a plan that leaves out the part that the server refused, or None.
    """

    provider: str
    request: HTTPRequest
    client: Callable[[], httpx.AsyncClient]
    decoder: Callable[[], StreamDecoder]
    max_retries: int
    asked: Asked
    changes: Sequence[ProtocolWarning] = ()
    hooks: Sequence[Hooks] = ()
    secrets: Sequence[str] = field(default=(), repr=False)
    origin: str | None = None
    retry_without: Callable[[APIError], Plan | None] = lambda _: None


class Answering(Protocol):
    """Where the chunks of a `ChatStream` come from.

    Attributes:
        reply: the whole answer, once its last chunks have been handed out.
    """

    @property
    def reply(self) -> Reply | None: ...

    def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """The chunks, those of one network read together. Called once."""
        ...

    async def aclose(self) -> None:
        """Closes the connection; whoever waits for it finds it closed."""
        ...


class ChatStream:
    """The chunks of one answer: an async iterator, and a context manager that closes the connection when it is left.

    A bare `async for` is fine too: the connection is closed at the end of the answer, and when the stream is abandoned,
    as soon as Python lets go of it.
    """

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        # The generator must not know this object: when the caller drops it, the generator goes too, and the event
        # loop's hook for abandoned generators runs its `finally`.
        self._batches = answer.batches()
        self._next_batch = self._batches.__anext__
        self._ready: Iterator[StreamChunk] = iter(())
        self._closed = self._ended = False  # ended: the finished chunk was handed out
        self._reading = False
        self._deltas: list[str] = []  # of the text that was handed out, for `partial`
        self._counted = self._size = 0  # of these, how many were counted, and the characters in them
        self._readers: dict[type, PartialReader[Any]] = {}

    @property
    def reply(self) -> Reply:
        """The whole answer. Raises StreamfoldError before the finished chunk was handed out."""
        if self._answer.reply is None or not self._ended:
            raise StreamfoldError("there is no reply yet: read the stream to its finished chunk first")
        return self._answer.reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamChunk:
        chunk = next(self._ready, None)
        while chunk is None:
            if self._closed:
                raise StopAsyncIteration
            if self._reading:
                raise StreamfoldError("another task is reading this stream: one stream has one reader")
            self._reading = True
            try:
                self._ready = iter(await self._next_batch())
            finally:
                self._reading = False
            chunk = next(self._ready, None)
        if chunk.finished:
            self._ended = True
        self._deltas.append(chunk.delta)
        return chunk

    def partial(self, model: type[M]) -> Partial[M] | None:
        """What has come so far of an answer that is to be a `model`; None if that is nothing yet.

        Each field of it is None until something of it has come, texts grow, and no validator is asked: see `Partial`.
        May be asked after each chunk: a text of more than 4096 characters is parsed again when it has grown by a
        thirty-second part, and at the end, so that in between the value is a little behind. An answer that had to be
        asked for as a tool call (`ChatQuirks.response_format`) comes in one piece, at the end.

        Raises:
            ConfigError: there is no partial form of the model: it is a RootModel.
        """
        reader = self._readers.get(model)
        if reader is None:
            reader = self._readers[model] = PartialReader(model)
        reply = self._answer.reply if self._ended else None
        self._size += sum(map(len, islice(self._deltas, self._counted, None)))
        self._counted = len(self._deltas)
        if reply is not None and reply.answer is not None:
            return reader.read(self._size, lambda: str(reply.answer), whole=True)
        return reader.read(self._size, self._text, whole=reply is not None)

    def _text(self) -> str:
        self._deltas, self._counted = ["".join(self._deltas)], 1
        return self._deltas[0]

    async def aclose(self) -> None:
        """Closes the connection; it is closed when this returns. From any task, as often as one likes.

        A task that waits for a chunk sees the iteration end.
        """
        self._closed = True
        self._ready = iter(())
        await self._answer.aclose()
        if not self._reading:
            self._reading = True  # a generator is closed by one task, as it is read by one
            try:
                await self._batches.aclose()
            finally:
                self._reading = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class Answer:
    """One answer being got: attempts up to its first chunk, then the rest of that attempt."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._exchange: Exchange | None = None
        self._closed = False
        self._began = 0.0
        self._headers_at: float | None = None
        self._attempts: list[Attempt] = []
        self._retries = 0
        self.reply: Reply | None = None

    async def aclose(self) -> None:
        """Closes the connection; whoever waits for it finds it closed."""
        self._closed = True
        if self._exchange is not None:
            await self._exchange.aclose()

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """The chunks of the answer; those of one network read come together."""
        if self._closed:
            return
        self._began = anyio.current_time()
        try:
            exchange, decoder, batch = await self._begin()
            first_chunk = self._since_began()
            if batch:
                self._tell("on_first_chunk", first_chunk)
            while batch and not batch[-1].finished:
                yield batch
                batch = await _next_batch(exchange, decoder)
            if batch:
                self.reply = self._reply(decoder, Timing(self._headers_at, first_chunk, self._since_began()))
                self._tell("on_finish", self.reply)
                yield batch
                await exchange.drain()
        except APIError as error:
            if not self._closed:  # else whatever broke, it was we who broke it
                self._tell("on_error", self._signed(error))
                raise
        finally:
            try:
                await self.aclose()
            finally:
                self._tell("on_close")

    async def _begin(self) -> tuple[Exchange, StreamDecoder, list[StreamChunk]]:
        """Sends the request until an attempt brings a chunk: nothing has been shown, so nothing can be shown twice."""
        clocks = Clocks(self._plan.request.timeouts, self._began)
        pause = 0.0
        while True:
            exchange = self._exchange = Exchange(self._plan.client(), self._plan.request, clocks)
            decoder = self._plan.decoder()
            await exchange.pause(pause)
            try:
                if not self._closed:
                    self._tell("on_request")
                await exchange.open()
                self._headers_at = self._since_began()
                return exchange, decoder, await _next_batch(exchange, decoder)
            except APIError as error:
                await exchange.aclose()
                if self._closed or (wanted := self._next_try(error, clocks)) is None:
                    raise
                pause = wanted

    def _next_try(self, error: APIError, clocks: Clocks) -> float | None:
        """Seconds until the next attempt, which is noted; None if there is to be none."""
        if (milder := self._plan.retry_without(error)) is not None:
            self._plan, pause = milder, 0.0
        else:
            wanted = retry_delay(error, self._retries) if self._retries < self._plan.max_retries else None
            if wanted is None or anyio.current_time() + wanted >= clocks.ends:
                return None
            self._retries, pause = self._retries + 1, wanted
        failed = Attempt(self._plan.provider, self._signed(error).message, type(error).__name__, pause)
        self._tell("on_retry", failed)
        self._attempts.append(failed)
        return pause

    def _reply(self, decoder: StreamDecoder, timing: Timing) -> Reply:
        plan, reply = self._plan, decoder.reply
        return replace(
            reply,
            request_id=self._exchange.request_id if self._exchange else None,
            timing=timing,
            warnings=[*plan.changes, *reply.warnings],
            attempts=tuple(self._attempts),
            provider=plan.provider,
            origin=plan.origin,
        )

    def _tell(self, what: str, *said: object) -> None:
        for hooks in self._plan.hooks:
            if (hook := getattr(hooks, what)) is not None:
                hook(self._plan.asked, *said)

    def _since_began(self) -> float:
        return anyio.current_time() - self._began

    def _signed(self, error: APIError) -> APIError:
        error.provider = self._plan.provider
        error.attempts = tuple(self._attempts)
        if self._exchange is not None:
            error.request_id = error.request_id or self._exchange.request_id
        redact_error(error, self._plan.secrets)
        return error


async def _next_batch(exchange: Exchange, decoder: StreamDecoder) -> list[StreamChunk]:
    """Reads until there are chunks. None at all: the stream was closed on our side.

    Raises:
        APIError: the connection broke, a clock ran out, or the answer went wrong.
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
    """What is left of an answer whose connection broke: the finished chunk if it was finished, else an error."""
    try:
        return decoder.close(interrupted=error.message)
    except IncompleteStreamError as incomplete:
        if isinstance(error, APITimeoutError):
            error.partial = incomplete.partial
            raise error from error.__cause__
        raise incomplete from error
