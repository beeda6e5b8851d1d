"""Sends a request to its provider and writes the response as it arrives, until the client disconnects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import anyio

from streamfold import APIError, ChatStream, ConfigError, NotConfiguredError, Reply, ReplyWarning, StreamChunk
from streamfold.adapters import Delta
from streamfold.client import requests_of
from streamfold.limits import reserving_parts
from streamfold.serving import (
    DeltaOrder,
    ReplyWriter,
    StreamSerializer,
    end_deltas,
    has_items,
    keep_call_kinds,
    warning_comment,
    without_non_finite,
)
from streamfold.turn_cache import TurnCache

from .apis import ClientAPI, ClientRequest
from .config import GatewayOptions
from .http_errors import HTTPError, from_provider_error, http_error, misconfigured, warning_header
from .rate_limits import Meter
from .request_body import ClientGone
from .request_log import RequestLog

_SHUTDOWN_SECONDS = 1.0  # seconds in which clients are told that the server stops
_PIECE_DELAY = 0.1  # seconds between two pieces that must not arrive as one: Node joins what comes at once
_READ_ON_SECONDS = 10.0  # seconds for which an answer is read after its client has left, where its usage is charged


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """A client's request in the form for its provider.

    Attributes:
        owner: the client, as in `GatewayKey.id`.
        warnings: warnings about parts of the request that aren't sent.
        turn_cache: restores earlier turns of the client; None: turns aren't restored.
    """

    api: ClientAPI
    request: ClientRequest
    owner: str
    warnings: tuple[ReplyWarning, ...]
    turn_cache: TurnCache | None
    options: GatewayOptions
    log: RequestLog


class AnswerOutput(Protocol):
    """The output of a response: its client (`ResponseStream`), or a background response.

    Attributes:
        gone: true if the client has disconnected, or the response was canceled.
    """

    gone: bool

    @property
    def started(self) -> bool:
        """True if events have been written, so that the response can no longer be an error."""
        ...

    def while_connected(self, grace: float) -> AbstractAsyncContextManager[object]:
        """Returns a block that is cancelled when `gone` becomes true; it then raises ClientGone."""
        ...

    def leave(self) -> None:
        """Ends the block, immediately or in `grace` seconds."""
        ...

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Writes events. Raises ClientGone if the client has disconnected."""
        ...

    async def send_json(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        """Sends a response without streaming."""
        ...


class ResponseRecorder(Protocol):
    """Records a response of the Responses API while it is written."""

    def begin_answer(self, request: ClientRequest, options: GatewayOptions) -> StreamSerializer:
        """Returns the serializer of the response, whose events are recorded."""
        ...

    async def save(self) -> str:
        """Stores the recorded events. Returns a warning for the client, or ""."""
        ...


async def answer_request(
    routed: RoutedRequest, output: AnswerOutput, meter: Meter, recorder: ResponseRecorder | None = None
) -> None:
    """Sends a request to its model and writes the response. Closes the connection to the provider at the end.

    Args:
        meter: charges the usage of the request. If `meter.reads_on` is set and the client disconnects, the stream is
            read for some seconds more, because the usage arrives at the end.
        recorder: stores the response; None: the response isn't stored.

    Raises:
        HTTPError: the request failed before any part of the response was sent.
        ClientGone: the client disconnected before the end.
    """
    making = _Answer(routed, output, meter, recorder)
    try:
        with requests_of(routed.owner):
            async with output.while_connected(_READ_ON_SECONDS if meter.reads_on else 0.0):
                try:
                    await (making.stream() if routed.request.stream else making.send_whole())
                except anyio.get_cancelled_exc_class():
                    if not output.gone:  # the server stops: an answer that has begun must not look complete
                        routed.log.stopped()
                        with anyio.move_on_after(_SHUTDOWN_SECONDS, shield=True):
                            await making.send_shutdown_error()
                    raise
    finally:
        await meter.aclose()


class _Answer:
    """A response while it is read and written."""

    def __init__(
        self, routed: RoutedRequest, output: AnswerOutput, meter: Meter, recorder: ResponseRecorder | None
    ) -> None:
        self._routed = routed
        self._api = routed.api
        self._output = output
        self._meter = meter
        self._recorder = recorder
        if recorder is None:
            self._serializer = routed.api.serializer(routed.request, routed.options)
        else:
            self._serializer = recorder.begin_answer(routed.request, routed.options)
        self._writer = ReplyWriter(self._serializer)

    async def stream(self) -> None:
        """Writes the response as it arrives."""
        output, writer, log, waiting = self._output, self._writer, self._routed.log, list[bytes]()

        async def write(chunk: StreamChunk, stream: ChatStream) -> None:
            waiting.append(writer.feed(chunk))
            if not stream.ready:  # what was read at once is written at once
                await output.write(b"".join(waiting))
                waiting.clear()

        try:
            reply = await self._read(write)
            await self._end(writer.finish(reply))
            log.completed(reply)
        except ClientGone:
            raise
        except Exception as error:
            refusal = _refusal(error)
            if not output.started:
                raise refusal from refusal.__cause__
            log.failed(refusal)
            partial = error.partial if isinstance(error, APIError) else None
            await self._end_failed(b"".join([*waiting, writer.fail(self._api.stream_info(refusal), partial)]))

    async def send_whole(self) -> None:
        """Sends the complete response as JSON."""
        order, deltas, serializer = DeltaOrder(whole_calls=True), list[Delta](), self._serializer

        async def keep(chunk: StreamChunk, _: ChatStream) -> None:
            deltas.extend(order.feed(chunk))

        try:
            reply = keep_call_kinds(await self._read(keep), serializer.call_kinds)
            if self._routed.request.parsed.compact:
                body = self._api.compaction_body(self._routed.request, reply)
            else:
                rest = order.end(reply, serializer)
                body = serializer.serialize_whole(
                    end_deltas(reply, has_items=True) if has_items(reply) else [*deltas, *rest]
                )
        except Exception as error:
            refusal = _refusal(error)
            raise refusal from refusal.__cause__
        note = "" if self._recorder is None else await self._recorder.save()
        headers = {**self._api.headers(self._routed.request.id), **warning_header(reply.warnings, note)}
        await self._output.send_json(200, body, headers)
        self._routed.log.completed(reply)

    async def send_shutdown_error(self) -> None:
        """Ends the response with an error whose message makes agents retry."""
        refusal = http_error(503, "service unavailable: the server is shutting down")
        if self._output.started:
            await self._end_failed(self._writer.fail(self._api.info(refusal)))
        else:
            await self._output.send_json(*self._api.error_response(refusal, self._routed.request.id))

    async def _end_failed(self, events: bytes) -> None:
        *rest, last = self._api.split_failure(events)
        for piece in rest:
            await self._output.write(piece)
            await anyio.sleep(_PIECE_DELAY)
        await self._end(last)

    async def _end(self, events: bytes) -> None:
        """Writes the last events after the response is stored, so that the client can refer to it."""
        if self._recorder is not None and (note := await self._recorder.save()):
            events = warning_comment(note) + events
        await self._output.write(events, last=True)

    async def _read(self, take: Callable[[StreamChunk, ChatStream], Awaitable[None]]) -> Reply:
        """Passes all chunks to `take` and returns the reply.

        Raises:
            HTTPError: the request can't be sent to the provider.
            APIError: the provider failed.
        """
        routed, output, meter = self._routed, self._output, self._meter
        try:
            stream = routed.request.route.stream(
                routed.request.parsed,
                repair_history=routed.options.repair_history,
                partial_tool_calls=self._api.streams_partial_calls,
                turn_cache=routed.turn_cache,
            )
            meter.begin(stream)
            async with stream:
                with reserving_parts(meter.next_part):
                    async for chunk in stream:
                        meter.take(chunk)
                        if output.gone:
                            continue
                        try:
                            await take(chunk, stream)
                        except ClientGone:
                            if not meter.reads_on:
                                raise
                            output.leave()
                meter.answered(stream.reply)
                if output.gone:
                    raise ClientGone
                reply = without_non_finite(stream.reply)
                return replace(reply, warnings=[*routed.warnings, *reply.warnings]) if routed.warnings else reply
        except APIError as error:
            meter.failed(error)
            raise
        except ConfigError as error:
            meter.not_sent()
            if isinstance(error, NotConfiguredError):
                raise misconfigured() from error
            raise http_error(400, error.problem) from error


def _refusal(error: Exception) -> HTTPError:
    """Returns the error response for a failure, with the failure as its cause."""
    if isinstance(error, HTTPError):
        return error
    made = (
        from_provider_error(error)
        if isinstance(error, APIError)
        else http_error(500, "internal error; see the server's log")
    )
    made.__cause__ = error
    return made
