"""What stands behind a model: the endpoints that may answer, and what they offer beside answers."""

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
    """A model whose requests reach its endpoint as they are asked: it can wait for a limiter, and hand over batches."""

    @property
    def profile(self) -> Profile:
        """The configuration."""
        ...

    @property
    def limiter(self) -> RateLimiter | None:
        """What requests wait for. Raises ConfigError if the key or the store is missing."""
        ...

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
        model: the model that is asked there; None if each request names one.
        problem: what its configuration lacks; None: nothing.
        apis: returns the name of the wire format on which a model is asked; None: it is the same for all.
        prices: returns what finds out what an answer of a model costs there, or None if nothing can.
        refused_members: members of a body that it refuses, though others of its wire format know them.
        extra_body: members that its configuration adds to every body.
        output_limits: returns how many tokens a model writes at most, and how many are allowed where a request doesn't
            say; None: unknown.
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
        """Returns the name of the wire format on which a model is asked; None: its own model."""
        return self.adapter if model is None or self.apis is None else self.apis(model)

    def cost(self, usage: Usage, model: str | None = None) -> Cost | None:
        """Returns what so many tokens of a model cost, by default its own; None if that is not known before."""
        pricing = self.prices(model or self.model or "") if self.prices else None
        return pricing.cost(Reply(usage=usage)) if pricing else None

    def priced(self, model: str | None = None) -> bool:
        """Whether it is known what an answer of a model costs when it is there."""
        pricing = self.prices(model or self.model or "") if self.prices else None
        return pricing is not None

    def max_output_tokens(self, allowed: int | None, model: str | None = None) -> int:
        """Returns the most tokens that an answer may have.

        Args:
            allowed: as the request says; None: it doesn't. Then it is the smaller of what the model writes at most and
                16,384.
        """
        most, default = self.output_limits(model or self.model or "") if self.output_limits else (None, None)
        wanted = allowed or default or _ASSUMED_OUTPUT
        return wanted if most is None else min(wanted, most)

    def __str__(self) -> str:
        return f"{self.name} {self.adapter} {self.url} {self.model or ''}".strip()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What stands behind a model.

    Attributes:
        endpoints: those that may answer, in the order in which they are asked.
        changed: whether a program's own code may change requests or answers on the way.
        count: counts the input tokens of a request; None where nobody can.
        direct: the model whose requests reach the first endpoint as they are; None if there is none.
    """

    endpoints: tuple[BackendInfo, ...]
    changed: bool = False
    count: Callable[[Request, Timeouts | TimeoutOptions | None], Awaitable[int]] | None = None
    direct: DirectModel | None = None


def get_model_info(model: ChatModel) -> ModelInfo | None:
    """Returns what stands behind any model; None if it does not say."""
    facts = getattr(model, "facts", None)
    found: ModelInfo | None = facts() if callable(facts) else None
    return found
