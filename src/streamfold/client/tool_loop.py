"""The tool loop: ask the model, run the calls, send the results, until the model calls no more tools."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable
from functools import partial, wraps
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeAlias, TypeVar, Unpack

import anyio
import anyio.to_thread
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..net import hides_arguments
from ..requests import ChatOptions, read_messages
from ..values import (
    AudioPart,
    ConfigError,
    Cost,
    FilePart,
    ImagePart,
    InvalidToolArgumentsError,
    Message,
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
    Usage,
    as_tools,
    tool_result,
    total_cost,
)
from .misuse import AsyncIteration

if TYPE_CHECKING:
    from .model import ChatModel
    from .stream import ChatStream

__all__ = ["OnToolError", "ToolRun", "in_thread", "run_tools"]

P = ParamSpec("P")
T = TypeVar("T")

OnToolError: TypeAlias = Callable[[ToolCall, Exception], str | Awaitable[str | None] | None]

_PARTS = (TextPart, ImagePart, FilePart, AudioPart)
_NOT_FINISHED = "not finished: the run was stopped before the tool had answered"
_NO_TURN_LEFT = "not run: the limit of turns was reached"

_logger = logging.getLogger("streamfold")


@hides_arguments
def run_tools(
    provider: ChatModel,
    messages: Messages,
    tools: Iterable[ToolLike],
    *,
    max_turns: int = 10,
    tool_choice: ToolChoice = "auto",
    on_tool_error: OnToolError | None = None,
    **options: Unpack[ChatOptions],
) -> ToolRun:
    """Streams the answer of a model that may call tools, and runs the calls between its turns.

        async with run_tools(provider, "Is it warmer in Oslo or in Bergen?", [get_weather]) as run:
            async for chunk in run:
                print(chunk.delta, end="")
        print(run.reply.text, len(run.messages))

        reply = await run_tools(provider, "Is it warmer in Oslo or in Bergen?", [get_weather])

    All calls of a turn run at the same time; their results go back in the order of the calls. Unknown tools, arguments
    that do not fit and tools that raise do not end the run: the model gets an error as the result. When a tool raises,
    the log has the traceback, and the model gets the names of the tool and of the exception, but not the text of the
    exception, which may hold secrets. Nothing is sent until the first chunk is asked for.

    Args:
        provider: a provider or any other `ChatModel`.
        messages: the conversation. A string is one user message.
        tools: functions as `tool` takes them, or `Tool`s that have one.
        max_turns: the maximum number of requests to the model.
        tool_choice: for the first turn; the others use "auto", because a forced choice would never let the model end.
            "none" is used for all turns.
        on_tool_error: called with the call and the exception when a tool raises; may be async. The text that it returns
            is sent to the model; None sends the default text. What it raises ends the run.
        options: see `ChatOptions`; they are used for every turn.

    Returns:
        An async iterator of the chunks of all turns, which is also an async context manager. `await` reads it to its
        end and returns the last reply.

    Raises:
        ConfigError: a tool has no function, two tools have the same name, or the request can't be sent. Also while
            iterating, when a tool returned something that is neither text, parts nor JSON data.
        TurnLimitError: while iterating: the model still asked for tools in the last turn.
        APIError: while iterating: a request failed.
    """
    return ToolRun(
        provider,
        messages,
        tools,
        max_turns=max_turns,
        tool_choice=tool_choice,
        on_tool_error=on_tool_error,
        options=options,
    )


class ToolRun(AsyncIteration):
    """The chunks of all turns: an async iterator, and an async context manager that closes the connection.

    Each turn ends with a finished chunk of its own, which has the calls that are run next. Between two chunks nothing
    runs in the background: no task and no cancel scope.

    Attributes:
        messages: the conversation so far: the messages that were given, the turns of the model and the results of its
            calls. It can always be sent again: calls that did not finish have a result that says so.
        replies: the replies of the turns so far.
    """

    def __init__(
        self,
        model: ChatModel,
        messages: Messages,
        tools: Iterable[ToolLike],
        *,
        max_turns: int,
        tool_choice: ToolChoice,
        on_tool_error: OnToolError | None,
        options: ChatOptions,
    ) -> None:
        if max_turns < 1:
            raise ConfigError(f"max_turns must be at least 1, not {max_turns}")
        if on_tool_error is not None and not callable(on_tool_error):
            raise ConfigError(f"on_tool_error must be a function, not {type(on_tool_error).__name__}")
        self.messages: list[Message] = list(read_messages(messages))
        self.replies: list[Reply] = []
        self._model = model
        self._tools = _by_name(tools)
        self._max_turns = max_turns
        self._tool_choice = tool_choice
        self._on_tool_error = on_tool_error
        self._options = options
        self._ended = False
        self._stream: ChatStream | None = self._ask()  # sends nothing yet, and refuses what can't be sent

    @property
    def reply(self) -> Reply:
        """The reply of the last turn that has ended. Raises StreamfoldError before the first has."""
        if not self.replies:
            raise StreamfoldError("there is no reply yet: read the run to its end first")
        return self.replies[-1]

    @property
    def usage(self) -> Usage | None:
        """The token counts of all turns so far, added up; None if the server sent none."""
        found = [reply.usage for reply in self.replies if reply.usage is not None]
        return sum(found[1:], found[0]) if found else None

    @property
    def cost(self) -> Cost | None:
        """What all turns so far cost; None if that of one is not known, or if they were paid in several currencies."""
        return total_cost(self.replies)

    def __await__(self) -> Generator[Any, None, Reply]:
        return self._read_whole().__await__()

    async def _read_whole(self) -> Reply:
        async with self:
            async for _ in self:
                pass
        return self.reply

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
        """Closes the connection and ends the iteration. `messages` and `replies` stay."""
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
        return self._model.chat_stream(self.messages, list(self._tools.values()), tool_choice=choice, **self._options)

    def _note(self, reply: Reply) -> None:
        """Adds the turn to the history, with results that hold until there are real ones."""
        self.replies.append(reply)
        self.messages.append(reply.message)
        text = _NOT_FINISHED if self._turns_left else _NO_TURN_LEFT
        self.messages += [tool_result(call, text, error=True) for call in reply.tool_calls]

    @property
    def _turns_left(self) -> int:
        return self._max_turns - len(self.replies)

    async def _run_calls(self) -> None:
        """Runs the calls of the last turn at the same time, and puts their results into the history."""
        calls = self.reply.tool_calls
        if calls and not self._turns_left:
            self._ended = True
            names = ", ".join(call.name for call in calls)
            raise TurnLimitError(f"the model still asks for tools after {self._max_turns} turns: {names}")
        first = len(self.messages) - len(calls)
        failures: list[Exception] = []

        async def run(position: int) -> None:
            try:
                self.messages[first + position] = await self._result(calls[position])
            except Exception as exc:  # raised below: the task group would wrap it
                failures.append(exc)
                group.cancel_scope.cancel()

        self._ended = True  # unless all goes well
        async with anyio.create_task_group() as group:
            for position in range(len(calls)):
                group.start_soon(run, position)
        if failures:
            raise failures[0]
        self._ended = not calls

    async def _result(self, call: ToolCall) -> Message:
        """Runs a call. Raises what ends the run: a result that can't be sent, or what `on_tool_error` raises."""
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return tool_result(call, f"unknown tool {call.name!r}. Available: {known}", error=True)
        if tool.kind != "function":  # `$web_search` of Moonshot: its result is its arguments, unchanged
            return tool_result(call, call.raw_arguments)
        try:
            value = await tool.call(call)
        except Exception as exc:
            if isinstance(exc, InvalidToolArgumentsError) and exc.call is call:  # its text is made for the model
                return tool_result(call, str(exc), error=True)
            return tool_result(call, await self._explain(call, exc), error=True)
        return _message(call, value)

    async def _explain(self, call: ToolCall, error: Exception) -> str:
        """Returns the text for the model after a tool raised."""
        if self._on_tool_error is not None:
            text = self._on_tool_error(call, error)
            text = await text if isawaitable(text) else text
            if text is not None:
                return text
        _logger.error("the tool %s failed", call.name, exc_info=error)
        return f"the tool {call.name} failed: {type(error).__name__}"


