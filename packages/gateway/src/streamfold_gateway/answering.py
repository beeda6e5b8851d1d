"""Sends a request to its provider and writes the answer as it arrives, until the client disconnects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import anyio

from streamfold import APIError, ChatStream, ConfigError, NotConfiguredError, Reply, StreamChunk
from streamfold.adapters import Delta
from streamfold.limits import reserving_parts
from streamfold.serving import (
    DeltaOrder,
    ReplyWriter,
    end_deltas,
    has_items,
    keep_call_kinds,
    sse_comment,
    without_non_finite,
)
from streamfold.turn_cache import TurnCache

from .apis import ClientAPI, ClientRequest, Warnings
from .config import GatewayOptions
from .http_errors import HTTPError, from_provider_error, http_error, misconfigured, warning_header
from .models import ModelRoute
from .rate_limits import UsageMeter
from .request_body import ClientGone, Receive
from .request_log import RequestLog
from .response_stream import DisconnectWatcher, GuardedSend, Send, Sink, SSEResponse, send_json

_SHUTDOWN_SECONDS = 1.0  # seconds in which clients are told that the server stops
_PIECE_DELAY = 0.1  # seconds between two pieces that must not arrive as one: Node joins what comes at once
_READ_ON_SECONDS = 10.0  # seconds for which an answer is read after its client has left, where its usage is charged


@dataclass(slots=True)
class Answering:
    """A parsed request with the provider that answers it.

    Attributes:
        dropped: warnings about parts of the request that are not sent.
        turn_cache: restores earlier turns of the client; None: none are restored.
        meter: charges what the request uses; None: the client has no limits. With `reads_on`, an answer whose client
            has left is read for some seconds more, because its usage comes at the end.
    """

    api: ClientAPI
    request: ClientRequest
    route: ModelRoute
    options: GatewayOptions
    log: RequestLog
    dropped: Warnings
    turn_cache: TurnCache | None = None
    meter: UsageMeter | None = None
    _gone: bool = field(default=False, init=False)
    _watched: DisconnectWatcher | None = field(default=None, init=False)

    async def run(self, receive: Receive, send: GuardedSend, sink: Sink | None = None) -> None:
        """Answers the request. When it returns or is cancelled, the connection to the provider is closed.

        Args:
            sink: gets the events; None: the client does.

        Raises:
            HTTPError: there is no answer, and nothing has been sent.
            ClientGone: the client left before the end.
        """
        headers = {**self._headers, **self.api.stream_headers(self.request)}
        sink = sink or SSEResponse(send, headers, self.options.keepalive, self.api.keep_alive)
        writer = ReplyWriter(self.api.serializer(self.request, self.options))
        answered = False
        refusal: HTTPError | None = None

        self._watched = DisconnectWatcher(receive, sink if self.request.stream else None, self._leave)
        async with self._watched:
            try:
                await (self._stream(writer, sink) if self.request.stream else self._whole(send))
                answered = True
            except HTTPError as exc:
                refusal = exc  # raised below, outside the block
            except ClientGone:
                self._gone = True
            except anyio.get_cancelled_exc_class():
                if not self._gone:  # the server stops: an answer that has begun must not look complete
                    self.log.stopped()
                    with anyio.move_on_after(_SHUTDOWN_SECONDS, shield=True):
                        await self._send_shutdown_error(writer, sink, send)
                raise
        if self._gone and not answered:  # after the answer every client leaves
            raise ClientGone
        if refusal is not None:
            raise refusal

    def _leave(self) -> None:
        """Ends the answer, now or in some seconds: its client has left."""
        if not self._gone and self._watched is not None:
            self._gone = True
            self._watched.end(_READ_ON_SECONDS if self._reads_on else 0.0)

    async def _stream(self, writer: ReplyWriter, sink: Sink) -> None:
        """Writes the answer as it arrives."""

        waiting: list[bytes] = []

        async def write(chunk: StreamChunk, stream: ChatStream) -> None:
            waiting.append(writer.feed(chunk))
            if not stream.ready:  # what was read at once is written at once
                await sink.write(b"".join(waiting))
                waiting.clear()

        try:
            reply = await self._read(write, partial_tool_calls=self.api.streams_partial_calls)
            await self._end(sink, writer.finish(reply))
            self.log.completed(reply)
        except ClientGone:
            raise
        except Exception as error:
            refusal = _refusal(error)
            if not sink.started:
                sink.ended = True
                raise refusal from refusal.__cause__
            self.log.failed(refusal)
            partial = error.partial if isinstance(error, APIError) else None
            await self._end_failed(sink, b"".join([*waiting, writer.fail(self.api.stream_info(refusal), partial)]))

    async def _end_failed(self, sink: Sink, events: bytes) -> None:
        *rest, last = self.api.split_failure(events)
        for piece in rest:
            await sink.write(piece)
            await anyio.sleep(_PIECE_DELAY)
        await self._end(sink, last)

    async def _end(self, sink: Sink, events: bytes) -> None:
        """Writes the last events once the answer is stored: its client may refer to it from then on."""
        if self.request.recorder is not None and (note := await self.request.recorder.save()):
            events = sse_comment(f"streamfold warning {note}") + events
        await sink.write(events, last=True)

    async def _whole(self, send: Send) -> None:
        """Sends the whole answer as JSON."""
        order, deltas = DeltaOrder(whole_calls=True), list[Delta]()

        async def keep(chunk: StreamChunk, _: ChatStream) -> None:
            deltas.extend(order.feed(chunk))

        try:
            reply = await self._read(keep, partial_tool_calls=self.api.streams_partial_calls)
            serializer = self.api.serializer(self.request, self.options)
            reply = keep_call_kinds(reply, serializer.call_kinds)
            rest = order.end(reply, serializer)
            body = serializer.serialize_whole(
                end_deltas(reply, has_items=True) if has_items(reply) else [*deltas, *rest]
            )
        except Exception as error:
            refusal = _refusal(error)
            raise refusal from refusal.__cause__
        note = await self.request.recorder.save() if self.request.recorder is not None else ""
        await send_json(send, 200, body, {**self._headers, **warning_header(reply.warnings, note)})
        self.log.completed(reply)

    async def _read(
        self, take: Callable[[StreamChunk, ChatStream], Awaitable[None]], *, partial_tool_calls: bool = False
    ) -> Reply:
        """Passes all chunks to `take` and returns the reply.

        Raises:
            HTTPError: the request can't be sent to the provider.
            APIError: the provider failed.
        """
        meter = self.meter
        try:
            stream = self.route.stream(
                self.request.parsed,
                repair_history=self.options.repair_history,
                partial_tool_calls=partial_tool_calls,
                turn_cache=self.turn_cache,
            )
            if meter is not None:
                meter.begin(stream)
            parts = nullcontext() if meter is None else reserving_parts(meter.next_part)
            async with stream:
                with parts:
                    async for chunk in stream:
                        if meter is not None:
                            meter.take(chunk)
                        if not self._gone:
                            await self._show(take, chunk, stream)
                if meter is not None:
                    meter.answered(stream.reply)
                if self._gone:
                    raise ClientGone
                return _with_warnings(without_non_finite(stream.reply), self.dropped)
        except APIError as error:
            if meter is not None:
                meter.failed(error)
            raise
        except ConfigError as error:
            if meter is not None:
                meter.not_sent()
            if isinstance(error, NotConfiguredError):
                raise misconfigured() from error
            raise http_error(400, error.problem) from error

    async def _show(
        self, take: Callable[[StreamChunk, ChatStream], Awaitable[None]], chunk: StreamChunk, stream: ChatStream
    ) -> None:
        try:
            await take(chunk, stream)
        except ClientGone:
            if not self._reads_on:
                raise
            self._leave()

    async def _send_shutdown_error(self, writer: ReplyWriter, sink: Sink, send: Send) -> None:
        refusal = http_error(
            503, "service unavailable: the server is shutting down"
        )  # words that make agents ask again
        if sink.started:
            await self._end_failed(sink, writer.fail(self.api.info(refusal)))
        else:
            await send_json(send, *self.api.error_response(refusal, self.request.id))

    async def settle(self) -> None:
        """Charges what the request has used."""
        if self.meter is not None:
            await self.meter.aclose()

    @property
    def _reads_on(self) -> bool:
        return self.meter is not None and self.meter.reads_on

    @property
    def _headers(self) -> dict[str, str]:
        return self.api.headers(self.request.id)


def _refusal(error: Exception) -> HTTPError:
    """Returns the error response for any failure, with the failure as its cause."""
    if isinstance(error, HTTPError):
        return error
    made = (
        from_provider_error(error)
        if isinstance(error, APIError)
        else http_error(500, "the server failed; its log says how")
    )
    made.__cause__ = error
    return made


def _with_warnings(reply: Reply, more: Warnings) -> Reply:
    return replace(reply, warnings=[*more, *reply.warnings]) if more else reply
