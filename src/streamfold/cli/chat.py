"""The commands `demo`, `chat` and `record`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from ..client import Provider
from ..config import Profile, load_profile
from ..errors import ConfigError
from ..net import make_client
from ..recording import Recording, RecordingDraft, failure_in, find_recording, recording_client
from ..terminal import File, ProviderSpecs, console, one_provider, print_status, read_json, reported_errors
from ..types import Message, image, system, user
from .rendering import ERROR_LINE, Renderer, renderer_for

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one line of JSON for each chunk; the last line has the warnings or the error."),
]
Model = Annotated[str | None, typer.Option(help="Use this model instead of the configured model.")]
System = Annotated[str | None, typer.Option("--system", help="Set the system message.")]
Images = Annotated[list[str] | None, typer.Option("--image", help="Send an image: a file or a URL. Can be repeated.")]
Temperature = Annotated[float | None, typer.Option(help="The sampling temperature.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="The maximum number of output tokens.")]
ToolFile = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="A file with a JSON list of tools in the format of Chat Completions."
    ),
]
Choice = Annotated[str, typer.Option(help="auto, none, required, or the name of a tool.")]
BaseUrl = Annotated[
    str | None, typer.Option(help="Use this base URL instead of the configured base URL. Include its /v1.")
]

_DEMO = (
    ("demo/reasoning_text", "Why must a streamed tool call wait until the stream has ended?"),
    ("demo/parallel_calls", "How is the weather in Lisbon and in Tromsø, and which flights are there?"),
)


async def _show(
    screen: Renderer,
    opened: AbstractAsyncContextManager[Provider],
    messages: list[Message],
    tools: list[Any],
    options: dict[str, Any],
) -> None:
    async with opened as provider:
        async with provider.chat_stream(messages, tools, **options) as stream:
            async for chunk in stream:
                screen.chunk(chunk)
        screen.end(stream.reply)


@asynccontextmanager
async def _recorded(profile: Profile, directory: Path, name: str) -> AsyncIterator[Provider]:
    draft = RecordingDraft(directory, name)
    client, _ = recording_client(
        make_client(profile.transport),
        draft.folder,
        name=name,
        secrets=profile.resolve().secrets(),
        adapter=profile.adapter_of(profile.model),
    )
    try:
        async with client:
            yield Provider(profile, http_client=client)
    finally:
        for path in _kept(draft):
            failure = failure_in(Recording.load(path))
            print_status(f"recorded: {path}.sse" + (f" ({failure})" if failure else ""), err=True)


def demo(
    as_json: AsJson = False,
    speed: Annotated[float, typer.Option(help="Events per second.")] = 25.0,
) -> None:
    """Stream two recorded answers from a local HTTP server. Needs no API key and no internet connection."""
    with reported_errors(as_json, ERROR_LINE):
        anyio.run(_demo, renderer_for(as_json, everything=True), as_json, speed)


async def _demo(screen: Renderer, as_json: bool, speed: float) -> None:
    from ..testing import serve_replay  # late: it knows every API

    target = console()
    recordings = [find_recording(name) for name, _ in _DEMO]
    async with serve_replay(recordings, speed=speed) as base_url:
        for name, question in _DEMO:
            provider = Provider.from_config({"name": "demo", "base_url": base_url})
            if not as_json:
                target.print(Text(f"> {question}", "bold"), soft_wrap=True)
            await _show(screen, provider, [user(question)], [], {"model": name})
            if not as_json:
                target.print()


def chat(
    prompt: Annotated[
        str | None,
        typer.Argument(help="The question; - reads it from standard input."),
    ] = None,
    provider: ProviderSpecs = None,
    model: Model = None,
    system_prompt: System = None,
    images: Images = None,
    temperature: Temperature = None,
    max_output_tokens: MaxTokens = None,
    tool_file: ToolFile = None,
    tool_choice: Choice = "auto",
    base_url: BaseUrl = None,
    config: File = None,
    as_json: AsJson = False,
) -> None:
    """Send a question to a model and stream the answer."""
    with reported_errors(as_json, ERROR_LINE):
        options = _options(tool_choice, temperature, max_output_tokens)
        spec, messages = one_provider(provider), _messages(prompt, system_prompt, images or ())
        tools, given = _read_tools(tool_file), _given(base_url=base_url, model=model)
        opened = Provider.from_config(spec, config=config, **given)
        anyio.run(_show, renderer_for(as_json), opened, messages, tools, options)


def record(
    name: Annotated[str, typer.Argument(help="The name of the recording, such as hello or kimi/hello.")],
    prompt: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    provider: ProviderSpecs = None,
    model: Model = None,
    directory: Annotated[Path, typer.Option(file_okay=False, help="The folder for NAME.sse and NAME.toml.")] = Path(
        "fixtures"
    ),
    system_prompt: System = None,
    temperature: Temperature = None,
    max_output_tokens: MaxTokens = None,
    tool_file: ToolFile = None,
    tool_choice: Choice = "auto",
    base_url: BaseUrl = None,
    config: File = None,
    as_json: AsJson = False,
) -> None:
    """Send a question to a model, stream the answer, and record it.

    The recording contains no secrets, and replaces an older recording with the same name. The request is never retried.
    A failed answer is saved too, but never replaces an existing recording.
    """
    with reported_errors(as_json, ERROR_LINE):
        options, messages = _options(tool_choice, temperature, max_output_tokens), _messages(prompt, system_prompt)
        tools, given = _read_tools(tool_file), _given(base_url=base_url, model=model)
        profile = load_profile(one_provider(provider), {"max_retries": 0, **given}, config)
        anyio.run(_show, renderer_for(as_json), _recorded(profile, directory, name), messages, tools, options)


def _messages(prompt: str | None, system_prompt: str | None, images: Sequence[str] = ()) -> list[Message]:
    text, parts = prompt, [image(source) for source in images]
    if prompt == "-" or (prompt is None and sys.stdin is not None and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise ConfigError(f"standard input is not UTF-8: {exc}") from exc
    if text is None:
        raise ConfigError('the question is missing: write streamfold chat "...", or pipe the question into the command')
    if not text.strip() and not parts:
        raise ConfigError("no question: " + ("standard input" if text is not prompt else "the text") + " is empty")
    return [*([system(system_prompt)] if system_prompt else ()), user(text, *parts)]


def _options(tool_choice: str, temperature: float | None, max_output_tokens: int | None) -> dict[str, Any]:
    choice: Any = tool_choice
    if choice not in ("auto", "none", "required"):
        choice = {"type": "function", "name": choice}
    return {"tool_choice": choice, **_given(temperature=temperature, max_output_tokens=max_output_tokens)}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _kept(draft: RecordingDraft) -> list[Path]:
    # A failed answer never replaces an older recording.
    try:
        problem = draft.problem() if draft.has_older else None
        if problem is None:
            return draft.keep()
        print_status(f"not recorded: {problem}; {draft.target}.sse is unchanged", err=True)
        return []
    finally:
        draft.discard()


def _read_tools(path: Path | None) -> list[Any]:
    tools = [] if path is None else read_json(path)
    return tools if isinstance(tools, list) else [tools]
