"""Answers that are no stream: a count of tokens, a call of a batch API, a file; and how long a whole reply may take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ..engine import NonStreamBody
from ..net import Exchange, HTTPRequest
from ..values import APIError, Limits, ProtocolError, Reply, StreamError, Timeouts
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
