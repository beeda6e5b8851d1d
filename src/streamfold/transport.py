"""One POST and the bytes of its answer: status to error, clocks, and a socket that is closed whatever happens.

Nothing is held while control is with the caller (`waiting.py`). So a stream may be closed by another task than the one
that reads it, which is woken and finds the exchange closed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, TypeVar

import anyio
import httpx

from .clocks import Clocks
from .errors import APIConnectionError, APIError, ConfigError, error_info, status_error
from .jsontext import parse_event
from .types import Limits, Timeouts
from .waiting import Interrupted, waits

__all__ = ["Exchange", "HTTPRequest", "make_client"]

T = TypeVar("T")

_CLOSING = 5.0  # seconds that closing may take, so that a dead peer can't hold a cancelled task
_ERROR_BODY = 10.0  # seconds for the body of an error status, which may never end
_DRAIN = 0.1  # seconds for the end of the body behind the end of the answer, so that the connection can be used again

# The id that the provider's support asks for: OpenAI and most others, Anthropic, Moonshot, Azure.
_REQUEST_IDS = ("x-request-id", "request-id", "msh-request-id", "x-trace-id", "apim-request-id")


_SHOULD_RETRY = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """What goes over the wire, before anything does. Headers and URL are not in the repr: they may hold keys."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: Limits = field(default_factory=Limits)


def make_client(transport: str = "httpx", *, http2: bool = False) -> httpx.AsyncClient:
    """A client of our own. As many connections as there are streams: a pool that is full would look like a slow server.

    Raises:
        ConfigError: it needs an extra that is not installed.
    """
    # Few idle connections: closing one makes httpcore look at all of them.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    if transport == "aiohttp":
        return httpx.AsyncClient(transport=_aiohttp_transport(limits), timeout=None)
    try:
        return httpx.AsyncClient(limits=limits, timeout=None, http2=http2)
    except ImportError as exc:  # httpx asks for h2, or, where the environment names a SOCKS proxy, for socksio
        raise ConfigError(f"{exc} (streamfold has the same extras: streamfold[http2], streamfold[socks])") from None


def _aiohttp_transport(limits: httpx.Limits) -> httpx.AsyncBaseTransport:
    try:
        import aiohttp
        from httpx_aiohttp import AiohttpTransport
    except ImportError:
        raise ConfigError('transport "aiohttp" needs the extra: pip install "streamfold[aiohttp]"') from None

    verify = httpx.create_ssl_context()

    def session() -> aiohttp.ClientSession:  # made on the event loop that it belongs to
        # Its own session would stop at 100 connections and take no proxy from the environment, where httpx does.
        connector = aiohttp.TCPConnector(limit=0, ssl=verify, keepalive_timeout=limits.keepalive_expiry)
        return aiohttp.ClientSession(connector=connector, trust_env=True, cookie_jar=aiohttp.DummyCookieJar())

    return AiohttpTransport(verify=verify, limits=limits, client=session)


