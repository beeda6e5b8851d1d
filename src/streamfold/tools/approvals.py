"""The tool calls of one turn, with their status and their approvals."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Literal, TypeAlias, get_args

from ..errors import ConfigError, did_you_mean
from ..types import InvalidToolArgumentsError, Message, Tool, ToolCall, tool_result
from .tool_results import ToolResult

# The status of a tool call only moves forward: new, waiting for an approval or a result, ready, started, done. A tool
# call that was started is never started again, so that none runs twice. The result of a tool call in the background
# doesn't follow its turn directly, because it comes later.

_Status: TypeAlias = Literal["new", "approval", "result", "ready", "started", "background", "done"]
_Decision: TypeAlias = Literal["approved", "denied"]
_STATUSES, _DECISIONS = get_args(_Status), get_args(_Decision)

_TEXTS: Mapping[_Status, str] = {
    "approval": "not run: the tool call waits for an approval",
    "result": "not finished: the result has not arrived",
}
NOT_FINISHED = "not finished: the run was stopped before the tool had answered"


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that waits for a decision or a result, so that its run is paused.

    Attributes:
        call: the tool call.
        waits_for: "approval" if the program must call `approve` or `deny`, "result" if it must pass the result to
            `answer`.
        approval_id: a random id that a client sends with its decision. None if the tool call waits for a result, or if
            a client sent the conversation with this tool call.
    """

    call: ToolCall
    waits_for: Literal["approval", "result"]
    approval_id: str | None = None


@dataclass(slots=True)
class CallState:
    """A tool call of the last turn, with its status and the decision about it.

    Attributes:
        approval_id: see `PendingCall`. The id stays set after the decision.
        nonce: the nonce of the client's signed decision, if a client sent the conversation with this tool call.
        unanswered: see `CallKey`.
    """

    call: ToolCall
    status: _Status = "new"
    decision: _Decision | None = None
    reason: str | None = None
    message: Message | None = None
    approval_id: str | None = None
    nonce: str | None = None
    unanswered: list[str] = field(default_factory=list)


class TurnCalls:
    """The tool calls of one assistant turn, with their status and their result messages.

    Args:
        calls: the tool calls, in the order in which the model made them.
        unfinished: the text that is sent to the model in place of a missing result.
    """

    def __init__(self, calls: Iterable[ToolCall], unfinished: str = NOT_FINISHED) -> None:
        self._calls = {call.id: CallState(call) for call in calls}
        self._unfinished = unfinished

    @property
    def only_background(self) -> bool:
        """True if all tool calls of the turn run in the background, so that there are no results to send to the
        model yet.
        """
        return all(found.status == "background" for found in self._calls.values())

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    def messages(self) -> list[Message]:
        """Returns the result messages. For a missing result, the message says why it is missing. Tool calls that run in
        the background have no message.
        """
        return [
            found.message or tool_result(found.call, _TEXTS.get(found.status, self._unfinished), error=True)
            for found in self._calls.values()
            if found.status != "background"
        ]

    @property
    def open(self) -> bool:
        """True if a tool call of the turn can still start, or still waits for a decision or a result."""
        return any(found.status not in ("started", "background", "done") for found in self._calls.values())

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The tool calls that wait for an approval or for a result."""
        return tuple(
            PendingCall(found.call, found.status, found.approval_id)
            for found in self._calls.values()
            if found.status == "approval" or found.status == "result"
        )

    def having(self, status: _Status) -> list[ToolCall]:
        return [found.call for found in self._calls.values() if found.status == status]

    def __getitem__(self, call: ToolCall) -> CallState:
        return self._calls[call.id]

    def wait_for_approval(self, call: ToolCall) -> None:
        """Sets a tool call's status to "approval", and sets a new random approval id."""
        found = self._calls[call.id]
        found.status, found.approval_id = "approval", secrets.token_hex(16)

    def awaiting_approval(self, approval_id: str) -> ToolCall:
        """Returns the tool call that has this approval id. Raises ConfigError if the id is unknown."""
        given = approval_id.encode("utf-8", "surrogatepass")
        for found in self._calls.values():
            if found.approval_id is not None and secrets.compare_digest(found.approval_id.encode(), given):
                return found.call
        raise ConfigError(
            "no tool call of the last turn waits for this approval, which belongs to another turn or another run"
        )

    def finish(self, result: ToolResult) -> None:
        found = self._calls[result.call.id]
        found.status, found.message = "done", result.message

    def decide(self, call_id: str, decision: _Decision, reason: str | None = None, *, nonce: str | None = None) -> None:
        """Records the decision about a tool call. Recording the same decision again has no effect.

        Raises:
            ConfigError: the tool call is unknown, doesn't wait for an approval, or was already decided differently.
        """
        found = self._found(call_id)
        if found.status == "approval":
            found.status, found.decision, found.reason, found.nonce = "ready", decision, reason, nonce
        elif found.decision != decision:
            raise ConfigError(f"the call {call_id!r} of {found.call.name} does not wait for an approval: {_now(found)}")

    def answerable(self, call_id: str) -> ToolCall | None:
        """Returns the external tool call with this id, or None if the tool call already has a result.

        Raises:
            ConfigError: the tool call is unknown, or doesn't wait for a result.
        """
        found = self._found(call_id)
        if found.status not in ("result", "done"):
            raise ConfigError(f"the call {call_id!r} of {found.call.name} does not wait for a result: {_now(found)}")
        return found.call if found.status == "result" else None

    def dump(self) -> list[dict[str, Any]]:
        names = ("status", "decision", "reason", "approval_id", "nonce", "unanswered")
        return [
            {"id": call_id} | {name: getattr(found, name) for name in names} for call_id, found in self._calls.items()
        ]

    def load(self, data: Any) -> None:
        """Restores the tool calls' statuses from the output of `dump`. Raises ConfigError if the statuses belong to
        other tool calls.
        """
        entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
        if [entry.get("id") for entry in entries] != list(self._calls):
            raise ConfigError("state.calls does not match the tool calls of the last turn")
        for entry, found in zip(entries, self._calls.values(), strict=True):
            status: Any = entry.get("status")
            texts = [entry.get(name) for name in ("reason", "approval_id", "nonce")]
            decision, unanswered = entry.get("decision"), entry.get("unanswered", [])
            valid = isinstance(unanswered, list) and all(isinstance(text, str) for text in unanswered)
            valid = valid and all(isinstance(text, str | None) for text in texts)
            if status not in _STATUSES or decision not in (None, *_DECISIONS) or not valid:
                raise ConfigError(f"state.calls: {entry!r} is not the status of a tool call")
            found.status, found.decision, found.unanswered = status, decision, unanswered
            found.reason, found.approval_id, found.nonce = texts
            if status == "background":  # it ran in the process that saved the state
                found.status = "done"
            elif status != "done":
                found.message = None

    def _found(self, call_id: str) -> CallState:
        if call_id not in self._calls:
            known = ", ".join(map(repr, self._calls))
            raise ConfigError(
                f"no call {call_id!r}{did_you_mean(call_id, self._calls)} in the last turn, which has {known}"
            )
        return self._calls[call_id]


