"""Facts about models, by model family and by endpoint, such as capabilities and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from .options import ReasoningEffort

# Capabilities: what a model can do at an endpoint. A quirk says how a request to an endpoint is written, and a
# capability says whether a feature is available. If that is unknown, streamfold sends the request to find out.

Support: TypeAlias = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features that a model supports at an endpoint. Each attribute is "yes", "no" or "unknown".

    Attributes:
        tools: whether the model can call tools.
        forced_choice: whether a request can force the model to call a tool. With "no", streamfold sends the tool choice
            "auto" instead, with a warning.
        images: whether the model accepts images in messages.
        structured_output: whether the endpoint makes the model follow a JSON schema. With "no", the quirk
            `response_format` can select another way to request JSON, with a warning.
        reasoning: whether the model reasons before it answers. With "no", `reasoning_effort` has no effect.
        parallel_calls: whether the model can make several tool calls in one turn.
        files: whether the model accepts files in messages.
        audio: whether the model accepts audio in messages.
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
        """Returns the support ("yes", "no" or "unknown") for the capability with this name."""
        value: Support = getattr(self, name)
        return value


CAPABILITIES = tuple(field.name for field in fields(Capabilities))


# Families: facts about a model that are the same at all endpoints, such as its effort levels. The facts are in
# `providers/families.toml`, which `config/model_facts.py` reads. If a fact is unknown, streamfold sends the option.

_VENDOR = re.compile(r"^(?:databricks-|(?:[a-z-]+\.)+)(?=[a-z])")  # `us.anthropic.`, as Amazon Bedrock writes
_CLAUDE_DOTS = re.compile(r"(?<=\d)\.(?=\d)")

Thinking: TypeAlias = Literal["never", "asked", "default", "always"]

EFFORTS: tuple[ReasoningEffort, ...] = get_args(ReasoningEffort)
"""All levels of reasoning effort, from the lowest to the highest."""


def bare_name(model: str) -> str:
    """Returns a model's name without vendor, region and path. The result can be compared with `Family.prefix`.

    >>> bare_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), bare_name("anthropic/claude-opus-4.6")
    ('claude-sonnet-4-5-20250929-v1:0', 'claude-opus-4-6')
    >>> bare_name("databricks-claude-sonnet-4-5"), bare_name("system.ai.gpt-5-mini")
    ('claude-sonnet-4-5', 'gpt-5-mini')
    >>> bare_name("moonshotai/Kimi-K2.6"), bare_name("ft:gpt-4o-mini:org::id"), bare_name("claude-opus-4@20250514")
    ('kimi-k2.6', 'gpt-4o-mini:org::id', 'claude-opus-4-20250514')
    """
    name = _VENDOR.sub("", model.lower().rpartition("/")[2].removeprefix("ft:")).replace("@", "-")
    return _CLAUDE_DOTS.sub("-", name) if name.startswith("claude") else name


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Facts about a model. An attribute is None if the fact isn't known.

    Attributes:
        thinking: when the model thinks: "never", "asked" (only if the request enables thinking), "default" (unless the
            request disables thinking) or "always".
        efforts: the reasoning effort levels that the model supports, from the lowest to the highest. An empty tuple
            means that requests can only turn thinking on or off.
        efforts_on_chat: the effort levels on Chat Completions, if they differ from `efforts`.
        default_effort: the effort level that the model uses if a request has no `reasoning_effort`.
        budget: the minimum and maximum number of thinking tokens, for models with a budget instead of effort levels.
        none_as: the fallback for `reasoning_effort="none"` if thinking can't be turned off completely. With
            "between_tools", the model then thinks only between tool calls.
        sampling: whether the model accepts `temperature` and `top_p`. With "default", the model accepts only the value
            1. With "one_of", a request may contain only one of the two options. With "ignored", the options have no
            effect.
        samples_while_thinking: whether `temperature` and `top_p` have an effect while the model thinks.
        temperature_max: the maximum temperature.
        stop: whether the model accepts stop texts.
        apis: the names of the APIs that serve the model. None if all APIs of the model's maker serve it.
        tools_on_chat: whether the model accepts tools on Chat Completions. With "effort_none", it accepts them only if
            the request turns thinking off.
        background_tools: whether the model can continue while a tool runs; see `Tool.background`.
        reasoning_back: the earlier turns whose reasoning a request must contain. With "loop", these are the turns since
            the last user message. With "all", these are all turns. With "required", every turn must have a reasoning
            field, which may be empty.
        keep: fields of the request body that make the server use the reasoning of earlier turns. A dot in a name
            separates nested fields.
        binds_thinking: whether the provider refuses a request that contains thinking if an earlier message has changed.
            With "new_accounts", the provider refuses such requests only from newer accounts.
        tool_references: whether the model understands `$ref` in a tool's schema. With "no", streamfold replaces each
            reference with its target.
        history: additional rules for conversations with this model. The keys are attributes of `HistoryRules`.
        max_output_tokens: the maximum number of output tokens.
        whole_output_tokens: the maximum number of output tokens in a response that isn't streamed, if this number is
            lower than `max_output_tokens`.
        context_tokens: the size of the context window (for the conversation and the answer together), in tokens.
        retires: the date on which the model's maker switches the model off on its own platforms.
        retires_earliest: True if `retires` is only the earliest possible retirement date.
        tools, forced_choice, parallel_calls, images, files, audio, structured_output: see `Capabilities`.
    """

    thinking: Thinking | None = None
    efforts: tuple[ReasoningEffort, ...] | None = None
    efforts_on_chat: tuple[ReasoningEffort, ...] | None = None
    default_effort: ReasoningEffort | None = None
    budget: tuple[int, int] | None = None
    none_as: Literal["between_tools"] | None = None
    sampling: Literal["yes", "no", "default", "one_of", "ignored"] | None = None
    samples_while_thinking: bool | None = None
    temperature_max: float | None = None
    stop: Literal["yes", "no"] | None = None
    apis: tuple[str, ...] | None = None
    tools_on_chat: Literal["yes", "effort_none", "no"] | None = None
    background_tools: Literal["yes"] | None = None
    reasoning_back: Literal["loop", "all", "required"] | None = None
    keep: dict[str, Any] | None = None
    binds_thinking: Literal["always", "new_accounts"] | None = None
    tool_references: Support | None = None
    history: dict[str, Any] | None = None
    max_output_tokens: int | None = None
    whole_output_tokens: int | None = None
    context_tokens: int | None = None
    retires: date | None = None
    retires_earliest: bool | None = None
    tools: Support | None = None
    forced_choice: Support | None = None
    images: Support | None = None
    structured_output: Support | None = None
    reasoning: Support | None = None
    parallel_calls: Support | None = None
    files: Support | None = None
    audio: Support | None = None

    def known(self) -> dict[str, Any]:
        return {name: value for name in FACTS if (value := getattr(self, name)) is not None}


