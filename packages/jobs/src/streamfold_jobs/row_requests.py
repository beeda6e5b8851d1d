"""One row asked by live requests, until there is an answer or an error that stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import random
from time import monotonic

import anyio

from streamfold import (
    APIError,
    AuthenticationError,
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
from streamfold.limits import BudgetExceededError, LimitReachedError, LimitStoreError, Reservation

from .answers import Answer, error_members
from .errors import JobPausedError
from .pacing import Pacing
from .request_template import RequestTemplate
from .rows import Row
from .settings import JobSettings

_PAUSE = 1.0  # seconds until a row that failed is asked again; doubled each time
_LONGEST_PAUSE = 60.0
# Nothing that is asked afterwards will be answered either.
_HOPELESS = (AuthenticationError, QuotaExceededError, NotConfiguredError)


async def _always(row: Row) -> bool:
    return True


async def _nothing(row: Row) -> None:
    return None


class RowRequests:
    """Asks a model for rows, several at a time, at a pace and as the settings want it. It knows nothing of a ledger."""

    def __init__(self, settings: JobSettings, pace: Pacing) -> None:
        self._settings = settings
        self._pace = pace
        self._form = RequestTemplate(settings.stream)
        self._idle: set[anyio.CancelScope] = set()  # of those that wait before they ask
        self._stopped = False

    def stop(self) -> None:
        """Asks nothing more: requests that are under way are finished, and nobody waits for another try."""
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
        """Asks for one row until there is an answer, or an error that stays.

        Args:
            sending: is called before each request; the row is given up when it returns false.
            unsent: is called when a request that was sent does not count: the server refused to look at it.

        Returns:
            The answer or the error, or None for a row that was given up.

        Raises:
            JobPausedError: no row will be answered: the key is refused, or the money is spent.
            PermissionDeniedError: HTTP 403, which some providers say of a key and others of a single prompt.
        """
        tries = refusals = 0
        while (reservation := await self._turn()) is not None:
            async with reservation:
                if not await sending(row):
                    reservation.cancel()
                    return None
                tries, began = tries + 1, monotonic()
                try:
                    reply, cost = await self._reply(row)
                    reservation.answered(reply.rate_limit)
                    reservation.charge(reply.usage, cost)
                    return row.answer(reply, cost, tries, monotonic() - began, self._settings.check)
                except _HOPELESS as error:
                    reservation.failed()
                    await unsent(row)
                    raise _paused(error) from error
                except RateLimitError as refused:
                    reservation.refused(refused.retry_after, refused.rate_limit)
                    await unsent(row)
                    tries, refusals = tries - 1, refusals + 1
                    # What the server says is for all: the limiter waits. Else only this row rests.
                    pause = 0.0 if refused.retry_after is not None else _pause(refusals - 1, refused)
                except PermissionDeniedError:
                    reservation.failed()
                    raise
                except StreamfoldError as error:
                    if (partial := getattr(error, "partial", None)) is not None:
                        reservation.charge(partial.usage, partial.cost, partial=True)
                    if tries >= self._settings.tries or not (isinstance(error, APIError) and error.retryable):
                        seconds = monotonic() - began
                        return Answer(row.id, row.number, None, error_members(error), tries, seconds)
                    pause = _pause(tries - 1, error)
            if not await self._rested(pause):
                await unsent(row)
                return None
        return None

    async def _reply(self, row: Row) -> tuple[Reply, Cost | None]:
        settings, form, began = self._settings, self._form, monotonic()
        options = {**settings.options, **row.options}
        tools = row.tools if row.tools is not None else settings.tools
        whole, model = form.is_whole, self._pace.model
        try:
            if settings.run_tools:
                run = run_tools(form.model(model), row.messages, tools or (), tool_choice=row.tool_choice, **options)
                await run
                reply, cost = run.reply, run.cost
            else:
                asked = form.options(model, options)
                reply = await model.chat(row.messages, tools or None, tool_choice=row.tool_choice, **asked)
                cost = reply.cost
        except StreamfoldError as error:
            form.failed(error, whole=whole)
            raise
        form.came(monotonic() - began)
        return reply, cost

    async def _turn(self) -> Reservation | None:
        """Waits until a request may be sent. Returns the right to send it, or None if nothing more is asked.

        Raises:
            JobPausedError: the money is spent, or something that is needed is not configured.
        """
        while not self._stopped:
            try:
                limiter = self._pace.limiter
                if (now := await limiter.at_once()) is not None:
                    return now
                with self._waiting():
                    return await limiter.acquire()
            except (BudgetExceededError, ConfigError) as error:
                raise _paused(error) from error
            except (LimitReachedError, LimitStoreError) as error:
                await self._rested(min(getattr(error, "retry_after", _PAUSE), _LONGEST_PAUSE))
        return None

    async def _rested(self, seconds: float) -> bool:
        """Waits before another try. Returns whether there is to be one."""
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


def _pause(before: int, error: StreamfoldError) -> float:
    """Returns how many seconds to wait: as long as the server says, else longer each time.

    A random part of up to a quarter spreads rows that failed together.
    """
    said: float | None = getattr(error, "retry_after", None)
    spread = random() / 4  # noqa: S311 - not secrecy
    if said is not None:  # never less
        return said * (1 + spread)
    return float(min(_PAUSE * 2 ** min(before, 10), _LONGEST_PAUSE)) * (1 - spread)


def _paused(error: StreamfoldError) -> JobPausedError:
    return JobPausedError(f"the job has paused, because nothing more would be answered: {error}")
