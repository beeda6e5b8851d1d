"""One row asked by live requests, until there is an answer or an error that stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio

from ..client import ChatModel, run_tools
from ..values import (
    APIError,
    AuthenticationError,
    Cost,
    NotConfiguredError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    Reply,
    StreamfoldError,
    total_cost,
)
from .answers import Answer, checked_answer, error_members
from .errors import JobPausedError
from .pace import Pace
from .rows import Row
from .settings import JobSettings

__all__ = ["Asking"]

_PAUSE = 1.0  # seconds to wait after a refusal without a Retry-After; doubled each time
_LONGEST_PAUSE = 60.0
# Nothing that is asked afterwards will be answered either.
_HOPELESS = (AuthenticationError, QuotaExceededError, NotConfiguredError)


async def _always(row: Row) -> bool:
    return True


async def _nothing(row: Row) -> None:
    return None


class Asking:
    """Asks a model for rows, several at a time, at a pace and as the settings want it. It knows nothing of a ledger."""

    def __init__(self, model: ChatModel, settings: JobSettings, pace: Pace) -> None:
        self._model = model
        self._settings = settings
        self._pace = pace
        self._refused = 0  # "too many requests", one after the other
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
        tries = 0
        while True:
            reserved = await self._turn()
            if reserved is None or not await sending(row):
                return None
            tries, began = tries + 1, anyio.current_time()
            try:
                reply, cost = await self._reply(row)
            except _HOPELESS as error:
                await unsent(row)
                raise JobPausedError(f"the job has paused, because nothing more would be answered: {error}") from error
            except RateLimitError as error:
                await unsent(row)
                tries -= 1
                self._rest(error)
            except PermissionDeniedError:
                self._pace.settle(reserved, None)
                raise
            except StreamfoldError as error:
                self._pace.settle(reserved, None)
                if tries >= self._settings.tries or not (isinstance(error, APIError) and error.retryable):
                    seconds = anyio.current_time() - began
                    return Answer(row.id, row.number, None, error_members(error), tries, seconds)
                if not await self._rested(_pause(tries - 1, error)):
                    await unsent(row)
                    return None
            else:
                self._refused = 0
                self._pace.settle(reserved, reply.usage)
                return checked_answer(row, reply, cost, tries, anyio.current_time() - began, self._settings.check)

    async def _reply(self, row: Row) -> tuple[Reply, Cost | None]:
        settings = self._settings
        options = {**settings.options, **row.options}
        tools = row.tools if row.tools is not None else settings.tools
        if settings.run_tools:
            run = run_tools(self._model, row.messages, tools or (), tool_choice=row.tool_choice, **options)
            await run
            return run.reply, total_cost(run.replies)
        reply = await self._model.chat(row.messages, tools or None, tool_choice=row.tool_choice, **options)
        return reply, reply.cost

    async def _turn(self) -> float | None:
        """Waits until a request may be sent. Returns the tokens reserved for it, or None if nothing more is asked."""
        with self._waiting() as scope:
            reserved = await self._pace.wait()
        return None if scope.cancelled_caught or self._stopped else reserved

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

    def _rest(self, error: RateLimitError) -> None:
        self._refused += 1
        self._pace.rest(_pause(self._refused - 1, error))


def _pause(before: int, error: APIError) -> float:
    """Returns how many seconds to wait: as long as the server says, else longer each time."""
    said: float | None = getattr(error, "retry_after", None)
    return min(_PAUSE * 2 ** min(before, 10), _LONGEST_PAUSE) if said is None else said
