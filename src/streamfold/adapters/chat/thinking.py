"""How an effort is written for a server, and tool choices that thinking models refuse."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ...requests import drop_forced_tool_choice, is_forced, is_reasoning_enabled
from ...types import AllowedTools, ReplyWarning
from .quirks import ChatQuirks

if TYPE_CHECKING:
    from ...requests import Request


def effort_members(request: Request, quirks: ChatQuirks) -> dict[str, Any]:
    """Returns the members of the body that request an effort: a level, a switch, or both."""
    effort = request.options.reasoning_effort
    if effort is None:
        return {}
    on = effort != "none"
    has_levels = quirks.effort_grades and request.family.efforts != ()
    graded = {"reasoning_effort": effort} if not quirks.thinking_switch or (on and has_levels) else {}
    match quirks.thinking_switch:
        case "thinking":
            return {"thinking": {"type": "enabled" if on else "disabled"}, **graded}
        case "enable_thinking":
            return {"enable_thinking": on, **graded}
        case "reasoning":
            return {"reasoning": {"enabled": on}, **graded}
        case None:
            return graded


def only_allowed_tools(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Leaves out the tools that a choice among some of them excludes, for servers without such a choice."""
    choice = request.tool_choice
    return keep_only_tools(request, choice.names, choice.mode) if isinstance(choice, AllowedTools) else (request, [])


def keep_only_tools(
    request: Request, names: Collection[str], mode: Literal["auto", "required"]
) -> tuple[Request, list[ReplyWarning]]:
    """Returns the request with these tools alone, and a warning about the others."""
    left_out = [tool.name for tool in request.tools if tool.name not in names]
    tools = tuple(tool for tool in request.tools if tool.name in names)
    detail = f"this provider can't be told which tools may be called: {', '.join(left_out)} left out, {mode} sent"
    warnings = [ReplyWarning("tool_choice_changed", detail)] if left_out else []
    return replace(request, tools=tools, tool_choice=mode), warnings


def fit_forced_choice(request: Request, quirks: ChatQuirks) -> tuple[Request, list[ReplyWarning]]:
    """Returns the request with a tool choice that the server accepts.

    "Thinking mode does not support this tool_choice" (DeepSeek), "The tool_choice parameter does not support being set
    to required or object in thinking mode" (DashScope): both are a 400.
    """
    if quirks.forced_while_thinking or not is_forced(request) or not may_reason(request):
        return request, []
    if request.options.disable_thinking_for_forced_tools:
        return disable_reasoning(request)
    warnings: list[ReplyWarning] = []
    why = (
        "takes no forced tool choice while it thinks"
        " (reasoning_effort='none', or disable_thinking_for_forced_tools=True)"
    )
    return drop_forced_tool_choice(request, why, warnings), warnings


def disable_reasoning(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Switches thinking off, so that a call can be forced."""
    effort = request.options.reasoning_effort
    detail = f"thinking is switched off to force a call: reasoning_effort={effort!r} was not sent"
    dropped = [ReplyWarning("option_dropped", detail)] if effort not in (None, "none") else []
    return replace(request, options=replace(request.options, reasoning_effort="none")), dropped


def may_reason(request: Request) -> bool:
    """Returns whether the model may think: many do unless the request says otherwise."""
    return is_reasoning_enabled(request.options, request.family) is not False
