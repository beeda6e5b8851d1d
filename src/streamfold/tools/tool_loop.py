"""`run_tools` and `resume_tools` stream the model's turns, and run the tool calls between the turns."""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from time import time
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeAlias, TypeVar, Unpack

import anyio
import anyio.to_thread

from ..answers import AsyncContext, AsyncIteration, ask_again, can_ask_again, check_model
from ..errors import ConfigError, StreamfoldError, TurnLimitError
from ..net import scrubs_traceback
from ..requests import ChatOptions, read_messages
from ..types import (
    Cost,
    InvalidReplyError,
    Message,
    Messages,
    PartialToolCall,
    Reply,
    StreamChunk,
    Tool,
    ToolCall,
    ToolChoice,
    ToolLike,
    Usage,
    as_tools,
    read_conversation,
    read_tools,
    total_cost,
    total_usage,
)
from .abandoned_calls import AbandonedCalls
from .approvals import Approve, CallState, PendingCall, TurnCalls, decide, needs_approval, take_open_calls
from .background_calls import BackgroundCalls
from .journal import (
    NOT_RUN,
    Approval,
    CallJournal,
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
from .run_state import RunState, read_state
from .tool_results import OnToolError, ToolResult, denied_result, result_from_value, run_call, tools_by_name

if TYPE_CHECKING:
    from ..answers import ChatModel, ChatStream, Watcher


P = ParamSpec("P")
T = TypeVar("T")

_logger = logging.getLogger("streamfold.tools")

_MAX_TURNS = 10
_MAX_ANSWERS = 3  # final answers that are requested until one matches the output type
_NO_TURN_LEFT = "not run: the limit of turns was reached"

# answered: the last turn has no calls, and its stream may not have ended. read: nothing is left to read. closed: by the
# caller or an error, before there was an answer. A paused run is running; its calls wait.
_Status: TypeAlias = Literal["running", "answered", "read", "closed"]


@dataclass(frozen=True, slots=True)
class RunHooks:
    """Functions that a run calls, for example for tracing. The functions must not block. If a hook raises an exception,
    streamfold logs it and continues the run.

    Attributes:
        reading: called with the run. Returns a context manager that is active while requests are sent and tools run.
        calling: called before each tool call, with the run, the tool call, and the tool (None if it is unknown).
            Returns a context manager that is active during the tool call. The context manager's `as` value is a
            function that is called with the `ToolResult`.
        on_stop: called when the run has ended, was closed or has paused. The arguments are the run, and the error that
            ended the run, or None.
    """

    reading: Callable[[ToolRun], AbstractContextManager[object]]
    calling: Callable[[ToolRun, ToolCall, Tool | None], AbstractContextManager[Callable[[ToolResult], object]]]
    on_stop: Callable[[ToolRun, BaseException | None], object]


class RunOptions(ChatOptions, total=False):
    """The keyword arguments of both `run_tools` and `resume_tools`. `run_tools` documents these arguments."""

    external: Iterable[ToolLike]
    max_turns: int
    on_tool_error: OnToolError | None
    approve: Approve | None
    journal: CallJournal | None
    owner: str
    hooks: RunHooks | None
    output_type: type[object] | UnionType | None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The validated options of a run.

    Attributes:
        tools: all tools, including external tools. The tools of a group such as `McpTools` may change during the run.
        external: the names of the external tools.
        output_type: the type of the final answer. None means text.
        request_options: the chat options for every request.
    """

    tools: Sequence[Tool | Iterable[Tool]]
    external: frozenset[str]
    tool_choice: ToolChoice
    max_turns: int
    on_tool_error: OnToolError | None
    approve: Approve | None
    journal: CallJournal | None
    owner: str
    hooks: RunHooks | None
    output_type: type[object] | UnionType | None
    request_options: ChatOptions

    @classmethod
    def from_options(
        cls, tools: Iterable[ToolLike], options: RunOptions, *, tool_choice: ToolChoice = "auto"
    ) -> RunSettings:
        rest = options.copy()
        external = as_tools(rest.pop("external", ()))
        external_names = frozenset(tool.name for tool in external)
        settings = cls(
            (*read_tools(tools), *external),
            external_names,
            tool_choice,
            rest.pop("max_turns", _MAX_TURNS),
            rest.pop("on_tool_error", None),
            rest.pop("approve", None),
            rest.pop("journal", None),
            rest.pop("owner", ""),
            rest.pop("hooks", None),
            rest.pop("output_type", None),
            rest,
        )
        if settings.output_type is not None:
            if rest.get("response_format") is not None:
                raise ConfigError("output_type and response_format have the same meaning: pass only one of them")
            rest["response_format"] = settings.output_type
        if (given := rest.get("conversation")) is not None:
            rest["conversation"] = read_conversation(given)  # an object, which follows an id from turn to turn
        if settings.max_turns < 1:
            raise ConfigError(f"max_turns must be at least 1, not {settings.max_turns}")
        for name, function in (("on_tool_error", settings.on_tool_error), ("approve", settings.approve)):
            if function is not None and not callable(function):
                raise ConfigError(f"{name} must be a function, not {type(function).__name__}")
        if not isinstance(settings.hooks, RunHooks | None):
            raise ConfigError(f"hooks of a run must be RunHooks, not {type(settings.hooks).__name__}")
        if not isinstance(settings.owner, str):  # None would be the same owner for all users
            kind = type(settings.owner).__name__
            raise ConfigError(f"owner must be text that identifies a user or tenant, not {kind}")
        return settings

    def current_tools(self) -> dict[str, Tool]:
        """Returns the current tools by name. Raises ConfigError if two tools have the same name."""
        return tools_by_name(as_tools(self.tools), self.external)


class ToolRun(AsyncIteration, AsyncContext):
    """An async iterator over the chunks of all turns of a tool run, and an async context manager that closes the
    connection.

    The last chunk of each turn has `finished=True` and contains the tool calls. The tools run when you read the next
    chunk. While you don't read, only tools with `background=True` are running.

    Attributes:
        id: a random id of the run, which `dump` saves too.
        owner: the user or tenant to which the run belongs.
        chat_id: the id that a user interface has chosen for the conversation, or "". A signed approval is valid only
            for this id.
        abandoned: the tool calls that had no result when the user continued the conversation, or None. Before its first
            request, the run reads the results of started tool calls from the journal, and denies all others.
        messages: the conversation so far, including tool calls and results. You can send these messages to a model at
            any time, because each unfinished tool call has the result "not finished".
        replies: the replies of the turns so far. For a run that was just resumed, the list is empty.
    """

    def __init__(
        self, model: ChatModel, messages: Iterable[Message], settings: RunSettings, resumed: RunState | None = None
    ) -> None:
        check_model(model, "run_tools()")
        self.id = (resumed and resumed.run_id) or secrets.token_hex(16)
        self.owner = settings.owner
        self.chat_id = ""
        self.abandoned: AbandonedCalls | None = None
        self.messages: list[Message] = list(messages)
        self.replies: list[Reply] = []
        self._model = model
        self._settings = settings
        self._began = resumed.began if resumed and resumed.run_id else time()
        self._tools = self._current_tools()  # the tools of the current turn
        self._status: _Status = "running"
        self._turns = 0
        self._continued: set[str] = set()  # keys of signed approvals, and of the runs that had asked for them
        self._turn = TurnCalls(())  # the calls of the last turn
        self._claimed = self._turn  # the turn whose answers to a provider's approvals this run may send
        self._first = len(self.messages)  # the index of the first result of the last turn
        self._written = 0  # the number of these results
        self._results: deque[ToolResult] = deque()
        self._background = BackgroundCalls()
        self._unsent = False  # results of calls in the background that no request has had
        self._watched: list[tuple[str, Watcher, str | None]] = []
        self._stream: ChatStream | None = None
        self._output: Any = None
        self._misfit: InvalidReplyError | None = None  # set if the last answer doesn't match `output_type`
        self._misfits = 0
        if resumed is not None:
            self._restore(resumed)
        if not self._turn.open and self._status == "running":
            self._stream = self._request()  # sends nothing yet, and refuses what can't be sent

    @property
    def reply(self) -> Reply:
        """The reply of the last complete turn. Raises StreamfoldError before the first complete turn."""
        if not self.replies:
            raise StreamfoldError("there is no reply yet: read the run to its end first")
        return self.replies[-1]

    @property
    def output(self) -> Any:
        """The final answer as an instance of `output_type`. Raises StreamfoldError without `output_type`, or before the
        run has ended.
        """
        if self._settings.output_type is None:
            raise StreamfoldError("the run has no output_type: its answer is `reply.text`")
        if not self.finished or self._misfit is not None:
            raise StreamfoldError("there is no output yet: read the run to its end first")
        return self._output

    @property
    def usage(self) -> Usage | None:
        """The token counts of all turns so far, added up. None if the server sent no token counts."""
        return total_usage(self.replies)

    @property
    def cost(self) -> Cost | None:
        """The costs of all turns so far, added up. None if a cost is unknown or the currencies differ."""
        return total_cost(self.replies)

    @property
    def finished(self) -> bool:
        """True if the model has given its final answer."""
        return self._status == "read" or (self._status == "answered" and self._stream is None)

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The tool calls that wait for a decision or a result, so that the run is paused."""
        return self._turn.pending if self._stream is None else ()

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The tool calls that the model is still writing, for display only. See `ChatStream.partial_tool_calls`."""
        return self._stream.partial_tool_calls if self._stream is not None else ()

    def watch(self, path: str, function: Watcher, *, tool: str | None = None) -> None:
        """Registers a function that is called for each new piece of a value that the model is writing, in any turn.

        See `ChatStream.watch`.

        Raises:
            StreamfoldError: the run has ended, or reading the current turn has begun.
        """
        self.check_unread()
        if self._stream is not None:
            self._stream.watch(path, function, tool=tool)
        self._watched.append((path, function, tool))

    def approve(self, call_id: str, *, nonce: str | None = None) -> None:
        """Approves a tool call that waits for approval. The tool runs when you read the run again.

        Approving a tool call twice has no effect.

        Args:
            nonce: the nonce of a signed approval, if a client sent the conversation with this tool call. See
                `approval_nonce`.

        Raises:
            ConfigError: no tool call with this id waits for an approval, or the tool call was denied.
            StreamfoldError: the run was closed, so the tool call can't run.
        """
        if not self._is_past(call_id):
            self._turn.decide(call_id, "approved", nonce=nonce)
            self._check_open()

    def deny(self, call_id: str, reason: str | None = None, *, nonce: str | None = None) -> None:
        """Denies a tool call that waits for approval. The tool never runs, and the model receives a message about the
        denial.

        Args:
            reason: the reason for the denial, which is sent to the model.
            nonce: see `approve`.

        Raises:
            ConfigError: no tool call with this id waits for an approval, or the tool call was approved.
            StreamfoldError: the run was closed.
        """
        if not self._is_past(call_id):
            self._turn.decide(call_id, "denied", reason, nonce=nonce)
            self._check_open()

    def awaiting_approval(self, approval_id: str) -> ToolCall:
        """Returns the tool call that has this approval id (`PendingCall.approval_id`), even after the decision.

        A client should send the approval id with its decision, because ids of tool calls may repeat in other turns and
        runs.

        Raises:
            ConfigError: no tool call of the last turn has this approval id.
        """
        return self._turn.awaiting_approval(approval_id)

    async def approval_nonce(self, waiting: PendingCall, shown: ToolCall) -> str | None:
        """Creates a nonce, which is a random text for one signed approval of a pending tool call, and stores it in the
        journal. See `approve`.

        Args:
            shown: the tool call as the client displays it.

        Returns:
            The nonce. If a client sent the conversation with this tool call, the client may have invented the tool
            call. For such a tool call, the method returns the nonce that the journal already contains, or None.

        Raises:
            ConfigError: the run has no journal.
        """
        journal, place = required_journal(self._settings.journal), approval_key(self.owner, self.chat_id, shown)
        if waiting.approval_id is None:
            known = await load_approval(journal, place)
            return None if known is None else known.nonce
        await store_approval(journal, place, Approval(waiting.approval_id, self._call_key(waiting.call)))
        return waiting.approval_id

    def answer(self, call_id: str, content: Any, *, error: bool = False) -> None:
        """Sets the result of an external tool call. If the tool call already has a result, the new result is ignored.

        Args:
            content: the result, as text, parts or JSON data.
            error: True if the tool failed.

        Raises:
            ConfigError: no tool call with this id waits for a result, or the content can't be converted to JSON.
            StreamfoldError: the run was closed.
        """
        if not self._is_past(call_id) and (call := self._turn.answerable(call_id)) is not None:
            result = result_from_value(call, content, error=error)
            self._finish(result)
            self._results.append(result)
            self._check_open()

    def dump(self) -> str:
        """Returns the run's state as JSON text. `resume_tools` continues the run from this text, even in another
        process.

        The state contains the conversation and the decisions about tool calls, but neither tools nor options. The state
        doesn't contain an answer that the model hasn't finished. A resumed run requests this answer again.
        """
        return RunState(
            self.id,
            tuple(self._background.with_unfinished(self.messages)),
            self._settings.max_turns,
            self._turns,
            self._turn.dump(),
            self._status in ("answered", "read"),
            self.owner,
            self._began,
        ).to_json()

    def events(self) -> RunEvents:
        """Returns an async iterator over the run's chunks and tool results, for a user interface.

            async for event in run.events():
                match event:
                    case StreamChunk(): print(event.delta, end="")
                    case ToolResult(): print(event.call.name, event.value)

        The iterator yields the results of a turn when all its tool calls have ended or wait for a decision.
        """
        return RunEvents(self)

    def __await__(self) -> Generator[Any, None, Reply]:
        return self._read_whole().__await__()

    async def _read_whole(self) -> Reply:
        async with self:
            while await self.next_event() is not None:
                pass
        return self.reply

    def __aiter__(self) -> Self:
        self.check_unread()
        return self

    def _check_open(self) -> None:
        if self._status == "closed":
            raise StreamfoldError(
                "this run was closed: decide inside its `async with` block, or continue the run with"
                " resume_tools(provider, run.dump(), tools)"
            )

    def check_unread(self) -> None:
        """Raises StreamfoldError if the run has already been read to its end."""
        if self._status == "read":
            raise StreamfoldError("this run was already read to its end: see its `replies` and `messages`")

    async def __anext__(self) -> StreamChunk:
        while (event := await self.next_event()) is not None:
            if isinstance(event, StreamChunk):
                return event
        raise StopAsyncIteration

    async def next_event(self) -> StreamChunk | ToolResult | None:
        """Returns the next chunk or tool result, or None if the run has ended or has paused."""
        if (hooks := self._settings.hooks) is None:
            return await self._next_event()
        if self._status in ("read", "closed"):
            return None
        with _entered("reading", partial(hooks.reading, self)):
            try:
                event = await self._next_event()
            except BaseException as error:
                self._stopped(error)
                raise
            if event is None:
                self._stopped(None)
            return event

    def _stopped(self, error: BaseException | None) -> None:
        if (hooks := self._settings.hooks) is not None:
            with _logged("on_stop"):
                hooks.on_stop(self, error)

    async def _next_event(self) -> StreamChunk | ToolResult | None:
        while self._status in ("running", "answered"):
            if self._results:
                return self._results.popleft()
            try:
                if self.abandoned is not None:
                    await self._settle_abandoned()
                if self.finished:
                    await self._end_runs()
                    self._status = "read"
                    if self._misfit is not None:
                        raise self._misfit
                elif self._stream is None and self._turn.open:
                    if not await self._run_calls():
                        await self._end_runs()
                        return None
                elif self._waits_for_background:
                    await self._background.wait()
                    self._take_background_results()
                elif (chunk := await self._next_chunk()) is not None:
                    return chunk
            except BaseException:
                self._close()
                raise
        return None

    async def aclose(self) -> None:
        """Closes the connection and ends the run. `messages` and `replies` stay available."""
        if self._status in ("running", "answered"):
            self._stopped(None)
        self._close()
        if self._stream is not None:
            await self._stream.aclose()

    @property
    def _waits_for_background(self) -> bool:
        if self._stream is not None or self._unsent or not self._background:
            return False
        return self._turn.only_background or not self._turns_left

    def _take_background_results(self) -> None:
        for result in self._background.take():
            self.messages.append(result.message)
            self._results.append(result)
            self._unsent = True
        if not self._turns_left and not self._background:  # the model had its last turn
            self._status, self._unsent = "answered", False

    def _close(self) -> None:
        if self._background:
            self.messages[:] = self._background.with_unfinished(self.messages)
            self._background.stop()
        self._status = "read" if self._status in ("answered", "read") else "closed"

    async def _settle_abandoned(self) -> None:
        abandoned, self.abandoned = self.abandoned, None
        if abandoned is None or self._settings.journal is None:
            return
        before = list(self.messages)
        self._continued |= await abandoned.settle(self.messages, self._settings.journal, self.owner, self.chat_id)
        if self._stream is not None and self.messages != before:
            self._stream = self._request()

    async def _next_chunk(self) -> StreamChunk | None:
        if self._settings.journal is not None and self._claimed is not self._turn:
            for call in self._turn.having("done"):
                if call.kind == "approval":  # the provider runs it each time that the approval is sent
                    key = CallKey(self._call_key(call), call, self._turn[call].unanswered)
                    await claim_answer(self._settings.journal, key)
            self._claimed = self._turn
        if self._stream is None and self._background:
            self._take_background_results()
        stream = self._stream = self._stream or self._request()
        self._unsent = False
        chunk = await anext(stream, None)
        if chunk is None:
            self._stream = None
        elif chunk.finished:
            self._record_turn(stream.reply)
        return chunk

    def _request(self) -> ChatStream:
        settings, is_first = self._settings, not self._turns
        choice = settings.tool_choice if is_first or settings.tool_choice == "none" else "auto"
        self._tools = self._current_tools()
        stream = self._model.chat_stream(
            self.messages, list(self._tools.values()), tool_choice=choice, **settings.request_options
        )
        for path, function, tool in self._watched:
            stream.watch(path, function, tool=tool)
        return stream

    def _current_tools(self) -> dict[str, Tool]:
        own = self._settings.current_tools()
        added = {tool.name: tool for message in self.messages for tool in message.tools if tool.name not in own}
        return own | tools_by_name(added.values(), self._settings.external)

    def _record_turn(self, reply: Reply) -> None:
        self.replies.append(reply)
        self.messages.append(reply.message)
        self._turns += 1
        self._status = "running" if reply.tool_calls or self._background else "answered"
        self._turn = TurnCalls(reply.tool_calls) if self._turns_left else TurnCalls(reply.tool_calls, _NO_TURN_LEFT)
        self._first, self._written = len(self.messages), 0
        self._write_results()
        if self._status == "answered" and self._settings.output_type is not None:
            self._read_output(reply, self._settings.output_type)

    def _read_output(self, reply: Reply, form: Any) -> None:
        self._misfit = None
        try:
            self._output = reply.parse_as(form)
        except InvalidReplyError as error:
            self._misfit, self._misfits = error, self._misfits + 1
            if self._misfits < _MAX_ANSWERS and self._turns_left and can_ask_again(reply):
                self.messages += ask_again(reply, error)[1:]
                self._status = "running"

    @property
    def _turns_left(self) -> int:
        return self._settings.max_turns - self._turns

    def _restore(self, state: RunState) -> None:
        if state.run_id is not None:
            check_age(self._settings.journal, state.began)
        waiting = {tool.name for tool in self._tools.values() if tool.needs_approval}
        turn = take_open_calls(self.messages, waiting=waiting, external=self._settings.external)
        self._turns, self._status = state.turns, "answered" if state.ended else "running"
        if turn is None:
            if state.calls is None:
                raise ConfigError("there is nothing to resume: the conversation does not end with tool calls")
            return
        self._turn, self._first = turn, len(self.messages)
        if state.calls is not None:
            turn.load(state.calls)
        self._write_results()

    async def _run_calls(self) -> bool:
        for call in (new := self._turn.having("new")):
            if not self._turns_left:
                names = ", ".join(call.name for call in new)
                raise TurnLimitError(f"the model still calls tools at max_turns={self._settings.max_turns}: {names}")
            wanted = await needs_approval(call, self._tools, self._settings.external)
            if wanted == "approval":
                self._turn.wait_for_approval(call)
                if self._settings.approve is not None:
                    self._turn.decide(call.id, await decide(self._settings.approve, call))
            else:
                self._turn[call].status = wanted
        self._write_results()
        ready, started = self._turn.having("ready"), False
        if self._settings.request_options.get("parallel_tool_calls") is not False:
            for call in [call for call in ready if call.background and self._turn[call].decision != "denied"]:
                ready.remove(call)
                started = True
                found, first = self._turn[call], self._first
                found.status = "background"
                self._background.start(call, partial(self._result, call, found, first))
            self._write_results()
        results: dict[str, ToolResult] = {}
        failures: list[Exception] = []

        async def run(call: ToolCall) -> None:
            try:
                results[call.id] = result = await self._result(call, self._turn[call], self._first)
                self._finish(result)
            except Exception as exc:  # raised below: the task group would wrap it
                failures.append(exc)
                if not isinstance(exc, NOT_RUN):  # a call that has not run can be resumed; the others continue
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for call in ready:
                if self._settings.journal is None:  # with a journal, it starts after the claim
                    self._turn[call].status = "started"
                if self._settings.request_options.get("parallel_tool_calls") is not False:
                    group.start_soon(run, call)
                else:
                    await run(call)
                    if failures:
                        break
        if failures:
            raise failures[0]
        self._results.extend(results[call.id] for call in ready)
        return bool(ready) or started

    async def _result(self, call: ToolCall, found: CallState, first: int) -> ToolResult:
        tools = self._tools

        async def run() -> ToolResult:
            if found.status != "background":
                found.status = "started"
            if found.decision == "denied":
                return denied_result(call, found.reason)
            if (hooks := self._settings.hooks) is None or call.kind == "approval":
                return await run_call(call, tools, self._settings.on_tool_error)
            with _entered("calling", partial(hooks.calling, self, call, tools.get(call.name))) as on_result:
                result = await run_call(call, tools, self._settings.on_tool_error)
                if on_result is not None:
                    with _logged("calling"):
                        on_result(result)
                return result

        if self._settings.journal is None and found.nonce is None:
            return await run()
        key = CallKey(await self._approved_key(call, found.nonce, first), call, found.unanswered)
        return await run_once(required_journal(self._settings.journal), key, run)

    async def _approved_key(self, call: ToolCall, nonce: str | None, first: int) -> str:
        if nonce is None:
            return call_key(self.owner, self.id, first, call)
        place = approval_key(self.owner, self.chat_id, call)
        known = await load_approval(required_journal(self._settings.journal), place)
        if known is None or known.nonce != nonce:
            raise ConfigError(
                f"the decision about the call {call.id!r} of {call.name} isn't for the latest approval request:"
                " the run that requests an approval and the run that uses it need the same journal and owner"
            )
        self._continued |= {place, known.key}
        return known.key

    def _call_key(self, call: ToolCall) -> str:
        return call_key(self.owner, self.id, self._first, call)

    async def _end_runs(self) -> None:
        if self._settings.journal is None:
            return
        ended = self._continued
        if self._status == "answered" and self._turns > 1:
            ended |= {run_key(self.owner, self.id)}
        self._continued = set()
        await end_runs(self._settings.journal, ended)

    def _finish(self, result: ToolResult) -> None:
        self._turn.finish(result)
        self._write_results()

    def _is_past(self, call_id: str) -> bool:
        earlier = (call.id for message in self.messages[: self._first - 1] for call in message.tool_calls)
        return call_id not in self._turn and call_id in earlier

    def _write_results(self) -> None:
        results = self._turn.messages()
        self.messages[self._first : self._first + self._written] = results
        self._written = len(results)


@contextmanager
def _logged(name: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        _logger.exception("the hook %s of a run failed", name)


@contextmanager
def _entered(name: str, make: Callable[[], AbstractContextManager[T]]) -> Iterator[T | None]:
    manager: AbstractContextManager[T] | None = None
    value: T | None = None
    with _logged(name):
        manager = make()
        value = manager.__enter__()
    try:
        yield value
    finally:
        if manager is not None:
            with _logged(name):
                manager.__exit__(None, None, None)


class RunEvents(AsyncIteration):
    """An async iterator over the chunks and tool results of a run, in the order in which they occur. See
    `ToolRun.events`.
    """

    def __init__(self, run: ToolRun) -> None:
        self._run = run

    def __aiter__(self) -> Self:
        self._run.check_unread()
        return self

    async def __anext__(self) -> StreamChunk | ToolResult:
        event = await self._run.next_event()
        if event is None:
            raise StopAsyncIteration
        return event


@scrubs_traceback
def run_tools(
    provider: ChatModel,
    messages: Messages,
    tools: Iterable[ToolLike],
    *,
    tool_choice: ToolChoice = "auto",
    **options: Unpack[RunOptions],
) -> ToolRun:
    """Streams the answer of a model that may call tools, and runs the tool calls between the model's turns.

        async with run_tools(provider, "Is it warmer in Oslo or in Bergen?", [get_weather]) as run:
            async for chunk in run:
                print(chunk.delta, end="")
        print(run.reply.text, len(run.messages))

        reply = await run_tools(provider, "Is it warmer in Oslo or in Bergen?", [get_weather])

    All tool calls of a turn run in parallel, and the next request contains their results in the order of the calls. A
    tool with `background=True` may run while the model continues. The first request is sent when you read the first
    chunk.

    If the model calls an unknown tool or sends invalid arguments, or the tool raises an exception, the run continues.
    The model then receives an error message as the result, with the name of the tool and the exception class. The
    exception's text and traceback are only logged, because they may contain secrets.

    The run pauses if a tool call needs approval, or if its tool is external. Iteration then stops, and `pending`
    contains these tool calls. Call `approve`, `deny` or `answer`, and read the run again. To continue in another
    process, use `resume_tools`.

    Args:
        provider: a provider or any other `ChatModel`.
        messages: the conversation. A string becomes one user message.
        tools: typed functions, `Tool`s that have a function, and groups of tools such as `McpTools`. Each turn uses the
            tools that a group contains at that time.
        external: tools that run elsewhere, for example in a browser, and need no function.
        max_turns: the maximum number of requests to the model. The default is 10.
        tool_choice: the tool choice for the first turn. Later turns use "auto": if every turn forced a tool call, the
            model could never finish. Only the tool choice "none" applies to all turns.
        on_tool_error: a synchronous or async function that is called with a tool call and the tool's exception. The
            result is the message for the model, or None for the default message. If `on_tool_error` raises an
            exception, the run ends.
        approve: a synchronous or async function that is called with each tool call that needs approval, and returns
            True if the tool call may run. With this function, the run doesn't pause for approvals. The function also
            decides about tool calls of `HostedMcpServer(require_approval=...)`.
        journal: records which tool calls have started, so that each runs only once even if the saved state is copied.
        hooks: functions that the run calls, such as `otel_run_hooks()` from the package `streamfold-integrations`.
        owner: the user or tenant to which the run belongs. The saved state and all journal keys contain the owner. By
            default, all runs have the same owner.
        output_type: the type of the final answer, as for `extract`. `run.output` then returns the answer as this type.
            If the answer is invalid, streamfold sends the error to the model, which can correct its answer at most
            twice.
        options: the options for every turn; see `ChatOptions`.

    Returns:
        A `ToolRun`, which is an async iterator over the chunks of all turns and an async context manager. `await` reads
        the run to its end and returns the last reply.

    Raises:
        ConfigError: a tool has no function, two tools have the same name, or the request is invalid. Also raised while
            you read the run, if a tool returns a value that can't be converted to JSON.
        TurnLimitError: the model still called tools in the last turn (raised while you read the run).
        InvalidReplyError: the answer doesn't match `output_type` (raised while you read the run).
        APIError: a request failed (raised while you read the run).
    """
    settings = RunSettings.from_options(tools, options, tool_choice=tool_choice)
    return ToolRun(provider, read_messages(messages), settings)


@scrubs_traceback
def resume_tools(
    provider: ChatModel,
    state: str | Sequence[Message],
    tools: Iterable[ToolLike],
    **options: Unpack[RunOptions],
) -> ToolRun:
    """Continues a paused run, in this process or in another one.

        state = run.dump()  # text, to be stored until a person has decided
        ...
        run = resume_tools(provider, state, [delete_file])
        run.approve("call_1")
        async for chunk in run: ...

    streamfold never runs a tool call again if it had already started. If the state contains no result for such a tool
    call, the model receives a message that the tool call didn't finish. If the same state may be resumed twice, for
    example because a user presses a button twice, pass a `journal`, so that each tool call runs only once.

    Args:
        state: the output of `ToolRun.dump`, or a conversation that ends with tool calls without results. The state
            decides which tools run, so never accept it from an untrusted client. If `state` is a conversation, it
            starts a new run, for which the journal contains no results.
        tools, external, on_tool_error, approve, journal, options: see `run_tools`. The state doesn't contain these
            arguments.
        max_turns: the maximum number of requests, if `state` is a conversation. A saved state already contains its
            maximum.
        owner: the owner of the run, which must be the same as in the saved state.

    Raises:
        ConfigError: the state is invalid, too old, or belongs to another owner, or the conversation doesn't end with
            tool calls. See also `run_tools`.
        CallInDoubtError: another run of the same state has started a tool call that has no result yet (raised while you
            read the run).
        StoreError: the journal's store failed, and the tool didn't run (raised while you read the run). To continue,
            resume from `dump()`.
    """
    settings = RunSettings.from_options(tools, options)
    if not isinstance(state, str):
        saved = RunState(None, tuple(read_messages(state)), settings.max_turns, owner=settings.owner)
    elif (saved := read_state(state)).owner != options.get("owner", saved.owner):
        raise ConfigError("the state belongs to another owner: it was not saved by a run with this owner=")
    settings = replace(settings, owner=saved.owner, max_turns=saved.max_turns)
    return ToolRun(provider, saved.messages, settings, saved)


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Returns an async function that runs a blocking function, for example a database query, in a worker thread.

    `tool(in_thread(read_file))` creates a tool that doesn't block the event loop. A thread can't be stopped. If the
    tool is cancelled, the cancellation waits until the function returns.
    """

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))

    return run
