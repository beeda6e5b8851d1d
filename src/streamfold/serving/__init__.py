"""Messages and replies in the JSON of each API, and back: for bridges to other frameworks.

    written = serialize_messages(messages, "responses")   # {"input": [...]}, and what it could not hold
    messages = parse_messages({"input": items}, "responses")
    body = serialize_reply(reply, "chat")                  # a whole answer, as a server of that API sends it
    reply = parse_reply(body, "chat")
    async for event in serialize_stream(stream, "responses"): ...

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..values import set_public_module
from .conversations import parse_messages, serialize_messages
from .formats import ApiFormat, Serialized
from .replies import parse_reply, serialize_reply, serialize_stream

__all__ = [
    "ApiFormat",
    "Serialized",
    "parse_messages",
    "parse_reply",
    "serialize_messages",
    "serialize_reply",
    "serialize_stream",
]

set_public_module(__name__, [globals()[name] for name in __all__])
