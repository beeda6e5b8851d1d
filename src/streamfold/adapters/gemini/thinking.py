"""Thinking as a level (Gemini 3) or as a budget of tokens (Gemini 2.5): https://ai.google.dev/gemini-api/docs/thinking."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...values import ProtocolWarning
from .quirks import GeminiQuirks

if TYPE_CHECKING:
    from ...requests import Request

__all__ = ["fit_effort", "thinking_config"]

_ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 32768}


def thinking_config(effort: str | None, quirks: GeminiQuirks) -> dict[str, Any] | None:
    """Returns the `thinkingConfig` for an effort; None if the request says nothing of it."""
    if effort is None or quirks.thinking == "never":
        return None
    if quirks.thinking == "level":
        return {"thinkingLevel": _level(effort, quirks).upper(), "includeThoughts": True}
    if effort == "none" and quirks.can_stop_thinking:
        return {"thinkingBudget": 0}  # beside includeThoughts Vertex refuses it
    least, most = quirks.budget
    return {"thinkingBudget": min(most, max(least, _BUDGETS.get(effort, 0))), "includeThoughts": True}


def fit_effort(request: Request, quirks: GeminiQuirks) -> tuple[Request, list[ProtocolWarning]]:
    """Returns the request with an effort that the model can be told, and what was changed."""
    effort, name = request.options.reasoning_effort, request.model
    if effort is None:
        return request, []
    if quirks.thinking == "never":
        options = replace(request.options, reasoning_effort=None)
        detail = f"{name} does not think: reasoning_effort={effort!r} was not sent"
        return replace(request, options=options), [
            ProtocolWarning("option_dropped", detail)
        ] if effort != "none" else []
    if quirks.thinking == "level" and (sent := _level(effort, quirks)) != effort:
        detail = f"{name} does not know reasoning_effort={effort!r}: {sent!r} was sent"
        return request, [ProtocolWarning("option_changed", detail)]
    if quirks.thinking == "budget" and effort == "none" and not quirks.can_stop_thinking:
        detail = f"{name} can't stop thinking: the smallest budget was sent"
        return request, [ProtocolWarning("option_changed", detail)]
    return request, []


def _level(effort: str, quirks: GeminiQuirks) -> str:
    """The lowest level that is not below the one that was asked for, else the highest that the model has."""
    above = [level for level in quirks.levels if _ORDER.index(level) >= _ORDER.index(effort)]
    return above[0] if above else quirks.levels[-1]
