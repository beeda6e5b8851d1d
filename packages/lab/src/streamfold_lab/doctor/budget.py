"""Limits of an examination: requests, bytes, seconds and money; and the cost of its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self, TypeAlias

from streamfold import Cost, Provider, Usage
from streamfold.limits import text_tokens
from streamfold.types import Profile

from .values import ProbeResponse

Price: TypeAlias = Callable[[Usage], Cost | None]
"""Returns what an answer with these token counts costs; None if no price of the model is known."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_UNLIMITED = 1024  # output tokens that are assumed of a request without a limit


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits for the examination of one API. When one of them is used up, the remaining probes are skipped.

    Attributes:
        requests: the largest number of requests.
        bytes: of all responses together.
        seconds: from the first request on; the last request is cut there.
        cost: in the currency of the prices (US dollars, unless configured otherwise), where a price is known.
    """

    requests: int = 300
    bytes: int = 64 * 2**20
    seconds: float = 1800.0
    cost: Decimal = Decimal(1)


DEFAULT_BUDGET = Budget()


def prices_of(profile: Profile) -> Price:
    """Returns the price of the profile's model: as configured, or from the package `genai-prices`."""
    info = Provider(profile, turn_cache=False).facts().endpoints[0]
    return lambda usage: info.cost(usage)


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """A request as it is sent, and its size.

    Attributes:
        input_tokens: an estimate, from the length of the body.
        output_tokens: the most that the answer may have.
        cost: of both; None if no price of the model is known.
    """

    body: Mapping[str, Any] = field(repr=False)
    input_tokens: int
    output_tokens: int
    cost: Cost | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any], price: Price) -> Self:
        """Returns the size of a body."""
        read, written = text_tokens(json.dumps(body, ensure_ascii=False)), _output_limit(body)
        return cls(body, read, written, price(Usage(read, written, read + written)))


def _output_limit(body: Mapping[str, Any]) -> int:
    places = [body, *(part for part in (body.get("generationConfig"),) if isinstance(part, Mapping))]
    found = [part[name] for part in places for name in _LIMITS if isinstance(part.get(name), int)]
    return max(found, default=_UNLIMITED)


@dataclass(slots=True)
class Spending:
    """The requests, bytes, time and money used so far.

    Attributes:
        began: the time of the event loop at which it began.
        cost: by the server's token counts where it sent any, else by the size of the request.
    """

    began: float
    requests: int = 0
    bytes: int = 0
    cost: Decimal = Decimal(0)

    def add(self, written: WrittenRequest, seen: ProbeResponse, price: Price) -> None:
        """Adds what one response has used. A refused request costs nothing."""
        self.bytes += len(seen.recording.body) if seen.recording else 0
        if seen.refused or seen.recording is None:
            return
        usage = seen.reply.usage
        cost = price(usage) if usage else None
        cost = cost or written.cost
        self.cost += cost.amount if cost else 0

    def exceeds(self, budget: Budget, written: WrittenRequest, now: float) -> str:
        """Returns why a request can't be sent within the budget; empty if it can."""
        if self.requests >= budget.requests:
            return f"the budget of {budget.requests} requests is used up"
        if self.bytes >= budget.bytes:
            return f"the budget of {budget.bytes} bytes is used up"
        if now - self.began >= budget.seconds:
            return f"the budget of {budget.seconds:g} seconds is used up"
        if written.cost is not None and self.cost + written.cost.amount > budget.cost:
            left = budget.cost - self.cost
            return (
                f"the budget of {budget.cost} {written.cost.currency} has {left:f} left, less than a request may cost"
            )
        return ""
