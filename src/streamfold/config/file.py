"""What `streamfold.toml` may say, and what is wrong with one that says something else.

The texts of problems name the key and what is allowed, and never quote a value that may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    TypeAdapter,
    ValidationError,
    create_model,
)

from ..adapters import find_adapter
from ..engine.dialects import DialectContext, find_dialect
from ..requests import CAPABILITIES, Support
from ..values import ConfigError, nearest
from .catalogue import catalogue_values, layered, provider_files
from .gateway import GatewaySettings
from .profile import Profile
from .tomltext import KeyPath, spelled

__all__ = ["Problem", "allowed", "file_problems", "nearest", "provider_problems", "read_settings"]


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that can't be used: its key, and what is allowed there."""

    path: KeyPath
    text: str

    def __str__(self) -> str:
        return f"{spelled(self.path)}: {self.text}"


def allowed(word: str, words: Iterable[str]) -> str:
    """The end of a message about a word that is not one of these.

    >>> allowed("chatt", ["chat", "kimi"])
    " (did you mean 'chat'?): allowed are chat, kimi"
    """
    words = list(words)
    return f"{nearest(word, words)}: allowed are {', '.join(words) or 'none'}"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)  # most programs have no such file


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_Names = Annotated[list[str], BeforeValidator(_as_list)]


class _Timeouts(_Strict):
    connect: float = 0
    first_event: float = 0
    read: float = 0
    stall: float = 0
    total: float = 0


class _Limits(_Strict):
    event_bytes: int = 0
    arguments_chars: int = 0
    tool_calls: int = 0
    error_body_bytes: int = 0


_SUPPORTS: dict[str, Any] = dict.fromkeys(CAPABILITIES, (Support, "unknown"))
_Capabilities = create_model("_Capabilities", __base__=_Strict, **_SUPPORTS)
_Models = create_model("_Models", __base__=_Strict, pattern=(str, ...), examples=(list[str], []), **_SUPPORTS)


class _Provider(_Strict):
    profile: str = ""
    adapter: str = ""
    base_url: str = ""
    api_key: str = ""
    api_key_env: _Names = []
    key_header: str = ""
    model: str = ""
    dialect: str = ""
    quirks: dict[str, Any] = {}
    headers: dict[str, str] = {}
    timeouts: _Timeouts = _Timeouts()
    max_retries: NonNegativeInt = 0
    limits: _Limits = _Limits()
    transport: Literal["httpx", "aiohttp"] = "httpx"
    http2: bool = False
    fallback: _Names = []
    capabilities: _Capabilities = _Capabilities()  # type: ignore[valid-type]
    models: list[_Models] = []  # type: ignore[valid-type]


class _File(_Strict):
    default: str = ""
    providers: dict[str, dict[str, Any]] = {}
    gateway: GatewaySettings = GatewaySettings()


_SAYS = {
    "string_type": "must be a text in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "int_parsing": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must not be less than {ge}",
    "less_than_equal": "must not be more than {le}",
    "missing": "must be written",
}


