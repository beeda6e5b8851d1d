"""The interface of dialects, and the information about the request that a dialect receives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...deltas import Delta
from ...types import AllowedTools, NamedTool, ReadToolChoice, Tool


@dataclass(frozen=True, slots=True)
class DialectContext:
    """The information about a request that a dialect needs.

    Attributes:
        tools: the declared tools. Without tools, the dialect finds no tool calls.
        tool_choice: the tool choice of the request. With "none", the dialect finds only reasoning.
        start_in_reasoning: true if the model's output begins with reasoning, because the chat template contains the
            opening marker.
        draft: a function that the dialect calls while a tool call is incomplete, with the tool call's number, its name,
            and the next piece of its arguments.
    """

    tools: tuple[Tool, ...] = ()
    tool_choice: ReadToolChoice = "auto"
    start_in_reasoning: bool = False
    draft: Callable[[int, str, str], None] | None = None

    @property
    def calls_allowed(self) -> bool:
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def call_demanded(self) -> bool:
        match self.tool_choice:
            case "required" | NamedTool() | AllowedTools(mode="required"):
                return True
        return False


@runtime_checkable
class Dialect(Protocol):
    """Finds tool calls and reasoning in the deltas of one response."""

    def feed(self, delta: Delta) -> Iterable[Delta]:
        """Returns the deltas that replace `delta`. Holds back text that may still become a tool call."""
        ...

    def finish(self) -> Iterable[Delta]:
        """Returns the text that was held back, tool calls and warnings. The engine calls this once, at the end."""
        ...
