"""The interface that every model of this library has: a provider, several that replace each other, a test double."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, Unpack

from ..requests import ChatOptions
from ..values import Messages, Reply, ToolChoice, ToolLike

if TYPE_CHECKING:
    from .stream import ChatStream


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
