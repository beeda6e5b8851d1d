"""`Provider`: a provider for synchronous code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload
from weakref import finalize

from ..answers import ChatModel, check_model, extract, open_stream, trim_by_estimate
from ..answers import trim_history as trim_async
from ..client import Hooks, Preview
from ..client import Provider as AsyncProvider
from ..errors import ConfigError
from ..net import scrubs_traceback
from ..requests import Capabilities, ChatOptions
from ..turn_cache import TurnCache, TurnStore
from ..types import Compaction, GeneratedFile, Message, Messages, Reply, ToolChoice, ToolLike
from .streams import ChatStream
from .thread import LoopThread

if TYPE_CHECKING:
    import httpx

    from ..config import ProviderConfig

T = TypeVar("T")


class Provider:
    """A language model for synchronous code. Several threads can share a provider.

        with Provider.from_config("kimi:kimi-k2.6") as provider:
            print(provider.chat("Hello").text)

    A synchronous provider has the types, errors and guarantees of `streamfold.Provider`, which it runs on a background
    thread. So it also works while an event loop is running, for example in a notebook. The first request starts the
    thread.

    Create a provider with `from_config`. Use the provider as a context manager, or call `close` at the end. A provider
    is also closed when it is garbage-collected and when the interpreter exits. After a fork, create a new provider.

    Attributes:
        model: the asynchronous provider or another `ChatModel`, which nothing else may use. `close` closes it.
        thread: the thread that runs the asynchronous provider.
    """

    def __init__(self, model: ChatModel) -> None:
        check_model(model, "Provider()")
        self.model = model
        self.thread = LoopThread(model)
        finalize(self, self.thread.stop).atexit = False  # `LoopThread` handles the exit

    @classmethod
    @scrubs_traceback
    def from_config(
        cls,
        spec: str | Mapping[str, Any] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        http_client: httpx.AsyncClient | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        turn_cache: TurnCache | TurnStore | str | bool | None = None,
        **overrides: Unpack[ProviderConfig],
    ) -> Self:
        """Returns a provider by name, from a mapping, or the default provider. See `streamfold.Provider.from_config`.

        Args:
            spec, config, overrides: see `streamfold.Provider.from_config`.
            http_client: an asynchronous HTTP client that nothing else uses. The caller must close this client.
            hooks: functions that streamfold calls on the provider's background thread; see `Hooks`.
            turn_cache: see `streamfold.Provider`.

        Raises:
            ConfigError: a key or a value is invalid. The message lists the allowed keys or values.
        """
        return cls(
            AsyncProvider.from_config(
                spec, config=config, http_client=http_client, hooks=hooks, turn_cache=turn_cache, **overrides
            )
        )

    @property
    def name(self) -> str:
        """The name of the provider in errors and logs."""
        return self.model.name

    def capabilities(self, model: str | None = None) -> Capabilities:
        """Returns the capabilities of a model at this endpoint. See `streamfold.Provider.capabilities`.

        Raises:
            ConfigError: this provider wraps a model without the method `capabilities`, such as a `Fallback`.
        """
        return self._member("capabilities")(model)  # type: ignore[no-any-return]

    @scrubs_traceback
    def chat_stream(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> ChatStream:
        """Returns a response stream, which is an iterator of `StreamChunk` and a context manager.

        See `streamfold.Provider.chat_stream`.
        """
        stream = self.model.chat_stream(messages, tools, tool_choice=tool_choice, **options)
        return ChatStream(self, self.thread, stream)

    @scrubs_traceback
    def chat(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        stream: bool = True,
        **options: Unpack[ChatOptions],
    ) -> Reply:
        """Sends a request and returns the complete reply. See `streamfold.Provider.chat`."""
        answer = open_stream(self.model, messages, tools, tool_choice, options, stream=stream)
        return ChatStream(self, self.thread, answer).read()

    @overload
    def extract(
        self,
        form: type[T],
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        attempts: int = 3,
        with_reply: Literal[False] = False,
        **options: Unpack[ChatOptions],
    ) -> T: ...

    @overload
    def extract(
        self,
        form: type[T],
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        attempts: int = 3,
        with_reply: Literal[True],
        **options: Unpack[ChatOptions],
    ) -> tuple[T, Reply]: ...

    @overload
    def extract(
        self,
        form: Any,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        attempts: int = 3,
        with_reply: bool = False,
        **options: Unpack[ChatOptions],
    ) -> Any: ...

    @scrubs_traceback
    def extract(
        self,
        form: type[T],
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        attempts: int = 3,
        with_reply: bool = False,
        **options: Unpack[ChatOptions],
    ) -> T | tuple[T, Reply]:
        """Returns the model's answer as an instance of the type `form`. If the answer doesn't match the type,
        streamfold sends a new request.

        Args:
            form, messages, tools, attempts, with_reply, options: as in `streamfold.extract`.

        Raises:
            InvalidReplyError: no answer matched the type, the model refused, or the answer was truncated.
            ConfigError: the request is invalid.
            APIError: a request failed.
        """
        asked = partial(extract, self.model, form, messages, tools, attempts=attempts, with_reply=with_reply, **options)
        found: T | tuple[T, Reply] = self.thread.run(asked)
        return found

    @scrubs_traceback
    def preview(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        stream: bool = True,
        **options: Unpack[ChatOptions],
    ) -> Preview:
        """Returns the HTTP request that `chat` would send for the same arguments. See `streamfold.Provider.preview`.

        Raises:
            ConfigError: the request is invalid, or this provider wraps a model without the method `preview`.
        """
        return self._member("preview")(messages, tools, tool_choice=tool_choice, stream=stream, **options)  # type: ignore[no-any-return]

    @scrubs_traceback
    def count_tokens(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> int:
        """Returns the number of input tokens of a request. See `streamfold.Provider.count_tokens`.

        Raises:
            ConfigError: the request is invalid, or this provider can't count tokens.
            APIError: the request failed.
        """
        count = partial(self._member("count_tokens"), messages, tools, tool_choice=tool_choice, **options)
        tokens: int = self.thread.run(count)
        return tokens

    @scrubs_traceback
    def compact(
        self, messages: Messages, tools: Iterable[ToolLike] | None = None, **options: Unpack[ChatOptions]
    ) -> Compaction:
        """Asks the provider to compact a conversation, and returns the shorter conversation. See
        `streamfold.Provider.compact`.

        Raises:
            ConfigError: the arguments are invalid, or this provider can't compact conversations.
            APIError: the request failed, or the response contains no compaction.
        """
        compacted: Compaction = self.thread.run(partial(self._member("compact"), messages, tools, **options))
        return compacted

    @scrubs_traceback
    def retrieve(
        self, answer_id: str, tools: Iterable[ToolLike] | None = None, **options: Unpack[ChatOptions]
    ) -> ChatStream:
        """Returns the stream of a stored answer from its start. See `streamfold.Provider.retrieve`."""
        return ChatStream(self, self.thread, self._member("retrieve")(answer_id, tools, **options))

    def cancel(self, answer_id: str) -> None:
        """Cancels an answer that is running in the background. See `streamfold.Provider.cancel`."""
        self.thread.run(partial(self._member("cancel"), answer_id))

    def fetch_file(self, file: GeneratedFile, *, max_bytes: int = 64 * 2**20) -> bytes:
        """Returns the bytes of a file that a hosted tool created. See `streamfold.Provider.fetch_file`."""
        data: bytes = self.thread.run(partial(self._member("fetch_file"), file, max_bytes=max_bytes))
        return data

    def close(self) -> None:
        """Closes the connections and stops the background thread.

        A thread that is waiting for a response then raises StreamfoldError.
        """
        self.thread.stop()
        self.thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sync {self.model!r}>"

    def _member(self, name: str) -> Any:
        try:
            return getattr(self.model, name)
        except AttributeError:
            raise ConfigError(f"a {type(self.model).__name__} has no {name}") from None


def trim_history(messages: Messages, max_tokens: int, *, model: Provider | None = None) -> list[Message]:
    """Returns a conversation without its oldest messages. See `streamfold.trim_history`.

    Args:
        messages, max_tokens: see `streamfold.trim_history`.
        model: a synchronous provider that counts the tokens. With None, streamfold estimates the number of tokens.

    Raises:
        ConfigError: an argument is invalid.
        APIError: the request that counts the tokens failed.
    """
    if model is None:
        return trim_by_estimate(messages, max_tokens)
    return model.thread.run(partial(trim_async, messages, max_tokens, model=model.model))
