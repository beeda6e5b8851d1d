"""Handles HTTP requests: parses each request, finds its provider, applies limits, and sends the provider's response to
the client as it arrives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from time import time
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import anyio
from anyio.abc import TaskGroup
from starlette.datastructures import Headers, QueryParams
from starlette.routing import Route

from streamfold import APIError, ConfigError, NotConfiguredError, Reply
from streamfold.client import requests_of, reserving_parts
from streamfold.serving import ObjectReader, ReplyWriter, StreamSerializer
from streamfold.stores import StoreError
from streamfold.turn_cache import TurnCache, named_end_user

from .apis import (
    APIEndpoint,
    ClientAPI,
    ClientRequest,
    counted_tokens,
    permitted_members,
    with_operator_members,
)
from .auth import Authenticator, GatewayKey
from .config import GatewayOptions
from .conversation import repair_conversation
from .http_errors import HTTPError, from_provider_error, http_error, misconfigured, warning_header, with_warning
from .metrics import Metrics
from .models import ModelRouter
from .rate_limits import KeyRateLimits, Meter
from .request_body import Capacity, ClientGone, Receive, RequestBody, run_sized
from .request_log import RequestLog, log_json
from .response_stream import ResponseStream, Send

_LONGEST_NAME = 256  # maximum characters of a model name
_SHUTDOWN_SECONDS = 1.0  # seconds for sending errors to clients when the server stops
_PIECE_DELAY = 0.1  # seconds between two writes, because Node joins data that arrives together
_READ_ON_SECONDS = 10.0  # seconds for which a stream is read after the client has disconnected


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """An HTTP request of an authenticated client, its response, and its log."""

    api: ClientAPI
    endpoint: APIEndpoint
    scope: Any
    receive: Receive
    response: ResponseStream
    client: GatewayKey
    log: RequestLog


class AnswerOutput(Protocol):
    """The destination of a response. `ResponseStream` sends the response to the client; the recorders of stored
    responses also store it.
    """

    @property
    def gone(self) -> bool:
        """True if the client has disconnected, or the response has been cancelled."""
        ...

    @property
    def started(self) -> bool:
        """True if the first event has been sent to the client, so that an HTTP error response is no longer possible."""
        ...

    def while_connected(self, grace: float) -> AbstractAsyncContextManager[object]:
        """Returns an async context manager. `grace` seconds after `gone` becomes true, the context manager cancels its
        block and raises ClientGone.
        """
        ...

    def leave(self) -> None:
        """Sets `gone`. Cancels the block of `while_connected`, after `grace` seconds if `grace` isn't 0."""
        ...

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Sends events to the client. Raises ClientGone if the client has disconnected."""
        ...

    async def send_json(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        """Sends a response that isn't streamed."""
        ...


Handler: TypeAlias = Callable[[IncomingRequest], Awaitable[None]]


class APIRoute:
    """The ASGI app for one URL path. It is a class, because Starlette would call a function with a `Request` object
    instead of the ASGI arguments.
    """

    def __init__(self, answer: Callable[[Any, Receive, Send], Awaitable[None]]) -> None:
        self.answer = answer

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await self.answer(scope, receive, send)


