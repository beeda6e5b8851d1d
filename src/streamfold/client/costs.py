"""Computes an answer's cost from the configured prices, otherwise with the package `genai-prices`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

from ..config import Profile, prices_in, read_prices
from ..errors import ConfigError
from ..requests import ModelTable
from ..types import (
    Cost,
    Prices,
    Reply,
    Usage,
    has_other_models,
    has_unpriced_tools,
    hour_writes,
    priced_steps,
    total_cost,
)
from ..urls import shown_url


@dataclass(frozen=True)
class ModelPrices:
    """The prices of one model at one endpoint.

    Attributes:
        common: the configured prices for all models.
        tables: the `[[models]]` tables of the configuration, which may set prices for some models.
        url: the base URL, which identifies the provider in `genai-prices`.
        model: the requested model.
    """

    common: Mapping[str, Any]
    tables: tuple[ModelTable, ...]
    url: str
    model: str

    @classmethod
    def of(cls, profile: Profile, model: str) -> ModelPrices:
        # The result has no reference to the profile, because replies may be stored and the profile has an API key.
        return cls(profile.prices, profile.models, shown_url(profile.base_url), model)

    @cached_property
    def read(self) -> Prices:
        """The configured prices of this model. The prices are validated when this property is first read."""
        return read_prices(prices_in(self.common, self.tables, self.model))

    @cached_property
    def assumed(self) -> bool:
        """True if the configuration has prices for all models, but no specific prices for this model."""
        return not any(table.prices for table in self.tables if table.fits(self.model))

    @cached_property
    def known(self) -> bool:
        """True if costs can be computed: the configuration or `genai-prices` has the prices, or the provider's
        responses contain the cost.
        """
        return self.read.reported is not None or ProfilePricing.of(self).cost(Reply(usage=Usage(1, 1, 2))) is not None

    def check_budget(self, provider: str) -> None:
        if not self.known:
            what = f"the prices of {self.model or 'the model'} are unknown: set prices in the configuration"
            raise ConfigError(f"{provider}: max_cost_per_day: {what}")


@dataclass(frozen=True, slots=True)
class ProfilePricing:
    """Computes the cost of an answer from the configured prices, otherwise with the package `genai-prices`. A cost that
    the provider reports takes precedence.

    Attributes:
        prices: the prices of the model.
        asked: the time of the request. Some providers' prices depend on the time of day.
        partial: True if the answer broke off. The cost is then an estimate, because the token counts aren't final.
        batched: True if the answer came from the batch API, for which providers charge lower prices.
    """

    prices: ModelPrices
    asked: datetime
    partial: bool = False
    batched: bool = False

    @classmethod
    def of(cls, prices: ModelPrices, *, batched: bool = False) -> ProfilePricing:
        return cls(prices, datetime.now(UTC), batched=batched)

    def cost(self, reply: Reply) -> Cost | None:
        if reply.usage is None:
            return None
        if reply.usage.steps:  # each request is billed at its own prices, which may depend on its length
            return total_cost([replace(reply, usage=step, pricing=self) for step in reply.usage.steps])
        found = self.prices.read.of(reply.usage)
        if found is None or found.source != "provider":
            found = self._of_steps(reply) or found or self._by_package(reply.usage, self.prices, reply.model)
            if found is not None and self.batched:
                # The cost is an estimate if the discount on cached input is unknown.
                share = self.prices.read.batch
                assumed = share is None or bool(reply.usage.cached_tokens or reply.usage.cache_write_tokens)
                amount = found.amount if share is None else found.amount * Decimal(str(share))
                found = replace(found, amount=amount, estimated=found.estimated or assumed)
            if found is not None and has_unpriced_tools(reply.usage):
                found = replace(found, estimated=True)
        return replace(found, estimated=True) if found is not None and self.partial else found

    def _of_steps(self, reply: Reply) -> Cost | None:
        usage = reply.usage or Usage()
        steps, total = priced_steps(usage), None
        replaced = not steps and any(part.kind == "fallback" for part in reply.hosted)
        for model, used in [(reply.model, usage)] if replaced else steps:
            prices = self.prices if model in (None, self.prices.model) else replace(self.prices, model=model)
            one_request = prices.read if total is None else replace(prices.read, request=0.0)
            cost = one_request.of(used)
            if cost is None:
                cost = self._by_package(used, prices)
            elif prices.assumed and prices is not self.prices:
                cost = replace(cost, estimated=True)
            if cost is None or (total is not None and cost.currency != total.currency):
                return None
            total = cost if total is None else total + cost
        # If a model replaced another one, the first model may also have cost something.
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
            except (LookupError, ValueError):  # the provider or model is unknown; the counts contradict each other
                continue
            # The package has only one price for cache writes, whatever their lifetime.
            estimated = hour_writes(usage.raw) > 0 or has_other_models(usage.raw)
            return Cost(Decimal(found.total_price), source="genai-prices", estimated=estimated)
        return None


@cache
def _has_package() -> bool:
    try:
        return find_spec("genai_prices") is not None
    except ImportError:  # a custom module finder failed
        return False
