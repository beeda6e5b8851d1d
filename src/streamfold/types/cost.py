"""The cost of an answer. The cost is reported by the provider, or calculated from token counts and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date as Date
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from ..jsontext import amount, count_or_none, count_or_zero, str_or_none
from .usage import Usage

CostSource: TypeAlias = Literal["provider", "prices", "genai-prices"]
"""Where the cost comes from: the provider's response, configured prices, or the package `genai-prices`."""

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an answer. Two costs in the same currency can be added.

    Attributes:
        amount: the unrounded cost.
        currency: the currency code (ISO 4217).
        source: where the amount comes from. None for a sum of costs from different sources.
        date: the date of the price list, if known.
        estimated: True if streamfold assumed a price or a token count, or if the answer used a feature whose price
            isn't known.
        upstream: the part of `amount` that you pay directly to another provider, because OpenRouter used your own API
            key for that provider.
    """

    amount: Decimal
    currency: str = "USD"
    source: CostSource | None = None
    date: Date | None = None
    estimated: bool = False
    upstream: Decimal | None = None

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        if self.currency != other.currency:
            raise ValueError(f"{self.currency} and {other.currency} can't be added")
        return Cost(
            self.amount + other.amount,
            self.currency,
            self.source if self.source == other.source else None,
            self.date if self.date == other.date else None,
            self.estimated or other.estimated,
            _sum(self.upstream, other.upstream),
        )

    def __str__(self) -> str:
        return f"{'about ' if self.estimated else ''}{self.amount:f} {self.currency}"


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a model, in `currency` per million tokens. Unknown prices are None.

    Attributes:
        input: the price of input tokens that the provider neither reads from nor writes to the prompt cache.
        output: the price of output tokens, including reasoning tokens.
        cache_write_1h: the price of input tokens that Anthropic caches for an hour.
        request: the price per request.
        tiers: prices for long requests. Each tier is a dict, which applies to requests with more input tokens than its
            value `above`.
        reported: the path of the cost that the provider reports in its usage object, such as `"cost.total"`. A reported
            cost takes precedence over prices.
        reported_unit: the value of one unit of the reported cost, in `currency`.
        reported_upstream: the path, in the usage object, of the amount that another provider charges to your own API
            key. streamfold adds this amount to the reported cost if the field at the path `own_key` is true.
        own_key: the path, in the usage object, of the field that is true if the provider used your own API key for
            another provider.
        batch: the price factor for batch requests. 0.5 means half the price.
        source: the URL of the price list.
    """

    input: float | None = None
    output: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    request: float = 0.0
    tiers: tuple[Mapping[str, float], ...] = ()
    currency: str = "USD"
    reported: str | None = None
    reported_unit: float = 1.0
    reported_upstream: str | None = None
    own_key: str | None = None
    batch: float | None = None
    source: str | None = None
    date: Date | None = None

    def __post_init__(self) -> None:
        for name in (*_PRICES, "batch", "request", "reported_unit"):
            _check_price(name, getattr(self, name))
        for number, tier in enumerate(self.tiers):
            if "above" not in tier:
                raise ValueError(
                    f"tiers[{number}]: above is missing: set the number of input tokens above which the tier applies"
                )
            for name, value in tier.items():
                if name not in (*_PRICES, "above"):
                    raise ValueError(f"tiers[{number}]: unknown key {name!r}. Allowed: above, {', '.join(_PRICES)}")
                _check_price(f"tiers[{number}].{name}", value)

    def of(self, usage: Usage) -> Cost | None:
        """Returns the cost that the provider reports. If it reports none, returns the token counts multiplied by the
        prices. Returns None if the prices aren't known either."""
        if (said := _member(usage.raw, self.reported)) is not None:
            unit = _decimal(self.reported_unit)
            if _value(usage.raw, self.own_key) is not True:
                return Cost(_decimal(said) * unit, self.currency, "provider")
            more = _member(usage.raw, self.reported_upstream)
            upstream = None if more is None else _decimal(more) * unit
            total = _decimal(said) * unit + (upstream or 0)
            return Cost(total, self.currency, "provider", estimated=upstream is None, upstream=upstream)
        prices = self
        if tiers := [tier for tier in self.tiers if tier["above"] < (usage.input_tokens or 0)]:
            changed: Any = dict(max(tiers, key=lambda tier: tier["above"]))
            del changed["above"]
            prices = replace(self, tiers=(), **changed)
        if prices.input is None or prices.output is None or usage.input_tokens is None or usage.output_tokens is None:
            return None
        read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        hour = min(hour_writes(usage.raw), written)
        plain = max(usage.input_tokens - read - written, 0)
        parts = [
            (plain, prices.input, None),
            (read, prices.cached_input, prices.input),
            (written - hour, prices.cache_write, prices.input),
            (hour, prices.cache_write_1h, prices.cache_write if prices.cache_write is not None else prices.input),
            (usage.output_tokens, prices.output, None),
        ]
        amount, estimated = _decimal(self.request), _has_other_tokens(usage.raw) or has_unpriced_tools(usage)
        for tokens, price, assumed in parts:
            if tokens:
                estimated = estimated or price is None
                amount += tokens * _decimal(assumed if price is None else price) / _MILLION  # type: ignore[arg-type]
        estimated = estimated or has_other_models(usage.raw) or bool(self.tiers and unlisted_steps(usage.raw))
        return Cost(amount, self.currency, "prices", self.date, estimated)


