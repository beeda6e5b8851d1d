"""Thinking: which request switches it on, and what goes with it.

https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking and its pages on adaptive thinking and effort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ...requests import drop_force, is_forced
from ...values import ConfigError, Message, ProtocolWarning
from ..chat.thinking import without_thinking
from .quirks import AnthropicQuirks
from .turns import assistant_blocks

if TYPE_CHECKING:
    from ...requests import Request

__all__ = ["fit_thinking", "thinking_details", "thinking_members"]

_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 64000}
_ORDER = ("minimal", "low", "medium", "high", "xhigh", "max")
_THINKING = ("thinking", "redacted_thinking")
_SMALLEST_BUDGET = 1024


def thinking_members(request: Request, quirks: AnthropicQuirks, max_tokens: int) -> dict[str, Any]:
    """Returns the members of the body that ask for this effort; none if the request says nothing of it."""
    effort = request.options.reasoning_effort
    if effort is None:
        return {}
    if effort == "none":
        return {} if quirks.thinking == "never" else {"thinking": {"type": "disabled"}}
    if quirks.thinking == "manual":
        budget = min(_BUDGETS[effort], max_tokens - 1)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    level = {"output_config": {"effort": _nearest(effort, quirks)}} if quirks.efforts else {}
    return {"thinking": {"type": "adaptive"}, **level}


def thinking_details(body: Mapping[str, Any], extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a caller's further members of the body; `thinking` without a type says more about the thinking in it.

    `display` belongs to any thinking that is on, `budget_tokens` to the manual one, within the limit of the answer.
    """
    said, thinking = extra.get("thinking"), body.get("thinking", {})
    if not isinstance(said, Mapping) or "type" in said:
        return extra
    extra = {name: value for name, value in extra.items() if name != "thinking"}
    if thinking.get("type") not in ("adaptive", "enabled"):
        return extra
    budget, manual = said.get("budget_tokens"), thinking["type"] == "enabled"
    fits = manual and isinstance(budget, int) and _SMALLEST_BUDGET <= budget < body["max_tokens"]
    details = {name: value for name, value in said.items() if name != "budget_tokens" or fits}
    return {**extra, "thinking": {**thinking, **details}}


def fit_thinking(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ProtocolWarning]]:
    """Returns the request with an effort, a tool choice and sampling options that go together, and what was changed.

    Raises:
        ConfigError: the model can't be told what the request asks for.
    """
    request, warnings = _possible_effort(request, quirks)
    request, lost = _without_lost_thinking(request, quirks)
    request, choice = _possible_choice(request, quirks)
    request, sampling = _possible_sampling(request, quirks)
    return request, [*warnings, *lost, *choice, *sampling]


def _possible_effort(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ProtocolWarning]]:
    effort, name = request.options.reasoning_effort, request.model
    if effort == "none" and quirks.thinking == "always":
        raise ConfigError(f"{name} always thinks: reasoning_effort can't be 'none'")
    if effort in (None, "none"):
        return request, []
    if quirks.thinking == "never":
        detail = f"{name} does not think: reasoning_effort={effort!r} was not sent"
        return _with_effort(request, None), [ProtocolWarning("option_dropped", detail)]
    if quirks.thinking == "manual":
        limit = request.options.max_output_tokens or quirks.max_tokens
        if limit > _SMALLEST_BUDGET:
            return request, []
        detail = (
            f"max_output_tokens={limit} leaves no room for thinking ({_SMALLEST_BUDGET} tokens at least): it is off"
        )
        return _with_effort(request, "none"), [ProtocolWarning("option_changed", detail)]
    if not quirks.efforts:
        detail = f"{name} has no levels of effort: for reasoning_effort={effort!r}, thinking was switched on"
        return request, [ProtocolWarning("option_changed", detail)]
    sent = _nearest(str(effort), quirks)
    detail = f"{name} does not know reasoning_effort={effort!r}: {sent!r} was sent"
    return request, [ProtocolWarning("option_changed", detail)] if sent != effort else []


def _nearest(effort: str, quirks: AnthropicQuirks) -> str:
    """The highest level that is not above the one that was asked for, else the lowest that the model has."""
    below = [level for level in quirks.efforts if _ORDER.index(level) <= _ORDER.index(effort)]
    return below[-1] if below else quirks.efforts[0]


def _without_lost_thinking(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ProtocolWarning]]:
    """Switches manual thinking off where a tool loop is open whose thinking is lost.

    "Expected `thinking` or `redacted_thinking`, but found `text`" (pydantic/pydantic-ai#2040). Claude thinks once, at
    the beginning of a loop, and need not think again after results: to the API all of the loop is one turn.
    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking#extended-thinking-with-tool-use
    """
    if quirks.thinking != "manual" or request.options.reasoning_effort in (None, "none"):
        return request, []
    loop = _open_loop(request.messages)
    if not loop or any(_begins_with_thinking(message, request, quirks) for message in loop):
        return request, []
    detail = "the turns whose calls are answered have no thinking with a signature: thinking is off for this request"
    return _with_effort(request, "none"), [ProtocolWarning("lost_reasoning", detail)]


def _open_loop(messages: tuple[Message, ...]) -> list[Message]:
    """Returns the assistant's turns of the tool loop that ends the conversation, the last one first."""
    if not messages or messages[-1].role != "tool":
        return []
    loop = list(takewhile(lambda message: message.role != "user", reversed(messages)))
    return [message for message in loop if message.role == "assistant"]


def _begins_with_thinking(message: Message, request: Request, quirks: AnthropicQuirks) -> bool:
    ids = {call.id: call.id for call in message.tool_calls}
    return next(assistant_blocks(message, "messages", request, quirks, ids), {}).get("type") in _THINKING


def _possible_choice(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ProtocolWarning]]:
    thinks = _thinks(request, quirks)
    if not is_forced(request) or not thinks or (quirks.thinking != "manual" and quirks.forced_while_thinking):
        return request, []
    if request.options.force_by_disabling_thinking and quirks.thinking != "always":
        return without_thinking(request)
    warnings: list[ProtocolWarning] = []
    return drop_force(request, "takes no forced tool choice while it thinks", warnings), warnings


def _possible_sampling(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ProtocolWarning]]:
    options = request.options
    given = [name for name in ("temperature", "top_p") if getattr(options, name) is not None]
    fixed = not quirks.sampling or quirks.version >= "2026-10-21"
    if not given or not (fixed or (quirks.thinking == "manual" and _thinks(request, quirks))):
        return request, []
    why = "fixes its sampling" if fixed else "fixes its sampling while it thinks"
    detail = f"{request.model} {why}: {' and '.join(given)} not sent"
    options = replace(options, temperature=None, top_p=None)
    return replace(request, options=options), [ProtocolWarning("option_dropped", detail)]


def _thinks(request: Request, quirks: AnthropicQuirks) -> bool:
    own = request.options.extra_body.get("thinking")
    if isinstance(own, dict) and "type" in own:
        return bool(own["type"] != "disabled")
    effort = request.options.reasoning_effort
    if effort is None:  # a server that refuses a forced choice while it thinks does so unless it is told not to
        return quirks.thinking == "always" or not quirks.forced_while_thinking
    return effort != "none"


def _with_effort(request: Request, effort: Any) -> Request:
    return replace(request, options=replace(request.options, reasoning_effort=effort))
