"""The commands, in the order of the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..config import Config, GatewaySettings
from ..values import __version__
from . import batch as batch_commands
from . import config as config_commands
from .ask import chat, demo, record
from .conformance import conformance
from .doctor import doctor
from .errors import reported_errors
from .inspect import diff, inspect
from .models import models
from .providers import providers
from .replays import replay, serve_replay
from .swap import swap_check

if TYPE_CHECKING:
    from .live import LivePage

app = typer.Typer(
    help="An async client for LLM APIs: streamed text, whole tool calls, one interface for every provider.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: no frames, and nothing cut in a narrow window or a pipe
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamfold {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before a command. Its help is that of the app."""


def serve(
    file: config_commands.File = None,
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

    Clients may use Chat Completions or the Responses API, whichever the providers use.
    """
    from ..gateway import run

    def page(config: Config, settings: GatewaySettings) -> LivePage:
        from .live import LivePage

        keys = [config.secret(variable) for variable in settings.ui_key_env]
        return LivePage(answers=settings.ui_answers, keys=keys, fixtures=settings.ui_fixtures)

    with reported_errors():
        run(file, page, host=host, port=port, providers=provider or None, workers=workers, ui=ui)


_COMMANDS = (
    demo,
    chat,
    providers,
    models,
    record,
    replay,
    serve_replay,
    inspect,
    diff,
    doctor,
    conformance,
    swap_check,
    serve,
)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(batch_commands.app, name="batch")
app.add_typer(config_commands.app, name="config")
