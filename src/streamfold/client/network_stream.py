"""One answer over the network: attempts until the first chunk, then chunks; reconnects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from ..engine import StreamDecoder
from ..errors import APIConnectionError, APIError, APITimeoutError, IncompleteStreamError, StreamError
from ..limits import RateLimiter
from ..net import Exchange, HTTPRequest
from ..requests import Request, estimated_tokens, least_text_tokens, text_tokens
from ..types import PartialToolCall, Reply, ReplyWarning, StreamChunk, Timing, Usage
from .hooks import Notifier
from .loop_bound_client import LoopBoundClient
from .prepared_call import PreparedCall
from .rejected_options import DowngradeRetry
from .retrying import RetryLoop


class AnswerReader:
    """Reads one answer. What comes after a broken connection goes on where it broke off: nobody notices.

    Args:
        reconnect: given the id of the answer and the number of its last event, returns the request for the rest; None
            if the provider does not keep the answer.
        tap: called with each piece of the body; None: nobody wants them.
        whole: nothing is handed out before the end.
    """

    def __init__(
        self,
        exchange: Exchange,
        decoder: StreamDecoder,
        attempts: RetryLoop,
        reconnect: Callable[[str, int], HTTPRequest | None],
        tap: Callable[[bytes], None] | None = None,
        whole: bool = False,
    ) -> None:
        self._tap = tap
        self._whole = whole
        self._attempts = attempts
        self._reconnect = reconnect
        self._reconnected_after = -1
        self._reconnects = 0  # since the last event
        self._exchange = exchange
        self._decoder = decoder
        self._shown = False  # a batch has been handed out
        self._broke: APIConnectionError | None = None

    @property
    def reply(self) -> Reply:
        """The whole answer, once its finished chunk has been read."""
        return self._decoder.reply

    async def next_batch(self) -> list[StreamChunk]:
        """Reads until there are chunks. Returns none if the stream was closed on our side.

        Text that is left when an answer breaks off is a batch of its own, before the error. If nothing has been handed
        out before, it is dropped: the request may still be sent again.

        Raises:
            APIError: the connection broke, a timeout ran out, or the answer went wrong.
        """
        decoder = self._decoder
        while not decoder.done:
            exchange = self._exchange
            try:
                data = await exchange.read(decoder.events)
            except APIConnectionError as error:
                if exchange.closed:
                    return []
                if not await self._reconnected(error):
                    self._broke = error
                    return self._rest()
                continue
            if data is None:
                if exchange.closed:
                    return []
                ended = APIConnectionError("the stream ended before the answer was finished", retryable=True)
                if not await self._reconnected(ended):
                    return self._rest()
                continue
            if self._tap is not None:
                self._tap(data)
            if chunks := decoder.feed(data):
                self._shown = True
                return chunks
        return self._rest()

    async def whole_batch(self) -> list[StreamChunk]:
        """Reads to the end, as `next_batch` does, and returns all chunks."""
        batch = await self.next_batch()
        while batch and not batch[-1].finished:  # streamed all the same
            more = await self.next_batch()
            batch = [*batch, *more] if more else []
        return batch

    async def drain(self) -> None:
        """Reads the rest behind the end of the answer. One that was ended here has more, which nobody wants."""
        if not self._decoder.stopped:
            await self._exchange.drain()

    async def _reconnected(self, error: APIConnectionError) -> bool:
        """Continues on another connection, if that is possible."""
        place = self._decoder.broken_off_at
        request = place and self._reconnect(*place)
        if place is None or request is None:
            return False
        after = place[1]
        self._reconnects = 0 if after > self._reconnected_after else self._reconnects + 1
        self._reconnected_after = after
        exchange = await self._attempts.reconnect(request, error, after, self._reconnects)
        if exchange is None:
            return False
        self._exchange = exchange
        self._decoder.resume()
        return True

    def _rest(self) -> list[StreamChunk]:
        """Returns what is left of an answer that has come to its end, or raises the error in which it ends."""
        decoder, error = self._decoder, self._broke
        interrupted = error.message if error else None
        if (self._shown or self._whole) and not decoder.done and (chunks := decoder.end(interrupted=interrupted)):
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


_UNMET = "several calls came, though parallel_tool_calls=False was asked for: run_tools() runs them one by one"


_LONG_INPUT = 2_000  # tokens: those of a short input are counted in too many ways


def _input_warnings(request: Request, usage: Usage | None) -> list[ReplyWarning]:
    """Returns a warning if the provider counted less than half of the tokens that the request's texts have.

    Servers with a small window cut a long input without an error: Ollama at 4,096 tokens, its default
    (https://github.com/ollama/ollama/issues/2963).
    """
    counted, estimated = usage.input_tokens if usage else None, least_text_tokens(request)
    if counted is None or estimated < _LONG_INPUT or 2 * counted >= estimated:
        return []
    detail = f"the messages have about {estimated:,} tokens, and the provider counted {counted:,}"
    return [ReplyWarning("input_maybe_truncated", f"{detail}: it may have read only a part of them")]


class NetworkStream:
    """Gets one answer: attempts up to its first chunk, then the rest of that attempt.

    Args:
        connections: gives out the HTTP client for each attempt.
        max_retries: how often a request that failed before its first chunk is sent again.
        milder: decides how the request is sent again after a part of it was refused.
        continuation: given the error of an answer that has begun, returns the rest of it: `error.resume()`.
        limiter: each attempt needs a permit of it; None: nothing is limited.
    """

    def __init__(
        self,
        plan: PreparedCall,
        notifier: Notifier,
        connections: LoopBoundClient,
        *,
        max_retries: int,
        milder: DowngradeRetry,
        continuation: Callable[[APIError], object] | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.yields_call_deltas = False
        self._plan = plan
        self._notifier = notifier
        self._milder = milder
        self._continuation = continuation
        self._attempts = RetryLoop(plan.request, notifier, connections, max_retries=max_retries, limiter=limiter)
        self._decoder: StreamDecoder | None = None
        self.reply: Reply | None = None
        self._failed = self._over = False

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        """Those of the request, and those that the answer has brought so far."""
        if self.reply is not None:
            return tuple(self.reply.warnings)
        exchange = self._attempts.exchange
        return (
            *self._plan.warnings,
            *(exchange.warnings if exchange else ()),
            *(self._decoder.warnings if self._decoder else ()),
        )

    @property
    def window(self) -> int | None:
        """How many tokens the model takes, conversation and answer together; None: unknown."""
        return self._plan.sent.family.context_tokens

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The tool calls that the model is writing."""
        return self._decoder.partial_tool_calls if self._decoder else ()

    def fail_fast(self) -> None:
        """Must be called if the caller knows better what to do than to wait when the server has too many requests."""
        self._attempts.waits = False

    async def aclose(self) -> None:
        """Closes the connection and wakes the task that waits for it."""
        if self._over:
            return
        if self.reply is None and not self._failed:
            self._attempts.settle_left(self._used)
        await self._attempts.aclose()

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks of the answer, grouped by network read."""
        if self._attempts.closed:
            return
        try:
            exchange, reader, batch = await self._attempts.run(self._attempt, self._without)
            first_chunk = self._attempts.elapsed()
            if batch:
                self._milder.succeeded()
                del self._milder  # nothing is sent again: what that would be made of is freed
                self._notifier.notify("on_first_chunk", first_chunk)
            while batch and not batch[-1].finished:
                yield batch
                batch = await reader.next_batch()
            if batch:
                self.reply = self._reply(reader.reply, exchange, first_chunk)
                self._settle(self.reply)
                self._notifier.notify("on_finish", self.reply)
                yield batch
                await reader.drain()
        except APIError as error:
            self._failed = True
            if not self._attempts.closed:  # after aclose() the broken connection is our own doing
                self._notifier.notify("on_error", self._signed(error))
                raise
        finally:
            try:
                await self.aclose()
                self._over = True
            finally:
                self._notifier.notify("on_close")

    def _reply(self, reply: Reply, exchange: Exchange, first_chunk: float) -> Reply:
        unmet = [ReplyWarning("parallel_calls_unmet", _UNMET)] if self._plan.one_call and reply.tool_calls[1:] else []
        reply.request_id, reply.rate_limit = exchange.request_id, exchange.rate_limit
        reply.timing = Timing(self._attempts.headers_after, first_chunk, self._attempts.elapsed())
        cut = _input_warnings(self._plan.sent, reply.usage)
        reply.warnings = [*self._plan.warnings, *exchange.warnings, *reply.warnings, *unmet, *cut]
        reply.attempts = tuple(self._attempts.failed)
        reply.provider, reply.origin, reply.pricing = (
            self._notifier.info.provider,
            self._plan.origin,
            self._plan.pricing,
        )
        return reply

    def _settle(self, reply: Reply) -> None:
        """Notes what the answer has used, for the limits: an estimate where its usage and its cost can't be counted."""
        if any(warning.code == "usage_invalid" for warning in reply.warnings) and reply.cost is None:
            self._attempts.settle_left(self._used)
        else:
            self._attempts.charge(reply)

    def _used(self) -> Reply:
        """Returns what an answer has used: by the provider's counts as far as there are any, else by what was read."""
        if self._decoder is not None and self._plan.whole:
            with suppress(StreamError):  # only at its end is a body in one piece looked at
                self._decoder.end(interrupted="the answer was left")
        reply = self._decoder.partial() if self._decoder else Reply()
        told, texts = (
            reply.usage,
            [reply.text, reply.reasoning or "", *(call.raw_arguments for call in reply.tool_calls)],
        )
        written = sum(map(text_tokens, (*texts, *(call.text for call in self.partial_tool_calls))))
        written = max(written, (told and told.output_tokens) or 0)
        read = told.input_tokens if told is not None and told.input_tokens is not None else None
        read = estimated_tokens(self._plan.sent) if read is None else read
        pricing = self._plan.pricing and replace(self._plan.pricing, partial=True)
        return Reply(usage=Usage(read, written, read + written), model=reply.model, pricing=pricing)

    def _attempt(self) -> Callable[[Exchange], Awaitable[tuple[Exchange, AnswerReader, list[StreamChunk]]]]:
        """Returns the reader of a new attempt, which brings its first chunks."""
        plan = self._plan
        decoder = self._decoder = plan.decoder(self.yields_call_deltas)

        async def read(exchange: Exchange) -> tuple[Exchange, AnswerReader, list[StreamChunk]]:
            self._notifier.info.redactor = exchange.redactor
            reader = AnswerReader(exchange, decoder, self._attempts, plan.reconnect, self._notifier.tap, plan.whole)
            return exchange, reader, await (reader.whole_batch() if plan.whole else reader.next_batch())

        return read

    def _signed(self, error: APIError) -> APIError:
        error.warnings = self.warnings
        error.continuation = self._continuation
        if error.partial is not None and self._plan.pricing is not None:
            error.partial = replace(error.partial, pricing=replace(self._plan.pricing, partial=True))
        return self._attempts.signed(error)

    def _without(self, error: APIError) -> HTTPRequest | None:
        """Returns the request without the optional part of it that the server rejected; None if there is none."""
        plan = self._milder.after(self._plan, error)
        if plan is None:
            return None
        self._plan = plan
        return plan.request
