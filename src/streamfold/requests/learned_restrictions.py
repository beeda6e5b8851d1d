"""What a server's refusals have taught: how an option is sent to a model that did not take it as it was.

`restriction_from_error` reads a refusal, `with_restrictions` applies what was learned to a request. Both are pure; the
client decides when to ask again, and what to remember.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..values import ErrorClassification, Message, ReplyWarning, WarningCode
from .endpoint_rules import drop_forced_tool_choice
from .model_facts import EFFORTS
from .option_fitting import nearest_effort
from .required_capabilities import is_forced

if TYPE_CHECKING:
    from .options import ReasoningEffort
    from .request import Request

# The names that members of requests have, by our option. A refusal may use that of another API, behind a router.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "max_output_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    "stop": ("stop", "stop_sequences"),
    "seed": ("seed", "random_seed"),
    "parallel_tool_calls": ("parallel_tool_calls", "disable_parallel_tool_use"),
    "reasoning_effort": (
        "reasoning_effort", "reasoning", "effort", "thinking", "thinking_level", "thinking_budget", "thinking_config",
        "budget_tokens", "enable_thinking", "think",
    ),
    "tool_choice": ("tool_choice",),
}  # fmt: skip
_BY_MEMBER = {member: option for option, members in _MEMBERS.items() for member in members}
_NEVER = ("messages", "input", "contents", "system", "instructions", "tools", "response_format", "text", "model")
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_LONGEST_REASON = 300  # characters of the server's message


@dataclass(frozen=True, slots=True)
class LearnedRestriction:
    """How an option is sent, because the server refused it as it was. Without any of these it is left out.

    Attributes:
        option: the name of the option, "tool_choice", or "reasoning" for that of earlier turns.
        why: the server's own words.
        instead: the other name that its member has.
        least, most: the bounds of its value.
        allowed: the values that it may have.
        unasked: it was refused although no caller had set it: an adapter writes it anyway.
    """

    option: str
    why: str
    instead: str | None = None
    least: float | None = None
    most: float | None = None
    allowed: tuple[ReasoningEffort, ...] = ()
    unasked: bool = False


def restriction_from_error(
    meaning: ErrorClassification, message: str, sent: Request, body: Mapping[str, Any]
) -> LearnedRestriction | None:
    """Returns how to send a request that was refused, or None if nothing of it may be changed.

    Never changed are messages, tools, the form of the answer, and what the caller wrote into `extra_body`. An option
    that was not sent teaches nothing.

    Args:
        message: the server's own words.
        sent: the request that was refused, as it was adapted for its endpoint.
        body: its JSON.
    """
    option = _option(meaning.param or "", sent, body)
    if option is None or not sent.options.extra_body.keys().isdisjoint(_MEMBERS.get(option, ())):
        return None
    why = message if len(message) <= _LONGEST_REASON else f"{message[:_LONGEST_REASON]}..."
    lesson = LearnedRestriction(option, why)
    if option == "max_output_tokens":  # it bounds the bill, and is never left out
        names, unasked = _MEMBERS[option], sent.options.max_output_tokens is None
        value = next((body[name] for name in names if isinstance(body.get(name), int)), sent.options.max_output_tokens)
        if meaning.instead in names and meaning.instead not in body:
            return replace(lesson, instead=meaning.instead)
        bounded = replace(lesson, least=meaning.least, most=meaning.most, unasked=unasked)
        return bounded if value is not None and _bounded(value, bounded) != value else None
    if option in ("temperature", "top_p"):
        bounded = replace(lesson, least=meaning.least, most=meaning.most)
        value = getattr(sent.options, option)
        return bounded if _bounded(value, bounded) != value else lesson
    levels = tuple(level for level in EFFORTS if level in meaning.allowed)
    if option == "reasoning_effort" and levels not in ((), ("none",)) and sent.options.reasoning_effort not in levels:
        return replace(lesson, allowed=levels)
    return lesson


def _option(param: str, sent: Request, body: Mapping[str, Any]) -> str | None:
    """Returns which option a member of the request stands for, if it was sent."""
    path = [part for part in re.split(r"[.\[\]]+", param) if part]
    if not path:
        return None
    in_messages = any(message.reasoning for message in sent.messages)
    if path[-1] in _REASONING and in_messages and (len(path) > 1 or path[0] not in body):
        return "reasoning"
    if path[0] in _NEVER:
        return None
    option = next((_BY_MEMBER[part] for part in reversed(path) if part in _BY_MEMBER), None)
    if option == "tool_choice":
        return option if is_forced(sent) else None
    if option == "max_output_tokens":
        return option
    return option if option is not None and getattr(sent.options, option) is not None else None


def with_restrictions(request: Request, lessons: Iterable[LearnedRestriction]) -> tuple[Request, list[ReplyWarning]]:
    """Returns the request as the model takes it, after what was learned about it, and a warning for each change."""
    warnings: list[ReplyWarning] = []
    for lesson in lessons:
        match lesson.option:
            case "stop":  # never left out: the reader ends the answer there
                request = replace(request, family=request.family.over({"stop": "no"}))
            case "tool_choice":
                request = drop_forced_tool_choice(request, f"refused a forced tool choice ({lesson.why})", warnings)
            case "reasoning":
                request = _without_reasoning(request, lesson, warnings)
            case _:
                request = _option_sent_otherwise(request, lesson, warnings)
    return request, warnings


def _option_sent_otherwise(request: Request, lesson: LearnedRestriction, warnings: list[ReplyWarning]) -> Request:
    name, value = lesson.option, getattr(request.options, lesson.option)
    if value is None and not lesson.unasked:
        return request
    if lesson.instead is not None:
        others = {member: lesson.instead for member in _MEMBERS[name] if member != lesson.instead}
        return replace(request, renames={**request.renames, **others})
    new = _sent_value(value, lesson)
    if new == value:
        return request
    code: WarningCode = "option_dropped" if new is None else "option_changed"
    what = "was not sent" if new is None else f"is sent as {new!r}"
    said = f"{name} {what}" if value is None else f"{name}={value!r} {what}"
    warnings.append(ReplyWarning(code, f"{said}: {request.model} refused it ({lesson.why})"))
    options: dict[str, Any] = {name: new}
    return replace(request, options=replace(request.options, **options))


def _sent_value(value: Any, lesson: LearnedRestriction) -> Any:
    """Returns the value that is sent in place of the one asked for; None: nothing is sent."""
    if lesson.allowed:
        return value if value in lesson.allowed else nearest_effort(value, lesson.allowed)
    if lesson.least is None and lesson.most is None:
        return None
    return _bounded(lesson.most if value is None else value, lesson)


def _bounded(value: Any, lesson: LearnedRestriction) -> Any:
    """Returns the number inside the bounds, as a whole one if it was whole."""
    whole = isinstance(value, int) or lesson.option == "max_output_tokens"
    for bound, pick in ((lesson.most, min), (lesson.least, max)):
        if value is not None and bound is not None:
            value = pick(value, int(bound) if whole and bound == int(bound) else bound)
    return value


def _without_reasoning(request: Request, lesson: LearnedRestriction, warnings: list[ReplyWarning]) -> Request:
    """Leaves out the reasoning of earlier turns, which some servers refuse as a member that they don't know."""
    if not any(message.reasoning for message in request.messages):
        return request
    detail = f"the reasoning of earlier turns was not sent: {request.model} refused it ({lesson.why})"
    warnings.append(ReplyWarning("reasoning_dropped", detail))
    return replace(request, messages=tuple(map(_bare, request.messages)))


def _bare(message: Message) -> Message:
    if not message.reasoning:
        return message
    extras = {name: value for name, value in message.extras.items() if name != "reasoning_details"}
    return replace(message, reasoning=None, extras=extras)