_PRICES = ("input", "output", "cached_input", "cache_write", "cache_write_1h")


def _sum(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    return first if second is None else second if first is None else first + second


def _check_price(name: str, value: Any) -> None:
    if value is None and name in (*_PRICES, "batch"):
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{name}: must be a number, and not less than 0")


def _decimal(value: float | Decimal) -> Decimal:
    return Decimal(str(value))


def _value(raw: Mapping[str, Any], path: str | None) -> Any:
    value: Any = raw if path else None
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _member(raw: Mapping[str, Any], path: str | None) -> float | None:
    return amount(_value(raw, path))


_FREE_TOOLS = ("web_fetch",)  # https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-fetch-tool#pricing


def has_unpriced_tools(usage: Usage) -> bool:
    return any(count for name, count in usage.tools.items() if name not in _FREE_TOOLS)


def hour_writes(raw: Mapping[str, Any]) -> int:
    values = [_member(step, "cache_creation.ephemeral_1h_input_tokens") for step in unlisted_steps(raw) or [raw]]
    return int(sum(value for value in values if value is not None))


def unlisted_steps(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the usage of each step of an Anthropic response, or an empty list if the top-level token counts include
    all steps. Only compaction steps and advisor steps are missing from these counts.

    https://platform.claude.com/docs/en/build-with-claude/compaction#understanding-usage describes `iterations`.
    """
    found = raw.get("iterations")
    steps = [step for step in found if isinstance(step, Mapping)] if isinstance(found, list) else []
    return steps if any(step.get("type") != "message" for step in steps) else []


def priced_steps(usage: Usage) -> list[tuple[str | None, Usage]]:
    """Returns the model and the token counts of each step. The model is None if the step used the requested model."""
    found = []
    for step in unlisted_steps(usage.raw):
        read, written = (count_or_zero(step, f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
        plain, output = count_or_none(step, "input_tokens"), count_or_none(step, "output_tokens")
        whole = None if plain is None or read is None or written is None else plain + read + written
        found.append((str_or_none(step.get("model")), Usage(whole, output, None, read, None, written, raw=step)))
    return found


def has_other_models(raw: Mapping[str, Any]) -> bool:
    """Returns True if the steps used different models. Each step is then billed at the prices of its model."""
    return len({str_or_none(step.get("model")) for step in unlisted_steps(raw)}) > 1


def _has_other_tokens(raw: Mapping[str, Any]) -> bool:
    paths = [f"{kind}_tokens_details.audio_tokens" for kind in ("prompt", "completion", "input", "output")]
    return any(_member(raw, path) for path in paths)
