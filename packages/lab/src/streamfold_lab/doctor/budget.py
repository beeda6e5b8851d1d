"""Limits the requests, the bytes, the duration and the cost of a server test."""

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
"""Returns the cost of a response with these token counts, or None if the model has no known price."""

OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_UNLIMITED = 1024  # the assumed output tokens of a request without a limit


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits for the test of one API of a server. When a limit is reached, the test run skips the remaining probes.

    Attributes:
        requests: maximum number of requests.
        bytes: maximum size of all responses together.
        seconds: maximum duration of the test run. At the end of this time, a request in flight is aborted.
        cost: maximum cost, in the currency of the model's prices (US dollars by default). Without known prices, this
            limit has no effect.
    """

    requests: int = 300
    bytes: int = 64 * 2**20
    seconds: float = 1800.0
    cost: Decimal = Decimal(1)


DEFAULT_BUDGET = Budget()


def prices_of(profile: Profile) -> Price:
    """Returns a function that calculates the cost of a response from its token counts. The model's prices come from the
    configuration or from the package `genai-prices`.
    """
    return Provider(profile, turn_cache=False).facts().endpoints[0].cost


def request_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a request body, including the fields of Gemini's `generationConfig`."""
    settings = body.get("generationConfig")
    rest = {name: value for name, value in body.items() if name != "generationConfig"}
    return {**rest, **(settings if isinstance(settings, Mapping) else {})}


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """The JSON body of a probe's request, with estimates of its tokens and its cost.

    Attributes:
        input_tokens: the number of input tokens, estimated from the length of the body.
        output_tokens: the output token limit in the body; without one, an assumed limit.
        cost: the maximum cost of the request; None if the model's price is unknown.
    """

    body: Mapping[str, Any] = field(repr=False)
    input_tokens: int
    output_tokens: int
    cost: Cost | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any], price: Price) -> Self:
        """Estimates the tokens and the maximum cost of a request body."""
        limits = [value for value in map(request_fields(body).get, OUTPUT_LIMITS) if isinstance(value, int)]
        read, written = text_tokens(json.dumps(body, ensure_ascii=False)), max(limits, default=_UNLIMITED)
        return cls(body, read, written, price(Usage(read, written, read + written)))


@dataclass(slots=True)
class Spending:
    """The requests, bytes, time and cost that a test run has used so far.

    Attributes:
        began: when the test run started, by the clock of the event loop.
        cost: the cost, calculated from the server's token counts. If the server sent no token counts, the cost is
            estimated from the request.
    """

    began: float
    requests: int = 0
    bytes: int = 0
    cost: Decimal = Decimal(0)

    def add(self, written: WrittenRequest, seen: ProbeResponse, price: Price) -> None:
        """Adds the usage of one response to the totals. A request that the server rejected costs nothing."""
        self.bytes += len(seen.recording.body) if seen.recording else 0
        if seen.refused or seen.recording is None:
            return
        usage = seen.reply.usage
        cost = price(usage) if usage else None
        cost = cost or written.cost
        self.cost += cost.amount if cost else 0

    def exceeds(self, budget: Budget, written: WrittenRequest, now: float) -> str:
        """Returns a sentence about the limit that a request would exceed; empty if it would exceed none."""
        if self.requests >= budget.requests:
            return f"the budget of {budget.requests} requests is used up"
        if self.bytes >= budget.bytes:
            return f"the budget of {budget.bytes} bytes is used up"
        if now - self.began >= budget.seconds:
            return f"the budget of {budget.seconds:g} seconds is used up"
        if written.cost is not None and self.cost + written.cost.amount > budget.cost:
            left = budget.cost - self.cost
            return (
                f"only {left:f} of the budget of {budget.cost} {written.cost.currency} is left, and the"
                " next request may cost more"
            )
        return ""
