"""Facts about models: reasoning, limits, capabilities, by family and by endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from .options import ReasoningEffort

# What a model can do at its endpoint.
# A quirk says how something is written for an endpoint. A capability says whether a feature is available.
# Undocumented features are "unknown": the request is sent and the server decides.

Support: TypeAlias = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features of a model at its endpoint.

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


# What a model is, whichever endpoint serves it: whether it thinks, which levels of effort it has, what it refuses.
# A quirk says how an endpoint writes something; a family says what there is to write. What nobody has written down
# is unknown, and unknown means that it is sent. `providers/families.toml` is the data, `config/model_facts.py`
# reads it.

_VENDOR = re.compile(r"^(?:databricks-|(?:[a-z-]+\.)+)(?=[a-z])")  # `us.anthropic.`, as Amazon Bedrock writes
_CLAUDE_DOTS = re.compile(r"(?<=\d)\.(?=\d)")

Thinking: TypeAlias = Literal["never", "asked", "default", "always"]

EFFORTS: tuple[ReasoningEffort, ...] = get_args(ReasoningEffort)
"""All levels of effort, the lowest first."""


def bare_name(model: str) -> str:
    """Returns the name of a model as families are compared with it.

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
    """Facts about a model. None: unknown.

    Attributes:
        thinking: whether it thinks before it answers: "never"; "asked": if the request asks for it; "default": unless
            the request says otherwise; "always".
        efforts: the levels of effort that it has, the lowest first. Empty: it has none, thinking is a switch at most.
        efforts_on_chat: those that Chat Completions takes, where it takes fewer.
        default_effort: the level without one in the request.
        budget: the fewest and the most tokens of thinking, for models that are told a number instead of a level.
        none_as: what the effort "none" is for a model that can't stop thinking altogether: "between_tools" is a mode in
            which it thinks between calls alone.
        sampling: whether `temperature` and `top_p` are accepted: "default": 1 alone, which they are anyway; "one_of":
            not both; "ignored": without effect.
        samples_while_thinking: whether they are accepted, and have an effect, while it thinks.
        temperature_max: the highest temperature.
        stop: whether texts to stop at are accepted.
        apis: the wire formats that the maker serves it on, if not all that the maker has.
        tools_on_chat: whether Chat Completions takes tools: "effort_none": only without thinking.
        background_tools: whether it may continue while a call of a tool runs; see `Tool.background`.
        reasoning_back: what of its reasoning the conversation has to hold: that of the open tool loop ("loop"), a
            field for it in any case ("required"), or that of all turns ("all").
        keep: members of the body that ask the server to keep the reasoning of earlier turns, by their dotted names.
        binds_thinking: whether thinking is refused once what was sent before it has changed: "always"; "new_accounts":
            on accounts of the provider that were made since this is so.
        tool_references: whether it follows a `$ref` in the schema of a tool. If not, references are written out.
        history: what it demands of a conversation, beyond its wire format: fields of `HistoryRules`.
        max_output_tokens: the most tokens that it writes in one answer.
        whole_output_tokens: the most tokens of an answer in one piece, where a stream may have more.
        context_tokens: the most tokens that a conversation and its answer may have together.
        retires: the day on which its maker switches it off, on its own platforms.
        retires_earliest: whether that is only the earliest day on which it may be switched off.
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
        """Returns what is known, by name."""
        return {name: value for name in FACTS if (value := getattr(self, name)) is not None}


FACTS = tuple(each.name for each in fields(ModelFacts))
# What a server decides of a model whose weights anybody may serve, and what holds at the maker's own address alone.
_OF_THE_SERVER = (
    "sampling", "samples_while_thinking", "temperature_max", "stop", "keep", "max_output_tokens",
    "context_tokens", "tools", "forced_choice", "parallel_calls", "structured_output",
)  # fmt: skip
_OF_THE_MAKER = ("apis", "tools_on_chat", "background_tools", "retires", "retires_earliest")
# What follows a prefix in the name of another version: `gpt-5.9`, `claude-opus-4-9`, but not `gpt-5-2025-08-07`.
_OTHER_VERSION = re.compile(r"[-.]?\d{1,2}(?!\d)")


@dataclass(frozen=True)
class Family(ModelFacts):
    """Facts about all models whose names begin alike.

    Attributes:
        prefix: how their names begin, or several beginnings. The longest one of all families that fits a name decides.
        vendor: the maker.
        open_weights: whether others may serve them: then what depends on the server is not known elsewhere.
        examples: some models of it; errors name them when another model must be chosen.
        quirks: quirks that differ for these models, by adapter.
        checked: when the facts were looked up.
        sources: where, by the names of the table `sources`.
        place: the file and the line of the row.
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
        """The features of the models of this family."""
        thinks: Support | None = None if self.thinking is None else "no" if self.thinking == "never" else "yes"
        said = {name: getattr(self, name) for name in CAPABILITIES} | {"reasoning": self.reasoning or thinks}
        return Capabilities(**{name: value for name, value in said.items() if value is not None})

    @property
    def closed_vendor(self) -> str | None:
        """The maker, if only the maker decides where its models are served: its rules hold wherever they are sold."""
        return None if self.open_weights else self.vendor

    @property
    def takes_chat(self) -> bool:
        """True if Chat Completions is enough: it serves these models, and takes tools however much they think."""
        served = self.apis is None or "chat" in self.apis
        return served and self.tools_on_chat in (None, "yes")

    def without_retirement(self) -> Family:
        """Returns the same without the day on which the models are switched off."""
        return self if self.retires is None else replace(self, retires=None, retires_earliest=None)

    def retirement_holds(self, name: str) -> bool:
        """Returns whether the family's day of retirement is that of a model, and the model no newer version.

        Args:
            name: the bare name of a model of the family.
        """
        longest = max((len(prefix) for prefix in self.prefix if name.startswith(prefix)), default=0)
        return not _OTHER_VERSION.match(name[longest:])

    def over(self, others: Mapping[str, Any]) -> Family:
        """Returns the family with other facts, key by key."""
        return replace(self, **others) if others else self

    def filled(self, assumed: ModelFacts) -> Family:
        """Fills unknown facts with the defaults for unknown models."""
        return self.over({name: value for name, value in assumed.known().items() if getattr(self, name) is None})

    def elsewhere(self) -> Family:
        """Returns what is known of the models at another address than the maker's."""
        names = (*_OF_THE_MAKER, *(_OF_THE_SERVER if self.open_weights else ()))
        unknown: dict[str, Any] = dict.fromkeys(names)
        return replace(self, **unknown)


