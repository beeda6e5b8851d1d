"""`NetworkStream` requests an answer from the network, retries until the first chunk, reconnects, and continues
answers.

An answer may need several HTTP requests, because some providers pause an answer (`Finish.continues`). Each response is
one part of the answer. Each request has its own attempts, rate limit reservation and connection. One decoder parses the
responses of all parts. So tool calls are delivered at the end of the last part, and an error contains the text of all
parts.

The request for a later part can be retried until the part's first chunk has arrived. So each attempt has a temporary
decoder. After a successful attempt, the answer's decoder parses the same bytes again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from ..answers import ChatParams, ChatStream, ChunkSource, WrappedAnswer
from ..engine import NonStreamBody, StreamDecoder
from ..errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    ConfigError,
    IncompleteStreamError,
    ModelNotFoundError,
    NotFoundError,
    ProtocolError,
    StreamError,
    StreamfoldError,
)
from ..net import Exchange, HTTPRequest
from ..requests import estimated_tokens, text_tokens
from ..types import Message, PartialToolCall, Reply, ReplyWarning, StreamChunk, Timing, Usage
from .endpoint import Endpoint
from .hooks import Notifier
from .prepared_call import PreparedCall
from .retry_backoff import RetryLoop

_FIRST_POLL = 1.0  # seconds between two polls of an answer that the server has not finished
_LONGEST_POLL = 15.0

_PartReserver: TypeAlias = Callable[[Reply], Awaitable[None]]
_part_reserver: ContextVar[_PartReserver | None] = ContextVar("streamfold_part_reserver", default=None)


@contextmanager
def reserving_parts(reserve: _PartReserver) -> Iterator[None]:
    """Calls `reserve` before each additional request of an answer that is read inside this block.

    An answer needs additional requests if the provider pauses it. Use this for limits that streamfold doesn't know,
    such as the budget of a gateway key.

    Args:
        reserve: an async function that is called with the reply to the previous request. If `reserve` raises an
            exception, the answer ends with this exception.
    """
    token = _part_reserver.set(reserve)
    try:
        yield
    finally:
        _part_reserver.reset(token)


class AnswerReader:
    """Reads the chunks of one response. If the connection breaks and the provider stores the answer, the reader
    reconnects.

    Args:
        tap: a function that is called with each piece of the response body, or None.
        received: None for the first part of an answer. For a later part, a list that collects the response body until
            `continue_answer` is called.
    """

    def __init__(
        self,
        call: PreparedCall,
        exchange: Exchange,
        decoder: StreamDecoder,
        attempts: RetryLoop,
        tap: Callable[[bytes], None] | None,
        received: list[bytes] | None = None,
    ) -> None:
        self._call = call
        self._exchange = exchange
        self.decoder = decoder
        self._attempts = attempts
        self._tap = tap
        self._received = received
        self._reconnected_after: int | str | None = -1
        self._reconnects = 0  # since the last event
        self._reads_whole = False  # the rest is read as one complete answer
        self._has_delivered = False
        self._broke: APIConnectionError | None = None
        self._finished_body: bytes | None = None  # an answer that was fetched as one JSON response, until it is read

    def continue_answer(self, decoder: StreamDecoder) -> list[StreamChunk]:
        """Appends this response to an answer that has earlier parts. Returns the chunks that have already arrived.

        Args:
            decoder: the answer's decoder, which has decoded the earlier parts.
        """
        part, self.decoder, self._has_delivered = self.decoder, decoder, True
        received, self._received = self._received or [], None
        chunks = decoder.next_part()
        for data in received:
            chunks += decoder.feed(data) if not decoder.done else []
        if (part.finished or part.part_ended) and not decoder.done:  # at the end of the body
            chunks += decoder.end(interrupted=self._broke.message if self._broke else None)
        return chunks

    async def next_batch(self) -> list[StreamChunk]:
        """Reads from the network until there are chunks, and returns them. Returns an empty list if the program closed
        the stream.

        If an answer breaks off, the text that the decoder has held back is returned before the error is raised. If no
        chunk was delivered yet, this text is dropped, because streamfold may retry the request.

        Raises:
            APIError: the connection broke, a timeout expired, or the answer is invalid.
        """
        decoder = self.decoder
        while not decoder.done:
            exchange = self._exchange
            try:
                data, self._finished_body = self._finished_body, None
                if data is None:
                    data = await exchange.read(decoder.events)
            except APIConnectionError as error:
                if exchange.closed:
                    return []
                if not await self._reconnected(error):
                    self._broke = error
                    return self._rest()
                continue
            except ProtocolError as error:  # raised by the connection, for example for a message that is too large
                error.partial, error.partial_tool_calls = decoder.partial(), decoder.partial_tool_calls
                raise
            if data is None:
                if exchange.closed:
                    return []
                ended = APIConnectionError("the stream ended before the response was complete", retryable=True)
                if self._reads_whole or not await self._reconnected(ended):
                    return self._rest()
                continue
            if self._tap is not None:
                self._tap(data)
            if self._received is not None:
                self._received.append(data)
            if chunks := decoder.feed(data):
                self._has_delivered = True
                return chunks
        return self._rest()

    async def whole_batch(self) -> list[StreamChunk]:
        batch = await self.next_batch()
        while batch and not batch[-1].finished:  # the server streams although it was asked not to
            more = await self.next_batch()
            if not more:
                return batch if self.decoder.part_ended else []
            batch = [*batch, *more]
        return batch

    async def drain(self) -> None:
        """Reads the bytes that follow the end of the answer. Does nothing if the decoder ended the answer at a stop
        sequence.
        """
        if not self.decoder.stopped:
            await self._exchange.drain()

    async def _reconnected(self, error: APIConnectionError) -> bool:
        place = self.decoder.broken_off_at
        if place is None:
            return False
        answer_id, after = place
        request, whole = self._call.resume_request(answer_id, after), False
        if isinstance(error, APITimeoutError) and self._reconnected_after != -1:  # the server has lost the stream
            stored = self._call.resume_request(answer_id, None)
            request, whole = stored or request, stored is not None
        if request is None:
            return False
        self._reconnects = 0 if after != self._reconnected_after else self._reconnects + 1
        self._reconnected_after = after
        exchange = await self._attempts.reconnect(request, error, after, self._reconnects)
        if exchange is None:
            return False
        self._exchange = exchange
        if whole:
            try:
                await self._fetch_finished(request)
            except APIError:
                return False  # the error that broke the stream says more
        self._reads_whole = whole
        self.decoder.resume(whole=whole)
        return True

    async def _fetch_finished(self, request: HTTPRequest) -> None:
        pause, most = _FIRST_POLL, self._call.endpoint.profile.limits
        while True:
            body, pieces = NonStreamBody("json", most), list[bytes]()
            while (data := await self._exchange.read()) is not None:
                body.feed(data)
                pieces.append(data)
            if self._exchange.closed or not self._call.adapter.is_running(body.finish(None)):
                self._finished_body = b"".join(pieces)
                return
            self._exchange = await self._attempts.ask_again(request, pause)
            pause = min(2 * pause, _LONGEST_POLL)

    def _rest(self) -> list[StreamChunk]:
        decoder, error = self.decoder, self._broke
        interrupted = error.message if error else None
        delivers = self._has_delivered or self._call.is_whole
        if delivers and not decoder.done and (chunks := decoder.end(interrupted=interrupted)):
            return chunks
        try:
            return decoder.close(interrupted=interrupted)
        except IncompleteStreamError as incomplete:
            if error is None:
                raise
            if isinstance(error, APITimeoutError):
                error.partial, error.partial_tool_calls = incomplete.partial, incomplete.partial_tool_calls
                raise error from error.__cause__
            raise incomplete from error


class NetworkStream:
    """Streams one answer over the network, with retries until the first chunk.

    Raises:
        ConfigError: the request can't be sent.
    """

    def __init__(self, call: PreparedCall) -> None:
        endpoint, limiter = call.endpoint, call.endpoint.limiter()
        if limiter is not None and limiter.limits_cost:
            call.pricing.prices.check_budget(limiter.label)
        self._call_deltas = False  # whether chunks of partial tool calls are yielded
        self._call = call
        self._notifier = Notifier(endpoint.request_info(call.sent.path, call.request, call.served.api), endpoint.hooks)
        self._attempts = RetryLoop(
            call.http_request(),
            self._notifier,
            endpoint.connections,
            max_retries=endpoint.profile.max_retries,
            repeats=call.sent.method == "GET" or not call.adapter.runs_on(call.sent.request),
            limiter=limiter,
            reservation=call.params.reservation,
            waits=endpoint.patient and not call.params.fail_fast,
        )
        self._decoder: StreamDecoder | None = None
        self._continuations = 0  # the requests after the first one
        self._received: list[bytes] | None = None  # the bytes of a later part that hasn't delivered a chunk yet
        self._earlier_warnings: tuple[ReplyWarning, ...] = ()  # about the requests and responses of earlier parts
        self._earlier_calls = 0  # tool calls that had begun in them
        self.reply: Reply | None = None
        self._failed = False
        self._wrong_api: APIError | None = None  # the refusal after which the other API of the provider was called

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        if self.reply is not None:
            return tuple(self.reply.warnings)
        return tuple(dict.fromkeys((*self._request_warnings, *(self._decoder.warnings if self._decoder else ()))))

    @property
    def _request_warnings(self) -> tuple[ReplyWarning, ...]:
        exchange = self._attempts.exchange
        return (*self._earlier_warnings, *self._call.warnings, *(exchange.warnings if exchange else ()))

    @property
    def context_window(self) -> int | None:
        return self._call.sent.request.family.context_tokens

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        return self._decoder.partial_tool_calls if self._decoder else ()

    @property
    def answer_id(self) -> str | None:
        """The provider's id of the answer, or None before the id has arrived."""
        return self._decoder.answer_id if self._decoder else None

    async def aclose(self) -> None:
        if self.reply is None and not self._failed and not self._attempts.closed:
            self._attempts.lease.charge_estimate(self._estimated_usage)
        await self._attempts.aclose()

    async def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        if self._attempts.closed:
            return
        self._call_deltas = call_deltas
        headers_after = first_chunk = None
        try:
            while not self._attempts.closed:
                exchange, reader, batch = await self._first_batch()
                headers_after = self._attempts.headers_after if headers_after is None else headers_after
                if self._continuations and self._decoder is not None:
                    batch, self._received = reader.continue_answer(self._decoder), None
                    if not (batch or self._decoder.part_ended):
                        batch = await reader.next_batch()
                decoder = reader.decoder
                if batch or decoder.part_ended:
                    self._call.accepted()
                if batch and first_chunk is None:
                    first_chunk = self._attempts.elapsed()
                    self._notifier.notify("on_first_chunk", first_chunk)
                while batch and not batch[-1].finished:
                    yield batch
                    batch = await reader.next_batch()
                if not batch and decoder.part_ended:
                    await reader.drain()
                    batch = await self._continue(decoder)
                    if not batch:
                        continue
                if batch:
                    timing = Timing(headers_after, first_chunk, self._attempts.elapsed())
                    self.reply = self._complete(decoder, exchange, timing)
                    self._notifier.notify("on_finish", self.reply)
                    yield batch
                    await reader.drain()
                return
        except APIError as error:
            self._failed = True
            if not self._attempts.closed:  # after `aclose`, the broken connection isn't an error
                if self._decoder is not None and (self._continuations or self._decoder.part_ended):
                    received, self._received = self._received, None
                    if received and self._decoder.part_ended:
                        with suppress(StreamError):
                            self._decoder.next_part()
                            for data in received:
                                self._decoder.feed(data)
                            self._decoder.end(interrupted=error.message)
                    error.partial, error.partial_tool_calls = self._decoder.partial(), self._decoder.partial_tool_calls
                error.warnings = self.warnings
                error.continuation = partial(resume_answer, self._call.endpoint, self._call.params)
                self._call.complete_partial(error)
                self._attempts.complete_error(error)
                self._notifier.notify("on_error", error)
                raise
        finally:
            try:
                await self.aclose()
            finally:
                self._notifier.notify("on_close")

    async def _first_batch(self) -> tuple[Exchange, AnswerReader, list[StreamChunk]]:
        try:
            return await self._attempts.run(self._attempt, self._without)
        except NotFoundError as error:
            if self._wrong_api is None or isinstance(error, ModelNotFoundError):
                raise
            raise self._wrong_api from error  # the endpoint doesn't have the API that it named

    async def _continue(self, decoder: StreamDecoder) -> list[StreamChunk]:
        """Prepares the request for the answer's next part. If the answer has ended, returns its last chunks."""
        call, most, problem = self._call, self._call.max_continuations, ""
        try:
            following = call.next_part(decoder.turn())
        except ConfigError as error:
            following, problem = None, f"it can't be continued: {error}"
        if following is None and not problem:
            return decoder.end_answer()
        part = self._part(decoder)
        self._earlier_warnings = (*self._earlier_warnings, *self._charge(part))
        await self._attempts.lease.aclose()
        if self._continuations >= most:
            problem = f"the answer was continued {most} times (max_continuations)"
        if following is None or problem:
            decoder.give_up()
            what = f"the answer continues in the response to another request, but {problem}"
            unfinished = IncompleteStreamError(what, partial=decoder.partial())
            unfinished.partial_tool_calls = decoder.partial_tool_calls
            raise unfinished
        if (reserve := _part_reserver.get()) is not None:
            await reserve(part)
        self._earlier_warnings = self._request_warnings
        self._earlier_calls = len(decoder.partial_tool_calls)
        await self._attempts.next_request(following.http_request())
        self._call = following
        self._continuations += 1
        return []

    def _part(self, decoder: StreamDecoder) -> Reply:
        return replace(decoder.part(), pricing=self._call.pricing)

    def _complete(self, decoder: StreamDecoder, exchange: Exchange, timing: Timing) -> Reply:
        reply = decoder.reply
        self._call.complete(reply, (*self._earlier_warnings, *exchange.warnings))
        reply.request_id, reply.rate_limit, reply.timing = exchange.request_id, exchange.rate_limit, timing
        reply.attempts = tuple(self._attempts.failed)
        part = self._part(decoder) if self._continuations else reply
        reply.warnings += self._charge(part, reply)
        return reply

    def _charge(self, part: Reply, answer: Reply | None = None) -> list[ReplyWarning]:
        """Charges the tokens and the cost of one response to the limits. Estimates missing counts, with a warning.

        Args:
            answer: the complete reply, if this is the last response of the answer.
        """
        lease, usage = self._attempts.lease, part.usage
        if lease.limiter is None:
            return []
        counted = usage is not None and usage.input_tokens is not None and usage.output_tokens is not None
        invalid = answer is not None and any(warning.code == "usage_invalid" for warning in answer.warnings)
        if (counted and not invalid) or part.cost is not None:
            lease.charge(part)
            return []
        calls = [call.text for call in self.partial_tool_calls[self._earlier_calls :]]
        if answer is not None and not calls:
            calls = [call.raw_arguments for call in answer.tool_calls]
        lease.charge(self._estimate(part, calls), partial=invalid)
        if not lease.limiter.limits_cost:
            return []
        detail = "the server didn't count the tokens of the answer: max_cost_per_day was charged an estimate"
        return [ReplyWarning("usage_estimated", detail)]

    def _estimated_usage(self) -> Reply:
        if self._decoder is not None and self._call.is_whole:
            with suppress(StreamError):  # the decoder parses a JSON body only at its end
                self._decoder.end(interrupted="the answer was left")
        reply, calls = Reply(), self.partial_tool_calls[self._earlier_calls :]
        if self._decoder is not None and not self._decoder.part_ended:  # otherwise the next part has not begun
            reply = self._decoder.part()
        return self._estimate(reply, [call.text for call in calls])

    def _estimate(self, reply: Reply, calls: Iterable[str]) -> Reply:
        usage = reply.usage or Usage()
        written = sum(map(text_tokens, (reply.text, reply.reasoning or "", *calls)))
        written = max(written, usage.output_tokens or 0)
        read = estimated_tokens(self._call.sent.request) if usage.input_tokens is None else usage.input_tokens
        pricing = replace(self._call.pricing, partial=True)
        return Reply(usage=Usage(read, written, read + written), model=reply.model, pricing=pricing)

    def _attempt(self) -> Callable[[Exchange], Awaitable[tuple[Exchange, AnswerReader, list[StreamChunk]]]]:
        call, tap = self._call, self._notifier.tap
        self._notifier.info.sent = call.sent.request
        decoder = call.new_decoder(partial_tool_calls=self._call_deltas, continues=call.max_continuations > 0)
        received = self._received = [] if self._continuations else None
        if received is None:
            self._decoder = decoder

        async def read(exchange: Exchange) -> tuple[Exchange, AnswerReader, list[StreamChunk]]:
            self._notifier.info.redactor = exchange.redactor
            reader = AnswerReader(call, exchange, decoder, self._attempts, tap, received)
            batch = await (reader.whole_batch() if call.is_whole else reader.next_batch())
            call.check_continued(decoder.meta.previous)
            return exchange, reader, batch

        return read

    def _without(self, error: APIError) -> HTTPRequest | None:
        call = self._call.without(error)
        if call is None:
            return None
        if call.learned.api != self._call.learned.api:
            self._wrong_api, info = error, self._notifier.info
            info.adapter, info.url = call.adapter.name, call.endpoint.resolved().urls(call.sent.path).named
        self._call = call
        return call.http_request()


