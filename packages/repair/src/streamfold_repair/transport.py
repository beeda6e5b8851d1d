"""The transport that repairs answers, over httpx or httpx2: the two differ in the name of the package only."""

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
_PAGES = "text/html"  # of a proxy, for people: no answer of a model
_SENT_AGAIN = (408, 409, 429)  # statuses below 500 with which SDKs send a request again
_UNREADABLE = 422


class BaseRepairTransport:
    """Sends requests as they are, and repairs the answers of language models.

    An answer is repaired if its status is 200 and the path of its request belongs to a wire format
    (`/chat/completions`, `/responses`, `/messages`, `:streamGenerateContent`); everything else passes through
    untouched. No call is handed on that could be run by mistake. An answer that breaks off ends with an error, which
    the client raises. What an event says beyond text, calls and usage stays in it. `response.extensions["streamfold"]`
    is a `Repaired`; the logger `streamfold.repair` tells the same.

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
        self._repairs = RepairSettings(adapter, dialect, start_in_reasoning, mend_finish, limits or Limits(), fragments)

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request. Returns the response with a repaired body."""
        http = _library(request)
        self._transport = self._transport or http.AsyncHTTPTransport()
        response = await self._transport.handle_async_request(request)
        asked = self._asked(request, response)
        if asked is None:
            return response
        if not asked.at_once:
            repair = self._repairs.stream(asked.api, asked.body, asked.redactor)
            return _remade(http, response, repair.repaired, stream=_bodies(http)[0](http, response, repair))
        if not response.is_stream_consumed:
            response = _kept(http, response, b"".join([data async for data in response.aiter_raw()]))
        return self._whole(http, asked, response)

    def handle_request(self, request: Any) -> Any:
        """Sends a request. Returns the response with a repaired body."""
        http = _library(request)
        self._transport = self._transport or http.HTTPTransport()
        response = self._transport.handle_request(request)
        asked = self._asked(request, response)
        if asked is None:
            return response
        if not asked.at_once:
            repair = self._repairs.stream(asked.api, asked.body, asked.redactor)
            return _remade(http, response, repair.repaired, stream=_bodies(http)[1](http, response, repair))
        if not response.is_stream_consumed:
            response = _kept(http, response, b"".join(response.iter_raw()))
        return self._whole(http, asked, response)

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
        api = self._repairs.api(request.url.path) if is_model else None
        body = _json_body(request) if api else None
        if api is None or body is None or body.get("n") not in (None, 1):  # several answers in one: not ours to sort
            return None
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith(_PAGES):
            return None
        stream = bool(body.get("stream")) or kind.startswith(_EVENTS)
        # A server that says how long its answer is has not streamed it, whatever was asked for.
        sized = "content-length" in response.headers and not kind.startswith(_EVENTS)
        at_once = not stream or sized or response.is_stream_consumed
        return _Asked(api, body, stream, at_once, Redactor(secrets_in_headers(request.headers.items())))

    def _whole(self, http: Any, asked: _Asked, response: Any) -> Any:
        """Returns an answer that is not streamed: mended; the very response where there is nothing to mend."""
        if asked.stream:
            return self._as_stream(http, asked, response)
        repair = self._repairs.whole(asked.api, asked.body, asked.redactor)
        try:
            data = _decoded(http, response)
            mended = repair.repair(data)
        except (UnreadError, http.DecodingError):
            return response
        except StreamError as error:
            # An error in a 200 that is no stream: clients raise an error for the status alone. It is none with which
            # they would send the request again: the provider has answered this one.
            status = getattr(error, "status_code", None)
            status = status if status in range(400, 500) and status not in _SENT_AGAIN else _UNREADABLE
            return _remade(http, response, repair.repaired, status, content=data)
        if mended != data:
            return _remade(http, response, repair.repaired, content=mended)
        response.extensions["streamfold"] = repair.repaired
        return response

    def _as_stream(self, http: Any, asked: _Asked, response: Any) -> Any:
        """Returns a whole answer as the stream that was asked for; the very response if it is no answer."""
        repair = self._repairs.stream(asked.api, asked.body, asked.redactor)
        try:
            made = repair.feed(_decoded(http, response)) + repair.close()
        except http.DecodingError:
            return response
        return _remade(http, response, repair.repaired, events=made) if repair.known else response


class _Asked(NamedTuple):
    api: str
    body: Mapping[str, Any]
    stream: bool
    at_once: bool
    redactor: Redactor


def _json_body(request: Any) -> Mapping[str, Any] | None:
    try:
        body = json.loads(request.content)
    except (ValueError, _library(request).RequestNotRead):  # an upload, which no model's API takes
        return None
    return body if isinstance(body, dict) else None


def _remade(http: Any, response: Any, repaired: Repaired, status: int | None = None, **body: Any) -> Any:
    kind = response.headers.get("content-type", "application/json") if "content" in body else _EVENTS
    body = {"content": body["events"]} if "events" in body else body
    if "content" in body and not response.is_stream_consumed:  # then it can be read in pieces, as what it stands for
        body = {"stream": _bodies(http)[2](body["content"])}
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_BODY]
    return http.Response(
        status or response.status_code,
        headers=[*headers, (b"content-type", kind.encode())],
        extensions={**response.extensions, "streamfold": repaired},
        **body,
    )


def _kept(http: Any, response: Any, raw: bytes) -> Any:
    """Returns a response whose body has been read, so that it can be read once more, in the same coding."""
    stream = _bodies(http)[2](raw)
    headers, extensions = response.headers.raw, response.extensions
    return http.Response(response.status_code, headers=headers, stream=stream, extensions=extensions)


def _decoded(http: Any, response: Any) -> bytes:
    """Returns the body without its coding. What came over the network can be read once more after that."""
    if response.is_stream_consumed:
        return bytes(response.content)
    coding = [(name, value) for name, value in response.headers.raw if name.lower() == b"content-encoding"]
    return bytes(http.Response(200, headers=coding, content=response.stream.raw).content)


# --- bodies -----------------------------------------------------------------------------------------------------------


class _Body:
    """The repaired body of an answer. Reading it once more goes on where it was left, as with one from the network."""

    def __init__(self, http: Any, response: Any, repair: StreamRepair) -> None:
        self._http = http
        self._response = response
        self._repair = repair

    def _broken(self, error: Exception) -> tuple[bytes, Exception | None]:
        """Returns the end of an answer that was whole when its connection broke; else what waits before its error."""
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
    """Returns the package that a request is from: httpx or httpx2."""
    return sys.modules[type(request).__module__.partition(".")[0]]


class _RawBody:
    """A body that has been read."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __iter__(self) -> Iterator[bytes]:
        yield self.raw

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.raw


@cache
def _bodies(http: Any) -> tuple[type[_AsyncBody], type[_SyncBody], type[_RawBody]]:
    """Returns the classes of bodies that the clients of a package accept."""
    return (
        type("AsyncBody", (_AsyncBody, http.AsyncByteStream), {}),
        type("SyncBody", (_SyncBody, http.SyncByteStream), {}),
        type("RawBody", (_RawBody, http.AsyncByteStream, http.SyncByteStream), {}),
    )
