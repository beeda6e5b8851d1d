"""One POST and the bytes of its answer: status to error, clocks, and a socket that is closed whatever happens.

No cancel scope is held while control is with the caller: each lives for one `await` of ours. So a stream may be closed
by another task than the one that reads it, which is woken by its scope and finds the exchange closed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from random import random
from time import time
from typing import TYPE_CHECKING, Any

import anyio
import httpx

from .errors import APIConnectionError, APIError, APITimeoutError, TimeoutPhase, error_info, status_error
from .jsontext import parse_event
from .types import Limits, Timeouts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Exchange", "HTTPRequest", "make_client", "retry_delay"]

_CLOSING = 5.0  # seconds that closing may take, so that a dead peer can't hold a cancelled task
_ERROR_BODY = 10.0  # seconds for the body of an error status, which may never end
_LONGEST_WAIT = 60.0  # seconds that a server may ask for before it is called a failure
_DRAIN = 0.1  # seconds for the end of the body behind the end of the answer, so that the connection can be used again

# The id that the provider's support asks for: OpenAI and most others, Anthropic, Moonshot, Azure.
_REQUEST_IDS = ("x-request-id", "request-id", "msh-request-id", "x-trace-id", "apim-request-id")


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """What goes over the wire, before anything does. Headers and URL are not in the repr: they may hold keys."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: Limits = field(default_factory=Limits)


def make_client(transport: str) -> httpx.AsyncClient:
    """A client of our own. As many connections as there are streams: a pool that is full would look like a slow server.

    Raises:
        ImportError: the transport needs an extra that is not installed.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    if transport == "aiohttp":
        from httpx_aiohttp import AiohttpTransport

        return httpx.AsyncClient(transport=AiohttpTransport(limits=limits), timeout=None)
    return httpx.AsyncClient(limits=limits, timeout=None)


def retry_delay(error: APIError, attempt: int) -> float | None:
    """Seconds until a request that failed with `error` may be sent again; None if it should not be.

    What the server asks for, else half a second, doubled with each attempt up to eight, less up to a quarter by chance.
    """
    if not error.retryable:
        return None
    asked = getattr(error, "retry_after", None)
    if asked is not None:
        return float(asked) if asked <= _LONGEST_WAIT else None
    return float(min(0.5 * 2**attempt, 8.0) * (1 - 0.25 * random()))  # noqa: S311 - spread, not secrecy


class Exchange:
    """One request and the bytes of its answer.

    Attributes:
        request_id: the server's id for the request, from the response headers.
    """

    def __init__(self, client: httpx.AsyncClient, request: HTTPRequest) -> None:
        self._client = client
        self._request = request
        self._response: httpx.Response | None = None
        self._bytes: AsyncIterator[bytes] | None = None
        self._scope: anyio.CancelScope | None = None
        self._clocks = _Clocks(request.timeouts)
        self.closed = False
        self.request_id: str | None = None

    async def wait(self, seconds: float) -> None:
        """Sleeps before the request is sent; `aclose` ends it."""
        if seconds:
            with anyio.CancelScope() as self._scope:
                await anyio.sleep(seconds)
            self._scope = None

    async def open(self) -> None:
        """Sends the request and reads the head of the answer.

        Raises:
            APIStatusError: the status is not 2xx.
            APITimeoutError, APIConnectionError: no answer came.
        """
        if self.closed:
            return
        self._clocks.start(anyio.current_time())
        request = self._client.build_request(
            "POST",
            self._request.url,
            headers=dict(self._request.headers),
            content=self._request.body,
            timeout=httpx.Timeout(None, connect=self._request.timeouts.connect, pool=self._request.timeouts.connect),
        )
        with self._awaiting():
            response = await self._client.send(request, stream=True, follow_redirects=False)
            self._response = response
        if self.closed:
            await self.aclose()
            return
        self.request_id = next((value for name in _REQUEST_IDS if (value := response.headers.get(name))), None)
        if not response.is_success:
            raise await self._status_error(response)
        self._bytes = response.aiter_bytes()

    async def read(self) -> bytes | None:
        """The next bytes; None at the end of the body, and after `aclose`.

        Raises:
            APITimeoutError: a clock ran out.
            APIConnectionError: the connection broke.
        """
        data: bytes | None = None
        if self._bytes is not None and not self.closed:
            with self._awaiting():
                data = await anext(self._bytes, None)
                self._clocks.bytes_came(anyio.current_time())
        return None if self.closed else data

    def event_came(self) -> None:
        """Tells the clocks that the bytes held an event."""
        self._clocks.event_came(anyio.current_time())

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
        self.closed = True
        if self._scope is not None:
            self._scope.cancel()
        if self._response is not None:
            with anyio.move_on_after(_CLOSING, shield=True):
                await self._response.aclose()

    @contextmanager
    def _awaiting(self) -> Iterator[None]:
        """Round every await on the network: clocks run, `aclose` ends it, and httpx's errors become ours."""
        deadline, phase = self._clocks.deadline()
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                self._scope = scope
                yield
        except httpx.TimeoutException as exc:  # the only ones that httpx is asked to watch
            what = "no free connection in the pool" if isinstance(exc, httpx.PoolTimeout) else "no connection"
            raise self._timeout("connect", self._request.timeouts.connect, what) from exc
        except httpx.HTTPError as exc:
            if not self.closed:
                what = "the connection broke" if self._response is not None else "no connection"
                detail = str(exc) or type(exc).__name__
                raise APIConnectionError(
                    f"{what}: {detail}", retryable=not isinstance(exc, httpx.UnsupportedProtocol)
                ) from exc
        finally:
            self._scope = None
        if scope.cancelled_caught and not self.closed:
            seconds = getattr(self._request.timeouts, phase)
            raise self._timeout(phase, seconds, _PHASES[phase])

    def _timeout(self, phase: TimeoutPhase, seconds: float | None, what: str) -> APITimeoutError:
        return APITimeoutError(
            f"{what} within {seconds:g} seconds (timeouts.{phase})",
            phase=phase,
            retryable=phase != "total",
            request_id=self.request_id,
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
            body=read if isinstance(read, dict | list) else text,
        )


_PHASES: dict[TimeoutPhase, str] = {
    "connect": "no connection",
    "first_event": "no event came",
    "read": "no bytes came",
    "stall": "bytes came, but no event,",
    "total": "the answer was not finished",
}


class _Clocks:
    """Which clock of a request runs out next. Times are the event loop's."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._began = self._bytes = self._event = 0.0
        self._any_event = False

    def start(self, now: float) -> None:
        self._began = self._bytes = self._event = now

    def bytes_came(self, now: float) -> None:
        self._bytes = now

    def event_came(self, now: float) -> None:
        self._event = now
        self._any_event = True

    def deadline(self) -> tuple[float, TimeoutPhase]:
        limits = self._timeouts
        running: list[tuple[float, float | None, TimeoutPhase]] = [(self._began, limits.total, "total")]
        if self._any_event:
            running += [(self._bytes, limits.read, "read"), (self._event, limits.stall, "stall")]
        else:
            running += [(self._began, limits.first_event, "first_event")]
        ends = [(since + seconds, phase) for since, seconds, phase in running if seconds is not None]
        return min(ends, default=(float("inf"), "total"))


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
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after", "")
        if value[:1].isdigit() or value[:1] in "-.":
            return max(0.0, float(value)) if value else None
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except ValueError:
        return None