def open_answer(endpoint: Endpoint, params: ChatParams) -> NetworkStream | _ContinuedAnswer:
    """Returns the stream of an answer. If `params.begun` is set, the stream continues that partial answer.

    The request is sent when the stream is first read.

    Raises:
        ConfigError: the request can't be sent.
    """
    begun = params.begun
    if begun is None:
        return NetworkStream(PreparedCall.of(endpoint, params))
    messages = params.request.messages
    earlier, text = messages, begun.text
    if messages[-1].partial:  # the caller's own beginning
        earlier, text = messages[:-1], f"{messages[-1].content or ''}{text}"
    ready = endpoint.request(params.request)
    how = endpoint.model(ready.model).adapter.continues(ready)
    if how is None:
        raise ConfigError(
            f'provider "{endpoint.profile.name}" can\'t continue a text (see ChatQuirks.continues): send the request'
            " again"
        )
    reasoning = begun.reasoning if begun.reasoned and begun.origin == ready.origin else None
    message = Message("assistant", text, reasoning=reasoning, partial=True)
    request = replace(params.request, messages=(*earlier, message))
    source = NetworkStream(PreparedCall.of(endpoint, replace(params, request=request, begun=None)))
    return _ContinuedAnswer(source, begun, echo=how == "with_echo", again=partial(resume_answer, endpoint, params))


