"""Handles an HTTP request: reads it, finds its provider, and applies limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from time import time
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from starlette.datastructures import Headers, QueryParams

from streamfold import ConfigError, ReplyWarning
from streamfold.serving import parse_object, wants_stream
from streamfold.stores import StoreError
from streamfold.turn_cache import TurnCache, named_end_user

from .answering import ResponseRecorder, RoutedRequest, answer_request
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
from .http_errors import HTTPError, http_error
from .metrics import Metrics
from .models import ModelRouter
from .rate_limits import KeyRateLimits, Meter
from .request_body import AccountedBody, BodyBudget, ClientGone, Receive, parsed_size
from .request_log import RequestLog, log_json
from .response_stream import ResponseStream, Send

T = TypeVar("T")

_LONGEST_NAME = 256  # characters, of a model
_LARGE = 2**18  # bytes of a body above which it is parsed in a thread


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request with the client that sent it."""

    api: ClientAPI
    endpoint: APIEndpoint
    scope: Any
    receive: Receive
    response: ResponseStream
    client: GatewayKey
    log: RequestLog


Handler: TypeAlias = Callable[[IncomingRequest], Awaitable[None]]


class APIRoute:
    """The ASGI app of one path. (Starlette would call a function with its own `Request`.)"""

    def __init__(self, answer: Callable[[Any, Receive, Send], Awaitable[None]]) -> None:
        self.answer = answer

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await self.answer(scope, receive, send)


class RequestBodyJSON(AccountedBody):
    """The JSON body of a request, which is read and parsed on entering the block. Inside, the request counts as in
    flight.

    Attributes:
        value: the parsed JSON.
    """

    __slots__ = ("_counted", "_handler", "_incoming", "value")

    def __init__(self, handler: RequestHandler, incoming: IncomingRequest) -> None:
        super().__init__(handler.bodies)
        self.value: Any = None
        self._handler = handler
        self._incoming = incoming
        self._counted = False

    async def __aenter__(self) -> Self:
        try:
            self._handler.check_capacity()
            raw = await self.read(Headers(scope=self._incoming.scope), self._incoming.receive)
            self._handler.check_capacity()  # a request occupies no slot until its body has arrived
            self._handler.count(1)
            self._counted = True
            self.hold_structure(await run_sized(len(raw), partial(parsed_size, raw, self._options.max_body_bytes)))
            self.value = await run_sized(len(raw), partial(_parsed, raw))
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self.release()
        if self._counted:
            self._handler.count(-1)


