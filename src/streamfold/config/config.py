"""`streamfold.toml`: providers under names of one's own, on top of the catalogue, and which of them is the default.

One file counts, the first that is there: the path that was passed, else what `STREAMFOLD_CONFIG` names, else
`streamfold.toml` in the working directory, else the one in the user's directory. It is read when a provider is made,
never at import, and not kept.

What the file may say is in `configfile.py`; each mistake is a `Problem` with its line. A mistake in a provider that is
not used stops nobody; `streamfold config check` finds them all.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..values import ConfigError, referenced
from .catalogue import catalogue_values, layered, provider_files, read_profile
from .file import Problem, file_problems, nearest, provider_problems, read_settings
from .gateway import GatewaySettings
from .profile import Profile, validated, variable_is_set
from .tomltext import KeyPath, key_lines, line_of

__all__ = ["Config", "Place", "effective_profile", "places", "read_config"]

FILE_NAME = "streamfold.toml"
FILE_VARIABLE = "STREAMFOLD_CONFIG"
PROVIDER_VARIABLE = "STREAMFOLD_PROVIDER"

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file is looked for.

    Attributes:
        origin: who says so, in words.
        demanded: somebody named this very file, so it has to be there.
    """

    path: Path
    origin: str
    demanded: bool = False

    @property
    def there(self) -> bool:
        """Whether the file is there."""
        try:
            return (
                self.path.exists() and not self.path.is_dir()
            )  # not is_file(): the null device is an empty file to us
        except OSError:  # a folder that may not be looked into
            return False


def places(path: str | os.PathLike[str] | None = None) -> list[Place]:
    """Where a file is looked for, in this order. A file that somebody names is the only place."""
    if path is not None:
        return [Place(Path(path).expanduser(), "the path that was passed", demanded=True)]
    if named := os.environ.get(FILE_VARIABLE, "").strip():
        return [Place(Path(named).expanduser(), FILE_VARIABLE, demanded=True)]
    found = [Place(Path(FILE_NAME), "the working directory")]
    if (folder := _user_folder()) is not None:
        found.append(Place(folder / "streamfold" / FILE_NAME, "the user's directory"))
    return found


def _user_folder() -> Path | None:
    variable = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"
    folder = Path(os.environ.get(variable, ""))
    if folder.is_absolute():  # the XDG specification: a relative path is to be ignored
        return folder
    try:
        return Path.home() / ("AppData/Roaming" if sys.platform == "win32" else ".config")
    except RuntimeError:  # a user without a home
        return None


