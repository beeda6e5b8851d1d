"""The transport that repairs answers, over httpx or httpx2: the two differ in the name of the package only."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from ..net import Redactor, secrets_in_headers
from ..values import Limits, StreamError
from .repair import Repaired, Repairs, StreamRepair

__all__ = ["Repairing"]

_OF_THE_BODY = (b"content-length", b"content-encoding", b"transfer-encoding", b"content-type")
_EVENTS = "text/event-stream"
_SENT_AGAIN = (408, 409, 429)  # statuses below 500 with which SDKs send a request again
_UNREADABLE = 422


class Repairing:
    """Sends requests as they are, and repairs the answers of language models.

    An answer is repaired if its status is 200 and the path of its request belongs to a wire format
    (`/chat/completions`, `/responses`, `/messages`, `:streamGenerateContent`); everything else passes through
    untouched. No call is handed on that could be run by mistake. An answer that breaks off ends with an error, which
    the client raises. What an event says beyond text, calls and usage stays in it. `response.extensions["streamfold"]`
    is a `Repaired`; the logger `streamfold.integrations` tells the same.

    Args:
        transport: what sends the requests. Default: httpx's own, async or not as the client is. It is closed with this
            one.
        adapter: the name of the adapter that reads every answer, whatever the path. Default: by the path.
        dialect: how the model writes calls into its text, if it does; see `StreamDecoder`.
        start_in_reasoning: the output begins inside reasoning; for dialects.
        mend_finish: write a finish reason also where the server sent none and the answer ended in order all the same.
        limits: how much of an answer is accepted.
        fragments: hand on the arguments of a call as they come, but for the last character, which waits for what comes
            behind the call. False: calls come whole, at the end.

    Raises:
        ConfigError: an unknown adapter or dialect.
    """

    def __init__(
        self,
        transport: Any = None,
        *,
        adapter: str | None = None,
        dialect: str | None = None,
        start_in_reasoning: bool = False,
        mend_finish: bool = False,
        limits: Limits | None = None,
        fragments: bool = True,
    ) -> None:
        self._transport = transport
        self._repairs = Repairs(adapter, dialect, start_in_reasoning, mend_finish, limits or Limits(), fragments)

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request. Returns the response with a repaired body."""
        http = _library(request)
        self._transport = self._transport or http.AsyncHTTPTransport()
        response = await self._transport.handle_async_request(request)
        asked = self._asked(request, response)
        if asked is None:
            return response
        if asked.stream:
            repair = self._repairs.stream(asked.wire, asked.body, asked.redactor)
            return _remade(http, response, repair.repaired, stream=_bodies(http)[0](http, response, repair))
        return self._whole(http, asked, response, await response.aread())

    def handle_request(self, request: Any) -> Any:
        """Sends a request. Returns the response with a repaired body."""
        http = _library(request)
        self._transport = self._transport or http.HTTPTransport()
        response = self._transport.handle_request(request)
        asked = self._asked(request, response)
        if asked is None:
            return response
        if asked.stream:
            repair = self._repairs.stream(asked.wire, asked.body, asked.redactor)
            return _remade(http, response, repair.repaired, stream=_bodies(http)[1](http, response, repair))
        return self._whole(http, asked, response, response.read())

    async def aclose(self) -> None:
        """Closes the transport below."""
        if self._transport is not None:
            await self._transport.aclose()

    def close(self) -> None:
        """Closes the transport below."""
        if self._transport is not None:
            self._transport.close()

    def _asked(self, request: Any, response: Any) -> _Asked | None:
        """Returns what there is to know about a request; None if its answer is not to be repaired."""
        is_model = request.method == "POST" and response.status_code == 200
        wire = self._repairs.wire(request.url.path) if is_model else None
        body = _json_body(request) if wire else None
        if wire is None or body is None or body.get("n") not in (None, 1):  # several answers in one: not ours to sort
            return None
        stream = bool(body.get("stream")) or response.headers.get("content-type", "").lower().startswith(_EVENTS)
        return _Asked(wire, body, stream, Redactor(secrets_in_headers(request.headers.items())))

    def _whole(self, http: Any, asked: _Asked, response: Any, data: bytes) -> Any:
        repair = self._repairs.whole(asked.wire, asked.body, asked.redactor)
        try:
            return _remade(http, response, repair.repaired, content=repair.repair(data))
        except StreamError as error:
            # An error in a 200 that is no stream: clients raise an error for the status alone. It is none with which
            # they would send the request again: the provider has answered this one.
            status = getattr(error, "status_code", None)
            status = status if status in range(400, 500) and status not in _SENT_AGAIN else _UNREADABLE
            return _remade(http, response, repair.repaired, status, content=data)


class _Asked(NamedTuple):
    wire: str
    body: Mapping[str, Any]
    stream: bool
    redactor: Redactor


def _json_body(request: Any) -> Mapping[str, Any] | None:
    try:
        body = json.loads(request.content)
    except (ValueError, _library(request).RequestNotRead):  # an upload, which no model's API takes
        return None
    return body if isinstance(body, dict) else None


def _remade(http: Any, response: Any, repaired: Repaired, status: int | None = None, **body: Any) -> Any:
    kind = _EVENTS if "stream" in body else response.headers.get("content-type", "application/json")
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_BODY]
    return http.Response(
        status or response.status_code,
        headers=[*headers, (b"content-type", kind.encode())],
        extensions={**response.extensions, "streamfold": repaired},
        **body,
    )


# --- bodies -----------------------------------------------------------------------------------------------------------


class _Body:
    """The repaired body of an answer."""

    def __init__(self, http: Any, response: Any, repair: StreamRepair) -> None:
        self._http = http
        self._response = response
        self._repair = repair

    def _broken(self, error: Exception) -> bytes:
        """Returns the end of an answer whose connection broke. A timeout stays the client's own error."""
        end = self._repair.close(interrupted=f"the connection broke ({str(error) or type(error).__name__})")
        if isinstance(error, self._http.TimeoutException) and self._repair.repaired.error is not None:
            raise error
        return end


class _AsyncBody(_Body):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._response.aiter_bytes():
                if out := self._repair.feed(data):
                    yield out
            end = self._repair.close()
        except (self._http.TransportError, self._http.DecodingError) as error:
            end = self._broken(error)
        if end:
            yield end

    async def aclose(self) -> None:
        await self._response.aclose()


class _SyncBody(_Body):
    def __iter__(self) -> Iterator[bytes]:
        try:
            for data in self._response.iter_bytes():
                if out := self._repair.feed(data):
                    yield out
            end = self._repair.close()
        except (self._http.TransportError, self._http.DecodingError) as error:
            end = self._broken(error)
        if end:
            yield end

    def close(self) -> None:
        self._response.close()


def _library(request: Any) -> Any:
    """Returns the package that a request is from: httpx or httpx2."""
    return sys.modules[type(request).__module__.partition(".")[0]]


@cache
def _bodies(http: Any) -> tuple[type[_AsyncBody], type[_SyncBody]]:
    """Returns the classes of bodies that the clients of a package accept."""
    return (
        type("AsyncBody", (_AsyncBody, http.AsyncByteStream), {}),
        type("SyncBody", (_SyncBody, http.SyncByteStream), {}),
    )
