"""run_tools and resume_tools: turns of the model, calls and pauses, as a stream of events."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial, wraps
from time import time
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar, Unpack

import anyio
import anyio.to_thread

from ..answers import AsyncContext, AsyncIteration
from ..errors import ConfigError, StreamfoldError, TurnLimitError
from ..net import scrubs_traceback
from ..requests import ChatOptions, read_messages
from ..types import (
    Cost,
    Message,
    Messages,
    PartialToolCall,
    Reply,
    StreamChunk,
    ToolCall,
    ToolChoice,
    ToolLike,
    Usage,
    as_tools,
    total_cost,
)
from .abandoned_calls import AbandonedCalls
from .approvals import PendingCall, TurnCalls, checked_approve, decide, needs_approval, take_open_calls
from .journal import (
    NOT_RUN,
    Approval,
    CallKey,
    approval_key,
    call_key,
    check_age,
    claim_answer,
    end_runs,
    load_approval,
    required_journal,
    run_key,
    run_once,
    store_approval,
)
from .run_state import MAX_TURNS, RunOptions, RunState, checked_owner, read_state
from .tool_results import ToolResult, denied_result, result_from_value, run_call, tools_by_name

if TYPE_CHECKING:
    from ..answers import ChatModel, ChatStream, Watcher


class _Run(Protocol):
    def check_unread(self) -> None: ...

    async def advance(self) -> StreamChunk | ToolResult | None: ...


class RunEvents(AsyncIteration):
    """The chunks and the results of a tool run, in their order; see `ToolRun.events`."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def __aiter__(self) -> Self:
        self._run.check_unread()
        return self

    async def __anext__(self) -> StreamChunk | ToolResult:
        event = await self._run.advance()
        if event is None:
            raise StopAsyncIteration
        return event


_MOST_PAUSES = 10  # of the model in one run, each to be told to go on
_NO_TURN_LEFT = "not run: the limit of turns was reached"