@dataclass(frozen=True, slots=True)
class Config:
    """What a file says, and what the environment says on top of it. Without a file it is empty.

    Attributes:
        path: the file, or None.
        data: its contents, not checked.
        lines: where its keys stand.
        looked_in: the places.
    """

    path: Path | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold keys
    lines: Mapping[KeyPath, int] = field(default_factory=dict, repr=False)
    looked_in: tuple[Place, ...] = ()

    @property
    def names(self) -> list[str]:
        """The providers of the file."""
        tables = self.data.get("providers", _NOTHING)
        return list(tables) if isinstance(tables, Mapping) else []

    def default(self) -> tuple[str, str]:
        """The default provider, and who says so. Raises ConfigError that says what to write."""
        if variable_is_set(PROVIDER_VARIABLE):
            chosen, origin = os.environ[PROVIDER_VARIABLE].strip(), PROVIDER_VARIABLE
            where = origin
        else:
            self._refuse(file_problems(self.data))
            if "default" not in self.data:
                raise ConfigError(self._no_default())
            chosen, origin = self.data["default"], self.at(("default",))
            where = f"{origin}: default"
        if text := self.unknown(chosen):
            raise ConfigError(f"{where}: {text}")
        return chosen, origin

    def _no_default(self) -> str:
        example = next(iter(self.names), "kimi:kimi-k2.6")
        looked = " or ".join(str(place.path) for place in self.looked_in)
        file = str(self.path) if self.path else looked
        return f'no provider was named: write default = "{example}" into {file}, or set {PROVIDER_VARIABLE}={example}'

    def unknown(self, spec: str) -> str | None:
        """What to say of a provider that neither the file nor the catalogue has; None if there is one."""
        name, files = spec.partition(":")[0], provider_files()
        if name in self.names or name in files:
            return None
        own = f"{self.path} has {', '.join(self.names)}; " if self.names else ""
        hint = nearest(name, [*self.names, *files])
        vendor, slash, model = name.partition("/")
        if not name:
            return f'a provider is "NAME" or "NAME:MODEL", not {spec!r}: {own}the catalogue has {", ".join(files)}'
        if name in ("http", "https"):
            return f'a provider is "NAME" or "NAME:MODEL"; an address of your own goes into base_url, not {name}://...'
        if slash and (vendor in files or vendor in self.names):
            hint = f" (did you mean '{vendor}:{model}'?)"
        elif not hint and re.search(r"\d", name):
            hint = f" (is it a model? Its provider goes before it: PROVIDER:{name})"
        return f"unknown provider {name!r}{hint}: {own}the catalogue has {', '.join(files)}"

    def profile(self, spec: str, overrides: Mapping[str, Any] | None = None) -> Profile:
        """The profile of `"name"` or `"name:model"`: a name of the file, else one of the catalogue.

        Raises:
            ConfigError: an unknown name, or a mistake in what the file says of it or of its fallbacks.
        """
        said = {key: value for key, value in (overrides or {}).items() if value is not None}
        self._refuse(file_problems(self.data))
        name, _, model = spec.partition(":")
        if name not in self.names:
            if text := self.unknown(name):
                raise ConfigError(text)
            profile = read_profile(spec, said)
        else:
            problems = self._problems_of(name, {**({"model": model} if model else {}), **said})
            self._refuse(problem for problem in problems if problem.path[2:3] not in [(key,) for key in said])
            values = self.values(name)
            if model:
                values["model"] = model
            profile = validated(layered(values, said), f"provider {name!r}")
        for other in profile.fallback:
            for problem in self._fallback_problems((), [name], other):
                raise ConfigError(f"provider {name!r}: fallback: {problem.text}")
        return profile

    def values(self, name: str) -> dict[str, Any]:
        """What the file and the catalogue together say of a provider, not checked as a whole."""
        table = dict(self.data["providers"][name])
        start = table.pop("profile", None)
        return {**layered(catalogue_values(start) if start else {}, table), "name": name}

    def gateway(self, **overrides: Any) -> GatewaySettings:
        """Returns the gateway's settings: the table of the file with the overrides that are not None on top.

        Raises:
            ConfigError: a mistake in the file or in an override.
        """
        self._refuse(file_problems(self.data))
        given = {name: value for name, value in overrides.items() if value is not None}
        return read_settings(GatewaySettings, {**self.data.get("gateway", _NOTHING), **given})

    def secret(self, variable: str) -> str:
        """What a variable of the environment holds. Raises ConfigError if it is not set."""
        if not variable_is_set(variable):
            raise ConfigError(f"gateway: api_key_env: {variable} is not set")
        return os.environ[variable].strip()

    def problems(self) -> list[str]:
        """Everything that is wrong with the file and the environment, a line each, in the order of the file."""
        found = file_problems(self.data)
        if isinstance(default := self.data.get("default"), str) and (text := self.unknown(default)):
            found.append(Problem(("default",), text))
        found += self._gateway_problems()
        for name in self.names:
            if isinstance(self.data["providers"][name], Mapping):
                found += self._problems_of(name, {}) or self._missing(name)
        lines = [self.told(problem) for problem in sorted(found, key=self._line)]
        if chosen := os.environ.get(PROVIDER_VARIABLE, "").strip():
            lines += [f"{PROVIDER_VARIABLE}: {text}" for text in [self.unknown(chosen)] if text]
        return lines

    def at(self, path: KeyPath) -> str:
        """Where a key stands: `file:line`, or the file alone if the line could not be found."""
        line = line_of(self.lines, path)
        return f"{self.path}:{line}" if line else str(self.path)

    def told(self, problem: Problem) -> str:
        """A problem as one line: file, line, key, what is allowed."""
        return f"{self.at(problem.path)}: {problem}"

    def _refuse(self, problems: Iterable[Problem]) -> None:
        for problem in sorted(problems, key=self._line):
            raise ConfigError(self.told(problem))

    def _line(self, problem: Problem) -> int:
        return line_of(self.lines, problem.path) or 0

    def _problems_of(self, name: str, overrides: Mapping[str, Any]) -> list[Problem]:
        table = self.data["providers"][name]
        found = provider_problems(name, table, overrides)
        for index, other in self._fallbacks(name):
            found += self._fallback_problems(("providers", name, "fallback", index), [name], other)
        return found

    def _fallbacks(self, name: str) -> list[tuple[int, str]]:
        """The fallbacks that a table names; what is no name is told elsewhere."""
        table = self.data["providers"][name]
        others = table.get("fallback") if isinstance(table, Mapping) else None
        listed = [others] if isinstance(others, str) else others if isinstance(others, list) else []
        return [(index, other) for index, other in enumerate(listed) if isinstance(other, str)]

    def _fallback_problems(self, path: KeyPath, chain: list[str], spec: str) -> Iterable[Problem]:
        """What is wrong with a fallback: a name that nobody knows, or a chain that comes to a provider twice."""
        name = spec.partition(":")[0]
        if name in chain:
            yield Problem(path, f"the chain comes to {name!r} twice: {' -> '.join([*chain, name])}")
        elif name in self.names:
            for _, other in self._fallbacks(name):
                if not self.unknown(other):  # that is told of the provider that names it
                    yield from self._fallback_problems(path, [*chain, name], other)
        elif text := self.unknown(name):
            yield Problem(path, text)

    def _gateway_problems(self) -> list[Problem]:
        """Names in the gateway's table that lead nowhere. Values of a wrong type are told elsewhere."""
        if any(problem.path[:1] == ("gateway",) for problem in file_problems(self.data)):
            return []
        table = read_settings(GatewaySettings, self.data.get("gateway", _NOTHING))
        found = [
            Problem(("gateway", "providers", place), text)
            for place, name in enumerate(table.providers)
            if (text := self.unknown(name))
        ]
        for variable in table.api_key_env:
            if not variable_is_set(variable):
                found.append(Problem(("gateway", "api_key_env"), f"{variable} is not set"))
        return found

    def _missing(self, name: str) -> list[Problem]:
        """What the environment lacks for a provider that is written rightly."""
        profile = validated(self.values(name), f"provider {name!r}")
        place: KeyPath = ("providers", name)
        found = []
        keys = profile.keys_set()
        if keys and not any(keys.values()):
            key = "api_key" if profile.api_key is not None else "api_key_env"
            found.append(Problem((*place, key), f"no API key: set {' or '.join(keys)}"))
        texts: dict[KeyPath, str] = {("headers", header): text for header, text in profile.headers.items()}
        for path, text in {("base_url",): profile.base_url, ("model",): profile.model or "", **texts}.items():
            names = [variable for variable in referenced(text) if not variable_is_set(variable)]
            found += [Problem((*place, *path), f"{variable} is not set") for variable in names]
        return found


