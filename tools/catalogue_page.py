"""Writes `providers/README.md` from the provider files and from the docstrings of their settings.

`nox -s catalogue` runs it; `tests/config/test_catalogue.py` fails when the page is older than what it is made from.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from datetime import date
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import SecretStr

from streamfold.adapters.anthropic import AnthropicQuirks
from streamfold.adapters.chat import ChatQuirks
from streamfold.adapters.gemini import GeminiQuirks
from streamfold.adapters.kimi import KimiQuirks
from streamfold.adapters.responses import ResponsesQuirks
from streamfold.config.catalogue import catalogue_folder, catalogue_values, provider_files
from streamfold.config.file import read_profile
from streamfold.config.inspection import abilities
from streamfold.config.profile import Profile
from streamfold.requests.model_facts import Capabilities

__all__ = ["described", "page"]

_HEAD = """\
<!-- Written by tools/catalogue_page.py: run `nox -s catalogue` instead of changing it here. -->

# The catalogue of endpoints

`Provider.from_config("NAME:MODEL")` accepts these names. Each endpoint is one file in this folder, whose comments give
the reasons for its settings. You can override each setting in `streamfold.toml` or in `from_config`. The columns:

- `can` lists the features that all models of the endpoint support.
- `known from` is the source of the facts: *recorded* responses, *documented* by the provider, or *reported* by other
  projects because the provider's documentation says too little.
- `checked` is the day on which we last read the documentation.
- `quirks` lists the settings in which this endpoint differs from others, mostly rules for requests. streamfold reads
  known deviations in responses without a quirk.
"""
_CAPABILITIES = """\
Each capability is `"yes"`, `"no"` or `"unknown"`. The table `[capabilities]` applies to all models of the endpoint. A
table `[[models]]` applies to the models whose names match its `pattern`, such as those in `examples`. The command
`streamfold providers NAME` shows the resulting values.
"""
_QUIRKS = {
    "chat": (ChatQuirks, "Quirks of the adapter `chat`", ""),
    "kimi": (
        KimiQuirks,
        "Quirks of the adapter `kimi`",
        "All quirks of `chat`, some with other defaults or other rules, and these:",
    ),
    "responses": (ResponsesQuirks, "Quirks of the adapter `responses`", ""),
    "anthropic": (AnthropicQuirks, "Quirks of the adapter `anthropic`", ""),
    "gemini": (GeminiQuirks, "Quirks of the adapter `gemini`", ""),
}


_AUTH = {"sigv4": ", or AWS credentials", "google": ", or Google credentials", "entra": ", or Microsoft Entra ID"}


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## Endpoints", _endpoints(), "## Keys of a file", _table(_profile_rows())]
    parts += ["## Capabilities", _CAPABILITIES, _table(_capability_rows())]
    for kind, title, words in _QUIRKS.values():
        parts += [f"## {title}", *([words] if words else []), _table(_quirk_rows(kind))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def described(kind: type) -> dict[str, str]:
    """The texts of a docstring's `Attributes`, by name, each on one line."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if begun := re.match(r"    (\w+): (.*)", line):
            name = begun[1]
            found[name] = begun[2]
        elif line.startswith("     ") and name:
            found[name] += f" {line.strip()}"
        else:
            name = ""
    return found


def _endpoints() -> str:
    rows = [["name", "adapter", "base URL", "key", "can", "known from", "documentation", "checked", "quirks"]]
    for name in provider_files():
        values = catalogue_values(name)
        profile = read_profile(name)
        keys = " or ".join(f"`{variable}`" for variable in values.get("api_key_env", ())) or "none"
        keys += _AUTH.get(profile.auth, "")
        header = f", in `{values['key_header']}`" if "key_header" in values else ""
        quirks = ", ".join(f"`{quirk} = {_value(value)}`" for quirk, value in values.get("quirks", {}).items())
        rows.append(
            [
                f"[`{name}`]({name}.toml)",
                f"`{values.get('adapter', 'chat')}`",
                f"`{values['base_url']}`",
                keys + header,
                ", ".join(abilities(profile)),
                str(profile.evidence),
                f"<{values['docs']}>",
                str(values["checked"]),
                quirks,
            ]
        )
    return _table(iter(rows))


def _profile_rows() -> Iterator[list[str]]:
    texts, hints = described(Profile), get_type_hints(Profile)
    yield ["key", "type", "default", "meaning"]
    for name, field in Profile.model_fields.items():
        if field.exclude:  # users don't set it
            continue
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        yield [f"`{name}`", _type(hints[name]), default, texts[name]]


def _capability_rows() -> Iterator[list[str]]:
    yield ["capability", "meaning"]
    yield from ([f"`{name}`", text] for name, text in described(Capabilities).items())


def _quirk_rows(kind: Any) -> Iterator[list[str]]:
    texts, hints = described(kind), get_type_hints(kind)
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    yield ["quirk", "type", "default", "meaning"]
    for name, text in texts.items():
        yield [f"`{name}`", _type(hints[name]), _default(defaults[name]), text]


def _type(hint: Any) -> str:
    """A type in the words of TOML."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(f"`{_value(value)}`" for value in args)
    if origin in (Union, type(int | None)):
        return " or ".join(_type(arg) for arg in args if arg is not type(None))
    if hint in (str, SecretStr):
        return "string"
    if hint in _WORDS:
        return _WORDS[hint]
    if origin in (list, tuple):
        return "list of strings" if args[0] is str else "list of tables"
    if origin is not None and not isinstance(origin, type):  # Annotated
        return _type(args[0])
    return "table"


_WORDS: dict[Any, str] = {bool: "boolean", int: "whole number", float: "number", date: "date"}


def _default(value: Any) -> str:
    return "none" if value is None else f"`{_value(value)}`"


def _value(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _value(asdict(value))
        case Mapping():
            inside = ", ".join(f"{name} = {_value(inner)}" for name, inner in value.items() if inner is not None)
            return f"{{ {inside} }}" if inside else "{}"
        case _:
            return str(value)


def _table(rows: Iterator[list[str]]) -> str:
    head, *rest = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    target = catalogue_folder() / "README.md"
    target.write_text(page(), "utf-8")
    print(f"wrote {target}")
