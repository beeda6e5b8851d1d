"""Steps of provider-run tools as the calls and results of frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamfold import HostedPart

# The members of items of the Responses API that are the call, and not what came of it; an image is a file of its own.
_OF_THE_CALL = ("id", "type", "call_id", "name", "server_label", "arguments", "action", "code", "queries", "operation")


@dataclass(frozen=True, slots=True)
class HostedCall:
    """A call of a tool that the provider runs.

    Attributes:
        part: which says it.
        id: made up where the provider has none.
        input: what the model wrote, always an object.
    """

    part: HostedPart
    id: str
    input: dict[str, Any]

    @property
    def name(self) -> str:
        """The tool of an MCP server, or the kind of tool."""
        return (self.part.kind == "mcp" and self.part.name) or self.part.kind


@dataclass(frozen=True, slots=True)
class HostedResult:
    """What came of such a call.

    Attributes:
        call: of which it is; of a listing of tools or a search without a call, the part itself.
        output: as the provider has it, without the call.
        error: why it failed.
    """

    call: HostedCall
    output: Any
    error: str | None


HostedStep: TypeAlias = HostedCall | HostedResult


class HostedSteps:
    """The steps of one answer. Its parts come while it is written, and again, complete, at the end."""

    def __init__(self) -> None:
        self._calls: dict[str, HostedCall] = {}
        self._begun: dict[str, HostedPart] = {}  # calls that are not told yet, by their ids
        self._open: list[HostedCall] = []
        self._seen: list[Mapping[str, Any]] = []

    def feed(self, parts: Iterable[HostedPart], *, last: bool = False) -> Iterator[HostedStep]:
        """Yields what is known now.

        Args:
            last: these are all parts of the answer, and nothing more is said of them.
        """
        for part in parts:
            if part.runs != "server" or part.part not in ("call", "both", "result") or part.raw in self._seen:
                continue
            if part.part != "result" and not (last or _is_whole(part)):
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
        call = self._calls[key] = HostedCall(part, key, _object(part))
        self._open.append(call)
        return call

    def _result(self, part: HostedPart) -> Iterator[HostedStep]:
        """A result belongs to the call that it names, or to the oldest of its kind that has none."""
        waiting = (call for call in self._open if call.part.kind == part.kind)
        call = self._calls.get(part.call_id or "") or next(waiting, None)
        if part.call_id in self._begun and part.call_id not in self._calls:  # it had nothing to say to its tool
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


_UNDER_WAY = ("in_progress", "searching", "interpreting", "generating", "calling", "queued")


def _is_whole(part: HostedPart) -> bool:
    """Whether all of a call is there: providers show that it begins before the model has written what it is to do."""
    return part.status not in _UNDER_WAY and (part.part == "both" or part.input not in (None, {}, ""))


def _object(part: HostedPart) -> dict[str, Any]:
    if isinstance(part.input, Mapping):
        return dict(part.input)
    return {} if part.input is None else {_INPUTS.get(part.kind, "input"): part.input}


_INPUTS = {"code_execution": "code", "file_search": "queries"}  # what a text or a list is


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
