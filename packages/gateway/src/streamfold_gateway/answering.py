"""One request and its answer: asked for, written as it arrives, and given up as soon as the client is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio

from streamfold import APIError, ChatStream, ConfigError, NotConfiguredError, Reply, StreamChunk
from streamfold.adapters import Delta
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
from .http_errors import HTTPError, from_provider_error, http_error, warning_header
from .models import ModelRoute
from .rate_limits import UsageMeter
from .request_body import ClientGone, Receive
from .request_log import RequestLog
from .response_stream import DisconnectWatcher, GuardedSend, Send, Sink, SSEResponse, send_json

_PARTING = 1.0  # seconds to tell the client that the server stops
_APART = 0.1  # seconds between two pieces that must not be read as one: Node joins what comes at once
_GRACE = 10.0  # seconds for which an answer is read on whose client has left, where it counts what it used


@dataclass(slots=True)
class Answering:
    """A parsed request, and the provider that is to answer it.

    Attributes:
        dropped: warnings about parts of the request that the provider can't be asked.
        turn_cache: gives the client's earlier turns back what they have lost; None: nothing does.
        charge: learns what the request uses; None: nobody wants to know. If the client leaves, its answer is read on
            for some seconds where that `reads_on`, as the provider says at the end what it has used.
    """

    wire: ClientAPI
    asked: ClientRequest
    served: ModelRoute
    options: GatewayOptions
    log: RequestLog
    dropped: Warnings
    turn_cache: TurnCache | None = None
    charge: UsageMeter | None = None
    _gone: bool = field(default=False, init=False)
    _watched: DisconnectWatcher | None = field(default=None, init=False)

    async def run(self, receive: Receive, send: GuardedSend, sink: Sink | None = None) -> None:
        """Answers. When it returns, or is cancelled, the provider's connection is closed.

        Args:
            sink: where the events go; None: to the client.

        Raises:
            HTTPError: there is no answer, and nothing has been sent.
            ClientGone: the client left before the end.
        """
        headers = {**self._headers, **self.wire.stream_headers(self.asked)}
        sink = sink or SSEResponse(send, headers, self.options.keepalive, self.wire.keep_alive)
        writer = ReplyWriter(self.wire.emitter(self.asked))
        answered = False
        refusal: HTTPError | None = None

        self._watched = DisconnectWatcher(receive, sink if self.asked.stream else None, self._leave)
        async with self._watched:
            try:
                await (self._stream(writer, sink) if self.asked.stream else self._whole(send))
                answered = True
            except HTTPError as exc:
                refusal = exc  # raised below, behind the block
            except ClientGone:
                self._gone = True
            except anyio.get_cancelled_exc_class():
                if not self._gone:  # the server stops: what has begun must not end as if it were whole
                    self.log.stopped()
                    with anyio.move_on_after(_PARTING, shield=True):
                        await self._part(writer, sink, send)
                raise
        if self._gone and not answered:  # after the answer every client leaves
            raise ClientGone
        if refusal is not None:
            raise refusal

    def _leave(self) -> None:
        """Gives the answer up, at once or soon: its client has left."""
        if not self._gone and self._watched is not None:
            self._gone = True
            self._watched.end(_GRACE if self._reads_on else 0.0)

    async def _stream(self, writer: ReplyWriter, sink: Sink) -> None:
        """Writes the answer as it arrives."""

        waiting: list[bytes] = []

        async def write(chunk: StreamChunk, stream: ChatStream) -> None:
            waiting.append(writer.feed(chunk))
            if not stream.ready:  # what was read in one go is written in one go
                await sink.write(b"".join(waiting))
                waiting.clear()

        try:
            reply = await self._read(write, partial_tool_calls=self.wire.streams_partial_calls)
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
            await self._end_failed(sink, b"".join([*waiting, writer.fail(self.wire.stream_info(refusal), partial)]))

    async def _end_failed(self, sink: Sink, events: bytes) -> None:
        *rest, last = self.wire.writes(events)
        for piece in rest:
            await sink.write(piece)
            await anyio.sleep(_APART)
        await self._end(sink, last)

    async def _end(self, sink: Sink, events: bytes) -> None:
        """Writes the last events, when the answer is kept: its client may refer to it from then on."""
        if self.asked.keeper is not None and (note := await self.asked.keeper.save()):
            events = sse_comment(f"streamfold warning {note}") + events
        await sink.write(events, last=True)

    async def _whole(self, send: Send) -> None:
        """Sends the answer when all of it is there."""
        order, deltas = DeltaOrder(whole_calls=True), list[Delta]()

        async def keep(chunk: StreamChunk, _: ChatStream) -> None:
            deltas.extend(order.feed(chunk))

        try:
            reply = await self._read(keep, partial_tool_calls=self.wire.streams_partial_calls)
            emitter = self.wire.emitter(self.asked)
            reply = keep_call_kinds(reply, emitter.call_kinds)
            rest = order.end(reply, emitter)
            body = emitter.serialize_whole(end_deltas(reply, has_items=True) if has_items(reply) else [*deltas, *rest])
        except Exception as error:
            refusal = _refusal(error)
            raise refusal from refusal.__cause__
        note = await self.asked.keeper.save() if self.asked.keeper is not None else ""
        await send_json(send, 200, body, {**self._headers, **warning_header(reply.warnings, note)})
        self.log.completed(reply)

    async def _read(
        self, take: Callable[[StreamChunk, ChatStream], Awaitable[None]], *, partial_tool_calls: bool = False
    ) -> Reply:
        """Gives all chunks to `take`, and returns the whole answer.

        Raises:
            HTTPError: the request does not fit the provider, or the provider can't be asked.
            APIError: the provider failed.
        """
        charge = self.charge
        try:
            stream = self.served.stream(
                self.asked.request,
                repair_history=self.options.repair_history,
                partial_tool_calls=partial_tool_calls,
                turn_cache=self.turn_cache,
            )
            if charge is not None:
                charge.begin(stream)
            async with stream:
                async for chunk in stream:
                    if charge is not None:
                        charge.take(chunk)
                    if not self._gone:
                        await self._show(take, chunk, stream)
                if charge is not None:
                    charge.answered(stream.reply)
                if self._gone:
                    raise ClientGone
                return _with_warnings(without_non_finite(stream.reply), self.dropped)
        except APIError as error:
            if charge is not None:
                charge.failed(error)
            raise
        except ConfigError as error:
            if charge is not None:
                charge.not_sent()
            if isinstance(error, NotConfiguredError):
                why = "the server is misconfigured for this model; see its log"
                raise http_error(500, why, x_should_retry="false") from error
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

    async def _part(self, writer: ReplyWriter, sink: Sink, send: Send) -> None:
        refusal = http_error(
            503, "service unavailable: the server is shutting down"
        )  # words that make agents ask again
        if sink.started:
            await self._end_failed(sink, writer.fail(self.wire.info(refusal)))
        else:
            await send_json(send, *self.wire.error(refusal, self.asked.id), self._headers)

    async def settle(self) -> None:
        """Charges what it has used, if anybody wants to know."""
        if self.charge is not None:
            await self.charge.aclose()

    @property
    def _reads_on(self) -> bool:
        return self.charge is not None and self.charge.reads_on

    @property
    def _headers(self) -> dict[str, str]:
        return self.wire.headers(self.asked.id)


def _refusal(error: Exception) -> HTTPError:
    """The refusal for any failure, with the failure as its cause."""
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
