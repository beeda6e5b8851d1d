"""One request of a client and its answer: read, asked for, written, and given up as soon as the client is gone."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from time import monotonic
from typing import Any

import anyio

from ..adapters.emitting import Emitter, chunk_deltas, end_deltas, error_delta, json_text
from ..requests import Options, Request
from ..values import APIError, ConfigError, Failure, ProtocolWarning, Reply
from .failures import Refusal, of_error, refused
from .models import Answers
from .sink import ClientGone, EventSink, Send, encoded, guarded
from .wires import Asked, Wire

__all__ = ["Exchange", "send_refusal"]

Receive = Callable[[], Awaitable[Any]]

log = logging.getLogger("streamfold.gateway")

_LONGEST_HEADER = 2000  # characters of warnings
_UNSAID = Options()
_PARTING = 1.0  # seconds to say that the server stops


@dataclass(slots=True)
class Exchange:
    """A request that was read, and who is to answer it.

    Attributes:
        model: what to ask the provider for, if it is not its own model.
        repair: mend conversations that the provider would refuse.
        every: seconds of silence after which a comment is sent.
    """

    wire: Wire
    asked: Asked
    provider: Answers
    model: str | None
    repair: bool
    every: float | None

    async def run(self, receive: Receive, send: Send) -> None:
        """Answers. When it returns, or is cancelled, the provider's connection is closed."""
        began, headers = monotonic(), {"x-request-id": self.asked.id}
        send = guarded(send)
        sink = EventSink(send, headers, self.every)
        emitter = self.wire.emitter(self.asked)
        gone = stopped = False

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
                await self._answer(emitter, sink, send, headers)
            except ClientGone:
                gone = True
            except anyio.get_cancelled_exc_class():
                if not gone:  # the server stops: what has begun is not to end as if it were whole
                    stopped = True
                    with anyio.move_on_after(_PARTING, shield=True):
                        await self._failed(refused(503, "the server is shutting down"), emitter, sink, send)
                raise
            finally:
                told = "stopped" if stopped else "client gone" if gone else "done"
                log.info("%s %s: %s after %.2f s", self.asked.id, self.asked.model, told, monotonic() - began)
            tasks.cancel_scope.cancel()

    async def _answer(self, emitter: Emitter, sink: EventSink, send: Send, headers: dict[str, str]) -> None:
        try:
            request, dropped = self.wire.across(self.asked.request, _adapter(self.provider))
            _check_configuration(self.provider)
            reply = await self._read(request, emitter, sink)
            reply = replace(reply, warnings=[*dropped, *reply.warnings])
            self._tell(reply)
            if self.asked.stream:
                await sink.write(emitter.feed_all(end_deltas(reply)) + emitter.finish(), last=True)
            else:
                await _send_body(send, self.wire.whole(self.asked, reply), {**headers, **_told(reply.warnings)})
        except ConfigError as error:
            await self._failed(refused(400, str(error)), emitter, sink, send)
        except _NotConfigured as error:
            log.error("%s %s: %s", self.asked.id, self.asked.model, error)
            message = "this provider is not configured rightly; the server's log says what is missing"
            await self._failed(refused(500, message), emitter, sink, send)
        except APIError as error:
            log.warning("%s %s: %s: %s", self.asked.id, self.asked.model, type(error).__name__, error)
            await self._failed(of_error(error), emitter, sink, send, error_delta(error))
        except ClientGone:
            raise
        except Exception:
            log.exception("%s %s: unexpected", self.asked.id, self.asked.model)
            await self._failed(refused(500, "the server failed; its log says how"), emitter, sink, send)

    async def _read(self, request: Request, emitter: Emitter, sink: EventSink) -> Reply:
        """The whole answer; what of it is text is written as it comes, if that is wanted."""
        options = {option.name: getattr(request.options, option.name) for option in fields(Options)}
        given = {name: value for name, value in options.items() if value != getattr(_UNSAID, name)}
        stream = self.provider.chat_stream(
            request.messages,
            list(request.tools) or None,
            tool_choice=request.tool_choice,
            model=self.model,
            repair=self.repair,
            **given,
        )
        async with stream:
            async for chunk in stream:
                if self.asked.stream and (events := emitter.feed_all(chunk_deltas(chunk))):
                    await sink.write(events)
            return stream.reply

    async def _failed(
        self, refusal: Refusal, emitter: Emitter, sink: EventSink, send: Send, failure: Failure | None = None
    ) -> None:
        """Tells the client: by a status if nothing has been sent, else by an event."""
        if not sink.started:
            sink.ended = True
            await send_refusal(send, refusal, {"x-request-id": self.asked.id})
        else:
            await sink.write(emitter.feed(failure or Failure(refusal.info)), last=True)

    def _tell(self, reply: Reply) -> None:
        for attempt in reply.attempts:
            log.warning("%s %s: tried %s: %s", self.asked.id, self.asked.model, attempt.provider, attempt.problem)
        for warning in reply.warnings:
            log.warning("%s %s: %s: %s", self.asked.id, self.asked.model, warning.code, warning.detail)


class _NotConfigured(Exception):
    """The provider can't be asked, and no request can change that."""


def _adapter(provider: Answers) -> str | None:
    adapter = getattr(getattr(provider, "profile", None), "adapter", None)
    return adapter if isinstance(adapter, str) else None


def _check_configuration(provider: Answers) -> None:
    """Raises _NotConfigured if a key or a variable is missing: that is no mistake of the client's."""
    profile = getattr(provider, "profile", None)
    if profile is None or hasattr(provider, "providers"):  # of several, those without a key are passed over
        return
    try:
        profile.secrets()
        profile.sent_url()
    except ConfigError as exc:
        raise _NotConfigured(str(exc)) from exc


def _told(warnings: list[ProtocolWarning]) -> dict[str, str]:
    text = "; ".join(f"{warning.code}: {warning.detail}" for warning in warnings)
    return {"x-streamfold-warnings": text[:_LONGEST_HEADER]} if text else {}


async def _send_body(send: Send, body: dict[str, Any], headers: dict[str, str]) -> None:
    await _send_json(send, 200, json_text(body).encode(), headers)


async def send_refusal(send: Send, refusal: Refusal, headers: dict[str, str]) -> None:
    """Sends an answer that is an error."""
    await _send_json(send, refusal.status, refusal.body, {**headers, **refusal.headers})


async def _send_json(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    told = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-store"}
    await send({"type": "http.response.start", "status": status, "headers": encoded({**told, **headers})})
    await send({"type": "http.response.body", "body": body, "more_body": False})
