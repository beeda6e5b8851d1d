"""Writes the findings into `streamfold.toml`: a table for the provider, with a comment for each setting."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamfold import ConfigError
from streamfold.config import config_problems, key_lines, read_config, shown_url, toml_path, variable_names
from streamfold.types import Profile

from .values import ReportCard, Setting

_CONNECTION = ("key_header", "auth", "auth_scope", "api", "transport", "http2")  # settings for the connection
_LONGEST = 100  # the maximum length of a reason in characters


def profile_text(card: ReportCard, profile: Profile) -> str:
    """Returns a provider's configuration table as TOML text, with a comment that gives the evidence for each
    setting.
    """
    base: dict[str, Any] = {"adapter": profile.adapter, "base_url": shown_url(profile.base_url), "model": card.model}
    if profile.api_key_env:
        base["api_key_env"] = list(profile.api_key_env)
    given = profile.model_fields_set
    base |= {name: value for name in _CONNECTION if name in given and (value := getattr(profile, name)) is not None}
    lines = [
        f"# From {card.requests} requests on {card.date}, by streamfold doctor {card.version}.",
        f"[{toml_path(('providers', card.name))}]",
        *(f"{name} = {_toml(value)}" for name, value in base.items()),
    ]
    # A literal value of a header may be a secret, so only references to variables are written.
    headers = [f"{_toml(name)} = {_toml(text)}" for name, text in profile.headers.items() if variable_names(text)]
    tables: dict[str, list[str]] = {"": [], "headers": headers}  # the provider's table and its subtables
    for setting in card.settings:
        tables.setdefault(setting.key[0] if len(setting.key) > 1 else "", []).append(_line(setting))
    lines += tables.pop("")
    for table, rows in tables.items():
        if rows:
            lines += ["", f"[{toml_path(('providers', card.name, table))}]", *rows]
    return "\n".join(lines) + "\n"


def write_profile(path: Path, card: ReportCard, profile: Profile) -> list[str]:
    """Adds a provider's table to a configuration file, or updates the existing table.

    All other lines and comments stay unchanged.

    Returns:
        The changes, one line each.

    Raises:
        ConfigError: the file can't be read or written, or an existing setting can't be updated, because it isn't
            written on one line.
    """
    text = path.read_text("utf-8") if path.exists() else ""
    if card.name in _read(path, text).get("providers", {}):
        new, changes = _updated(path, text, card)
    else:
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        new, changes = text + gap + profile_text(card, profile), [f"added [{toml_path(('providers', card.name))}]"]
    _checked(path, new, card.name)
    try:
        path.write_text(new, "utf-8", newline="\n")
    except OSError as exc:
        raise ConfigError(f"{path} can't be written: {exc.strerror}") from exc
    return changes


def _read(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not TOML: {exc}") from exc


def _line(setting: Setting) -> str:
    why = " ".join(setting.why.split())
    why = why if len(why) <= _LONGEST else f"{why[: _LONGEST - 3]}..."
    printable = "".join(char if char.isprintable() else "?" for char in why)
    return f"{setting.key[-1]} = {_toml(setting.value)} # {printable}"


def _toml(value: Any) -> str:
    """Returns a value as TOML text. Strings, numbers, booleans and lists look the same in TOML as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _updated(path: Path, text: str, card: ReportCard) -> tuple[str, list[str]]:
    changes = []
    for setting in card.settings:
        value: Any = _read(path, text)["providers"][card.name]
        for part in setting.key:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value != setting.value:
            text = _with_setting(path, text, ("providers", card.name, *setting.key), setting)
            changes.append(f"{toml_path(setting.key)} = {_toml(setting.value)}")
    return text, changes


def _with_setting(path: Path, text: str, key: tuple[str, ...], setting: Setting) -> str:
    """Replaces or adds the line of one setting in the text of a configuration file."""
    lines, places = text.splitlines(), key_lines(text)
    table = key[:-1]
    header = f"[{toml_path(table)}]"
    if key in places:
        at = places[key] - 1
        if not _is_one_line(lines[at], setting.key[-1]):
            raise ConfigError(f"{path}:{at + 1}: can't update this line: write {_line(setting)} under {header}")
        lines[at] = _line(setting)
    elif table in places and lines[places[table] - 1].lstrip().startswith("["):
        lines.insert(places[table], _line(setting))
    elif table in places:
        raise ConfigError(f"{path}:{places[table]}: can't update this line: write {_line(setting)} under {header}")
    else:
        last = max(number for place, number in places.items() if place[: len(table) - 1] == table[:-1])
        # The last value may have several lines, so the new table comes before the next table and its comments.
        later = [number for number in places.values() if number > last and lines[number - 1].lstrip().startswith("[")]
        at = min(later, default=len(lines) + 1) - 1
        while not lines[at - 1].strip() or lines[at - 1].lstrip().startswith("#"):
            at -= 1
        lines[at:at] = ["", header, _line(setting)]
    return "\n".join(lines) + "\n"


def _is_one_line(line: str, key: str) -> bool:
    """Returns whether a line contains this key and its complete value, and nothing else."""
    try:
        return list(tomllib.loads(line)) == [key]
    except tomllib.TOMLDecodeError:
        return False


def _checked(path: Path, text: str, name: str) -> None:
    trial = path.with_name(f".{path.name}.trial")
    trial.write_text(text, "utf-8")
    try:
        read = read_config(trial)
        read.profile(name)
        problems = [problem for problem in config_problems(read) if "not set" not in problem and name in problem]
    finally:
        trial.unlink()
    if problems:
        raise ConfigError(f"{path} was not changed: {problems[0]}")
