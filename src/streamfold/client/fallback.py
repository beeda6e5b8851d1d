"""`Fallback`: several models as one, with cooldown and probes."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

from ..answers import (
    BaseChatModel,
    ChatModel,
    ChatParams,
    ChatStream,
    ChunkSource,
    ModelInfo,
    WrappedAnswer,
    context_window,
    forward_source,
    get_model_info,
)
from ..errors import (
    APIError,
    BadRequestError,
    ConfigError,
    ContentFilterError,
    ContextLengthError,
    NotConfiguredError,
    UnsupportedOptionError,
)
from ..types import Attempt, StreamChunk


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may answer a request.

    Attributes:
        open: prepares the request for this model, without sending it. Raises ConfigError if the model can't take it.
    """

    name: str
    open: Callable[[], ChunkSource]


@dataclass(slots=True)
class _CoolDown:
    """Why a model is not asked, until when, and how many requests test whether it is back."""

    until: float
    reason: str
    tests: int = 0


class FallbackPolicy:
    """Remembers which models failed, and answers requests with the first model that can.

    Args:
        on: the errors after which the next model is asked. Default: all but those that say that the request itself is
            wrong (`BadRequestError`), or that a filter stopped it; but a prompt that is too long goes on.
        cooldown: seconds for which a model that failed is not asked, if its server did not say how long. After that one
            request tests it; the others go on to the next model until it has answered.
    """

    def __init__(self, *, on: Collection[type[APIError]] | None = None, cooldown: float = 30.0) -> None:
        self._on = None if on is None else tuple(on)
        self._cooldown = cooldown
        self._resting: dict[int, _CoolDown] = {}  # by the position of the candidate

    def answer(self, candidates: Sequence[Candidate]) -> ChunkSource:
        """Returns the answer of the first candidate that brings a chunk. Nothing is sent yet.

        Raises:
            ConfigError: no candidate can take the request. It is a NotConfiguredError if all of them lack settings.
        """
        return _FailoverAnswer(self, candidates)

    def resting(self, position: int) -> str | None:
        """Returns why a candidate is not to be asked now, or None."""
        rest = self._resting.get(position)
        if rest is None:
            return None
        seconds = rest.until - monotonic()
        if seconds > 0:
            return f"not asked for {seconds:.0f} s more: {rest.reason}"
        return f"not asked while another request tests it: {rest.reason}" if rest.tests else None

    def back_at(self, position: int) -> float:
        """Returns when the rest of a resting candidate ends."""
        return self._resting[position].until

    def tested(self, position: int) -> bool:
        """Whether another request tests a candidate whose rest is over."""
        rest = self._resting.get(position)
        return rest is not None and rest.tests > 0

    @contextmanager
    def asking(self, position: int) -> Iterator[None]:
        """While a candidate is asked. If it was resting, this request tests it."""
        rest = self._resting.get(position)
        if rest is not None:
            rest.tests += 1
        try:
            yield
        finally:
            if rest is not None:
                rest.tests -= 1

    def answered(self, position: int) -> None:
        """Notes that a candidate answered: it is back."""
        self._resting.pop(position, None)

    def failed(self, position: int, error: APIError) -> None:
        """Notes that a candidate failed: it rests for a while."""
        seconds = getattr(error, "retry_after", None)
        until = monotonic() + (self._cooldown if seconds is None else seconds)
        self._resting[position] = _CoolDown(until, f"{type(error).__name__}: {error.message}")

    def switches(self, error: APIError) -> bool:
        """Whether the next candidate is asked after this error."""
        if self._on is not None:
            return isinstance(error, self._on)
        if isinstance(error, ContextLengthError):  # another model may have a larger window
            return True
        return not isinstance(error, BadRequestError | ContentFilterError | UnsupportedOptionError)


