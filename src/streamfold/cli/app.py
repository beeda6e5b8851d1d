"""The commands, in the order of the help."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..config import GatewaySettings, variable_value
from ..terminal import File, reported_errors
from ..values import ConfigError, __version__
from . import batch as batch_commands
from . import config as config_commands
from .ask import chat, demo, record
from .providers import providers
from .replays import replay, serve_replay

_HINT = "Commands that examine servers and recordings come with another package: pip install streamfold-lab"


class _Commands(TyperGroup):
    """The commands; one that nothing here is like may be that of a package which is not installed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that the words name. Raises UsageError for an unknown one."""
        if not args[0].startswith("-") and not get_close_matches(args[0], self.list_commands(ctx)):
            ctx.fail(f"No such command {args[0]!r}. {_HINT}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
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

    Clients may use the APIs of OpenAI, Anthropic and Gemini, whichever the providers use.
    """
    with reported_errors():
        from ..gateway import run

        run(file, _page, host=host, port=port, providers=provider or None, workers=workers, ui=ui)


def _page(settings: GatewaySettings) -> Any:
    found = {entry.name: entry for entry in entry_points(group="streamfold.pages")}
    if "live" not in found:
        raise ConfigError("--ui: the page comes with another package: pip install streamfold-lab")
    keys = [variable_value(variable, "gateway: ui_key_env") for variable in settings.ui_key_env]
    return found["live"].load()(answers=settings.ui_answers, keys=keys, fixtures=settings.ui_fixtures)


_COMMANDS = (  # those of other packages follow, by their entry points
    demo,
    chat,
    providers,
    record,
    replay,
    serve_replay,
    serve,
)
for _command in _COMMANDS:
    app.command()(_command)
for _entry in sorted(entry_points(group="streamfold.commands"), key=lambda entry: entry.name):
    app.command(_entry.name)(_entry.load())
app.add_typer(batch_commands.app, name="batch")
app.add_typer(config_commands.app, name="config")
