"""`Fallback`: a chat model that tries several models in order. For some time after a failure, a model is skipped."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from time import monotonic
from typing import Self

from ..answers import (
    BaseChatModel,
    ChatModel,
    ChatParams,
    ChatStream,
    ChunkSource,
    ModelInfo,
    WrappedAnswer,
    check_model,
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
    UpstreamError,
)
from ..types import Attempt, StreamChunk
from .network_stream import resume_problem


@dataclass(slots=True)
class _CoolDown:
    until: float
    reason: str
    probes: int = 0


class FallbackPolicy:
    """Decides which model a fallback tries next. Remembers which models failed and how long they are skipped."""

    def __init__(self, on: Collection[type[APIError]] | None, cooldown: float) -> None:
        self._on = None if on is None else tuple(on)
        self._cooldown = cooldown
        self._cooling_down: dict[int, _CoolDown] = {}  # by the position of the model

    def skip_reason(self, position: int) -> str | None:
        """Returns the reason why the model at this position is skipped now, or None if it isn't skipped."""
        cooldown = self._cooling_down.get(position)
        if cooldown is None:
            return None
        seconds = cooldown.until - monotonic()
        if seconds > 0:
            return f"skipped for {seconds:.0f} s more: {cooldown.reason}"
        return f"skipped while another request tests this model: {cooldown.reason}" if cooldown.probes else None

    def back_at(self, position: int) -> float:
        return self._cooling_down[position].until

    def is_probed(self, position: int) -> bool:
        """Returns True if another request is testing the model at this position after a failure."""
        cooldown = self._cooling_down.get(position)
        return cooldown is not None and cooldown.probes > 0

    @contextmanager
    def probing(self, position: int) -> Iterator[None]:
        """Encloses a request to the model at this position.

        If the model has failed before, other requests skip it until the `with` block ends.
        """
        cooldown = self._cooling_down.get(position)
        if cooldown is not None:
            cooldown.probes += 1
        try:
            yield
        finally:
            if cooldown is not None:
                cooldown.probes -= 1

    def mark_healthy(self, position: int) -> None:
        self._cooling_down.pop(position, None)

    def start_cooldown(self, position: int, error: APIError) -> None:
        until = monotonic() + (self._cooldown if error.retry_after is None else error.retry_after)
        self._cooling_down[position] = _CoolDown(until, f"{type(error).__name__}: {error.message}")

    def switches(self, error: APIError) -> bool:
        """Returns True if the fallback tries the next model after this error."""
        if self._on is not None:
            return isinstance(error, self._on)
        if isinstance(error, ContextLengthError):  # another model may have a larger window
            return True
        return not isinstance(error, BadRequestError | ContentFilterError | UnsupportedOptionError)


class _FallbackAnswer(WrappedAnswer):
    """Streams the answer of the first model that delivers a chunk.

    Args:
        continue_text: True if another model may continue the text of an answer that broke off.

    Raises:
        ConfigError: no model supports the request. If every model lacks an API key or another setting, the error is a
            NotConfiguredError.
    """

    def __init__(
        self, policy: FallbackPolicy, models: Sequence[ChatModel], params: ChatParams, *, continue_text: bool = False
    ) -> None:
        self._policy = policy
        self._continue_text = continue_text
        self._models = models
        self._params = replace(params, fail_fast=True)
        self._attempts: list[Attempt] = []
        self._too_long: list[int] = []  # the context window must have these sizes: smaller ones didn't suffice
        self._problems: list[ConfigError] = []
        self._broken: APIError | None = None  # the error after which another model continues the text
        positions = range(len(models))
        self._healthy = deque(position for position in positions if policy.skip_reason(position) is None)
        skipped = [position for position in positions if position not in self._healthy]
        self._cooling_down = deque(sorted(skipped, key=policy.back_at))  # tried when all others have failed
        self._position, source = self._choose()
        super().__init__(source)
        if policy.skip_reason(self._position) is None:
            self._attempts += [self._skipped(position) for position in skipped]

    async def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        # Another request may have begun to test the chosen model.
        if (self._healthy or self._cooling_down) and self._policy.is_probed(self._position):
            self._attempts.append(self._skipped(self._position))
            self._cooling_down.append(self._position)
            self._position, self._source = self._choose()
        while not self._closed:
            position, begun, hosted = self._position, False, False
            try:
                with self._policy.probing(position):
                    async with self._opened(call_deltas) as batches:
                        async for batch in batches:
                            if not begun:
                                begun = True
                                self._policy.mark_healthy(position)
                            if (reply := self._source.reply) is not None:
                                self.reply = replace(reply, attempts=(*self._attempts, *reply.attempts))
                            hosted = hosted or any(chunk.hosted for chunk in batch)
                            yield batch
                return
            except APIError as error:
                self._attempts += error.attempts
                failed = error.retryable or isinstance(error, UpstreamError)  # not an error of streamfold's own limits
                may_continue = self._continue_text and failed and not hosted and not self._closed
                may_switch = not begun or (may_continue and resume_problem(error) is None)
                if not may_switch or not self._switch(error, continues=begun):
                    error.attempts = tuple(self._attempts)
                    raise
            except NotConfiguredError as problem:  # credentials are looked up when the request is sent
                self._skip(position, problem)
                try:
                    self._position, self._source = self._choose()
                except ConfigError:
                    if self._broken is None:
                        raise
                    self._broken.attempts = tuple(self._attempts)
                    raise self._broken from None

    def _switch(self, error: APIError, *, continues: bool) -> bool:
        if not self._policy.switches(error):
            return False
        if isinstance(error, ContextLengthError):  # the next request may be shorter
            small = error.limit or self._source.context_window
            self._too_long += [size for size in (small and small + 1, error.tokens) if size]
        else:
            self._policy.start_cooldown(self._position, error)
        name, place = self._models[self._position].name, len(self._attempts)
        begun = error.partial if continues else None
        text_end = None if begun is None else len(begun.text)
        self._attempts.append(Attempt(name, error.message, type(error).__name__, text_end=text_end))
        if begun is not None:
            self._params, self._broken = replace(self._params, begun=begun), error
        try:
            self._position, self._source = self._choose()
        except ConfigError:  # no other model supports the request: this error is raised, not listed as an attempt
            del self._attempts[place]
            return False
        return True

    def _choose(self) -> tuple[int, ChunkSource]:
        while self._healthy or self._cooling_down:
            if self._healthy:
                position = self._healthy.popleft()
                if self._policy.skip_reason(position) is not None:  # the model has failed since this request began
                    self._attempts.append(self._skipped(position))
                    self._cooling_down.append(position)
                    continue
            else:
                position = self._cooling_down.popleft()
            try:
                self._check_conversation(position)
                source = forward_source(self._models[position], self._params)
            except ConfigError as exc:
                self._skip(position, exc)
                continue
            window = source.context_window
            if window is None or all(size <= window for size in self._too_long):
                return position, source
            self._skip(
                position, ConfigError(f"the prompt is too long for the model's context window of {window} tokens")
            )
        unset = all(isinstance(problem, NotConfiguredError) for problem in self._problems)
        raise (NotConfiguredError if unset else ConfigError)("; ".join(map(str, self._problems)))

    def _check_conversation(self, position: int) -> None:
        # An id from a provider is only valid for the first model.
        conversation = self._params.conversation
        if conversation is None or conversation.after is None or conversation.account is not None:
            return
        if position > 0:
            raise ConfigError(
                f"only the first model can continue the conversation {conversation.after!r}: pass all messages"
            )

    def _skip(self, position: int, problem: ConfigError) -> None:
        self._attempts.append(Attempt(self._models[position].name, str(problem)))
        self._problems.append(problem)

    def _skipped(self, position: int) -> Attempt:
        return Attempt(self._models[position].name, self._policy.skip_reason(position) or "not asked")


