"""Several models that replace each other, as one model."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from ..net import hides_arguments
from ..requests import ChatOptions, Request
from ..values import APIError, ConfigError, Messages, Reply, ToolChoice, ToolLike
from .answer import ChunkSource
from .arguments import Arguments
from .failover import Candidate, Failover
from .misuse import AsyncContext
from .model import ChatModel
from .stream import ChatStream, read_whole

__all__ = ["Fallback"]


class Fallback(AsyncContext):
    """Asks the first model that can answer, and the next ones, in their order, while nothing of an answer has arrived.

        model = Fallback(Provider.from_config("kimi:kimi-k2.6"), Provider.from_config("openai:gpt-5-mini"))

    A model that can't take a request (no such tool choice, no images, no key) is passed over. One that failed is passed
    over for a while, unless all the others fail too; then one request tests it before the others use it again. After
    the first chunk no other model is asked: the error has the partial answer. `reply.attempts` and the `attempts` of an
    error list the models that were asked before or passed over, and why.

    Each provider keeps its own retries, timeouts and connections. A provider whose configuration has the key `fallback`
    does the same by itself.

    Args:
        models: providers, or any other models, the preferred one first. `aclose` closes them.
        on: the errors after which the next model is asked. Default: all but `BadRequestError`, which says that the
            request itself is wrong.
        cooldown: seconds for which a model that failed is passed over, if its server did not say how long.

    Attributes:
        models: the models.

    Raises:
        ConfigError: no model was given.
    """

    def __init__(
        self, *models: ChatModel, on: Collection[type[APIError]] | None = None, cooldown: float = 30.0
    ) -> None:
        if not models:
            raise ConfigError("Fallback() needs at least one model")
        self.models = models
        self._failover = Failover(on=on, cooldown=cooldown)

    @property
    def name(self) -> str:
        """The name of the first model."""
        return self.models[0].name

    @hides_arguments
    def chat_stream(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> ChatStream:
        """Returns a streamed answer. Takes the arguments of `Provider.chat_stream`.

        Raises:
            ConfigError: an argument is wrong, or no model can take the request.
        """
        arguments = Arguments.read(messages, tools, tool_choice, options)
        return self._stream(arguments)

    def stream_request(self, request: Request, *, repair: bool = False, fragments: bool = False) -> ChatStream:
        """Returns a streamed answer to a request that was read already. See `Provider.stream_request`."""
        return self._stream(Arguments(request, repair, fragments))

    def _stream(self, arguments: Arguments) -> ChatStream:
        answer = self._failover.answer(candidates(self.models, arguments))
        return ChatStream(answer, fragments=arguments.fragments)

    @hides_arguments
    async def chat(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> Reply:
        """Returns the whole answer. Takes the arguments of `Provider.chat_stream`.

        Raises:
            ConfigError: an argument is wrong, or no model can take the request.
            APIError: all models failed, or the answer of one broke off.
        """
        return await read_whole(self.chat_stream(messages, tools, tool_choice=tool_choice, **options))

    async def aclose(self) -> None:
        """Closes all of the models."""
        async with AsyncExitStack() as stack:
            for model in self.models:
                stack.push_async_callback(model.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Fallback {', '.join(map(repr, self.models))}>"


def candidates(models: Iterable[ChatModel], arguments: Arguments) -> list[Candidate]:
    """The models as candidates for a request."""
    return [Candidate(model.name, partial(_open, model, arguments)) for model in models]


def _open(model: ChatModel, arguments: Arguments) -> ChunkSource:
    request = arguments.request
    return model.chat_stream(
        request.messages, request.tools, tool_choice=request.tool_choice, **arguments.given()
    ).source
