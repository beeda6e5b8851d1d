"""Lists a provider's settings with their sources, and the problems in a configuration. The output has no secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from ..errors import ConfigError
from ..requests import CAPABILITIES, ModelTable, Support, retirement_notice
from ..urls import shown_url, variable_names
from .environment import find_variable, variable_is_set
from .file import Config, build_profile, check_layers
from .layers import Layer, merge
from .profile import Profile
from .search_path import PROVIDER_VARIABLE
from .tables import Table
from .toml_positions import KeyPath, toml_path

_CREDENTIALS = {"sigv4": "AWS credentials", "google": "Google credentials", "entra": "Microsoft Entra ID"}
_URLS = (("base_url",), ("turn_cache",), ("rate_limits", "store"))  # these may contain a password
_HIDDEN = ("api_key_env", "capabilities", "models", *Profile.unlisted)


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One setting of a provider, for the command `config show`.

    Attributes:
        key: the key, as it appears in the file.
        shown: the value as TOML. For a secret, the text says only whether the secret is set, and which environment
            variable contains it.
        source: the place where the value is set, such as a file and a line.
    """

    key: str
    shown: str
    source: str


def describe_key(profile: Profile) -> str:
    """Returns a text that says whether the API key is set, and which environment variables may contain it. The text
    never contains the API key.
    """
    if keys := profile.resolve().keys_set:
        found = [variable for variable, is_set in keys.items() if is_set]
        if not found and (others := _CREDENTIALS.get(profile.auth)):
            return f"{others} (or {' or '.join(keys)})"
        return f"set ({found[0]})" if found else f"not set ({' or '.join(keys)})"
    return "set" if profile.api_key is not None else _CREDENTIALS.get(profile.auth, "none needed")


def abilities(profile: Profile) -> list[str]:
    """Returns descriptions of what all models of an endpoint support: capabilities, hosted tools and reported costs."""
    known = [(name.replace("_", " "), profile.capabilities.of(name)) for name in CAPABILITIES]
    words = [name if support == "yes" else f"no {name}" for name, support in known if support != "unknown"]
    words += [f"runs {kind.replace('_', ' ')}" for kind in profile.hosted or () if kind != "custom"]
    return [*words, "says its cost"] if profile.prices.get("reported") else words


def effective_values(config: Config, spec: str) -> list[EffectiveValue]:
    """Returns the settings that `Provider.from_config(spec)` uses, and the capabilities of its model.

    Raises:
        ConfigError: as for `Provider.from_config`.
    """
    layers = config.layers(spec)
    profile, merged = build_profile(layers), merge(layers)
    found = []
    for path, value in _leaves(profile):
        origin = merged.origin(path)
        source = origin[0].place(origin[1]) if origin else "default of streamfold"
        found.append(EffectiveValue(toml_path(path), _shown(path, value, profile), source))
    known = capability_values(config, spec)
    found += [EffectiveValue(f"capabilities.{name}", f'"{support}"', source) for name, support, source in known]
    if (model := _model(profile)) is not None:
        for name, value in profile.family_of(model).known().items():
            if name not in CAPABILITIES:
                written = _written(layers, profile, name, model)
                found.append(EffectiveValue(f"family.{name}", json.dumps(value, default=str), written))
    return found


def capability_values(config: Config, spec: str, model: str | None = None) -> list[tuple[str, Support, str]]:
    """Returns a model's known capabilities, each with its name, its value and its source.

    Args:
        model: the model's name. The default is the model in `spec`.

    Raises:
        ConfigError: as for `Provider.from_config`.
    """
    layers = config.layers(spec)
    profile = build_profile(layers)
    if model is None:
        model = _model(profile)
    known = profile.capabilities_of(model)
    return [(name, known.of(name), _written(layers, profile, name, model or "")) for name in CAPABILITIES]


def _model(profile: Profile) -> str | None:
    return None if profile.model is None or _unset(profile.model) else profile.resolve().model


def _written(layers: Sequence[Layer], profile: Profile, name: str, model: str) -> str:
    for layer in reversed(layers):
        for index, table in reversed(list(enumerate(layer.values.get("models", ())))):
            if name in table and ModelTable(table["pattern"]).fits(model):
                return layer.place(("models", index, name))
        if layer.has(("capabilities", name)):
            return layer.place(("capabilities", name))
    fact = "thinking" if name == "reasoning" else name
    for family in profile.families_of(model):
        if getattr(family, fact) is not None:
            return f"{family.place}, checked {family.checked}" if family.checked else family.place
    return "unknown source"


def _leaves(profile: Profile) -> Iterator[tuple[KeyPath, Any]]:
    for key in type(profile).model_fields:
        value = getattr(profile, key)
        if key in _HIDDEN or (key == "profile" and value is None):
            continue
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        if isinstance(value, Table):
            value = dict(value)
        if isinstance(value, Mapping):
            yield from (((key, part), inner) for part, inner in value.items())
        else:
            yield (key,), value


