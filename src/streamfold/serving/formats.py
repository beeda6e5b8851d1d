"""Describes each API: which request fields contain the conversation, and which serializer writes responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from ..adapters import Adapter
from ..adapters.anthropic import AnthropicAdapter, AnthropicQuirks
from ..adapters.chat import ChatAdapter, ChatQuirks
from ..adapters.gemini import GeminiAdapter, GeminiQuirks
from ..adapters.interactions import InteractionsAdapter
from ..adapters.responses import ResponsesAdapter, ResponsesQuirks
from ..errors import ConfigError, allowed_values_hint
from ..requests import read_messages
from ..types import Message, ReplyWarning, system
from .anthropic.request import parse_conversation as parse_anthropic
from .anthropic.serializer import AnthropicSerializer
from .chat.serializer import ChatSerializer
from .gemini.request import parse_conversation as parse_gemini
from .gemini.serializer import GeminiSerializer
from .interactions.request import parse_conversation as parse_interactions
from .interactions.serializer import InteractionsSerializer
from .responses.serializer import ResponsesSerializer
from .stream_serializer import StreamSerializer

ApiFormat: TypeAlias = Literal["chat", "responses", "anthropic", "gemini", "interactions"]


@dataclass(frozen=True, slots=True)
class Serialized:
    """A conversation or a response in the JSON format of an API, and warnings about what this format doesn't preserve.

    Attributes:
        body: the request fields that contain the conversation, or the body of a response.
        warnings: one for each part that was left out or changed, because the API doesn't support it.
    """

    body: dict[str, Any]
    warnings: tuple[ReplyWarning, ...] = ()


class _ChatHistory(ChatAdapter):
    keeps_reasoning = True  # also in earlier turns: whoever reads the messages can leave it out


@dataclass(frozen=True, slots=True)
class Format:
    """One API.

    Attributes:
        adapter: the adapter that encodes conversations. The adapter's quirks are set so that it leaves out as little of
            a message as possible.
        items: the name of the request field that contains the list of messages, items or contents.
        instructions: the name of the request field that contains the instructions, or None if they are in the list of
            messages.
        content: the name of the message field that contains the blocks or parts, if the API merges consecutive messages
            of one role. Otherwise None.
        parse: a function that converts the instructions and the list to messages. The function raises ConfigError with
            the path of an invalid field.
        serializer: a function that creates the serializer of a response.
        id_prefix: the prefix of response ids.
    """

    adapter: Adapter
    items: str
    instructions: str | None
    content: str | None
    parse: Callable[[Any, Any], list[Message]]
    serializer: Callable[..., StreamSerializer]
    id_prefix: str


def _parse_list(instructions: Any, items: Any) -> list[Message]:
    opening = [system(instructions)] if instructions else []
    return [*opening, *read_messages(items)]


_RESPONSES = ResponsesAdapter(ResponsesQuirks(added_tools=True))
_FORMATS: Mapping[str, Format] = {
    "chat": Format(
        _ChatHistory(ChatQuirks(reasoning_field="reasoning_content", refusals=True, continues="prefix")),
        "messages",
        None,
        None,
        _parse_list,
        partial(ChatSerializer, include_usage=True),
        "chatcmpl-",
    ),
    "responses": Format(_RESPONSES, "input", "instructions", None, _parse_list, ResponsesSerializer, "resp_"),
    "anthropic": Format(
        AnthropicAdapter(AnthropicQuirks(inline_system=True, prefill=True)),
        "messages",
        "system",
        "content",
        parse_anthropic,
        AnthropicSerializer,
        "msg_",
    ),
    "gemini": Format(
        GeminiAdapter(GeminiQuirks(signatures="optional")),
        "contents",
        "systemInstruction",
        "parts",
        parse_gemini,
        GeminiSerializer,
        "",
    ),
    "interactions": Format(
        InteractionsAdapter(),
        "input",
        "system_instruction",
        None,
        parse_interactions,
        InteractionsSerializer,
        "v1_",
    ),
}


def find_format(api: str) -> Format:
    """Returns the format of the API with this name. Raises ConfigError with the allowed names for any other name."""
    if api in _FORMATS:
        return _FORMATS[api]
    raise ConfigError(f"unknown API {api!r}{allowed_values_hint(api, _FORMATS)}")
