"""The commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..client import Provider
from ..config import key_state, provider_files, read_config
from ..net import make_client
from ..testing import serve_replay
from ..testing.recording import Draft, Recording, failure_in, find_recording, recording_client
from ..values import ConfigError, __version__, shown_url, system, user
from . import capabilities, replays
from . import config as config_commands
from .errors import told_errors
from .inspect import diff, inspect
from .show import Screen, screen_for
from .swap import swap_check

app = typer.Typer(
    help="The async door to language models: streamed text, whole tool calls, one interface for every provider.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamfold {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What goes before a command. Its help is that of the app."""


AsJson = Annotated[bool, typer.Option("--json", help="One line of JSON for each chunk.")]
Provided = Annotated[
    str | None, typer.Option("-p", "--provider", help="PROVIDER or PROVIDER:MODEL; else the default one.")
]
System = Annotated[str | None, typer.Option("--system", help="Instructions for the model.")]
ToolFile = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="A JSON list of tools, in the shape of Chat Completions."),
]
Choice = Annotated[str, typer.Option(help="auto, none, required, or the name of a tool.")]
BaseUrl = Annotated[str | None, typer.Option(help="Another address than the configured one, with its /v1.")]

_DEMO = (
    ("demo/reasoning_text", "Why must a streamed tool call wait until the stream has ended?"),
    ("demo/parallel_calls", "How is the weather in Lisbon and in Tromsø, and which flights are there?"),
)


def demo(
    as_json: AsJson = False,
    speed: Annotated[float, typer.Option(help="Events per second.")] = 25.0,
) -> None:
    """Streams two answers from files over real HTTP on loopback. Needs no key and no network."""
    _run(_demo, screen_for(as_json, everything=True), as_json, speed)


def chat(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    provider: Provided = None,
    system_prompt: System = None,
    tool_file: ToolFile = None,
    tool_choice: Choice = "auto",
    base_url: BaseUrl = None,
    config: config_commands.File = None,
    record_folder: Annotated[
        Path | None, typer.Option("--record", file_okay=False, help="Record the answer into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Asks a model and streams its answer."""
    asked = _Question(_messages(system_prompt, prompt), tool_file, tool_choice)
    _run(_chat, screen_for(as_json), _provider(provider, config, base_url), asked, record_folder, None)


def record(
    name: Annotated[str, typer.Argument(help="Of the recording; a folder may stand before it, as in kimi/hello.")],
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    provider: Provided = None,
    directory: Annotated[Path, typer.Option(file_okay=False, help="Where NAME.sse and NAME.toml go.")] = Path(
        "fixtures"
    ),
    system_prompt: System = None,
    tool_file: ToolFile = None,
    tool_choice: Choice = "auto",
    base_url: BaseUrl = None,
    config: config_commands.File = None,
    as_json: AsJson = False,
) -> None:
    """Asks a model, streams its answer, and records it without secrets, in place of an older recording.

    It asks once. An answer that fails is recorded too, but in nobody's place.
    """
    asked = _Question(_messages(system_prompt, prompt), tool_file, tool_choice)
    make = _provider(provider, config, base_url, max_retries=0)  # a second attempt would be a second recording
    _run(_chat, screen_for(as_json), make, asked, directory, name)


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
    from ..gateway import run

    with told_errors():
        run(file, host=host, port=port, providers=provider or None)


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
        profiles = [read.profile(name) for name in dict.fromkeys([*read.names, *provider_files()])]
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


# In the help they stand in the order of their registration: first what asks, then what records, then what looks.
for _command in (demo, chat, providers, record, replays.replay, replays.serve_replay, inspect, diff, swap_check, serve):
    app.command()(_command)
app.add_typer(config_commands.app, name="config")


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


@dataclass(frozen=True, slots=True)
class _Question:
    messages: list[Any]
    tool_file: Path | None
    tool_choice: str


def _messages(system_prompt: str | None, prompt: str) -> list[Any]:
    said = user(sys.stdin.read() if prompt == "-" else prompt)
    return [system(system_prompt), said] if system_prompt else [said]


def _provider(spec: str | None, config: Path | None, base_url: str | None, **more: Any) -> Callable[[], Provider]:
    return lambda: Provider.from_config(spec, config=config, base_url=base_url, **more)


async def _chat(
    screen: Screen, make: Callable[[], Provider], question: _Question, directory: Path | None, name: str | None
) -> None:
    tools = _read_tools(question.tool_file) if question.tool_file else None
    choice: Any = question.tool_choice
    if choice not in ("auto", "none", "required"):
        choice = {"type": "function", "name": choice}
    async with make() as provider:
        if directory is None:
            await _show(provider, screen, question.messages, tools, choice)
            return
        profile = provider.profile
        draft = Draft(directory, name) if name else None
        client, recorded = recording_client(
            make_client(profile.transport),
            draft.folder if draft else directory,
            name=name,
            secrets=profile.secrets(),
            adapter=profile.adapter,
        )
        try:
            async with client:
                recording = Provider(profile, http_client=client)
                await _show(recording, screen, question.messages, tools, choice)
        finally:
            for path in _kept(draft) if draft else recorded.written:
                failure = failure_in(Recording.load(path))
                typer.echo(f"recorded: {path}.sse" + (f" ({failure})" if failure else ""), err=True)


def _kept(draft: Draft) -> list[Path]:
    """Keeps what was recorded, unless it is a failure and something else is there already."""
    try:
        problem = draft.problem() if draft.has_older else None
        if problem is None:
            return draft.keep()
        typer.echo(f"not recorded: {problem}; {draft.target}.sse is as it was", err=True)
        return []
    finally:
        draft.discard()


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


def _run(function: Callable[..., Awaitable[None]], *args: Any) -> None:
    with told_errors():
        anyio.run(function, *args)
