"""What a model can do at its endpoint: written down for a whole endpoint, or for some of its models.

A quirk says how something is written for an endpoint. A capability says whether a feature is available. Undocumented
features are "unknown": the request is sent and the server decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

__all__ = [
    "CAPABILITIES",
    "Capabilities",
    "ModelCapabilities",
    "ModelFacts",
    "Support",
    "find_capabilities",
    "find_facts",
]

Support: TypeAlias = Literal["yes", "no", "unknown"]

_VENDOR = re.compile(r"^(?:[a-z-]+\.)+(?=[a-z])")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do at its endpoint.

    Attributes:
        tools: it accepts tools, and calls them.
        forced_choice: it can be forced to call a tool. If not, "auto" is sent, with a warning.
        images: it accepts images in messages.
        structured_output: the endpoint enforces a JSON schema on the answer. If not, the schema may be requested in
            another way (the quirk `response_format`), with a warning.
        reasoning: it reasons before it answers, so that `reasoning_effort` has a meaning.
        parallel_calls: it makes several calls in one turn.
        files: it accepts files in messages.
        audio: it accepts audio in messages.
    """

    tools: Support = "unknown"
    forced_choice: Support = "unknown"
    images: Support = "unknown"
    structured_output: Support = "unknown"
    reasoning: Support = "unknown"
    parallel_calls: Support = "unknown"
    files: Support = "unknown"
    audio: Support = "unknown"

    def of(self, name: str) -> Support:
        """Returns one capability by its name."""
        value: Support = getattr(self, name)
        return value


CAPABILITIES = tuple(field.name for field in fields(Capabilities))


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """Capabilities of the models whose names match a pattern. None leaves what earlier tables say.

    Attributes:
        pattern: of the model's name, with `*`, `?` and `[...]`, in capitals or not. A pattern with a slash is of the
            whole name; any other is of what follows the last slash, because resellers and engines put a vendor there,
            and the region and the vendor that Amazon Bedrock writes (`us.anthropic.`).
        examples: some models that it fits. Errors name them where another model is to be chosen.
        max_output_tokens: the most tokens that these models write in one answer.
        context_tokens: the most tokens that a conversation and its answer may have together.
        quirks: quirks of the adapter that differ for these models.
        prices: their prices, as in `Prices`.
    """

    pattern: str
    examples: tuple[str, ...] = ()
    tools: Support | None = None
    forced_choice: Support | None = None
    images: Support | None = None
    structured_output: Support | None = None
    reasoning: Support | None = None
    parallel_calls: Support | None = None
    files: Support | None = None
    audio: Support | None = None
    max_output_tokens: int | None = None
    context_tokens: int | None = None
    quirks: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, Any] = field(default_factory=dict)

    def fits(self, model: str) -> bool:
        """Whether the pattern is of this model.

        >>> ModelCapabilities("kimi-k2*").fits("moonshotai/Kimi-K2-Instruct")
        True
        >>> ModelCapabilities("claude-*").fits("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        True
        """
        name = model.lower() if "/" in self.pattern else _VENDOR.sub("", model.lower().rpartition("/")[2])
        return fnmatchcase(name, self.pattern.lower())

    def said(self) -> dict[str, Support]:
        """Returns the capabilities that the table sets."""
        values = {name: getattr(self, name) for name in CAPABILITIES}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about one model at its endpoint. None: unknown.

    Attributes:
        max_output_tokens: the most tokens that it writes in one answer.
        context_tokens: the most tokens that a conversation and its answer may have together.
        quirks: quirks of the adapter that differ for this model.
        prices: its prices, as in `Prices`.
    """

    max_output_tokens: int | None = None
    context_tokens: int | None = None
    quirks: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)


def find_facts(models: Iterable[ModelCapabilities], model: str) -> ModelFacts:
    """Returns the facts about a model. Of all tables that fit it, later ones win over earlier ones, key by key.

    >>> tables = [ModelCapabilities("*", context_tokens=8192), ModelCapabilities("big*", context_tokens=262144)]
    >>> find_facts(tables, "big-1").context_tokens
    262144
    """
    found = ModelFacts()
    for table in models:
        if table.fits(model):
            found = ModelFacts(
                found.max_output_tokens if table.max_output_tokens is None else table.max_output_tokens,
                found.context_tokens if table.context_tokens is None else table.context_tokens,
                {**found.quirks, **table.quirks},
                {**found.prices, **table.prices},
            )
    return found


def find_capabilities(endpoint: Capabilities, models: Iterable[ModelCapabilities], model: str) -> Capabilities:
    """Returns what is known about a model: the endpoint's table, overridden by each table that matches, in order.

    >>> models = [ModelCapabilities("gpt-4*", images="no"), ModelCapabilities("gpt-4o*", images="yes")]
    >>> find_capabilities(Capabilities(tools="yes"), models, "gpt-4o-mini").images
    'yes'
    """
    for table in models:
        if table.fits(model):
            endpoint = replace(endpoint, **table.said())
    return endpoint
