"""`streamfold providers`: which providers there are, whether their keys are set, and what their models can do."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ..config import Config, capability_values, describe_key, provider_files, read_config
from ..requests import CAPABILITIES
from ..terminal import File, console, escape_control_characters, print_json, print_rows, reported_errors
from ..text import shown_url

_STYLES = {"yes": "green", "no": "red", "unknown": "dim"}


def providers(
    name: Annotated[
        str | None, typer.Argument(help="PROVIDER or PROVIDER:MODEL: show the capabilities of its models.")
    ] = None,
    config: File = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON for each provider, or for each model of NAME.")
    ] = False,
) -> None:
    """List providers, or the capabilities of one.

    Without NAME, all of streamfold.toml and of the catalogue are listed, and which keys are set.
    """
    with reported_errors(as_json):
        read = read_config(config)
        if name is None:
            _print_providers(read, as_json)
        else:
            _print_capabilities(read, name, as_json)


def _print_providers(config: Config, as_json: bool) -> None:
    profiles = [config.profile(name) for name in dict.fromkeys([*config.names, *provider_files()])]
    rows = []
    for profile in profiles:
        source = str(config.path) if profile.name in config.names else "catalogue"
        url, state = shown_url(profile.base_url), describe_key(profile)
        if as_json:
            line = {"name": profile.name, "adapter": profile.adapter, "base_url": url}
            print_json({**line, "keys": profile.keys_set(), "source": source})
        key = Text(state, "green" if state.startswith("set") else "dim")
        rows.append(
            [
                *map(Text, (profile.name, profile.adapter, escape_control_characters(url))),
                key,
                Text(escape_control_characters(source)),
            ]
        )
    if not as_json:
        print_rows(console(), ("provider", "adapter", "base URL", "key", "from"), rows)


def _print_capabilities(config: Config, spec: str, as_json: bool) -> None:
    """A row for each model; for `"name:model"` a row for each capability of this one, with its source."""
    profile = config.profile(spec)
    one = profile.model is not None
    models = [None] if one else [None, *profile.examples()]
    found = {profile.model if one else model: capability_values(config, spec, model) for model in models}
    if as_json:
        for model, values in found.items():
            known = {name: support for name, support, _ in values}
            print_json({"name": profile.name, "model": model, "capabilities": known})
        return
    target = console()
    if one:
        target.print(Text(escape_control_characters(f"{profile.name}:{profile.model}"), "bold"), soft_wrap=True)
        rows = [
            [Text(name), Text(support, _STYLES[support]), Text(escape_control_characters(source))]
            for name, support, source in found[profile.model]
        ]
        print_rows(target, ("capability", "", "from"), rows)
    else:
        rows = [
            [
                Text(escape_control_characters(model or "(any)")),
                *(Text(support, _STYLES[support]) for _, support, _ in values),
            ]
            for model, values in found.items()
        ]
        print_rows(target, ("model", *CAPABILITIES), rows)
