"""The base of middleware: a model that asks another one, with three places to step in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

from ...net import hides_arguments
from ...requests import ChatOptions, Request
from ...values import APIError, Messages, ProtocolWarning, Reply, StreamChunk, ToolChoice, ToolLike, Writing
from ..answer import ChunkSource
from ..arguments import Arguments
from ..misuse import AsyncContext
from ..model import ChatModel
from ..stream import ChatStream, read_whole

__all__ = ["Middleware"]


class Middleware(AsyncContext):
    """A model that asks another model. Override what you want to change; the rest passes through.

        class Polite(Middleware):
            async def change_request(self, request: Request) -> Request:
                return replace(request, messages=(system("Be polite."), *request.messages))

        model = Polite(Provider.from_config("kimi:kimi-k2.6"))

    It is a `ChatModel`, so middleware can be stacked, and goes wherever a provider goes: into `Fallback`, `run_tools`,
    `streamfold.sync.Provider`, the gateway.

    Args:
        model: the model to ask. `aclose` closes it.

    Attributes:
        model: the same.
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    async def change_request(self, request: Request) -> Request:
        """Returns the request to send. `dataclasses.replace` makes a changed copy. Called once for each answer.

        Raises:
            StreamfoldError: the request is not to be sent; any error goes to the caller.
        """
        return request

    def change_chunks(self, chunks: AsyncIterator[StreamChunk], request: Request) -> AsyncIterator[StreamChunk]:
        """Returns the chunks to hand out. Usually an async generator over `chunks`, with a state of its own.

        The finished chunk comes last, and has the calls.
        """
        return chunks

    async def change_reply(self, reply: Reply, request: Request) -> Reply:
        """Returns the reply to hand out. It should say what the chunks said.

        Also called for the partial reply of an error. `dataclasses.replace` makes a changed copy.
        """
        return reply

    async def change_error(self, error: APIError, request: Request) -> APIError:
        """Returns the error to raise. `change_reply` was applied to its partial reply."""
        return error

    # --- a model ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self.model.name

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
            ConfigError: an argument is wrong, or the model can't take the request.
        """
        return self._stream(Arguments.read(messages, tools, tool_choice, options))

    def stream_request(self, request: Request, *, repair: bool = False, fragments: bool = False) -> ChatStream:
        """Returns a streamed answer to a request that was read already. See `Provider.stream_request`."""
        return self._stream(Arguments(request, repair, fragments))

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
            ConfigError: an argument is wrong, or the model can't take the request.
            APIError: the model failed, or its answer broke off.
        """
        return await read_whole(self.chat_stream(messages, tools, tool_choice=tool_choice, **options))

    async def aclose(self) -> None:
        """Closes the model."""
        await self.model.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r}>"

    def _stream(self, arguments: Arguments) -> ChatStream:
        return ChatStream(_ChangedAnswer(self, arguments), fragments=arguments.fragments)

    def _open(self, arguments: Arguments) -> ChunkSource:
        """Prepares the answer of the model below, without sending the request."""
        return opened(self.model, arguments)


def opened(model: ChatModel, arguments: Arguments) -> ChunkSource:
    """Prepares the answer of a model, without sending the request. Raises ConfigError if the model can't take it."""
    request = arguments.request
    given = arguments.given()
    return model.chat_stream(request.messages, request.tools, tool_choice=request.tool_choice, **given).source


class _ChangedAnswer:
    """An answer that goes through a middleware.

    The request is prepared at once, so that its mistakes are raised where it is made; and once more if it is changed.
    """

    def __init__(self, middleware: Middleware, arguments: Arguments) -> None:
        self._middleware = middleware
        self._arguments = arguments
        self._source = middleware._open(arguments)
        self._closed = False
        self.reply: Reply | None = None
        self.fragments = False

    @property
    def warnings(self) -> tuple[ProtocolWarning, ...]:
        """The warnings so far."""
        return self._source.warnings

    @property
    def writing(self) -> tuple[Writing, ...]:
        """The tool calls that the model is writing."""
        return self._source.writing

    async def aclose(self) -> None:
        """Closes the connection and wakes the task that waits for it."""
        self._closed = True
        await self._source.aclose()

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks of the answer, as the middleware hands them out."""
        middleware, given = self._middleware, self._arguments.request
        request = await middleware.change_request(given)
        if self._closed:
            return
        if request is not given:
            self._source = middleware._open(replace(self._arguments, request=request))
        self._source.fragments = self._source.fragments or self.fragments
        try:
            async with AsyncExitStack() as stack:
                chunks = await stack.enter_async_context(aclosing(self._chunks()))
                changed = middleware.change_chunks(chunks, request)
                if isinstance(changed, AsyncGenerator):
                    await stack.enter_async_context(aclosing(changed))
                async for chunk in changed:
                    if chunk.finished and self._source.reply is not None:
                        self.reply = await middleware.change_reply(self._source.reply, request)
                    yield [chunk]
        except APIError as error:
            if error.partial is not None:
                error.partial = await middleware.change_reply(error.partial, request)
            other = await middleware.change_error(error, request)
            if other is error:
                raise
            raise other from None

    async def _chunks(self) -> AsyncGenerator[StreamChunk, None]:
        async with aclosing(self._source.batches()) as batches:
            async for batch in batches:
                for chunk in batch:
                    yield chunk