def take_open_calls(
    messages: list[Message], *, waiting: Container[str] = (), external: Container[str] = ()
) -> TurnCalls | None:
    """Removes the last turn's tool results from a conversation, and returns the tool calls of that turn. Returns None
    if the turn has no tool calls.

    A tool call without a result waits for an approval if its tool is in `waiting`, or for a result if its tool is in
    `external`. Any other tool call may have started before, so streamfold never runs it again.
    """
    end = len(messages)
    while end and messages[end - 1].role == "tool":
        end -= 1
    if not end or not messages[end - 1].tool_calls:
        return None
    given = {message.tool_call_id: message for message in messages[end:]}
    del messages[end:]
    turn = TurnCalls(messages[-1].tool_calls)
    for found in turn._calls.values():
        name, found.message = found.call.name, given.get(found.call.id)
        if found.message is not None:
            found.status = "done"
        elif found.call.error:  # can't run, so it needs no approval
            found.status = "started"
        elif found.call.kind == "approval":  # a provider's request, never one of a client's external tools
            found.status = "approval"
        else:
            found.status = "result" if name in external else "approval" if name in waiting else "started"
    return turn


def _now(found: CallState) -> str:
    if found.decision is not None:
        return f"it was {found.decision}"
    known = {"result": "the call waits for a result", "done": "the call has a result"}
    return known.get(found.status, "the call needs none")


Approve: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]


async def needs_approval(
    call: ToolCall, tools: Mapping[str, Tool], external: Container[str]
) -> Literal["result", "approval", "ready"]:
    """Returns what a tool call must wait for, "approval" or "result". Returns "ready" if it can run now."""
    if call.kind == "approval":  # the provider runs it: a tool of an MCP server
        return "approval"
    if call.name in external:
        return "result"
    tool = tools.get(call.name)
    if tool is None or tool.needs_approval is False:
        return "ready"
    try:
        tool.bind(call)
    except InvalidToolArgumentsError:
        return "ready"  # the model is told what is wrong with the arguments
    wanted = tool.needs_approval if isinstance(tool.needs_approval, bool) else tool.needs_approval(call)
    return "approval" if (await wanted if isawaitable(wanted) else wanted) else "ready"


async def decide(approve: Approve, call: ToolCall) -> Literal["approved", "denied"]:
    said = approve(call)
    return "approved" if (await said if isawaitable(said) else said) else "denied"
