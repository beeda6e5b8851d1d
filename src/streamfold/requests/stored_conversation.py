"""Finds the part of a conversation that the provider has stored, so that requests contain only the later messages.
streamfold identifies a stored answer by a digest of the conversation up to and including the answer. If the caller
changes a message, the digests of later answers no longer match, so the model always sees the caller's version.

Some APIs don't store instructions, but expect them in each request. The digests don't include these instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from ..errors import ConfigError
from ..types import Message
from .message_digests import call_values, content_values, digest_parts

_START = digest_parts("stored conversation", 1)


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """The state of a conversation that a provider has stored for one account.

    Attributes:
        account: a digest of the API, the URL and the API key.
        turns: the ids of stored answers. Each key is a digest of the conversation up to and including the answer.
        base: the id of the earlier conversation that the caller's messages continue, or None.
        restarted: the reason why the request can't continue a stored answer, or "".
        id: the id that the request continues. With None, the request sends the complete conversation.
        messages: the number of messages that the provider has stored under `id`, not counting instructions.
        digest: the digest of all messages of the request.
    """

    account: str
    turns: Mapping[str, str] = field(default_factory=dict, repr=False)
    base: str | None = None
    restarted: str = ""
    id: str | None = None
    messages: int = 0
    digest: str = ""


def continue_stored(
    stored: StoredConversation, messages: Sequence[Message], names: Mapping[str, str], *, grows: bool
) -> StoredConversation:
    """Finds the stored answer that a request can continue.

    Args:
        messages: all messages of the request except instructions, as they are sent to the API.
        names: maps the tool names in the request to the caller's tool names.
        grows: True if `base` is a conversation to which the provider appends every answer.

    Raises:
        ConfigError: the messages don't begin with the messages that the provider has appended to `base`.
    """
    values = (_values(message, names) for message in messages)
    digests = list(accumulate(values, digest_parts, initial=_START))  # the first is of an empty conversation
    # At least one message must be new, because a request needs a message.
    found = next((count for count in reversed(range(1, len(digests) - 1)) if digests[count] in stored.turns), 0)
    if grows and stored.turns and not found:
        raise ConfigError(
            f"conversation: the messages must begin with the messages that were sent to {stored.base!r}; to continue it"
            f" anyway, pass Conversation({stored.base!r}) and only new messages"
        )
    known = stored.turns[digests[found]] if found else stored.base
    return replace(stored, id=known, messages=found, digest=digests[-1])


def digest_with(digest: str, answer: Message) -> str:
    return digest_parts(digest, _values(answer, {}))


def _values(message: Message, names: Mapping[str, str]) -> list[Any]:
    # Answers are identified by their text and tool calls, because programs don't always keep reasoning and items. An
    # answer without either, such as a compaction, is identified by its items.
    parts = content_values(message)
    if message.role == "assistant":
        calls = [call_values(replace(call, name=names.get(call.name, call.name))) for call in message.tool_calls]
        items = None if parts or calls or message.refusal else message.extras
        return [message.role, parts, message.refusal, calls, items]
    extras = {name: value for name, value in message.extras.items() if name != "cache_control"}
    tools = [[tool.name, tool.description, tool.parameters] for tool in message.tools]
    return [message.role, parts, message.name, message.tool_call_id, message.error, extras, tools]
