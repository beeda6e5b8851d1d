"""Creates httpx requests, and closes connections that a cancelled request has opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import anyio
import httpx

from ..errors import ConfigError, ErrorInfo, error_info
from ..types import Limits, Timeouts
from .cloud_auth import Signer
from .redaction import Redactor
from .transport_errors import is_network_error

_MOST_BUFFERED = 1000  # pieces; a body in memory may be endless, and never wait


class HTTPRequest(NamedTuple):
    """An HTTP request before it is sent. The repr contains neither the URL nor the headers, because they may contain
    secrets.

    Attributes:
        shown_url: the URL without secrets, for errors.
        read_error: a function that parses the body of a response whose status is not 2xx.
        own_client: True if `make_client` created the HTTP client. Then httpx logs `shown_url` instead of the URL, and a
            timeout while the body is read closes the connection.
        redactor: removes the request's secrets from errors and recordings.
        signer: authenticates each attempt. None if the headers contain an API key, or no authentication is needed.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    shown_url: str = ""
    own_client: bool = False
    redactor: Redactor = Redactor()
    signer: Signer | None = None
    method: str = "POST"
    read_error: Callable[[Any, int | None], ErrorInfo] = error_info

    def __repr__(self) -> str:
        return f"<HTTPRequest {self.method} {self.shown_url}>"


def build_request(client: httpx.AsyncClient, wanted: HTTPRequest) -> httpx.Request:
    """Creates the httpx request. Raises ConfigError for a URL that httpx or the operating system can't use."""
    if (url := _parsed_url(wanted.url)) is None:  # the libraries' errors would quote parts of the URL
        raise ConfigError("base_url is not a valid URL: check the host and the port")
    connect = wanted.timeouts.connect
    request = client.build_request(
        wanted.method,
        url,
        headers=dict(wanted.headers),
        content=wanted.body,
        extensions={"timeout": {"connect": connect, "read": None, "write": None, "pool": connect}},
    )
    request.stream = _RequestBody(wanted.body)
    request.extensions["streamfold.redactor"] = wanted.redactor
    request.extensions["streamfold.limits"] = wanted.limits
    if wanted.own_client:
        request.url = _RedactedURL(request.url, wanted.shown_url)
    return request


class _RedactedURL(httpx.URL):
    """A URL whose `str` contains no secrets, because httpx logs the URL of every request."""

    def __init__(self, url: httpx.URL, shown: str) -> None:
        super().__init__(url)
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"URL({self._shown!r})"


@lru_cache(64)
def _parsed_url(text: str) -> httpx.URL | None:
    try:
        url = httpx.URL(text)
        usable = bool(url.host) and (url.port is None or url.port <= 65535)  # decodes the host
    except (httpx.InvalidURL, ValueError):  # ValueError: a host that is not valid IDNA
        return None
    return url if usable else None


def sent_url(url: httpx.URL) -> str:
    """Returns a URL as text. Includes the secrets of a `_RedactedURL`."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii')}"


# Bodies are iterators, not generators, because trio warns about unfinished generators that are garbage-collected.


class Pieces:
    """Iterates over a body in pieces of at most `size` bytes."""

    def __init__(self, body: bytes, size: int) -> None:
        self._pieces = iter([body[at : at + size] for at in range(0, len(body), size)])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


class _RequestBody(httpx.ByteStream):
    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._body = body

    def __aiter__(self) -> Pieces:
        return Pieces(self._body, len(self._body) or 1)


async def aclose_generators(body: Any) -> None:
    """Closes the nested generators of a response body, the innermost first. Does nothing while a task is running the
    generators.

    On asyncio, call this function only in streamfold's own tasks, because it cancels its task for a moment.
    """
    if getattr(body, "ag_frame", None) is None or body.ag_running:
        return
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            for _ in range(_MOST_BUFFERED):  # the buffered pieces, then the cancelled wait for more
                await anext(body)
        except StopAsyncIteration:
            pass
        except Exception as exc:  # a body that fails has ended, too
            if not is_network_error(exc):
                raise


# httpcore (1.0.9) closes a connection whose request fails, except in two cases. A callback that httpcore calls for each
# step handles both.
# - A task is cancelled after the TCP connection is open, but before the request is sent. The connection stays open as
#   long as the client exists. Over HTTP/2, every later request on it fails, because the count of its streams is
#   incomplete. So it is closed here. Another request that waits for the connection then loses it, and is retried.
# - Several requests wait for one connection to be opened, which may use HTTP/2, and one of them is cancelled. The pool
#   forgets the connection, but the other requests use it, and nothing closes it. So a request that would be sent on
#   such a connection reports it as not available, and gets another one from the pool.

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_USED = "send_request_headers.started"  # from here on httpcore closes it, or over HTTP/2 the stream

# The number of a client's requests that were given up before they were sent.
_given_up: WeakKeyDictionary[httpx.AsyncClient, int] = WeakKeyDictionary()


class ConnectCleanup:
    """Closes connections that were opened for a request that was then not sent, for example because it was
    cancelled.
    """

    def __init__(self, client: httpx.AsyncClient, extensions: Any) -> None:
        self._client = client
        self._given_up = _given_up.get(client, 0)
        self._is_sent = False
        self._stream: Any = None
        self._forgotten: list[Any] = []  # connections that the pool may have lost
        self._extensions = extensions
        self._extensions["trace"] = self._trace

    def end(self, response: httpx.Response | None) -> None:
        """Must be called after httpx has returned the response or raised an exception.

        Args:
            response: the response, or None if the request failed.
        """
        if self._extensions.get("trace") == self._trace:
            del self._extensions["trace"]
        if not self._is_sent:
            _given_up[self._client] = _given_up.get(self._client, 0) + 1
        if response is not None:  # the pool hasn't lost this connection
            used = response.extensions.get("network_stream")
            self._forgotten = [stream for stream in self._forgotten if stream is not used]

    def is_clean(self) -> bool:
        """Returns True if every connection that was opened has been used."""
        return self._stream is None and not self._forgotten

    async def aclose(self) -> None:
        """Closes connections that were opened but never used."""
        streams = [*self._forgotten, self._stream] if self._stream is not None else self._forgotten
        self._stream, self._forgotten = None, []
        for stream in streams:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):  # closed already
                await stream.aclose()

    async def _trace(self, step: str, info: dict[str, Any]) -> None:
        if step.endswith(_OPENED):
            self._stream = info["return_value"]
        elif step.endswith(_USED):
            if step.startswith("http2."):
                self._check_pool()
            self._is_sent, self._stream = True, None

    def _check_pool(self) -> None:
        given_up = _given_up.get(self._client, 0)
        if given_up == self._given_up:
            return
        self._given_up = given_up
        if self._stream is not None:
            self._forgotten.append(self._stream)
            self._stream = None
        from httpcore import ConnectionNotAvailable

        raise ConnectionNotAvailable
