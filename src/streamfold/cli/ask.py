"""`streamfold chat`, `record` and `demo`: ask a model and show its answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from ..client import Provider
from ..net import make_client
from ..recording import Recording, RecordingDraft, failure_in, find_recording, recording_client
from ..terminal import File, console, print_error, read_json, reported_errors, say
from ..values import ConfigError, Message, Reply, StreamfoldError, image, system, user
from .show import ERROR_LINE, Screen, screen_for

AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one line of JSON for each chunk; the last one has the warnings, or else the error."
    ),
]
Spec = Annotated[
    str | None, typer.Option("-p", "--provider", help="PROVIDER or PROVIDER:MODEL; without it, the default provider.")
]
Model = Annotated[str | None, typer.Option(help="Another model than the configured one.")]
System = Annotated[str | None, typer.Option("--system", help="Instructions for the model.")]
Images = Annotated[
    list[str] | None, typer.Option("--image", help="An image to send along: a file or a URL. Repeatable.")
]
Temperature = Annotated[float | None, typer.Option(help="The sampling temperature.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="The largest number of tokens to generate.")]
ToolFile = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="A JSON list of tools in the format of Chat Completions."),
]
Choice = Annotated[str, typer.Option(help="auto, none, required, or the name of a tool.")]
BaseUrl = Annotated[str | None, typer.Option(help="Another base URL than the configured one, including its /v1.")]

_DEMO = (
    ("demo/reasoning_text", "Why must a streamed tool call wait until the stream has ended?"),
    ("demo/parallel_calls", "How is the weather in Lisbon and in Tromsø, and which flights are there?"),
)


@dataclass(frozen=True, slots=True)
class _Asker:
    """Sends conversations and shows the answers.

    Attributes:
        make: makes the provider. Each answer has its own, because each runs in an event loop of its own.
        options: for `chat_stream`.
        folder, name: where to record the answer, if it is to be recorded.
    """

    screen: Screen
    make: Callable[[], Provider]
    options: dict[str, Any]
    folder: Path | None = None
    name: str | None = None
    tools: list[Any] = field(default_factory=list)

    def ask(self, messages: list[Message]) -> Reply:
        """Asks, shows the answer, and records it."""
        return anyio.run(self._ask, messages)

    async def _ask(self, messages: list[Message]) -> Reply:
        async with self.make() as provider:
            if self.folder is None:
                return await self._show(provider, messages)
            profile = provider.profile
            draft = RecordingDraft(self.folder, self.name) if self.name else None
            folder = draft.folder if draft else self.folder
            client, recorded = recording_client(
                make_client(profile.transport),
                folder,
                name=self.name,
                secrets=profile.secrets(),
                adapter=profile.adapter_of(profile.model),
            )
            try:
                async with client:
                    return await self._show(Provider(profile, http_client=client), messages)
            finally:
                for path in _kept(draft) if draft else recorded.written:
                    failure = failure_in(Recording.load(path))
                    say(f"recorded: {path}.sse" + (f" ({failure})" if failure else ""), err=True)

    async def _show(self, provider: Provider, messages: list[Message]) -> Reply:
        async with provider.chat_stream(messages, self.tools, **self.options) as stream:
            async for chunk in stream:
                self.screen.chunk(chunk)
        self.screen.end(stream.reply)
        return stream.reply


def demo(
    as_json: AsJson = False,
    speed: Annotated[float, typer.Option(help="Events per second.")] = 25.0,
) -> None:
    """Stream two recorded answers over HTTP on this machine. Needs no key and no network."""
    with reported_errors(as_json, ERROR_LINE):
        anyio.run(_demo, screen_for(as_json, everything=True), as_json, speed)


async def _demo(screen: Screen, as_json: bool, speed: float) -> None:
    from ..testing import serve_replay  # late: it knows every wire

    target = console()
    recordings = [find_recording(name) for name, _ in _DEMO]
    async with (
        serve_replay(recordings, speed=speed) as base_url,
        Provider.from_config({"name": "demo", "base_url": base_url}) as provider,
    ):
        for name, question in _DEMO:
            if not as_json:
                target.print(Text(f"> {question}", "bold"), soft_wrap=True)
            await _Asker(screen, lambda: provider, {"model": name})._show(provider, [user(question)])
            if not as_json:
                target.print()


def chat(
    prompt: Annotated[
        str | None,
        typer.Argument(help="The question; - reads it from standard input."),
    ] = None,
    provider: Spec = None,
    model: Model = None,
    system_prompt: System = None,
    images: Images = None,
    temperature: Temperature = None,
    max_output_tokens: MaxTokens = None,
    tool_file: ToolFile = None,
    tool_choice: Choice = "auto",
    base_url: BaseUrl = None,
    config: File = None,
    record_folder: Annotated[
        Path | None, typer.Option("--record", file_okay=False, help="Record the answer into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model and stream its answer.

    Without a question, hold a conversation: each line that is typed is a question, and Ctrl-D ends it.
    """
    with reported_errors(as_json, ERROR_LINE):
        options = _options(tool_choice, temperature, max_output_tokens)
        make = partial(Provider.from_config, provider, config=config, **_given(base_url=base_url, model=model))
        asker = _Asker(screen_for(as_json), make, options, record_folder, None, _read_tools(tool_file))
        parts = [image(source) for source in images or ()]
        opening = [system(system_prompt)] if system_prompt else []
        if prompt is None and _at_terminal():
            if tool_file:
                raise ConfigError("--tool-file: a conversation in the terminal has no tools; pass the question as text")
            _converse(asker, opening, parts)
        else:
            asker.ask([*opening, user(_question(prompt, bool(parts)), *parts)])


