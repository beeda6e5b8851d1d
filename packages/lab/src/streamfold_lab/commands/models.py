"""`streamfold models`: lists the models of an endpoint, with the limits that the endpoint reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import anyio
import typer
from rich.text import Text

from streamfold.terminal import (
    File,
    console,
    escape_control_characters,
    print_json,
    print_rows,
    print_status,
    reported_errors,
)

from ..doctor import read_target, served_models


def models(
    target: Annotated[str, typer.Argument(help="PROVIDER, or the base URL of a server.")],
    api_key_env: Annotated[str | None, typer.Option(help="The environment variable with the API key.")] = None,
    adapter: Annotated[str | None, typer.Option(help="The server's API, if TARGET is a URL.")] = None,
    config: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each model.")] = False,
) -> None:
    """List the models of an endpoint, with the limits that the endpoint reports.

    Models that aren't in streamfold's catalogue are marked as unknown.
    """
    with reported_errors(as_json):
        given = {"api_key_env": api_key_env, "adapter": adapter}
        profile = read_target(target, config, **{key: value for key, value in given.items() if value is not None})
        found = anyio.run(served_models, profile)
    if as_json:
        for model in found:
            print_json({"provider": profile.name, **asdict(model)})
    elif not found:
        print_status("the endpoint lists no models")
    else:
        rows = []
        for model in found:
            limits = [
                "" if limit is None else f"{limit:,}" for limit in (model.context_tokens, model.max_output_tokens)
            ]
            known = Text("known", "green") if model.known else Text("unknown", "yellow")
            rows.append([Text(escape_control_characters(model.name)), *map(Text, limits), known])
        print_rows(console(), ("model", "context", "output", "catalogue"), rows)
