"""The tool loop: ask the model, run the calls, send the results, until the model calls no more tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, Unpack

import anyio.to_thread

from ..net import scrubs_traceback
from ..requests import read_messages
from ..values import ConfigError, Message, Messages, ToolChoice, ToolLike
from .run_options import MAX_TURNS, RunOptions, checked_owner
from .run_state import RunState, read_state
from .tool_run import ToolRun

if TYPE_CHECKING:
    from ..answers import ChatModel

P = ParamSpec("P")
T = TypeVar("T")


@scrubs_traceback
def run_tools(
    provider: ChatModel,
    messages: Messages,
    tools: Iterable[ToolLike],
    *,
    tool_choice: ToolChoice = "auto",
    **options: Unpack[RunOptions],
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

    A turn that the model only interrupts (`Reply.paused`) goes on by itself, ten times at most.

    The run pauses before calls of tools that need an approval or are external: `pending` has them, and the iteration
    ends. After `approve`, `deny` or `answer` it goes on when it is read again, here or in another process
    (`resume_tools`).

    Args:
        provider: a provider or any other `ChatModel`.
        messages: the conversation. A string is one user message.
        tools: functions as `tool` takes them, or `Tool`s that have one.
        external: tools that somebody else runs, a browser for example; they need no function.
        max_turns: the maximum number of requests to the model; 10 by default.
        tool_choice: for the first turn; the others use "auto", because a forced choice would never let the model end.
            "none" is used for all turns.
        on_tool_error: called with the call and the exception when a tool raises; may be async. The text that it returns
            is sent to the model; None sends the default text. What it raises ends the run.
        approve: decides about calls that need an approval, so that the run does not pause for them: those of tools that
            say so, and those that the provider asks about (`HostedMcpServer(require_approval=...)`). Plain or async.
        journal: records which calls were started, so that no copy of this run's saved state starts them again.
        owner: the user or tenant whose run it is, as your application knows them. It is part of everything that is kept
            of the run, and of its saved state. By default all runs have one owner.
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
    return ToolRun(provider, read_messages(messages), tools, options, tool_choice=tool_choice)


@scrubs_traceback
def resume_tools(
    provider: ChatModel,
    state: str | Sequence[Message],
    tools: Iterable[ToolLike],
    **options: Unpack[RunOptions],
) -> ToolRun:
    """Continues a run that paused, in this process or in another one.

        state = run.dump()  # text, to be stored while somebody decides
        ...
        run = resume_tools(provider, state, [delete_file])
        run.approve("call_1")
        async for chunk in run: ...

    A call that was started before is never started again; without a result it counts as not finished. The same state
    can be resumed twice, by a button that is pressed twice: pass a `journal`, and each call still runs once.

    Args:
        state: what `ToolRun.dump` returned, or a conversation that ends with calls, some of them without a result.
            State decides what is run: don't accept it from a client that may not call the tools directly. A
            conversation is a new run, for which no journal has results.
        tools, external, on_tool_error, approve, journal, options: as for `run_tools`. They are not part of the state.
        max_turns: for a conversation; a dumped state has its own.
        owner: must be that of a dumped state, if it is given.

    Raises:
        ConfigError: the state can't be read, belongs to another owner, or is of a run that began longer ago than its
            journal keeps what was run; the conversation does not end with calls; and as for `run_tools`.
        CallInDoubtError: while iterating: another run of the same state has started a call, and has no result yet.
        StoreError: while iterating: the store of the journal can't be used. The tool has not run; resume what `dump`
            returns now.
    """
    if isinstance(state, str):
        saved = read_state(state)
    else:
        given = options.get("max_turns", MAX_TURNS)
        saved = RunState(None, tuple(read_messages(state)), given, owner=options.get("owner", ""))
    if checked_owner(options.setdefault("owner", saved.owner)) != saved.owner:
        raise ConfigError("the state belongs to another owner: it was not saved by a run with this owner=")
    options["max_turns"] = saved.max_turns
    return ToolRun(provider, saved.messages, tools, options, resumed=saved)


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Returns a blocking function (files, databases, `requests`) as an async one that runs in a worker thread.

    `tool(in_thread(read_file))` is a tool that does not block the event loop. A cancellation waits for the function to
    end, because a thread can't be stopped.
    """

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))

    return run
