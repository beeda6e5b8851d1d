"""The interface of a dialect, built in or from another package, and what it is told of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...deltas import Delta
from ...types import AllowedTools, NamedTool, ReadToolChoice, Tool


@dataclass(frozen=True, slots=True)
class DialectContext:
    """The parts of the request that a dialect needs.

    Attributes:
        tools: the tools that were declared. Without any, no calls are read.
        tool_choice: after "none" no calls are read: their markers are ordinary text. Reasoning is read all the same.
        start_in_reasoning: the output begins inside reasoning, because the prompt has opened it.
        draft: takes the next piece of a call that is being read, for showing it: the number of the call among those of
            the dialect, the name of the tool, and the piece of its arguments. A dialect need not call it.
    """

    tools: tuple[Tool, ...] = ()
    tool_choice: ReadToolChoice = "auto"
    start_in_reasoning: bool = False
    draft: Callable[[int, str, str], None] | None = None

    @property
    def calls_allowed(self) -> bool:
        """Whether the model may make calls."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def call_demanded(self) -> bool:
        """Whether the model must make a call."""
        match self.tool_choice:
            case "required" | NamedTool() | AllowedTools(mode="required"):
                return True
        return False


@runtime_checkable
class Dialect(Protocol):
    """A filter for the deltas of one answer."""

    def feed(self, delta: Delta) -> Iterable[Delta]:
        """Returns the deltas that are certain after this one. Text that may still become markup is held back."""
        ...

    def finish(self) -> Iterable[Delta]:
        """Returns the text that was held back, the calls, and warnings. Call it once, at the end of the answer."""
        ...
