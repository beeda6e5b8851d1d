"""httpx's client as providers use it: without work that is the same for each request, or that nothing asks for."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import httpx

_MOST_HEADS = 32  # that are kept
_logger = logging.getLogger("httpx")  # whose line for each request is expected there
_USUAL = {"stream": True, "follow_redirects": False}  # options


class OwnClient(httpx.AsyncClient):
    """Sends and receives what `httpx.AsyncClient` does, cookies included."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        super().__init__(transport=transport, timeout=None)
        self._cookies = _Cookies()
        self._heads: dict[tuple[object, ...], _Head] = {}

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


class _Head(NamedTuple):
    """The headers of a request. `counted`: the length of its body, which is one of them, is not the caller's."""

    headers: httpx.Headers
    counted: bool


class _Cookies(httpx.Cookies):
    def extract_cookies(self, response: httpx.Response) -> None:
        if "set-cookie" in response.headers:  # else httpx translates request and response for the standard library
            super().extract_cookies(response)