FACTS = tuple(each.name for each in fields(ModelFacts))
# Facts that depend on the server if the weights are open, and facts that are true only at the maker's own endpoints.
_OF_THE_SERVER = (
    "sampling", "samples_while_thinking", "temperature_max", "stop", "keep", "max_output_tokens",
    "context_tokens", "tools", "forced_choice", "parallel_calls", "structured_output",
)  # fmt: skip
_OF_THE_MAKER = ("apis", "tools_on_chat", "background_tools", "retires", "retires_earliest")
# The rest of the name of another version: `gpt-5.9` and `claude-opus-4-9`, but not `gpt-5-2025-08-07`.
_OTHER_VERSION = re.compile(r"[-.]?\d{1,2}(?!\d)")


@dataclass(frozen=True)
class Family(ModelFacts):
    """Facts about all models whose names begin with one of the prefixes.

    Attributes:
        prefix: the prefixes of the models' names. If several families match a name, the longest prefix wins.
        vendor: the company that made the models.
        open_weights: True if the models' weights are available, so that other providers serve the models too. Facts
            that depend on the server are then unknown for these providers.
        examples: some models of the family. Error messages suggest these models as alternatives.
        quirks: settings of adapters that differ for these models, by adapter name.
        checked: the date on which a person last checked the facts.
        sources: keys of the table `sources`, which contains the URLs of the pages that state the facts.
        place: the file and the line from which the family was loaded.
    """

    prefix: tuple[str, ...] = ()
    vendor: str | None = None
    open_weights: bool = False
    examples: tuple[str, ...] = ()
    quirks: dict[str, dict[str, Any]] = field(default_factory=dict)
    checked: date | None = None
    sources: tuple[str, ...] = ()
    place: str = ""

    @cached_property
    def capabilities(self) -> Capabilities:
        thinks: Support | None = None if self.thinking is None else "no" if self.thinking == "never" else "yes"
        said = {name: getattr(self, name) for name in CAPABILITIES} | {"reasoning": self.reasoning or thinks}
        return Capabilities(**{name: value for name, value in said.items() if value is not None})

    @property
    def closed_vendor(self) -> str | None:
        """The company that trained the models, if no other company has their weights. This company's rules for requests
        then apply to every provider that offers the models."""
        return None if self.open_weights else self.vendor

    @property
    def takes_chat(self) -> bool:
        """True if these models accept tools on Chat Completions at every effort level."""
        served = self.apis is None or "chat" in self.apis
        return served and self.tools_on_chat in (None, "yes")

    def without_retirement(self) -> Family:
        return self if self.retires is None else replace(self, retires=None, retires_earliest=None)

    def retirement_holds(self, name: str) -> bool:
        """Returns True if the family's retirement date applies to a model. The date doesn't apply to a newer version of
        the model.

        Args:
            name: the name of a model of this family, as `bare_name` returns it.
        """
        longest = max((len(prefix) for prefix in self.prefix if name.startswith(prefix)), default=0)
        return not _OTHER_VERSION.match(name[longest:])

    def over(self, others: Mapping[str, Any]) -> Family:
        """Returns a copy of the family in which the facts in `others` replace the facts of the same names."""
        return replace(self, **others) if others else self

    def filled(self, assumed: ModelFacts) -> Family:
        return self.over({name: value for name, value in assumed.known().items() if getattr(self, name) is None})

    def elsewhere(self) -> Family:
        names = (*_OF_THE_MAKER, *(_OF_THE_SERVER if self.open_weights else ()))
        unknown: dict[str, Any] = dict.fromkeys(names)
        return replace(self, **unknown)


