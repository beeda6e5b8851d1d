"""Sends the requests of a test run with streamfold's client, and records the responses."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
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

_MOST_BYTES = 4 * 2**20  # the maximum size of a response; the probes request much shorter ones
_CONNECTS = ("connect_tcp.started", "connect_unix_socket.started")
# The statuses with which servers reject a request. Many servers send 500 for a feature that they don't support.
_REFUSALS = frozenset({400, 404, 405, 413, 415, 422, 500, 501})


class ExaminedEndpoint:
    """A client for one API of a tested server, which records all responses.

    Args:
        profile: the provider's settings, which the method `use` can replace.
        folder: the folder in which responses are recorded.
        timeouts: the timeouts of each request.
        http_client: the HTTP client for all requests. The caller closes it.
        budget: the limits for all requests together.
        keep: true: keep the recordings after the test, with a description in each recording.

    Attributes:
        spent: the requests, bytes, seconds and cost that have been used so far.
        avoided: options that all requests leave out, because the server rejects them.
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

    def use(self, profile: Profile) -> None:
        """Replaces the provider's settings for later requests."""
        self.profile, self._price = profile, prices_of(profile)

    def over_budget(self, ask: ProbeRequest, *, whole: bool = False) -> str:
        """Returns a sentence about the limit of the budget that a request would exceed; empty if it would exceed none.
        Raises ConfigError if the request can't be built.
        """
        adapter = self.profile.make_adapter(self.profile.resolve().model)
        body = prepare(self.profile, adapter, ask, self.avoided, whole=whole)[1]
        return self.spent.exceeds(self.budget, WrittenRequest.of(body, self._price), anyio.current_time())

    async def ask(self, probe: str, ask: ProbeRequest, *, whole: bool = False) -> ProbeResponse:
        """Sends one request of a probe, and returns the response. If the request fails, the response contains the
        error.

        Args:
            whole: true: request a response without streaming.

        Raises:
            ConfigError: the request can't be built for this endpoint.
        """
        adapter = self.profile.make_adapter(self.profile.resolve().model)
        prepared, body = prepare(self.profile, adapter, ask, self.avoided, whole=whole)
        written = WrittenRequest.of(body, self._price)
        self.spent.requests += 1
        name = f"{self.spent.requests:03}-{probe}-{ask.name}{'-whole' if whole else ''}"
        network = _Network(self._client)
        secrets = self.profile.resolve().secrets()
        recorder = RecordTransport(network, self.folder, name=name, secrets=secrets, adapter=self.profile.adapter)
        most = min(_MOST_BYTES, self.budget.bytes - self.spent.bytes)
        read = partial(_read, decoder=self._decoder(adapter, prepared.request), most=most, leave=ask.leave)
        error = await self._send(recorder, prepared, body, read, whole=whole)
        recording = self._described(recorder.written[-1], ask) if recorder.written else None
        seen = ProbeResponse(
            self.spent.requests,
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
        """Sends a GET request to a path below the base URL, and returns the response's JSON. Raises APIError if the
        request fails.
        """
        return await fetched(self.profile, path, self._timeouts, self._client)

    async def _send(
        self,
        transport: RecordTransport,
        prepared: PreparedRequest,
        body: Mapping[str, Any],
        read: Callable[[_Exchange], Awaitable[None]],
        *,
        whole: bool,
    ) -> APIError | None:
        """Sends a request once. Returns the error that a caller of streamfold would get; None if the request
        succeeded.
        """
        content = json.dumps(body, ensure_ascii=False).encode()
        call = EndpointRequest("POST", prepared.path, prepared.headers, content)
        left = self.spent.began + self.budget.seconds - anyio.current_time()
        timeouts = replace(self._timeouts, total=min(left, self._timeouts.total or left))
        if whole:  # the first byte arrives only after the model has written the complete response
            timeouts = replace(timeouts, first_event=timeouts.total)
        endpoint = Endpoint(self.profile, httpx.AsyncClient(transport=transport, timeout=None))
        try:
            await call_api(endpoint, call, read, timeouts=timeouts, max_retries=0)
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
        """Adds to a recording the facts about its request that a decoder of the response needs."""
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
    """Prepares a probe's request. Returns the prepared request, and its JSON body after the probe's changes. Raises
    ConfigError if the request can't be built.
    """
    given = {name: value for name, value in ask.options.items() if name not in avoided}
    model = profile.resolve().model or ""
    asked = Request.read(model, ask.messages, ask.tools, ask.tool_choice, given, stream=not whole)
    prepared = adapter.prepare(
        replace(asked, options=asked.options.over(profile.default_options())), repair_history=True
    )
    body = json.loads(prepared.body)
    return prepared, body if ask.edit is None else ask.edit(body)


async def fetched(profile: Profile, path: str, timeouts: Timeouts, http_client: httpx.AsyncClient | None) -> Any:
    """Sends a GET request to a path below the base URL, and returns the response's JSON. Raises APIError if the request
    fails.
    """
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
        headers: the response's HTTP headers, with names in lower case.
        headers_after: seconds from sending the request to receiving the response headers.
        reused: true if an earlier request used the same connection; None if the transport doesn't report connections.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.headers: Mapping[str, str] = {}
        self.headers_after: float | None = None
        self.reused: bool | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        listener, began = request.extensions.get("trace"), anyio.current_time()

        async def trace(step: str, info: dict[str, Any]) -> None:
            self.reused = self.reused is not False and not step.endswith(_CONNECTS)
            if listener is not None:
                await listener(step, info)

        request.extensions["trace"] = trace
        response = await self._client.send(request, stream=True, follow_redirects=False)
        self.headers_after = anyio.current_time() - began
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        return response


class _Exchange(Protocol):
    """A request in flight, and the part of its response that has arrived."""

    async def read(self, events: int = 0) -> bytes | None: ...

    async def drain(self) -> None: ...


async def _read(exchange: _Exchange, decoder: StreamDecoder, most: int, *, leave: bool) -> None:
    """Reads a response to its end; with `leave`, only its first bytes. Raises ProtocolError after `most` bytes."""
    size = 0
    try:
        while not decoder.done and (data := await exchange.read(decoder.events)) is not None and not leave:
            size += len(data)
            if size > most:
                raise ProtocolError(f"the response was longer than {most:,} bytes; the rest was not read")
            with suppress(StreamError):  # the recording needs all bytes; `close` raises the error
                decoder.feed(data)
        if not leave:
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
