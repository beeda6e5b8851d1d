"""Asks twice where an answer does not begin, and takes the one that begins first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

import anyio

from streamfold import APIError, ChatModel, ChatStream, ConfigError, StreamChunk
from streamfold.middleware import Middleware, WrappedAnswer, forward_source
from streamfold.types import Attempt, ChatParams, ChunkSource

__all__ = ["Hedge"]


class Hedge(Middleware):
    """Sends a request a second time if no chunk has come after some seconds, and takes the answer that begins first.

        model = Hedge(Provider.from_config("kimi:kimi-k2.6"), hedge_after=2.0)

    The other request is closed at once, and `reply.attempts` says so. Providers may charge for both.

    Args:
        model: the model to ask.
        other: the model to ask the second time. Default: the same. `aclose` closes both.
        hedge_after: seconds.

    Raises:
        ConfigError: the time is negative.
    """

    def __init__(self, model: ChatModel, other: ChatModel | None = None, *, hedge_after: float) -> None:
        super().__init__(model)
        if not hedge_after >= 0:
            raise ConfigError(f"Hedge(): hedge_after is a number of seconds, not {hedge_after!r}")
        self.other = model if other is None else other
        self.hedge_after = hedge_after

    async def aclose(self) -> None:
        """Closes the models."""
        try:
            await self.model.aclose()
        finally:
            if self.other is not self.model:
                await self.other.aclose()

    def __repr__(self) -> str:
        return f"<Hedge {self.model!r} {self.other!r} after {self.hedge_after} s>"

    def _stream(self, arguments: ChatParams) -> ChatStream:
        names = (self.model.name, self.other.name)
        sources = (forward_source(self.model, arguments), forward_source(self.other, arguments))
        return ChatStream(
            _HedgedAnswer(names, sources, self.hedge_after), yields_call_deltas=arguments.partial_tool_calls
        )


class _Runner:
    """One of the two requests, up to its first chunks."""

    def __init__(self, name: str, source: ChunkSource, *, call_deltas: bool) -> None:
        self.name = name
        self.source = source
        self.batches = source.batches(call_deltas=call_deltas)
        self.first: list[StreamChunk] | None = None
        self.error: Exception | None = None
        self.ended = anyio.Event()

    async def start(self) -> None:
        """Waits for the first chunks, or for the failure."""
        try:
            self.first = await anext(self.batches, None)
        except Exception as error:  # raised by the answer, if this one counts
            self.error = error
        finally:
            self.ended.set()

    async def close(self) -> None:
        await self.source.aclose()
        await self.batches.aclose()


class _HedgedAnswer(WrappedAnswer):
    """The answer of the request that begins first."""

    def __init__(self, names: Sequence[str], sources: Sequence[ChunkSource], after: float) -> None:
        super().__init__(sources[0])
        self._names, self._sources, self._after = names, sources, after
        self._attempts: tuple[Attempt, ...] = ()

    async def aclose(self) -> None:
        """Closes both requests and wakes the task that waits for them."""
        for source in self._sources:
            await source.aclose()

    async def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks of the winner."""
        both = zip(self._names, self._sources, strict=True)
        winner = await self._race(*[_Runner(name, source, call_deltas=call_deltas) for name, source in both])
        self._source = winner.source
        async with aclosing(winner.batches) as batches:
            if winner.error is not None:
                if isinstance(winner.error, APIError):
                    winner.error.attempts = (*self._attempts, *winner.error.attempts)
                raise winner.error
            if winner.first is not None:
                self._read()
                yield winner.first
            async for batch in batches:
                self._read()
                yield batch

    def _read(self) -> None:
        if (reply := self._source.reply) is not None:
            self.reply = replace(reply, attempts=(*self._attempts, *reply.attempts))

    async def _race(self, first: _Runner, second: _Runner) -> _Runner:
        """Returns the request whose first chunks come first; the other one is closed when this returns."""
        decided = anyio.Event()
        winner: list[_Runner] = []

        async def run(runner: _Runner) -> None:
            await runner.start()
            if runner.error is None and not winner:
                winner.append(runner)
            if winner or all(one.ended.is_set() for one in started):
                decided.set()

        started = [first]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, first)
            with anyio.move_on_after(self._after):
                await decided.wait()
            if not decided.is_set():
                started.append(second)
                tasks.start_soon(run, second)
                await decided.wait()
            tasks.cancel_scope.cancel()  # what still waits
        won = winner[0] if winner else first
        for runner in started:
            if runner is not won:
                self._attempts += (self._lost(runner),)
                await runner.close()
        return won

    def _lost(self, runner: _Runner) -> Attempt:
        if runner.error is not None:
            return Attempt(runner.name, str(runner.error), type(runner.error).__name__)
        return Attempt(runner.name, f"closed: another request, hedged after {self._after:g} s, was answered first")
