"""Encodes the effort level and the reasoning of earlier messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ...requests import drop_forced_tool_choice, is_forced, is_reasoning_enabled
from ...types import AllowedTools, ReplyWarning
from .quirks import ChatQuirks

if TYPE_CHECKING:
    from ...requests import Request
    from ...types import Message


def effort_members(request: Request, quirks: ChatQuirks) -> dict[str, Any]:
    """Returns the request fields for `reasoning_effort`. Depending on the server, these are an effort level, a field
    that turns thinking on or off, or both."""
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
    """Removes the tools that an `AllowedTools` choice excludes, for servers that don't support such a tool choice."""
    choice = request.tool_choice
    return keep_only_tools(request, choice.names, choice.mode) if isinstance(choice, AllowedTools) else (request, [])


def keep_only_tools(
    request: Request, names: Collection[str], mode: Literal["auto", "required"]
) -> tuple[Request, list[ReplyWarning]]:
    """Removes all tools except `names` from a request. Returns a warning if a tool was removed."""
    left_out = [tool.name for tool in request.tools if tool.name not in names]
    tools = tuple(tool for tool in request.tools if tool.name in names)
    detail = f"this provider doesn't support a choice among some tools: {', '.join(left_out)} left out, {mode} sent"
    warnings = [ReplyWarning("tool_choice_changed", detail)] if left_out else []
    return replace(request, tools=tools, tool_choice=mode), warnings


def fit_forced_choice(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Replaces a forced tool choice with "auto", because the server refuses a forced tool choice while the model
    thinks. With the option `disable_thinking_for_forced_tools`, turns thinking off instead, unless the model always
    thinks.

    Otherwise, servers respond with status 400 and an error such as "Thinking mode does not support this tool_choice"
    (DeepSeek) or "The tool_choice parameter does not support being set to required or object in thinking mode"
    (DashScope).
    """
    if not is_forced(request) or not may_reason(request):
        return request, []
    why = "doesn't accept a forced tool choice while thinking"
    if request.family.thinking != "always":
        if request.options.disable_thinking_for_forced_tools:
            return disable_reasoning(request)
        why += " (reasoning_effort='none', or disable_thinking_for_forced_tools=True)"
    warnings: list[ReplyWarning] = []
    return drop_forced_tool_choice(request, why, warnings), warnings


def disable_reasoning(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Turns thinking off, so that the request can force a tool call."""
    effort = request.options.reasoning_effort
    detail = f"thinking was turned off to force a tool call: reasoning_effort={effort!r} was not sent"
    dropped = [ReplyWarning("option_dropped", detail)] if effort not in (None, "none") else []
    return replace(request, options=replace(request.options, reasoning_effort="none")), dropped


def may_reason(request: Request) -> bool:
    """Returns True if the model may think before it answers the request."""
    return is_reasoning_enabled(request.options, request.family) is not False


# After a tool result, the model continues its reasoning, so requests contain the reasoning since the last user message.
# Earlier reasoning costs tokens, so requests contain it only for model families that use it.


def should_resend_reasoning(request: Request, quirks: ChatQuirks, *, finished: bool = False) -> list[bool]:
    """Returns, for each message, whether the request has to contain the message's reasoning as text.

    Args:
        finished: True to include the messages before the last user message, for every model.
    """
    family = request.family
    thinking = family.thinking not in (None, "never") or (family.thinking is None and not quirks.reasoning_of_thinkers)
    if quirks.reasoning_field is None or not thinking:
        return [False] * len(request.messages)
    start = 0 if finished or family.reasoning_back in ("all", "required") else _open_turn(request.messages)
    textual = quirks.reasoning_field == "thinking_part"  # content in parts, which can't be continued
    return [
        at >= start and request.came_from_here(message) and not (message.partial and textual)
        for at, message in enumerate(request.messages)
    ]


def _open_turn(messages: tuple[Message, ...]) -> int:
    """Returns the index of the last user message that doesn't follow a tool result."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and (at == 0 or messages[at - 1].role != "tool"):
            return at
    return 0


def reasoning_members(reasoning: str, content: Any, quirks: ChatQuirks, parts: Any = None) -> dict[str, Any]:
    """Returns the message fields that contain an assistant message's reasoning, in the endpoint's format.

    Args:
        content: the message's content, already encoded.
        parts: the reasoning parts that the endpoint sent, with their signatures.
    """
    field = quirks.reasoning_field
    if field is None:
        return {}
    if field not in ("think_tag", "thinking_part", "reasoning_part"):
        return {field: reasoning}
    if not reasoning:
        return {}
    if field == "think_tag":
        text = content if isinstance(content, str) else ""
        return {"content": f"<think>{reasoning}</think>{text}"}
    texts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
    if field == "thinking_part":
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}, *texts]}
    summary = merge_summaries(parts or []) or [{"type": "summary_text", "text": reasoning}]
    return {"content": [{"type": "reasoning", "summary": summary}, *texts]}


def merge_summaries(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """Joins the streamed pieces of each summary in reasoning parts.

    A summary ends with the piece that contains its signature.
    """
    out: list[dict[str, Any]] = []
    pieces = (piece for part in parts if isinstance(part, Mapping) for piece in part.get("summary") or ())
    for piece in pieces:
        if not isinstance(piece, Mapping):
            continue
        if out and not out[-1].get("signature") and out[-1].get("type") == piece.get("type"):
            said = {name: value for name, value in piece.items() if value}
            out[-1] = {**out[-1], **said, "text": f"{out[-1].get('text') or ''}{piece.get('text') or ''}"}
        else:
            out.append(dict(piece))
    return out


def keep_reasoning_members(request: Request, back: list[bool], body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the request fields that make the server use the reasoning before the last user message. Returns no fields
    if the request contains no such reasoning.

    Args:
        back: see `should_resend_reasoning`.
    """
    keep = request.family.keep
    start = _open_turn(request.messages)
    if not keep or request.family.reasoning_back != "all" or not may_reason(request):
        return {}
    if not any(message.reasoning and back[at] for at, message in enumerate(request.messages[:start])):
        return {}
    out: dict[str, Any] = {}
    for path, value in keep.items():
        name, _, inner = path.partition(".")
        known = body.get(name)
        switched = {"type": "enabled"} if name == "thinking" else {}
        base = known if isinstance(known, Mapping) else switched
        out[name] = {**base, inner: value} if inner else value
    return out
