"""`Profile`: the validated settings of one provider, and the facts about its models. Only `Profile.resolve` reads
environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypedDict
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from ..adapters import Adapter, find_adapter
from ..adapters.batches import BatchSettings
from ..engine.dialects import DialectContext, find_dialect
from ..errors import ConfigError, NotConfiguredError, allowed_values_hint
from ..requests import (
    CAPABILITIES,
    HEADER_NAME,
    NO_OPTIONS,
    OPTION_SYNONYMS,
    Capabilities,
    ChatOptions,
    Family,
    ModelTable,
    Options,
    Support,
    TimeoutOptions,
    bare_name,
    header_name_problem,
    merge_facts,
)
from ..types import Limits, Timeouts
from ..urls import check_references, shown_url, variable_names
from .catalogue import catalogue_values, provider_files
from .endpoint import ResolvedEndpoint, check_url, joined_url, normalized_url
from .environment import read_environment
from .history_facts import history_facts
from .model_facts import (
    check_models,
    examples,
    find_family,
    is_first_party_host,
    is_operated_by_maker,
    own_family,
    prices_in,
    read_prices,
    read_quirks,
)
from .store_settings import RateLimitSettings, StoreName
from .tables import (
    Count,
    Flag,
    Names,
    PositiveCount,
    PositiveNumber,
    Table,
    read_table,
    table_field,
    validated_by,
    validation_error,
    validation_errors,
)
from .toml_positions import KeyPath, toml_path

POSITIVE = Field(gt=0)


def read_timeouts(value: Any) -> Any:
    """Converts a table to `Timeouts`. The number `inf` disables a timeout, because TOML has no null."""
    if isinstance(value, Timeouts):
        value = asdict(value)
    if isinstance(value, Mapping):
        value = {name: None if seconds == float("inf") else seconds for name, seconds in value.items()}
    return read_table(Timeouts, value, POSITIVE)


def timeouts_over(configured: Timeouts, given: Timeouts | Mapping[str, object] | None) -> Timeouts:
    """Combines the configured timeouts with the timeouts that are passed for one request.

    A `Timeouts` object replaces all configured timeouts. A mapping replaces only those timeouts that it contains.

    Raises:
        ConfigError: a timeout is unknown, or not greater than 0.
    """
    if given is None:
        return configured
    if not isinstance(given, Timeouts | Mapping):
        raise ConfigError(f'timeouts must be a Timeouts or a mapping such as {{"read": 5}}, not {type(given).__name__}')
    members = asdict(given) if isinstance(given, Timeouts) else given
    numbers = all(isinstance(value, float | int | None) for value in members.values())
    read = _over if numbers else _over.__wrapped__  # other values are invalid, and may not be hashable
    try:
        return read(configured, tuple(members), *members.values())
    except ValidationError as exc:
        path, text = validation_errors(exc)[0]
        raise ConfigError(f"{toml_path(('timeouts', *path))}: {text}") from None


@lru_cache(maxsize=64, typed=True)
def _over(configured: Timeouts, names: tuple[str, ...], *seconds: object) -> Timeouts:
    timeouts: Timeouts = read_timeouts({**asdict(configured), **dict(zip(names, seconds, strict=True))})
    return timeouts


class ProviderConfig(TypedDict, total=False):
    """The keyword arguments of `Provider.from_config`, which are also the keys of a `[providers.NAME]` table.

    Each key is documented at `Profile`. A key whose value is None is ignored.
    """

    name: str | None
    adapter: str | None
    base_url: str | None
    api_key: str | SecretStr | None
    api_key_env: str | Sequence[str] | None
    key_header: str | None
    auth: Literal["key", "sigv4", "google", "entra"] | None
    auth_scope: str | None
    api: Literal["auto", "chat", "responses"] | None
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
    max_continuations: int | None
    limits: Limits | Mapping[str, int] | None
    transport: Literal["httpx", "aiohttp", "httpx2", "websocket"] | None
    http2: bool | None
    coalesce: bool | None
    rpm: float | None
    tpm: float | None
    max_concurrent: int | None
    max_cost_per_day: float | None
    rate_limits: RateLimitSettings | Mapping[str, Any] | None
    fallback: str | Sequence[str] | None
    capabilities: Capabilities | Mapping[str, Support] | None
    hosted: Sequence[str] | None
    prices: Mapping[str, Any] | None
    batches: BatchSettings | Mapping[str, Any] | None
    models: Sequence[ModelTable | Mapping[str, Any]] | None


# The names of keys in other libraries.
_SYNONYMS = {
    **dict.fromkeys(("api_base", "api_url", "url", "endpoint", "azure_endpoint", "base_uri", "host"), "base_url"),
    **dict.fromkeys(("token", "apikey", "openai_api_key"), "api_key"),
    **dict.fromkeys(("default_headers", "extra_headers"), "headers"),
    **dict.fromkeys(("num_retries", "retries", "max_attempts"), "max_retries"),
    **dict.fromkeys(("max_concurrency", "concurrency", "max_parallel"), "max_concurrent"),
    **dict.fromkeys(("fallbacks", "fallback_models"), "fallback"),
    **dict.fromkeys(("model_id", "deployment", "azure_deployment"), "model"),
    **dict.fromkeys(("provider", "type"), "profile"),
    **dict.fromkeys(("wire_format", "protocol", "api_type"), "adapter"),
    "max_budget": "max_cost_per_day",
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASTED_KEY = re.compile(r"(?=.*[a-z])(?=.*\d).{20,}")  # an API key, which error messages must not quote


def _check_profile_name(name: str) -> None:
    if name not in (files := provider_files()):
        raise ValueError(f"unknown profile {name!r}{allowed_values_hint(name, files)}")


def _is_url(url: str) -> None:
    if not url.startswith("${") and not variable_names(url):  # otherwise `ResolvedEndpoint` checks the URL
        check_url(url)
    elif not url.startswith(("http://", "https://", "${")):
        raise ValueError("must begin with http:// or https://")


def _are_variables(names: tuple[str, ...]) -> None:
    if any(_PASTED_KEY.fullmatch(name) or not _VARIABLE.fullmatch(name) for name in names):
        raise ValueError("must be the name of an environment variable, not the key itself")


def _are_headers(headers: dict[str, str]) -> None:
    if problem := next(filter(None, map(header_name_problem, headers)), None):
        raise ValueError(problem)


def _is_header(name: str) -> None:
    if not HEADER_NAME.fullmatch(name):
        raise ValueError('must be the name of a header, such as "api-key"')


def _is_file(path: str) -> None:
    if not Path(path).expanduser().is_file():
        raise ValueError(f"there is no file {path!r}")


def _are_options(options: dict[str, Any]) -> None:
    mistakes = []
    for name, value in options.items():
        try:
            Options.read({name: value})
        except ConfigError as exc:
            mistakes.append(((name,), str(exc)))
    if mistakes:
        raise validation_error(mistakes)


# Quirks that a dialect requires on each server: the chat templates of Mistral's models refuse other ids.
_OF_DIALECTS = {("mistral", "chat"): {"call_ids": "nine_alphanumeric"}}


class Profile(Table):
    """The validated settings of one provider, merged from the catalogue, `streamfold.toml` and function arguments.

    Attributes:
        name: the name of the provider in errors and logs.
        profile: the name of the provider in the catalogue on which these settings are based.
        adapter: the name of the adapter, which says which API the endpoint implements.
        base_url: the base URL of the API, including `/v1`.
        api_key: the API key, or a reference to an environment variable that contains it.
        api_key_env: the names of environment variables that may contain the API key. The first variable that is set is
            used. With an empty list, no API key is needed.
        key_header: the HTTP header that contains the API key. In `Authorization`, "Bearer" precedes the API key. Any
            other header, such as Azure's `api-key`, contains only the API key.
        auth: how requests are authenticated if there is no API key. With "key", an API key is required if `api_key_env`
            isn't empty. With "sigv4", streamfold signs requests with AWS credentials (extra `bedrock`). With "google",
            requests contain an access token from Google's application default credentials (extra `vertex`). With
            "entra", requests contain a Microsoft Entra ID token from Azure's credential chain (extra `azure`).
        auth_scope: the scope of the access token, if it isn't the default scope of `auth`. For "sigv4", the name of the
            AWS service, such as "bedrock-mantle".
        api: which API to use, if the endpoint has both Chat Completions and the Responses API. With "chat" or
            "responses", all requests use this API. With "auto", requests use Chat Completions, except for models that
            accept tools only on the Responses API or are served only there. By default, the API of `adapter` is used.
            If the server then reports that only the other API serves the model, streamfold uses the other API, with a
            warning. `quirks` apply only to the API of `adapter`.
        other_api: the provider in the catalogue that describes the endpoint's other API (Chat Completions or the
            Responses API). That provider's `quirks` and `hosted` apply to models that use the other API.
        issuer: a name shared by endpoints that accept each other's data, such as signed thinking. By default, only
            endpoints with the same adapter and base URL accept each other's data.
        model: the name of the default model.
        model_family: the name of the model behind a deployment, if `model` is the name of a deployment.
        families: the path of a file with facts about models (`[[families]]`), which take precedence over the catalogue.
            By default, the file is `families.toml` in the user's configuration directory, if it exists.
        dialect: the format in which the model writes tool calls and reasoning into its text, if the server doesn't
            parse them.
        escape_special_tokens: True to escape special tokens in user messages and tool results, so that the model's
            tokenizer treats them as plain text. streamfold inserts a word joiner (U+2060) into each token. A warning
            lists the positions of the tokens. The tokens are those of the dialect and, if the endpoint applies chat
            templates, those of the model.
        renders_templates: True if the endpoint applies the model's chat template to the messages, as vLLM and other
            inference servers do. The server then treats special tokens in a message as control tokens.
        quirks: settings for the adapter that describe how the endpoint differs from the API's documentation.
        headers: additional HTTP headers for every request.
        options: default options for every request, such as `temperature`. The options of a request take precedence.
        unsupported_options: what happens if the model or the endpoint doesn't support an option. With "adapt",
            streamfold adapts or leaves out the option, with a warning. With "strict", streamfold raises ConfigError.
        extra_body: additional fields for the JSON body of every request.
        timeouts: the timeouts in seconds, by name: connect, first_event, read, stall and total. `inf` means no timeout.
        max_retries: the maximum number of retries if a request fails before its first chunk. 0 turns retries off.
        max_continuations: the maximum number of additional requests for one answer; see `ChatOptions`.
        limits: the maximum size of an answer. If an answer is larger, streamfold raises ProtocolError.
        coalesce: True to join all text in one network read into one chunk, or False for one chunk per SSE event.
        transport: the library that sends requests: "httpx", "aiohttp" (asyncio only; extra `aiohttp`) or "httpx2"
            (extra `httpx2`). With "websocket", requests to the Responses API use WebSockets (extra `websocket`).
        http2: True to use HTTP/2 if the server supports it (extra `http2`, not with aiohttp or websocket). With httpx
            and HTTP/2, the server doesn't notice when the program cancels an answer. The server may then continue to
            generate tokens and charge for them.
        rpm: the maximum number of requests per minute; see `RateLimiter`. Providers with the same base URL and API key
            share their limits.
        tpm: the maximum number of input and output tokens per minute.
        max_concurrent: the maximum number of parallel requests.
        max_cost_per_day: the maximum cost per day (UTC), in the currency of the prices.
        rate_limits: the store in which streamfold counts requests, tokens and costs. The default is the store in the
            table `[rate_limits]`.
        fallback: the names of providers to try if this provider fails; see `Fallback`.
        turn_cache: the store in which the turn cache saves its entries, such as "memory", "sqlite:///turns.db" or
            "valkey://host:6379". The turn cache restores provider data, such as signed reasoning, that the caller's
            messages have lost; see `TurnCache`.
        capabilities: the features that all models at this endpoint support or lack.
        hosted: the kinds of hosted tools that this endpoint runs: "web_search", "web_fetch", "code_execution",
            "file_search", "mcp" or "custom". None means unknown. streamfold then sends every kind that the API defines.
        prices: the prices of all models at this endpoint per million tokens, such as `{input = 3, output = 15}`; see
            `Prices`. The tables in `models` may contain other prices.
        batches: the settings for the provider's batch API: the maximum `rows` and `bytes` of a batch, its `window` and
            its `purpose`.
        models: tables with facts about the models whose names match a pattern. These facts take precedence over the
            facts in `families.toml`. If several tables have the same key, the last table wins.
        docs: the URL of the documentation that is the source of a catalogue file.
        checked: the date on which a person last compared these settings with the documentation.
        evidence: the source of these settings: "recorded" (recorded responses of the endpoint), "documented" (the
            provider's documentation) or "reported" (other projects). The default in the catalogue is "documented".
        untrusted_file: the path of the untrusted configuration file that sets the host in `base_url`, or None.
            streamfold sends neither environment variables nor cloud credentials to that host. Users don't set this.

    `base_url`, `api_key`, `model`, `turn_cache` and the values of `headers` may contain environment variables, as in
    `"https://${GATEWAY}/v1"`. Environment variables are read when a request is sent. Errors and logs never contain
    their values.
    """

    unlisted = ("name", "docs", "checked", "evidence", "other_api", "untrusted_file")
    required = {"base_url": 'required, unless the settings start from the catalogue, as with profile = "kimi"'}  # noqa: RUF012

    @classmethod
    def unknown_key(cls, key: str, value: Any) -> str:
        """Returns the error message for an unknown key. For a synonym of a setting, the message contains the right
        key.
        """
        if key in _SYNONYMS:
            return f"unknown key (did you mean {_SYNONYMS[key]!r}?)"
        option = OPTION_SYNONYMS.get(key, key)
        if option in cls.model_fields:
            return f"unknown key (did you mean {option!r}?)"
        if option in ChatOptions.__annotations__:
            return f'a request option: write options = {{"{option}": ...}}'
        return super().unknown_key(key, value)

    name: str = "custom"
    profile: Annotated[str, validated_by(_check_profile_name)] | None = None
    adapter: Annotated[str, validated_by(find_adapter)] = "chat"
    base_url: Annotated[
        str,
        BeforeValidator(normalized_url),
        validated_by(check_references),
        validated_by(_is_url),
        AfterValidator(lambda url: url.rstrip("/")),
    ]
    api_key: Annotated[SecretStr, validated_by(lambda key: check_references(key.get_secret_value()))] | None = None
    api_key_env: Annotated[Names, validated_by(_are_variables)] = ()
    key_header: Annotated[str, validated_by(_is_header)] = "Authorization"
    auth: Literal["key", "sigv4", "google", "entra"] = "key"
    auth_scope: str | None = None
    api: Literal["auto", "chat", "responses"] | None = None
    other_api: Annotated[str, validated_by(_check_profile_name)] | None = None
    issuer: str | None = None
    model: Annotated[str, validated_by(check_references)] | None = None
    model_family: str | None = None
    families: Annotated[str, validated_by(_is_file)] | None = None
    dialect: Annotated[str, validated_by(lambda name: find_dialect(name, DialectContext()))] | None = None
    escape_special_tokens: Flag = True
    renders_templates: Flag = False
    quirks: dict[str, Any] = Field(default={})
    headers: Annotated[dict[str, Annotated[str, validated_by(check_references)]], validated_by(_are_headers)] = Field(
        default={},
        repr=False,  # often secrets
    )
    options: Annotated[dict[str, Any], validated_by(_are_options)] = Field(default={})
    unsupported_options: Literal["adapt", "strict"] = "adapt"
    extra_body: dict[str, Any] = Field(default={})
    timeouts: Annotated[Timeouts, PlainValidator(read_timeouts)] = Timeouts()
    max_retries: Count = 2
    max_continuations: Count = 8
    limits: Annotated[Limits, table_field(Limits, POSITIVE)] = Limits()
    coalesce: Flag = True
    transport: Literal["httpx", "aiohttp", "httpx2", "websocket"] = "httpx"
    http2: Flag = False
    rpm: PositiveNumber | None = None
    tpm: PositiveNumber | None = None
    max_concurrent: PositiveCount | None = None
    max_cost_per_day: PositiveNumber | None = None
    rate_limits: RateLimitSettings | None = None
    fallback: Names = ()
    turn_cache: StoreName | None = None
    capabilities: Annotated[Capabilities, table_field(Capabilities)] = Capabilities()
    hosted: Names | None = None
    prices: Annotated[dict[str, Any], validated_by(read_prices)] = Field(default={})
    batches: Annotated[BatchSettings, table_field(BatchSettings)] = BatchSettings()
    models: tuple[Annotated[ModelTable, table_field(ModelTable)], ...] = Field(default=(), repr=False)
    docs: str | None = None
    checked: date | None = None
    evidence: Literal["recorded", "documented", "reported"] | None = None
    untrusted_file: str | None = Field(default=None, exclude=True, repr=False)

    @field_validator("quirks")
    @classmethod
    def _quirks_fit(cls, quirks: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "adapter" in info.data:  # otherwise, the adapter is invalid
            read_quirks(info.data["adapter"], quirks)
        return quirks

    @field_validator("transport")
    @classmethod
    def _has_websockets(cls, transport: str, info: ValidationInfo) -> str:
        if transport == "websocket" and info.data.get("adapter", "responses") != "responses":
            raise ValueError('only the Responses API supports WebSockets: set adapter = "responses"')
        if transport == "websocket" and info.data.get("auth") == "sigv4":
            raise ValueError(
                "WebSocket isn't supported with AWS authentication, which requires a signature for each"
                " request: use another transport"
            )
        return transport

    @field_validator("models")
    @classmethod
    def _tables_of_models_fit(cls, models: tuple[ModelTable, ...], info: ValidationInfo) -> tuple[ModelTable, ...]:
        check_models(models, info.data.get("adapter"))
        return models

    @property
    def is_limited(self) -> bool:
        """True if a rate limit or a budget is configured."""
        limits = (self.rpm, self.tpm, self.max_concurrent, self.max_cost_per_day, self.rate_limits)
        return any(limit is not None for limit in limits)

    def default_options(self) -> Options:
        """Returns the configured default options, or `NO_OPTIONS`."""
        options = Options.read(self.options)
        if self.unsupported_options != "adapt":
            options = replace(options, unsupported_options=self.unsupported_options)
        options = replace(options, extra_body={**self.extra_body, **options.extra_body})
        return NO_OPTIONS if options == NO_OPTIONS else options

    def make_adapter(self, model: str | None = None) -> Adapter:
        served = self.for_model(model)
        kind, quirks = find_adapter(served.adapter), read_quirks(served.adapter, served.quirks_of(model))
        adapter = kind() if quirks is None else kind(quirks)  # type: ignore[call-arg]
        adapter.family = adapter.known_family(served.family_of(model))
        return adapter

    def adapter_of(self, model: str | None) -> str:
        """Returns the name of the adapter for a model. All requests of a conversation use the same adapter."""
        if self.api is None or self.adapter not in ("chat", "responses"):
            return self.adapter
        return self.api if self.api != "auto" else "chat" if self._facts_of(model).takes_chat else "responses"

    def for_model(self, model: str | None) -> Self:
        api = self.adapter_of(model)
        return self if api == self.adapter else self.on_api(api)

    def capabilities_of(self, model: str | None) -> Capabilities:
        """Returns a model's known capabilities. If `model` is None, returns the capabilities that all models share."""
        return self.family_of(model).capabilities

    def family_of(self, model: str | None) -> Family:
        """Returns what is known about a model at this endpoint.

        If several sources contain the same fact, the first of these wins: the setting `models`, the setting
        `capabilities`, the user's families file, the catalogue's `families.toml`.
        """
        served = self.for_model(model)
        own, found = served.families_of(model)
        name, providers = served.model_family or model or "", (served.name, served.profile)
        history = history_facts(name, served.adapter, providers, served._host(), served.renders_templates)
        for facts in (found, own, *(table for table in served.models if table.fits(model or ""))):
            history |= facts.history or {}
        family = served._facts_of(model)
        return family.over({"history": history}) if history else family

    def _facts_of(self, model: str | None) -> Family:
        own, found = self.families_of(model)
        can = {each: said for each in CAPABILITIES if (said := self.capabilities.of(each)) != "unknown"}
        quirks = {adapter: {**found.quirks.get(adapter, {}), **table} for adapter, table in own.quirks.items()}
        known = {**own.known(), **can, **merge_facts(self.models, model or "")}
        return found.over({**known, "quirks": {**found.quirks, **quirks}} if quirks else known)

    def families_of(self, model: str | None) -> tuple[Family, Family]:
        """Returns what the user's families file says about a model, and what the catalogue's `families.toml` says."""
        name = self.model_family or model or ""
        found = find_family(name)
        if not self._is_makers_own(found.vendor):
            found = found.elsewhere()
        elif not (found.retirement_holds(bare_name(name)) and is_operated_by_maker(found.vendor, self._host() or "")):
            found = found.without_retirement()
        return own_family(self.families, name), found

    def quirks_of(self, model: str | None) -> dict[str, Any]:
        """Returns a model's quirks, merged from its dialect, its family, the endpoint and the list `models`."""
        served = self.for_model(model)
        quirks: dict[str, Any] = {}
        for name in (served.dialect or "").split("+"):
            quirks |= _OF_DIALECTS.get((name.strip(), served.adapter), {})
        quirks |= served._facts_of(model).quirks.get(served.adapter, {})
        for table in (served.quirks, *(table.quirks for table in served.models if table.fits(model or ""))):
            quirks |= table
        return quirks

    def prices_of(self, model: str | None) -> dict[str, Any]:
        """Returns a model's known prices as a table. Prices in the list `models` take precedence over the
        endpoint's prices.
        """
        return prices_in(self.prices, self.models, model or "")

    def models_with(self, capability: str) -> list[str]:
        return [name for name in self.examples() if self.capabilities_of(name).of(capability) == "yes"]

    def examples(self) -> list[str]:
        own = (name for table in self.models for name in table.examples)
        return list(dict.fromkeys([*examples(self._is_makers_own), *own]))

    def _is_makers_own(self, vendor: str | None) -> bool:
        # By host, except for an adapter that only the maker uses.
        if publisher := re.search(r"/publishers/([\w-]+)", self.base_url):  # Vertex AI: the path names the maker
            return vendor == publisher[1]
        if vendor is not None and find_adapter(self.adapter).maker == vendor:
            return bool(self.quirks.get("hosted", True))
        host = self._host()
        if host is None:  # only OpenAI and Azure have both of OpenAI's APIs
            return self.api is not None
        return is_first_party_host(vendor, host)

    def _host(self) -> str | None:
        try:
            return (urlsplit(self.resolve().base_url).hostname or "").lower()
        except (NotConfiguredError, ValueError):
            return None

    def on_api(self, api: str) -> Self:
        """Returns the settings for another API of the same endpoint.

        Args:
            api: "chat" for Chat Completions, or "responses" for the Responses API.
        """
        if api == self.adapter:
            return self if self.api in (None, api) else self.model_copy(update={"api": api})
        changed: dict[str, Any] = {"adapter": api, "api": api, "quirks": {}}
        models = tuple(replace(table, quirks={}) for table in self.models)
        if self.other_api is not None:
            other = _catalogue_profile(self.other_api)
            own = other if other.other_api is None else _catalogue_profile(other.other_api)
            known = {name: said for name in CAPABILITIES if (said := self.capabilities.of(name)) != "unknown"}
            changed |= {
                "quirks": other.quirks,
                "hosted": other.hosted if self.hosted == own.hosted else self.hosted,
                "capabilities": replace(other.capabilities, **known),
                "other_api": other.other_api,
            }
            models = (*other.models, *models)
        return self.model_copy(update={**changed, "models": models})

    def api_with_tool(self, kind: str) -> str | None:
        """Returns the adapter of the endpoint's other API if that API runs this kind of hosted tool; otherwise None."""
        if self.other_api is None:
            return None
        other = _catalogue_profile(self.other_api)
        return other.adapter if kind in (other.hosted or ()) else None

    def references(self) -> dict[KeyPath, str]:
        """Returns the base URL, API key, model and headers, by key path. These settings may contain environment
        variables."""
        key = None if self.api_key is None else self.api_key.get_secret_value()
        texts: dict[KeyPath, str | None] = {("base_url",): self.base_url, ("api_key",): key, ("model",): self.model}
        texts |= {("headers", name): text for name, text in self.headers.items()}
        return {path: text for path, text in texts.items() if text is not None}

    def variables(self) -> list[str]:
        """Returns the names of all environment variables that a request needs."""
        names = [name for text in self.references().values() for name in variable_names(text)]
        return list(dict.fromkeys([*self.key_variables(), *names]))

    def key_variables(self) -> list[str]:
        """Returns the names of the environment variables that may contain the API key."""
        return variable_names(self.api_key.get_secret_value()) if self.api_key is not None else [*self.api_key_env]

    def resolve(self) -> ResolvedEndpoint:
        """Reads the environment variables, and returns the URL, headers and API key of requests."""
        return ResolvedEndpoint(self, read_environment(self.variables()))

    def url_of(self, path: str) -> str:
        """Returns the URL for a path below the base URL. Environment variables appear as references, not as values."""
        return joined_url(shown_url(self.base_url), path)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if name in ("base_url", "turn_cache") and isinstance(value, str) else value


@lru_cache(maxsize=16)
def _catalogue_profile(name: str) -> Profile:
    return Profile.model_validate(catalogue_values(name))
