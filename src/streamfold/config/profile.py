"""The settings of one provider: keys, their types for type checkers, and their checks. No environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypedDict

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

from ..adapters import find_adapter
from ..adapters.batches import BatchSettings
from ..engine.dialects import DialectContext, find_dialect
from ..errors import ConfigError, allowed_values_hint
from ..requests import (
    CAPABILITIES,
    HEADER_NAME,
    NO_OPTIONS,
    OPTION_SYNONYMS,
    Capabilities,
    ChatOptions,
    ModelTable,
    Options,
    header_name_problem,
)
from ..types import Limits, Timeouts
from ..urls import check_references, shown_url, variable_names
from .catalogue import catalogue_values, provider_files
from .endpoint import ResolvedEndpoint, check_url, joined_url, normalized_url
from .environment import read_environment
from .model_facts import EndpointModels, check_models, read_prices, read_quirks
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

if TYPE_CHECKING:
    from pydantic import SecretStr

    from ..requests import Support, TimeoutOptions


POSITIVE = Field(gt=0)


def read_timeouts(value: Any) -> Any:
    """Returns the `Timeouts` of a table. `inf` switches one off, because TOML has no null."""
    if isinstance(value, Timeouts):
        value = asdict(value)
    if isinstance(value, Mapping):
        value = {name: None if seconds == float("inf") else seconds for name, seconds in value.items()}
    return read_table(Timeouts, value, POSITIVE)


def timeouts_over(configured: Timeouts, given: Timeouts | Mapping[str, object] | None) -> Timeouts:
    """Returns the timeouts of a request: a `Timeouts` replaces the configured ones, a mapping some of them.

    Raises:
        ConfigError: an unknown timeout, or a value that is not greater than 0.
    """
    if given is None:
        return configured
    if not isinstance(given, Timeouts | Mapping):
        raise ConfigError(f'timeouts must be a Timeouts or a mapping such as {{"read": 5}}, not {type(given).__name__}')
    members = asdict(given) if isinstance(given, Timeouts) else given
    numbers = all(isinstance(value, float | int | None) for value in members.values())
    read = _over if numbers else _over.__wrapped__  # other values may have no hash, and are mistakes
    try:
        return read(configured, tuple(members), *members.values())
    except ValidationError as exc:
        path, text = validation_errors(exc)[0]
        raise ConfigError(f"{toml_path(('timeouts', *path))}: {text}") from None


@lru_cache(maxsize=64, typed=True)
def _over(configured: Timeouts, names: tuple[str, ...], *seconds: object) -> Timeouts:
    """Reads the timeouts once that many requests have in common."""
    timeouts: Timeouts = read_timeouts({**asdict(configured), **dict(zip(names, seconds, strict=True))})
    return timeouts


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


# Names that other libraries have for a key.
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
_PASTED_KEY = re.compile(r"(?=.*[a-z])(?=.*\d).{20,}")  # as a name it would be printed


def _check_profile_name(name: str) -> None:
    if name not in (files := provider_files()):
        raise ValueError(f"unknown profile {name!r}{allowed_values_hint(name, files)}")


def _is_url(url: str) -> None:
    if not url.startswith("${") and not variable_names(url):  # else it is checked when the variables are read
        check_url(url)
    elif not url.startswith(("http://", "https://", "${")):
        raise ValueError("must begin with http:// or https://")


def _without_slash(url: str) -> str:
    return url.rstrip("/")


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


class Profile(EndpointModels, Table):
    """The settings of one provider, merged from all places and checked.

    Attributes:
        name: name of the provider in errors and logs.
        profile: the provider of the catalogue that these settings start from.
        adapter: wire format of the endpoint.
        base_url: URL of the API, with its `/v1`.
        api_key: the key itself, or a reference to a variable.
        api_key_env: environment variables that may hold the key; the first that is set is used. Empty: no key
            is needed.
        key_header: header that carries the key. `Authorization` gets "Bearer" before it; other headers, such as Azure's
            `api-key`, carry the key alone.
        auth: how requests are authenticated if no key is set. "key": a key is required, if `api_key_env` names any;
            "sigv4": each request is signed with AWS credentials, found as the AWS tools find them (extra `bedrock`);
            "google": with an access token of Google's application default credentials (extra `vertex`); "entra": with
            one of Microsoft Entra ID, by the chain of credentials that Azure's tools use (extra `azure`).
        auth_scope: what these credentials are for, if it isn't the default: the scope of a token; for "sigv4" the name
            of the service, such as "bedrock-mantle".
        api: for endpoints that have both Chat Completions and the Responses API. "auto": Chat Completions, and the
            Responses API for models that accept no tools on the other one, or are served there alone, at the maker's
            own address; "chat" or "responses": always that one. Default: the one of `adapter`; if it isn't pinned, a
            model that the server says it serves on the other one alone is called there, with a warning. `quirks` only
            count for the API of `adapter`.
        other_api: in the catalogue, the provider that is the other one of these two APIs at the same endpoint. Its
            quirks and `hosted` count for models that are called there.
        issuer: name of the maker of the answers, if several endpoints share it: what only they can read (such as
            signed thinking) may be sent to any of them. Default: the adapter and the base URL.
        model: default model.
        model_family: name of the model whose facts hold for `model`, if that is the name of a deployment.
        families: file with facts about models, `[[families]]`, which win over those of the catalogue. Default:
            `families.toml` in the user's directory, if there is one.
        dialect: format of tool calls and reasoning inside the text, for servers that don't parse them.
        escape_special_tokens: send special tokens in messages of users and in results of tools so that the model's
            tokenizer reads them as text (with a word joiner, U+2060, in them), with a warning. These are the tokens of
            the dialect's models; and, if the endpoint renders templates, those of the model.
        renders_templates: the endpoint renders the model's chat template over the texts that it is sent, so that
            special tokens in them become real (inference servers that you run do).
        quirks: differences of the endpoint, as typed settings of the adapter.
        headers: headers of every request.
        options: default options of every request, such as `temperature`; options of a call win over them.
        unsupported_options: what happens to an option that the model or endpoint doesn't support. "adapt": it is
            translated, clamped, emulated or left out, each with a warning; "strict": it is an error.
        extra_body: additional members of the JSON body of every request.
        timeouts: seconds to wait: connect, first_event, read, stall, total; `inf` for no limit.
        max_retries: how often a request that failed before its first chunk is sent again; 0: never.
        max_continuations: how many further requests an answer may take; see `ChatOptions`.
        limits: how much of an answer is accepted before it is an error.
        coalesce: whether text that arrived in one read of the network is one chunk; false: a chunk for each event.
        transport: what sends the requests: "httpx", "aiohttp" (asyncio only; extra `aiohttp`), "httpx2" (extra
            `httpx2`), or "websocket": answers of the Responses API over WebSockets (extra `websocket`).
        http2: use HTTP/2 if the server offers it (extra `http2`; not with aiohttp). With httpx, a server isn't told
            that an answer was cancelled: it may continue to generate, and charge for it.
        rpm: requests per minute, evenly spread; see `RateLimiter`. The limits hold for all providers with the same base
            URL and key.
        tpm: tokens per minute, of input and output together.
        max_concurrent: requests at once.
        max_cost_per_day: money that may be spent in a day (UTC), in the currency of the prices.
        rate_limits: where limits are counted; default: the table `[rate_limits]`.
        fallback: providers to call when this one fails; see `Fallback`.
        turn_cache: where turns are stored to restore what later requests have lost of them: "memory",
            "sqlite:///turns.db", "valkey://host:6379"; see `TurnCache`.
        capabilities: features of all models of this endpoint.
        hosted: the tools that this endpoint runs itself, by kind: "web_search", "web_fetch", "code_execution",
            "file_search", "mcp", "custom". None: unknown, so that all of its wire format are sent.
        prices: prices of all models of this endpoint, as in `Prices`: `{input = 3, output = 15}` for a million tokens.
            `models` may have other ones.
        batches: what the provider's batch API accepts: `rows` and `bytes` of a batch, `window` and `purpose`.
        models: facts about some of the models, by pattern of their name. They win over those of the models' families;
            of the tables that fit a model, later ones win over earlier ones, key by key.
        docs: documentation that the facts of a catalogue file come from.
        checked: date on which they were looked up.
        evidence: what they are based on. "recorded": answers of the endpoint, which are fixtures; "documented": the
            maker's pages; "reported": other people's programs and reports. Default in the catalogue: "documented".
        untrusted_file: the file that chooses the host and is not trusted: see `without_environment`.

    `base_url`, `api_key`, `model`, `turn_cache` and the values of `headers` may refer to environment variables, as in
    `"https://${GATEWAY}/v1"`. Variables are read when a request is made, and their values are never shown.
    """

    unlisted = ("name", "docs", "checked", "evidence", "other_api", "untrusted_file")
    required = {"base_url": 'required, unless the settings start from the catalogue, as with profile = "kimi"'}  # noqa: RUF012

    @classmethod
    def unknown_key(cls, key: str, value: Any) -> str:
        """Returns the error for an unknown key: the replacement for a call option or another name."""
        if key in _SYNONYMS:
            return f"unknown key (did you mean {_SYNONYMS[key]!r}?)"
        option = OPTION_SYNONYMS.get(key, key)
        if option in cls.model_fields:
            return f"unknown key (did you mean {option!r}?)"
        if option in ChatOptions.__annotations__:
            return f'an option of calls: write options = {{"{option}": ...}}'
        return super().unknown_key(key, value)

    name: str = "custom"
    profile: Annotated[str, validated_by(_check_profile_name)] | None = None
    adapter: Annotated[str, validated_by(find_adapter)] = "chat"
    base_url: Annotated[
        str,
        BeforeValidator(normalized_url),
        validated_by(check_references),
        validated_by(_is_url),
        AfterValidator(_without_slash),
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
        if "adapter" in info.data:  # else that is the mistake
            read_quirks(info.data["adapter"], quirks)
        return quirks

    @field_validator("transport")
    @classmethod
    def _has_websockets(cls, transport: str, info: ValidationInfo) -> str:
        if transport == "websocket" and info.data.get("adapter", "responses") != "responses":
            raise ValueError('only the Responses API has WebSockets: set adapter = "responses"')
        if transport == "websocket" and info.data.get("auth") == "sigv4":
            raise ValueError("AWS signs each request, and a WebSocket has many: use another transport")
        return transport

    @field_validator("models")
    @classmethod
    def _tables_of_models_fit(cls, models: tuple[ModelTable, ...], info: ValidationInfo) -> tuple[ModelTable, ...]:
        check_models(models, info.data.get("adapter"))
        return models

    def default_options(self) -> Options:
        """Returns the configured options; `NO_OPTIONS` if there are none."""
        options = Options.read(self.options)
        if self.unsupported_options != "adapt":
            options = replace(options, unsupported_options=self.unsupported_options)
        options = replace(options, extra_body={**self.extra_body, **options.extra_body})
        return NO_OPTIONS if options == NO_OPTIONS else options

    def on_api(self, api: str) -> Self:
        """Returns the settings for calls of Chat Completions or the Responses API at the same endpoint."""
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
        """Returns the other API of the endpoint, by its adapter's name, if tools of a kind are run there."""
        if self.other_api is None:
            return None
        other = _catalogue_profile(self.other_api)
        return other.adapter if kind in (other.hosted or ()) else None

    def without_environment(self, file: str) -> Self:
        """Returns the profile with an untrusted file that chooses the host: no variable or account is used for it."""
        return self.model_copy(update={"untrusted_file": file})

    def references(self) -> dict[KeyPath, str]:
        """Returns the parts of a request that may refer to variables, by their path; nothing else is expanded."""
        key = None if self.api_key is None else self.api_key.get_secret_value()
        texts: dict[KeyPath, str | None] = {("base_url",): self.base_url, ("api_key",): key, ("model",): self.model}
        texts |= {("headers", name): text for name, text in self.headers.items()}
        return {path: text for path, text in texts.items() if text is not None}

    def variables(self) -> list[str]:
        """Returns the names of all variables that are read when a request is made."""
        names = [name for text in self.references().values() for name in variable_names(text)]
        return list(dict.fromkeys([*self.key_variables(), *names]))

    def key_variables(self) -> list[str]:
        """Returns the names of the variables that may hold the key."""
        return variable_names(self.api_key.get_secret_value()) if self.api_key is not None else [*self.api_key_env]

    def resolve(self) -> ResolvedEndpoint:
        """Returns the endpoint with the values that environment variables have now."""
        return ResolvedEndpoint(self, read_environment(self.variables()))

    def url_of(self, path: str) -> str:
        """Returns the URL of a path below the base URL, with references instead of the values of variables."""
        return joined_url(shown_url(self.base_url), path)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if name in ("base_url", "turn_cache") and isinstance(value, str) else value


@lru_cache(maxsize=16)
def _catalogue_profile(name: str) -> Profile:
    return Profile.model_validate(catalogue_values(name))
