"""`streamfold config show`, `check` and `path`: what the configuration comes to, without any secret."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..config import Config, Value, effective_values, places, read_config, spelled
from ..values import ConfigError
from .errors import told_errors

app = typer.Typer(help="The configuration: what it comes to, what is wrong with it, where it is.", no_args_is_help=True)

File = Annotated[Path | None, typer.Option("--config", help="The file to read; else the one that `config path` shows.")]
AsJson = Annotated[bool, typer.Option("--json", help="One line of JSON for each value.")]


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(help="A provider of the file or the catalogue; else all of the file's.")
    ] = None,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Prints the effective configuration, and where each value comes from. Secrets are "set" or "not set"."""
    with told_errors():
        config = read_config(file)
        tables = {spec: effective_values(config, spec) for spec in ([name] if name else config.names)}
        default = None if name else _default(config)
    groups = ([(None, [default])] if default else []) + list(tables.items())
    for number, (spec, values) in enumerate(groups):
        if as_json:
            for value in values:
                typer.echo(json.dumps({"provider": spec, **asdict(value)}, ensure_ascii=False))
            continue
        if spec is not None:
            typer.echo("\n" * bool(number) + f"[{spelled(('providers', spec))}]")
        _print(values)


@app.command()
def check(file: File = None) -> None:
    """Checks everything in the file, and that the keys are set. Exits with 1 if there are problems, one on a line."""
    try:
        config = read_config(file)
        problems = config.problems()
    except ConfigError as error:
        problems = [str(error)]
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)
    if config.path is None:
        typer.echo("there is no file: the catalogue alone counts (`streamfold config path` shows where one may be)")
    else:
        typer.echo(f"{config.path}: no problems, {len(config.names)} provider{'s' * (len(config.names) != 1)}")


@app.command()
def path(file: File = None) -> None:
    """Prints where a file is looked for, and which one is used. Exits with 1 if a file that was named is missing."""
    looked_in = places(file)
    used = next((place for place in looked_in if place.there), None)
    for place in looked_in:
        state = "used" if place is used else "shadowed" if place.there else "not there"
        typer.echo(f"{state:9}  {place.path.absolute()}  ({place.origin})")
    if used is None and looked_in[0].demanded:
        raise typer.Exit(1)


def _default(config: Config) -> Value:
    try:
        spec, origin = config.default()
    except ConfigError as error:
        return Value("default", "none", str(error))
    return Value("default", json.dumps(spec, ensure_ascii=False), origin)


def _print(values: list[Value]) -> None:
    lines = [f"{value.key} = {value.shown}" for value in values]
    width = min(max(map(len, lines), default=0), 60)
    for line, value in zip(lines, values, strict=True):
        typer.echo(f"{line:{width}}  # {value.source}")