def file_problems(data: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the file as a whole, whichever provider is asked for."""
    found = []
    for problem in _problems(_File, data, ()):
        key = str(problem.path[0])
        if key not in _File.model_fields and isinstance(data[key], Mapping) and not nearest(key, _File.model_fields):
            problem = Problem((key,), f"{problem.text}; a provider is written as [{spelled(('providers', key))}]")
        found.append(problem)
    tables = data.get("providers")
    for name in tables if isinstance(tables, Mapping) else ():
        if not re.fullmatch(r"[^\s:]+", name):
            found.append(
                Problem(("providers", name), "a name has no blanks, and no colon: one divides it from a model")
            )
    return found


def read_settings(model: type[M], values: Mapping[str, Any]) -> M:
    """Validates settings that do not come from a file. Raises ConfigError for the first mistake."""
    for problem in _problems(model, values, ()):
        raise ConfigError(f"gateway: {problem}")
    return model.model_validate(values)


def provider_problems(name: str, table: Mapping[str, Any], overrides: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with one provider of a file, by itself, if `overrides` are put on top of it."""
    place: KeyPath = ("providers", name)
    found = _problems(_Provider, table, place)
    start = table.get("profile")
    if isinstance(start, str) and start not in provider_files():
        text = f"unknown profile {start!r}{allowed(start, provider_files())}"
        return [*found, Problem((*place, "profile"), text)]
    base = catalogue_values(start) if isinstance(start, str) else {}
    values = layered(layered(base, {key: value for key, value in table.items() if key != "profile"}), overrides)
    if "base_url" not in values and not any(nearest(key, ["base_url"]) for key in table):  # the misspelling is told
        text = f'must be written, unless the table starts from the catalogue: profile = "{_start(name)}"'
        found.append(Problem((*place, "base_url"), text))
    if not found:
        found = _problems(Profile, {**values, "name": name}, place)
    return found + _named_problems(values, place)


def _start(name: str) -> str:
    return name if name in provider_files() else "kimi"


def _named_problems(values: Mapping[str, Any], place: KeyPath) -> list[Problem]:
    """What is wrong with the names of adapter, quirks and dialect. Values of a wrong type are told elsewhere."""
    found = []
    adapter, quirks, dialect = values.get("adapter", "chat"), values.get("quirks", {}), values.get("dialect")
    try:
        if isinstance(adapter, str) and isinstance(quirks, Mapping):
            found += _quirk_problems(find_adapter(adapter), adapter, quirks, (*place, "quirks"))
    except ConfigError as exc:
        found.append(Problem((*place, "adapter"), str(exc)))
    try:
        if isinstance(dialect, str):
            find_dialect(dialect, DialectContext())
    except ConfigError as exc:
        found.append(Problem((*place, "dialect"), str(exc)))
    return found


def _quirk_problems(adapter: Any, name: str, quirks: Mapping[str, Any], place: KeyPath) -> list[Problem]:
    kind = getattr(adapter, "Quirks", None)
    if kind is None:
        return [Problem(place, f"the adapter {name!r} has no quirks")] if quirks else []
    known = kind.__dataclass_fields__
    unknown = [Problem((*place, key), f"unknown key{allowed(key, known)}") for key in quirks if key not in known]
    try:
        TypeAdapter(kind).validate_python({key: value for key, value in quirks.items() if key in known})
    except ValidationError as exc:
        return unknown + [_problem(error, quirks, place, known) for error in _errors(exc)]
    return unknown


def _problems(model: type[BaseModel], values: Mapping[str, Any], place: KeyPath) -> list[Problem]:
    try:
        model.model_validate(values)
    except ValidationError as exc:
        return [_problem(error, values, place, _fields(model, error["loc"][:-1])) for error in _errors(exc)]
    return []


def _errors(exc: ValidationError) -> list[Any]:
    return list(exc.errors(include_input=False, include_url=False))


def _fields(model: type[BaseModel], parents: KeyPath) -> Iterable[str]:
    """The keys that are allowed in a table, by the path to it."""
    for part in parents:
        if isinstance(part, int):
            continue  # of a list, whose tables are all alike
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        inner = next(iter(get_args(inner)), inner)
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return model.model_fields


def _problem(error: Any, values: Mapping[str, Any], place: KeyPath, known: Iterable[str]) -> Problem:
    path: KeyPath = (*place, *error["loc"])
    match error["type"]:
        case "extra_forbidden":
            text = f"unknown key{allowed(str(path[-1]), known)}"
        case "literal_error":
            written: Any = values
            for part in error["loc"]:
                written = written[part]
            text = f"can't be {written!r}{allowed(str(written), _choices(error))}"
        case "value_error":
            text = str(error["ctx"]["error"])
        case kind:
            text = _SAYS.get(kind, error["msg"]).format(**error.get("ctx", {}))
    return Problem(path, text)


def _choices(error: Any) -> list[str]:
    return re.findall(r"'([^']*)'", error["ctx"]["expected"])
