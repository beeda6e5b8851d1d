"""Sends the requests of a test run with the library's client, and records the responses."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, Self

import anyio
import httpx

from streamfold import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    IncompleteStreamError,
    ProtocolError,
    StreamDecoder,
    StreamError,
    Timeouts,
    UpstreamError,
)
from streamfold.adapters import Adapter, PreparedRequest, Request
from streamfold.adapters.batches import EndpointRequest
from streamfold.client import Endpoint, call_api, json_reader
from streamfold.engine import ToolNameMap
from streamfold.net import make_client
from streamfold.recording import Recording, RecordTransport
from streamfold.types import Profile

from ..inspection import Inspection, inspect_stream
from .budget import DEFAULT_BUDGET, Budget, Spending, WrittenRequest, prices_of
from .values import ProbeRequest, ProbeResponse, Way

_MOST_BYTES = 4 * 2**20  # of one response; nothing that is requested here is nearly as long
# Statuses that are about the request. A server that can't do something often answers a request for it with a 500.
_CONNECTS = ("connect_tcp.started", "connect_unix_socket.started")
_REFUSALS = frozenset({400, 404, 405, 413, 415, 422, 500, 501})


class ExaminedEndpoint:
    """One API of a server.

    Args:
        profile: the provider's settings. `use` replaces them.
        folder: the folder for recordings.
        timeouts: the timeouts of each request.
        http_client: the HTTP client. The caller closes it.
        budget: the limits for all requests together.
        keep: true if the recordings are permanent. They then get a description.

    Attributes:
        spent: the requests, bytes, seconds and cost so far.
        avoided: options that are left out of all requests, because the server rejects them.
    """

    def __init__(
        self,
        profile: Profile,
        folder: Path,
        timeouts: Timeouts,
        http_client: httpx.AsyncClient | None = None,
        budget: Budget = DEFAULT_BUDGET,
        *,
        keep: bool = False,
    ) -> None:
        self.folder, self.keep = folder, keep
        self.budget = budget
        self.avoided: set[str] = set()
        self._timeouts = timeouts
        self._given = http_client
        self._client = http_client or make_client(profile.transport)
        self.spent = Spending(began=anyio.current_time())
        self.use(profile)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._given is None:
            await self._client.aclose()

    @property
    def requests(self) -> int:
        """The number of sent requests."""
        return self.spent.requests

    def use(self, profile: Profile) -> None:
        """Replaces the settings for later requests."""
        self.profile, self._price = profile, prices_of(profile)

    def over_budget(self, ask: ProbeRequest, *, whole: bool = False) -> str:
        """Returns why a request would exceed a limit; empty if it would not. Raises ConfigError."""
        adapter = self.profile.make_adapter(self.profile.resolve().model)
        body = prepare(self.profile, adapter, ask, self.avoided, whole=whole)[1]
        return self.spent.exceeds(self.budget, WrittenRequest.of(body, self._price), anyio.current_time())

    async def ask(self, probe: str, ask: ProbeRequest, *, whole: bool = False) -> ProbeResponse:
        """Sends one request. Returns the response, or the network error in its field `error`.

        Args:
            whole: send the request without streaming.

        Raises:
            ConfigError: the request isn't possible at this endpoint.
        """
        adapter = self.profile.make_adapter(self.profile.resolve().model)
        prepared, body = prepare(self.profile, adapter, ask, self.avoided, whole=whole)
        written = WrittenRequest.of(body, self._price)
        self.spent.requests += 1
        name = f"{self.requests:03}-{probe}-{ask.name}{'-whole' if whole else ''}"
        network = _Network(self._client)
        secrets = self.profile.resolve().secrets()
        recorder = RecordTransport(network, self.folder, name=name, secrets=secrets, adapter=self.profile.adapter)
        most = min(_MOST_BYTES, self.budget.bytes - self.spent.bytes)
        reader = _Reader(self._decoder(adapter, prepared.request), most, leave=ask.leave)
        error = await self._send(recorder, prepared, body, reader, whole=whole)
        recording = self._described(recorder.written[-1], ask) if recorder.written else None
        seen = ProbeResponse(
            self.requests,
            probe,
            ask.name,
            _way(error, recording, left=ask.leave, reused=network.reused is True),
            whole=whole,
            sent=body,
            recording=recording,
            inspection=self._inspected(recording, probe),
            error=error,
            headers_after=network.headers_after,
            headers=network.headers,
            reused=network.reused,
        )
        self.spent.add(written, seen, self._price)
        return seen

    async def get(self, path: str) -> Any:
        """Returns the JSON at a path below the base URL. Raises APIError."""
        return await fetched(self.profile, path, self._timeouts, self._client)

    async def _send(
        self,
        transport: RecordTransport,
        prepared: PreparedRequest,
        body: Mapping[str, Any],
        reader: _Reader,
        *,
        whole: bool,
    ) -> APIError | None:
        """Sends a request once. Returns the error that a caller would get, or None."""
        content = json.dumps(body, ensure_ascii=False).encode()
        call = EndpointRequest("POST", prepared.path, prepared.headers, content)
        left = self.spent.began + self.budget.seconds - anyio.current_time()
        timeouts = replace(self._timeouts, total=min(left, self._timeouts.total or left))
        if whole:  # the first byte comes when a stream would be at its end
            timeouts = replace(timeouts, first_event=timeouts.total)
        endpoint = Endpoint(self.profile, httpx.AsyncClient(transport=transport, timeout=None))
        try:
            await call_api(endpoint, call, reader.read, timeouts=timeouts, max_retries=0)
        except APIError as error:
            return error
        finally:
            await endpoint.aclose()
        return None

    def _decoder(self, adapter: Adapter, request: Request) -> StreamDecoder:
        return StreamDecoder(
            adapter,
            dialect=self.profile.dialect,
            tools=request.tools,
            tool_choice=request.tool_choice,
            limits=self.profile.limits,
            names=ToolNameMap(request.names, request.answer_tool),
        )

    def _described(self, path: Path, ask: ProbeRequest) -> Recording:
        """Returns the recording of a response with the facts that are needed to read it."""
        names = tuple(str(getattr(each, "name", "")) for each in ask.tools)
        choice = ask.tool_choice if isinstance(ask.tool_choice, str) else getattr(ask.tool_choice, "name", "auto")
        recording = replace(
            Recording.load(path),
            name=f"doctor/{path.name}",
            dialect=self.profile.dialect or "",
            tools=names,
            tool_choice=choice,
            shows=ask.special or ask.name,
        )
        if recording.status == HTTPStatus.OK:
            recording = replace(recording, expect=recording.expectation())
        if self.keep:
            recording.save(path)
        return recording

    def _inspected(self, recording: Recording | None, probe: str) -> Inspection | None:
        if recording is None or recording.status != HTTPStatus.OK:
            return None
        return inspect_stream(
            recording.body,
            name=recording.name,
            adapter=self.profile.adapter,
            **recording.options(),
            cuts=recording.cuts,
            interrupted=recording.interrupted,
            about={"origin": recording.origin, "request": recording.request, "question": probe},
        )


def prepare(
    profile: Profile, adapter: Adapter, ask: ProbeRequest, avoided: Collection[str] = (), *, whole: bool = False
) -> tuple[PreparedRequest, dict[str, Any]]:
    """Returns the prepared request, and its body after the probe's edit. Raises ConfigError."""
    given = {name: value for name, value in ask.options.items() if name not in avoided}
    model = profile.resolve().model or ""
    asked = Request.read(model, ask.messages, ask.tools, ask.tool_choice, given, stream=not whole)
    prepared = adapter.prepare(
        replace(asked, options=asked.options.over(profile.default_options())), repair_history=True
    )
    body = json.loads(prepared.body)
    return prepared, body if ask.edit is None else ask.edit(body)


