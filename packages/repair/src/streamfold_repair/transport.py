"""The transport that repairs responses, for httpx and httpx2. These two packages differ only in their names."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from streamfold import Limits, StreamError
from streamfold.net import Redactor, secrets_in_headers

from .stream_repair import Repaired, RepairSettings, StreamRepair, UnreadError

__all__ = ["BaseRepairTransport"]

_OF_THE_BODY = (b"content-length", b"content-encoding", b"transfer-encoding", b"content-type")
_EVENTS = "text/event-stream"
_PAGES = "text/html"  # a proxy's page for people, not a model's answer
_SENT_AGAIN = (408, 409, 429)  # statuses below 500 after which SDKs retry a request
_UNREADABLE = 422


class BaseRepairTransport:
    """Sends a client's requests unchanged, and repairs the responses of language models.

    The transport repairs a response if its status is 200 and the path of its request belongs to a supported API
    (`/chat/completions`, `/responses`, `/messages`, `:streamGenerateContent`). It forwards all other responses
    unchanged. It never forwards an incomplete tool call as complete. If a response breaks off, the transport adds an
    error event, which the client raises as an exception. `response.extensions["streamfold"]` is a `Repaired`, which
    lists all repairs. The logger `streamfold.repair` logs the repairs, too.

    Args:
        transport: the transport that sends the requests. The RepairTransport closes it. By default, this is the HTTP
            library's standard transport.
        adapter: the name of the adapter for all responses. By default, the path of each request decides.
        dialect, start_in_reasoning: see `StreamDecoder`.
        fill_finish_reason: True to add a finish reason if the server sent a complete response without a finish reason.
        limits: limits for the size of a response.
        partial_tool_calls: True to forward the arguments of a tool call as they arrive, and to delay only the last
            character until the next event arrives. False to forward each tool call complete, at the end of the
            response.

    Raises:
        ConfigError: the adapter or the dialect is unknown.
    """

    def __init__(
        self,
        transport: Any = None,
        *,
        adapter: str | None = None,
        dialect: str | None = None,
        start_in_reasoning: bool = False,
        fill_finish_reason: bool = False,
        limits: Limits | None = None,
        partial_tool_calls: bool = True,
    ) -> None:
        self._transport = transport
        self._repairs = RepairSettings(
            adapter, dialect, start_in_reasoning, fill_finish_reason, limits or Limits(), partial_tool_calls
        )

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request. Returns the response, and repairs its body while the client reads it."""
        http = _library(request)
        self._transport = self._transport or http.AsyncHTTPTransport()
        response = await self._transport.handle_async_request(request)
        details = self._details(request, response)
        if details is not None and details.at_once and not response.is_stream_consumed:
            response = _kept(http, response, b"".join([data async for data in response.aiter_raw()]))
        return self._repaired(http, details, response, _bodies(http)[0])

    def handle_request(self, request: Any) -> Any:
        """Sends a request. Returns the response, and repairs its body while the client reads it."""
        http = _library(request)
        self._transport = self._transport or http.HTTPTransport()
        response = self._transport.handle_request(request)
        details = self._details(request, response)
        if details is not None and details.at_once and not response.is_stream_consumed:
            response = _kept(http, response, b"".join(response.iter_raw()))
        return self._repaired(http, details, response, _bodies(http)[1])

    async def aclose(self) -> None:
        """Closes the underlying transport, which sends the requests."""
        if self._transport is not None:
            await self._transport.aclose()

    def close(self) -> None:
        """Closes the underlying transport, which sends the requests."""
        if self._transport is not None:
            self._transport.close()

    def _details(self, request: Any, response: Any) -> _RequestDetails | None:
        """Returns the details of a request that its repair needs, or None if its response must not be repaired."""
        is_model = request.method == "POST" and response.status_code == 200
        api = self._repairs.api(request.url.path) if is_model else None
        body = _json_body(request) if api else None
        if api is None or body is None or body.get("n") not in (None, 1):  # several answers
            return None
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith(_PAGES):
            return None
        stream = bool(body.get("stream")) or kind.startswith(_EVENTS)
        # A server that sends `content-length` hasn't streamed the response, even if the client requested a stream.
        sized = "content-length" in response.headers and not kind.startswith(_EVENTS)
        at_once = not stream or sized or response.is_stream_consumed
        return _RequestDetails(api, body, stream, at_once, Redactor(secrets_in_headers(request.headers.items())))

    def _repaired(self, http: Any, details: _RequestDetails | None, response: Any, streamed: Any) -> Any:
        """Returns the repaired response, or the same response object if nothing needs repair.

        Args:
            streamed: the class for the body of a response that the client reads while it arrives.
        """
        if details is None:
            return response
        if not details.at_once:
            stream = self._repairs.stream(details.api, details.body, details.redactor)
            return _remade(http, response, stream.repaired, stream=streamed(http, response, stream))
        if details.stream:
            return self._as_stream(http, details, response)
        repair = self._repairs.whole(details.api, details.body, details.redactor)
        try:
            data = _decoded(http, response)
            repaired = repair.repair(data)
        except (UnreadError, http.DecodingError):
            return response
        except StreamError as error:
            # Clients raise an error because of the status. They must not retry the request, because the provider has
            # answered it.
            status = getattr(error, "status_code", None)
            status = status if status in range(400, 500) and status not in _SENT_AGAIN else _UNREADABLE
            return _remade(http, response, repair.repaired, status, content=data)
        if repaired != data:
            return _remade(http, response, repair.repaired, content=repaired)
        response.extensions["streamfold"] = repair.repaired
        return response

    def _as_stream(self, http: Any, details: _RequestDetails, response: Any) -> Any:
        """Converts a complete response to the stream that the client requested. Returns the same response object if the
        response isn't from a model."""
        repair = self._repairs.stream(details.api, details.body, details.redactor)
        try:
            body = repair.feed(_decoded(http, response)) + repair.close()
        except http.DecodingError:
            return response
        return _remade(http, response, repair.repaired, events=body) if repair.known else response