def record(
    name: Annotated[str, typer.Argument(help="The name of the recording; it may begin with a folder: kimi/hello.")],
    prompt: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    provider: Spec = None,
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
    """Ask a model, stream and record its answer.

    The recording has no secrets, and takes the place of an older one of that name. The request is never repeated.
    A failed answer is saved, but never over an existing recording.
    """
    with reported_errors(as_json, ERROR_LINE):
        options = _options(tool_choice, temperature, max_output_tokens)
        given = _given(base_url=base_url, model=model)
        make = partial(Provider.from_config, provider, config=config, max_retries=0, **given)
        asker = _Asker(screen_for(as_json), make, options, directory, name, _read_tools(tool_file))
        opening = [system(system_prompt)] if system_prompt else []
        asker.ask([*opening, user(_question(prompt, False))])


def _converse(asker: _Asker, opening: list[Message], parts: list[Any]) -> None:
    """Asks what is typed, line by line, until Ctrl-D. A question that failed is not part of the conversation."""
    with suppress(ImportError):
        import readline  # noqa: F401 - lets `input` edit the line; Windows has that without it
    asker.options["repair"] = True  # an answer without text would be refused as a part of the next request
    messages = list(opening)
    while True:
        try:
            text = input("> ")
        except EOFError:
            say("")
            return
        if not text.strip():
            continue
        question = user(text, *parts)
        with _turn_may_fail():
            reply = asker.ask([*messages, question])
            messages += [question, reply.message]
            parts = []


@contextmanager
def _turn_may_fail() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("\ninterrupted: this question is not part of the conversation", err=True)
    except ConfigError:
        raise
    except StreamfoldError as error:
        print_error(error)


def _at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _question(prompt: str | None, has_parts: bool) -> str:
    """The text to ask. Raises ConfigError if there is none."""
    text = prompt
    if prompt == "-" or (prompt is None and sys.stdin is not None and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise ConfigError(f"standard input is not UTF-8: {exc}") from exc
    if text is None:
        raise ConfigError('no question: write streamfold chat "...", or pipe one into it')
    if not text.strip() and not has_parts:
        raise ConfigError("no question: " + ("standard input" if text is not prompt else "the text") + " is empty")
    return text


def _options(tool_choice: str, temperature: float | None, max_output_tokens: int | None) -> dict[str, Any]:
    choice: Any = tool_choice
    if choice not in ("auto", "none", "required"):
        choice = {"type": "function", "name": choice}
    return {"tool_choice": choice, **_given(temperature=temperature, max_output_tokens=max_output_tokens)}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _kept(draft: RecordingDraft) -> list[Path]:
    """Keeps the recordings, unless one is of a failure and would replace an older one."""
    try:
        problem = draft.problem() if draft.has_older else None
        if problem is None:
            return draft.keep()
        say(f"not recorded: {problem}; {draft.target}.sse is unchanged", err=True)
        return []
    finally:
        draft.discard()


def _read_tools(path: Path | None) -> list[Any]:
    tools = [] if path is None else read_json(path)
    return tools if isinstance(tools, list) else [tools]