class RequestHandler:
    """Handles the requests of clients, within the limits in `GatewayOptions`."""

    def __init__(
        self,
        models: ModelRouter,
        access: Authenticator,
        options: GatewayOptions,
        turn_cache: TurnCache | None,
        rate_limits: KeyRateLimits,
        metrics: Metrics | None,
    ) -> None:
        self.access = access
        self.capacity = Capacity(options, metrics.running if metrics else None)
        self.options = options
        self._models = models
        self._turn_cache = turn_cache
        self.rate_limits = rate_limits
        self._observers = [*([metrics.observe] if metrics else []), *([log_json] if options.json_log else [])]

    def make_route(self, path: str, method: str, handle: Handler, api: ClientAPI, endpoint: APIEndpoint) -> Route:
        """Returns a route that calls `handle` for each request with this HTTP method and URL path."""
        return Route(path, APIRoute(partial(self._handle, handle, api, endpoint)), methods=[method])

    async def _handle(
        self, handle: Handler, api: ClientAPI, endpoint: APIEndpoint, scope: Any, receive: Receive, send: Send
    ) -> None:
        """Authenticates the client and calls `handle`. If either fails, sends an error response to the client."""
        log = RequestLog(endpoint.id_prefix + token_hex(16), api.adapter, self._observers)
        response = ResponseStream(receive, send, self.options.send_timeout)
        try:
            try:
                client = self.access.check(scope)
                log.key = client.name
                await handle(IncomingRequest(api, endpoint, scope, receive, response, client, log))
            except (HTTPError, StoreError) as error:
                refusal = _error_response(error)
                log.failed(refusal)
                await response.send_json(*api.error_response(refusal, log.id))
        except ClientGone:
            log.disconnected()

    async def answer(self, incoming: IncomingRequest) -> None:
        """Handles a request for a model's response, without storing the response."""
        async with self.body(incoming) as body:
            await self.reply(incoming, body)

    def body(self, incoming: IncomingRequest) -> RequestBody:
        """Returns a context manager that receives and parses the request's body."""
        return RequestBody(self.capacity, incoming.scope, incoming.receive)

    async def reply(self, incoming: IncomingRequest, body: RequestBody) -> None:
        """Handles a request whose body has been parsed, without storing the response.

        Raises:
            HTTPError: the request is invalid, its model is unknown, or the provider failed.
            ClientGone: the client disconnected before the end of the response.
        """
        api, log, response = incoming.api, incoming.log, incoming.response
        request = await self.parse(incoming, body)
        if request.parsed.compact and request.route.adapters != {api.adapter}:
            # as from a server without this endpoint: clients then write a summary themselves
            raise http_error(404, f"the provider of the model {request.model!r} doesn't compact conversations")
        request = self.adapt(request)
        if member := incoming.endpoint.count_member:
            number, estimated = await counted_tokens(request)
            headers = with_warning(api.headers(log.id), estimated)
            await response.send_json(200, api.count_body(member, number), headers)
            log.answered(estimated or "counted by the provider")
            return
        await self.send_reply(incoming, request, api.serializer(request, self.options), response)

    async def send_reply(
        self, incoming: IncomingRequest, request: ClientRequest, serializer: StreamSerializer, output: AnswerOutput
    ) -> None:
        """Reserves usage for a request, sends the request to its provider, and sends the provider's response to
        `output`.

        Args:
            output: the destination of the response: `incoming.response`, or a recorder that stores the response too.

        Raises:
            HTTPError, ClientGone: see `reply`.
        """
        meter = await self.rate_limits.reserve(request)
        if request.stream:
            headers = {**request.api.headers(request.id), **request.api.stream_headers(request)}
            incoming.response.stream_events(headers, self.options.keepalive, request.api.keep_alive)
        await Answer(request, serializer, output, meter, self.options).send()

    async def parse(self, incoming: IncomingRequest, body: RequestBody) -> ClientRequest:
        """Parses the body of a client's request, and finds the provider for its model.

        Raises:
            HTTPError: the request is invalid, or its model is unknown.
        """
        return await run_sized(body.size, partial(self._parse, incoming, body))

    def _parse(self, incoming: IncomingRequest, body: RequestBody) -> ClientRequest:
        api, endpoint, client, log = incoming.api, incoming.endpoint, incoming.client, incoming.log
        value, most = body.value, self.options.max_objects
        if body.size > 2 * most and (count := _objects_in(value)) > most:  # the shortest object has two bytes
            raise http_error(400, f"too many JSON objects: {count}; allowed are {most}")
        headers, params = Headers(scope=incoming.scope), incoming.scope["path_params"]
        if query := incoming.scope["query_string"]:
            params = {**QueryParams(query), **params}
        try:
            fields = ObjectReader(value)
            model = api.model(fields, params)
            if len(model) > _LONGEST_NAME:
                raise http_error(400, f"the model's name has {len(model)} characters; allowed are {_LONGEST_NAME}")
            log.model = model
            user = named_end_user(value, headers)  # even if the field isn't sent to the provider
            any_model = client.options.any_model and "*" in self.options.allow_models
            value, warnings = permitted_members(value, api.members, client.options, any_model=any_model)
            route = self._models.resolve(model, client)
            read = api.counted_body(value) if endpoint.count_member else value
            parsed = api.parse(read, params, native=route.adapters == {api.adapter})
            if endpoint.compacts:
                parsed = replace(parsed, compact=True)
            stream = bool(fields.flag("stream")) if endpoint.streams is None else endpoint.streams
        except ConfigError as error:
            raise http_error(400, error.problem, cause=error) from error
        except RecursionError:
            raise http_error(400, "the request body is nested too deeply") from None
        return ClientRequest(
            api=api, client=client, log=log, body=value, parsed=parsed, route=route, stream=stream, id=log.id,
            created=int(time()), headers=headers, params=params, warnings=warnings, end_user=user,
        )  # fmt: skip

    def adapt(self, request: ClientRequest) -> ClientRequest:
        """Converts a parsed request to the form in which the provider accepts it.

        Raises:
            HTTPError: the gateway can't convert the request for this provider.
        """
        api, route = request.api, request.route
        try:
            if not self.options.forward_client_ids:
                request = api.without_client_ids(request)
            request = api.adapt_request(request, route.adapters)
        except ConfigError as error:
            raise http_error(400, error.problem, cause=error) from error
        request = with_operator_members(request, route.endpoints)
        messages, repaired = repair_conversation(
            request.parsed.messages, route.adapters, own=api.adapter, continues=api.continues
        )
        if repaired:
            request = replace(request, parsed=replace(request.parsed, messages=messages)).with_warnings(repaired)
        if self._turn_cache is not None and route.takes_arguments and not request.parsed.compact:
            cache = self._turn_cache.of(request.client.id, end_user=request.end_user, ids=api.returns_ids)
            request = replace(request, turn_cache=cache)
        return request


