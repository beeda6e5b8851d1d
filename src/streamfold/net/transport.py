"""One POST and the bytes of its answer: status to error, clocks, and a socket that is closed whatever happens.

Nothing is held while control is with the caller (`waiting.py`). So a stream may be closed by another task than the one
that reads it, which is woken and finds the exchange closed.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import inf
from time import time
from typing import TypeVar

import anyio
import httpx

from ..engine import error_body
from ..values import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    ConfigError,
    Limits,
    Timeouts,
    error_info,
    shown_url,
    status_error,
)
from .clients import LoggedURL
from .clocks import Clocks
from .connecting import Connecting
from .waiting import Interrupted, waits

__all__ = ["Exchange", "HTTPRequest"]

T = TypeVar("T")

_CLOSING = 5.0  # seconds that closing may take, so that a dead peer can't hold a cancelled task
_ERROR_BODY = 10.0  # seconds for the body of an error status, which may never end
_DRAIN = 0.1  # seconds for the end of the body behind the end of the answer, so that the connection can be used again

# The id that the provider's support asks for: OpenAI and most others, Anthropic, Moonshot, Azure.
_REQUEST_IDS = ("x-request-id", "request-id", "msh-request-id", "x-trace-id", "apim-request-id")


_REDIRECTS = (301, 302, 303, 307, 308)
_SHOULD_RETRY = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """What goes over the wire, before anything does. Headers and URL are not in the repr: they may hold keys.

    Attributes:
        logged_url: what httpx is to log instead of the URL; None where it can't be had otherwise.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: Limits = field(default_factory=Limits)
    logged_url: str | None = None
    method: str = "POST"


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
        self._waits = waits(clocks)
        self._response: httpx.Response | None = None
        self._bytes: AsyncIterator[bytes] | None = None
        self._next: Callable[[], Awaitable[bytes]] | None = None
        self._events = 0
        self.closed = False
        self.request_id: str | None = None

    async def pause(self, seconds: float) -> None:
        """Sleeps before the request is sent; `aclose` ends it."""
        if seconds and not self.closed:
            self._clocks.pause()
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
        self._waits.moved()  # after a pause, in which they were further away
        response = await self._interruptible(self._send())
        if response is None:
            await self.aclose()
            return
        self.request_id = next((value for name in _REQUEST_IDS if (value := response.headers.get(name))), None)
        if not response.is_success:
            if (error := await self._status_error(response)) is not None:
                raise error
            return
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
        if self._clocks.ends != inf and self._waits.now() >= self._clocks.ends:  # what is there already needs no wait
            raise self._clocks.error("total", request_id=self.request_id)
        if events != self._events:
            self._events = events
            if self._clocks.event_came():
                self._waits.moved()
        try:
            data = await self._waits.wait(self._next())
        except StopAsyncIteration:
            return None
        except Interrupted:
            self._interrupted()
            return None
        except Exception as exc:
            raise self._failed(exc) from exc
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
                try:
                    await self._response.aclose()
                    # Else the garbage collector does it, and trio complains. A reader that is in it ends it itself.
                    if isinstance(self._bytes, AsyncGenerator) and not self._waits.busy:
                        await self._bytes.aclose()
                except Exception as exc:  # a connection that breaks while it is closed is closed
                    if not _is_network(exc):
                        raise

    async def _send(self) -> httpx.Response:
        wanted = self._request
        request = self._client.build_request(
            wanted.method,
            wanted.url,
            headers=dict(wanted.headers),
            content=wanted.body,
            timeout=httpx.Timeout(None, connect=wanted.timeouts.connect, pool=wanted.timeouts.connect),
        )
        if wanted.logged_url is not None:
            request.url = LoggedURL(request.url, wanted.logged_url)
        connecting = Connecting(request)
        try:
            self._response = await self._client.send(request, stream=True, follow_redirects=False)
        except BaseException:
            with anyio.move_on_after(_CLOSING, shield=True):
                await connecting.aclose()
            raise
        return self._response

    async def _interruptible(self, step: Awaitable[T]) -> T | None:
        """A wait before the first bytes of the body; None if `aclose` ended it."""
        try:
            result = await self._waits.wait(step)
            return None if self.closed else result
        except Interrupted:
            self._interrupted()
        except httpx.InvalidURL:
            raise ConfigError("base_url is not a URL that can be used") from None  # httpx quotes parts of it
        except Exception as exc:
            error = self._failed(exc)
            if not self.closed:
                raise error from exc
        return None

    def _interrupted(self) -> None:
        if not self.closed:
            raise self._clocks.timeout(self.request_id) from None

    def _failed(self, exc: Exception) -> APIConnectionError:
        """The error for what a transport raised, if that is of the network; else what it raised goes through."""
        if not _is_network(exc):
            raise exc
        # A timeout that is none: over aiohttp, httpx calls every lost connection a ConnectTimeout.
        if isinstance(exc, httpx.TimeoutException) and _ran_out(exc) and self._response is None:
            # The only clocks that httpx is asked to watch.
            what = "no free connection in the pool" if isinstance(exc, httpx.PoolTimeout) else None
            return self._clocks.error("connect", what)
        final = isinstance(exc, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
        what = "the connection broke" if self._response is not None else "no connection"
        return APIConnectionError(
            f"{what}: {_said(exc) or type(exc).__name__}",
            retryable=not final and not _caused_by(exc, ssl.SSLCertVerificationError),
        )

    async def _status_error(self, response: httpx.Response) -> APIError | None:
        """The error for a status that is not 2xx, with what could be read of its body; None if `aclose` came."""
        body = bytearray()
        with suppress(APITimeoutError):  # that the body did not end is no news beside the status
            try:
                await self._interruptible(self._error_body(response, body))
            except APIConnectionError as exc:
                body = body or bytearray(f"(the body could not be read: {exc.message})".encode())
        if self.closed:
            return None
        await self.aclose()
        text = body[: self._request.limits.error_body_bytes].decode("utf-8", "replace").strip()
        read = error_body(text) or response.reason_phrase or "no message"
        location = response.extensions.get("location") or response.headers.get("location")
        if location and response.status_code in _REDIRECTS:
            target = shown_url(location)
            read = f"redirects are not followed, and this one leads to {target}: set base_url to the final address"
        return status_error(
            error_info(read, status=response.status_code),
            request_id=self.request_id,
            retry_after=_retry_after(response.headers),
            should_retry=_SHOULD_RETRY.get(response.headers.get("x-should-retry", "").lower()),
            body=read if isinstance(read, dict | list) else text,
        )

    async def _error_body(self, response: httpx.Response, body: bytearray) -> None:
        with anyio.move_on_after(_ERROR_BODY):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) >= self._request.limits.error_body_bytes:
                    return


