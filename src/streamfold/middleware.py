"""`Middleware`, a wrapper around a model that can change requests, chunks, replies and errors.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

from .answers import (
    BaseChatModel,
    ChatModel,
    ChatParams,
    ChatStream,
    ModelInfo,
    WrappedAnswer,
    check_model,
    forward,
    forward_source,
    get_model_info,
)
from .errors import APIError
from .public_names import set_public_module
from .requests import Request
from .types import Reply, StreamChunk

__all__ = [
    "BaseChatModel",
    "Middleware",
    "WrappedAnswer",
    "check_model",
    "forward",
    "forward_source",
    "get_model_info",
]


class Middleware(BaseChatModel):
    """A wrapper around a model. Override the methods that you need. The other methods change nothing.

        class Polite(Middleware):
            async def change_request(self, request: Request) -> Request:
                return replace(request, messages=(system("Be polite."), *request.messages))

        model = Polite(Provider.from_config("kimi:kimi-k2.6"))

    Middleware is a `ChatModel`, so it can be stacked and used like a provider: in `Fallback`, `run_tools`,
    `streamfold.sync.Provider` and the gateway.

    Attributes:
        model: the wrapped model. `aclose` closes it too.
    """

    def __init__(self, model: ChatModel) -> None:
        check_model(model, f"{type(self).__name__}()")
        self.model = model

    async def change_request(self, request: Request) -> Request:
        """Returns the request to send. To change it, create a copy with `dataclasses.replace`. streamfold calls this
        method once for each response.

        If this method raises an error, streamfold sends no request, and the caller gets the error.
        """
        return request

    def change_chunks(self, chunks: AsyncIterator[StreamChunk], request: Request) -> AsyncIterator[StreamChunk]:
        """Returns the chunks to deliver to the caller. Usually, this method is an async generator that reads `chunks`.

        The last chunk has `finished=True` and contains the tool calls.
        """
        return chunks

    async def change_reply(self, reply: Reply, request: Request) -> Reply:
        """Returns the reply to deliver to the caller. The reply should match the delivered chunks. To change it, create
        a copy with `dataclasses.replace`.

        streamfold also calls this method for an error's partial reply. The partial reply contains the text of the
        chunks that were delivered before the error.
        """
        return reply

    async def change_error(self, error: APIError, request: Request) -> APIError:
        """Returns the error to raise. `change_reply` has already changed the error's partial reply."""
        return error

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self.model.name

    def facts(self) -> ModelInfo | None:
        """Returns the endpoints of the wrapped model."""
        facts = get_model_info(self.model)
        return facts and replace(facts, changed=True, direct=None)

    async def aclose(self) -> None:
        """Closes the model."""
        await self.model.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r}>"

    def _stream(self, arguments: ChatParams) -> ChatStream:
        return ChatStream(_ChangedAnswer(self, arguments), yields_call_deltas=arguments.partial_tool_calls)


class _ChangedAnswer(WrappedAnswer):
    """A response that a middleware may change.

    The request is validated immediately, so that ConfigError is raised in the call that created the stream. A changed
    request is validated again.
    """

    def __init__(self, middleware: Middleware, arguments: ChatParams) -> None:
        super().__init__(forward_source(middleware.model, arguments))
        self._middleware = middleware
        self._arguments = arguments

    async def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        middleware, given = self._middleware, self._arguments.request
        request = await middleware.change_request(given)
        if self._closed:
            return
        if request is not given:
            self._source = forward_source(middleware.model, replace(self._arguments, request=request))
        text, reasoning = list[str](), list[str]()  # of the chunks that were delivered
        try:
            async with AsyncExitStack() as stack:
                batches = await stack.enter_async_context(self._opened(call_deltas))
                chunks = await stack.enter_async_context(aclosing(chunk async for batch in batches for chunk in batch))
                changed = middleware.change_chunks(chunks, request)
                if isinstance(changed, AsyncGenerator):
                    await stack.enter_async_context(aclosing(changed))
                async for chunk in changed:
                    if chunk.finished and self._source.reply is not None:
                        self.reply = await middleware.change_reply(self._source.reply, request)
                    text.append(chunk.delta)
                    reasoning.append(chunk.reasoning)
                    yield [chunk]
        except APIError as error:
            if error.partial is not None:
                partial = await middleware.change_reply(error.partial, request)
                error.partial = replace(partial, text="".join(text), reasoning="".join(reasoning))
            other = await middleware.change_error(error, request)
            if other is error:
                raise
            raise other from None


set_public_module(__name__, [globals()[name] for name in __all__])