class AppTaskGroup:
    """Runs background tasks, which may continue after the end of the request that started them. When the app stops, it
    cancels them.
    """

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None

    @property
    def entered(self) -> bool:
        """True if the app has started, so that it can run tasks."""
        return self._tasks is not None

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)  # None, because the task group would wrap the error

    def start(self, task: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Runs a function as a background task, if the app has started."""
        if self._tasks is not None:
            self._tasks.start_soon(task)

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[TaskGroup]:
        """Yields a task group for work that continues after the client has disconnected. In a mounted app without
        lifespan events, the `async with` block ends only when all tasks of the group have ended.
        """
        if self._tasks is not None:
            yield self._tasks
            return
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            except (ClientGone, HTTPError) as exc:
                failed = exc
        if failed is not None:
            raise failed


def _objects_in(value: Any) -> int:
    count, todo = 0, [value]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            count += 1
            todo += found.values()
        elif isinstance(found, list):
            todo += found
    return count


class Answer:
    """Sends one request to its provider, and the provider's response to the client.

    Args:
        request: the request in the form in which the provider accepts it.
        serializer: converts the response to the client's API.
        meter: charges the usage of the request to the client's key. If `meter.reads_on` is true and the client
            disconnects, the gateway reads the provider's stream for up to 10 more seconds, because the usage arrives
            last.
    """

    def __init__(
        self,
        request: ClientRequest,
        serializer: StreamSerializer,
        output: AnswerOutput,
        meter: Meter,
        options: GatewayOptions,
    ) -> None:
        self._request = request
        self._api = request.api
        self._output = output
        self._meter = meter
        self._options = options
        self._writer = ReplyWriter(serializer, streams=request.stream)
        self._unsent: list[bytes] = []  # events of chunks that were read together with the next one

    async def send(self) -> None:
        """Sends the request to the provider, and the response to the client.

        Raises:
            HTTPError: the request failed before any part of the response was sent.
            ClientGone: the client disconnected before the end.
        """
        output, meter = self._output, self._meter
        try:
            with requests_of(self._request.client.id):
                async with output.while_connected(_READ_ON_SECONDS if meter.reads_on else 0.0):
                    try:
                        await self._send()
                    except anyio.get_cancelled_exc_class():
                        if not output.gone:  # the server stops: an incomplete response must not look complete
                            self._request.log.stopped()
                            with anyio.move_on_after(_SHUTDOWN_SECONDS, shield=True):
                                await self._send_shutdown_error()
                        raise
        finally:
            await meter.aclose()

    async def _send(self) -> None:
        try:
            await self._end(await self._read())
        except ClientGone:
            raise
        except Exception as error:
            refusal = _error_response(error)
            if not self._output.started:
                raise refusal from refusal.cause
            self._request.log.failed(refusal)
            partial = error.partial if isinstance(error, APIError) else None
            failure = self._writer.fail(self._api.stream_info(refusal), partial)
            await self._end_failed(b"".join([*self._unsent, failure]))

    async def _read(self) -> Reply:
        """Sends the provider's chunks to the client as they arrive. Returns the complete reply.

        Raises:
            HTTPError: the gateway can't convert the request for the provider.
            APIError: the provider failed.
        """
        request, output, meter, writer = self._request, self._output, self._meter, self._writer
        try:
            stream = request.route.stream(
                request.parsed,
                repair_history=self._options.repair_history,
                partial_tool_calls=self._api.streams_partial_calls,
                turn_cache=request.turn_cache,
            )
            meter.begin(stream)
            async with stream:
                with reserving_parts(meter.next_part):
                    async for chunk in stream:
                        if meter.reads_on:
                            meter.take(chunk)
                        if output.gone:
                            continue
                        self._unsent.append(writer.feed(chunk))
                        if stream.ready:  # chunks that were read together are written together
                            continue
                        try:
                            await output.write(b"".join(self._unsent))
                        except ClientGone:
                            if not meter.reads_on:
                                raise
                            output.leave()
                        self._unsent.clear()
                meter.answered(stream.reply)
                if output.gone:
                    raise ClientGone
                reply = writer.writable(stream.reply)
                return replace(reply, warnings=[*request.warnings, *reply.warnings]) if request.warnings else reply
        except APIError as error:
            meter.failed(error)
            raise
        except ConfigError as error:
            meter.not_sent()
            if isinstance(error, NotConfiguredError):
                raise misconfigured(error) from error
            raise http_error(400, error.problem, cause=error) from error

    async def _end(self, reply: Reply) -> None:
        request = self._request
        if request.stream:
            await self._output.write(b"".join([*self._unsent, self._writer.finish(reply)]), last=True)
        else:
            compact = request.parsed.compact
            body = self._api.compaction_body(request, reply) if compact else self._writer.body(reply)
            headers = {**self._api.headers(request.id), **warning_header(reply.warnings)}
            await self._output.send_json(200, body, headers)
        request.log.completed(reply)

    async def _end_failed(self, events: bytes) -> None:
        *rest, last = self._api.split_failure(events)
        for piece in rest:
            await self._output.write(piece)
            await anyio.sleep(_PIECE_DELAY)
        await self._output.write(last, last=True)

    async def _send_shutdown_error(self) -> None:
        refusal = http_error(503, "service unavailable: the server is shutting down")
        if self._output.started:
            await self._end_failed(self._writer.fail(self._api.info(refusal)))
        else:
            await self._output.send_json(*self._api.error_response(refusal, self._request.id))


def _error_response(error: Exception) -> HTTPError:
    match error:
        case HTTPError():
            return error
        case APIError():
            return from_provider_error(error)
        case StoreError():
            text = "the store of responses is unavailable; try again later"
            return http_error(503, text, cause=error, retry_after="1")
    return http_error(500, "internal error; see the server's log", cause=error)