class _FailoverAnswer(WrappedAnswer):
    """The answer of the first candidate that brings a chunk."""

    def __init__(self, failover: FallbackPolicy, candidates: Sequence[Candidate]) -> None:
        self._failover = failover
        self._candidates = candidates
        self._attempts: list[Attempt] = []
        self._too_long: list[int] = []  # how many tokens a window must have, after others were too small
        self._problems: list[ConfigError] = []
        places = range(len(candidates))
        self._awake = deque(position for position in places if failover.resting(position) is None)
        resting = [position for position in places if position not in self._awake]
        self._resting = deque(sorted(resting, key=failover.back_at))  # asked when all others failed
        self._position, source = self._choose()
        super().__init__(source)
        if self._failover.resting(self._position) is None:
            self._attempts += [self._skipped(position) for position in resting]

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        self._make_way()
        while not self._closed:
            position, begun = self._position, False
            try:
                with self._failover.asking(position):
                    async with self._opened() as batches:
                        async for batch in batches:
                            if not begun:
                                begun = True
                                self._failover.answered(position)
                            if (reply := self._source.reply) is not None:
                                self.reply = replace(reply, attempts=(*self._attempts, *reply.attempts))
                            yield batch
                return
            except APIError as error:
                self._attempts += error.attempts
                if begun or not self._goes_on(error):
                    error.attempts = tuple(self._attempts)
                    raise
            except NotConfiguredError as problem:  # credentials are looked up when the request is sent
                self._pass_over(position, problem)
                self._position, self._source = self._choose()

    def _make_way(self) -> None:
        """Leaves the chosen candidate to another request that has begun to test it since it was chosen."""
        if (self._awake or self._resting) and self._failover.tested(self._position):
            self._attempts.append(self._skipped(self._position))
            self._resting.append(self._position)
            self._position, self._source = self._choose()

    def _goes_on(self, error: APIError) -> bool:
        """Chooses the next candidate after an error; False if there is none, or none may be asked."""
        if not self._failover.switches(error):
            return False
        if isinstance(error, ContextLengthError):  # which says nothing about the next request
            small = error.limit or context_window(self._source)
            self._too_long += [size for size in (small and small + 1, error.tokens) if size]
        else:
            self._failover.failed(self._position, error)
        name, place = self._candidates[self._position].name, len(self._attempts)
        self._attempts.append(Attempt(name, error.message, type(error).__name__))
        try:
            self._position, self._source = self._choose()
        except ConfigError:  # the others can't take the request: this error is the outcome, and no attempt before it
            del self._attempts[place]
            return False
        return True

    def _choose(self) -> tuple[int, ChunkSource]:
        """Takes the next candidate that can take the request. Raises ConfigError if there is none."""
        while self._awake or self._resting:
            if self._awake:
                position = self._awake.popleft()
                if self._failover.resting(position) is not None:  # since this request began
                    self._attempts.append(self._skipped(position))
                    self._resting.append(position)
                    continue
            else:
                position = self._resting.popleft()
            try:
                source = self._candidates[position].open()
            except ConfigError as exc:
                self._pass_over(position, exc)
                continue
            window = context_window(source)
            if window is None or all(size <= window for size in self._too_long):
                return position, source
            self._pass_over(position, ConfigError(f"the prompt was too long, and its window is {window} tokens"))
        raise _joined(self._problems)

    def _pass_over(self, position: int, problem: ConfigError) -> None:
        """Notes that a candidate can't take the request."""
        self._attempts.append(Attempt(self._candidates[position].name, str(problem)))
        self._problems.append(problem)

    def _skipped(self, position: int) -> Attempt:
        return Attempt(self._candidates[position].name, self._failover.resting(position) or "not asked")


def _joined(problems: Sequence[ConfigError]) -> ConfigError:
    """One error for those of several models: a NotConfiguredError if all of them are."""
    unset = all(isinstance(problem, NotConfiguredError) for problem in problems)
    return (NotConfiguredError if unset else ConfigError)("; ".join(map(str, problems)))


class Fallback(BaseChatModel):
    """Asks the first model that can answer, and the next ones, in their order, while nothing of an answer has arrived.

        model = Fallback(Provider.from_config("kimi:kimi-k2.6"), Provider.from_config("openai:gpt-5-mini"))

    A model that can't take a request (no such tool choice, no images, no key) is passed over. One that failed is passed
    over for a while, unless all the others fail too; then one request tests it before the others use it again. After
    the first chunk no other model is asked: the error has the partial answer. `reply.attempts` and the `attempts` of an
    error list the models that were asked before or passed over, and why.

    Each provider keeps its own retries, timeouts and connections. A provider whose configuration has the key `fallback`
    does the same by itself.

    Args:
        models: providers, or any other models, the preferred one first. `aclose` closes them.
        on: the errors after which the next model is asked. Default: all but `BadRequestError`, which says that the
            request itself is wrong, and `ContentFilterError`; but a `ContextLengthError` goes on, for the next model
            may have a larger window.
        cooldown: seconds for which a model that failed is passed over, if its server did not say how long.

    Attributes:
        models: the models.

    Raises:
        ConfigError: no model was given.
    """

    def __init__(
        self, *models: ChatModel, on: Collection[type[APIError]] | None = None, cooldown: float = 30.0
    ) -> None:
        if not models:
            raise ConfigError("Fallback() needs at least one model")
        self.models = models
        self._failover = FallbackPolicy(on=on, cooldown=cooldown)

    @property
    def name(self) -> str:
        """The name of the first model."""
        return self.models[0].name

    def facts(self) -> ModelInfo | None:
        """Returns what stands behind the models, as far as it is known."""
        known = [facts for model in self.models if (facts := get_model_info(model)) is not None]
        if not known:
            return None
        first, endpoints = get_model_info(self.models[0]), tuple(each for facts in known for each in facts.endpoints)
        count = first.count if first else None
        return ModelInfo(endpoints, len(known) < len(self.models) or any(facts.changed for facts in known), count)

    def _stream(self, arguments: ChatParams) -> ChatStream:
        answer = self._failover.answer(candidates(self.models, arguments))
        return ChatStream(answer, yields_call_deltas=arguments.partial_tool_calls)

    async def aclose(self) -> None:
        """Closes all of the models."""
        async with AsyncExitStack() as stack:
            for model in self.models:
                stack.push_async_callback(model.aclose)

    def __repr__(self) -> str:
        return f"<Fallback {', '.join(map(repr, self.models))}>"


def candidates(models: Iterable[ChatModel], arguments: ChatParams) -> list[Candidate]:
    """Returns the models as candidates for a request."""
    fast = replace(arguments, fail_fast=True)
    return [Candidate(model.name, partial(forward_source, model, fast)) for model in models]
