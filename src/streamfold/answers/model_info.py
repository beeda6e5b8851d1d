"""`ModelInfo`, which describes the endpoints to which a model sends requests: prices, limits, token counting and batch
APIs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..config import Profile
from ..requests import Request, TimeoutOptions
from ..types import Cost, Pricing, Reply, Timeouts, Usage
from .chat_model import ChatModel

if TYPE_CHECKING:
    from ..limits import RateLimiter

_ASSUMED_OUTPUT = 16_384  # assumed output tokens of an answer without a known limit


class DirectModel(ChatModel, Protocol):
    """A model that sends requests to one endpoint, without middleware that changes them. `Provider` is such a model."""

    @property
    def profile(self) -> Profile: ...

    @property
    def limiter(self) -> RateLimiter | None: ...

    def with_limiter(self, limiter: RateLimiter, *, patient: bool = True) -> Self:
        """Returns a copy of the model that uses the given limiter."""
        ...

    def batches(self) -> Any:
        """Returns the endpoint's batch API. Raises ConfigError if the endpoint has no batch API."""
        ...


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """An endpoint to which a model may send requests.

    Attributes:
        name: the provider's name.
        adapter: the name of the wire format for the configured model.
        url: the base URL, without secrets.
        model: the configured model, or None if each request names a model.
        problem: a description of what is missing in the configuration, or None if it is complete.
        apis: a function that returns the wire format for a model, or None if all models use the same wire format.
        prices: a function that returns the pricing of a model, or None if no prices are known.
        refused_members: fields of the request body that this endpoint refuses, although its API has them.
        extra_body: fields that the configuration adds to every request body.
        output_limits: a function that returns a model's maximum number of output tokens, and the limit that a request
            has by default. None means unknown.
    """

    name: str
    adapter: str
    url: str
    model: str | None
    problem: str | None = None
    apis: Callable[[str], str] | None = field(default=None, repr=False, compare=False)
    prices: Callable[[str], Pricing | None] | None = field(default=None, repr=False, compare=False)
    refused_members: tuple[str, ...] = field(default=(), repr=False, compare=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    output_limits: Callable[[str], tuple[int | None, int | None]] | None = field(
        default=None, repr=False, compare=False
    )

    def adapter_of(self, model: str | None) -> str:
        """Returns the name of the wire format for a model. None means the configured model."""
        return self.adapter if model is None or self.apis is None else self.apis(model)

    def cost(self, usage: Usage, model: str | None = None) -> Cost | None:
        """Returns the cost of the given numbers of tokens with a model, by default with the configured model. Returns
        None if streamfold can't know the cost before the answer.
        """
        pricing = self.prices(model or self.model or "") if self.prices else None
        return pricing.cost(Reply(usage=usage)) if pricing else None

    def priced(self, model: str | None = None) -> bool:
        """Returns True if streamfold will know the cost of an answer from the model."""
        return self.prices is not None and self.prices(model or self.model or "") is not None

    def max_output_tokens(self, allowed: int | None, model: str | None = None) -> int:
        """Returns the maximum number of tokens that an answer can have.

        Args:
            allowed: the output limit of the request, or None. If no limit is known, the result is 16,384 tokens.
        """
        most, default = self.output_limits(model or self.model or "") if self.output_limits else (None, None)
        wanted = allowed or default or _ASSUMED_OUTPUT
        return wanted if most is None else min(wanted, most)

    def __str__(self) -> str:
        return f"{self.name} {self.adapter} {self.url} {self.model or ''}".strip()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The endpoints that receive the requests of a `ChatModel`.

    Attributes:
        endpoints: the endpoints, in the order in which the model tries them.
        changed: True if your program's code, such as middleware, may change requests or answers.
        count: a function that counts the input tokens of a request, or None if the first endpoint can't count tokens.
        direct: the model that sends requests to the first endpoint without changes, or None.
    """

    endpoints: tuple[BackendInfo, ...]
    changed: bool = False
    count: Callable[[Request, Timeouts | TimeoutOptions | None], Awaitable[int]] | None = None
    direct: DirectModel | None = None

    def endpoint_models(self, model: str | None) -> Iterator[tuple[BackendInfo, str | None]]:
        """Yields each endpoint with the name of the model to request there, or with None for the endpoint's configured
        model.

        Args:
            model: the model that a request names. Only the first endpoint gets this model name.
        """
        for at, endpoint in enumerate(self.endpoints):
            yield endpoint, None if at else model

    def is_priced(self, model: str | None = None) -> bool:
        """Returns True if streamfold will know the cost of an answer from every endpoint that may answer."""
        return all(endpoint.priced(name) for endpoint, name in self.endpoint_models(model))


def get_model_info(model: ChatModel) -> ModelInfo | None:
    """Returns what `model.facts()` returns, or None if the model has no method `facts`."""
    facts = getattr(model, "facts", None)
    found: ModelInfo | None = facts() if callable(facts) else None
    return found
