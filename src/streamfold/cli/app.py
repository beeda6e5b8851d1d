"""The commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..config import read_config
from ..decoder import StreamDecoder
from ..errors import ConfigError
from ..messages import system, user
from ..profiles import catalogue
from ..provider import Provider
from ..recording import Recording, find_recording
from ..references import shown_url
from ..replay_server import serve_replay
from ..sources import key_state
from . import capabilities
from . import config as config_commands
from .errors import told_errors
from .inspect import diff, inspect
from .show import Json, Plain, Screen
from .swap import swap_check

app = typer.Typer(
    help="The async door to language models: streamed text, whole tool calls, one interface for every provider.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(config_commands.app, name="config")
app.command()(swap_check)
app.command()(inspect)
app.command()(diff)

AsJson = Annotated[bool, typer.Option("--json", help="One line of JSON for each chunk.")]

_DEMO = (
    ("demo/reasoning_text", "Why must a streamed tool call wait until the stream has ended?"),
    ("demo/parallel_calls", "How is the weather in Lisbon and in Tromsø, and which flights are there?"),
)


@app.command()
def demo(
    as_json: AsJson = False,
    speed: Annotated[float, typer.Option(help="Events per second.")] = 25.0,
) -> None:
    """Streams two answers from files over real HTTP on loopback. Needs no key and no network."""
    _run(_demo, _screen(as_json, everything=True), as_json, speed)


@app.command()
def chat(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    provider: Annotated[
        str | None, typer.Option("-p", "--provider", help="PROVIDER or PROVIDER:MODEL; else the default one.")
    ] = None,
    system_prompt: Annotated[str | None, typer.Option("--system", help="Instructions for the model.")] = None,
    tool_file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A JSON list of tools, in the shape of Chat Completions."),
    ] = None,
    tool_choice: Annotated[str, typer.Option(help="auto, none, required, or the name of a tool.")] = "auto",
    base_url: Annotated[str | None, typer.Option(help="Another address than the configured one, with its /v1.")] = None,
    config: config_commands.File = None,
    as_json: AsJson = False,
) -> None:
    """Asks a model and streams its answer."""
    messages = [
        *([system(system_prompt)] if system_prompt else []),
        user(sys.stdin.read() if prompt == "-" else prompt),
    ]
    _run(_chat, _screen(as_json), provider, config, base_url, messages, tool_file, tool_choice)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A recorded answer: FILE.sse.")],
    adapter: Annotated[str | None, typer.Option(help="The wire format; else what FILE.toml says, else chat.")] = None,
    dialect: Annotated[str | None, typer.Option(help="How the model writes calls inside its text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Folds a recorded answer and shows what comes out."""
    screen = _screen(as_json)
    with told_errors():
        recording = Recording.load(file)
        decoder = StreamDecoder(adapter or recording.adapter, dialect=dialect)
        for chunk in decoder.feed(recording.body):
            screen.chunk(chunk)
        for chunk in decoder.close():
            screen.chunk(chunk)
        screen.end(decoder.reply)


@app.command()
def serve(
    file: Annotated[
        Path | None, typer.Option("-c", "--config", help="The file to read; else the one that `config path` shows.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; else this machine's own.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port; else 8100.")] = None,
    provider: Annotated[
        list[str] | None, typer.Option("-p", "--provider", help="A provider to serve; else all of the file.")
    ] = None,
) -> None:
    """Serves the providers to clients that speak Chat Completions or the Responses API."""
    from ..gateway.serve import run

    with told_errors():
        run(file, host=host, port=port, providers=provider or None)


@app.command()
def providers(
    name: Annotated[
        str | None, typer.Argument(help="PROVIDER or PROVIDER:MODEL, to see what its models can do.")
    ] = None,
    config: config_commands.File = None,
    as_json: AsJson = False,
) -> None:
    """Lists the providers of streamfold.toml and of the catalogue, and which keys are set; or what one of them can."""
    if name is not None:
        with told_errors():
            capabilities.show(read_config(config), name, as_json=as_json)
        return
    with told_errors():
        read = read_config(config)
        profiles = [read.profile(name) for name in dict.fromkeys([*read.names, *catalogue()])]
    rows = [
        {
            "name": profile.name,
            "adapter": profile.adapter,
            "base_url": shown_url(profile.base_url),
            "keys": profile.keys_set(),
            "source": str(read.path) if profile.name in read.names else "catalogue",
        }
        for profile in profiles
    ]
    console = Console()
    if as_json:
        for row in rows:
            console.file.write(json.dumps(row) + "\n")
        return
    table = Table("provider", "adapter", *(Column(head, overflow="fold") for head in ("base URL", "key", "written in")))
    for profile, row in zip(profiles, rows, strict=True):
        state = key_state(profile)
        texts = (Text(str(row[key])) for key in ("name", "adapter", "base_url"))
        table.add_row(*texts, Text(state, "green" if state.startswith("set") else "dim"), Text(str(row["source"])))
    console.print(table)


async def _demo(screen: Screen, as_json: bool, speed: float) -> None:
    console = Console()
    recordings = [find_recording(name) for name, _ in _DEMO]
    async with (
        serve_replay(recordings, speed=speed) as base_url,
        Provider.from_config({"name": "demo", "base_url": base_url}) as provider,
    ):
        for name, question in _DEMO:
            if not as_json:
                console.rule(f"[bold]{question}[/]", align="left")
            await _show(provider, screen, [user(question)], None, "auto", model=name)
            if not as_json:
                console.print()


async def _chat(
    screen: Screen,
    spec: str | None,
    config: Path | None,
    base_url: str | None,
    messages: list[Any],
    tool_file: Path | None,
    tool_choice: str,
) -> None:
    tools = _read_tools(tool_file) if tool_file else None
    choice: Any = tool_choice
    if tool_choice not in ("auto", "none", "required"):
        choice = {"type": "function", "name": tool_choice}
    async with Provider.from_config(spec, config=config, base_url=base_url) as provider:
        await _show(provider, screen, messages, tools, choice)


async def _show(
    provider: Provider, screen: Screen, messages: list[Any], tools: list[Any] | None, choice: Any, **options: Any
) -> None:
    async with provider.chat_stream(messages, tools, tool_choice=choice, **options) as stream:
        async for chunk in stream:
            screen.chunk(chunk)
    screen.end(stream.reply)


def _read_tools(path: Path) -> list[Any]:
    try:
        tools = json.loads(path.read_text("utf-8"))
    except ValueError as exc:
        raise ConfigError(f"{path}: not JSON: {exc}") from exc
    return tools if isinstance(tools, list) else [tools]


def _screen(as_json: bool, *, everything: bool = False) -> Screen:
    console = Console(highlight=False)
    if as_json:
        return Json(console)
    return Plain(console, console if console.is_terminal or everything else Console(stderr=True, highlight=False))


def _run(function: Callable[..., Awaitable[None]], *args: Any) -> None:
    with told_errors():
        anyio.run(function, *args)
