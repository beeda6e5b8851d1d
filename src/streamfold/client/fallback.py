"""Several models that replace each other, as one model."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from ..answers import (
    BaseChatModel,
    ChatModel,
    ChatParams,
    ChatStream,
    ModelInfo,
    forward_source,
    get_model_info,
)
from ..values import APIError, ConfigError
from .fallback_policy import Candidate, FallbackPolicy


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
