"""Where a provider is and how it differs: the catalogue in `providers/*.toml`, and what a caller puts on top of it.

The catalogue is data. A new endpoint is a new file and no code; a difference that needs code is a step of an adapter,
switched by a typed quirk.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from .adapters import Adapter, find_adapter
from .errors import ConfigError
from .types import Limits, Timeouts

__all__ = ["Profile", "catalogue", "catalogue_folder", "read_profile"]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Profile(BaseModel):
    """One provider's configuration, effective and checked.

    Attributes:
        name: what errors and logs call it.
        base_url: with its `/v1`.
        api_key_env: variables that may hold the key, asked in this order when a request is made. Empty: no key needed.
        quirks: the typed quirks of the adapter, by name.
        headers: sent with every request.
        max_retries: how often a request that failed before its first chunk is sent again; 0 is never.
        docs: where the facts in a catalogue file come from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str = "custom"
    adapter: str = "chat"
    base_url: str
    api_key: SecretStr | None = None
    api_key_env: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    model: str | None = None
    dialect: str | None = None
    quirks: dict[str, Any] = {}
    headers: dict[str, str] = {}
    timeouts: Timeouts = Timeouts()
    max_retries: NonNegativeInt = 2
    limits: Limits = Limits()
    transport: Literal["httpx", "aiohttp"] = "httpx"
    docs: str | None = None

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return url.rstrip("/")

    @field_validator("timeouts", "limits", mode="before")
    @classmethod
    def _known_fields(cls, value: Any, info: Any) -> Any:
        if isinstance(value, Mapping):
            known = (Timeouts if info.field_name == "timeouts" else Limits).__dataclass_fields__
            _refuse_unknown(value, known, info.field_name)
        return value

    def make_adapter(self) -> Adapter:
        """The adapter with this profile's quirks. Raises ConfigError for a quirk that it does not have."""
        kind = find_adapter(self.adapter)
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

    def keys_set(self) -> dict[str, bool]:
        """The variables that may hold the key, and whether they are set. Never their values."""
        return {variable: bool(os.environ.get(variable, "").strip()) for variable in self.api_key_env}

    def key(self) -> str | None:
        """The API key, or None where none is needed. Raises ConfigError that names the variables to set."""
        if self.api_key is not None:
            return self.api_key.get_secret_value().strip()
        for variable in self.api_key_env:
            if value := os.environ.get(variable, "").strip():
                return value
        if self.api_key_env:
            raise ConfigError(f'no API key for "{self.name}": set {" or ".join(self.api_key_env)}, or pass api_key=')
        return None


def catalogue_folder() -> Path:
    """Where the provider files are: inside the package when installed, beside `src` in a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "providers", here.parent.parent / "providers"):
        if folder.is_dir():
            return folder
    raise ConfigError(f"the provider files are missing: neither beside {here} nor inside it; install the package again")


@cache
def catalogue() -> dict[str, Path]:
    """The provider files by name."""
    return {path.stem: path for path in sorted(catalogue_folder().glob("*.toml"))}


def read_profile(spec: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Profile:
    """The effective profile of `"name"`, `"name:model"` or a mapping, with `overrides` on top.

    A mapping may start from the catalogue with the key `profile`.

    Raises:
        ConfigError: an unknown name or key, or a value that does not fit; the message says what is allowed.
    """
    if isinstance(spec, str):
        name, _, model = spec.partition(":")
        written: dict[str, Any] = {"model": model} if model else {}
        base, where = _from_catalogue(name), f"provider {name!r}"
    else:
        written = dict(spec)
        name = written.pop("profile", None)
        base = _from_catalogue(name) if name else {}
        where = f"provider {written.get('name') or name or 'custom'!r}"
    written.update({key: value for key, value in (overrides or {}).items() if value is not None})
    if written.get("adapter", base.get("adapter", "chat")) != base.get("adapter", "chat"):
        base.pop("quirks", None)  # they are of the adapter that the catalogue names
    values = {**base, **written}
    return _validated(values, where)


def _from_catalogue(name: str) -> dict[str, Any]:
    files = catalogue()
    if name not in files:
        close = get_close_matches(name, files, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ConfigError(f"unknown provider {name!r}{hint}: the catalogue has {', '.join(files)}")
    path = files[name]
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path}: not TOML: {exc}") from exc
    _validated(values, str(path))
    return {"name": name, **values}


def _validated(values: Mapping[str, Any], where: str) -> Profile:
    _refuse_unknown(values, Profile.model_fields, where)
    try:
        return Profile.model_validate(values)
    except ValidationError as exc:
        raise ConfigError(f"{where}: {_problems(exc)}") from None  # pydantic's own text quotes the input


def _refuse_unknown(values: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key in values:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"allowed are {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {key!r}: {hint}")


def _problems(exc: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in exc.errors(include_input=False)
    )