def _shown(path: KeyPath, value: Any, profile: Profile) -> str:
    if path == ("api_key",):
        return describe_key(profile)
    if path[0] == "headers":  # each value may be a secret
        return _state(value) or "set"
    if value is None:
        return "none"
    is_url = path in _URLS and isinstance(value, str)
    text = json.dumps(shown_url(value) if is_url else value, ensure_ascii=False, default=str)
    state = _state(value) if isinstance(value, str) and path in (*_URLS, ("model",)) else ""
    return f"{text}, {state}" if state else text


def _state(text: str) -> str:
    if unset := _unset(text):
        return f"not set ({', '.join(unset)})"
    names = variable_names(text)
    return f"set ({', '.join(names)})" if names else ""


def _unset(text: str) -> list[str]:
    return [name for name in variable_names(text) if not variable_is_set(name)]


def config_problems(config: Config) -> list[str]:
    """Returns one line for each problem in the file and in the environment variables, in the order of the file."""
    found = [*config.checked[1], *_file_problems(config)]
    for name in config.tables:
        found += _provider_problems(config, name)
    explored: set[str] = set()
    for name in config.tables:
        for owner, index, _, problem in config.fallbacks(name, explored=explored) if name not in explored else ():
            if problem is not None and config.file is not None:
                found.append(Layer.of_file(config.file, "providers", owner).mistake(("fallback", index), problem))
    lines = [text for _, text in sorted(dict.fromkeys(found), key=lambda problem: problem[0])]
    chosen = find_variable(PROVIDER_VARIABLE)
    if chosen and (problem := config.unknown(chosen)):
        lines.append(f"{PROVIDER_VARIABLE}: {problem}")
    return lines


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on costs that is set in the file.

    Attributes:
        place: the file, the line and the key where the budget is set.
        providers: the names of the providers to which the budget applies. Their prices must be known.
    """

    place: str
    providers: Sequence[str]


def configured_budgets(config: Config) -> list[Budget]:
    if config.file is None:
        return []
    layer = Layer.of_file(config.file)
    found: list[tuple[KeyPath, Sequence[str]]] = [
        (("providers", name, "max_cost_per_day"), [name])
        for name, table in config.tables.items()
        if table.get("max_cost_per_day") is not None
    ]
    for table_name, table in config.checked[0].package_tables():
        found += [((table_name, *path), providers) for path, providers in table.budgets(config.names)]
    return [Budget(f"{layer.place(path)}: {toml_path(path)}", providers) for path, providers in found]


def stores_in_process(config: Config) -> list[str]:
    """Returns the keys in the file that select a store in memory. Such a store loses its contents when the process
    ends.
    """
    settings = config.checked[0]
    found = [
        toml_path((name, key))
        for name, table in settings.package_tables()
        for key in table.store_keys
        if getattr(table, key) in (True, "memory")
    ]
    counted = settings.rate_limits.store == "memory" and configured_budgets(config)
    return [*(["rate_limits.store"] if counted else ()), *found]


def retiring_models(config: Config, days: int) -> list[str]:
    """Returns a line for each model in the file that its provider has retired, or will retire within this number of
    days.
    """
    found, specs = [], list(config.names)
    for spec in specs:  # the loop adds the fallbacks
        try:
            profile = config.profile(spec)
            model = profile.resolve().model
        except ConfigError:  # reported by `config_problems`
            continue
        specs += [name for name in profile.fallback if name not in specs]
        if model is not None and (notice := retirement_notice(model, profile.family_of(model), days)) is not None:
            found.append(f"{spec}: {notice}")
    return found


def _file_problems(config: Config) -> Iterator[tuple[int, str]]:
    if config.file is None:
        return
    layer, file = Layer.of_file(config.file), config.checked[0]
    default = config.file.data.get("default")
    if isinstance(default, str) and (text := config.unknown(default)):
        yield layer.mistake(("default",), text)
    for name, table in file.package_tables():
        for path, text in table.problems(config.unknown):
            yield layer.mistake((name, *path), text)


def _provider_problems(config: Config, name: str) -> Iterator[tuple[int, str]]:
    layers = config.file_layers(name)
    profile, mistakes = check_layers(layers)
    yield from mistakes
    if profile is None:
        return
    missing: list[tuple[KeyPath, str]] = []
    keys = profile.resolve().keys_set
    if keys and not any(keys.values()) and profile.auth == "key":
        missing.append((("api_key",), f"no API key: set {' or '.join(keys)}"))
    for path, text in profile.references().items():
        if path != ("api_key",):
            missing += [(path, f"{variable} is not set") for variable in _unset(text)]
    if not missing and profile.untrusted_file is not None and (problem := profile.resolve().problem()) is not None:
        missing.append((("base_url",), problem))
    merged = merge(layers)
    yield from (merged.locate(path, text) for path, text in missing)
