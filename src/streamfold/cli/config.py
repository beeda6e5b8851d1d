"""`config show`, `check`, `path`, `trust` and `providers`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.text import Text

from ..client import Provider
from ..config import (
    Config,
    EffectiveValue,
    abilities,
    capability_values,
    config_problems,
    configured_budgets,
    describe_key,
    effective_values,
    provider_files,
    read_config,
    retiring_models,
    search_locations,
    stores_in_process,
    toml_path,
    trust_file,
)
from ..errors import ConfigError, EmptyResponseError, StreamfoldError
from ..requests import CAPABILITIES
from ..terminal import File, console, escape_control_characters, print_json, print_rows, print_status, reported_errors
from ..urls import shown_url

app = typer.Typer(
    help="Show and check the configuration, and find its file.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def show(
    name: Annotated[
        str | None,
        typer.Argument(help="A provider in the file or the catalogue; by default all providers in the file."),
    ] = None,
    file: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each value.")] = False,
) -> None:
    """Print the effective configuration with the source of each value. Secrets are printed as "set" or "not set"."""
    with reported_errors(as_json):
        config = read_config(file)
        tables = {spec: effective_values(config, spec) for spec in ([name] if name else config.names)}
        default = None if name else _default(config)
    groups = ([(None, [default])] if default else []) + list(tables.items())
    for number, (spec, values) in enumerate(groups):
        if as_json:
            for value in values:
                print_json({"provider": spec, **asdict(value)})
            continue
        if spec is not None:
            print_status("\n" * bool(number) + f"[{toml_path(('providers', spec))}]")
        lines = [f"{value.key} = {value.shown}" for value in values]
        width = min(max(map(len, lines), default=0), 60)
        for line, value in zip(lines, values, strict=True):
            print_status(f"{line:{width}}  # {value.source}")


_RETIREMENT_DAYS = 90


@app.command()
def check(
    file: File = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also request a short answer from each provider of the file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")] = False,
) -> None:
    """Check the configuration file, that API keys are set, and that budgets have prices.

    Print one line for each problem. The exit code is 1 if there are problems. A table for a package that is not
    installed is a problem. A model that will be retired within 90 days is reported, but isn't a problem. With
    --connect, also send a short request to each provider.
    """
    config, problems, notes = None, [], []
    try:
        config = read_config(file)
        problems = [*config_problems(config), *_unpriced_budgets(config)]
        if stores := stores_in_process(config):
            what = f"these stores lose their content when the process ends: {', '.join(stores)}"
            notes = [f"{what} (use sqlite:///PATH to keep it)"]
        notes += retiring_models(config, _RETIREMENT_DAYS)
    except ConfigError as error:
        problems = [str(error)]
    if connect and config is not None and not problems:
        problems = anyio.run(_silent_providers, config)
    path = str(config.path) if config and config.path else None
    names = list(config.names) if config else []
    if as_json:
        print_json({"file": path, "providers": names, "problems": problems, "notes": notes})
    elif problems:
        print_status("\n".join(problems))
    elif path is None:
        print_status("no file: only the catalogue is used (`streamfold config path` shows where a file may be)")
    else:
        print_status(f"{path}: no problems, {len(names)} provider{'s' * (len(names) != 1)}")
    if notes and not as_json:
        print_status("\n".join(notes))
    if problems:
        raise typer.Exit(1)


@app.command()
def path(file: File = None) -> None:
    """Print the paths at which streamfold looks for a configuration file, and which file it uses. The exit code is 1 if
    the file that you named is missing.
    """
    looked_in = search_locations(file)
    used = next((place for place in looked_in if place.exists), None)
    for place in looked_in:
        state = "used" if place is used else "shadowed" if place.exists else "not there"
        print_status(f"{state:9}  {place.path.absolute()}  ({place.origin})")
    if used is None and looked_in[0].required:
        raise typer.Exit(1)


@app.command()
def trust(
    path: Annotated[Path, typer.Argument(help="The file to trust.", exists=True, dir_okay=False)],
) -> None:
    """Trust a configuration file in a working directory: the file may send API keys and environment variables to its
    hosts.

    The path and a hash of the content are stored in the user's directory. A changed file must be trusted again.
    """
    with reported_errors(False):
        kept = trust_file(path)
    print_status(f"{path.absolute()} is trusted until it changes (recorded in {kept})")


def _unpriced_budgets(config: Config) -> list[str]:
    # Requests of a provider without prices are refused if there is a budget.
    problems = []
    for budget in configured_budgets(config):
        unpriced = [name for name in budget.providers if _lacks_prices(config, name)]
        if unpriced:
            what = f"the prices of {', '.join(unpriced)} are unknown"
            problems.append(f"{budget.place}: {what}: write prices = {{...}} into the provider's table")
    return problems


def _lacks_prices(config: Config, name: str) -> bool:
    try:
        profile = config.profile(name)
        if profile.model is None or profile.resolve().model is None:
            return False  # each request names its model
        return not Provider(profile, turn_cache=False).facts().endpoints[0].priced()
    except ConfigError:  # a problem of its own
        return False


async def _silent_providers(config: Config) -> list[str]:
    problems = []
    for name in config.names:
        profile = config.profile(name)
        if profile.model is None:
            problems.append(f"{name}: no model is configured: set `model`")
            continue
        tokens = _FEWEST.get(profile.adapter_of(profile.model), 1)
        try:
            async with Provider(profile.model_copy(update={"max_retries": 0})) as provider:
                await provider.chat("Hello", max_output_tokens=tokens)
        except EmptyResponseError:
            pass  # one token may be too few for a text
        except StreamfoldError as error:
            problems.append(str(error))
    return problems


_FEWEST = {"responses": 16}  # the fewest tokens that an API allows to ask for


def _default(config: Config) -> EffectiveValue:
    try:
        spec, origin = config.default()
    except ConfigError as error:
        return EffectiveValue("default", "none", str(error))
    return EffectiveValue("default", json.dumps(spec, ensure_ascii=False), origin)


_STYLES = {"yes": "green", "no": "red", "unknown": "dim"}


def providers(
    name: Annotated[
        str | None, typer.Argument(help="PROVIDER or PROVIDER:MODEL: show the capabilities of the models.")
    ] = None,
    config: File = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON for each provider, or for each model of NAME.")
    ] = False,
) -> None:
    """List the providers, or the capabilities of a provider.

    Without NAME, list all providers of streamfold.toml and of the catalogue. The list shows whether the API key is set,
    the capabilities of all models, and the source of these facts.
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
            keys = profile.resolve().keys_set
            line = {"name": profile.name, "adapter": profile.adapter, "base_url": url, "keys": keys}
            about = {"auth": profile.auth, "can": abilities(profile), "evidence": profile.evidence}
            print_json({**line, **about, "source": source})
        key = Text(state, "green" if state.startswith("set") else "dim")
        rows.append(
            [
                *map(Text, (profile.name, profile.adapter, escape_control_characters(url))),
                key,
                Text(", ".join(abilities(profile))),
                Text(profile.evidence or "", "yellow" if profile.evidence == "reported" else ""),
                Text(escape_control_characters(source)),
            ]
        )
    if not as_json:
        print_rows(console(), ("provider", "adapter", "base URL", "key", "can", "known from", "from"), rows)


def _print_capabilities(config: Config, spec: str, as_json: bool) -> None:
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
