"""Faults in front of a live provider."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable

import httpx

from ..faults import BodyStep, Chain, Fault, Injector, status
from ..values import ConfigError
from .replay import broken_off, hung_up, pause


class FaultTransport(httpx.AsyncBaseTransport):
    """Breaks the answers that come through another transport: `FaultTransport(httpx.AsyncHTTPTransport(), [reset()])`.

    If a fault replaces the answer, the request is not sent. Compression is not requested, because faults count bytes
    and events.

    Raises:
        ConfigError: `faults` contains something else.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, faults: Iterable[Fault]) -> None:
        self._transport = transport
        self._injector = Injector(faults)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request, unless a fault answers it, and breaks the answer."""
        injection = self._injector.next()
        if isinstance(injection.instead, status):
            fault = injection.instead
            return httpx.Response(fault.code, headers=dict(fault.headers), content=fault.content)
        if injection.instead is not None:
            raise hung_up()
        request.headers["Accept-Encoding"] = "identity"
        if injection.delay:
            await pause(injection.delay)
        response = await self._transport.handle_async_request(request)
        if not isinstance(response.stream, httpx.AsyncByteStream):
            raise ConfigError(f"{self._transport!r} gave an answer that can't be read asynchronously")
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-length"]
        return httpx.Response(
            response.status_code,
            headers=headers if injection.touched else response.headers,
            stream=_Body(response.stream, injection.body) if injection.touched else response.stream,
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Body(httpx.AsyncByteStream):
    """A body that is broken on its way."""

    def __init__(self, stream: httpx.AsyncByteStream, chain: Chain) -> None:
        self._stream = stream
        self._chain = chain
        self._pieces: AsyncIterator[bytes] | None = None
        self._steps: deque[BodyStep] = deque()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            while self._steps:
                step = self._steps.popleft()
                await pause(step.delay)
                if step.ending in ("cut", "reset"):
                    raise broken_off(step.ending)
                if step.data:
                    return step.data
            if self._chain.ended:
                raise StopAsyncIteration
            self._steps.extend(self._chain.feed(await self._next()))

    async def _next(self) -> BodyStep:
        if self._pieces is None:
            self._pieces = aiter(self._stream)
            return BodyStep(0.0)  # what is to happen before the first byte
        try:
            return BodyStep(0.0, await anext(self._pieces))
        except StopAsyncIteration:
            return BodyStep(0.0, b"", "end")

    async def aclose(self) -> None:
        await self._stream.aclose()