def read_config(path: str | os.PathLike[str] | None = None) -> Config:
    """The first file that is there, read and not yet checked; an empty `Config` if there is none.

    Raises:
        ConfigError: a file that somebody named is not there, can't be read, or is not TOML.
    """
    looked_in = tuple(places(path))
    place = next((place for place in looked_in if place.there), None)
    if place is None:
        for missing in looked_in:
            if missing.demanded:
                raise ConfigError(f"there is no file {missing.path}, which is named by {missing.origin}")
        return Config(looked_in=looked_in)
    try:
        text = place.path.read_bytes().decode("utf-8-sig")  # editors on Windows like to put the mark there
        return Config(place.path, tomllib.loads(text), key_lines(text), looked_in)
    except tomllib.TOMLDecodeError as exc:
        where = re.search(r"\s*\(at line (\d+), column (\d+)\)$", str(exc))
        line, column = (f":{where[1]}", f" in column {where[2]}") if where else (f":{len(text.splitlines()) or 1}", "")
        what = (
            str(exc)[: where.start()] if where else str(exc).replace("(at end of document)", "at the end of the file")
        )
        raise ConfigError(f"{place.path}{line}: not TOML: {what}{column}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{place.path}: not TOML: the text is not UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{place.path}: not TOML: nested too deeply") from None
    except OSError as exc:
        raise ConfigError(f"{place.path}: can't be read: {exc.strerror}") from exc


def effective_profile(
    spec: str | Mapping[str, Any] | None,
    overrides: Mapping[str, Any] | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Profile:
    """The profile that `Provider.from_config` uses. A mapping is taken as it is: no file is opened for it.

    Raises:
        ConfigError: something in it is unknown or does not fit; the message says where, and what is allowed.
    """
    if spec is not None and not isinstance(spec, str | Mapping):
        raise ConfigError(f"a provider is a name or a mapping, not {type(spec).__name__}")
    if isinstance(spec, Mapping):
        if path is not None:
            raise ConfigError("config= is for providers that are named; a mapping is never looked up in a file")
        return read_profile(spec, overrides)
    config = read_config(path)
    if spec is not None:
        return config.profile(spec, overrides)
    return config.profile(config.default()[0], overrides)
