"""`run_tools` and `resume_tools` for synchronous code."""

from __future__ import annotations

import threading
from asyncio import wrap_future
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import replace
from functools import partial, wraps
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Unpack

from ..answers import check_model
from ..errors import ConfigError
from ..net import scrubs_traceback
from ..tools import RunOptions
from ..tools import resume_tools as resume_async
from ..tools import run_tools as run_async
from ..types import Message, Messages, Tool, ToolChoice, ToolLike, read_tools
from .provider import Provider
from .streams import ToolRun


@scrubs_traceback
def run_tools(
    provider: Provider,
    messages: Messages,
    tools: Iterable[ToolLike],
    *,
    tool_choice: ToolChoice = "auto",
    **options: Unpack[RunOptions],
) -> ToolRun:
    """Streams the responses of a model, and runs the tool calls between the responses.

        with run_tools(provider, "Is it warmer in Oslo or in Bergen?", [get_weather]) as run:
            for chunk in run:
                print(chunk.delta, end="")

        reply = run_tools(provider, "Is it warmer in Oslo or in Bergen?", [get_weather]).read()

    All tool calls of a response run in parallel. Each plain function runs in its own thread, so a tool may block and
    use the provider. Async tools, `on_tool_error` and hooks run on the provider's background thread, and must not
    block. Everything else works as in `streamfold.run_tools`.
    """
    _check_provider(provider, "run_tools()")
    run = run_async(provider.model, messages, _threaded_tools(tools), tool_choice=tool_choice, **options)
    return ToolRun(provider, provider.thread, run)


@scrubs_traceback
def resume_tools(
    provider: Provider,
    state: str | Sequence[Message],
    tools: Iterable[ToolLike],
    **options: Unpack[RunOptions],
) -> ToolRun:
    """Continues a paused run, in this process or in another one. See `streamfold.tools.resume_tools`."""
    _check_provider(provider, "resume_tools()")
    run = resume_async(provider.model, state, _threaded_tools(tools), **options)
    return ToolRun(provider, provider.thread, run)


def _check_provider(provider: object, function: str) -> None:
    if not isinstance(provider, Provider):
        check_model(provider, function)
        raise ConfigError(f"{function} of streamfold.sync takes a provider of streamfold.sync: write Provider(model)")


def _threaded_tools(given: Iterable[ToolLike]) -> list[Tool | Iterable[Tool]]:
    return [_threaded(item) if isinstance(item, Tool) else _ThreadedSet(item) for item in read_tools(given)]


class _ThreadedSet:
    """A group of tools such as `McpTools`, whose plain functions run in threads. The tools of the group may change
    during a run.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = tools

    def __iter__(self) -> Iterator[Tool]:
        return map(_threaded, self._tools)


def _threaded(tool: Tool) -> Tool:
    """Returns a copy of a tool whose plain function runs in a thread, because it may block."""
    function = tool.function
    if function is None or iscoroutinefunction(function):
        return tool

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        value = await _in_thread(partial(function, *args, **kwargs))
        return await value if isawaitable(value) else value

    return replace(tool, function=call)


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Calls a function in a new thread. Unlike the threads of a thread pool, it doesn't delay the exit of the
    interpreter.
    """
    done: Future[Any] = Future()

    def work() -> None:
        try:
            value = context.run(function)
        except BaseException as exc:
            done.set_exception(exc)
        else:
            done.set_result(value)

    context = copy_context()
    done.set_running_or_notify_cancel()  # from now on it can't be cancelled, only abandoned
    threading.Thread(target=work, name="streamfold tool", daemon=True).start()
    return await wrap_future(done)
