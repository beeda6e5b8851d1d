"""Converts messages, requests and replies to and from the JSON of each API, for bridges to frameworks and for servers.

    written = serialize_messages(messages, "responses")  # {"input": [...]}, and warnings
    messages = parse_messages({"input": items}, "responses")
    body = serialize_reply(reply, "chat")                 # a whole answer, as a server of that API sends it
    reply = parse_reply(body, "chat")
    async for event in serialize_stream(stream, "responses"): ...

A server parses a request body with `parse_chat_request` or a similar function, which returns a `Request`. To respond,
the server passes the answer's chunks to a `ReplyWriter`. A `ReplyWriter` uses the serializer of the client's API.
`openai_error_body`, `anthropic_error_body` and `gemini_error_body` return the bodies of error responses.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..adapters.anthropic import STOP_REASONS as ANTHROPIC_STOP_REASONS
from ..adapters.chat import REASONING as CHAT_REASONING_MEMBERS
from ..adapters.gemini import gemini_error_body
from ..adapters.responses import TEXT_EVENTS as RESPONSES_TEXT_EVENTS
from ..adapters.responses import TextEvent as ResponsesTextEvent
from ..jsontext import canonical_json, parse_object, replace_non_finite
from ..public_names import set_public_module
from ..requests import CONTINUE_PROMPT, GO_ON_MESSAGE, ObjectReader, is_blank_message
from ..types import (
    ReadToolChoice,
    as_tools,
    from_base64,
    media_type_of,
    read_data_url,
    read_tool_choice,
    to_base64,
    tool_result_content,
)
from .anthropic.request import parse_anthropic_request
from .anthropic.serializer import AnthropicSerializer, anthropic_error_body
from .chat.request import parse_chat_request, wants_usage
from .chat.serializer import ChatSerializer
from .conversations import parse_messages, serialize_messages
from .formats import ApiFormat, Serialized
from .gemini.request import camel_case, camel_name, parse_gemini_request
from .gemini.serializer import Framing as GeminiFraming
from .gemini.serializer import GeminiSerializer
from .replies import parse_reply, serialize_reply, serialize_stream
from .reply_deltas import error_delta, reply_deltas
from .reply_writer import DeltaOrder, ReplyWriter
from .request_parsing import wants_stream
from .responses.items import PART_KINDS as RESPONSES_PART_KINDS
from .responses.items import PartKind as ResponsesPartKind
from .responses.items import partial_output
from .responses.request import parse_responses_as_functions, parse_responses_request
from .responses.serializer import ResponsesSerializer, SerializedEvent, compaction_object, new_response_object
from .responses.tools_as_functions import ClientTools, has_only_function_tools
from .stream_serializer import (
    SSE_HEADERS,
    SerializedCall,
    SerializerArguments,
    StreamSerializer,
    comment,
    is_complete_object,
    json_text,
    openai_error_body,
    warning_comment,
)
from .stream_serializer import event as sse_event

__all__ = [
    "ANTHROPIC_STOP_REASONS",
    "CHAT_REASONING_MEMBERS",
    "CONTINUE_PROMPT",
    "GO_ON_MESSAGE",
    "RESPONSES_PART_KINDS",
    "RESPONSES_TEXT_EVENTS",
    "SSE_HEADERS",
    "AnthropicSerializer",
    "ApiFormat",
    "ChatSerializer",
    "ClientTools",
    "DeltaOrder",
    "GeminiFraming",
    "GeminiSerializer",
    "ObjectReader",
    "ReadToolChoice",
    "ReplyWriter",
    "ResponsesPartKind",
    "ResponsesSerializer",
    "ResponsesTextEvent",
    "Serialized",
    "SerializedCall",
    "SerializedEvent",
    "SerializerArguments",
    "StreamSerializer",
    "anthropic_error_body",
    "as_tools",
    "camel_case",
    "camel_name",
    "canonical_json",
    "compaction_object",
    "error_delta",
    "from_base64",
    "gemini_error_body",
    "has_only_function_tools",
    "is_blank_message",
    "is_complete_object",
    "json_text",
    "media_type_of",
    "new_response_object",
    "openai_error_body",
    "parse_anthropic_request",
    "parse_chat_request",
    "parse_gemini_request",
    "parse_messages",
    "parse_object",
    "parse_reply",
    "parse_responses_as_functions",
    "parse_responses_request",
    "partial_output",
    "read_data_url",
    "read_tool_choice",
    "replace_non_finite",
    "reply_deltas",
    "serialize_messages",
    "serialize_reply",
    "serialize_stream",
    "sse_event",
    "to_base64",
    "tool_result_content",
    "wants_stream",
    "wants_usage",
    "warning_comment",
]

set_public_module(__name__, [globals()[name] for name in __all__])
