"""What a provider refused is asked again in a milder form, and remembered for the model once that worked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from threading import Lock

from ..adapters import Adapter
from ..requests import Lesson, lesson_from
from ..values import APIError, BadRequestError, UnsupportedOptionError
from .plan import Plan

_MOST_MODELS = 100  # that something is remembered of; the names come from callers, those of a gateway included
# How servers say that an answer can only be streamed: "must be set to false for non-streaming calls" (DashScope,
# alibaba/spring-ai-alibaba#867, in Chinese too), "only support stream mode", "when `stream=False`".
_STREAM = re.compile(r"\bstream|流式", re.IGNORECASE)
_MOST_RETRIES = 3  # of one request, in a milder form each


class Learned:
    """The lessons of one provider, by model.

    Attributes:
        streaming: the models that only stream: Qwen's do so while they think.
    """

    def __init__(self) -> None:
        self.streaming: set[str] = set()
        self._lessons: dict[str, tuple[Lesson, ...]] = {}
        self._lock = Lock()

    def of(self, model: str) -> tuple[Lesson, ...]:
        """Returns what is known of a model."""
        return self._lessons.get(model, ())

    def only_streams(self, model: str) -> None:
        """Remembers that a model has no whole answers."""
        with self._lock:
            if len(self.streaming) >= _MOST_MODELS:
                self.streaming.clear()
            self.streaming.add(model)

    def add(self, model: str, lessons: tuple[Lesson, ...]) -> None:
        """Remembers lessons. A later one about the same option and the same side of it replaces the earlier one."""
        with self._lock:  # requests of several threads may learn at once
            if model not in self._lessons and len(self._lessons) >= _MOST_MODELS:
                self._lessons.clear()
            self._lessons[model] = joined(self.of(model), lessons)


def joined(old: tuple[Lesson, ...], new: tuple[Lesson, ...]) -> tuple[Lesson, ...]:
    """Returns lessons with new ones in place of those about the same option; a name and a bound are two things."""
    about = {(lesson.option, lesson.instead is None) for lesson in new}
    return (*(lesson for lesson in old if (lesson.option, lesson.instead is None) not in about), *new)


class MilderRequests:
    """Decides how one request is sent again after the server refused a part of it, at most three times.

    Args:
        model: whose lessons are remembered.
        plan: returns the request as it is sent with an adapter, after some lessons.
        leave_out: given the adapter and the error of an attempt, returns an adapter that leaves out what this one
            writes unasked, or None.
        strict: options are sent as the caller wrote them, or not at all.
    """

    def __init__(
        self,
        learned: Learned,
        model: str,
        *,
        plan: Callable[[Adapter, tuple[Lesson, ...]], Plan],
        leave_out: Callable[[Adapter, APIError], Adapter | None],
        strict: bool = False,
    ) -> None:
        self._learned = learned
        self._model = model
        self._plan = plan
        self._leave_out = leave_out
        self._strict = strict
        self._new: tuple[Lesson, ...] = ()
        self._retries = 0

    def after(self, plan: Plan, error: APIError) -> Plan | None:
        """Returns the request without what was refused; None if that can't be left out, or was not sent."""
        if self._retries >= _MOST_RETRIES:
            return None
        if isinstance(error, BadRequestError) and (made := self._streamed(plan, error)) is not None:
            self._retries += 1
            return made
        milder = self._leave_out(plan.adapter, error)
        made = self._milder(plan, error) if milder is None else self._plan(milder, self._lessons())
        if made is not None:
            self._retries += 1
        return made

    def _streamed(self, plan: Plan, error: BadRequestError) -> Plan | None:
        """Returns the request for a stream, where the server has no whole answers."""
        if plan.sent.stream or not _STREAM.search(error.message):
            return None
        self._learned.only_streams(self._model)
        return self._plan(plan.adapter, self._lessons())

    def succeeded(self) -> None:
        """Remembers what was learned: the milder request was accepted."""
        if self._new:
            self._learned.add(self._model, self._new)
            self._new = ()

    def _lessons(self) -> tuple[Lesson, ...]:
        return joined(self._learned.of(self._model), self._new)

    def _milder(self, plan: Plan, error: APIError) -> Plan | None:
        if self._strict or not isinstance(error, UnsupportedOptionError) or error.info is None:
            return None
        meaning = error.info.meaning(error.body)
        if meaning is None:
            return None
        body = json.loads(plan.request.body)
        lesson = lesson_from(meaning, error.info.message, plan.sent, body)
        if lesson is None or any(lesson.option == known.option for known in self._new):
            return None
        self._new = (*self._new, lesson)
        made = self._plan(plan.adapter, self._lessons())
        return made if made.request.body != plan.request.body else None
