"""Conversations that a provider stores: which messages of a request it has, so that only the others are sent.

A stored answer is found by a digest of all messages up to and including it, as they were sent. So the model always sees
the conversation of the request: where a message was changed, the answers behind it no longer match.

Instructions that a wire format sends with each request are not part of a stored conversation, and of no digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from ..errors import ConfigError
from ..types import Message
from .message_digests import call_values, content_values, digest_parts

_START = digest_parts("stored conversation", 1)


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation, as far as an account has stored it.

    Attributes:
        account: digest of the API, the address and the key.
        turns: the ids of stored answers, each by the digest of the conversation up to and including it.
        base: the id of what came before the messages of the request; None: they are the whole conversation.
        restarted: why nothing is continued, though there were stored answers.
        id: the id of what the request continues; None: nothing, the whole conversation is sent.
        messages: how many messages, after the instructions, are stored under this id.
        digest: of the whole conversation.
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
    """Returns the stored conversation with the answer that a request continues.

    Args:
        messages: all messages of the request as they are sent, without its instructions.
        names: the tools' own names by the names that they are sent under.
        grows: the provider adds all answers to what has the id `base`.

    Raises:
        ConfigError: the messages differ from those that the provider has added to `base`.
    """
    digests = [*_digests(messages, names)]
    # One message at least is new: a request without any asks for nothing.
    found = next((count for count in reversed(range(1, len(digests) - 1)) if digests[count] in stored.turns), 0)
    if grows and stored.turns and not found:
        raise ConfigError(
            f"conversation: the messages must begin with those that were sent to {stored.base!r}; to continue it"
            f" anyway, pass Conversation({stored.base!r}) and only new messages"
        )
    known = stored.turns[digests[found]] if found else stored.base
    return replace(stored, id=known, messages=found, digest=digests[-1])


def digest_with(digest: str, answer: Message) -> str:
    """Returns the digest of a conversation with one more message."""
    return digest_parts(digest, _values(answer, {}))


def _digests(messages: Sequence[Message], names: Mapping[str, str]) -> Iterator[str]:
    """Yields the digest of nothing, of the first message, of the first two, and so on."""
    values = (_values(message, names) for message in messages)
    return accumulate(values, digest_parts, initial=_START)


def _values(message: Message, names: Mapping[str, str]) -> list[Any]:
    """Returns what a message is recognised by.

    Of an answer these are its text and its calls, which every program keeps: the provider has its reasoning and items.
    An answer without them, such as a compaction, is recognised by its items.
    """
    parts = content_values(message)
    if message.role == "assistant":
        calls = [call_values(replace(call, name=names.get(call.name, call.name))) for call in message.tool_calls]
        items = None if parts or calls or message.refusal else message.extras
        return [message.role, parts, message.refusal, calls, items]
    extras = {name: value for name, value in message.extras.items() if name != "cache_control"}
    tools = [[tool.name, tool.description, tool.parameters] for tool in message.tools]
    return [message.role, parts, message.name, message.tool_call_id, message.error, extras, tools]
