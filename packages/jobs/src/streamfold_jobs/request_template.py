"""In which form a job asks for answers: streamed, or in one piece, which costs less to read.

Nobody watches a job, but a stream is safer for a long answer: a proxy may cut a connection on which nothing comes, and
a provider that falls silent is noticed sooner. So a job that is not told otherwise streams until it has seen that its
answers are short, and again after one that was not, or was lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from streamfold import APIError, ChatModel, ChatStream, RateLimitError, Timeouts
from streamfold.middleware import BaseChatModel, forward, get_model_info
from streamfold.types import ChatParams, ModelInfo, TimeoutOptions

_Timeouts: TypeAlias = Timeouts | TimeoutOptions | None

_SHORT = 20.0  # seconds; proxies wait for a minute and longer
_FEW = 20  # short answers, one after the other, that are enough to expect another one
_RELAPSE = 1000  # short answers until one in one piece is asked for again, after one was lost
_PATIENCE = TimeoutOptions(first_event=120.0)  # for an answer that is expected to be short


class RequestTemplate:
    """The form in which the next answer is asked for.

    Args:
        stream: whether answers are streamed; None: as the answers so far advise.
    """

    def __init__(self, stream: bool | None) -> None:
        self._stream = stream
        self._short = 0  # answers that came since the last one that did not come soon

    @property
    def is_whole(self) -> bool:
        """Whether it comes in one piece."""
        return self._short >= _FEW if self._stream is None else not self._stream

    def options(self, model: ChatModel, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the options with which `model.chat` is called; a model of somebody else has no such one."""
        if not self.is_whole or not isinstance(model, BaseChatModel):
            return given
        return {**given, "stream": False, "timeouts": self.timeouts(given.get("timeouts"))}

    def model(self, model: ChatModel) -> ChatModel:
        """Returns the model as it is asked by those who read its answers as streams."""
        return _Whole(model, self) if self.is_whole else model

    def timeouts(self, given: _Timeouts) -> _Timeouts:
        """Returns the timeouts of an answer in one piece. One that is expected to be short is not waited for long."""
        if self._stream is not None or isinstance(given, Timeouts):
            return given
        return {**_PATIENCE, **(given or {})}

    def came(self, seconds: float) -> None:
        """Notes how long an answer took."""
        self._short = self._short + 1 if seconds < _SHORT else min(self._short, 0)

    def failed(self, error: Exception, *, whole: bool) -> None:
        """Notes how a request failed; `whole` says in which form it was sent."""
        if whole and isinstance(error, APIError) and error.retryable and not isinstance(error, RateLimitError):
            self._short = -_RELAPSE


class _Whole(BaseChatModel):
    """A model whose answers come in one piece."""

    def __init__(self, model: ChatModel, form: RequestTemplate) -> None:
        self._model = model
        self._form = form

    @property
    def name(self) -> str:
        return self._model.name

    def facts(self) -> ModelInfo | None:
        return get_model_info(self._model)

    def _stream(self, arguments: ChatParams) -> ChatStream:
        request, timeouts = replace(arguments.request, stream=False), self._form.timeouts(arguments.timeouts)
        return forward(self._model, replace(arguments, request=request, timeouts=timeouts))

    async def aclose(self) -> None:
        await self._model.aclose()
