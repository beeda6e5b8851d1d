"""Runs one tool call, and creates the message that contains the result for the model."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..errors import ConfigError
from ..types import (
    AudioPart,
    FilePart,
    ImagePart,
    InvalidToolArgumentsError,
    Message,
    TextPart,
    Tool,
    ToolCall,
    read_mcp_result,
    tool_result,
)

OnToolError: TypeAlias = Callable[[ToolCall, Exception], str | Awaitable[str | None] | None]

_PARTS = (TextPart, ImagePart, FilePart, AudioPart)

_logger = logging.getLogger("streamfold")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        call: the tool call.
        message: the result as a message for the model. `message.error` is True if the tool failed.
        value: the value that the tool returned: text, JSON data or a list of parts. For a failed tool, the value is the
            text of the message.
        denied: True if the tool call didn't run because it was denied.
    """

    call: ToolCall
    message: Message
    value: Any
    denied: bool = False

    def to_json(self) -> str:
        """Returns the result as JSON text. The text doesn't contain the tool call."""
        value = None if isinstance(self.message.content, tuple) else self.value
        return json.dumps({"message": self.message.to_dict(), "value": value, "denied": self.denied})

    @classmethod
    def from_json(cls, call: ToolCall, text: str) -> ToolResult:
        """Parses the output of `to_json`, and returns it as the result of a tool call."""
        data = json.loads(text)
        message = Message.from_dict(data["message"])
        parts = list(message.content) if isinstance(message.content, tuple) else None
        return cls(call, message, data["value"] if parts is None else parts, data["denied"])


async def run_call(call: ToolCall, tools: Mapping[str, Tool], on_tool_error: OnToolError | None) -> ToolResult:
    """Runs a tool call. If the tool raises an exception, the result is an error message for the model.

    Raises:
        ConfigError: the tool returned a value that can't be converted to JSON.
        Exception: `on_tool_error` raised an exception.
    """
    tool = tools.get(call.name)
    if call.kind == "approval":
        return ToolResult(call, tool_result(call, True), True)
    if tool is None:
        return _error(call, f"unknown tool {call.name!r}. Available: {', '.join(tools) or 'none'}")
    if tool.kind == "builtin_function":  # `$web_search` of Moonshot: its result is its arguments, unchanged
        return ToolResult(call, tool_result(call, call.raw_arguments), call.arguments)
    try:
        value = await _value(tool, call)
    except asyncio.CancelledError as exc:
        if _is_cancelled():
            raise
        # This task isn't cancelled: the tool awaited another one that was.
        stopped = RuntimeError("an operation in the tool was cancelled")
        stopped.__cause__ = exc
        return _error(call, await _explain(call, stopped, on_tool_error, "an awaited operation was cancelled"))
    except Exception as exc:
        if isinstance(exc, InvalidToolArgumentsError) and exc.call is call:  # the exception's text is for the model
            return _error(call, str(exc))
        return _error(call, await _explain(call, exc, on_tool_error))
    try:
        return result_from_value(call, value)
    except _CyclicResultError as exc:
        return _error(call, await _explain(call, exc, on_tool_error, str(exc)))


def denied_result(call: ToolCall, reason: str | None) -> ToolResult:
    text = "not run: the call was denied" + (f": {reason}" if reason else "")
    return ToolResult(call, tool_result(call, text, error=True), text, denied=True)


def result_from_value(call: ToolCall, value: Any, *, error: bool = False) -> ToolResult:
    """Converts the return value of a tool to a `ToolResult`. Raises ConfigError if the value can't be converted to
    JSON.
    """
    if (result := read_mcp_result(value)) is not None:
        value, error = result.content, error or result.error
    several = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, str):
        return ToolResult(call, tool_result(call, value, error=error), value)
    if any(isinstance(part, _PARTS) for part in several):
        return ToolResult(call, tool_result(call, value, error=error), list(several))
    try:
        plain = to_jsonable_python(value)
        return ToolResult(call, tool_result(call, plain, error=error), plain)
    except (ValueError, RecursionError) as exc:
        if not isinstance(exc, PydanticSerializationError | UnicodeError):
            raise _CyclicResultError("the result contains itself, or is nested too deeply") from exc
        raise ConfigError(
            f"the result of the tool {call.name!r} is neither text, nor parts, nor JSON data: {exc}"
        ) from exc


class _CyclicResultError(ConfigError):
    """The tool's return value contains itself, or is nested too deeply."""


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _error(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call, tool_result(call, text, error=True), text)


async def _explain(call: ToolCall, error: Exception, on_tool_error: OnToolError | None, why: str | None = None) -> str:
    if on_tool_error is not None:
        text = on_tool_error(call, error)
        text = await text if isawaitable(text) else text
        if text is not None:
            return text
    _logger.error("the tool %s failed", call.name, exc_info=error)
    return f"the tool {call.name} failed: {why or type(error).__name__}"


async def _value(tool: Tool, call: ToolCall) -> Any:
    # The function of a custom tool gets the text. The function of a `HostedTool` gets the whole tool call.
    if tool.hosted is None:
        return await tool.call(call)
    if tool.function is None:
        raise InvalidToolArgumentsError(f"the tool {call.name!r} has no function to run", call)
    result = tool.function(call.raw_arguments if call.kind == "custom" else call)
    return await result if isawaitable(result) else result


def tools_by_name(tools: Iterable[Tool], external: Container[str]) -> dict[str, Tool]:
    """Returns the tools by name. Raises ConfigError if two tools have the same name or a tool has no function."""
    found: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in found:
            raise ConfigError(
                f"two tools are called {tool.name!r}: names must be unique; McpTools(prefix=...) renames the tools of a"
                " server"
            )
        if tool.function is None and tool.kind in ("function", "custom") and tool.name not in external:
            raise ConfigError(
                f"the tool {tool.name!r} has no function to run: pass function=, or list it in external= if it"
                " runs elsewhere"
            )
        found[tool.name] = tool
    return found
