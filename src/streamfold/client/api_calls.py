"""Calls whose answer isn't a chat stream: token counts and requests of the batch API."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ..adapters import Adapter, PreparedRequest
from ..adapters.batches import BatchAPI, BatchResult
from ..engine import NonStreamBody, StreamDecoder
from ..errors import APIError, ProtocolError, StreamError, status_error, upstream_error
from ..net import Exchange, HTTPRequest, Redactor, redact_error
from ..types import Limits, Reply, ReplyWarning, Timeouts
from .costs import ProfilePricing
from .hooks import Notifier
from .loop_bound_client import LoopBoundClient
from .retrying import RetryLoop

T = TypeVar("T")

_WHOLE_ANSWER = 600.0  # seconds, as the clients of OpenAI and Anthropic have it


class APICall(Generic[T]):
    """A request that has been prepared.

    Args:
        connections: gives out the HTTP client for each attempt.
        max_retries: how often a request that failed is sent again.
        read: reads the response of an attempt.
    """

    def __init__(
        self,
        request: HTTPRequest,
        notifier: Notifier,
        connections: LoopBoundClient,
        *,
        max_retries: int,
        read: Callable[[Exchange], Awaitable[T]],
    ) -> None:
        self._notifier = notifier
        self._read = read
        self._attempts = RetryLoop(request, notifier, connections, max_retries=max_retries)

    async def send(self) -> T:
        """Returns what the response says. Called once.

        Raises:
            APIError: the request failed, or the response can't be read.
        """
        try:
            return await self._attempts.run(lambda: self._read)
        except APIError as error:
            if isinstance(error, StreamError):
                error.partial = error.partial or Reply()
            self._notifier.notify("on_error", self._attempts.signed(error))
            raise
        finally:
            await self._attempts.aclose()


def json_reader(what: str, read: Callable[[Any], T], limits: Limits) -> Callable[[Exchange], Awaitable[T]]:
    """Returns a reader of responses that are one JSON value.

    Args:
        what: what the value should be, for errors.
        read: reads the value; raises ValueError if it is something else.
    """

    async def read_json(exchange: Exchange) -> T:
        body = NonStreamBody("json", limits)
        while (data := await exchange.read()) is not None:
            body.feed(data)
        value = body.finish(None)
        try:
            return read(value)
        except ValueError as exc:
            raise ProtocolError(f"the answer is not {what}: {exc}", body=value) from exc

    return read_json


def non_streaming_timeouts(timeouts: Timeouts) -> Timeouts:
    """Returns the configured timeouts as a whole reply has them: all of it comes when a stream would be at its end."""
    first = timeouts.first_event
    return timeouts if first is None else replace(timeouts, first_event=max(first, _WHOLE_ANSWER))


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch, and how its answer is read.

    Attributes:
        group: requests with the same one may be in one batch.
    """

    prepared: PreparedRequest
    group: str
    provider: str
    _api: BatchAPI
    _adapter: Adapter
    _decoder: Callable[[], StreamDecoder]
    _pricing: ProfilePricing
    _secrets: Callable[[], list[str]]

    def line(self, name: str) -> bytes:
        """Returns the request as a line of the batch."""
        return self._api.line(name, self.prepared)

    def reply(self, result: BatchResult) -> Reply:
        """Returns the reply, read by the same engine as a streamed one.

        Raises:
            APIError: the request was not answered, or the answer is not complete.
        """
        try:
            return self._reply(result)
        except APIError as error:
            error.provider, error.request_id = self.provider, error.request_id or result.request_id
            if error.partial is not None:
                error.partial = replace(error.partial, pricing=replace(self._pricing, partial=True))
            redact_error(error, Redactor(self._secrets()))
            raise

    def _reply(self, result: BatchResult) -> Reply:
        if result.answer is None:
            raise self._error(result)
        decoder = self._decoder()
        decoder.feed(json.dumps(result.answer).encode())
        decoder.close()
        reply = decoder.reply
        warnings: list[ReplyWarning] = [*self.prepared.warnings, *reply.warnings]
        return replace(
            reply,
            request_id=result.request_id,
            warnings=warnings,
            provider=self.provider,
            origin=self.prepared.request.origin,
            pricing=self._pricing,
        )

    def _error(self, result: BatchResult) -> APIError:
        info = self._adapter.read_error(result.problem, result.status)
        if result.status is not None:
            return status_error(info, body=result.problem)
        return upstream_error(info, body=result.problem)