def _bytes_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """The pieces of the body as they come; compressed ones, which nobody asked for, unpacked."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity" or response.is_stream_consumed or not isinstance(response.stream, httpx.AsyncByteStream):
        return response.aiter_bytes()
    return response.stream.__aiter__()  # without httpx's layers for what is not needed here, a microsecond a piece each


# Not all of their errors arrive as one of httpx's: those of TLS, of HTTP/2 frames and of aiohttp's parser go through.
_NETWORK = (httpx.HTTPError, httpx.StreamError, ConnectionError, TimeoutError, ssl.SSLError)
_NETWORK_PACKAGES = {"httpcore", "h11", "h2", "hpack", "hyperframe", "aiohttp", "anyio"}


def _is_network(exc: Exception) -> bool:
    return isinstance(exc, _NETWORK) or type(exc).__module__.partition(".")[0] in _NETWORK_PACKAGES


def _said(exc: BaseException | None) -> str:
    """The first words behind an error. On trio those of httpx have none of their own."""
    return "" if exc is None else str(exc) or _said(exc.__cause__ or exc.__context__)


def _ran_out(exc: BaseException | None) -> bool:
    """Whether a clock ran out behind this. trio has an error of its own for that, which is no TimeoutError."""
    if exc is None:
        return False
    clock = isinstance(exc, TimeoutError) or type(exc).__name__ == "TooSlowError"
    return clock or _ran_out(exc.__cause__ or exc.__context__)


def _caused_by(exc: BaseException | None, kind: type[BaseException]) -> bool:
    return exc is not None and (isinstance(exc, kind) or _caused_by(exc.__cause__ or exc.__context__, kind))


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` in seconds or as a date; None if neither can be read."""
    for name, read in (("retry-after-ms", _milliseconds), ("retry-after", float), ("retry-after", _until)):
        try:
            seconds = read(headers.get(name, ""))
        except (ValueError, OverflowError):  # OverflowError: a date far outside of the calendar
            continue
        if seconds == seconds:  # not "nan"
            return max(0.0, seconds)
    return None


def _milliseconds(text: str) -> float:
    return float(text) / 1000


def _until(text: str) -> float:
    return parsedate_to_datetime(text).timestamp() - time()
