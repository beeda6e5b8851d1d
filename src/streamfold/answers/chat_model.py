"""`ChatModel`, and the arguments of a call."""

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
    from .chat_stream import ChatStream


@dataclass(frozen=True, slots=True)
class ChatParams:
    """The arguments of a call.

    Attributes:
        request: conversation, tools and options; an empty model stands for the provider's own.
        repair_history, partial_tool_calls, coalesce, timeouts, extra_headers, max_continuations: see `ChatOptions`.
        conversation: what the provider stores of the conversation; see `ChatOptions`.
        many_conversations: requests of many conversations come this way, so that none is compared with the one before.
        fail_fast: another model can answer, so that a server with too many requests is an error at once.
        begun: the beginning of the answer, which another model has written and this one continues.
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
        """Reads the arguments of `chat_stream` or `chat`. Raises ConfigError for what no provider accepts."""
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
        """Returns the options as keywords for a model that isn't a `BaseChatModel`."""
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
    """A language model: `Provider`, `Fallback`, the test doubles, and anything else with these four members.

    It may have a fifth one, `facts()`, as `BaseChatModel` has it; a model without it is one of which nothing is known.

    Write functions against this type, so that any of them can be passed in:

        async def summarize(model: ChatModel, text: str) -> str:
            return (await model.chat(f"Summarize: {text}")).text
    """

    @property
    def name(self) -> str:
        """Name of the model's provider in errors and logs."""
        ...

    def chat_stream(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> ChatStream:
        """Returns a streamed answer. See `Provider.chat_stream`."""
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
            stream: False asks for the answer in one piece. A model that can only stream may ignore it.
        """
        ...

    async def aclose(self) -> None:
        """Closes the connections."""
        ...


def check_model(model: object, function: str) -> None:
    """Raises ConfigError for an argument that isn't a `ChatModel`, with what to write instead.

    Args:
        model: the argument. A name is quoted in the message unless it may be a key.
        function: the name of the caller's function, for the message.
    """
    is_synchronous = hasattr(model, "close") and not hasattr(model, "aclose")
    if callable(getattr(model, "chat_stream", None)) and not isinstance(model, type) and not is_synchronous:
        return
    if isinstance(model, str):
        spec = repr(model) if ":" in model or len(model) < 20 else "..."
        raise ConfigError(f"{function} takes a model, not a name: write Provider.from_config({spec})")
    if isinstance(model, Mapping):
        raise ConfigError(f"{function} takes a model, not settings: write Provider.from_config({{...}})")
    if hasattr(model, "chat_stream") and not isinstance(model, type):
        raise ConfigError(f"{function} takes an asynchronous model: for {model!r}, use the one of streamfold.sync")
    kind = model.__name__ if isinstance(model, type) else type(model).__name__
    raise ConfigError(f"{function} takes a model, not {kind}: make one with Provider.from_config(...)")
