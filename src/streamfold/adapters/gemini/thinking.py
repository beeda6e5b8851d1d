"""Thinking as a level (Gemini 3) or as a budget of tokens (Gemini 2.5):
https://ai.google.dev/gemini-api/docs/thinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...requests import Request

_BUDGETS = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}


def thinking_config(request: Request) -> dict[str, Any] | None:
    """Returns the `thinkingConfig` for an effort; None if the request says nothing of it."""
    effort, family = request.options.reasoning_effort, request.family
    if effort is None:
        return None
    if family.budget is None:
        return {"thinkingLevel": effort.upper(), "includeThoughts": True}
    if effort == "none" and family.thinking != "always":
        return {"thinkingBudget": 0}  # beside includeThoughts Vertex refuses it
    least, most = family.budget
    wanted = {"none": least, "max": most}.get(effort) or _BUDGETS[effort]
    return {"thinkingBudget": min(most, max(least, wanted)), "includeThoughts": True}
