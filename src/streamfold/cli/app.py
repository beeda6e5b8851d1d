"""The commands of `streamfold`, in the order of the help."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .._version import __version__
from . import config as config_commands
from .chat import chat, demo, record
from .config import providers
from .replay import replay, serve_replay

_PACKAGES = {  # the commands of the other distributions of the project
    "streamfold-gateway": ("serve",),
    "streamfold-jobs": ("batch",),
    "streamfold-lab": ("conformance", "diff", "doctor", "inspect", "lab", "models", "swap-check"),
}


class _Commands(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        for package, commands in _PACKAGES.items():
            if args[0] in commands and args[0] not in self.list_commands(ctx):
                ctx.fail(f"The command {args[0]!r} is in a package that is not installed: pip install {package}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    help="An async client for LLM APIs: streamed text, complete tool calls, one interface for every provider.",
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
    """Options that come before the command."""


for _command in (demo, chat, providers, record, replay, serve_replay):
    app.command()(_command)
app.add_typer(config_commands.app, name="config")
for _entry in sorted(entry_points(group="streamfold.commands"), key=lambda entry: entry.name):
    _loaded = _entry.load()
    if isinstance(_loaded, typer.Typer):
        app.add_typer(_loaded, name=_entry.name)
    else:
        app.command(_entry.name)(_loaded)