async def fetched(profile: Profile, path: str, timeouts: Timeouts, http_client: httpx.AsyncClient | None) -> Any:
    """Returns the JSON at a path below the base URL of a server. Raises APIError."""
    asked = Request.read(profile.model or "any", "any", None, "auto", {})
    call = EndpointRequest.get(path, profile.make_adapter().headers(asked))
    limits = replace(profile.limits, event_bytes=_MOST_BYTES)
    endpoint = Endpoint(profile, http_client)
    read = json_reader("JSON", lambda value: value, limits)
    try:
        return await call_api(endpoint, call, read, timeouts=timeouts, limits=limits)
    finally:
        await endpoint.aclose()


class _Network(httpx.AsyncBaseTransport):
    """Sends one request with an HTTP client, and records facts about the connection.

    Attributes:
        headers: the response headers, with names in lower case.
        headers_after: seconds from the request to the response headers.
        reused: true if the connection was used before; None if unknown. Only httpx's own transports report it.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._connects: int | None = None
        self.headers: Mapping[str, str] = {}
        self.headers_after: float | None = None

    @property
    def reused(self) -> bool | None:
        return None if self._connects is None else not self._connects

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        listener, began = request.extensions.get("trace"), anyio.current_time()

        async def trace(step: str, info: dict[str, Any]) -> None:
            self._connects = (self._connects or 0) + step.endswith(_CONNECTS)
            if listener is not None:
                await listener(step, info)

        request.extensions["trace"] = trace
        response = await self._client.send(request, stream=True, follow_redirects=False)
        self.headers_after = anyio.current_time() - began
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        return response


class _Exchange(Protocol):
    """A request in flight, and its response."""

    async def read(self, events: int = 0) -> bytes | None: ...

    async def drain(self) -> None: ...


@dataclass(slots=True)
class _Reader:
    """Reads a response to its end, or cancels it after its first bytes.

    Attributes:
        most: the maximum number of bytes.
        leave: cancel the request after the first bytes.
    """

    decoder: StreamDecoder
    most: int
    leave: bool = False

    async def read(self, exchange: _Exchange) -> None:
        """Reads a response. Raises APIError."""
        decoder, size = self.decoder, 0
        try:
            while not decoder.done and (data := await exchange.read(decoder.events)) is not None and not self.leave:
                size += len(data)
                if size > self.most:
                    raise ProtocolError(f"the response was longer than {self.most:,} bytes; the rest was not read")
                with suppress(StreamError):  # all bytes are evidence; `close` raises it
                    decoder.feed(data)
            if not self.leave:
                decoder.close()
                await exchange.drain()
        except APIConnectionError as error:
            try:
                decoder.close(interrupted=error.message)
            except IncompleteStreamError:
                raise error from error.__cause__


def _way(error: APIError | None, recording: Recording | None, *, left: bool, reused: bool) -> Way:
    match error:
        case None:
            return "left" if left else "fine"
        case APIStatusError(status_code=status):
            return "refused" if status in _REFUSALS else "status"
        case UpstreamError():
            return "refused"
        case APITimeoutError(phase=phase):
            return "unreachable" if phase == "connect" else "stalled"
        case APIConnectionError() if recording is None and reused:
            return "dropped"
        case APIConnectionError() if recording is None:
            return "hung_up" if "RemoteProtocolError" in repr(error.__cause__) else "unreachable"
        case APIConnectionError():
            return "reset" if recording and recording.ended.startswith("ReadError") else "cut"
        case IncompleteStreamError():
            return "cut"
        case _:
            return "garbled"
