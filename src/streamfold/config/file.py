"""Reads `streamfold.toml`: the providers and their fallbacks, the default provider, and tables of other packages.

streamfold reads the first of these files that exists: the path that the caller passed, the path in
`STREAMFOLD_CONFIG`, `streamfold.toml` in the working directory, and `streamfold.toml` in the user's configuration
directory. streamfold reads the file when the program creates a provider, never at import. It validates only the tables
of providers that the program uses. The command `streamfold config check` validates all tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationError, create_model

from ..errors import ConfigError, allowed_values_hint, did_you_mean
from ..urls import variable_names
from .catalogue import catalogue_layers, provider_files
from .endpoint import same_origin, untrusted
from .environment import find_variable
from .layers import Layer, TomlFile, locate_errors, merge
from .profile import Profile
from .search_path import PROVIDER_VARIABLE, Location, read_file, search_locations
from .store_settings import RateLimitSettings
from .tables import Table, validated_by
from .toml_positions import KeyPath, toml_path

P = TypeVar("P", bound="PackageTable")
T = TypeVar("T", bound=Table)

_SHARED_KEYS = ("rate_limits", "families")
_PACKAGES = {"gateway": "streamfold-gateway"}  # the tables of this project's other distributions


class PackageTable(Table):
    """Base class for the table of another package in `streamfold.toml`.

    The package registers its class as an entry point. The name of the entry point is the table's name: `gateway =
    "package.module:Settings"`.
    """

    store_keys: ClassVar[tuple[str, ...]] = ()
    """The keys of this table whose values are URLs of stores. In an untrusted file, these URLs must not contain
    environment variables.
    """

    def problems(self, unknown: Callable[[str], str | None]) -> Iterator[tuple[KeyPath, str]]:
        """Yields additional problems for `streamfold config check` to report, each as the path of a key and a message.

        Args:
            unknown: a function that returns an error message for an unknown provider name, or None for a known name.
        """
        yield from ()

    def budgets(self, providers: Sequence[str]) -> Iterator[tuple[KeyPath, Sequence[str]]]:
        """Yields a pair for each budget in the table: the path of the budget's key, and the names of the providers
        that the budget limits. The prices of these providers must be known.

        Args:
            providers: the names of all providers in the file.
        """
        yield from ()


def find_table(name: str) -> type[PackageTable] | None:
    """Returns the class for another package's table, or None if no installed package defines the table.

    Raises:
        ConfigError: the class can't be imported.
    """
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    for entry in entry_points(group="streamfold.tables", name=name):
        try:
            model: type[PackageTable] = entry.load()
        except Exception as exc:  # whatever the other package raises
            raise ConfigError(f"table [{name}] ({entry.value}) can't be imported: {exc!r}") from exc
        return model
    return None


def table_names() -> list[str]:
    """Returns the names of the tables that other packages define. Includes this project's packages, even if they aren't
    installed.
    """
    from importlib.metadata import entry_points

    return sorted({*_PACKAGES, *entry_points(group="streamfold.tables").names})


def _name(name: str) -> None:
    if not re.fullmatch(r"[^\s:]+", name):
        raise ValueError(
            "the name of a provider must not contain spaces or colons: a colon separates the name from a model"
        )


class FileSettings(Table):
    """The contents of `streamfold.toml`, without other packages' tables. Providers' tables are validated later, when
    the provider is used.
    """

    default: str = ""
    families: str | None = None
    providers: dict[Annotated[str, validated_by(_name)], dict[str, Any]] = Field(default={})
    rate_limits: RateLimitSettings = Field(default_factory=RateLimitSettings)

    @classmethod
    def unknown_key(cls, key: str, value: Any) -> str:
        """Returns the error message for an unknown key. For a table, the message suggests `[providers.KEY]`."""
        if package := _PACKAGES.get(key):
            return f"this table is for a package that is not installed: pip install {package}"
        names = [*FileSettings.model_fields, *table_names()]
        text = f"unknown key{allowed_values_hint(key, names)}"
        if isinstance(value, Mapping) and not did_you_mean(key, names):
            return f"{text}. A provider is written as [{toml_path(('providers', key))}]"
        return text

    def package_tables(self) -> Iterator[tuple[str, PackageTable]]:
        yield from ((name, value) for name, value in self if isinstance(value, PackageTable))


@dataclass(frozen=True)
class Config:
    """The contents of `streamfold.toml`. If there is no file, only the providers of the catalogue are available.

    Attributes:
        file: the file that streamfold read, or None if there is no file.
        looked_in: the paths at which streamfold looked for a file.
    """

    file: TomlFile | None = None
    looked_in: tuple[Location, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Pickles only the file and the search paths. pydantic models that were created at run time can't be
        pickled.
        """
        return {"file": self.file, "looked_in": self.looked_in}

    @property
    def path(self) -> str | None:
        """The path of the file, or None if there is no file."""
        return self.file.origin if self.file else None

    @property
    def names(self) -> list[str]:
        """The names of the providers in the file."""
        return list(self.tables)

    def default(self) -> tuple[str, str]:
        """Returns the name of the default provider, and the place where the name is set. Raises ConfigError if there is
        no default provider.
        """
        if chosen := find_variable(PROVIDER_VARIABLE):
            where = origin = PROVIDER_VARIABLE
        else:
            chosen = self._settings().default
            if not chosen or self.file is None:
                example = next(iter(self.names), "kimi:kimi-k2.6")
                file = self.path or " or ".join(str(place.path) for place in self.looked_in)
                raise ConfigError(
                    f'no provider was named: pass one (commands: -p {example}), write default = "{example}" into'
                    f" {file}, or set {PROVIDER_VARIABLE}={example}"
                )
            origin = self.file.place(("default",))
            where = f"{origin}: default"
        if text := self.unknown(chosen):
            raise ConfigError(f"{where}: {text}")
        return chosen, origin

    def layers(self, spec: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> list[Layer]:
        """Returns a provider's settings as layers that aren't validated yet. Later layers take precedence.

        Args:
            spec: `"NAME"`, `"NAME:MODEL"` or a mapping. streamfold looks up a name in the file, then in the catalogue.
            overrides: settings that take precedence over all layers. A value of None is ignored.

        Raises:
            ConfigError: no provider has this name.
        """
        if isinstance(spec, str):
            if self.file is not None:
                self._settings()
            name, _, model = spec.partition(":")
            own = self._own_layers(name)
            own += [Layer({"model": model}, "the requested name")] if model else []
            shared = self._shared_layers()
        else:
            name = spec.get("name") or spec.get("profile") or "custom"
            own, shared = [Layer(spec, f"provider {name!r}")], []
        given = {key: value for key, value in (overrides or {}).items() if value is not None}
        own.append(Layer(given, f"provider {name!r}"))
        return [Layer({"name": name}, ""), *shared, *_with_base_profile(own)]

    def file_layers(self, name: str) -> list[Layer]:
        """Returns the layers for a provider that is in the file. See `layers`."""
        return [Layer({"name": name}, ""), *self._shared_layers(), *_with_base_profile(self._own_layers(name))]

    def _shared_layers(self) -> list[Layer]:
        data = self.file.data if self.file else {}
        return [Layer({key: data[key]}, self.file.place((key,))) for key in _SHARED_KEYS if self.file and key in data]

    def _own_layers(self, name: str) -> list[Layer]:
        if self.file is not None and name in self.tables:
            return [Layer.of_file(self.file, "providers", name)]
        if text := self.unknown(name):
            raise ConfigError(text)
        return catalogue_layers(name)

    def profile(self, spec: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Profile:
        """Returns the validated settings of one provider.

        Args:
            spec: `"NAME"`, `"NAME:MODEL"` or a mapping. With a mapping, streamfold doesn't use the file.
            overrides: settings that take precedence over the file and the catalogue, such as the keyword arguments of
                `Provider.from_config`.

        Raises:
            ConfigError: no provider has this name, or a setting is invalid. The message contains the file and line, the
                key and the allowed values.
        """
        return build_profile(self.layers(spec, overrides))

    def profiles(
        self, spec: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None
    ) -> tuple[Profile, ...]:
        """Returns the validated settings of a provider and of its fallbacks, in order and without duplicates.

        Raises:
            ConfigError: the fallbacks form a cycle. See also `profile`.
        """
        layers = self.layers(spec, overrides)
        first = build_profile(layers)
        config = self if isinstance(spec, str) else Config()  # a mapping is never looked up in the file
        name = spec.partition(":")[0] if isinstance(spec, str) else first.name
        others: list[str] = []
        for owner, index, other, problem in config.fallbacks(name, first.fallback):
            if problem is not None:
                written = layers if owner == name else config.layers(owner)
                raise ConfigError(merge(written).locate(("fallback", index), problem)[1])
            others.append(other)
        return (first, *(config.profile(other) for other in dict.fromkeys(others)))

    def fallbacks(
        self, name: str, fallback: Sequence[str] | None = None, explored: set[str] | None = None
    ) -> Iterator[tuple[str, int, str, str | None]]:
        """Yields all direct and indirect fallbacks of a provider, depth first.

        Each item consists of a provider's name, an index in this provider's `fallback` list, the fallback at this
        index, and an error message or None.

        Args:
            fallback: the fallbacks of the first provider. None means the provider's `fallback` list in the file.
            explored: the names of providers whose fallbacks aren't yielded again. This method adds the names of the
                providers that it visits.
        """
        explored = set() if explored is None else explored
        chain = {name: enumerate(self._listed_fallbacks(name) if fallback is None else fallback)}
        while chain:
            owner = next(reversed(chain))
            index, spec = next(chain[owner], (-1, ""))
            other = spec.partition(":")[0]
            if index < 0:
                explored.add(owner)
                del chain[owner]
            elif other in chain:
                yield owner, index, spec, f"the fallbacks form a cycle: {' -> '.join([*chain, other])}"
            else:
                yield owner, index, spec, self.unknown(spec)
                if other not in explored:
                    chain[other] = enumerate(self._listed_fallbacks(other))

    def _listed_fallbacks(self, name: str) -> list[str]:
        listed = self.tables.get(name, {}).get("fallback", ())
        listed = [listed] if isinstance(listed, str) else listed
        return [other for other in listed if isinstance(other, str)] if isinstance(listed, list) else []

    def package_table(self, name: str, model: type[P], **overrides: Any) -> P:
        """Returns the validated settings in another package's table. Overrides take precedence over the file. An
        override of None is ignored.

        Raises:
            ConfigError: the file or an override is invalid.
        """
        self._settings()
        table = self.file.data.get(name, {}) if self.file else {}
        given = {key: value for key, value in overrides.items() if value is not None}
        return read_settings(model, {**table, **given}, name)

    def rate_limits(self) -> RateLimitSettings | None:
        """Returns the table `[rate_limits]`, or None if the file doesn't contain it. Raises ConfigError if the file is
        invalid.
        """
        if self.file is None:
            return None
        settings = self._settings()
        return settings.rate_limits if "rate_limits" in self.file.data else None

    @cached_property
    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """The providers' tables in the file, by provider name. They aren't validated yet."""
        tables = self.file.data.get("providers") if self.file else None
        found = tables.items() if isinstance(tables, Mapping) else ()
        return {name: table for name, table in found if isinstance(table, Mapping)}

    @cached_property
    def checked(self) -> tuple[FileSettings, list[tuple[int, str]]]:
        """The validated file without the providers' tables, and each mistake in the file as its line number and a
        message.
        """
        if self.file is None:
            return FileSettings(), []
        names = [name for name in self.file.data if name not in FileSettings.model_fields]
        tables: dict[str, Any] = {name: (table, ...) for name in names if (table := find_table(name))}
        model = create_model("FileSettings", __base__=FileSettings, **tables) if tables else FileSettings
        try:
            return model.model_validate(dict(self.file.data)), []
        except ValidationError as exc:
            return FileSettings(), locate_errors(exc, merge([Layer.of_file(self.file)]))

    def _settings(self) -> FileSettings:
        settings, mistakes = self.checked
        if mistakes:
            raise ConfigError(mistakes[0][1])
        if self.file is None or not self.file.is_foreign:
            return settings
        # A store URL with environment variables would send their values to a host that an untrusted file chooses.
        stores: dict[KeyPath, str | bool | None] = {("rate_limits", "store"): settings.rate_limits.store}
        for name, table in settings.package_tables():
            stores |= {(name, key): getattr(table, key) for key in table.store_keys}
        for path, store in stores.items():
            if isinstance(store, str) and variable_names(store):
                raise ConfigError(f"{self.file.place(path)}: {toml_path(path)}: {untrusted(self.file.origin)}")
        return settings

    def unknown(self, spec: str) -> str | None:
        """Returns the error message for an unknown provider, or None for a provider in the file or the catalogue."""
        name, files = spec.partition(":")[0], provider_files()
        if name in self.tables or name in files:
            return None
        own = f"{self.path} has: {', '.join(self.names)}; the" if self.names else "The"
        known = f"{own} catalogue has: {', '.join(files)}"
        hint = did_you_mean(name, [*self.names, *files])
        vendor, slash, model = name.partition("/")
        if not name:
            return f'a provider is "NAME" or "NAME:MODEL", not {spec!r}. {known}'
        if name in ("http", "https"):
            return f'a provider is "NAME" or "NAME:MODEL". A URL goes into base_url, not {name}://...'
        if slash and (vendor in files or vendor in self.tables):
            hint = f" (did you mean '{vendor}:{model}'?)"
        elif not hint and re.search(r"\d", name):
            known = f"(is it a model? Its provider goes before it: PROVIDER:{name}). {known}"
            return f"unknown provider {name!r} {known}"
        return f"unknown provider {name!r}{hint or f'. {known}'}"


def build_profile(layers: Sequence[Layer]) -> Profile:
    """Merges and validates a provider's settings. Raises ConfigError for the first mistake."""
    profile, mistakes = check_layers(layers)
    if profile is None:
        raise ConfigError(mistakes[0][1])
    return profile


def _with_base_profile(layers: list[Layer]) -> list[Layer]:
    if layers[0].is_catalogue:
        return layers
    base = next((layer.values["profile"] for layer in reversed(layers) if "profile" in layer.values), None)
    return [*catalogue_layers(base), *layers] if isinstance(base, str) and base in provider_files() else layers


def check_layers(layers: Sequence[Layer]) -> tuple[Profile | None, list[tuple[int, str]]]:
    """Merges and validates a provider's settings.

    Returns the profile and an empty list. If there are mistakes, returns None and the line number and message of each
    mistake.
    """
    merged = merge(layers)
    mistakes = [
        layer.mistake(("name",), "not allowed: the name of the table is the provider's name")
        for layer in layers
        if layer.table and "name" in layer.values
    ]
    try:
        profile = Profile.model_validate(merged.values)
    except ValidationError as exc:
        return None, sorted([*mistakes, *locate_errors(exc, merged)], key=lambda mistake: mistake[0])
    if mistakes:
        return None, mistakes
    # An untrusted file may repeat the host of the catalogue. If it chooses another host, that host gets no secrets.
    found = merged.origin(("base_url",))
    file = found[0].file if found else None
    if file is not None and file.is_foreign:
        known = [layer.values["base_url"] for layer in layers if layer.is_catalogue and "base_url" in layer.values]
        if not (known and same_origin(known[-1], merged.values["base_url"])):
            profile = profile.model_copy(update={"untrusted_file": file.origin})
    return profile, []


def read_settings(model: type[T], values: Mapping[str, Any], what: str) -> T:
    """Validates settings that a program passes as arguments.

    Raises:
        ConfigError: the settings contain a mistake. The message describes the first mistake, and begins with `what`.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as exc:
        raise ConfigError(locate_errors(exc, merge([Layer(values, what)]))[0][1]) from None


def read_config(path: str | os.PathLike[str] | Config | None = None) -> Config:
    """Reads the first configuration file that exists. Returns an empty `Config` if there is none.

    The tables in the file aren't validated yet. If the argument is a `Config`, it is returned unchanged.

    Raises:
        ConfigError: the file that the caller or `STREAMFOLD_CONFIG` specifies doesn't exist, the file can't be read, or
            it isn't TOML. Also raised if another user can change the file in the working directory.
    """
    if isinstance(path, Config):
        return path
    looked_in = tuple(search_locations(path))
    return Config(read_file(looked_in), looked_in)


def read_profile(spec: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Profile:
    """Returns the validated settings of a provider in the catalogue, or of the provider that a mapping describes.
    Doesn't read `streamfold.toml`.

    Raises:
        ConfigError: a name or a key is unknown, or a value isn't allowed.
    """
    return Config().profile(spec, overrides)


def load_profile(
    spec: str | Mapping[str, Any] | None,
    overrides: Mapping[str, Any] | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Profile:
    """Returns the validated settings of one provider without its fallbacks. See `load_profiles` for the arguments."""
    config, chosen = _chosen(spec, path)
    return config.profile(chosen, overrides)


def load_profiles(
    spec: str | Mapping[str, Any] | None,
    overrides: Mapping[str, Any] | None = None,
    path: str | os.PathLike[str] | Config | None = None,
) -> tuple[Profile, ...]:
    """Returns the validated settings of a provider and of its fallbacks, in order and without duplicates.

    Args:
        spec: a name, `"NAME:MODEL"`, a mapping, or None for the default provider. For a mapping, no file is read.
        overrides: settings for the first provider, which take precedence over all its other settings.
        path: the path of the configuration file. By default, streamfold looks for the file at several places; see
            `read_config`.

    Raises:
        ConfigError: a name or a key is unknown, or a value isn't allowed. The message contains the file and line and
            the allowed values.
    """
    config, chosen = _chosen(spec, path)
    return config.profiles(chosen, overrides)


def _chosen(spec: Any, path: str | os.PathLike[str] | Config | None) -> tuple[Config, str | Mapping[str, Any]]:
    if spec is not None and not isinstance(spec, str | Mapping):
        raise ConfigError(f"a provider must be a name or a mapping, not {type(spec).__name__}")
    if isinstance(spec, Mapping):
        if path is not None:
            raise ConfigError("config= is only for named providers, not for a mapping")
        return Config(), spec
    config = read_config(path)
    return config, config.default()[0] if spec is None else spec