class Exchange:
    """One request and the bytes of its answer.

    Attributes:
        request_id: the server's id for the request, from the response headers.
        closed: whether `aclose` was called.
    """

    def __init__(self, client: httpx.AsyncClient, request: HTTPRequest, clocks: Clocks) -> None:
        self._client = client
        self._request = request
        self._clocks = clocks
        self._waits = waits(clocks.due)
        self._response: httpx.Response | None = None
        self._bytes: AsyncIterator[bytes] | None = None
        self._next: Callable[[], Awaitable[bytes]] | None = None
        self._events = 0
        self.closed = False
        self.request_id: str | None = None

    async def pause(self, seconds: float) -> None:
        """Sleeps before the request is sent; `aclose` ends it."""
        if seconds and not self.closed:
            await self._interruptible(anyio.sleep(seconds))

    async def open(self) -> None:
        """Sends the request and reads the head of the answer.

        Raises:
            APIStatusError: the status is not 2xx.
            APITimeoutError, APIConnectionError: no answer came.
        """
        if self.closed:
            return
        self._clocks.start(self._waits.now())
        request = self._client.build_request(
            "POST",
            self._request.url,
            headers=dict(self._request.headers),
            content=self._request.body,
            timeout=httpx.Timeout(None, connect=self._request.timeouts.connect, pool=self._request.timeouts.connect),
        )
        response = await self._interruptible(self._send(request))
        if response is None:
            await self.aclose()
            return
        self.request_id = next((value for name in _REQUEST_IDS if (value := response.headers.get(name))), None)
        if not response.is_success:
            raise await self._status_error(response)
        self._bytes = _bytes_of(response)
        self._next = self._bytes.__anext__

    async def read(self, events: int = 0) -> bytes | None:
        """The next bytes; None at the end of the body, and after `aclose`.

        Args:
            events: how many events there were in the bytes so far, for the clocks.

        Raises:
            APITimeoutError: a clock ran out.
            APIConnectionError: the connection broke, perhaps because it was closed here.
        """
        if self._next is None:
            return None
        clocks, waits = self._clocks, self._waits
        if events != self._events:
            self._events = events
            if clocks.event_came():
                waits.moved()
        clocks.waiting_since = waits.now()
        try:
            data = await waits.wait(self._next())
        except StopAsyncIteration:
            return None
        except Interrupted:
            self._interrupted()
            return None
        except httpx.HTTPError as exc:
            raise self._failed(exc) from exc
        clocks.bytes_came(waits.now())
        return None if self.closed else data

    async def drain(self) -> None:
        """Reads what is behind the end of the answer, for a moment: usually nothing but the end of the body."""
        with anyio.move_on_after(_DRAIN):
            try:
                while await self.read() is not None:
                    pass
            except APIConnectionError:
                self.closed = True  # whatever it was, the answer was whole before

    async def aclose(self) -> None:
        """Closes the connection, or gives it back to the pool after the end of the body. From any task, repeatedly."""
        self.closed, self._next = True, None
        self._waits.end()
        self._waits.close()
        if self._response is not None:
            with anyio.move_on_after(_CLOSING, shield=True):
                await self._response.aclose()
                # Else the garbage collector does it, and trio complains. A reader that is in it ends it itself.
                if isinstance(self._bytes, AsyncGenerator) and not self._waits.busy:
                    await self._bytes.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        self._response = await self._client.send(request, stream=True, follow_redirects=False)
        return self._response

    async def _interruptible(self, step: Awaitable[T]) -> T | None:
        """A wait before the first bytes of the body; None if `aclose` ended it."""
        try:
            result = await self._waits.wait(step)
            return None if self.closed else result
        except Interrupted:
            self._interrupted()
        except httpx.HTTPError as exc:
            if not self.closed:
                raise self._failed(exc) from exc
        return None

    def _interrupted(self) -> None:
        if not self.closed:
            raise self._clocks.timeout(self.request_id) from None

    def _failed(self, exc: httpx.HTTPError) -> APIConnectionError:
        # A timeout that is none: over aiohttp, httpx calls every lost connection a ConnectTimeout.
        if isinstance(exc, httpx.TimeoutException) and _timed_out(exc) and self._response is None:
            # The only clocks that httpx is asked to watch.
            what = "no free connection in the pool" if isinstance(exc, httpx.PoolTimeout) else None
            return self._clocks.error("connect", what)
        what = "the connection broke" if self._response is not None else "no connection"
        return APIConnectionError(
            f"{what}: {str(exc) or type(exc).__name__}", retryable=not isinstance(exc, httpx.UnsupportedProtocol)
        )

    async def _status_error(self, response: httpx.Response) -> APIError:
        body = b""
        limit = self._request.limits.error_body_bytes
        with anyio.move_on_after(_ERROR_BODY):
            try:
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) >= limit:
                        break
            except httpx.HTTPError as exc:
                body = body or f"(the body could not be read: {exc})".encode()
        await self.aclose()
        text = body[:limit].decode("utf-8", "replace").strip()
        read = _read_error_body(text) or response.reason_phrase or "no message"
        if response.is_redirect:
            target = response.headers.get("location")
            read = f"redirects are not followed, and this one leads to {target}: set base_url to the final address"
        return status_error(
            error_info(read, status=response.status_code),
            request_id=self.request_id,
            retry_after=_retry_after(response.headers),
            should_retry=_SHOULD_RETRY.get(response.headers.get("x-should-retry", "").lower()),
            body=read if isinstance(read, dict | list) else text,
        )


def _bytes_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """The pieces of the body as they come; compressed ones, which nobody asked for, unpacked."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity" or response.is_stream_consumed or not isinstance(response.stream, httpx.AsyncByteStream):
        return response.aiter_bytes()
    return response.stream.__aiter__()  # without httpx's layers for what is not needed here, a microsecond a piece each


def _timed_out(exc: BaseException | None) -> bool:
    return exc is not None and (isinstance(exc, TimeoutError) or _timed_out(exc.__cause__))


def _read_error_body(text: str) -> Any:
    if text.startswith("<"):  # a proxy's page: its title says what a person would read
        title = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
        return title.group(1).strip() if title else ""
    try:
        return parse_event(text)
    except ValueError:
        return text[:500]


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` in seconds or as a date; None if neither can be read."""
    for name, read in (("retry-after-ms", _milliseconds), ("retry-after", float), ("retry-after", _until)):
        try:
            seconds = read(headers.get(name, ""))
        except ValueError:
            continue
        if seconds == seconds:  # not "nan"
            return max(0.0, seconds)
    return None


def _milliseconds(text: str) -> float:
    return float(text) / 1000


def _until(text: str) -> float:
    return parsedate_to_datetime(text).timestamp() - time()
