"""Reasoning effort for servers without `reasoning_effort`, and tool choices that thinking models refuse."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ...requests import drop_force, is_forced
from ...values import AllowedTools, ProtocolWarning
from .quirks import ChatQuirks

if TYPE_CHECKING:
    from ...requests import Request

__all__ = [
    "effort_members",
    "grade_dropped",
    "only_allowed_tools",
    "only_these",
    "possible_choice",
    "thinks",
    "without_thinking",
]


def effort_members(effort: str | None, quirks: ChatQuirks) -> dict[str, Any]:
    """Returns the members of the body that request an effort."""
    if effort is None:
        return {}
    on = effort != "none"
    graded = {"reasoning_effort": effort} if quirks.effort_grades and (on or not quirks.thinking_switch) else {}
    match quirks.thinking_switch:
        case "thinking":
            return {"thinking": {"type": "enabled" if on else "disabled"}, **graded}
        case "enable_thinking":
            return {"enable_thinking": on, **graded}
        case "reasoning":
            return {"reasoning": {"enabled": on}, **graded}
        case None:
            return graded


def grade_dropped(request: Request, quirks: ChatQuirks) -> list[ProtocolWarning]:
    """Returns a warning if the request names a grade of effort and the server has none, or only a switch."""
    effort = request.options.reasoning_effort
    if effort is None or quirks.effort_grades or (quirks.thinking_switch and effort == "none"):
        return []
    said = f"this provider has no grades of reasoning_effort, and {effort!r} was not sent"
    if quirks.thinking_switch:
        return [ProtocolWarning("option_changed", f"{said}: thinking was switched on")]
    return [ProtocolWarning("option_dropped", f"{said}: nothing was sent instead")]


def only_allowed_tools(request: Request) -> tuple[Request, list[ProtocolWarning]]:
    """Leaves out the tools that a choice among some of them excludes, for servers without such a choice."""
    choice = request.tool_choice
    return only_these(request, choice.names, choice.mode) if isinstance(choice, AllowedTools) else (request, [])


def only_these(
    request: Request, names: Collection[str], mode: Literal["auto", "required"]
) -> tuple[Request, list[ProtocolWarning]]:
    """Returns the request with these tools alone, and a warning about the others."""
    left_out = [tool.name for tool in request.tools if tool.name not in names]
    tools = tuple(tool for tool in request.tools if tool.name in names)
    detail = f"this provider can't be told which tools may be called: {', '.join(left_out)} left out, {mode} sent"
    warnings = [ProtocolWarning("tool_choice_changed", detail)] if left_out else []
    return replace(request, tools=tools, tool_choice=mode), warnings


def possible_choice(request: Request, quirks: ChatQuirks) -> tuple[Request, list[ProtocolWarning]]:
    """Returns the request with a tool choice that the server accepts.

    "Thinking mode does not support this tool_choice" (DeepSeek), "The tool_choice parameter does not support being set
    to required or object in thinking mode" (DashScope): both are a 400.
    """
    if quirks.forced_while_thinking or not is_forced(request) or not thinks(request):
        return request, []
    if request.options.force_by_disabling_thinking:
        return without_thinking(request)
    warnings: list[ProtocolWarning] = []
    why = "takes no forced tool choice while it thinks (reasoning_effort='none', or force_by_disabling_thinking=True)"
    return drop_force(request, why, warnings), warnings


def without_thinking(request: Request) -> tuple[Request, list[ProtocolWarning]]:
    """Switches thinking off, so that a call can be forced."""
    effort = request.options.reasoning_effort
    detail = f"thinking is switched off to force a call: reasoning_effort={effort!r} was not sent"
    dropped = [ProtocolWarning("option_dropped", detail)] if effort not in (None, "none") else []
    return replace(request, options=replace(request.options, reasoning_effort="none")), dropped


def thinks(request: Request) -> bool:
    """Returns whether the model may think: many do unless the request says otherwise."""
    body = request.options.extra_body
    thinking, reasoning = body.get("thinking"), body.get("reasoning")
    if isinstance(thinking, Mapping) and "type" in thinking:
        return bool(thinking["type"] != "disabled")
    if isinstance(reasoning, Mapping) and "enabled" in reasoning:
        return bool(reasoning["enabled"])
    if "enable_thinking" in body:
        return bool(body["enable_thinking"])
    return request.options.reasoning_effort != "none"
