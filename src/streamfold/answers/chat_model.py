"""`ChatModel`, and the arguments of `chat` and `chat_stream`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, cast

from ..config import timeouts_over
from ..errors import ConfigError
from ..requests import (
    ChatOptions,
    Options,
    Request,
    TimeoutOptions,
    check_max_continuations,
    check_stream,
    read_headers,
)
from ..types import Conversation, Messages, Reply, Timeouts, ToolChoice, ToolLike, read_conversation

if TYPE_CHECKING:
    from ..limits import Reservation
    from .chat_stream import ChatStream


@dataclass(frozen=True, slots=True)
class ChatParams:
    """The arguments of `chat` and `chat_stream`.

    Attributes:
        request: the conversation, tools and options. If its model name is empty, the configured model is used.
        repair_history, partial_tool_calls, coalesce, timeouts, extra_headers, max_continuations: see `ChatOptions`.
        conversation: see `ChatOptions`.
        many_conversations: True if requests from many conversations use this model. streamfold then gives no warnings
            about prompt cache misses, because consecutive requests belong to different conversations.
        fail_fast: True if another model can answer instead. With True, streamfold raises an error immediately after a
            429 response, instead of waiting.
        begun: the beginning of the answer. Another model wrote it before it failed, and this model must continue it.
        reservation: the caller's reservation for the first request. The `Provider` records the actual usage in
            the reservation, and closes the reservation.
    """

    request: Request
    repair_history: bool = False
    partial_tool_calls: bool = False
    coalesce: bool | None = None
    timeouts: Timeouts | TimeoutOptions | None = None
    extra_headers: Mapping[str, str] | None = field(default=None, repr=False)  # their values are often secrets
    max_continuations: int | None = None
    conversation: Conversation | None = None
    many_conversations: bool = False
    fail_fast: bool = False
    begun: Reply | None = None
    reservation: Reservation | None = field(default=None, repr=False)

    @classmethod
    def read(
        cls,
        messages: Messages,
        tools: Iterable[ToolLike] | None,
        tool_choice: ToolChoice,
        given: ChatOptions,
        *,
        stream: bool = True,
    ) -> Self:
        """Parses the arguments of `chat_stream` or `chat`. Raises ConfigError for arguments that no provider
        accepts."""
        check_stream(stream)
        options: dict[str, Any] = dict(given)
        model = options.pop("model", None)
        repair, fragments = bool(options.pop("repair_history", False)), bool(options.pop("partial_tool_calls", False))
        coalesce = options.pop("coalesce", None)
        timeouts, headers = options.pop("timeouts", None), options.pop("extra_headers", None)
        if headers is not None:
            headers = read_headers(headers)
        if timeouts is not None:
            timeouts_over(Timeouts(), timeouts)
        if (continuations := options.pop("max_continuations", None)) is not None:
            check_max_continuations(continuations)
        conversation = read_conversation(options.pop("conversation", None))
        request = Request.read(model or "", messages, tools, tool_choice, options, stream=stream)
        coalesced = None if coalesce is None else bool(coalesce)
        return cls(request, repair, fragments, coalesced, timeouts, headers, continuations, conversation)

    def given(self) -> ChatOptions:
        """Returns the options as keyword arguments for a model that isn't a `BaseChatModel`."""
        values = {each.name: getattr(self.request.options, each.name) for each in fields(Options)}
        options = {name: value for name, value in values.items() if value != getattr(_NONE, name)}
        names = ("repair_history", "partial_tool_calls", "timeouts", "extra_headers")
        own = {"model": self.request.model, **{name: getattr(self, name) for name in names}}
        options |= {name: value for name, value in own.items() if value}
        if self.coalesce is not None:
            options["coalesce"] = self.coalesce
        if self.max_continuations is not None:
            options["max_continuations"] = self.max_continuations
        if self.conversation is not None:
            options["conversation"] = self.conversation
        return cast("ChatOptions", options)


_NONE = Options()


class ChatModel(Protocol):
    """The interface of all language models. `Provider`, `Fallback`, the test models and all other objects with `name`,
    `chat_stream`, `chat` and `aclose` implement it.

    A model may also have the method `facts()` of `BaseChatModel`. Without `facts()`, prices and limits are unknown.

    A function with a parameter of this type accepts every kind of model:

        async def summarize(model: ChatModel, text: str) -> str:
            return (await model.chat(f"Summarize: {text}")).text
    """

    @property
    def name(self) -> str:
        """The provider's name in errors and logs."""
        ...

    def chat_stream(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> ChatStream:
        """Returns a stream of chunks. See `Provider.chat_stream`."""
        ...

    async def chat(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        stream: bool = True,
        **options: Unpack[ChatOptions],
    ) -> Reply:
        """Returns the whole answer. See `Provider.chat`.

        Args:
            stream: False requests a complete JSON response. A model that can only stream may ignore this argument.
        """
        ...

    async def aclose(self) -> None:
        """Closes the connections."""
        ...


def check_model(model: object, function: str) -> None:
    """Raises ConfigError if an argument isn't a `ChatModel`. The error message shows what to pass instead.

    Args:
        model: the argument. The error message quotes a string, unless the string may be an API key.
        function: the name of the called function, for the message.
    """
    is_synchronous = hasattr(model, "close") and not hasattr(model, "aclose")
    if callable(getattr(model, "chat_stream", None)) and not isinstance(model, type) and not is_synchronous:
        return
    if isinstance(model, str):
        spec = repr(model) if ":" in model or len(model) < 20 else "..."
        raise ConfigError(f"{function} needs a model, not a name: write Provider.from_config({spec})")
    if isinstance(model, Mapping):
        raise ConfigError(f"{function} needs a model, not settings: write Provider.from_config({{...}})")
    if hasattr(model, "chat_stream") and not isinstance(model, type):
        raise ConfigError(f"{function} needs an asynchronous model: for {model!r}, use the function in streamfold.sync")
    kind = model.__name__ if isinstance(model, type) else type(model).__name__
    raise ConfigError(f"{function} needs a model, not {kind}: create a model with Provider.from_config(...)")
