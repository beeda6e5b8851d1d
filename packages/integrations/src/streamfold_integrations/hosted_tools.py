"""Finds the calls and results of hosted tools, which the provider runs itself, for other frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamfold import HostedPart

# Members of items of the Responses API that belong to the call, not to its result. Images are files of the reply.
_UNDER_WAY = ("in_progress", "searching", "interpreting", "generating", "calling", "queued")
_INPUTS = {"code_execution": "code", "file_search": "queries"}  # the name of arguments that are a text or a list
_OF_THE_CALL = ("id", "type", "call_id", "name", "server_label", "arguments", "action", "code", "queries", "operation")


@dataclass(frozen=True, slots=True)
class HostedCall:
    """A call of a hosted tool, a tool that the provider runs itself.

    Attributes:
        part: the part of the reply that contains the call.
        id: the provider's id of the tool call, or a generated id.
        input: the arguments, always a JSON object.
    """

    part: HostedPart
    id: str
    input: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the tool if the tool belongs to an MCP server; otherwise the kind of hosted tool."""
        return (self.part.kind == "mcp" and self.part.name) or self.part.kind


@dataclass(frozen=True, slots=True)
class HostedResult:
    """The result of a hosted tool call.

    Attributes:
        call: the tool call. If the provider sent only a result, the tool call is built from the result.
        output: the provider's result object, without the fields that belong to the tool call.
        error: the error message; None if the tool call succeeded.
    """

    call: HostedCall
    output: Any
    error: str | None


HostedStep: TypeAlias = HostedCall | HostedResult


class HostedSteps:
    """Finds the calls and results of hosted tools in the parts of one reply. In a stream, the class gets each part as
    it arrives, and again with the complete reply.
    """

    def __init__(self) -> None:
        self._calls: dict[str, HostedCall] = {}
        self._begun: dict[str, HostedPart] = {}  # incomplete calls, by their ids
        self._open: list[HostedCall] = []
        self._seen: list[Mapping[str, Any]] = []

    def feed(self, parts: Iterable[HostedPart], *, last: bool = False) -> Iterator[HostedStep]:
        """Yields the tool calls and results in `parts` that this method hasn't yielded before.

        Args:
            last: true if `parts` are all parts of the complete reply.
        """
        for part in parts:
            if part.runs != "server" or part.part not in ("call", "both", "result") or part.raw in self._seen:
                continue
            # Providers report the start of a call before its arguments.
            has_input = part.part == "both" or part.input not in (None, {}, "")
            if part.part != "result" and not last and (part.status in _UNDER_WAY or not has_input):
                self._begun[part.id or part.call_id or ""] = part
                continue
            self._seen.append(part.raw)
            if part.part == "result":
                yield from self._result(part)
            elif (key := part.id or part.call_id) not in self._calls or key is None:
                yield self._called(part)
                if part.part == "both":
                    yield self._ended(self._open[-1], part)

    def _called(self, part: HostedPart) -> HostedCall:
        key = part.id or part.call_id or f"{part.kind}_{len(self._calls) + 1}"
        given = part.input
        if not isinstance(given, Mapping):
            given = {} if given is None else {_INPUTS.get(part.kind, "input"): given}
        call = self._calls[key] = HostedCall(part, key, dict(given))
        self._open.append(call)
        return call

    def _result(self, part: HostedPart) -> Iterator[HostedStep]:
        """Yields a result. A result that doesn't name its tool call belongs to the oldest call of the same kind without
        a result.
        """
        waiting = (call for call in self._open if call.part.kind == part.kind)
        call = self._calls.get(part.call_id or "") or next(waiting, None)
        if part.call_id in self._begun and part.call_id not in self._calls:  # it has no arguments
            call = self._called(self._begun[part.call_id])
            yield call
        elif call is None:
            key = part.call_id or part.id or f"{part.kind}_{len(self._calls) + 1}"
            call = self._calls[key] = HostedCall(part, key, {})
            yield call
        yield self._ended(call, part)

    def _ended(self, call: HostedCall, part: HostedPart) -> HostedResult:
        self._open = [one for one in self._open if one is not call]
        return HostedResult(call, _output(part), part.error)


def _output(part: HostedPart) -> Any:
    match part.raw:
        case {"content": content}:
            return content
        case {"codeExecutionResult": Mapping() as said}:
            return {name: value for name, value in said.items() if name != "id"}
        case {"toolResponse": Mapping() as said} | {"functionResponse": Mapping() as said}:
            return said.get("response")
    left_out = (*_OF_THE_CALL, "result") if part.kind == "image_generation" else _OF_THE_CALL
    return {name: value for name, value in part.raw.items() if name not in left_out and value is not None}