class _RequestDetails(NamedTuple):
    api: str
    body: Mapping[str, Any]
    stream: bool
    at_once: bool
    redactor: Redactor


def _json_body(request: Any) -> Mapping[str, Any] | None:
    try:
        body = json.loads(request.content)
    except (ValueError, _library(request).RequestNotRead):  # an upload
        return None
    return body if isinstance(body, dict) else None


def _remade(http: Any, response: Any, repaired: Repaired, status: int | None = None, **body: Any) -> Any:
    kind = response.headers.get("content-type", "application/json") if "content" in body else _EVENTS
    body = {"content": body["events"]} if "events" in body else body
    if "content" in body and not response.is_stream_consumed:  # then the client may read it in pieces
        body = {"stream": _bodies(http)[2](body["content"])}
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_BODY]
    return http.Response(
        status or response.status_code,
        headers=[*headers, (b"content-type", kind.encode())],
        extensions={**response.extensions, "streamfold": repaired},
        **body,
    )


def _kept(http: Any, response: Any, raw: bytes) -> Any:
    """Returns a copy of a response, with `raw` as its encoded body, so that the body can be read again."""
    stream = _bodies(http)[2](raw)
    headers, extensions = response.headers.raw, response.extensions
    return http.Response(response.status_code, headers=headers, stream=stream, extensions=extensions)


def _decoded(http: Any, response: Any) -> bytes:
    """Returns the decoded body of a response. A body that was read from the network can be read again afterwards."""
    if response.is_stream_consumed:
        return bytes(response.content)
    coding = [(name, value) for name, value in response.headers.raw if name.lower() == b"content-encoding"]
    return bytes(http.Response(200, headers=coding, content=response.stream.raw).content)


class _Body:
    """The repaired body of a response. If a client stops an iteration, the next iteration continues at that point."""

    def __init__(self, http: Any, response: Any, repair: StreamRepair) -> None:
        self._http = http
        self._response = response
        self._repair = repair

    def _broken(self, error: Exception) -> tuple[bytes, Exception | None]:
        """Returns the last bytes of a response whose connection broke: the regular end of a complete response,
        otherwise the delayed text. In the second case, also returns the error."""
        end = self._repair.close(interrupted=f"the connection broke ({str(error) or type(error).__name__})")
        return (self._repair.left, error) if self._repair.repaired.reply is None else (end, None)


class _AsyncBody(_Body):
    def __init__(self, http: Any, response: Any, repair: StreamRepair) -> None:
        super().__init__(http, response, repair)
        self._data = response.aiter_bytes()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        broken = None
        try:
            async for data in self._data:
                if out := self._repair.feed(data):
                    yield out
            end = self._repair.close()
        except (self._http.TransportError, self._http.DecodingError) as error:
            end, broken = self._broken(error)
        if end:
            yield end
        if broken is not None:
            raise broken

    async def aclose(self) -> None:
        await self._response.aclose()


class _SyncBody(_Body):
    def __init__(self, http: Any, response: Any, repair: StreamRepair) -> None:
        super().__init__(http, response, repair)
        self._data = response.iter_bytes()

    def __iter__(self) -> Iterator[bytes]:
        broken = None
        try:
            for data in self._data:
                if out := self._repair.feed(data):
                    yield out
            end = self._repair.close()
        except (self._http.TransportError, self._http.DecodingError) as error:
            end, broken = self._broken(error)
        if end:
            yield end
        if broken is not None:
            raise broken

    def close(self) -> None:
        self._response.close()


def _library(request: Any) -> Any:
    return sys.modules[type(request).__module__.partition(".")[0]]


class _RawBody:
    """The body of a response that has been read to its end."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __iter__(self) -> Iterator[bytes]:
        yield self.raw

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.raw


@cache
def _bodies(http: Any) -> tuple[type[_AsyncBody], type[_SyncBody], type[_RawBody]]:
    """Creates the classes for response bodies, which derive from the body classes of the HTTP package."""
    return (
        type("AsyncBody", (_AsyncBody, http.AsyncByteStream), {}),
        type("SyncBody", (_SyncBody, http.SyncByteStream), {}),
        type("RawBody", (_RawBody, http.AsyncByteStream, http.SyncByteStream), {}),
    )