RETIREMENT_NOTICE = 60
"""How many days before a model is switched off replies begin to say so."""


def today() -> date:
    """Returns the present day (UTC)."""
    return datetime.now(UTC).date()


def retirement_notice(model: str, facts: ModelFacts, days: int = RETIREMENT_NOTICE) -> str | None:
    """Returns what to know about the end of a model; None if it is unknown, or further away than this many days."""
    if facts.retires is None or (left := (facts.retires - today()).days) > days:
        return None
    day = facts.retires.isoformat()
    if facts.retires_earliest:
        return f"{model}: its maker may switch it off, from {day} at the earliest"
    return f"{model}: its maker {'switches' if left >= 0 else 'switched'} it off on {day}"


NO_FAMILY = Family()
"""Nothing is known."""


@dataclass(frozen=True)
class ModelTable(ModelFacts):
    """Facts about the models of one endpoint whose names match a pattern. They win over those of their families.

    Attributes:
        pattern: of the model's name, with `*`, `?` and `[...]`, in capitals or not. A pattern with a slash is of the
            whole name; any other is of what follows the last slash, because resellers and engines put a vendor there,
            and the region and the vendor that Amazon Bedrock writes (`us.anthropic.`).
        examples: some models that it fits. Errors name them when another model must be chosen.
        quirks: quirks of the adapter that differ for these models.
        prices: their prices, as in `Prices`.
    """

    pattern: str
    examples: tuple[str, ...] = ()
    quirks: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, Any] = field(default_factory=dict)

    def fits(self, model: str) -> bool:
        """True if the pattern is of this model.

        >>> ModelTable("kimi-k2*").fits("moonshotai/Kimi-K2-Instruct")
        True
        >>> ModelTable("claude-*").fits("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        True
        """
        name = model.lower() if "/" in self.pattern else _VENDOR.sub("", model.lower().rpartition("/")[2])
        return fnmatchcase(name, self.pattern.lower())


def merge_facts(tables: Iterable[ModelTable], model: str) -> dict[str, Any]:
    """Returns the facts of all tables that fit a model, later ones in place of earlier ones, key by key.

    >>> tables = [ModelTable("*", context_tokens=8192), ModelTable("big*", context_tokens=262144)]
    >>> merge_facts(tables, "big-1")
    {'context_tokens': 262144}
    """
    found: dict[str, Any] = {}
    for table in tables:
        if table.fits(model):
            found |= table.known()
    return found
