"""One request and its answer: asked for, written as it arrives, and given up as soon as the client is gone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import anyio

from ..adapters.emitting import Emitter
from ..config import GatewayOptions
from ..values import APIError, ConfigError, Delta, Failure, NotConfiguredError, Reply
from .bodies import ClientGone, Receive
from .failures import Refused, of_error, refused
from .jsonable import jsonable
from .logs import RequestLog
from .models import Served
from .order import Order
from .sink import EventSink, Send, send_json
from .wire import ClientRequest, Warnings, Wire

__all__ = ["Exchange"]

_LONGEST_HEADER = 2000  # characters of warnings
_PARTING = 1.0  # seconds to tell the client that the server stops


@dataclass(slots=True)
class Exchange:
    """A parsed request, and the provider that is to answer it.

    Attributes:
        dropped: warnings about parts of the request that the provider can't be asked.
    """

    wire: Wire
    asked: ClientRequest
    served: Served
    options: GatewayOptions
    log: RequestLog
    dropped: Warnings

    async def run(self, receive: Receive, send: Send) -> None:
        """Answers. When it returns, or is cancelled, the provider's connection is closed.

        Raises:
            Refused: there is no answer, and nothing has been sent.
            ClientGone: the client left before the end.
        """
        sink = EventSink(send, self._headers, self.options.keepalive, self.wire.keep_alive)
        emitter = self.wire.emitter(self.asked)
        gone = answered = False
        refusal: Refused | None = None

        async def watch(scope: anyio.CancelScope) -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass
            gone = True
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, tasks.cancel_scope)
            if self.asked.stream:
                tasks.start_soon(sink.keep_alive)
            try:
                await self._answer(emitter, sink, send)
                answered = True
            except Refused as exc:
                refusal = exc  # raised below: a task group would wrap it
            except ClientGone:
                gone = True
            except anyio.get_cancelled_exc_class():
                if not gone:  # the server stops: what has begun must not end as if it were whole
                    self.log.stopped()
                    with anyio.move_on_after(_PARTING, shield=True):
                        await self._part(emitter, sink, send)
                raise
            tasks.cancel_scope.cancel()
        if gone and not answered:  # after the answer every client leaves
            raise ClientGone
        if refusal is not None:
            raise refusal

    async def _answer(self, emitter: Emitter, sink: EventSink, send: Send) -> None:
        order, waiting = Order(), list[Delta]()
        try:
            reply = await self._read(emitter, sink, order, waiting)
            if self.asked.stream:
                await sink.write(emitter.feed_all(order.end(reply)) + emitter.finish(), last=True)
            else:
                headers = {**self._headers, **_warning_header(reply)}
                body = self.wire.whole(self.asked, reply, [*waiting, *order.end(reply)])
                await send_json(send, 200, body, headers)
            self.log.completed(reply)
        except ClientGone:
            raise
        except Exception as error:
            refusal = _refusal(error)
            if not sink.started:
                sink.ended = True
                raise refusal from refusal.__cause__
            self.log.failed(refusal)
            await sink.write(emitter.feed_all([*order.rest(), Failure(self.wire.info(refusal))]), last=True)

    async def _read(self, emitter: Emitter, sink: EventSink, order: Order, waiting: list[Delta]) -> Reply:
        """Returns the whole answer. Its text is written as it arrives, or waits if the client wants no stream.

        Raises:
            Refused: the request does not fit the provider, or the provider can't be asked.
            APIError: the provider failed.
        """
        try:
            async with self.served.stream(self.asked.request, repair=self.options.repair) as stream:
                async for chunk in stream:
                    deltas = order.feed(chunk)
                    if not self.asked.stream:
                        waiting += deltas
                    elif events := emitter.feed_all(deltas):
                        await sink.write(events)
                return _with_warnings(jsonable(stream.reply), self.dropped)
        except NotConfiguredError as error:
            raise refused(500, "the server is misconfigured for this model; see its log") from error
        except ConfigError as error:
            raise refused(400, str(error)) from error

    async def _part(self, emitter: Emitter, sink: EventSink, send: Send) -> None:
        refusal = refused(503, "the server is shutting down")
        if sink.started:
            await sink.write(emitter.feed(Failure(self.wire.info(refusal))), last=True)
        else:
            await send_json(send, *self.wire.error(refusal, self.asked.id), self._headers)

    @property
    def _headers(self) -> dict[str, str]:
        return self.wire.headers(self.asked.id)


def _refusal(error: Exception) -> Refused:
    """The refusal for any failure, with the failure as its cause."""
    if isinstance(error, Refused):
        return error
    made = of_error(error) if isinstance(error, APIError) else refused(500, "the server failed; its log says how")
    made.__cause__ = error
    return made


def _with_warnings(reply: Reply, more: Warnings) -> Reply:
    return replace(reply, warnings=[*more, *reply.warnings]) if more else reply


def _warning_header(reply: Reply) -> dict[str, str]:
    text = "; ".join(f"{warning.code}: {warning.detail}" for warning in reply.warnings)
    return {"x-streamfold-warnings": text[:_LONGEST_HEADER]} if text else {}
