"""Options that a server rejected: sends the request without them, and remembers the restriction."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from ..adapters import Adapter, PreparedRequest
from ..errors import APIError, BadRequestError, ErrorClassification, UnsupportedOptionError
from ..requests import EFFORTS, Request, drop_forced_tool_choice, is_forced, nearest_effort
from ..types import Message, ReplyWarning, WarningCode

if TYPE_CHECKING:
    from ..requests import ReasoningEffort


# What a server's refusals have taught: how an option is sent to a model that did not take it as it was.
# `restriction_from_error` reads a refusal, `with_restrictions` applies what was learned to a request. Both are
# pure; the client decides when to ask again, and what to remember.

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


Combination: TypeAlias = frozenset[tuple[str, Any]]
"""What a request asks for beside its conversation: the names of options, with the values of those that are switches."""

_SECONDS = 3600.0
_MOST_OWNERS = 1000  # and models, of which something is kept; both come from callers
_MOST_COMBINATIONS = 32  # of one owner and model
_NUMBERS = ("temperature", "top_p", "max_output_tokens", "stop", "seed", "response_format")
_SWITCHES = ("parallel_tool_calls", "reasoning_effort")

_owner: ContextVar[str] = ContextVar("streamfold_owner", default="")


@contextmanager
def requests_of(owner: str) -> Iterator[None]:
    """Remembers refusals of the requests that are prepared inside for this owner alone.

    Args:
        owner: who sends them, such as a key of the gateway. "": the owner of the provider's API key.
    """
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


def current_owner() -> str:
    """Returns the owner of the requests that are prepared now; "" if none was named."""
    return _owner.get()


def combination_of(request: Request) -> Combination:
    """Returns what a request asks for, before anything of it was left out."""
    options = request.options
    found: set[tuple[str, Any]] = {(name, None) for name in _NUMBERS if getattr(options, name) is not None}
    found |= {(name, value) for name in _SWITCHES if (value := getattr(options, name)) is not None}
    found |= {
        (f"extra_body.{name}", json.dumps(value, sort_keys=True, default=repr))
        for name, value in options.extra_body.items()
    }
    if request.tools:
        choice = request.tool_choice
        found |= {("tools", None), ("tool_choice", choice if isinstance(choice, str) else type(choice).__name__)}
    if not request.stream:
        found.add(("stream", False))
    if any(message.reasoning for message in request.messages):
        found.add(("reasoning", None))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Restrictions:
    """How requests are sent differently, because the endpoint refused them as they were.

    Attributes:
        lessons: options that are left out or changed.
        adapter: leaves out a part that no option asked for; None: the usual adapter is right.
        only_streams: whole answers are refused, so that they are streamed.
    """

    lessons: tuple[LearnedRestriction, ...] = ()
    adapter: Adapter | None = None
    only_streams: bool = False

    def __add__(self, other: Restrictions) -> Restrictions:
        return Restrictions(
            _joined(self.lessons, other.lessons), other.adapter or self.adapter, self.only_streams or other.only_streams
        )


NO_RESTRICTIONS = Restrictions()


def _joined(old: tuple[LearnedRestriction, ...], new: tuple[LearnedRestriction, ...]) -> tuple[LearnedRestriction, ...]:
    """Returns lessons with new ones in place of those about the same option; a name and a bound are two things."""
    about = {(lesson.option, lesson.instead is None) for lesson in new}
    return (*(lesson for lesson in old if (lesson.option, lesson.instead is None) not in about), *new)


class RestrictionCache:
    """Restrictions of one provider: by model, owner and the combination that was refused, each for an hour.

    A restriction holds for requests that ask for all that the refused one asked for, or more: a server that takes no
    `temperature` beside reasoning may take it without. Nobody is told what another owner's request was refused for.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], OrderedDict[Combination, tuple[float, Restrictions]]] = OrderedDict()
        self._lock = Lock()  # requests of several threads may be refused at once

    def find(self, model: str, owner: str, request: Request) -> Restrictions:
        """Returns how a request must be sent."""
        if not self._kept:
            return NO_RESTRICTIONS
        with self._lock:
            kept = list(self._kept.get((model, owner), {}).items())
        if not kept:
            return NO_RESTRICTIONS
        now, asked = self._clock(), combination_of(request)
        fitting = [found for refused, (until, found) in kept if refused <= asked and now < until]
        return sum(fitting, NO_RESTRICTIONS)

    def add(self, model: str, owner: str, refused: Combination, restrictions: Restrictions) -> None:
        """Remembers how a combination must be sent. Restrictions about the same option replace earlier ones."""
        now = self._clock()
        with self._lock:
            kept = self._kept.setdefault((model, owner), OrderedDict())
            until, known = kept.pop(refused, (now, NO_RESTRICTIONS))
            kept[refused] = now + _SECONDS, (known if now < until else NO_RESTRICTIONS) + restrictions
            self._kept.move_to_end((model, owner))
            for full, most in ((kept, _MOST_COMBINATIONS), (self._kept, _MOST_OWNERS)):
                if len(full) > most:
                    full.popitem(last=False)


# How servers say that an answer can only be streamed: "must be set to false for non-streaming calls" (DashScope,
# alibaba/spring-ai-alibaba#867, in Chinese too), "only support stream mode", "when `stream=False`".
_STREAM = re.compile(r"\bstream|流式", re.IGNORECASE)


def restrictions_from_error(error: APIError, adapter: Adapter, sent: PreparedRequest) -> Restrictions | None:
    """Returns how to send a request without the part of it that the server rejected; None if that can't be left out.

    Args:
        adapter: wrote the request.
        sent: the request that was rejected.
    """
    if isinstance(error, BadRequestError) and not sent.request.stream and _STREAM.search(error.message):
        return Restrictions(only_streams=True)
    if (other := adapter.retry_without(error)) is not None:
        return Restrictions(adapter=other)
    if not isinstance(error, UnsupportedOptionError) or error.info is None:
        return None
    if sent.request.options.unsupported_options == "strict":
        return None
    meaning = error.info.meaning(error.body)
    if meaning is None:
        return None
    lesson = restriction_from_error(meaning, error.info.message, sent.request, json.loads(sent.body))
    return None if lesson is None else Restrictions((lesson,))