class RequestHandler:
    """Handles requests of clients, within the limits of the options.

    Attributes:
        running: the number of requests in flight.
    """

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
        self.bodies = BodyBudget(options)
        self.options = options
        self.running = 0
        self._models = models
        self._turn_cache = turn_cache
        self._rate_limits = rate_limits
        self._metrics = metrics
        self._observers = [*([metrics.observe] if metrics else []), *([log_json] if options.json_log else [])]

    async def answer(self, api: ClientAPI, endpoint: APIEndpoint, scope: Any, receive: Receive, send: Send) -> None:
        """Handles one request: the response comes from a provider, or is an error in the API's format."""
        await self.handle(self._answer, api, endpoint, scope, receive, send)

    async def handle(
        self, handle: Handler, api: ClientAPI, endpoint: APIEndpoint, scope: Any, receive: Receive, send: Send
    ) -> None:
        """Calls `handle` with the request of an authorized client. Errors of `handle` become the response."""
        log = RequestLog(endpoint.id_prefix + token_hex(16), api.adapter, self._observers)
        response = ResponseStream(receive, send, self.options.send_timeout)
        try:
            try:
                client = self.access.check(scope)
                log.key = client.name
                await handle(IncomingRequest(api, endpoint, scope, receive, response, client, log))
            except (HTTPError, StoreError) as error:
                refusal = error if isinstance(error, HTTPError) else _store_unavailable(error)
                log.failed(refusal)
                await response.send_json(*api.error_response(refusal, log.id))
        except ClientGone:
            log.disconnected()

    async def _answer(self, incoming: IncomingRequest) -> None:
        async with RequestBodyJSON(self, incoming) as body:
            await self.reply(incoming, body)

    @contextmanager
    def occupy_slot(self, size: int) -> Iterator[None]:
        """Counts a response that outlives its HTTP request as a request in flight with a body of this size."""
        self.bodies.add(size)
        self.count(1)
        try:
            yield
        finally:
            self.count(-1)
            self.bodies.add(-size)

    async def reply(
        self, incoming: IncomingRequest, body: RequestBodyJSON, recorder: ResponseRecorder | None = None
    ) -> None:
        """Handles a request after its body has been read.

        Args:
            recorder: stores the response; None: the response isn't stored.

        Raises:
            HTTPError: the request is invalid, its model is unknown, or the request failed.
            ClientGone: the client disconnected before the end.
        """
        api, log, response = incoming.api, incoming.log, incoming.response
        request = await self.parse(incoming, body)
        if member := incoming.endpoint.count_member:
            count = await counted_tokens(api, member, request)
            await response.send_json(200, count.body, {**api.headers(log.id), **count.headers})
            log.answered(count.note)
            return
        if request.parsed.compact and request.route.adapters != {api.adapter}:
            # as a server without this endpoint says it: clients then write a summary themselves
            raise http_error(404, f"the provider of the model {request.model!r} doesn't compact conversations")
        routed = self.route(incoming, request)
        meter = await self.reserve(incoming, routed)
        if request.stream:
            headers = {**api.headers(log.id), **api.stream_headers(request)}
            response.stream_events(headers, self.options.keepalive, api.keep_alive)
        await answer_request(routed, response, meter, recorder)

    async def reserve(self, incoming: IncomingRequest, routed: RoutedRequest) -> Meter:
        """Reserves the maximum usage of a request, within the limits of the client's key.

        Raises:
            HTTPError: the request exceeds a limit.
        """
        return await self._rate_limits.reserve(incoming.client, routed.request.route, routed.request.parsed)

    async def parse(self, incoming: IncomingRequest, body: RequestBodyJSON) -> ClientRequest:
        """Returns the parsed request with its provider.

        Raises:
            HTTPError: the request is invalid, or its model is unknown.
        """
        return await run_sized(body.size, partial(self._parse, incoming, body))

    def _parse(self, incoming: IncomingRequest, body: RequestBodyJSON) -> ClientRequest:
        api, scope, log, client = incoming.api, incoming.scope, incoming.log, incoming.client
        value, most = body.value, self.options.max_objects
        if body.size > 2 * most and (count := _objects_in(value)) > most:  # the shortest object has two bytes
            raise http_error(400, f"too many JSON objects: {count}; allowed are {most}")
        headers, params = Headers(scope=scope), scope["path_params"]
        if query := scope["query_string"]:
            params = {**QueryParams(query), **params}
        model = api.model(value, params) if isinstance(value, Mapping) else None
        if isinstance(model, str):
            if len(model) > _LONGEST_NAME:
                raise http_error(400, f"the model's name has {len(model)} characters; allowed are {_LONGEST_NAME}")
            log.model = model
        dropped: tuple[ReplyWarning, ...] = ()
        user = named_end_user(value, headers) if isinstance(value, Mapping) else ""  # also by members that are not sent
        any_model = client.allows_any_model and "*" in self.options.allow_models
        try:
            if isinstance(value, Mapping):
                value, dropped = permitted_members(value, api.members, client.options, any_model=any_model)
            # What a request may contain depends on the provider. One without a model gets the error for that.
            route = self._models.resolve(model, client) if isinstance(model, str) else None
            counts, streams = incoming.endpoint.count_member, incoming.endpoint.streams
            native = route is not None and route.adapters == {api.adapter}
            parsed = api.parse(api.counted_body(value) if counts else value, params, native=native)
            streams = wants_stream(value) if streams is None else streams
            if incoming.endpoint.compacts:
                parsed = replace(parsed, compact=True)
        except ConfigError as error:
            raise http_error(400, error.problem) from error
        except RecursionError:
            raise http_error(400, "the request body is nested too deeply") from None
        return ClientRequest(
            value,
            parsed,
            route=route or self._models.resolve(parsed.model, client),
            stream=streams,
            id=log.id,
            created=int(time()),
            headers=headers,
            params=params,
            dropped=dropped,
            end_user=user,
        )

    def route(self, incoming: IncomingRequest, request: ClientRequest) -> RoutedRequest:
        """Returns a request in the form for its provider.

        Raises:
            HTTPError: the request can't be sent to this provider.
        """
        api, route, user = incoming.api, request.route, request.end_user
        try:
            if not self.options.forward_client_ids:
                request = api.without_client_ids(request)
            request, dropped = api.adapt_request(request, route.adapters)
        except ConfigError as error:
            raise http_error(400, error.problem) from error
        request, replaced = with_operator_members(request, route.endpoints)
        messages, repaired = repair_conversation(
            request.parsed.messages, route.adapters, own=api.adapter, continues=api.continues
        )
        if messages != request.parsed.messages:
            request = replace(request, parsed=replace(request.parsed, messages=messages))
        cache = self._turn_cache
        if cache is not None and route.takes_arguments and not request.parsed.compact:
            cache = cache.of(incoming.client.id, end_user=user, ids=api.returns_ids)
            request = replace(request, turns_cached=True)
        warnings = (*request.dropped, *dropped, *replaced, *repaired)
        return RoutedRequest(api, request, incoming.client.id, warnings, cache, self.options, incoming.log)

    def check_capacity(self) -> None:
        """Raises HTTPError if `max_requests` requests are in flight already."""
        if self.running >= self.options.max_requests:
            message = f"{self.running} requests are in flight already; try again later"
            raise http_error(503, message, "overloaded", retry_after="1")

    def count(self, more: int) -> None:
        """Adds to the number of requests in flight."""
        self.running += more
        if self._metrics is not None:
            self._metrics.running(self.running)


class AppTaskGroup:
    """Background tasks that outlive the request that started them. They are cancelled when the app ends."""

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None

    @property
    def entered(self) -> bool:
        """True if the app has started, so that tasks can be started."""
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
            await tasks.__aexit__(None, None, None)  # with the error of the block it would raise a group of it

    def start(self, task: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Starts a task, if the app has started."""
        if self._tasks is not None:
            self._tasks.start_soon(task)

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[TaskGroup]:
        """Yields a task group for work that continues after the client has disconnected.

        A mounted app whose lifespan wasn't entered has no long-lived task group: its request waits for the tasks.
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


async def run_sized(size: int, work: Callable[[], T]) -> T:
    """Calls a function; in a thread if the body is large, so that other clients do not wait for it."""
    return await anyio.to_thread.run_sync(work) if size > _LARGE else work()


def _store_unavailable(error: StoreError) -> HTTPError:
    refusal = http_error(503, "the store of responses is unavailable; try again later", retry_after="1")
    refusal.__cause__ = error
    return refusal


def _objects_in(value: Any) -> int:
    """Counts the JSON objects in a value."""
    count, todo = 0, [value]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            count += 1
            todo += found.values()
        elif isinstance(found, list):
            todo += found
    return count


def _parsed(raw: bytes) -> Any:
    try:
        return parse_object(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise http_error(400, f"the request body is not JSON: {error}") from None
