"""The way of each request from its head to its answer, whatever its path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from time import time
from typing import Any
from uuid import uuid4

import anyio.to_thread
from starlette.datastructures import Headers, QueryParams

from ..config import GatewayOptions
from ..text import parse_object
from ..turns import TurnCache
from ..values import ConfigError
from .access import Access
from .bodies import Bodies, ClientGone, Receive
from .clients import Client
from .conversation import without_empty_turns
from .exchange import Exchange
from .failures import Refused, refused
from .keys import KeyRateLimits
from .logs import RequestLog
from .metrics import Metrics
from .models import Models, Served
from .outcomes import write_json
from .sink import Send, guarded, send_json
from .wire import ClientRequest, Warnings, Wire

__all__ = ["RequestHandler"]

_LARGE = 2**18  # bytes of a body above which it is parsed beside the event loop


class RequestHandler:
    """Answers the requests of clients, within the bounds of the options.

    Attributes:
        running: how many requests are being answered.
    """

    def __init__(
        self,
        models: Models,
        access: Access,
        options: GatewayOptions,
        memory: TurnCache | None,
        rate_limits: KeyRateLimits,
        metrics: Metrics | None,
    ) -> None:
        self.access = access
        self.bodies = Bodies(options)
        self.options = options
        self.running = 0
        self._models = models
        self._memory = memory
        self._rate_limits = rate_limits
        self._metrics = metrics
        self._observers = [*([metrics.observe] if metrics else []), *([write_json] if options.json_log else [])]

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
                        memory = self._memory and self._memory.of(client.id, ids=wire.returns_ids)
                        async with self._rate_limits.within(client, served, asked.request) as charge:
                            exchange = Exchange(wire, asked, served, self.options, log, dropped, memory, charge)
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
            named = self._models.find(model, client) if isinstance(value, Mapping) and isinstance(model, str) else None
            adapters = named.adapters if named else ()
            asked = wire.read(value, params=params, adapters=adapters, id=log.id, created=int(time()), headers=headers)
        except ConfigError as error:
            raise refused(400, error.problem) from error
        return asked, named or self._models.find(asked.model, client)

    def _for_provider(self, wire: Wire, asked: ClientRequest, served: Served) -> tuple[ClientRequest, Warnings]:
        try:
            asked, dropped = wire.for_provider(wire.without_client_ids(asked), served.adapters)
        except ConfigError as error:
            raise refused(400, error.problem) from error
        messages, empty = without_empty_turns(asked.request.messages)
        return replace(asked, request=replace(asked.request, messages=messages)), [*dropped, *empty]

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
