"""`BaseChatModel`, the base class of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Unpack

from ..errors import ConfigError
from ..net import scrubs_traceback
from ..requests import ChatOptions, check_stream
from ..types import Messages, Reply, ToolChoice, ToolLike
from .chat_model import ChatModel, ChatParams
from .chat_stream import AsyncContext, ChatStream, ChunkSource
from .extract import extract as extract_from
from .model_info import ModelInfo


class BaseChatModel(AsyncContext, ABC):
    """Base class of models. Subclasses define `name`, `_stream` and `aclose`.

    Attributes:
        continues_text: True if `_stream` continues the text in `ChatParams.begun`, or raises ConfigError if it can't.
    """

    continues_text: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The provider's name in errors and logs."""

    @abstractmethod
    def _stream(self, arguments: ChatParams) -> ChatStream:
        """Returns a stream, which sends the request when its first chunk is read. Raises ConfigError if the request is
        invalid."""

    @scrubs_traceback
    def chat_stream(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> ChatStream:
        """Returns a stream of chunks. The stream sends the request when its first chunk is read.

            async with provider.chat_stream("Hello", temperature=0.2) as stream:
                async for chunk in stream:
                    print(chunk.delta, end="")

        Args:
            messages: the conversation. A string counts as one user message.
            tools: the tools that the model may call: `Tool`s, typed functions, pydantic models, or dicts in the format
                of an OpenAI API.
            tool_choice: "auto", "none", "required", or `NamedTool(name)`.
            options: see `ChatOptions`.

        Returns:
            An async iterator of `StreamChunk`, which is also an async context manager.

        Raises:
            ConfigError: the request is invalid, or needs a feature that the model doesn't support. Network errors are
                raised while the stream is read.
        """
        return self._stream(ChatParams.read(messages, tools, tool_choice, options))

    @scrubs_traceback
    async def chat(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        stream: bool = True,
        **options: Unpack[ChatOptions],
    ) -> Reply:
        """Returns the whole answer. Accepts the arguments of `chat_stream`.

        Args:
            stream: False requests a complete JSON response, if the provider's API supports this. The reply is the same
                as with a stream, but parsing a complete response takes less CPU time. The timeout for the response is
                longer, because only a stream shows early that the provider has stalled. See `Timeouts`.

        Raises:
            ConfigError: the request is invalid, or needs a feature that the model doesn't support.
            APIError: the request failed, or the answer is incomplete. `error.partial` contains the text that had
                arrived.
        """
        return await open_stream(self, messages, tools, tool_choice, options, stream=stream).read()

    extract = extract_from  # a method, with the docstring and the types of the function

    def facts(self) -> ModelInfo | None:
        """Returns the endpoints to which the model sends requests, or None if they aren't known. A model that wraps
        another model returns the wrapped model's endpoints.
        """
        return None

    @abstractmethod
    async def aclose(self) -> None:
        """Closes the connections."""


def open_stream(
    model: ChatModel,
    messages: Messages,
    tools: Iterable[ToolLike] | None,
    tool_choice: ToolChoice,
    options: ChatOptions,
    *,
    stream: bool,
) -> ChatStream:
    """Returns the stream from which `chat` gets the reply. The stream sends the request when its first chunk is read.
    Raises ConfigError if the request is invalid.

    A model that isn't a `BaseChatModel` may ignore `stream=False`.
    """
    if stream is True or not isinstance(model, BaseChatModel):
        check_stream(stream)
        return model.chat_stream(messages, tools, tool_choice=tool_choice, **options)
    return model._stream(ChatParams.read(messages, tools, tool_choice, options, stream=stream))


def forward(model: ChatModel, arguments: ChatParams) -> ChatStream:
    """Returns the stream of a wrapped model. The stream sends the request when its first chunk is read. Raises
    ConfigError if the request is invalid."""
    if arguments.begun is not None and not getattr(model, "continues_text", False):
        raise ConfigError("the model can't continue a text")
    if isinstance(model, BaseChatModel):
        return model._stream(arguments)
    request = arguments.request
    return model.chat_stream(request.messages, request.tools, tool_choice=request.tool_choice, **arguments.given())


def forward_source(model: ChatModel, arguments: ChatParams) -> ChunkSource:
    """Returns the chunk source of a wrapped model. A model that changes the chunks wraps this source. See `forward`."""
    return forward(model, arguments).source
