"""Thinking: which request switches it on, and what goes with it.

https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking and its pages on adaptive thinking and effort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any

from ...requests import drop_forced_tool_choice, is_forced, is_reasoning_enabled, refuse_if_strict
from ...types import Message, ReplyWarning
from ..chat.reasoning import disable_reasoning
from ..encoding_report import EncodingReport
from .encode import assistant_blocks
from .quirks import AnthropicQuirks

if TYPE_CHECKING:
    from ...requests import Request

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 64000}
_THINKING = ("thinking", "redacted_thinking")
_SMALLEST_BUDGET = 1024
_DEFAULT_LIMIT = 4096  # of an answer of a model that nobody knows


def thinking_members(request: Request, quirks: AnthropicQuirks, max_tokens: int) -> dict[str, Any]:
    """Returns the members of the body that ask for this effort; none if the request says nothing of it."""
    effort, family = request.options.reasoning_effort, request.family
    if effort is None:
        return {}
    if effort == "none":
        return {"thinking": {"type": family.none_as or "disabled"}}
    if family.budget is not None:
        budget = min(_BUDGETS[effort], max_tokens - 1)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    level = {"output_config": {"effort": effort}} if quirks.effort_grades and family.efforts else {}
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


def fit_thinking(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    """Returns the request with an effort and a tool choice that go together, and what was changed."""
    request, warnings = _possible_budget(request, quirks)
    request, lost = _without_lost_thinking(request, quirks)
    request, choice = _possible_choice(request, quirks)
    return request, [*warnings, *lost, *choice]


def output_limit(request: Request, quirks: AnthropicQuirks) -> int:
    """Returns the number of tokens that an answer may have: the API requires one."""
    limits = (request.options.max_output_tokens, quirks.max_tokens, request.family.max_output_tokens)
    return next((limit for limit in limits if limit is not None), _DEFAULT_LIMIT)


def _possible_budget(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    """Switches thinking off where the answer is too short for it."""
    limit = output_limit(request, quirks)
    if request.family.budget is None or request.options.reasoning_effort in (None, "none") or limit > _SMALLEST_BUDGET:
        return request, []
    detail = f"max_output_tokens={limit} is too low for thinking ({_SMALLEST_BUDGET} tokens at least): it is off"
    changed = [ReplyWarning("option_changed", detail)]
    refuse_if_strict(request.options, changed)
    return _with_effort(request, "none"), changed


def _without_lost_thinking(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    """Switches manual thinking off where a tool loop is open whose thinking is lost.

    "Expected `thinking` or `redacted_thinking`, but found `text`" (pydantic/pydantic-ai#2040). Claude thinks once, at
    the beginning of a loop, and need not think again after results: to the API all of the loop is one turn.
    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking#extended-thinking-with-tool-use
    """
    if request.family.budget is None or request.options.reasoning_effort in (None, "none"):
        return request, []
    loop = _open_loop(request.messages)
    if not loop or any(_begins_with_thinking(message, request, quirks) for message in loop):
        return request, []
    detail = "the turns whose calls are answered have no thinking with a signature: thinking is off for this request"
    return _with_effort(request, "none"), [ReplyWarning("lost_reasoning", detail)]


def _open_loop(messages: tuple[Message, ...]) -> list[Message]:
    """Returns the assistant's turns of the tool loop that ends the conversation, the last one first."""
    beside = ("user", "system", "developer")  # texts beside the results
    turns = list(dropwhile(lambda message: message.role in beside, reversed(messages)))
    if not turns or turns[0].role != "tool":
        return []
    loop = takewhile(lambda message: message.role != "user", turns)
    return [message for message in loop if message.role == "assistant"]


def _begins_with_thinking(message: Message, request: Request, quirks: AnthropicQuirks) -> bool:
    ids = {call.id: call.id for call in message.tool_calls}
    blocks = assistant_blocks(message, "messages", request, quirks, ids, EncodingReport())
    return next(blocks, {}).get("type") in _THINKING


def _possible_choice(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    family = request.family
    possible = family.budget is None and quirks.forced_while_thinking
    if possible or not is_forced(request) or is_reasoning_enabled(request.options, family) is False:
        return request, []
    if request.options.disable_thinking_for_forced_tools and family.thinking != "always":
        return disable_reasoning(request)
    warnings: list[ReplyWarning] = []
    return drop_forced_tool_choice(request, "takes no forced tool choice while it thinks", warnings), warnings


def _with_effort(request: Request, effort: Any) -> Request:
    return replace(request, options=replace(request.options, reasoning_effort=effort))
