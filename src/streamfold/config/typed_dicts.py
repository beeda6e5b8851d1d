"""Types of the settings of a provider, so that a type checker finds misspelled keys and values of a wrong type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from pydantic import SecretStr

    from ..adapters.batches import BatchSettings
    from ..requests import Capabilities, ChatOptions, ReasoningEffort, Support, Thinking, TimeoutOptions
    from ..values import Limits, Timeouts


class LimitsConfig(TypedDict, total=False):
    """The fields of `Limits` as a dict. Missing keys keep their default."""

    event_bytes: int
    text_chars: int
    reasoning_chars: int
    other_chars: int
    arguments_chars: int
    all_arguments_chars: int
    tool_calls: int
    name_chars: int
    id_chars: int
    warnings: int
    error_body_bytes: int


class RateLimitsConfig(TypedDict, total=False):
    """The fields of `RateLimitSettings` as a dict: the table `[rate_limits]`."""

    store: str
    on_store_error: Literal["local", "refuse"]
    replicas: int


class CapabilitiesConfig(TypedDict, total=False):
    """The fields of `Capabilities` as a dict. Missing keys keep what the catalogue says."""

    tools: Support
    forced_choice: Support
    images: Support
    structured_output: Support
    reasoning: Support
    parallel_calls: Support
    files: Support
    audio: Support


class BatchesConfig(TypedDict, total=False):
    """The fields of `BatchSettings` as a dict. Missing keys keep what the catalogue says."""

    rows: int
    bytes: int
    window: str
    purpose: Literal["batch", "batch-api"]


class ModelConfig(CapabilitiesConfig, total=False):
    """A table of `models`: facts about the models whose names match `pattern`."""

    pattern: Required[str]
    examples: Sequence[str]
    thinking: Thinking
    efforts: Sequence[ReasoningEffort]
    efforts_on_chat: Sequence[ReasoningEffort]
    default_effort: ReasoningEffort
    budget: tuple[int, int]
    none_as: Literal["between_tools"]
    sampling: Literal["yes", "no", "default", "one_of", "ignored"]
    samples_while_thinking: bool
    temperature_max: float
    stop: Literal["yes", "no"]
    wires: Sequence[str]
    tools_on_chat: Literal["yes", "effort_none", "no"]
    reasoning_back: Literal["loop", "all", "required"]
    keep: Mapping[str, Any]
    max_output_tokens: int
    context_tokens: int
    quirks: Mapping[str, Any]
    prices: Mapping[str, Any]


class ProviderConfig(TypedDict, total=False):
    """The keyword arguments of `Provider.from_config`: the keys of a `[providers.NAME]` table.

    `Profile` documents each of them. None is the same as leaving a key out.
    """

    name: str | None
    adapter: str | None
    base_url: str | None
    api_key: str | SecretStr | None
    api_key_env: str | Sequence[str] | None
    key_header: str | None
    auth: Literal["key", "sigv4", "google"] | None
    wire: Literal["auto", "chat", "responses"] | None
    issuer: str | None
    model: str | None
    model_family: str | None
    families: str | None
    dialect: str | None
    escape_special_tokens: bool | None
    renders_templates: bool | None
    quirks: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    options: ChatOptions | None
    unsupported_options: Literal["adapt", "strict"] | None
    extra_body: Mapping[str, Any] | None
    timeouts: Timeouts | TimeoutOptions | None
    max_retries: int | None
    limits: Limits | LimitsConfig | None
    transport: Literal["httpx", "aiohttp", "httpx2"] | None
    http2: bool | None
    coalesce: bool | None
    rpm: float | None
    tpm: float | None
    max_concurrent: int | None
    max_cost_per_day: float | None
    rate_limits: RateLimitsConfig | None
    fallback: str | Sequence[str] | None
    capabilities: Capabilities | CapabilitiesConfig | None
    hosted: Sequence[str] | None
    prices: Mapping[str, Any] | None
    batches: BatchSettings | BatchesConfig | None
    models: Sequence[ModelConfig] | None
