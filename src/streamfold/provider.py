"""Providers and their streams: the join of the pure path and the network."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
import httpx

from .decoder import StreamDecoder
from .errors import APIConnectionError, APIError, APITimeoutError, ConfigError, IncompleteStreamError, StreamfoldError
from .messages import Messages
from .profiles import Profile, read_profile
from .redaction import redact_error
from .request import Request
from .tools import ToolChoice, ToolLike
from .transport import Exchange, HTTPRequest, make_client, retry_delay
from .types import ProtocolWarning, Reply, StreamChunk, Timeouts, Timing

__all__ = ["ChatStream", "Provider"]


class Provider:
    """A language model behind an endpoint. Safe to share between the tasks of one event loop.

    Make one with `from_config`, use it as an async context manager or call `aclose` in the end. A client that is passed
    in is used and never closed.
    """

    def __init__(self, profile: Profile, *, http_client: httpx.AsyncClient | None = None) -> None:
        self.profile = profile
        self._adapter = profile.make_adapter()
        self._client = http_client
        self._owns_client = http_client is None

    @classmethod
    def from_config(
        cls, spec: str | Mapping[str, Any], *, http_client: httpx.AsyncClient | None = None, **overrides: Any
    ) -> Self:
        """A provider from the catalogue (`"kimi"`, `"kimi:kimi-k2.6"`) or from a mapping.

        Overrides and the mapping take the same keys: adapter, base_url, api_key, model, dialect, quirks, headers,
        timeouts, max_retries, limits, transport; a mapping may start from the catalogue with the key `profile`.

        Raises:
            ConfigError: something in it is unknown or does not fit; the message says what is allowed.
        """
        return cls(read_profile(spec, overrides), http_client=http_client)

    @property
    def name(self) -> str:
        """What errors call this provider."""
        return self.profile.name

    def chat_stream(
        self,
        messages: Messages,
        tools: list[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        model: str | None = None,
        timeouts: Timeouts | None = None,
        extra_headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> ChatStream:
        """Asks for a streamed answer. Nothing is sent before the first chunk is asked for.

        Args:
            messages: the conversation; a bare string is one user message.
            tools: what the model may call: `Tool`s, or dicts in the shape of either OpenAI wire.
            tool_choice: "auto", "none", "required", or `NamedTool(name)`.
            model: another model than the configured one.
            timeouts: other clocks than the configured ones.
            extra_headers: further headers for this request.
            options: see `Options`: temperature, top_p, max_output_tokens, stop, seed, parallel_tool_calls,
                reasoning_effort, response_format, extra_body.

        Raises:
            ConfigError: the request can't be sent as it is. Errors of the network are raised by the iteration.
        """
        chosen = model or self.profile.model
        if not chosen:
            raise ConfigError(f'no model for "{self.name}": write "{self.name}:MODEL", or pass model=')
        asked = Request.read(chosen, messages, tools, tool_choice, options)
        request, changes = self._adapter.prepare(asked)
        http_request = self._http_request(self._adapter.encode(request), extra_headers, timeouts)

        def decoder() -> StreamDecoder:
            return StreamDecoder(
                self._adapter,
                dialect=self.profile.dialect,
                tools=request.tools,
                tool_choice=request.tool_choice,
                limits=self.profile.limits,
            )

        return ChatStream(_Answer(self, http_request, decoder, changes))

    async def chat(
        self,
        messages: Messages,
        tools: list[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Any,
    ) -> Reply:
        """The whole answer: the same stream, folded. Takes what `chat_stream` takes.

        Raises:
            APIError: one of its kinds; what had been received is its `partial`.
        """
        async with self.chat_stream(messages, tools, tool_choice=tool_choice, **options) as stream:
            async for _ in stream:
                pass
            return stream.reply

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to a client that was passed in."""
        if self._owns_client and self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Provider {self.name} {self.profile.adapter} {self.profile.base_url} model={self.profile.model!r}>"

    def _http_request(
        self, body: Mapping[str, Any], extra_headers: Mapping[str, str] | None, timeouts: Timeouts | None
    ) -> HTTPRequest:
        headers = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # a proxy that compresses a stream also holds it back
            "Cache-Control": "no-store",
            "Content-Type": "application/json",
        }
        if key := self.profile.key():
            headers["Authorization"] = f"Bearer {key}"
        headers.update(self.profile.headers)
        headers.update(extra_headers or {})
        return HTTPRequest(
            url=self.profile.base_url + self._adapter.path,
            headers=headers,
            body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
            timeouts=timeouts or self.profile.timeouts,
            limits=self.profile.limits,
        )

    def http_client(self) -> httpx.AsyncClient:
        """The client that requests go through, made when it is first needed."""
        if self._client is None:
            self._client = make_client(self.profile.transport)
        return self._client

    def secrets(self) -> list[str]:
        """What must never be shown, should a server echo it."""
        return [key] if (key := self.profile.key()) else []


