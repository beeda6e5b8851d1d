"""Adapts requests that the API would refuse because of thinking: turns thinking off, or changes the tool choice.

https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking and the pages on adaptive thinking describe what
the API refuses.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from ...requests import is_thinking_block, refuse_if_strict
from ...types import INSTRUCTION_ROLES, ReplyWarning
from ..chat.reasoning import fit_forced_choice
from ..encoding_report import EncodingReport
from .encode import SMALLEST_BUDGET, assistant_blocks, output_limit
from .quirks import AnthropicQuirks

if TYPE_CHECKING:
    from ...requests import Request


def fit_thinking(request: Request, quirks: AnthropicQuirks) -> tuple[Request, list[ReplyWarning]]:
    """Turns thinking off if the API would refuse it. If the API refuses a forced tool choice while the model thinks,
    also applies `fit_forced_choice`. Returns the changed request, and a warning for each change."""
    warnings: list[ReplyWarning] = []
    if request.family.budget is not None and request.options.reasoning_effort not in (None, "none"):
        limit = output_limit(request, quirks)
        if limit <= SMALLEST_BUDGET:
            needed = f"thinking ({SMALLEST_BUDGET} tokens or more)"
            detail = f"max_output_tokens={limit} is too low for {needed}: thinking was turned off"
            warnings.append(ReplyWarning("option_changed", detail))
            refuse_if_strict(request.options, warnings)
        elif _has_lost_thinking(request, quirks):
            detail = (
                "the turns with answered tool calls have no signed thinking: thinking was turned off for this request"
            )
            warnings.append(ReplyWarning("lost_reasoning", detail))
        if warnings:
            request = replace(request, options=replace(request.options, reasoning_effort="none"))
    if request.family.budget is not None or not quirks.forced_while_thinking:
        request, choice = fit_forced_choice(request)
        warnings += choice
    return request, warnings


def _has_lost_thinking(request: Request, quirks: AnthropicQuirks) -> bool:
    """Returns True if the request answers tool calls, and no assistant message since the last user message begins with
    thinking.

    If a request turns manual thinking on, the API refuses such messages with the error "Expected `thinking` or
    `redacted_thinking`, but found `text`" (pydantic/pydantic-ai#2040):
    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking#extended-thinking-with-tool-use
    """
    beside = ("user", *INSTRUCTION_ROLES)  # texts beside the results
    newest_first = list(dropwhile(lambda message: message.role in beside, reversed(request.messages)))
    if not newest_first or newest_first[0].role != "tool":
        return False
    turn = takewhile(lambda message: message.role != "user", newest_first)
    loop = [message for message in turn if message.role == "assistant"]
    blocks = (assistant_blocks(message, "messages", request, quirks, EncodingReport()) for message in loop)
    return bool(loop) and not any(is_thinking_block(next(found, None)) for found in blocks)