class ToolRun(AsyncIteration, AsyncContext):
    """The chunks of all turns: an async iterator, and an async context manager that closes the connection.

    Each turn ends with a finished chunk of its own, which has the calls that are run next. Between two chunks nothing
    runs in the background: no task and no cancel scope.

    Attributes:
        id: identifies the run: random, made here, and part of its saved state.
        owner: the user or tenant whose run it is.
        chat_id: the id of the conversation in a user interface, which signed approvals are about; "" without one. Its
            client has chosen it.
        abandoned: the calls of the conversation that a person went on without, which the run settles in its journal
            before it sends the first request; None if nobody has set them.
        messages: the conversation so far: the messages that were given, the turns of the model and the results of its
            calls. It can always be sent again: calls that did not finish have a result that says so.
        replies: the replies of the turns so far; a resumed run begins with none.
    """

    def __init__(
        self,
        model: ChatModel,
        messages: Iterable[Message],
        tools: Iterable[ToolLike],
        given: RunOptions,
        *,
        tool_choice: ToolChoice = "auto",
        resumed: RunState | None = None,
    ) -> None:
        options = given.copy()
        outside = as_tools(options.pop("external", ()))
        self._max_turns = options.pop("max_turns", MAX_TURNS)
        self._on_tool_error = options.pop("on_tool_error", None)
        self._approve = checked_approve(options.pop("approve", None))
        self._journal = options.pop("journal", None)
        self.owner = checked_owner(options.pop("owner", ""))
        self.id = (resumed and resumed.run_id) or secrets.token_hex(16)
        self.chat_id = ""
        self.abandoned: AbandonedCalls | None = None
        self._began = resumed.began if resumed and resumed.run_id else time()
        self._options: ChatOptions = options  # what is left: those of the requests
        if self._max_turns < 1:
            raise ConfigError(f"max_turns must be at least 1, not {self._max_turns}")
        if self._on_tool_error is not None and not callable(self._on_tool_error):
            raise ConfigError(f"on_tool_error must be a function, not {type(self._on_tool_error).__name__}")
        self.messages: list[Message] = list(messages)
        self.replies: list[Reply] = []
        self._model = model
        self._external = {tool.name for tool in outside}
        self._tools = tools_by_name([*as_tools(tools), *outside], self._external)
        self._turns = 0
        self._tool_choice = tool_choice
        self._pauses = 0  # turns that the model broke off, to go on
        self._ended = self._answered = False  # answered: by a turn without calls
        self._continued: set[str] = set()  # keys of signed approvals, and of the runs that had asked for them
        self._read = False  # to its end
        self._turn = TurnCalls(())  # the calls of the last turn
        self._claimed = self._turn  # the turn whose answers to a provider's approvals this run may send
        self._first = len(self.messages)  # where their results stand
        self._results: deque[ToolResult] = deque()
        self._watched: list[tuple[str, Watcher, str | None]] = []
        self._stream: ChatStream | None = None
        if resumed is not None:
            self._restore(resumed)
        if not self._turn.open and not self._ended:
            self._stream = self._ask()  # sends nothing yet, and refuses what can't be sent

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

    @property
    def finished(self) -> bool:
        """Whether the model has answered and calls no more tools."""
        return self._answered and self._stream is None

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that the run waits for; empty unless it is paused."""
        return self._turn.pending if self._stream is None else ()

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The tool calls that the model is writing, for showing them. See `ChatStream.partial_tool_calls`."""
        return self._stream.partial_tool_calls if self._stream is not None else ()

    def watch(self, path: str, function: Watcher, *, tool: str | None = None) -> None:
        """Calls a function as a value grows that the model is writing, in any turn. See `ChatStream.watch`.

        Raises:
            StreamfoldError: the run has been read to its end, or the turn under way is being read.
        """
        self.check_unread()
        if self._stream is not None:
            self._stream.watch(path, function, tool=tool)
        self._watched.append((path, function, tool))

    def approve(self, call_id: str, *, nonce: str | None = None) -> None:
        """Approves a pending call: it runs when the run is read again. Approving it twice changes nothing.

        Args:
            nonce: that of a signed approval, for a call that came with a conversation; see `approval_nonce`.

        Raises:
            ConfigError: no call with this id waits for an approval, or it was denied.
        """
        if not self._is_past(call_id):
            self._turn.decide(call_id, "approved", nonce=nonce)

    def deny(self, call_id: str, reason: str | None = None, *, nonce: str | None = None) -> None:
        """Denies a pending call: it is never run, and the model is told so.

        Args:
            reason: for the model.
            nonce: as for `approve`.

        Raises:
            ConfigError: no call with this id waits for an approval, or it was approved.
        """
        if not self._is_past(call_id):
            self._turn.decide(call_id, "denied", reason, nonce=nonce)

    def awaiting_approval(self, approval_id: str) -> ToolCall:
        """Returns the call that an approval is about, by `PendingCall.approval_id`, whether it was decided or not.

        A client that decides has to send this id: ids of calls may come again in later turns and in other runs.

        Raises:
            ConfigError: no call of the last turn has it.
        """
        return self._turn.awaiting_approval(approval_id)

    async def approval_nonce(self, waiting: PendingCall, shown: ToolCall) -> str | None:
        """Returns a nonce for a signed approval of a pending call, which the journal keeps; see `approve`.

        Args:
            shown: the call as the client knows it.

        Returns:
            None for a call that no model is known to have made: it came with the conversation.

        Raises:
            ConfigError: the run has no journal.
        """
        journal, place = required_journal(self._journal), approval_key(self.owner, self.chat_id, shown)
        if waiting.approval_id is None:
            known = await load_approval(journal, place)
            return None if known is None else known.nonce
        await store_approval(journal, place, Approval(waiting.approval_id, self._call_key(waiting.call)))
        return waiting.approval_id

    def answer(self, call_id: str, content: Any, *, error: bool = False) -> None:
        """Gives the result of a pending call of an external tool. A second result for the same call is ignored.

        Args:
            content: as a tool returns it: text, parts or JSON data.
            error: the tool failed, and the content says how.

        Raises:
            ConfigError: no call with this id waits for a result, or the content can't be sent.
        """
        if not self._is_past(call_id) and (call := self._turn.answerable(call_id)) is not None:
            result = result_from_value(call, content, error=error)
            self._finish(result)
            self._results.append(result)

    def dump(self) -> str:
        """Returns the state of the run as JSON text, from which `resume_tools` continues, in another process too.

        It has the conversation and the decisions, but neither tools nor options. An answer that is being read is not
        part of it: a run that is resumed asks for it again.
        """
        return RunState(
            self.id,
            tuple(self.messages),
            self._max_turns,
            self._turns,
            self._turn.dump(),
            self._answered,
            self.owner,
            self._began,
        ).to_json()

    def events(self) -> RunEvents:
        """Returns the run as an iterator of its chunks and of the results of its calls, for a user interface.

            async for event in run.events():
                match event:
                    case StreamChunk(): print(event.delta, end="")
                    case ToolResult(): print(event.call.name, event.value)

        The results of a turn come when all calls of the turn have ended that do not wait for somebody.
        """
        return RunEvents(self)

    def __await__(self) -> Generator[Any, None, Reply]:
        return self._read_whole().__await__()

    async def _read_whole(self) -> Reply:
        async with self:
            while await self.advance() is not None:
                pass
        return self.reply

    def __aiter__(self) -> Self:
        self.check_unread()
        return self

    def check_unread(self) -> None:
        """Raises StreamfoldError if the run was read to its end."""
        if self._read:
            raise StreamfoldError(
                "this run has been read to its end, and is read once: its `replies` and `messages` have what came of it"
            )

    async def __anext__(self) -> StreamChunk:
        while (event := await self.advance()) is not None:
            if isinstance(event, StreamChunk):
                return event
        raise StopAsyncIteration

    async def advance(self) -> StreamChunk | ToolResult | None:
        """Returns what happens next; None if the run has ended or is paused."""
        while not self._ended:
            if self._results:
                return self._results.popleft()
            try:
                if self.abandoned is not None:
                    await self._settle_abandoned()
                if self._stream is None and self._turn.open:
                    if not await self._run_calls():
                        await self._end_runs()
                        return None
                elif (chunk := await self._next_chunk()) is not None:
                    return chunk
            except BaseException:
                self._ended = True
                raise
        self._read = self.finished
        return None

    async def aclose(self) -> None:
        """Closes the connection and ends the iteration. `messages` and `replies` stay."""
        self._ended = True
        if self._stream is not None:
            await self._stream.aclose()

    async def _settle_abandoned(self) -> None:
        """Settles the calls that a person went on without, and replaces the request if its messages have changed."""
        abandoned, self.abandoned = self.abandoned, None
        if abandoned is None or self._journal is None:
            return
        before = list(self.messages)
        self._continued |= await abandoned.settle(self.messages, self._journal, self.owner, self.chat_id)
        if self._stream is not None and self.messages != before:
            self._stream = self._ask()

    async def _next_chunk(self) -> StreamChunk | None:
        """Reads a chunk of the turn under way, or of a new one; None at its end."""
        if self._journal is not None and self._claimed is not self._turn:
            for call in self._turn.having("done"):
                if call.kind == "approval":  # its provider runs it each time that it gets the approval
                    key = CallKey(self._call_key(call), call, self._turn[call].unanswered)
                    await claim_answer(self._journal, key)
            self._claimed = self._turn
        stream = self._stream = self._stream or self._ask()
        chunk = await anext(stream, None)
        if chunk is None:
            self._stream = None
            self._ended = self._ended or self._answered
            if self._answered:
                await self._end_runs()
        elif chunk.finished:
            self._note(stream.reply)
        return chunk

    def _ask(self) -> ChatStream:
        choice = "auto" if (self._turns or self._pauses) and self._tool_choice != "none" else self._tool_choice
        tools = list(self._tools.values())
        stream = self._model.chat_stream(self.messages, tools, tool_choice=choice, **self._options)
        for path, function, tool in self._watched:
            stream.watch(path, function, tool=tool)
        return stream

    def _note(self, reply: Reply) -> None:
        """Adds the turn to the history, with results that hold until there are real ones."""
        paused = reply.paused and not reply.tool_calls and self._pauses < _MOST_PAUSES
        self._pauses, self._turns = self._pauses + paused, self._turns + (not paused)
        self.replies.append(reply)
        self.messages.append(reply.message)
        self._answered = not reply.tool_calls and not paused
        self._turn = TurnCalls(reply.tool_calls) if self._turns_left else TurnCalls(reply.tool_calls, _NO_TURN_LEFT)
        self._first = len(self.messages)
        self.messages += self._turn.messages()

    @property
    def _turns_left(self) -> int:
        return self._max_turns - self._turns

    def _restore(self, state: RunState) -> None:
        """Continues where another run stopped. Raises ConfigError if its journal may have forgotten its calls."""
        if state.run_id is not None:
            check_age(self._journal, state.began)
        waiting = {tool.name for tool in self._tools.values() if tool.needs_approval}
        turn = take_open_calls(self.messages, waiting=waiting, external=self._external)
        self._turns, self._answered = state.turns, state.ended
        self._ended = state.ended
        if turn is None:
            if state.calls is None:
                raise ConfigError("there is nothing to resume: the conversation does not end with calls")
            return
        self._turn, self._first = turn, len(self.messages)
        if state.calls is not None:
            turn.load(state.calls)
        self.messages += turn.messages()

    async def _run_calls(self) -> bool:
        """Runs the calls that are ready, at once unless the options say otherwise. Returns False if all others wait."""
        for call in (new := self._turn.having("new")):
            if not self._turns_left:
                names = ", ".join(call.name for call in new)
                raise TurnLimitError(f"the model still asks for tools after {self._max_turns} turns: {names}")
            wanted = await needs_approval(call, self._tools, self._external)
            if wanted == "approval":
                self._turn.wait_for_approval(call)
                if self._approve is not None:
                    self._turn.decide(call.id, await decide(self._approve, call))
            else:
                self._turn[call].status = wanted
        self._write_results()
        ready = self._turn.having("ready")
        results: dict[str, ToolResult] = {}
        failures: list[Exception] = []

        async def run(call: ToolCall) -> None:
            try:
                results[call.id] = result = await self._result(call)
                self._finish(result)
            except Exception as exc:  # raised below: the task group would wrap it
                failures.append(exc)
                if not isinstance(exc, NOT_RUN):  # then this call waits, and the others may run
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for call in ready:
                if self._journal is None:  # else it is started once it has been claimed
                    self._turn[call].status = "started"
                if self._options.get("parallel_tool_calls") is not False:
                    group.start_soon(run, call)
                else:
                    await run(call)
                    if failures:
                        break
        if failures:
            raise failures[0]
        self._results.extend(results[call.id] for call in ready)
        return bool(ready)

    async def _result(self, call: ToolCall) -> ToolResult:
        """Runs a call, or returns the result of the other run that has claimed it."""
        found = self._turn[call]

        async def run() -> ToolResult:
            found.status = "started"
            if found.decision == "denied":
                return denied_result(call, found.reason)
            return await run_call(call, self._tools, self._on_tool_error)

        if self._journal is None and found.nonce is None:
            return await run()
        key = CallKey(await self._approved_key(call, found.nonce), call, found.unanswered)
        return await run_once(required_journal(self._journal), key, run)

    async def _approved_key(self, call: ToolCall, nonce: str | None) -> str:
        """Returns the key of a call in the journal: the one that its signed approval is for, if it has a nonce.

        Raises:
            ConfigError: the journal has another nonce for this call, or none.
        """
        if nonce is None:
            return self._call_key(call)
        place = approval_key(self.owner, self.chat_id, call)
        known = await load_approval(required_journal(self._journal), place)
        if known is None or known.nonce != nonce:
            raise ConfigError(
                f"the decision about the call {call.id!r} of {call.name} is not for the approval that was requested"
                " last; the run that asks for an approval and the run that uses it need the same journal and owner"
            )
        self._continued |= {place, known.key}
        return known.key

    def _call_key(self, call: ToolCall) -> str:
        return call_key(self.owner, self.id, self._first, call)

    async def _end_runs(self) -> None:
        """Lets the journal delete, some days later, what it keeps of runs that can't go on."""
        if self._journal is None:
            return
        ended = self._continued
        if self._answered and self._turns > 1:
            ended |= {run_key(self.owner, self.id)}
        self._continued = set()
        await end_runs(self._journal, ended)

    def _finish(self, result: ToolResult) -> None:
        self._turn.finish(result)
        self._write_results()

    def _is_past(self, call_id: str) -> bool:
        """Returns whether a call belongs to an earlier turn, so that nothing can change for it any more."""
        earlier = (call.id for message in self.messages[: self._first - 1] for call in message.tool_calls)
        return call_id not in self._turn and call_id in earlier

    def _write_results(self) -> None:
        self.messages[self._first : self._first + len(self._turn)] = self._turn.messages()


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