def today() -> date:
    return datetime.now(UTC).date()


def retirement_notice(model: str, facts: ModelFacts, days: int = 60) -> str | None:
    """Returns a notice if the model's retirement date has passed, or is at most `days` days away. Returns None
    otherwise."""
    if facts.retires is None or (left := (facts.retires - today()).days) > days:
        return None
    day = facts.retires.isoformat()
    if facts.retires_earliest:
        return f"{model} may be retired by its maker from {day} on"
    return f"{model} {'will be' if left >= 0 else 'was'} retired by its maker on {day}"


NO_FAMILY = Family()
"""The facts of a model about which nothing is known."""


@dataclass(frozen=True)
class ModelTable(ModelFacts):
    """Facts about an endpoint's models whose names match a pattern. An endpoint's facts take precedence over the facts
    of the model's family.

    Attributes:
        pattern: a pattern for model names, with `*`, `?` and `[...]`, ignoring case. A pattern with a slash must match
            the entire name. A pattern without a slash must match the part after the last slash, without a region and
            vendor such as Amazon Bedrock's `us.anthropic.`.
        examples: some models that match. Error messages suggest these models as alternatives.
        quirks: settings of the adapter that differ for these models.
        prices: the models' prices; see `Prices`.
    """

    pattern: str
    examples: tuple[str, ...] = ()
    quirks: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, Any] = field(default_factory=dict)

    def fits(self, model: str) -> bool:
        """Returns True if the pattern matches a model's name.

        >>> ModelTable("kimi-k2*").fits("moonshotai/Kimi-K2-Instruct")
        True
        >>> ModelTable("claude-*").fits("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        True
        """
        name = model.lower() if "/" in self.pattern else _VENDOR.sub("", model.lower().rpartition("/")[2])
        return fnmatchcase(name, self.pattern.lower())


def merge_facts(tables: Iterable[ModelTable], model: str) -> dict[str, Any]:
    """Merges the facts of all tables that match a model. If several tables have the same key, the value in the last
    table is used.

    >>> tables = [ModelTable("*", context_tokens=8192), ModelTable("big*", context_tokens=262144)]
    >>> merge_facts(tables, "big-1")
    {'context_tokens': 262144}
    """
    found: dict[str, Any] = {}
    for table in tables:
        if table.fits(model):
            found |= table.known()
    return found
