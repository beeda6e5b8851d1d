"""Several providers that stand in for each other, as one provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Self

from ..values import APIError, Attempt, BadRequestError, ConfigError, Reply, StreamChunk
from .provider import Provider
from .stream import Answering

__all__ = ["Fallback"]


class Fallback(Provider):
    """Asks the first provider that can answer; the others, in their order, while nothing of the answer has been shown.

    A provider that can't take a request (no such tool choice, no images, no key) is passed over. One that failed is
    passed over for a while, unless all the others fail too. `reply.attempts` and the `attempts` of an error say which
    were asked and which were not, and why. After the first chunk nobody else is asked: the error of the provider that
    began has the partial answer.

    Each provider keeps its own retries, clocks and connections. `profile` and `name` are those of the first.

    Args:
        on: the errors after which the next provider is asked. All but those that say that the request itself is wrong
            would be asked in vain elsewhere too; so these are not among them, unless they are named here.
        cooldown: seconds for which a provider that failed is passed over, if its server did not name a time.
    """

    def __init__(
        self, *providers: Provider, on: Collection[type[APIError]] | None = None, cooldown: float = 30.0
    ) -> None:
        if not providers:
            raise ConfigError("a Fallback is made of providers, and there are none")
        super().__init__(providers[0].profile)
        self.providers = providers
        self._on = None if on is None else tuple(on)
        self._cooldown = cooldown
        self._resting: dict[int, _Rest] = {}  # by position; of this object alone, so that nobody else's errors count

    @classmethod
    def from_config(cls, spec: str | Mapping[str, Any] | None = None, **rest: Any) -> Self:
        """As `Provider.from_config`; the `fallback` of the configuration says who stands in for whom."""
        provider = Provider.from_config(spec, **rest)
        return provider if isinstance(provider, cls) else cls(provider)

    async def aclose(self) -> None:
        """Closes all of the providers."""
        for provider in self.providers:
            await provider.aclose()

    def __repr__(self) -> str:
        return f"<Fallback {', '.join(map(repr, self.providers))}>"

    def _answer(self, *request: Any, **options: Any) -> Answering:
        legs: list[_Leg] = []
        passed_over: list[Attempt] = []
        for position, provider in enumerate(self.providers):
            try:
                legs.append(_Leg(position, provider.name, provider._answer(*request, **options)))
            except ConfigError as exc:
                passed_over.append(Attempt(provider.name, str(exc)))
        if not legs:
            raise ConfigError("; ".join(attempt.problem for attempt in passed_over))
        awake: list[_Leg] = []
        resting: list[_Leg] = []
        now = monotonic()
        for leg in legs:
            rest = self._resting.get(leg.position)
            (resting if rest is not None and rest.until > now else awake).append(leg)
        resting.sort(key=lambda leg: self._resting[leg.position].until)
        if awake:
            for leg in resting:
                rest = self._resting[leg.position]
                passed_over.append(Attempt(leg.name, f"not asked for {rest.until - now:.0f} s more: {rest.why}"))
        return _Route(self, [*awake, *resting], passed_over)

    def _switches(self, error: APIError) -> bool:
        if self._on is None:
            return not isinstance(error, BadRequestError)
        return isinstance(error, self._on)

    def _failed(self, leg: _Leg, error: APIError) -> None:
        seconds = getattr(error, "retry_after", None)
        until = monotonic() + (self._cooldown if seconds is None else seconds)
        self._resting[leg.position] = _Rest(until, f"{type(error).__name__}: {error.message}")

    def _answered(self, leg: _Leg) -> None:
        self._resting.pop(leg.position, None)


@dataclass(frozen=True, slots=True)
class _Rest:
    """Why a provider is not asked, and until when."""

    until: float
    why: str


@dataclass(frozen=True, slots=True)
class _Leg:
    """A provider's answer that may be asked for."""

    position: int
    name: str
    answer: Answering


class _Route:
    """The answer of the first leg that brings a chunk."""

    def __init__(self, fallback: Fallback, legs: Sequence[_Leg], passed_over: Sequence[Attempt]) -> None:
        self._fallback = fallback
        self._legs = legs
        self._attempts = list(passed_over)
        self._answer: Answering | None = None
        self._closed = False
        self.reply: Reply | None = None

    async def aclose(self) -> None:
        self._closed = True
        if self._answer is not None:
            await self._answer.aclose()

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        for leg in self._legs:
            if self._closed:
                return
            self._answer = leg.answer
            begun = False
            try:
                async with aclosing(leg.answer.batches()) as batches:
                    async for batch in batches:
                        if not begun:
                            begun = True
                            self._fallback._answered(leg)
                        if (reply := leg.answer.reply) is not None:
                            self.reply = replace(reply, attempts=(*self._attempts, *reply.attempts))
                        yield batch
                return
            except APIError as error:
                self._attempts += error.attempts
                if begun or not self._fallback._switches(error):
                    raise self._told(error)  # noqa: B904 - the same error, with the way that led to it
                self._fallback._failed(leg, error)
                if leg is self._legs[-1]:
                    raise self._told(error)  # noqa: B904
                self._attempts.append(Attempt(leg.name, error.message, type(error).__name__))

    def _told(self, error: APIError) -> APIError:
        error.attempts = tuple(self._attempts)
        return error
