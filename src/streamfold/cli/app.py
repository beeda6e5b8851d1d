"""The commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.table import Column, Table

from ..decoder import StreamDecoder
from ..errors import APIError, ConfigError, StreamError, StreamfoldError
from ..messages import system, user
from ..profiles import catalogue, read_profile
from ..provider import Provider
from ..recording import Recording, find_recording
from ..replay_server import serve_replay
from .show import Json, Plain, Screen

app = typer.Typer(
    help="The async door to language models: streamed text, whole tool calls, one interface for every provider.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

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
        str,
        typer.Option("-p", "--provider", envvar="STREAMFOLD_PROVIDER", help="PROVIDER or PROVIDER:MODEL."),
    ],
    system_prompt: Annotated[str | None, typer.Option("--system", help="Instructions for the model.")] = None,
    tool_file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A JSON list of tools, in the shape of Chat Completions."),
    ] = None,
    tool_choice: Annotated[str, typer.Option(help="auto, none, required, or the name of a tool.")] = "auto",
    base_url: Annotated[str | None, typer.Option(help="Another address than the catalogue's, with its /v1.")] = None,
    as_json: AsJson = False,
) -> None:
    """Asks a model and streams its answer."""
    messages = [
        *([system(system_prompt)] if system_prompt else []),
        user(sys.stdin.read() if prompt == "-" else prompt),
    ]
    _run(_chat, _screen(as_json), provider, base_url, messages, tool_file, tool_choice)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A recorded answer: FILE.sse.")],
    adapter: Annotated[str | None, typer.Option(help="The wire format; else what FILE.toml says, else chat.")] = None,
    dialect: Annotated[str | None, typer.Option(help="How the model writes calls inside its text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Folds a recorded answer and shows what comes out."""
    screen = _screen(as_json)
    with _errors():
        recording = Recording.load(file)
        decoder = StreamDecoder(adapter or recording.adapter, dialect=dialect)
        for chunk in decoder.feed(recording.body):
            screen.chunk(chunk)
        for chunk in decoder.close():
            screen.chunk(chunk)
        screen.end(decoder.reply)


@app.command()
def providers(as_json: AsJson = False) -> None:
    """Lists the catalogue, and which keys are set."""
    console = Console()
    rows: list[dict[str, Any]] = []
    for name in catalogue():
        profile = read_profile(name)
        rows.append(
            {"name": name, "adapter": profile.adapter, "base_url": profile.base_url, "keys": profile.keys_set()}
        )
    if as_json:
        for row in rows:
            console.file.write(json.dumps(row) + "\n")
        return
    table = Table("provider", "adapter", Column("base URL", overflow="fold"), Column("key", overflow="fold"))
    for row in rows:
        table.add_row(row["name"], row["adapter"], row["base_url"], _key_state(row["keys"]))
    console.print(table)


def _key_state(keys: dict[str, bool]) -> str:
    if not keys:
        return "[dim]none needed[/]"
    found = [variable for variable, is_set in keys.items() if is_set]
    return f"[green]set[/] ({found[0]})" if found else f"[dim]set {' or '.join(keys)}[/]"


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
    screen: Screen, spec: str, base_url: str | None, messages: list[Any], tool_file: Path | None, tool_choice: str
) -> None:
    tools = _read_tools(tool_file) if tool_file else None
    choice: Any = tool_choice
    if tool_choice not in ("auto", "none", "required"):
        choice = {"type": "function", "name": tool_choice}
    async with Provider.from_config(spec, base_url=base_url) as provider:
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
    with _errors():
        anyio.run(function, *args)


@contextmanager
def _errors() -> Iterator[None]:
    console = Console(stderr=True, highlight=False)
    try:
        yield
    except KeyboardInterrupt:
        console.print("\ninterrupted", style="dim")
        raise typer.Exit(130) from None
    except StreamfoldError as error:
        began = isinstance(error, StreamError)  # then text may be standing there, without a line end
        console.print(f"{chr(10) * began}error: {error}", style="red", markup=False, soft_wrap=True)
        if isinstance(error, APIError) and error.retryable:
            console.print("The same request may succeed later.", style="dim")
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None
