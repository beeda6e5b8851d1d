"""The gateway's ASGI app: its routes, and the resources that it opens and closes."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import token_hex
from time import time
from types import TracebackType
from typing import Any, Self

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamfold import ChatModel, Hooks
from streamfold.config import Config, RateLimitSettings, read_settings, store_url
from streamfold.limits import LimitStore
from streamfold.stores import Retention, WriteBehindStore, persistent_store
from streamfold.turn_cache import TurnCache, TurnStore, read_turn_cache

from .apis import CHAT_API, CLIENT_APIS, RESPONSES_API, ClientAPI
from .auth import Authenticator, GatewayKey, read_keys
from .config import GatewayOptions
from .handler import APIRoute, AppTaskGroup, RequestHandler
from .http_errors import HTTPError, http_error
from .metrics import Metrics
from .models import ModelRouter
from .rate_limits import KeyRateLimits
from .request_log import one_line
from .stored_responses import ResponseStore, StoredResponses
from .websockets import WebSocketEndpoint, refuse_websocket

log = logging.getLogger("streamfold.gateway")


def gateway(
    providers: Mapping[str, Any] | ChatModel | None = None,
    *,
    config: str | os.PathLike[str] | Config | None = None,
    keys: Collection[str | GatewayKey] | Mapping[str, Any] = (),
    rate_limits: RateLimitSettings | LimitStore | str | None = None,
    turn_cache: TurnCache | TurnStore | str | bool = True,
    hooks: Hooks | Iterable[Hooks] = (),
    **options: Any,
) -> Gateway:
    """Returns an ASGI app that serves Chat Completions, the Responses API, the Messages API and Gemini's API.

    Serve it with any ASGI server, or mount it: `app.mount("/llm", gateway(...))`. When the server stops, the app closes
    the providers that it created. A mounted app receives no lifespan events: use it as an async context manager, or
    call `aclose()`.

    Args:
        providers: the providers by name. Clients send this name as the model, or `"NAME:MODEL"` to request another
            model of the provider. Each value is a `Provider`, or an argument of `Provider.from_config`. Instead of a
            mapping, a single provider may be passed, which keeps its own name. None: all providers in
            `streamfold.toml`.
        config: the path of the configuration file, or a loaded configuration. None: streamfold searches for the file.
        keys: the API keys of clients. Clients send a key as a bearer token, in `x-api-key`, or in `x-goog-api-key`.
            Without keys, every client that can connect may use the gateway, except web pages from other hosts. A
            mapping gives each key a name and rights: `{"alice": {"key": KEY, "models": ["main"], "rpm": 60}}`; see
            `KeyOptions`.
        rate_limits: the store in which the gateway counts the usage of each key, as a URL (see `RateLimiter`), or the
            settings of the table `[rate_limits]`. By default, the gateway counts in memory.
        turn_cache: where the gateway stores the model's messages, to add reasoning to later requests that lack it; see
            `GatewayOptions`. The app closes a `TurnCache` or store when it stops.
        hooks: functions that each provider calls during a request, if the app created the provider; see `Hooks`.
        options: more options, see `GatewayOptions`.

    Returns:
        The app, which is also an async context manager.

    Raises:
        ConfigError: there are no providers, or an argument is invalid.
    """
    named = {"turn_cache": turn_cache} if isinstance(turn_cache, str | bool) else {}
    read = read_settings(GatewayOptions, {**options, **named}, "gateway")
    cache = None if isinstance(turn_cache, str | bool) else turn_cache
    return Gateway(
        providers, read, read_keys(keys), config=config, rate_limits=rate_limits, turn_cache=cache, hooks=hooks
    )


class Gateway:
    """The ASGI app that `gateway` returns. Its arguments are those of `gateway`, already validated.

    Args:
        turn_cache: replaces the turn cache that the options describe.
        loopback_only: accept only requests to a loopback address.
    """

    def __init__(
        self,
        providers: Mapping[str, Any] | ChatModel | None,
        options: GatewayOptions,
        keys: Collection[GatewayKey],
        *,
        config: str | os.PathLike[str] | Config | None = None,
        rate_limits: RateLimitSettings | LimitStore | str | None = None,
        turn_cache: TurnCache | TurnStore | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        loopback_only: bool = False,
    ) -> None:
        where = options.turn_cache
        named = store_url(where) if isinstance(where, str) else where
        sizes = Retention(3 * options.turn_cache_turns, options.turn_cache_bytes, options.turn_cache_age)
        self._turn_cache = read_turn_cache(named if turn_cache is None else turn_cache, sizes)
        self._responses: ResponseStore | None = None
        if options.responses is not False:
            place = "memory" if options.responses is True else store_url(options.responses, "responses")
            limits = Retention(options.responses_number, options.responses_bytes, options.responses_age)
            store = persistent_store(place, limits, table="responses", present=True)
            self._responses = ResponseStore(store, options.responses_bytes)
        if providers is not None and not isinstance(providers, Mapping):
            providers = {providers.name: providers}
        self.models = models = ModelRouter(providers, options, config, hooks)
        for key in keys:
            models.check_key(key)
        self.access = Authenticator(keys, options.hosts, loopback_only=loopback_only)
        self._rate_limits = KeyRateLimits(keys, rate_limits)
        self._draining = False
        self._background = AppTaskGroup()
        metrics = Metrics(models.names, by_key=options.metrics_by_key) if options.metrics else None
        self._handler = RequestHandler(models, self.access, options, self._turn_cache, self._rate_limits, metrics)
        self._began = int(time())
        self._app = Starlette(
            routes=list(self._routes(metrics)),
            exception_handlers={HTTPException: _http_error, HTTPError: _refusal},  # type: ignore[dict-item]
            lifespan=self._lifespan,
        )
        # Looked up by path: Starlette would try one route after the other, and wrap every `send` twice.
        self._direct = {
            route.path: route.endpoint.answer
            for route in self._app.routes
            if isinstance(route, Route) and isinstance(route.endpoint, APIRoute) and route.methods == {"POST"}
        }
        post = self._direct[RESPONSES_API.endpoints[0].path]
        stores = self._responses is not None
        self._websockets = WebSocketEndpoint(post, self._handler, stores=stores) if options.websockets else None

    @property
    def draining(self) -> bool:
        """True if the server is about to stop. Then `/readyz` returns 503, and the app closes idle WebSockets."""
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._draining = draining
        if self._websockets is not None:
            self._websockets.set_stops(draining)

    @property
    def running(self) -> int:
        """The number of HTTP requests in flight."""
        return self._handler.capacity.running

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            if self._websockets is None or _path(scope) != RESPONSES_API.endpoints[0].path:
                await refuse_websocket(_no_websockets(), scope, receive, send)
            else:
                await self._websockets(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "POST" and (answer := self._direct.get(_path(scope))):
            scope.setdefault("path_params", {})
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def aclose(self) -> None:
        """Closes the app's stores, and the providers that the app created."""
        async with AsyncExitStack() as stack:
            if self._turn_cache is not None:
                stack.push_async_callback(self._turn_cache.aclose)
            if self._responses is not None:
                stack.push_async_callback(self._responses.aclose)
            stack.push_async_callback(self._rate_limits.aclose)
            await self.models.aclose()

    async def __aenter__(self) -> Self:
        self.draining = False
        await self._background.__aenter__()
        for store in (self._turn_cache and self._turn_cache.store, self._responses and self._responses.store):
            if isinstance(store, WriteBehindStore):
                self._background.start(store.keep_trying)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.draining = True
        try:
            await self._background.__aexit__(kind, error, traceback)
        finally:
            await self.aclose()

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        if self._background.entered:  # the app is also used as a context manager
            yield
            return
        async with self:
            yield

    def _routes(self, metrics: Metrics | None) -> Iterator[Route]:
        for path in ("/", "/healthz", "/livez"):  # Claude Code first sends HEAD /
            yield Route(path, self._health, methods=["GET"])
        yield Route("/readyz", self._ready, methods=["GET"])
        if metrics is not None:
            yield Route("/metrics", metrics.endpoint(self.access), methods=["GET"])
        for version in ("v1", "v1beta"):  # Gemini's clients send v1beta
            yield Route(f"/{version}/models", self._list, methods=["GET"])
            yield Route(f"/{version}/models/{{name:path}}", self._one, methods=["GET"])
        stored = None
        if self._responses is not None:
            stored = StoredResponses(self._handler, self._background, self._responses)
            yield from stored.routes()
        for api in CLIENT_APIS:
            for endpoint in api.endpoints:
                handle = self._handler.answer
                if stored is not None and api is RESPONSES_API and not endpoint.count_member:
                    handle = stored.compact if endpoint.compacts else stored.create
                yield self._handler.make_route(endpoint.path, "POST", handle, api, endpoint)

    async def _health(self, _: HTTPRequest) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: HTTPRequest) -> Response:
        if self.draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ok"})

    async def _list(self, request: HTTPRequest) -> Response:
        client = self.access.check(request.scope)
        return JSONResponse(_api_of(request).model_list(self.models.names_for(client), self._began))

    async def _one(self, request: HTTPRequest) -> Response:
        client = self.access.check(request.scope)
        name = request.path_params["name"]
        self.models.resolve(name, client)
        return JSONResponse(_api_of(request).model_entry(name, self._began))