class ChatStream:
    """The chunks of one answer: an async iterator, and a context manager that closes the connection when it is left.

    A bare `async for` is fine too: the connection is closed at the end of the answer, and when the stream is abandoned,
    as soon as Python lets go of it.
    """

    def __init__(self, answer: _Answer) -> None:
        self._answer = answer
        # The generator must not know this object: when the caller drops it, the generator goes too, and the event
        # loop's hook for abandoned generators runs its `finally`.
        self._batches = answer.batches()
        self._ready: deque[StreamChunk] = deque()
        self._closed = False
        self._reading = False

    @property
    def reply(self) -> Reply:
        """The whole answer. Raises StreamfoldError before the finished chunk was handed out."""
        if self._answer.reply is None or self._ready:
            raise StreamfoldError("there is no reply yet: read the stream to its finished chunk first")
        return self._answer.reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamChunk:
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            if self._reading:
                raise StreamfoldError("another task is reading this stream: one stream has one reader")
            self._reading = True
            try:
                self._ready.extend(await anext(self._batches))
            finally:
                self._reading = False
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Closes the connection; it is closed when this returns. From any task, as often as one likes.

        A task that waits for a chunk sees the iteration end.
        """
        self._closed = True
        self._ready.clear()
        await self._answer.aclose()
        if not self._reading:
            await self._batches.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _Answer:
    """What it takes to get one answer: attempts up to the first chunk, then the rest of that attempt."""

    def __init__(
        self,
        provider: Provider,
        request: HTTPRequest,
        make_decoder: Callable[[], StreamDecoder],
        changes: list[ProtocolWarning],
    ) -> None:
        self._provider = provider
        self._changes = changes  # what was asked for and not sent: the reply says so
        self._request = request
        self._make_decoder = make_decoder
        self._exchange: Exchange | None = None
        self._closed = False
        self._began = 0.0
        self._headers_at: float | None = None
        self.reply: Reply | None = None

    async def aclose(self) -> None:
        self._closed = True
        if self._exchange is not None:
            await self._exchange.aclose()

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """The chunks of the answer; those of one network read come together."""
        self._began = anyio.current_time()
        exchange: Exchange | None = None
        try:
            exchange, decoder, batch = await self._begin()
            first_chunk = self._since_began()
            while batch:
                if batch[-1].finished:
                    timing = Timing(self._headers_at, first_chunk, self._since_began())
                    self.reply = self._reply_of(decoder, exchange, timing)
                yield batch
                batch = [] if decoder.finished else await _next_batch(exchange, decoder)
            if decoder.finished:
                await exchange.drain()
        except APIError as error:
            raise self._signed(error)  # noqa: B904 - the same error, with the provider's name
        finally:
            if exchange is not None:
                await exchange.aclose()

    async def _begin(self) -> tuple[Exchange, StreamDecoder, list[StreamChunk]]:
        """Sends the request until an attempt brings a chunk: nothing has been shown, so nothing can be shown twice."""
        attempt = 0
        while True:
            exchange = self._exchange = Exchange(self._provider.http_client(), self._request)
            decoder = self._make_decoder()
            try:
                await exchange.open()
                self._headers_at = self._since_began()
                return exchange, decoder, await _next_batch(exchange, decoder)
            except APIError as error:
                await exchange.aclose()
                delay = retry_delay(error, attempt)
                if delay is None or attempt >= self._provider.profile.max_retries:
                    raise
            except BaseException:
                await exchange.aclose()
                raise
            await anyio.sleep(delay)
            attempt += 1

    def _reply_of(self, decoder: StreamDecoder, exchange: Exchange, timing: Timing) -> Reply:
        reply = decoder.reply
        warnings = [*self._changes, *reply.warnings]
        return replace(reply, request_id=exchange.request_id, timing=timing, warnings=warnings)

    def _since_began(self) -> float:
        return anyio.current_time() - self._began

    def _signed(self, error: APIError) -> APIError:
        error.provider = self._provider.name
        if self._exchange is not None:
            error.request_id = error.request_id or self._exchange.request_id
        redact_error(error, self._provider.secrets())
        return error


async def _next_batch(exchange: Exchange, decoder: StreamDecoder) -> list[StreamChunk]:
    """Reads until there are chunks. None at all: the stream was closed on our side.

    Raises:
        APIError: the connection broke, a clock ran out, or the answer went wrong.
    """
    events = decoder.events
    while not decoder.done:
        try:
            data = await exchange.read()
        except APIConnectionError as error:
            return _broken_off(decoder, error)
        if data is None:
            return [] if exchange.closed else decoder.close()
        chunks = decoder.feed(data)
        if decoder.events != events:
            events = decoder.events
            exchange.event_came()
        if chunks:
            return chunks
    return decoder.close()


def _broken_off(decoder: StreamDecoder, error: APIConnectionError) -> list[StreamChunk]:
    """What is left of an answer whose connection broke: the finished chunk if it was finished, else an error."""
    try:
        return decoder.close(interrupted=error.message)
    except IncompleteStreamError as incomplete:
        if isinstance(error, APITimeoutError):
            error.partial = incomplete.partial
            raise error from error.__cause__
        raise incomplete from error
