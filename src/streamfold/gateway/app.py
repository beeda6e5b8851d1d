"""The ASGI app: its paths, and the way of each request from its head to its answer."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from time import time
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..answers import ChatModel
from ..client import Hooks
from ..config import GatewayOptions, RateLimitSettings, read_settings, store_url
from ..limits import LimitStore
from ..text import parse_object
from ..turns import Retention, TurnCache, TurnStore, read_turn_cache
from ..values import ConfigError
from .access import Access
from .bodies import Bodies, ClientGone, Receive
from .exchange import Exchange
from .failures import Refused, refused
from .kept import KeptResponses, ResponseRetention, ResponseStore, open_responses
from .keys import Client, KeyRateLimits, read_keys
from .logs import RequestLog
from .metrics import Metrics
from .models import Models, Served
from .outcomes import write_json
from .sink import Send, guarded, send_json
from .wire import ClientRequest, Warnings, Wire
from .wires import WIRES, ChatWire, ResponsesWire

__all__ = ["Gateway", "gateway"]

_VERSIONS = ("v1", "v1beta")  # the second one is Gemini's
_LARGE = 2**18  # bytes of a body above which it is parsed beside the event loop


def gateway(
    providers: Mapping[str, Any] | ChatModel | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    keys: Collection[str | Client] | Mapping[str, Any] = (),
    rate_limits: RateLimitSettings | LimitStore | str | None = None,
    memory: TurnCache | TurnStore | str | bool = True,
    hooks: Hooks | Iterable[Hooks] = (),
    **options: Any,
) -> Gateway:
    """Returns an ASGI app that answers at the paths of Chat Completions, Responses, Messages and Gemini.

    Serve it with any ASGI server, or mount it: `app.mount("/llm", gateway(...))`. Providers that it makes are closed
    when the server stops. A mounted app is not told of that: use it as an async context manager, or call `aclose()`.

    Args:
        providers: the providers by the name that clients use as the model; each is a provider or an argument of
            `Provider.from_config`. One model is served under its own name; None: all of `streamfold.toml`.
            `"NAME:MODEL"` asks one of them for another model.
        config: the file to read; None: the one that is found.
        keys: the keys of clients, who send one of them as a bearer token, in `x-api-key` or in `x-goog-api-key`.
            Without any, every client that reaches the server may use it, except web pages of other hosts. A mapping
            gives them names, and what they may do: `{"alice": {"key": KEY, "models": ["main"], "rpm": 60}}`; see
            `KeyOptions`.
        rate_limits: where the limits of keys are counted: a store by its name, see `RateLimiter`, or the settings of
            the table `[rate_limits]`. Default: in this app.
        memory: where turns are kept, to give back what clients leave out of them: see `GatewayOptions`. A memory or a
            store is closed with the app.
        hooks: of the providers that are made here, to observe their answers; see `Hooks`.
        options: see `GatewayOptions`.

    Returns:
        The app, which is also an async context manager.

    Raises:
        ConfigError: there is nothing to serve, or something in the arguments can't be used.
    """
    if providers is not None and not isinstance(providers, Mapping):
        providers = {providers.name: providers}
    named = {"memory": memory} if isinstance(memory, str | bool) else {}
    read = read_settings(GatewayOptions, {**options, **named})
    sizes = Retention(read.memory_turns, read.memory_bytes, read.memory_age)
    kept = read_turn_cache((store_url(memory) if isinstance(memory, str) else memory), sizes)
    responses = open_responses(
        read.memory if read.responses is None else read.responses,
        ResponseRetention(read.responses_number, read.responses_bytes, read.responses_age),
    )
    models, clients = Models(providers, read, config, hooks), read_keys(keys)
    for client in clients:
        models.check_key(client)
    return Gateway(models, Access(clients, read.hosts), read, kept, responses, KeyRateLimits(clients, rate_limits))


class Gateway:
    """The app that `gateway` returns.

    Attributes:
        running: how many requests are being answered.
        draining: set it when the server is going to stop: `/readyz` answers 503 then, so that no new clients come.
    """

    def __init__(
        self,
        models: Models,
        access: Access,
        options: GatewayOptions,
        memory: TurnCache | None = None,
        responses: ResponseStore | None = None,
        rate_limits: KeyRateLimits | None = None,
    ) -> None:
        self.models = models
        self.running = 0
        self.options = options
        self.bodies = Bodies(options)
        self.access = access
        self._memory = memory
        self._responses = responses
        self._rate_limits = rate_limits or KeyRateLimits(())
        self._tasks: TaskGroup | None = None
        self.draining = False
        self._metrics = metrics = Metrics(models.names) if options.metrics else None
        self._observers = [*([metrics.observe] if metrics else []), *([write_json] if options.json_log else [])]
        self._began = int(time())
        self._app = Starlette(
            routes=[
                Route("/", self._health, methods=["GET"]),  # and HEAD: the first request of Claude Code
                *[Route(path, self._health, methods=["GET"]) for path in ("/healthz", "/livez")],
                Route("/readyz", self._ready, methods=["GET"]),
                *([Route("/metrics", metrics.endpoint(access), methods=["GET"])] if metrics else []),
                *[Route(f"/{version}/models", self._list, methods=["GET"]) for version in _VERSIONS],
                *[Route(f"/{version}/models/{{name:path}}", self._one, methods=["GET"]) for version in _VERSIONS],
                *[route for wire in WIRES for route in self._routes(wire(options))],
            ],
            exception_handlers={HTTPException: _http_error, Refused: _refusal},  # type: ignore[dict-item]
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    async def aclose(self) -> None:
        """Closes the providers that were made for this app, and what it keeps."""
        async with AsyncExitStack() as stack:
            if self._memory is not None:
                stack.push_async_callback(self._memory.aclose)
            if self._responses is not None:
                stack.push_async_callback(self._responses.aclose)
            stack.push_async_callback(self._rate_limits.aclose)
            await self.models.aclose()

    async def __aenter__(self) -> Self:
        self.draining = False
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.draining = True
        tasks, self._tasks = self._tasks, None
        try:
            if tasks is not None:
                tasks.cancel_scope.cancel()
                await tasks.__aexit__(kind, error, traceback)
        finally:
            await self.aclose()

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        if self._tasks is not None:  # it is used as a context manager too
            yield
            return
        async with self:
            yield

    @asynccontextmanager
    async def background(self) -> AsyncIterator[TaskGroup]:
        """Gives a task group for what goes on when its client has left.

        An app that nobody has entered, such as a mounted one, has no such place: the tasks are then waited for.
        """
        if self._tasks is not None:
            yield self._tasks
            return
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            except (ClientGone, Refused) as exc:
                failed = exc
        if failed is not None:
            raise failed

    async def answer(
        self, wire: Wire, scope: Any, receive: Receive, send: Send, *, answer_id: str | None = None
    ) -> None:
        """Answers one request of a client: with the provider's answer, or with an error in the wire's form.

        Args:
            answer_id: the id of the answer; None: a new one.
        """
        log = self.log(wire, answer_id)
        async with self.refusing(wire, send, log) as send:
            client = self.access.check(scope)
            log.key = client.name
            self._check_room()
            with self.bodies.held() as held:
                body = await held.read(Headers(scope=scope), receive)
                with self._counted():
                    asked, served = await self._parsed(wire, body, scope, log, client)
                    del body
                    if (answer := await wire.at_once(asked, served)) is not None:
                        await send_json(send, 200, answer.body, {**wire.headers(log.id), **answer.headers})
                        log.answered(answer.note)
                    else:
                        asked, dropped = self._for_provider(wire, asked, served)
                        memory = self._memory and self._memory.of(client.id)
                        exchange = Exchange(wire, asked, served, self.options, log, dropped, memory)
                        async with self._rate_limits.within(client) as settle:
                            log.observers = [*self._observers, *([settle] if settle else [])]
                            await exchange.run(receive, send)

    @asynccontextmanager
    async def refusing(self, wire: Wire, send: Send, log: RequestLog) -> AsyncIterator[Send]:
        """Gives a `send` that raises ClientGone when the client has left. A refusal in the block is sent with it."""
        send = guarded(send, self.options.send_timeout)
        try:
            try:
                yield send
            except Refused as refusal:
                log.failed(refusal)
                await send_json(send, *wire.error(refusal, log.id), {**wire.headers(log.id), **refusal.headers})
        except ClientGone:
            log.disconnected()

    def log(self, wire: Wire, answer_id: str | None = None) -> RequestLog:
        """Returns the log of a request."""
        return RequestLog(answer_id or wire.id_prefix + uuid4().hex, wire.adapter, self._observers)

    def check(self, wire: Wire, body: bytes, scope: Any, log: RequestLog, client: Client) -> None:
        """Raises Refused for a request that can't be answered, whatever its provider says."""
        self._for_provider(wire, *self._parse(wire, body, scope, log, client))

    def _routes(self, wire: Wire) -> list[Route]:
        if self._responses is not None and isinstance(wire, ResponsesWire):
            return KeptResponses(self, wire, self._responses).routes()
        return [Route(wire.path, _Endpoint(self, wire), methods=["POST"])]

    async def _parsed(
        self, wire: Wire, body: bytes, scope: Any, log: RequestLog, client: Client
    ) -> tuple[ClientRequest, Served]:
        """Parses a body. A large one is parsed in a thread, so that other clients do not wait for it."""
        if len(body) > _LARGE:
            return await anyio.to_thread.run_sync(self._parse, wire, body, scope, log, client)
        return self._parse(wire, body, scope, log, client)

    def _parse(
        self, wire: Wire, body: bytes, scope: Any, log: RequestLog, client: Client
    ) -> tuple[ClientRequest, Served]:
        headers, params = Headers(scope=scope), {**QueryParams(scope["query_string"]), **scope["path_params"]}
        try:
            value = parse_object(body.decode("utf-8-sig"))
        except ValueError as error:
            raise refused(400, f"the request body is not JSON: {error}") from None
        if isinstance(value, Mapping):
            if isinstance(model := wire.model(value, params), str):
                log.model = model
            self._check_size(wire, value, model)
        try:
            # What may stand in a request depends on who is asked. Without a name, that is what is wrong with it.
            named = self.models.find(model, client) if isinstance(value, Mapping) and isinstance(model, str) else None
            adapters = named.adapters if named else ()
            asked = wire.read(value, params=params, adapters=adapters, id=log.id, created=int(time()), headers=headers)
        except ConfigError as error:
            raise refused(400, str(error)) from error
        return asked, named or self.models.find(asked.model, client)

    def _for_provider(self, wire: Wire, asked: ClientRequest, served: Served) -> tuple[ClientRequest, Warnings]:
        try:
            return wire.for_provider(wire.without_client_ids(asked), served.adapters)
        except ConfigError as error:
            raise refused(400, str(error)) from error

    def _check_size(self, wire: Wire, body: Mapping[str, Any], model: Any) -> None:
        options, size = self.options, wire.size(body)
        for count, most, what in [
            (len(model) if isinstance(model, str) else 0, options.max_model_length, "characters in the model's name"),
            (size.messages, options.max_messages, "messages"),
            (size.tool_calls, options.max_tool_calls, "tool calls"),
            (size.tools, options.max_tools, "tools"),
        ]:
            if count > most:
                raise refused(400, f"too many {what}: {count}; allowed are {most}")

    def _check_room(self) -> None:
        if self.running >= self.options.max_requests:
            message = f"{self.running} requests are being answered already; try again later"
            raise refused(503, message, "overloaded", retry_after="1")

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a request as running. Only now: one whose body is still on its way takes nobody's place."""
        self._check_room()
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        self.running += more
        if self._metrics is not None:
            self._metrics.running(self.running)

    async def _health(self, _: HTTPRequest) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: HTTPRequest) -> Response:
        if self.draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ok"})

    async def _list(self, request: HTTPRequest) -> Response:
        client = self.access.check(request.scope)
        return JSONResponse(_wire_of(request).model_list(self.models.names_for(client), self._began))

    async def _one(self, request: HTTPRequest) -> Response:
        client = self.access.check(request.scope)
        name = request.path_params["name"]
        self.models.find(name, client)
        return JSONResponse(_wire_of(request).model_entry(name, self._began))


class _Endpoint:
    """The requests of one wire, as an ASGI app. Starlette would call a function with a request that it has read."""

    def __init__(self, app: Gateway, wire: Wire) -> None:
        self._app = app
        self._wire = wire

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await self._app.answer(self._wire, scope, receive, send)


def _wire_of(request: HTTPRequest) -> type[Wire]:
    """The API that a request belongs to, where its path does not say it."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return next((wire for wire in WIRES if wire.owns(path, request.headers)), ChatWire)


async def _refusal(request: HTTPRequest, refusal: Refused) -> Response:
    wire = _wire_of(request)(GatewayOptions())
    request_id = wire.id_prefix + uuid4().hex
    status, body = wire.error(refusal, request_id)
    return JSONResponse(body, status, {**wire.headers(request_id), **refusal.headers})


async def _http_error(request: HTTPRequest, error: HTTPException) -> Response:
    paths = (wire.path.replace("{version}/{model:path}", "v1beta/models/{model}") for wire in WIRES)
    served = ", ".join([*(f"POST {path}" for path in paths), "GET /v1/models", "GET /healthz"])
    message = f"{error.detail}: {request.method} {request.url.path[:200]}. Served here: {served}"
    return await _refusal(request, refused(error.status_code, message))