class Fallback(BaseChatModel):
    """A chat model that tries several models in order until one of them delivers its first chunk.

        model = Fallback(Provider.from_config("kimi:kimi-k2.6"), Provider.from_config("openai:gpt-6-luna"))

    `Fallback` skips a model that doesn't support the request or whose API key is missing. For `cooldown` seconds after
    a failure, it skips the failed model, unless all other models fail too. After the cooldown, one request tests
    whether the model works again. If a model fails after its first chunk, no other model is tried. The error contains
    the partial answer. `reply.attempts` and `error.attempts` list the failed and skipped models and the reason for
    each.

    With `continue_text`, the next model continues the text of an answer that broke off, unless a tool call had begun.
    Models that can't continue a text (see `ChatQuirks.continues`) are skipped. `reply.text` then contains the text of
    all models, and `reply.usage` only the token counts of the last model. `Attempt.text_end` is the position in
    `reply.text` at which a failed model's text ends.

    Each provider has its own retries, timeouts and connections. The key `fallback` in a provider's configuration
    creates a fallback without code.

    Args:
        models: the providers or other models, the preferred model first. `aclose` closes all models.
        on: the errors after which the next model is tried. Default: all errors except `BadRequestError` (the request is
            invalid) and `ContentFilterError`. After a `ContextLengthError`, models with a smaller or equal context
            window are skipped.
        cooldown: the number of seconds for which a failed model is skipped. If the server sent `Retry-After`, that time
            is used instead.

        continue_text: True to let the next model continue a text that broke off. If False, `Fallback` raises the first
            model's error.

    Attributes:
        models: the models in the order in which they are tried.

    Raises:
        ConfigError: no model was passed, or an argument isn't a model.
    """

    continues_text = True

    def __init__(
        self,
        *models: ChatModel,
        on: Collection[type[APIError]] | None = None,
        cooldown: float = 30.0,
        continue_text: bool = False,
    ) -> None:
        if not models:
            raise ConfigError("Fallback() needs at least one model")
        for model in models:
            check_model(model, "Fallback()")
        self.models = models
        self._policy = FallbackPolicy(on, cooldown)
        self._continue_text = continue_text

    @property
    def name(self) -> str:
        """The name of the first model, for errors and logs."""
        return self.models[0].name

    def facts(self) -> ModelInfo | None:
        """Returns the endpoints of all models in this fallback, or None if no model reports its endpoints."""
        found = [get_model_info(model) for model in self.models]
        known = [facts for facts in found if facts is not None]
        if not known:
            return None
        endpoints = tuple(each for facts in known for each in facts.endpoints)
        changed = len(known) < len(found) or any(facts.changed for facts in known)
        return ModelInfo(endpoints, changed, found[0].count if found[0] is not None else None)

    def _with_first(self, model: ChatModel) -> Self:
        other = copy(self)
        other.models = (model, *self.models[1:])
        return other

    def _stream(self, arguments: ChatParams) -> ChatStream:
        answer = _FallbackAnswer(self._policy, self.models, arguments, continue_text=self._continue_text)
        return ChatStream(answer, yields_call_deltas=arguments.partial_tool_calls)

    async def aclose(self) -> None:
        """Closes all models."""
        async with AsyncExitStack() as stack:
            for model in self.models:
                stack.push_async_callback(model.aclose)

    def __repr__(self) -> str:
        return f"<Fallback {', '.join(map(repr, self.models))}>"
