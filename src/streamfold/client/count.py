"""How many tokens a prompt has, as its provider counts them: one request, and one JSON object as its answer."""

from __future__ import annotations

from ..adapters import Adapter
from ..engine import PlainBody
from ..net import Exchange, HTTPRequest
from ..values import APIError, ProtocolError, Reply, StreamError
from .attempts import Attempts
from .connections import Connections
from .hooks import Notifier

__all__ = ["TokenCount"]


class TokenCount:
    """A count that has been prepared.

    Args:
        adapter: reads the answer.
        connections: gives out the HTTP client for each attempt.
        max_retries: how often a request that failed is sent again.
    """

    def __init__(
        self,
        adapter: Adapter,
        request: HTTPRequest,
        notifier: Notifier,
        connections: Connections,
        *,
        max_retries: int,
    ) -> None:
        self._adapter = adapter
        self._limits = request.limits
        self._notifier = notifier
        self._attempts = Attempts(request, notifier, connections, max_retries=max_retries, without=lambda error: None)

    async def number(self) -> int:
        """Returns the number of tokens. Called once.

        Raises:
            APIError: the request failed, or the answer has no such number.
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

    async def _read(self, exchange: Exchange) -> int:
        body = PlainBody("json", self._limits)
        while (data := await exchange.read()) is not None:
            body.feed(data)
        value = body.finish(None)
        try:
            return self._adapter.read_count(value)
        except ValueError as exc:
            raise ProtocolError(f"the answer is not a count of tokens: {exc}", body=value) from exc
