"""Turns thinking off, or changes the tool choice, if the API would refuse a request with both.

https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking and the pages on adaptive thinking describe what
the API refuses.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any

from ...requests import (
    drop_forced_tool_choice,
    is_forced,
    is_reasoning_enabled,
    is_thinking_block,
    refuse_if_strict,
)
from ...types import INSTRUCTION_ROLES, ReplyWarning
from ..chat.reasoning import disable_reasoning
from ..encoding_report import EncodingReport
from .encode import SMALLEST_BUDGET, assistant_blocks, output_limit
from .quirks import AnthropicQuirks

if TYPE_CHECKING:
    from ...requests import Request


def fit_thinking(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    """Adapts the effort and the tool choice of a request to each other, to the output limit and to the conversation.
    Returns the changed request, and a warning for each change."""
    request, warnings = _possible_budget(request, quirks)
    request, lost = _without_lost_thinking(request, quirks)
    request, choice = _possible_choice(request, quirks)
    return request, [*warnings, *lost, *choice]


def _possible_budget(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    limit = output_limit(request, quirks)
    if request.family.budget is None or request.options.reasoning_effort in (None, "none") or limit > SMALLEST_BUDGET:
        return request, []
    detail = (
        f"max_output_tokens={limit} is too low for thinking ({SMALLEST_BUDGET} tokens or more): thinking was turned off"
    )
    changed = [ReplyWarning("option_changed", detail)]
    refuse_if_strict(request.options, changed)
    return _with_effort(request, "none"), changed


def _without_lost_thinking(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    """Turns manual thinking off if the assistant messages since the last user message contain no signed thinking.

    Otherwise, the API refuses the request with the error "Expected `thinking` or `redacted_thinking`, but found `text`"
    (pydantic/pydantic-ai#2040). It regards these messages, with tool results between them, as one message, which must
    begin with thinking:
    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking#extended-thinking-with-tool-use
    """
    if request.family.budget is None or request.options.reasoning_effort in (None, "none"):
        return request, []
    beside = ("user", *INSTRUCTION_ROLES)  # texts beside the results
    newest_first = list(dropwhile(lambda message: message.role in beside, reversed(request.messages)))
    if not newest_first or newest_first[0].role != "tool":
        return request, []
    turn = takewhile(lambda message: message.role != "user", newest_first)
    loop = [message for message in turn if message.role == "assistant"]
    blocks = (assistant_blocks(message, "messages", request, quirks, EncodingReport()) for message in loop)
    if not loop or any(is_thinking_block(next(found, None)) for found in blocks):
        return request, []
    detail = "the turns with answered tool calls have no signed thinking: thinking was turned off for this request"
    return _with_effort(request, "none"), [ReplyWarning("lost_reasoning", detail)]


def _possible_choice(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    family = request.family
    possible = family.budget is None and quirks.forced_while_thinking
    if possible or not is_forced(request) or is_reasoning_enabled(request.options, family) is False:
        return request, []
    if request.options.disable_thinking_for_forced_tools and family.thinking != "always":
        return disable_reasoning(request)
    warnings: list[ReplyWarning] = []
    return drop_forced_tool_choice(request, "doesn't accept a forced tool choice while thinking", warnings), warnings


def _with_effort(request: Request, effort: Any) -> Request:
    return replace(request, options=replace(request.options, reasoning_effort=effort))
