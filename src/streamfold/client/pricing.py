"""What the answers of one model at one endpoint cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

from ..config import Profile, read_prices
from ..text import shown_url
from ..values import Cost, Prices, Reply, Usage, billed_output, has_other_models, hour_writes

__all__ = ["ModelPrices", "ProfilePricing"]


@dataclass(frozen=True)
class ModelPrices:
    """The prices of one model at one endpoint, which all its answers share.

    Attributes:
        table: as the configuration has them.
        url: the base URL, by which the package knows the provider.
        model: the model that was asked for.
    """

    table: Mapping[str, Any]
    url: str
    model: str

    @classmethod
    def of(cls, profile: Profile, model: str) -> ModelPrices:
        """Returns the prices of a model."""
        return cls(profile.prices_of(model), shown_url(profile.base_url), model)

    @cached_property
    def read(self) -> Prices:
        """The prices of the configuration, checked when somebody first asks."""
        return read_prices(self.table)


@dataclass(frozen=True, slots=True)
class ProfilePricing:
    """The prices of one model, by the configuration, and by the package `genai-prices` for what that lacks.

    Attributes:
        prices: the prices of the model.
        asked: when the answer was asked for.
        partial: whether the answer was cut, so that its token counts are not the last ones.
        batched: whether it came in a batch of the provider, which has prices of its own.
    """

    prices: ModelPrices
    asked: datetime
    partial: bool = False
    batched: bool = False

    @classmethod
    def of(cls, prices: ModelPrices) -> ProfilePricing:
        """Returns the pricing of an answer that is asked for now."""
        return cls(prices, datetime.now(UTC))

    @property
    def known(self) -> bool:
        """Whether the configuration or the package has prices of the model, or the provider says them."""
        return self.prices.read.reported is not None or self.cost(Reply(usage=Usage(1, 1, 2))) is not None

    def cost(self, reply: Reply) -> Cost | None:
        """Returns the cost of a reply, or None if it is not known."""
        if reply.usage is None:
            return None
        prices = self.prices.read
        found = prices.of(reply.usage) or self._by_package(reply.usage, reply.model)
        if found is not None and self.batched and found.source != "provider":
            found = _in_batch(found, reply.usage, prices.batch)
        return replace(found, estimated=True) if found is not None and self.partial else found

    def _by_package(self, usage: Usage, served: str | None) -> Cost | None:
        if not _has_package():
            return None
        import genai_prices

        counts = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=billed_output(usage),
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        for model in dict.fromkeys(filter(None, (served, self.prices.model))):
            try:
                found = genai_prices.calc_price(
                    counts, model, provider_api_url=self.prices.url, genai_request_timestamp=self.asked
                )
            except (LookupError, ValueError):  # it knows no such provider or model; the counts contradict each other
                continue
            # The package has one price for what is written to a cache, however long it is kept.
            estimated = hour_writes(usage.raw) > 0 or has_other_models(usage.raw)
            return Cost(Decimal(found.total_price), source="genai-prices", estimated=estimated)
        return None


@cache
def _has_package() -> bool:
    # To look for a package that is not there takes as long as all else that is done for the cost of an answer.
    try:
        return find_spec("genai_prices") is not None
    except ImportError:  # of a finder that somebody has installed
        return False


def _in_batch(cost: Cost, usage: Usage, share: float | None) -> Cost:
    """Returns what an answer costs in a batch. Whether cached input has the same share is not known everywhere."""
    assumed = share is None or bool(usage.cached_tokens or usage.cache_write_tokens)
    amount = cost.amount if share is None else cost.amount * Decimal(str(share))
    return replace(cost, amount=amount, estimated=cost.estimated or assumed)
