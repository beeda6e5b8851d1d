"""What a provider refused is asked again in a milder form, and remembered once that worked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from ..requests import Request, restriction_from_error
from ..values import APIError, BadRequestError, UnsupportedOptionError
from .prepared_call import PreparedCall
from .restrictions import NO_RESTRICTIONS, RestrictionCache, Restrictions, combination_of

# How servers say that an answer can only be streamed: "must be set to false for non-streaming calls" (DashScope,
# alibaba/spring-ai-alibaba#867, in Chinese too), "only support stream mode", "when `stream=False`".
_STREAM = re.compile(r"\bstream|流式", re.IGNORECASE)
_MOST_RETRIES = 3  # of one request, in a milder form each


class DowngradeRetry:
    """Decides how one request is sent again after the server refused a part of it, at most three times.

    Args:
        cache: where the restrictions are remembered.
        owner: for whom.
        request: the request, before anything of it was left out.
        known: the restrictions that it was sent with.
        plan: returns the request as it is sent with restrictions.
        strict: options are sent as the caller wrote them, or not at all.
    """

    def __init__(
        self,
        cache: RestrictionCache,
        owner: str,
        request: Request,
        known: Restrictions,
        *,
        plan: Callable[[Restrictions], PreparedCall],
        strict: bool = False,
    ) -> None:
        self._cache = cache
        self._owner = owner
        self._request = request
        self._known = known
        self._plan = plan
        self._strict = strict
        self._new = NO_RESTRICTIONS
        self._retries = 0

    def after(self, plan: PreparedCall, error: APIError) -> PreparedCall | None:
        """Returns the request without what was refused; None if that can't be left out, or was not sent."""
        if self._retries >= _MOST_RETRIES:
            return None
        made: PreparedCall | None
        if isinstance(error, BadRequestError) and not plan.sent.stream and _STREAM.search(error.message):
            made = self._with(Restrictions(only_streams=True))
        elif (adapter := plan.adapter.retry_without(error)) is not None:
            made = self._with(Restrictions(adapter=adapter))
        else:
            made = self._milder(plan, error)
        if made is not None:
            self._retries += 1
        return made

    def succeeded(self) -> None:
        """Remembers what was learned: the milder request was accepted."""
        new, model = self._new, self._request.model
        if new.adapter is not None:  # what no option asked for is refused whatever the options are
            self._cache.add(model, self._owner, frozenset(), Restrictions(adapter=new.adapter))
        if new.lessons or new.only_streams:
            restrictions = Restrictions(new.lessons, only_streams=new.only_streams)
            self._cache.add(model, self._owner, combination_of(self._request), restrictions)
        self._new = NO_RESTRICTIONS

    def _with(self, restrictions: Restrictions) -> PreparedCall:
        self._new += restrictions
        return self._plan(self._known + self._new)

    def _milder(self, plan: PreparedCall, error: APIError) -> PreparedCall | None:
        if self._strict or not isinstance(error, UnsupportedOptionError) or error.info is None:
            return None
        meaning = error.info.meaning(error.body)
        if meaning is None:
            return None
        body = json.loads(plan.request.body)
        lesson = restriction_from_error(meaning, error.info.message, plan.sent, body)
        if lesson is None or any(lesson.option == known.option for known in self._new.lessons):
            return None
        made = self._with(Restrictions((lesson,)))
        return made if made.request.body != plan.request.body else None
