"""The endpoints behind a model: prices, limits, token counts, batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from ..config import Profile
from ..limits import RateLimiter
from ..requests import Request, TimeoutOptions
from ..types import Cost, Pricing, Reply, Timeouts, Usage
from .chat_model import ChatModel

_ASSUMED_OUTPUT = 16_384  # tokens of an answer that is not limited


class DirectModel(ChatModel, Protocol):
    """A model whose requests reach its endpoint unchanged: see `Provider`."""

    @property
    def profile(self) -> Profile: ...

    @property
    def limiter(self) -> RateLimiter | None: ...

    def with_limiter(self, limiter: RateLimiter, *, patient: bool = True) -> Self:
        """Returns the same model with another limiter."""
        ...

    def batches(self) -> Any:
        """Returns the endpoint's batch API. Raises ConfigError if it has none."""
        ...


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """An endpoint that may answer.

    Attributes:
        name: of the provider.
        adapter: the name of its wire format, for its own model.
        url: its base URL, without secrets.
        model: its configured model; None if each request names one.
        problem: what its configuration lacks; None: nothing.
        apis: returns the name of the wire format for a model; None: it is the same for all.
        prices: returns the pricing of a model, or None if unknown.
        refused_members: members of a body that it refuses, though others of its wire format know them.
        extra_body: members that its configuration adds to every body.
        output_limits: returns the most tokens that a model writes, and the limit of requests that name none; None:
            unknown.
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
        """Returns the name of the wire format for a model; None: its own model."""
        return self.adapter if model is None or self.apis is None else self.apis(model)

    def cost(self, usage: Usage, model: str | None = None) -> Cost | None:
        """Returns the cost of tokens of a model, by default its own; None if unknown before the answer."""
        pricing = self.prices(model or self.model or "") if self.prices else None
        return pricing.cost(Reply(usage=usage)) if pricing else None

    def priced(self, model: str | None = None) -> bool:
        """Returns whether the cost of an answer will be known."""
        pricing = self.prices(model or self.model or "") if self.prices else None
        return pricing is not None

    def max_output_tokens(self, allowed: int | None, model: str | None = None) -> int:
        """Returns the most tokens that an answer may have.

        Args:
            allowed: the limit of the request, if it has one. Without any limit at most 16,384 are assumed.
        """
        most, default = self.output_limits(model or self.model or "") if self.output_limits else (None, None)
        wanted = allowed or default or _ASSUMED_OUTPUT
        return wanted if most is None else min(wanted, most)

    def __str__(self) -> str:
        return f"{self.name} {self.adapter} {self.url} {self.model or ''}".strip()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The endpoints behind a model.

    Attributes:
        endpoints: those that may answer, in the order in which they are tried.
        changed: whether a program's own code may change requests or answers on the way.
        count: counts the input tokens of a request; None if the first endpoint can't.
        direct: the model whose requests reach the first endpoint unchanged; None if there is none.
    """

    endpoints: tuple[BackendInfo, ...]
    changed: bool = False
    count: Callable[[Request, Timeouts | TimeoutOptions | None], Awaitable[int]] | None = None
    direct: DirectModel | None = None


def get_model_info(model: ChatModel) -> ModelInfo | None:
    """Returns the endpoints behind any model; None if it doesn't have `facts`."""
    facts = getattr(model, "facts", None)
    found: ModelInfo | None = facts() if callable(facts) else None
    return found
