"""The calls of one turn between the model's answer and their results: some run at once, some wait for somebody.

The status of a call moves forward only: new, waiting for an approval or a result, ready, started, done. A call that was
started is never started again, whatever happens to the process, so that no call runs twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..values import ConfigError, Message, ToolCall, nearest, tool_result
from .tool_results import ToolResult

_Status: TypeAlias = Literal["new", "approval", "result", "ready", "started", "done"]
_Decision: TypeAlias = Literal["approved", "denied"]
_STATUSES, _DECISIONS = get_args(_Status), get_args(_Decision)

_TEXTS: Mapping[_Status, str] = {
    "approval": "not run: it waits for an approval",
    "result": "not finished: its result has not arrived",
}
_NOT_FINISHED = "not finished: the run was stopped before the tool had answered"


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that a paused run waits for.

    Attributes:
        call: the call.
        waits_for: "approval": `approve` or `deny` it. "result": the tool is external; `answer` it.
    """

    call: ToolCall
    waits_for: Literal["approval", "result"]


@dataclass(slots=True)
class _TurnCall:
    call: ToolCall
    status: _Status = "new"
    decision: _Decision | None = None
    reason: str | None = None
    message: Message | None = None
    nonce: str | None = None


class TurnCalls:
    """The calls of a turn, each with its status, and the messages that stand for their results.

    Args:
        calls: the calls, in the model's order.
        unfinished: the text of a result that is missing.
    """

    def __init__(self, calls: Iterable[ToolCall], unfinished: str = _NOT_FINISHED) -> None:
        self._calls = {call.id: _TurnCall(call) for call in calls}
        self._unfinished = unfinished

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    def messages(self) -> list[Message]:
        """Returns one message for each call: its result, or a text that says why there is none."""
        return [
            found.message or tool_result(found.call, _TEXTS.get(found.status, self._unfinished), error=True)
            for found in self._calls.values()
        ]

    @property
    def open(self) -> bool:
        """Whether a call may still be run or answered."""
        return any(found.status not in ("started", "done") for found in self._calls.values())

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for somebody."""
        return tuple(
            PendingCall(found.call, found.status)
            for found in self._calls.values()
            if found.status == "approval" or found.status == "result"
        )

    def having(self, status: _Status) -> list[ToolCall]:
        """Returns the calls with this status."""
        return [found.call for found in self._calls.values() if found.status == status]

    def denial(self, call: ToolCall) -> tuple[bool, str | None]:
        """Returns whether a call was denied, and the reason."""
        found = self._calls[call.id]
        return found.decision == "denied", found.reason

    def set(self, call: ToolCall, status: _Status) -> None:
        """Sets the status of a call."""
        self._calls[call.id].status = status

    def finish(self, result: ToolResult) -> None:
        """Records a result."""
        found = self._calls[result.call.id]
        found.status, found.message = "done", result.message

    def nonce(self, call: ToolCall) -> str | None:
        """Returns the nonce of the approval of a call; None if it has none."""
        return self._calls[call.id].nonce

    def decide(self, call_id: str, decision: _Decision, reason: str | None = None, *, nonce: str | None = None) -> None:
        """Records a decision. Does nothing if the same one was made before.

        Raises:
            ConfigError: there is no such call, it does not wait for an approval, or the other decision was made.
        """
        found = self._found(call_id)
        if found.status == "approval":
            found.status, found.decision, found.reason, found.nonce = "ready", decision, reason, nonce
        elif found.decision != decision:
            raise ConfigError(f"the call {call_id!r} of {found.call.name} does not wait for an approval: {_now(found)}")

    def answerable(self, call_id: str) -> ToolCall | None:
        """Returns the call that a result from outside is for; None if it has a result already.

        Raises:
            ConfigError: there is no such call, or it does not wait for a result.
        """
        found = self._found(call_id)
        if found.status not in ("result", "done"):
            raise ConfigError(f"the call {call_id!r} of {found.call.name} does not wait for a result: {_now(found)}")
        return found.call if found.status == "result" else None

    def dump(self) -> list[dict[str, Any]]:
        """Returns the statuses as JSON data; `load` reads them."""
        return [
            {
                "id": call_id,
                "status": found.status,
                "decision": found.decision,
                "reason": found.reason,
                **({"nonce": found.nonce} if found.nonce else {}),
            }
            for call_id, found in self._calls.items()
        ]

    def load(self, data: Any) -> None:
        """Reads what `dump` wrote. Raises ConfigError if it does not fit the calls."""
        entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
        if [entry.get("id") for entry in entries] != list(self._calls):
            raise ConfigError("state.calls does not name the calls of the last turn, in their order")
        for entry, found in zip(entries, self._calls.values(), strict=True):
            status: Any = entry.get("status")
            decision, reason, nonce = entry.get("decision"), entry.get("reason"), entry.get("nonce")
            texts = isinstance(reason, str | None) and isinstance(nonce, str | None)
            if status not in _STATUSES or decision not in (None, *_DECISIONS) or not texts:
                raise ConfigError(f"state.calls: {entry!r} is not the status of a call")
            found.status, found.decision, found.reason, found.nonce = status, decision, reason, nonce
            if status != "done":
                found.message = None

    def _found(self, call_id: str) -> _TurnCall:
        if call_id not in self._calls:
            known = ", ".join(map(repr, self._calls))
            raise ConfigError(f"no call {call_id!r}{nearest(call_id, self._calls)} in the last turn: it has {known}")
        return self._calls[call_id]


def take_open_calls(
    messages: list[Message], *, waiting: Container[str] = (), external: Container[str] = ()
) -> TurnCalls | None:
    """Takes the results of the last turn off a conversation and returns its calls; None if it ends in another way.

    A call without a result waits if its tool is named in `waiting` or `external`. Others may have been started before,
    so they are never run.
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
        elif found.call.error:  # perhaps it was cut off: nobody is asked about it
            found.status = "started"
        else:
            asks = name in waiting or found.call.kind == "approval"
            found.status = "result" if name in external else "approval" if asks else "started"
    return turn


def _now(found: _TurnCall) -> str:
    if found.decision is not None:
        return f"it was {found.decision}"
    return {"result": "it waits for a result", "done": "it has a result"}.get(found.status, "it needs none")
