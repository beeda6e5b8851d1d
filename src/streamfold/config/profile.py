"""One provider's configuration: where it is and how it differs. Checked when made; keys are read when used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import date
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from ..adapters import Adapter, find_adapter
from ..net import redact
from ..requests import CAPABILITIES, Capabilities, ModelCapabilities, find_capabilities
from ..values import (
    ConfigError,
    Limits,
    NotConfiguredError,
    Timeouts,
    check_references,
    filled,
    in_words,
    referenced,
    shown_url,
)

__all__ = [
    "Profile",
    "laid_over",
    "validated",
    "variable_is_set",
]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASTED_KEY = re.compile(r"(?=.*[a-z])(?=.*\d).{20,}")  # as a name it would be printed
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of HTTP


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Profile(BaseModel):
    """One provider's configuration, effective and checked.

    Attributes:
        name: what errors and logs call it.
        adapter: the wire format, by its name.
        base_url: with its `/v1`.
        api_key: the key itself, or a reference to a variable; never in a file of the catalogue.
        api_key_env: variables that may hold the key, asked in this order when a request is made. Empty: no key needed.
        key_header: the header that the key goes into. In `Authorization` it has "Bearer" before it, in any other
            (Azure's `api-key`) it stands alone.
        model: the model that is asked where a call names none.
        dialect: how calls and reasoning in the text are read, for servers that hand them on as text.
        quirks: the typed quirks of the adapter, by name.
        headers: sent with every request.
        timeouts: how long to wait, in seconds: connect, first_event, read, stall, total.
        max_retries: how often a request that failed before its first chunk is sent again; 0 is never.
        limits: how much is read: event_bytes, arguments_chars, tool_calls, error_body_bytes.
        transport: what is under httpx: its own, or aiohttp, which takes a third of the work for each chunk (asyncio
            alone; the extra `aiohttp`).
        http2: whether HTTP/2 may be spoken where the server offers it (the extra `http2`; not over aiohttp). httpx does
            not tell the server of an answer that is given up there: it may go on writing, and charging.
        fallback: names of the providers to ask when this one fails: see `Fallback`.
        capabilities: what the models of this endpoint can do, as far as it is the same for all of them.
        models: what is different for some of them, by patterns of their names. Of all that fits a model the later
            counts before the earlier, key by key.
        docs: where the facts in a catalogue file come from.
        checked: the day on which they were looked up.

    `base_url`, `api_key`, `model` and the values of `headers` may have references to the environment, as in
    `"https://${GATEWAY}/v1"`. They are looked up when a request is made, and what they stand for is never shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str = "custom"
    adapter: str = "chat"
    base_url: str
    api_key: SecretStr | None = None
    api_key_env: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    key_header: str = "Authorization"
    model: str | None = None
    dialect: str | None = None
    quirks: dict[str, Any] = {}
    headers: dict[str, str] = Field(default={}, repr=False)  # their values are often secrets
    timeouts: Timeouts = Timeouts()
    max_retries: NonNegativeInt = 2
    limits: Limits = Limits()
    transport: Literal["httpx", "aiohttp"] = "httpx"
    http2: bool = False
    fallback: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    capabilities: Capabilities = Capabilities()
    models: tuple[ModelCapabilities, ...] = Field(default=(), repr=False)
    docs: str | None = None
    checked: date | None = None

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://", "${")):  # what a reference gives is checked when it is used
            raise ValueError("must begin with http:// or https://")
        return url.rstrip("/")

    @field_validator("base_url", "api_key", "model", "headers")
    @classmethod
    def _references_are_well_formed(cls, value: Any) -> Any:
        for text in value.values() if isinstance(value, dict) else [value]:
            check_references(text.get_secret_value() if isinstance(text, SecretStr) else text or "")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _are_variables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if any(_PASTED_KEY.fullmatch(name) or not _VARIABLE.fullmatch(name) for name in names):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return names

    @field_validator("key_header")
    @classmethod
    def _is_header(cls, name: str) -> str:
        if not _HEADER.fullmatch(name):
            raise ValueError('must be the name of a header, such as "api-key"')
        return name

    @field_validator("timeouts", "limits", mode="before")
    @classmethod
    def _known_fields(cls, value: Any, info: Any) -> Any:
        if isinstance(value, Mapping):
            known = (Timeouts if info.field_name == "timeouts" else Limits).__dataclass_fields__
            _refuse_unknown(value, known, f"provider {info.data.get('name', 'custom')!r}: {info.field_name}")
        return value

    def make_adapter(self) -> Adapter:
        """The adapter with this profile's quirks. Raises ConfigError for a quirk that it does not have."""
        try:
            kind = find_adapter(self.adapter)
        except ConfigError as exc:
            raise ConfigError(f"provider {self.name!r}: adapter: {exc}") from None
        quirks_type = getattr(kind, "Quirks", None)
        if quirks_type is None:
            if self.quirks:
                raise ConfigError(f"provider {self.name!r}: the adapter {self.adapter!r} has no quirks")
            return kind()
        _refuse_unknown(self.quirks, quirks_type.__dataclass_fields__, f"provider {self.name!r}: quirks")
        try:
            quirks = TypeAdapter(quirks_type).validate_python(self.quirks)
        except ValidationError as exc:
            raise ConfigError(f"provider {self.name!r}: quirks: {_problems(exc)}") from None
        return kind(quirks)  # type: ignore[call-arg]

    def capabilities_of(self, model: str | None) -> Capabilities:
        """What is known of a model at this endpoint; without one, of all of them."""
        return find_capabilities(self.capabilities, self.models, model or "")

    def models_with(self, capability: str) -> list[str]:
        """The models that are named as examples, and are known to have a capability."""
        names = dict.fromkeys(name for table in self.models for name in table.examples)
        return [name for name in names if self.capabilities_of(name).of(capability) == "yes"]

    def keys_set(self) -> dict[str, bool]:
        """The variables that may hold the key, and whether they are set. Never their values."""
        names = referenced(self.api_key.get_secret_value()) if self.api_key is not None else self.api_key_env
        return {variable: variable_is_set(variable) for variable in names}

    def key(self) -> str | None:
        """The API key, or None where none is needed. Raises ConfigError that names the variables to set."""
        if self.api_key is not None:
            return self._sendable("api_key", self._filled("api_key", self.api_key.get_secret_value()).strip())
        for variable in self.api_key_env:
            if variable_is_set(variable):
                return self._sendable(variable, os.environ[variable].strip())
        if self.api_key_env:
            raise NotConfiguredError(
                f'no API key for "{self.name}": set {" or ".join(self.api_key_env)}, or pass api_key='
            )
        return None

    def key_headers(self) -> dict[str, str]:
        """The header with the key; none where no key is needed. Raises ConfigError as `key` does."""
        key = self.key()
        if not key:
            return {}
        return {self.key_header: f"Bearer {key}" if self.key_header.lower() == "authorization" else key}

    def sent_url(self, path: str = "") -> str:
        """The URL of a path below the base URL, with the references in it looked up.

        Raises:
            ConfigError: something is not set, or what comes out is no URL.
        """
        url = self._filled("base_url", self.base_url)
        if not url.startswith(("http://", "https://")) or re.search(r"[\x00-\x20\x7f]", url):
            names = " and ".join(referenced(self.base_url))
            raise ConfigError(f'provider "{self.name}": base_url: what {names} gives is not an http:// or https:// URL')
        base, mark, query = url.partition("?")
        # A gateway's address may end with a slash.
        return _joined(re.sub(r"(?<=[^:/])//+", "/", base).rstrip("/") + mark + query, path)

    def url_of(self, path: str) -> str:
        """Returns the URL of a path below the base URL as it may be shown: references are not looked up."""
        return _joined(shown_url(self.base_url), path)

    def shown_url(self, url: str) -> str:
        """A URL that was made of the base URL, fit to be shown: without what came from the environment."""
        scheme, mark, rest = url.partition("://")
        return scheme + mark + shown_url("//" + redact(rest, self._url_secrets()))[2:]

    def sent_headers(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The headers with their references looked up, and those of one request on top of them.

        Raises:
            ConfigError: something is not set, or can't be sent.
        """
        headers = {
            name: self._sendable(f"headers.{name}", self._filled(f"headers.{name}", text))
            for name, text in self.headers.items()
        }
        return headers | {name: self._sendable(f"extra_headers: {name}", text) for name, text in (extra or {}).items()}

    def sent_model(self) -> str | None:
        """The model with its references looked up. Raises ConfigError for what is not set."""
        return None if self.model is None else self._filled("model", self.model)

    def secrets(self, extra_headers: Mapping[str, str] | None = None) -> list[str]:
        """What must never be shown, should a server echo it: the key, and all that comes from a variable."""
        found = [self.key() or "", *self._url_secrets()]
        for text in (self.model or "", *self.headers.values()):
            found += [os.environ.get(variable, "").strip() for variable in referenced(text)]
        for name, value in self.sent_headers(extra_headers).items():
            if _SECRET_HEADER.search(name):
                found += [value, value.split()[-1] if value.split() else ""]  # a "Bearer" before it is no secret
        return [secret for secret in dict.fromkeys(found) if secret]

    def _url_secrets(self) -> list[str]:
        found = []
        for variable in referenced(self.base_url):
            value = os.environ.get(variable, "").strip()
            rest = value.partition("://")[2].rstrip("/")  # of a whole URL the errors of a library quote parts
            found += [value, rest, rest.partition("/")[0], rest.partition("/")[2]]
        return found

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if name == "base_url" else value

    def _filled(self, key: str, text: str) -> str:
        def value_of(variable: str) -> str:
            if not variable_is_set(variable):
                raise NotConfiguredError(f'provider "{self.name}": {key}: {variable} is not set')
            return os.environ[variable].strip()

        return filled(text, value_of)

    def _sendable(self, key: str, value: str) -> str:
        # The HTTP library's own complaint would quote the value, in a spelling that no redaction finds.
        if not isinstance(value, str):
            raise ConfigError(f'provider "{self.name}": {key}: must be a text, not {type(value).__name__}')
        if not value.isascii() or not (value.isprintable() or not value):
            raise ConfigError(f'provider "{self.name}": {key}: has a character that a header can\'t carry')
        return value


def _joined(base_url: str, path: str) -> str:
    """Returns the URL of a path below a base URL. Both may have a query."""
    base, _, query = base_url.partition("?")
    path, _, more = path.partition("?")
    queries = "&".join(filter(None, (query, more)))
    return base + path + ("?" + queries if queries else "")


def variable_is_set(name: str) -> bool:
    """Whether an environment variable is there and not blank."""
    return bool(os.environ.get(name, "").strip())


def validated(values: Mapping[str, Any], where: str) -> Profile:
    """The profile of these values. Raises ConfigError that begins with `where`."""
    _refuse_unknown(values, Profile.model_fields, where)
    if "base_url" not in values:
        raise ConfigError(f'{where}: base_url must be given, unless it starts from the catalogue, as in profile="kimi"')
    if isinstance(said := values.get("capabilities"), Mapping):
        _refuse_unknown(said, dict.fromkeys(CAPABILITIES), f"{where}: capabilities")
    for at, table in enumerate(values["models"] if isinstance(values.get("models"), list | tuple) else ()):
        if isinstance(table, Mapping):
            _refuse_unknown(table, ModelCapabilities.__dataclass_fields__, f"{where}: models[{at}]")
    try:
        return Profile.model_validate(values)
    except ValidationError as exc:
        raise ConfigError(f"{where}: {_problems(exc)}") from None  # pydantic's own text quotes the input


def laid_over(clocks: Timeouts, said: Timeouts | Mapping[str, object] | None) -> Timeouts:
    """The clocks with what is said on top of them, key by key. Raises ConfigError for a clock that there is not."""
    if said is None or isinstance(said, Timeouts):
        return said or clocks
    if not isinstance(said, Mapping):
        raise ConfigError(f'timeouts is a Timeouts or a mapping such as {{"read": 5}}, not {type(said).__name__}')
    _refuse_unknown(said, Timeouts.__dataclass_fields__, "timeouts")
    try:
        return TypeAdapter(Timeouts).validate_python({**asdict(clocks), **said})
    except ValidationError as exc:
        raise ConfigError(f"timeouts: {_problems(exc)}") from None


def _refuse_unknown(values: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key in values:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"allowed are {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {key!r}: {hint}")


def _problems(exc: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {in_words(problem)}" for problem in exc.errors(include_input=False)
    )