def resume_answer(endpoint: Endpoint, params: ChatParams, error: APIError) -> ChatStream:
    """Returns a stream that continues an answer that broke off with this error.

    Raises:
        StreamfoldError: the endpoint can't continue the answer.
    """
    if problem := resume_problem(error):
        raise StreamfoldError(f"resume(): {problem}: send the request again")
    return ChatStream(open_answer(endpoint, replace(params, begun=error.partial, fail_fast=False)))


def resume_problem(error: APIError) -> str | None:
    """Returns the reason why an error's partial answer can't be continued, or None if it can be continued."""
    begun = error.partial or Reply()
    if error.partial_tool_calls:
        names = ", ".join(call.name for call in error.partial_tool_calls)
        return f"a tool call had begun ({names}), which can't be continued"
    if begun.refusal or not begun.text:
        return "the model refused" if begun.refusal else "no text had arrived"
    return None


class _ContinuedAnswer(WrappedAnswer):
    """Streams the rest of an answer that broke off. `reply` contains the partial answer and the rest.

    Args:
        partial: the answer received before the break.
        echo: True if the server may repeat the text of `partial` before the rest.
        again: a function that continues the answer if it breaks off again.
    """

    def __init__(self, source: ChunkSource, partial: Reply, *, echo: bool, again: Callable[[APIError], object]) -> None:
        super().__init__(source)
        self._reply_before_break = partial
        self._again = again
        self._expected = partial.text if echo else ""  # the rest of the echo
        self._held: list[StreamChunk] = []  # chunks that may be an echo
        self._echoed = ""

    async def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        try:
            async with self._opened(call_deltas) as batches:
                async for batch in batches:
                    chunks = [chunk for each in batch for chunk in self._without_echo(each)]
                    if (reply := self._source.reply) is not None:
                        self.reply = self._joined(reply)
                    if chunks:
                        yield chunks
        except APIError as error:
            error.partial = self._reply_before_break if error.partial is None else self._joined(error.partial)
            error.continuation = self._again
            raise

    def _without_echo(self, chunk: StreamChunk) -> list[StreamChunk]:
        if not self._expected or not (chunk.delta or chunk.finished):  # reasoning doesn't echo the text
            return [chunk]
        if self._expected.startswith(chunk.delta) and not chunk.finished:
            self._expected = self._expected[len(chunk.delta) :]
            self._echoed += chunk.delta
            self._held.append(chunk)
            if not self._expected:
                self._held = []
            return []
        if chunk.delta.startswith(self._expected):
            chunk.delta = chunk.delta[len(self._expected) :]
            self._echoed += self._expected
            self._expected, self._held = "", []
            return [chunk]
        held, self._held = self._held, []  # it wasn't an echo
        self._expected = self._echoed = ""
        return [*held, chunk]

    def _joined(self, rest: Reply) -> Reply:
        before = self._reply_before_break
        return replace(
            rest,
            text=before.text + rest.text.removeprefix(self._echoed),
            reasoning=before.reasoning + rest.reasoning,
            reasoned=before.reasoned or rest.reasoned,
        )
