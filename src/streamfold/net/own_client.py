"""httpx's client as providers use it: without work that is the same for each request, or that nothing asks for."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import httpx

from .received import Outgoing, Received
from .urls import read_url, sent_url

_MOST_HEADS = 32  # that are kept
_logger = logging.getLogger("httpx")  # whose line for each request is expected there
_USUAL = {"stream": True, "follow_redirects": False}  # options

Receive = Callable[[httpx.URL, Outgoing], Awaitable[Received] | None]


class OwnClient(httpx.AsyncClient):
    """Sends and receives what `httpx.AsyncClient` does, cookies included.

    Args:
        receive: sends without httpx's objects, where that is possible.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, receive: Receive | None = None) -> None:
        super().__init__(transport=transport, timeout=None)
        self._cookies = self._kept = _Cookies()
        self._heads: dict[tuple[object, ...], _Head] = {}
        self._receive = receive
        self._fields: dict[tuple[object, ...], tuple[httpx.URL, str, list[tuple[str, str]]]] = {}

    def build_request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Request:
        """Builds a request. Its headers are merged once for all requests that have the same ones."""
        headers, body = options.get("headers"), options.get("content")
        if not isinstance(url, httpx.URL) or type(headers) is not dict or type(body) is not bytes or self.cookies:
            return super().build_request(method, url, **options)
        key = (method, url.netloc, body != b"", *headers.items())
        if (head := self._heads.get(key)) is None:
            request = super().build_request(method, url, **options)
            if len(self._heads) >= _MOST_HEADS:
                self._heads = {}
            counted = body != b"" and not any(name.lower() == "content-length" for name in headers)
            self._heads[key] = _Head(httpx.Headers(request.headers), counted)
            return request
        request = httpx.Request(
            method, url, headers=head.headers, stream=httpx.ByteStream(body), extensions=options.get("extensions")
        )
        if head.counted:
            request.headers["Content-Length"] = str(len(body))
        request._content = body  # what `read` does, in many steps
        return request

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Sends a request. httpx has four layers for what most requests need none of."""
        is_usual = options == _USUAL and "timeout" in request.extensions and not request.url.userinfo
        if not is_usual or self.is_closed or any(self.event_hooks.values()):
            return await super().send(request, **options)
        response = await self._transport.handle_async_request(request)
        response.request = request
        self.cookies.extract_cookies(response)
        if _logger.isEnabledFor(logging.INFO):
            said = f"{response.http_version} {response.status_code} {response.reason_phrase}"
            _logger.info('HTTP Request: %s %s "%s"', request.method, request.url, said)
        return response

    async def receive(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, connect: float | None
    ) -> Received | None:
        """Sends a request, and raises httpx's exceptions. None: it has to be sent as a request of httpx's."""
        if self._receive is None or not body or not self._is_plain or _logger.isEnabledFor(logging.INFO):
            return None
        key = (method, url, *headers.items())
        if (known := self._fields.get(key)) is None:
            read = read_url(url)
            if read is None or read.userinfo or "content-length" in map(str.lower, headers):
                return None
            raw = self.build_request(method, read, headers=dict(headers), content=body).headers.raw
            if len(self._fields) >= _MOST_HEADS:
                self._fields = {}
            texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]
            known = self._fields[key] = (read, sent_url(read), texts[:-1])  # the length of the body is last
        read, sent, fields = known
        request = Outgoing(method, sent, [*fields, ("Content-Length", str(len(body)))], body, connect, read)
        if (sending := self._receive(read, request)) is None:
            return None
        got = await sending
        if b"set-cookie" in [name.lower() for name, _ in got.headers]:
            asked = httpx.Request(method, read)
            self.cookies.extract_cookies(httpx.Response(got.status, headers=list(got.headers), request=asked))
        return got

    @property
    def _is_plain(self) -> bool:
        """Whether nothing wants to see requests, or changes them."""
        return not (self._kept.any or self.is_closed or any(self.event_hooks.values()))


class _Head(NamedTuple):
    """The headers of a request. `counted`: the length of its body, which is one of them, is not the caller's."""

    headers: httpx.Headers
    counted: bool


class _Cookies(httpx.Cookies):
    """Cookies. `any`: whether there have ever been some."""

    any = False

    def extract_cookies(self, response: httpx.Response) -> None:
        if "set-cookie" in response.headers:  # else httpx translates request and response for the standard library
            self.any = True
            super().extract_cookies(response)
