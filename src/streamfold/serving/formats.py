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
    """A conversation or a response as JSON of an API, and warnings about differences from the original.

    Attributes:
        body: the request fields that contain the conversation, or the body of a response.
        warnings: the parts that the API doesn't support, and the parts that were changed.
    """

    body: dict[str, Any]
    warnings: tuple[ReplyWarning, ...] = ()


class _ChatHistory(ChatAdapter):
    keeps_reasoning = True  # of finished turns too: who reads the messages decides


@dataclass(frozen=True, slots=True)
class Format:
    """One API.

    Attributes:
        adapter: encodes conversations, with quirks that preserve as much of a message as possible.
        items: the name of the request field that has the list of messages, items or contents.
        instructions: the name of the request field that has the instructions; None if the list contains them.
        content: the field of a message that has its blocks or parts, for APIs that merge consecutive messages of one
            role; else None.
        parse: converts instructions and list to messages. Raises ConfigError with the path of an invalid field.
        serializer: creates the serializer of a response.
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
    """Returns an API by its name. Raises ConfigError with the allowed names."""
    if api in _FORMATS:
        return _FORMATS[api]
    raise ConfigError(f"unknown API {api!r}{allowed_values_hint(api, _FORMATS)}")
