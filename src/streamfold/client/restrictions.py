"""What an endpoint has refused to take, remembered for an hour, and for nobody but those whose request was refused."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, TypeAlias

from ..adapters import Adapter
from ..requests import LearnedRestriction, Request

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