def _path(scope: Any) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _api_of(request: HTTPRequest) -> ClientAPI:
    path = _path(request.scope)
    return next((api for api in CLIENT_APIS if api.matches(path, request.headers)), CHAT_API)


async def _refusal(request: HTTPRequest, refusal: HTTPError) -> Response:
    api = _api_of(request)
    request_id = api.endpoints[0].id_prefix + token_hex(16)
    status, body, headers = api.error_response(refusal, request_id)
    path = one_line(request.url.path[:200])
    log.info("%s %s: refused (HTTP %d): %s", request.method, path, status, one_line(refusal.info.message))
    return JSONResponse(body, status, headers)


async def _http_error(request: HTTPRequest, error: HTTPException) -> Response:
    if request.headers.get("upgrade", "").lower() == "websocket":
        return await _refusal(request, _no_websockets())
    paths = [endpoint.path for api in CLIENT_APIS for endpoint in api.endpoints]
    paths = [path.replace("{version}/{model:path}", "v1beta/models/{model}") for path in paths]
    route = ", ".join([*(f"POST {path}" for path in paths), "GET /v1/models", "GET /healthz"])
    message = f"{error.detail}: {request.method} {request.url.path[:200]}. Served here: {route}"
    return await _refusal(request, http_error(error.status_code, message))


def _no_websockets() -> HTTPError:
    """Returns the error response to a WebSocket request. Codex sends HTTP requests after a 426, but retries the
    WebSocket seven times after other errors.
    """
    return http_error(426, "this server doesn't support WebSockets: send a POST", connection="close")
