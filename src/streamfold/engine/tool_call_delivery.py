"""Decides which tool calls are delivered at the end of a response.

    the finish reason                              the delivered tool calls
    ---------------------------------------------  ---------------------------------------
    `stop`, `tool_calls`                           all of them
    `length`, `content_filter`                     none: they may be truncated
    none before `[DONE]`, or an unknown value      those with complete arguments
    one after which another request continues      none yet: see `Finish.continues`
    any, after a request with `tool_choice="none"` none

If the connection breaks inside a tool call that began after the finish reason, the response has failed
(`is_cut_inside_call`). A tool call without a name, or one that the server marks as incomplete, is dropped with a
warning. If a tool call's arguments aren't a JSON object, or may be incomplete, the tool call is delivered with `error`
set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..deltas import Finish, Meta
from ..errors import join_limited
from ..jsontext import ParsedArguments, invalid_arguments, join_surrogates, read_arguments
from ..types import (
    AllowedTools,
    FinishReason,
    NamedTool,
    ReadToolChoice,
    Tool,
    ToolCall,
    WarningCode,
    is_truncated,
    unwrapped_arguments,
)
from .tool_call_assembly import IncomingCall


class ToolNameMap(NamedTuple):
    """Maps the tool names in the request to the names that the program declared.

    Attributes:
        answer: the tool whose arguments are the response, if the request asks for structured output as a tool call.
        tools: the tools as the program declared them. The request may contain them in a changed form.
    """

    own: Mapping[str, str] = {}
    answer: str | None = None
    tools: Sequence[Tool] = ()


class DeliveredCalls(NamedTuple):
    """The tool calls to deliver, and the finish reason of the reply.

    Attributes:
        opened: for each tool call in `calls`, the `IncomingCall` from which it was created.
        others: tool calls of other kinds than "function" that the client must run.
        answer: the arguments of the call of the tool `ToolNameMap.answer`, or None.
    """

    calls: list[ToolCall]
    opened: list[IncomingCall]
    reason: FinishReason
    answer: str | None
    others: list[ToolCall]


@dataclass(slots=True)
class CallDelivery:
    """Decides which tool calls of a response are delivered.

    Args:
        warn: a function that gets each warning, and the tool call that the warning is about.
        tools: the tools of the request.
        finish: the finish reason; None if the stream ended without one.
        meta: the id, model and creation time of the response. Missing ids of tool calls are generated from these
            values.
    """

    warn: Callable[[WarningCode, str, IncomingCall | None], None]
    tool_choice: ReadToolChoice
    names: ToolNameMap
    tools: Sequence[Tool]
    finish: Finish | None
    meta: Meta
    _ids: set[str] = field(default_factory=set, init=False)
    _taken: set[str] = field(default_factory=set, init=False)

    def decide(self, opened: list[IncomingCall], others: list[ToolCall]) -> DeliveredCalls:
        """Decides which of the tool calls are delivered, and which finish reason the reply has."""
        reason: FinishReason = self.finish.reason if self.finish else "unknown"
        if not opened and not others and reason != "tool_calls" and self.tool_choice in ("auto", "none"):
            return DeliveredCalls([], [], reason, None, others)  # nearly always
        wanted, answer = self._take_answer(opened)
        kept = self._deliverable(wanted, reason)
        self._taken = {call.id for call, _ in kept}
        calls = [self._tool_call(call, arguments) for call, arguments in kept]
        if others and (why := self._cut(reason)):
            self._drop(others, why)
            others = []
        others = [replace(call, id=self._own_id(call.id, call.name, call)) for call in others]
        if (opened and self.tool_choice == "none") or (answer is not None and not calls):
            reason = "stop" if reason == "tool_calls" else reason
        if (calls or others) and reason == "stop":
            reason = "tool_calls"  # vLLM and others send "stop" after a named tool choice
        if reason == "tool_calls" and not (calls or others):
            raw = self.finish.raw if self.finish else None
            self.warn("missing_tool_calls", f"finish reason {raw!r}, but there is no tool call to deliver", None)
        goes_on = self.finish is not None and self.finish.continues
        if not (is_truncated(reason) or goes_on) and answer is None:
            self._check_choice([call.name for call in (*calls, *others)])
        return DeliveredCalls(calls, [call for call, _ in kept], reason, answer, others)

    def _check_choice(self, called: Collection[str]) -> None:
        match self.tool_choice:
            case NamedTool(hosted=tool) if tool is not None and tool.kind != "custom":
                return  # the provider runs this tool itself
            case NamedTool(name) if self.names.own.get(name, name) not in called:
                self.warn(
                    "tool_choice_unmet", f"the request required a call of {name}, but the response has none", None
                )
            case "required" | AllowedTools(mode="required") if not called:
                self.warn("tool_choice_unmet", "the request required a tool call, but the response has none", None)

    def _take_answer(self, opened: list[IncomingCall]) -> tuple[list[IncomingCall], str | None]:
        name = self.names.answer
        if not name or not (answers := [call for call in opened if call.name == name]):
            return opened, None
        read = _read(answers[0])
        if read.repair:
            self.warn("repaired_arguments", f"{name}: {read.repair}", answers[0])
        if len(answers) > 1:
            self.warn(
                "calls_dropped", f"the model gave {len(answers)} answers by tool call: the first answer is used", None
            )
        return [call for call in opened if call.name != name], read.raw

    def _deliverable(
        self, opened: list[IncomingCall], reason: FinishReason
    ) -> list[tuple[IncomingCall, ParsedArguments]]:
        named = [call for call in opened if call.name]
        if len(named) < len(opened):
            nameless = [call.id or call.text[:80] or "(no id)" for call in opened if not call.name]
            self.warn("calls_dropped", f"tool calls without a name were dropped: {', '.join(nameless)}", None)
        if why := self._cut(reason):
            self._drop(named, why)
            return []
        self._drop((call for call in named if call.broken_off), "the server marked them as incomplete")
        read = [(call, _read(call)) for call in named if not call.broken_off]
        if reason == "unknown":
            why = f"unknown finish reason {self.finish.raw!r}" if self.finish else "the finish reason is missing"
            doubtful = [call for call, arguments in read if not _is_whole(call, arguments)]
            self._drop(doubtful, f"{why}, so the arguments may be incomplete")
            read = [(call, arguments) for call, arguments in read if call not in doubtful]
        return read

    def _cut(self, reason: FinishReason) -> str | None:
        if self.tool_choice == "none":
            return "the request forbade tool calls"
        if self.finish is not None and self.finish.continues:
            return "the answer continues in the response to another request"
        if self.finish and self.finish.drops_calls:
            return f"the response ended with {self.finish.raw!r}"
        return {"length": "the response was truncated", "content_filter": "the response was filtered"}.get(reason)

    def _drop(self, calls: Iterable[IncomingCall | ToolCall], why: str) -> None:
        if names := [call.name for call in calls]:
            self.warn("calls_dropped", f"{why}: {', '.join(names)}", None)

    def _tool_call(self, call: IncomingCall, read: ParsedArguments) -> ToolCall:
        if call.other_id:
            ids = f"the server sent the id {call.id!r}, then {call.other_id!r}; the first id is used"
            self.warn("changed_id", f"{call.name}: {ids}", call)
        call_id, name, value = self._own_id(call.id, call.name, call), join_surrogates(call.name), read.value
        if read.has_conflict or call.had_empty_repetition:
            self.warn(
                "arguments_mismatch",
                f"{call.name}: the deltas of the arguments and the complete arguments differ",
                call,
            )
        if read.repair:
            self.warn("repaired_arguments", f"{call.name}: {read.repair}", call)
        if call.guessed:
            self.warn("guessed_call", f"{call.name}: a fragment was assigned to this tool call by a guess", call)
        own_name = self.names.own.get(name, name)
        if call.lost_pieces:
            value = invalid_arguments(read.raw)
            self.warn("invalid_arguments", f"{call.name}: a part of the arguments may be missing", call)
        elif not read.valid:
            self.warn("invalid_arguments", f"{call.name}: the arguments are not a JSON object", call)
        elif not call.custom:
            value = self._unwrapped(own_name, value, call)
        return ToolCall(join_surrogates(call_id), own_name, value, read.raw, call.extra, call.kind)

    def _unwrapped(self, name: str, arguments: dict[str, Any], call: IncomingCall) -> dict[str, Any]:
        """Returns the arguments. A string with JSON becomes its JSON value where the tool's schema requires an object
        or a list."""
        tool = next((tool for tool in (*self.names.tools, *self.tools) if tool.name == name), None)
        if tool is None:
            return arguments
        value, paths = unwrapped_arguments(arguments, tool.parameters)
        if paths:
            self.warn(
                "arguments_unwrapped",
                f"{name}: a string with JSON was converted to its value: {join_limited(paths)}",
                call,
            )
        return value

    def _own_id(self, call_id: str, name: str, of: IncomingCall | ToolCall) -> str:
        if call_id and call_id not in self._ids:  # nearly always
            self._ids.add(call_id)
            return call_id
        call = of if isinstance(of, IncomingCall) else None
        if not call_id and not (call and call.markup):
            self.warn("missing_id", f"{name} had no id", call)
        elif call_id:
            self.warn(
                "duplicate_id", f"{call_id!r} is the id of two tool calls; the tool call of {name} got a new id", call
            )
        number, text = (of.number, of.text) if isinstance(of, IncomingCall) else (len(self._ids), of.raw_arguments)
        # Derived from the response, so that a replayed recording yields the same ids.
        seed = f"{self.meta.id}|{self.meta.created}|{self.meta.model}|{number}|{name}|{text}"
        fresh = ""
        while not fresh or fresh in self._taken:
            fresh = "call_" + hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:24]
            seed += "|"
        self._taken.add(fresh)
        self._ids.add(fresh)
        return fresh


def is_cut_inside_call(opened: Iterable[IncomingCall]) -> bool:
    """Returns whether the stream broke inside a tool call that arrived after the finish reason."""
    return any(call.late and (call.broken_off or not (call.name and _is_whole(call, _read(call)))) for call in opened)


def _read(call: IncomingCall) -> ParsedArguments:
    if call.custom:
        text = call.wholes[-1] if call.wholes else call.text
        differ = bool(call.pieces) and call.text != text
        text = join_surrogates(text)
        return ParsedArguments({"input": text}, text, has_conflict=differ)
    torn = call.gap_at is not None and call.wholes  # an event is missing, so only complete arguments count
    return read_arguments(() if torn else call.pieces, call.wholes, repair=not call.markup)


def _is_whole(call: IncomingCall, read: ParsedArguments) -> bool:
    """Returns whether the arguments are complete. The input of a custom tool call is complete if the server has marked
    it as complete."""
    if call.custom:
        return not call.lost_pieces and (call.done or call.came_whole)
    return read.valid and not call.lost_pieces and (call.done or read.raw.lstrip().startswith("{"))
