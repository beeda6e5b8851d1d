"""Sends the requests of an examination, records the answers, and tells how each one went."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import anyio
import httpx

from streamfold.adapters import Adapter, PreparedRequest
from streamfold.adapters.batches import EndpointRequest
from streamfold.client import Endpoint, LoopBoundClient, Requester, json_reader
from streamfold.config import Profile
from streamfold.engine import StreamDecoder, ToolNameMap
from streamfold.net import Exchange, HTTPRequest, StreamTimeouts, event_loop, make_client, redact_error
from streamfold.recording import Recording, expected, recording_client
from streamfold.requests import Request
from streamfold.values import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    IncompleteStreamError,
    ProtocolError,
    StreamError,
    Timeouts,
    UpstreamError,
)

from ..inspection import Inspection, inspect_stream
from .values import ProbeRequest, ProbeResponse, Way

_MOST_BYTES = 4 * 2**20  # of one answer; nothing that is asked for here is nearly as long
# Statuses that are about the request. A server that can't do something often answers a request for it with a 500.
_CONNECTS = ("connect_tcp.started", "connect_unix_socket.started")
_REFUSALS = frozenset({400, 404, 405, 413, 415, 422, 500, 501})


class ExaminedEndpoint:
    """One API of a server.

    Args:
        profile: how it is asked. `use` replaces it when more is known.
        folder: where the answers are recorded.
        timeouts: of each request.
        http_client: the client to send with. It remains the caller's.

    Attributes:
        requests: how many were sent.
        avoided: options that are left out of all requests, because the server refuses them.
    """

    def __init__(
        self, profile: Profile, folder: Path, timeouts: Timeouts, http_client: httpx.AsyncClient | None = None
    ) -> None:
        self.profile = profile
        self.folder = folder
        self.requests = 0
        self.avoided: set[str] = set()
        self._timeouts = timeouts
        self._given = http_client
        self._client = http_client or make_client(profile.transport)
        self._client.event_hooks["request"].append(self._watch)
        self._client.event_hooks["response"].append(self._note)
        self._endpoint = Endpoint(profile)
        self._connects: int | None = None
        self._headers: Mapping[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.event_hooks["request"].remove(self._watch)
        self._client.event_hooks["response"].remove(self._note)
        if self._given is None:
            await self._client.aclose()

    def use(self, profile: Profile) -> None:
        """Asks with other settings from here on."""
        self.profile, self._endpoint = profile, Endpoint(profile)

    async def ask(self, probe: str, ask: ProbeRequest) -> ProbeResponse:
        """Sends one request and returns what came of it. Network errors are part of the answer."""
        self.requests += 1
        adapter = self.profile.make_adapter(self.profile.sent_model())
        prepared, body = prepare(self.profile, adapter, ask, self.avoided)
        name = f"{self.requests:03}-{probe}-{ask.name}"
        client, recorder = recording_client(
            self._client, self.folder, name=name, secrets=self.profile.secrets(), adapter=self.profile.adapter
        )
        self._connects, self._headers = None, {}
        request = self._request(adapter, prepared, body)
        sent = await _exchanged(client, request, self._decoder(adapter, prepared.request), leave=ask.leave)
        recording = self._described(recorder.written[-1], ask) if recorder.written else None
        return ProbeResponse(
            self.requests,
            probe,
            ask.name,
            _way(sent.error, recording, left=ask.leave, reused=self._reused() is True),
            sent=body,
            recording=recording,
            inspection=self._inspected(recording, probe),
            error=sent.error,
            headers_after=sent.headers_after,
            headers=self._headers,
            reused=self._reused(),
        )

    async def get(self, path: str) -> Any:
        """Returns the JSON at a path below the base URL. Raises APIError."""
        return await fetched(self.profile, path, self._timeouts, self._client)

    def _request(self, adapter: Adapter, prepared: PreparedRequest, body: Mapping[str, Any]) -> HTTPRequest:
        content = json.dumps(body, ensure_ascii=False).encode()
        own_client = self._given is None
        sent = self._endpoint.request(adapter, replace(prepared, body=content), self._timeouts, own_client=own_client)
        return sent._replace(redactor=sent.redactor.with_secrets((), guess=True))

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
        """Returns the recording of an answer with the facts that reading it needs, and saves it so."""
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
            recording = replace(recording, expect=expected(recording))
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

    def _reused(self) -> bool | None:
        """Whether the last request had a connection that was used before; None if that is not known."""
        return None if self._connects is None else not self._connects

    async def _watch(self, request: httpx.Request) -> None:
        """Counts the connections that are opened for a request; other transports than those of httpx report none."""
        listener = request.extensions.get("trace")

        async def trace(step: str, info: dict[str, Any]) -> None:
            self._connects = (self._connects or 0) + step.endswith(_CONNECTS)
            if listener is not None:
                await listener(step, info)

        request.extensions["trace"] = trace

    async def _note(self, response: httpx.Response) -> None:
        """Notes the headers of a response."""
        self._headers = {name.lower(): value for name, value in response.headers.items()}


def prepare(
    profile: Profile, adapter: Adapter, ask: ProbeRequest, avoided: Collection[str] = ()
) -> tuple[PreparedRequest, dict[str, Any]]:
    """Returns a request as the adapter prepares it, and its body with the edit of the probe."""
    given = {name: value for name, value in ask.options.items() if name not in avoided}
    asked = Request.read(profile.sent_model() or "", ask.messages, ask.tools, ask.tool_choice, given)
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
    connections = LoopBoundClient(profile, http_client)
    read = json_reader("JSON", lambda value: value, limits)
    try:
        return await Requester(profile, connections, ()).call(call, read, timeouts, limits, None).send()
    finally:
        await connections.aclose()


@dataclass(slots=True)
class _Sent:
    """What a request brought beside its recorded answer."""

    error: APIError | None = None
    headers_after: float | None = None


async def _exchanged(client: httpx.AsyncClient, request: HTTPRequest, decoder: StreamDecoder, *, leave: bool) -> _Sent:
    """Reads an answer to its end, or leaves after its first bytes."""
    sent, began = _Sent(), anyio.current_time()
    exchange = Exchange(client, request, StreamTimeouts(request.timeouts, began), event_loop())
    try:
        await exchange.open()
        sent.headers_after = anyio.current_time() - began
        size = 0
        while not decoder.done and (data := await exchange.read(decoder.events)) is not None and not leave:
            _check_end(size := size + len(data))
            with suppress(StreamError):  # all bytes are evidence; `close` raises it
                decoder.feed(data)
        if not leave:
            decoder.close()
            await exchange.drain()
    except APIConnectionError as error:
        sent.error = _unfinished(decoder, error)
    except APIError as error:
        sent.error = error
    finally:
        await exchange.aclose()
    if sent.error is not None:
        redact_error(sent.error, request.redactor)
    return sent


def _check_end(size: int) -> None:
    """Raises ProtocolError for an answer that may never end. Its time is bound by the clocks."""
    if size > _MOST_BYTES:
        raise ProtocolError(f"the answer had no end after {_MOST_BYTES >> 20} MiB; the rest was not read")


def _unfinished(decoder: StreamDecoder, error: APIConnectionError) -> APIError | None:
    """Returns the error of a connection that broke; None if the answer was finished before."""
    try:
        decoder.close(interrupted=error.message)
    except IncompleteStreamError:
        return error
    except StreamError as other:
        return other
    return None


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
