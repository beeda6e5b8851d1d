"""The ASGI app: who may ask, for what, and how much at once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from hmac import compare_digest
from time import time
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..client import Provider
from ..values import ConfigError, parse_object
from .exchange import Exchange, Receive, send_refusal
from .failures import Refusal, refused
from .models import Models, UnknownModel
from .origins import foreign_page
from .sink import Send
from .wires import ChatWire, ResponsesWire, Wire

__all__ = ["Gateway", "gateway"]


def gateway(
    providers: Mapping[str, Any] | Provider | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    aliases: Mapping[str, str] | None = None,
    keys: Collection[str] = (),
    max_body_bytes: int = 32 * 2**20,
    max_requests: int = 256,
    keepalive: float | None = 15.0,
    repair: bool = False,
) -> Gateway:
    """An ASGI app that answers `/v1/chat/completions`, `/v1/responses`, `/v1/models` and `/healthz`.

    Serve it with any ASGI server, or mount it: `app.mount("/llm", gateway(...))`. Providers that it makes are closed
    when the server stops; mounted it hears nothing of that, so use it as an async context manager, or call `aclose()`.

    Args:
        providers: those that answer, by the name that clients use as the model: providers, or what
            `Provider.from_config` takes. One provider is served under its own name; None: all of `streamfold.toml`.
            `"NAME:MODEL"` asks one of them for another model.
        config: the file to read instead of the one that is found.
        aliases: further names for models, such as `{"gpt-4o": "main"}`.
        keys: what clients must send one of, as a bearer token. Without any, everybody who reaches the server may use
            it, but for web pages: no page of another host can, whoever opens it.
        max_body_bytes: larger requests are refused.
        max_requests: how many are answered at once; more are refused.
        keepalive: seconds of silence after which a stream gets a comment; None: never.
        repair: mend conversations that a provider would refuse (see `Provider.chat_stream`), and say so.

    Raises:
        ConfigError: there is nothing to serve, or something of it can't be used.
    """
    if isinstance(providers, Provider):
        providers = {providers.name: providers}
    if isinstance(keys, str) or not all(key.strip() for key in keys):
        raise ConfigError("keys is a list of strings, and none of them is empty")
    models = Models(providers, aliases or {}, config)
    limits = _Limits(max_body_bytes, max_requests, keepalive, repair)
    return Gateway(models, [key.strip().encode() for key in keys], limits)


class _Limits:
    def __init__(self, body_bytes: int, requests: int, keepalive: float | None, repair: bool) -> None:
        self.body_bytes = body_bytes
        self.requests = requests
        self.keepalive = keepalive
        self.repair = repair


class Gateway:
    """The app that `gateway` makes.

    Attributes:
        running: how many requests are being answered.
    """

    def __init__(self, models: Models, keys: list[bytes], limits: _Limits) -> None:
        self._models = models
        self._keys = keys
        self._limits = limits
        self._began = int(time())
        self.running = 0
        self._app = Starlette(
            routes=[
                Route("/healthz", self._health, methods=["GET"]),
                Route("/v1/models", self._list, methods=["GET"]),
                Route("/v1/models/{name:path}", self._one, methods=["GET"]),
                Route("/v1/chat/completions", _Door(self, ChatWire()), methods=["POST"]),
                Route("/v1/responses", _Door(self, ResponsesWire()), methods=["POST"]),
            ],
            exception_handlers={HTTPException: _http_error},  # type: ignore[dict-item]
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    async def aclose(self) -> None:
        """Closes the providers that were made for this app."""
        await self._models.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.aclose()

    def refusal(self, headers: Headers) -> Refusal | None:
        """Why who sends these headers may not ask; None if they may."""
        if not self._keys:
            origin = headers.get("origin")
            message = f"pages of {origin} may not use this server: it asks for no key. Configure one to let them"
            return refused(403, message) if foreign_page(origin) else None
        kind, _, key = headers.get("authorization", "").partition(" ")
        given = key.strip().encode("latin-1")  # the very bytes that were sent
        # All are compared, each in constant time: how long it takes tells nothing of any of them.
        fits = [compare_digest(given, known) for known in self._keys]
        if kind.lower() == "bearer" and any(fits):
            return None
        what = "this API key is not known here" if given else "an API key is needed: send it as a bearer token"
        return refused(401, what, "invalid_api_key", www_authenticate="Bearer")

    async def answer(self, wire: Wire, headers: Headers, receive: Receive, send: Send) -> None:
        """Answers one request, or says why not."""
        refusal = self.refusal(headers)
        if refusal is None and self.running >= self._limits.requests:
            message = f"{self.running} requests are being answered already: try again later"
            refusal = refused(503, message, "overloaded", retry_after="1")
        if refusal is not None:
            await send_refusal(send, refusal, {})
            return
        self.running += 1
        try:
            body = await self._body(headers, receive)
            found = self._exchange(wire, body) if isinstance(body, bytes) else body
            if isinstance(found, Refusal):
                await send_refusal(send, found, {})
            elif found is not None:  # else the client left while it was speaking
                await found.run(receive, send)
        finally:
            self.running -= 1

    async def _body(self, headers: Headers, receive: Receive) -> bytes | Refusal | None:
        limit = self._limits.body_bytes
        too_large = refused(413, f"the body is larger than {limit} bytes, which is all that is read here")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            return too_large
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > limit:
                return too_large
            if not message.get("more_body"):
                return b"".join(pieces)

    def _exchange(self, wire: Wire, body: bytes) -> Refusal | Exchange:
        try:
            asked = wire.read(parse_object(body.decode("utf-8-sig")), number=uuid4().hex, created=int(time()))
            provider, model = self._models.find(asked.model)
        except ConfigError as error:
            return refused(400, str(error))
        except UnknownModel as error:
            return refused(404, str(error), "model_not_found")
        except ValueError:
            return refused(400, "the body is not JSON")
        return Exchange(wire, asked, provider, model, self._limits.repair, self._limits.keepalive)

    async def _health(self, _: HTTPRequest) -> Response:
        return JSONResponse({"status": "ok"})

    async def _list(self, request: HTTPRequest) -> Response:
        if (no := self.refusal(request.headers)) is not None:
            return _response(no)
        return JSONResponse({"object": "list", "data": [self._model(name) for name in self._models.names]})

    async def _one(self, request: HTTPRequest) -> Response:
        if (no := self.refusal(request.headers)) is not None:
            return _response(no)
        name = request.path_params["name"]
        try:
            self._models.find(name)
        except UnknownModel as error:
            return _response(refused(404, str(error), "model_not_found"))
        return JSONResponse(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._began, "owned_by": "streamfold"}


class _Door:
    """Where the requests of one wire come in. Not a function: Starlette would read the request for one."""

    def __init__(self, app: Gateway, wire: Wire) -> None:
        self._app = app
        self._wire = wire

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await self._app.answer(self._wire, Headers(scope=scope), receive, send)


def _response(refusal: Refusal) -> Response:
    return Response(refusal.body, refusal.status, dict(refusal.headers), "application/json")


async def _http_error(_: HTTPRequest, error: HTTPException) -> Response:
    return _response(refused(error.status_code, f"{error.detail}: see /v1/models for what is served here"))
