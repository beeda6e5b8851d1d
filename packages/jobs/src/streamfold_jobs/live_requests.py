"""Sends rows as live requests, with limited concurrency, rate limits and retries."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from random import random
from time import monotonic

import anyio

from streamfold import (
    APIError,
    AuthenticationError,
    ChatModel,
    ChatStream,
    ConfigError,
    Cost,
    NotConfiguredError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    Reply,
    StreamfoldError,
    run_tools,
)
from streamfold.client import Backoff
from streamfold.limits import (
    BudgetExceededError,
    LimitReachedError,
    LimitStoreError,
    MemoryLimitStore,
    RateLimiter,
    Reservation,
    check_number,
    provider_limiter,
)
from streamfold.middleware import BaseChatModel, forward, get_model_info
from streamfold.types import ChatParams, ModelInfo

from .answers import Answer, error_members
from .queue import RowQueue
from .rows import Row
from .settings import JobPausedError, JobSettings

_BACKOFF = Backoff(first=1.0, longest=60.0)  # the pauses before a failed row is sent again
# After these errors, later requests would fail too.
_STOPS_THE_JOB = (AuthenticationError, QuotaExceededError, NotConfiguredError)
_FEW_DENIALS = 3  # number of 403 responses at the end of a job, from which on the job pauses


class LiveBackend:
    """Sends each row as a separate request, within the rate limits.

    Some providers return HTTP 403 for an API key without permission, others for a single prompt. So after a 403, the
    class first sends later rows. If one of them gets an answer, the class records the 403 as the error of the rejected
    row; otherwise the job pauses.
    """

    via = "live"

    def __init__(self, settings: JobSettings, pacing: Pacing) -> None:
        self._requests = RowRequests(settings, pacing)
        self._answered = False
        self._denials = 0
        # The rows that got a 403 after the last answer to a later row.
        self._denied: deque[tuple[int, Row, PermissionDeniedError]] = deque()

    async def send_rows(self, queue: RowQueue) -> None:
        async def stop_requests() -> None:
            await queue.stopping.wait()
            self._requests.stop()

        async with anyio.create_task_group() as watching:
            watching.start_soon(stop_requests)
            async with anyio.create_task_group() as workers:
                for _ in range(queue.settings.concurrency):
                    workers.start_soon(self._worker, queue)
            watching.cancel_scope.cancel()
        if self._denied and not queue.stopped:
            if queue.summary.recorded or (self._answered and len(self._denied) < _FEW_DENIALS):
                self._own_errors(queue, self._denials)
            else:
                self._pause(queue)

    async def _worker(self, queue: RowQueue) -> None:
        try:
            while (row := await queue.next_row()) is not None:
                try:
                    await self._row(queue, row)
                except JobPausedError:
                    raise
                except Exception as error:  # from the caller's `check` or tools; rows in flight are completed
                    place = queue.rows.place(row.number)
                    queue.stop(f"the job has stopped at {place}: {type(error).__name__}: {error}", error)
        except JobPausedError as error:
            queue.stop(str(error), error.__cause__)

    async def _row(self, queue: RowQueue, row: Row) -> None:
        if queue.was_sent(row.number) and queue.settings.in_flight == "error":
            lost = {"type": "InFlight", "message": "the row was in flight when the job was killed; its answer is lost"}
            queue.record(Answer(row.id, row.number, error=lost))
            await queue.written()
            return
        earlier = 0  # number of 403 responses before the request was sent

        async def sending(row: Row) -> bool:
            nonlocal earlier
            if not await queue.reserve_budget(row.number):
                return False
            await queue.mark_sent(row)
            earlier = self._denials
            return True

        try:
            answer = await self._requests.answer(row, sending=sending, unsent=queue.unmark)
        except PermissionDeniedError as error:
            await queue.unmark(row)
            self._denials += 1
            self._denied.append((self._denials, row, error))
            if len(self._denied) > queue.settings.concurrency:
                self._pause(queue)
            return
        if answer is None:
            queue.give_up(row)
        else:
            queue.record(answer)
            if answer.error is None:
                self._answered = True
                self._own_errors(queue, earlier)

    def _own_errors(self, queue: RowQueue, until: int) -> None:
        while self._denied and self._denied[0][0] <= until:
            _, row, error = self._denied.popleft()
            queue.record(Answer(row.id, row.number, error=error_members(error)))

    def _pause(self, queue: RowQueue) -> None:
        _, _, error = self._denied[0]
        queue.stop(f"the job has paused, because no further row can be answered: {error}", error)


async def _always(row: Row) -> bool:
    return True


async def _nothing(row: Row) -> None:
    return None


class RowRequests:
    """Sends rows to a model within the rate limits, without a ledger."""

    def __init__(self, settings: JobSettings, pacing: Pacing) -> None:
        self._settings = settings
        self._pacing = pacing
        self._idle: set[anyio.CancelScope] = set()  # the waits of rows before their requests
        self._stopped = False

    def stop(self) -> None:
        """Stops sending requests. Completes requests in flight, and drops rows that wait for a retry."""
        self._stopped = True
        for scope in self._idle:
            scope.cancel()

    async def answer(
        self,
        row: Row,
        *,
        sending: Callable[[Row], Awaitable[bool]] = _always,
        unsent: Callable[[Row], Awaitable[None]] = _nothing,
    ) -> Answer | None:
        """Sends a row until it has an answer, or an error that a retry wouldn't fix.

        Args:
            sending: a function that is called before each request. If it returns False, the row isn't sent.
            unsent: a function that is called when the server rejected a request without processing it. The request
                doesn't count as a try.

        Returns:
            The answer or the error of the row; None if the row wasn't sent.

        Raises:
            JobPausedError: the provider rejects the API key, or the budget is spent.
            PermissionDeniedError: the provider returned a 403, because of the API key or because of this row.
        """
        tries = refusals = 0
        rejected: tuple[Reply, Cost | None] | None = None  # the last rejected reply, and the cost of all tries
        while (reservation := await self._reserve()) is not None:
            async with reservation:
                if not await sending(row):
                    reservation.cancel()
                    return None
                tries, began = tries + 1, monotonic()
                try:
                    reply, cost = await self._reply(row, reservation)
                    reservation.answered(reply.rate_limit)
                    reservation.charge(reply.usage, cost)
                    if rejected is not None:
                        before, spent = rejected
                        if before.usage is not None:
                            usage = before.usage if reply.usage is None else before.usage + reply.usage
                            reply = replace(reply, usage=usage)
                        cost = None if cost is None or spent is None else cost + spent
                    answer = row.answer(reply, cost, tries, monotonic() - began, self._settings.check)
                    again = self._settings.retry_checks and tries < self._settings.tries and not self._stopped
                    if answer.error is None or not again:
                        return answer
                    rejected = reply, cost
                    continue
                except StreamfoldError as error:
                    if (partial := getattr(error, "partial", None)) is not None:
                        reservation.charge(partial.usage, partial.cost, partial=True)
                    elif isinstance(error, APIError):
                        reservation.note_error(error)
                    if isinstance(error, PermissionDeniedError):
                        raise
                    if isinstance(error, _STOPS_THE_JOB):
                        reservation.failed()
                        await unsent(row)
                        raise _paused(error) from error
                    if isinstance(error, RateLimitError):
                        await unsent(row)
                        tries, refusals = tries - 1, refusals + 1
                        # With retry_after, the limiter delays all rows; otherwise only this row waits.
                        pause = 0.0 if error.retry_after is not None else _BACKOFF.delay(refusals - 1)
                    elif tries >= self._settings.tries or not (isinstance(error, APIError) and error.retryable):
                        seconds = monotonic() - began
                        return Answer(row.id, row.number, None, error_members(error), tries, seconds)
                    elif error.retry_after is not None:  # jitter spreads rows that failed together
                        pause = error.retry_after * (1 + random() / 4)  # noqa: S311 - not secrecy
                    else:
                        pause = _BACKOFF.delay(tries - 1)
            if not await self._wait(pause):
                await unsent(row)
                return None
        return None

    async def _reply(self, row: Row, reservation: Reservation) -> tuple[Reply, Cost | None]:
        settings, model = self._settings, self._pacing.model
        if isinstance(model, BaseChatModel):  # other models accept neither argument
            model = _RowModel(model, reservation, stream=settings.stream)
        options = {**settings.options, **row.options}
        tools = row.tools if row.tools is not None else settings.tools
        if settings.run_tools:
            run = run_tools(model, row.messages, tools or (), tool_choice=row.tool_choice, **options)
            await run
            return run.reply, run.cost
        reply = await model.chat(row.messages, tools or None, tool_choice=row.tool_choice, **options)
        return reply, reply.cost

    async def _reserve(self) -> Reservation | None:
        """Waits until the rate limiter allows a request. Returns the reservation for the request, or None after `stop`.

        Raises:
            JobPausedError: the budget is spent, or a setting is missing.
        """
        while not self._stopped:
            try:
                limiter = self._pacing.limiter
                if (now := await limiter.at_once()) is not None:
                    return now
                with self._waiting():
                    return await limiter.acquire()
            except (BudgetExceededError, ConfigError) as error:
                raise _paused(error) from error
            except (LimitReachedError, LimitStoreError) as error:
                await self._wait(min(error.retry_after or _BACKOFF.first, _BACKOFF.longest))
        return None

    async def _wait(self, seconds: float) -> bool:
        with self._waiting():
            await anyio.sleep(seconds)
        return not self._stopped

    @contextmanager
    def _waiting(self) -> Iterator[anyio.CancelScope]:
        with anyio.CancelScope() as scope:
            self._idle.add(scope)
            try:
                yield scope
            finally:
                self._idle.discard(scope)


def _paused(error: StreamfoldError) -> JobPausedError:
    return JobPausedError(f"the job has paused, because no further row can be answered: {error}")


class Pacing:
    """The rate limiter of a job, and the model that sends its requests within the limits.

    Without a configured rate limit, the job starts slowly, and the limiter raises the rate until the provider rejects
    requests.

    Args:
        model: the model to which the job sends its rows.
        rpm, tpm: maximum requests and tokens per minute; they replace the limits in the provider's settings.

    Raises:
        ConfigError: a limit isn't greater than 0.
    """

    def __init__(self, model: ChatModel, rpm: float | None = None, tpm: float | None = None) -> None:
        check_number("rpm", rpm)
        check_number("tpm", tpm)
        self._given = model
        self._rpm, self._tpm = rpm, tpm

    @cached_property
    def limiter(self) -> RateLimiter:
        """The rate limiter. Raises ConfigError if the provider's API key is missing."""
        facts = get_model_info(self._given)
        if facts is None or facts.direct is None:
            return RateLimiter("job", rpm=self._rpm, tpm=self._tpm, store=MemoryLimitStore())
        own = facts.direct.limiter
        if own is not None and self._rpm is None and self._tpm is None:
            return own
        store = MemoryLimitStore() if own is None else own.store
        return provider_limiter(facts.direct.profile, rpm=self._rpm, tpm=self._tpm, store=store)

    @cached_property
    def model(self) -> ChatModel:
        """The model with this rate limiter. Raises ConfigError if the provider's API key is missing."""
        facts = get_model_info(self._given)
        if facts is None or facts.direct is None:
            return self._given
        return facts.direct.with_limiter(self.limiter, patient=False)


class _RowModel(BaseChatModel):
    """The model for a single row. It uses the reservation for its first request. If `stream` is false, it requests
    replies that aren't streamed.
    """

    def __init__(self, model: BaseChatModel, reservation: Reservation, *, stream: bool) -> None:
        self._model = model
        self._reservation = reservation
        self._streams = stream

    @property
    def name(self) -> str:
        return self._model.name

    def facts(self) -> ModelInfo | None:
        return self._model.facts()

    def _stream(self, arguments: ChatParams) -> ChatStream:
        request = arguments.request if self._streams else replace(arguments.request, stream=False)
        return forward(self._model, replace(arguments, request=request, reservation=self._reservation))

    async def aclose(self) -> None:
        await self._model.aclose()
