"""The loop that everyone writes: ask, run the calls, send the results, until the model has nothing more to call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack

import anyio
import anyio.to_thread
from pydantic_core import to_jsonable_python

from ..requests import ChatOptions, read_messages
from ..values import (
    AudioPart,
    ConfigError,
    FilePart,
    ImagePart,
    Message,
    MessageLike,
    Messages,
    Reply,
    StreamChunk,
    StreamfoldError,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolLike,
    TurnLimitError,
    as_tools,
    tool_result,
)

if TYPE_CHECKING:
    from .model import ChatModel
    from .stream import ChatStream

__all__ = ["ToolRun", "in_thread", "run_tools"]

P = ParamSpec("P")
T = TypeVar("T")

_PARTS = (TextPart, ImagePart, FilePart, AudioPart)
_NOT_FINISHED = "not finished: the run was stopped before the tool had answered"
_NO_TURN_LEFT = "not run: no turn was left"


def run_tools(
    provider: ChatModel,
    messages: Messages,
    tools: Iterable[ToolLike],
    *,
    max_turns: int = 10,
    tool_choice: ToolChoice = "auto",
    **options: Unpack[ChatOptions],
) -> ToolRun:
    """Streams the answer of a model that may call tools; the calls are run between its turns.

    All calls of a turn run at the same time, and their results go back in the order of the calls. A tool that fails, or
    that does not exist, or arguments that do not fit, end nothing: the model is told. Nothing is sent before the first
    chunk is asked for.

        async with run_tools(provider, "Is it warmer in Oslo or in Bergen?", [get_weather]) as run:
            async for chunk in run:
                print(chunk.delta, end="")
        print(run.reply.text, len(run.messages))

    Args:
        tools: functions as `tool` takes them, or `Tool`s that have one.
        max_turns: how often the model is asked at most.
        tool_choice: for the first turn. A forced choice would never let the model come to an end.
        options: see `ChatOptions`; they are used for every turn.

    Raises:
        ConfigError: a tool has no function, or two have the same name; or the first request can't be sent, as with a
            model that is known to call no tools.
    """
    return ToolRun(provider, messages, tools, max_turns=max_turns, tool_choice=tool_choice, options=options)


class ToolRun:
    """The chunks of all turns: an async iterator, and a context manager that closes the connection when it is left.

    Each turn ends with a finished chunk of its own, which has the calls that are run next. Between two chunks nothing
    of the run is at work: no task, no cancel scope.

    Attributes:
        messages: the conversation so far: what was given, the turns of the model, and the results of its calls. It can
            be sent again whatever happened: calls that were not run to their end have a result that says so.
        replies: the replies of the turns so far.
    """

    def __init__(
        self,
        provider: ChatModel,
        messages: Messages,
        tools: Iterable[ToolLike],
        *,
        max_turns: int,
        tool_choice: ToolChoice,
        options: ChatOptions,
    ) -> None:
        if max_turns < 1:
            raise ConfigError(f"max_turns is at least 1, not {max_turns}")
        self.messages: list[MessageLike] = list(read_messages(messages))
        self.replies: list[Reply] = []
        self._provider = provider
        self._tools = _by_name(tools)
        self._max_turns = max_turns
        self._tool_choice = tool_choice
        self._options = options
        self._ended = False
        self._stream: ChatStream | None = self._ask()  # sends nothing yet, and refuses what can't be sent

    @property
    def reply(self) -> Reply:
        """The reply of the last turn that has ended. Raises StreamfoldError while there is none."""
        if not self.replies:
            raise StreamfoldError("there is no reply yet: read the run to its end first")
        return self.replies[-1]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamChunk:
        while not self._ended:
            stream = self._stream = self._stream or self._ask()
            try:
                chunk = await anext(stream)
                if chunk.finished:
                    self._note(stream.reply)
                return chunk
            except StopAsyncIteration:
                self._stream = None
                if not self._ended:  # else it was closed by another task
                    await self._run_calls()
            except BaseException:
                self._ended = True
                raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Closes the connection. The iteration ends; `messages` and `replies` stay."""
        self._ended = True
        if self._stream is not None:
            await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _ask(self) -> ChatStream:
        choice = "auto" if self.replies and self._tool_choice != "none" else self._tool_choice
        return self._provider.chat_stream(
            self.messages, list(self._tools.values()), tool_choice=choice, **self._options
        )

    def _note(self, reply: Reply) -> None:
        """The turn goes into the history, with results that hold until there are others."""
        self.replies.append(reply)
        self.messages.append(reply.message)
        text = _NOT_FINISHED if self._turns_left else _NO_TURN_LEFT
        self.messages += [tool_result(call, text, error=True) for call in reply.tool_calls]

    @property
    def _turns_left(self) -> int:
        return self._max_turns - len(self.replies)

    async def _run_calls(self) -> None:
        """Runs the calls of the last turn at the same time; each result takes its place when it is there."""
        calls = self.reply.tool_calls
        if calls and not self._turns_left:
            self._ended = True
            names = ", ".join(call.name for call in calls)
            raise TurnLimitError(f"the model still asks for tools after {self._max_turns} turns: {names}")
        first = len(self.messages) - len(calls)

        async def run(position: int) -> None:
            self.messages[first + position] = await _result(self._tools, calls[position])

        self._ended = True  # unless all goes well
        async with anyio.create_task_group() as group:
            for position in range(len(calls)):
                group.start_soon(run, position)
        self._ended = not calls


async def _result(tools: Mapping[str, Tool], call: ToolCall) -> Message:
    """What the model is told about a call."""
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(tools) or "none"
        return tool_result(call, f"there is no tool {call.name!r}; there are: {known}", error=True)
    if tool.kind != "function":  # `$web_search` of Moonshot: its result is its arguments, unchanged
        return tool_result(call, call.raw_arguments)
    try:
        return _message(call, await tool.call(call))
    except StreamfoldError as exc:  # the arguments do not fit, and the text was made to be read by the model
        return tool_result(call, str(exc), error=True)
    except Exception as exc:  # whatever it is, the model can be told and may try otherwise
        return tool_result(call, f"{type(exc).__name__}: {exc}", error=True)


def _message(call: ToolCall, value: Any) -> Message:
    parts = getattr(value, "content", None)
    if isinstance(parts, list) and hasattr(value, "isError"):  # the result of an MCP tool: its texts, if that is all
        texts = [getattr(part, "text", None) for part in parts]
        if all(isinstance(text, str) for text in texts):
            return tool_result(call, "\n".join(map(str, texts)), error=bool(value.isError))
    several = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, str) or any(isinstance(part, _PARTS) for part in several):
        return tool_result(call, value)
    return tool_result(call, to_jsonable_python(value, fallback=str))


def _by_name(tools: Iterable[ToolLike]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in as_tools(tools):
        if tool.name in found:
            raise ConfigError(f"two tools are called {tool.name!r}")
        if tool.function is None and tool.kind == "function":
            raise ConfigError(f"the tool {tool.name!r} has no function that could run a call: pass function=")
        found[tool.name] = tool
    return found


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """A plain function that blocks (files, databases, `requests`) as an async one, run in a worker thread.

    `tool(in_thread(read_file))` is a tool that holds nobody up. A cancellation waits for the function to end, because
    nothing can stop a thread.
    """

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))

    return run
