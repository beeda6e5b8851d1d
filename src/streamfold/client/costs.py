"""Computes what an answer costs from configured prices and `genai-prices`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

from ..config import Profile, prices_in, read_prices
from ..requests import ModelTable
from ..types import Cost, Prices, Reply, Usage, has_other_models, hour_writes, priced_steps
from ..urls import shown_url


@dataclass(frozen=True)
class ModelPrices:
    """The prices of one model at one endpoint, which all its answers share.

    Attributes:
        common: the prices of all models, as the configuration has them.
        tables: those of some models.
        url: the base URL, by which the package knows the provider.
        model: the model that was asked for.
    """

    common: Mapping[str, Any]
    tables: tuple[ModelTable, ...]
    url: str
    model: str

    @classmethod
    def of(cls, profile: Profile, model: str) -> ModelPrices:
        """Returns the prices of a model. Nothing else of the profile is kept: replies are stored, and it has a key."""
        return cls(profile.prices, profile.models, shown_url(profile.base_url), model)

    @cached_property
    def read(self) -> Prices:
        """The prices of the configuration, checked when somebody first asks."""
        return read_prices(prices_in(self.common, self.tables, self.model))

    @cached_property
    def assumed(self) -> bool:
        """Whether the prices are those of all models, and not known to be those of this one."""
        return not any(table.prices for table in self.tables if table.fits(self.model))

    def of_step(self, model: str | None) -> ModelPrices:
        """Returns the prices of a model that took part in an answer; None: the one that was asked for."""
        return self if model in (None, self.model) else replace(self, model=model)


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
        found = self.prices.read.of(reply.usage)
        if found is None or found.source != "provider":
            found = self._of_steps(reply) or found or self._by_package(reply.usage, self.prices, reply.model)
            if found is not None and self.batched:
                found = _in_batch(found, reply.usage, self.prices.read.batch)
        return replace(found, estimated=True) if found is not None and self.partial else found

    def _of_steps(self, reply: Reply) -> Cost | None:
        """Returns the sum of the steps of an answer, each at the prices of its own model.

        Returns:
            None if there are no steps, or if the prices of a model are not known.
        """
        usage = reply.usage or Usage()
        steps, total = priced_steps(usage), None
        replaced = not steps and any(part.kind == "fallback" for part in reply.hosted)
        for model, used in [(reply.model, usage)] if replaced else steps:
            prices = self.prices.of_step(model)
            one_request = prices.read if total is None else replace(prices.read, request=0.0)
            cost = one_request.of(used)
            if cost is None:
                cost = self._by_package(used, prices)
            elif prices.assumed and prices is not self.prices:
                cost = replace(cost, estimated=True)
            if cost is None or (total is not None and cost.currency != total.currency):
                return None
            total = cost if total is None else total + cost
        # Of a replaced model, the first one may have cost something.
        return replace(total, estimated=True) if total and replaced else total

    def _by_package(self, usage: Usage, prices: ModelPrices, served: str | None = None) -> Cost | None:
        if not _has_package():
            return None
        import genai_prices

        counts = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        for model in dict.fromkeys(filter(None, (served, prices.model))):
            try:
                found = genai_prices.calc_price(
                    counts, model, provider_api_url=prices.url, genai_request_timestamp=self.asked
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
