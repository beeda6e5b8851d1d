"""The keys of a provider as arguments, so that a type checker finds misspelled ones and values of a wrong type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from pydantic import SecretStr

    from ..adapters.batches import BatchSettings
    from ..requests import Capabilities, ChatOptions, Support, TimeoutOptions
    from ..values import Limits, Timeouts


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
    origin: str | None
    model: str | None
    model_family: str | None
    families: str | None
    dialect: str | None
    defuse: bool | None
    quirks: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    options: ChatOptions | None
    unsupported_options: Literal["adapt", "strict"] | None
    extra_body: Mapping[str, Any] | None
    timeouts: Timeouts | TimeoutOptions | None
    max_retries: int | None
    limits: Limits | Mapping[str, int] | None
    transport: Literal["auto", "httpx", "aiohttp", "httpx2"] | None
    http2: bool | None
    coalesce: bool | None
    rpm: float | None
    tpm: float | None
    max_concurrent: int | None
    max_cost_per_day: float | None
    rate_limits: Mapping[str, str | int] | None
    fallback: str | Sequence[str] | None
    capabilities: Capabilities | Mapping[str, Support] | None
    hosted: Sequence[str] | None
    prices: Mapping[str, Any] | None
    batches: BatchSettings | Mapping[str, str | int] | None
    models: Sequence[Mapping[str, Any]] | None
