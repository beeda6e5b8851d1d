"""Tools that are no functions: what the provider's own ones did, and the calls of those that the client has to run.

Nothing here is asked as long as an answer only has text and calls of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, cast

from ..values import (
    CallKind,
    Finish,
    HostedPart,
    PartialToolCall,
    ToolCall,
    Usage,
    WarningCode,
    arguments_text,
    call_order,
    count_requests,
    hosted_parts,
)
from .output_items import OutputItemAssembler


class HostedToolTracker:
    """The tools of one answer that are no functions.

    Args:
        declared: the names of the tools that the request declared. A call of a custom tool is the client's only if its
            name is among them: xAI sends what its own tools do in the same form.

    Attributes:
        used: whether there is anything of them in the answer.
        requests: how many requests tools made, as the server counts them, by kind.
        observe: takes note of a part of the answer, see `OutputItemAssembler`.
    """

    def __init__(self, declared: Collection[str] = ()) -> None:
        self._declared = declared
        self._items = OutputItemAssembler()
        self.takes = self._items.observe
        self._shown: dict[tuple[str, str | None, str | None], HostedPart] = {}
        self.used = False
        self.requests: dict[str, int] = {}

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The calls of custom tools that have begun and that the client will run."""
        return tuple(
            one
            for one in self._items.partial_tool_calls
            if one.name and (not self._declared or one.name in self._declared)
        )

    def record_if_new(self, part: HostedPart) -> bool:
        """Notes a part of the answer. Returns whether it says more than was shown: servers repeat parts."""
        key = (part.part, part.id, part.call_id)
        new = self._shown.get(key) != part or key[1:] == (None, None)
        self._shown[key], self.used = part, True
        return new

    def calls(
        self, extras: dict[str, Any], finish: Finish | None, warn: Callable[[WarningCode, str], None]
    ) -> tuple[list[ToolCall], list[str | None]]:
        """Returns the calls among the items that the client has to run, and the order of all calls.

        The items in the extras are put in order.

        Args:
            finish: how the answer ended. After a word that nobody knows, items that were begun may not be done.
        """
        finished = finish is not None and finish.reason != "unknown"
        if items := self._items.complete(extras.get("output") or [], warn, finished=finished):
            extras["output"] = items
        if not self.used:
            return [], []
        parts = hosted_parts(extras)
        return [_call(part) for part in parts if part.runs == "client" and self._is_clients(part)], call_order(extras)

    def _is_clients(self, part: HostedPart) -> bool:
        return part.kind != "custom" or not self._declared or part.name in self._declared

    def count(self, usage: Usage | None, extras: Mapping[str, Any]) -> Usage | None:
        """Returns the usage with the requests of tools. One that the server did not send stays None."""
        if usage is None:
            return usage
        said = {kind: number for kind, number in self.requests.items() if number}
        tools = {**(count_requests(extras) if self.used else {}), **said}
        return replace(usage, tools=tools) if tools else usage


def _call(part: HostedPart) -> ToolCall:
    kind = cast("CallKind", "approval" if part.part == "approval" else part.kind)
    call_id = part.call_id or part.id or ""
    name = part.name or str(part.raw.get("type", part.kind)).removesuffix("_call")
    if kind == "custom":
        text = part.input if isinstance(part.input, str) else ""
        return ToolCall(call_id, name, {"input": text}, text, None, kind)
    arguments = part.input if isinstance(part.input, dict) else {}
    checks = part.raw.get("pending_safety_checks") if kind == "computer" else None
    extra: dict[str, Any] = {"server": part.server} if part.server else {}
    if isinstance(checks, list) and checks:
        extra["pending_safety_checks"] = [check for check in checks if isinstance(check, dict)]
    return ToolCall(call_id, name, arguments, arguments_text(part), extra or None, kind)


def in_order(calls: list[ToolCall], order: Sequence[str | None]) -> list[ToolCall]:
    """Returns calls of functions and of other tools as the model wrote them.

    Args:
        calls: those of functions first, and each kind in its own order.
        order: the ids of all calls, as far as they are known. One whose id is not in it takes the next place that no
            other call has: ids may be made up.
    """
    places = {call_id: at for at, call_id in reversed(list(enumerate(order))) if call_id is not None}
    ids = {call.id for call in calls}
    free = chain((at for at, call_id in enumerate(order) if call_id not in ids), repeat(len(order)))
    placed = [(places[call.id] if call.id in places else next(free), call) for call in calls]
    return [call for _, call in sorted(placed, key=itemgetter(0))]
