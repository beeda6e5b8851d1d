"""The HTTP client of a provider: made when it is first needed, on the event loop that needs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import anyio
import httpx
from anyio.lowlevel import current_token

from ..config import Profile
from ..errors import StreamfoldError
from ..net import aiohttp_problem, event_loop, make_client

_logger = logging.getLogger("streamfold.transport")
_CLOSING = 5.0  # seconds that closing the connections may take when their event loop ends


class LoopBoundClient:
    """Gives out the client to send with.

    A client that is made here is closed when its event loop ends, so that a provider may be used in one `asyncio.run`
    after the other.

    Args:
        given: the caller's own client. It is used as it is and never closed.

    Attributes:
        owned: whether the client is made here.
        prefers_aiohttp: whether to send with aiohttp where that is possible and no transport is configured.
    """

    def __init__(self, profile: Profile, given: httpx.AsyncClient | None) -> None:
        self._profile = profile
        self._given = given
        self.owned = given is None
        self.prefers_aiohttp = False
        self._bound: _Bound | None = None

    def client(self, loop: asyncio.AbstractEventLoop | None) -> httpx.AsyncClient:
        """Returns the client. Raises StreamfoldError if it can't be used here.

        Args:
            loop: the running event loop of asyncio; None on trio.
        """
        if self._given is not None:
            if self._given.is_closed:
                raise StreamfoldError(f'provider "{self._profile.name}": the http_client that it was given is closed')
            return self._given  # the caller decides on which event loops it is used
        here, bound = loop or current_token(), self._bound
        if bound is not None and not bound.is_gone:
            if bound.loop != here:
                raise StreamfoldError(
                    f'provider "{self._profile.name}" is in use on another event loop, and its connections can\'t'
                    " change loops. Make one provider for each loop, or call aclose() before"
                )
            return bound.client
        client = make_client(self._transport(), http2=self._profile.http2)
        self._bound = _Bound(client, here)
        self._bound.watch()
        return client

    def _transport(self) -> str:
        profile = self._profile
        if not self.prefers_aiohttp or "transport" in profile.model_fields_set:
            return profile.transport
        problem = "http2 = true" if profile.http2 else aiohttp_problem(profile.sent_url())
        transport = "aiohttp" if problem is None else "httpx"
        _logger.info("%s: requests are sent with %s%s", profile.name, transport, f": {problem}" if problem else "")
        return transport

    async def aclose(self) -> None:
        """Closes the client if it was made here."""
        bound, self._bound = self._bound, None
        if bound is None or bound.is_gone:
            return
        try:
            await bound.aclose()
        except RuntimeError:
            if bound.loop == _here():
                raise
            # The connections belong to an event loop of another thread, and only that one could close them in order.


def _here() -> object:
    """Returns what stands for the running event loop."""
    return event_loop() or current_token()


@dataclass(eq=False)
class _Bound:
    """A client and the event loop that its connections belong to.

    Attributes:
        closed: whether it was closed, with its loop or before.
    """

    client: httpx.AsyncClient
    loop: object
    closed: bool = False
    _watch: AsyncGenerator[None] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether its event loop has ended."""
        is_closed = getattr(self.loop, "is_closed", None)  # asyncio's loops
        return self.closed or (is_closed is not None and is_closed())

    def watch(self) -> None:
        """Sees to it that the client is closed when the running event loop ends.

        asyncio and trio close the asynchronous generators that are still suspended then. This one is suspended from
        here on, and does not refer to the provider.
        """
        self._watch = _closing(self)
        try:
            self._watch.__anext__().send(None)
        except StopIteration:
            return  # it is at its `yield`
        raise RuntimeError("the generator that closes the connections did not begin")

    async def aclose(self) -> None:
        """Closes the client."""
        self.closed = True
        await self.client.aclose()
        if self._watch is not None:
            await self._watch.aclose()


async def _closing(bound: _Bound) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        if not bound.closed:
            bound.closed = True
            with anyio.move_on_after(_CLOSING, shield=True):
                await bound.client.aclose()
