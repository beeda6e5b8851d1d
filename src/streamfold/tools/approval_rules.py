"""What a new call waits for, and who decides about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from inspect import isawaitable
from typing import Literal, TypeAlias

from ..values import ConfigError, InvalidToolArgumentsError, Tool, ToolCall

Approve: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]


def checked_approve(approve: Approve | None) -> Approve | None:
    """Returns the function that decides about calls. Raises ConfigError if it is none."""
    if approve is not None and not callable(approve):
        raise ConfigError(f"approve must be a function of a call, not {type(approve).__name__}")
    return approve


async def needs_approval(
    call: ToolCall, tools: Mapping[str, Tool], external: Container[str]
) -> Literal["result", "approval", "ready"]:
    """Returns what a new call waits for, if it waits for anything."""
    if call.kind == "approval":  # a provider asks whether it may call a tool of an MCP server
        return "approval"
    if call.name in external:
        return "result"
    tool = tools.get(call.name)
    if tool is None or tool.needs_approval is False:
        return "ready"
    try:
        tool.bind(call)
    except InvalidToolArgumentsError:
        return "ready"  # it can't run: the model is told why, and nobody is asked
    wanted = tool.needs_approval if isinstance(tool.needs_approval, bool) else tool.needs_approval(call)
    return "approval" if (await wanted if isawaitable(wanted) else wanted) else "ready"


async def decide(approve: Approve, call: ToolCall) -> Literal["approved", "denied"]:
    """Returns what a program says about a call."""
    said = approve(call)
    return "approved" if (await said if isawaitable(said) else said) else "denied"
