"""The command `streamfold serve`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from streamfold import ConfigError
from streamfold.config import variable_value
from streamfold.terminal import File, reported_errors

from .config import GatewaySettings


def serve(
    file: File = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; by default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port; by default 8100.")] = None,
    provider: Annotated[
        list[str] | None, typer.Option("-p", "--provider", help="A provider to serve; by default all of the file.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that serve the port together; by default 1.")
    ] = None,
    ui: Annotated[
        bool | None, typer.Option("--ui", help="Serve a page at /ui that shows the last answers as they stream.")
    ] = None,
) -> None:
    """Serve providers over HTTP.

    Clients may use the APIs of OpenAI, Anthropic and Gemini with any provider.
    """
    with reported_errors():
        try:
            from . import run  # late: the help of commands needs no server
        except ModuleNotFoundError as exc:
            raise ConfigError(f"the gateway package is missing ({exc}): pip install streamfold-gateway") from exc

        run(file, _page, host=host, port=port, providers=provider or None, workers=workers, ui=ui)


def _page(settings: GatewaySettings) -> Any:
    found = {entry.name: entry for entry in entry_points(group="streamfold.pages")}
    if "live" not in found:
        raise ConfigError("--ui needs another package: pip install streamfold-lab")
    keys = [variable_value(variable, "gateway: ui_key_env") for variable in settings.ui_key_env]
    return found["live"].load()(answers=settings.ui_answers, keys=keys, fixtures=settings.ui_fixtures)