def _message(call: ToolCall, value: Any) -> Message:
    """The result of a tool as a message. Raises ConfigError if it can't be sent."""
    parts = getattr(value, "content", None)
    if isinstance(parts, list) and hasattr(value, "isError"):  # the result of an MCP tool: its texts, if that is all
        texts = [getattr(part, "text", None) for part in parts]
        if all(isinstance(text, str) for text in texts):
            return tool_result(call, "\n".join(map(str, texts)), error=bool(value.isError))
    several = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, str) or any(isinstance(part, _PARTS) for part in several):
        return tool_result(call, value)
    try:
        return tool_result(call, to_jsonable_python(value))
    except PydanticSerializationError as exc:
        raise ConfigError(
            f"the result of the tool {call.name!r} is neither text, nor parts, nor JSON data: {exc}"
        ) from exc


def _by_name(tools: Iterable[ToolLike]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in as_tools(tools):
        if tool.name in found:
            raise ConfigError(f"two tools are called {tool.name!r}: names must be unique")
        if tool.function is None and tool.kind == "function":
            raise ConfigError(f"the tool {tool.name!r} has no function to run: pass function=")
        found[tool.name] = tool
    return found


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Returns a blocking function (files, databases, `requests`) as an async one that runs in a worker thread.

    `tool(in_thread(read_file))` is a tool that does not block the event loop. A cancellation waits for the function to
    end, because a thread can't be stopped.
    """

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))

    return run
