"""`Conversation` contains the ids of the answers that a provider has stored. `Compaction` contains a provider's summary
of a conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ..errors import ConfigError
from .messages import Message
from .replies import Reply

_MOST_TURNS = 100  # per account; for older turns, requests send all messages
_MOST_ACCOUNTS = 20
_VERSION = 1


class Conversation:
    """A conversation that the provider stores. With the option `conversation`, each request sends only the messages
    that the provider doesn't have yet.

        conversation = Conversation()
        messages = [user("What is the capital of Norway?")]
        reply = await provider.chat(messages, conversation=conversation)
        messages += [reply.message, user("And its longest river?")]
        reply = await provider.chat(messages, conversation=conversation)  # sends only the last message

    Always pass the complete list of messages. streamfold compares the list with the stored messages, so you can edit,
    shorten or branch the list, or send it to another provider. If the provider has deleted the stored conversation,
    streamfold sends all messages again and adds the warning `conversation_restarted`.

    streamfold sends a stored id only to the API, URL and API key for which the provider created the id.

    Args:
        after: the provider's id of the conversation to continue, which is the id of a response (`reply.id`), of an
            interaction, or of a conversation in OpenAI's Conversations API ("conv_..."). With `after`, pass only the
            messages that follow this conversation.
    """

    __slots__ = ("_account", "_after", "_given_up", "_turns")

    def __init__(self, after: str | None = None) -> None:
        given: object = after
        if given is not None and not (isinstance(given, str) and given):
            raise ConfigError(f"Conversation(after=...) needs an id of the provider, not {after!r:.80}")
        self._after = after
        self._account: str | None = None  # the account that accepted `after`
        self._given_up: frozenset[str] = frozenset()  # accounts that ignore the ids of stored answers
        # The ids of answers, by account and then by digest. The inner dicts never change.
        self._turns: dict[str, dict[str, str]] = {}

    @property
    def after(self) -> str | None:
        """The provider's id of the conversation that the caller's messages continue. None if the caller passes the
        entire conversation."""
        return self._after

    @property
    def account(self) -> str | None:
        """A digest of the endpoint and the API key that accepted the id `after`. None before the first request."""
        return self._account

    def turns(self, account: str) -> Mapping[str, str]:
        """Returns the ids of the stored answers. Each key is a digest of the conversation up to and including the
        answer.
        """
        return self._turns.get(account, {})

    def accept(self, account: str) -> None:
        """Records which account has accepted the id `after`."""
        if self._after is not None and self._account is None:
            self._account = account

    def add(self, account: str, digest: str, answer_id: str, *, alone: bool = False) -> None:
        """Records the id of a stored answer.

        Args:
            account: a digest of the provider's API, URL and API key.
            digest: the digest of the conversation up to and including the answer.
            alone: True to forget all other answers of the account, because the provider appends each answer to the
                conversation with this id.
        """
        if account in self._given_up:
            return
        others = {} if alone else {at: known for at, known in self.turns(account).items() if at != digest}
        kept = dict([*others.items(), (digest, answer_id)][-_MOST_TURNS:])
        accounts = {name: turns for name, turns in self._turns.items() if name != account}
        self._turns = dict([*accounts.items(), (account, kept)][-_MOST_ACCOUNTS:])

    def forget(self, account: str, answer_id: str) -> None:
        kept = {digest: known for digest, known in self.turns(account).items() if known != answer_id}
        self._turns = {**self._turns, account: kept}

    def give_up(self, account: str) -> None:
        """Makes every later request to this account send all messages. streamfold calls this method if the server
        ignores the ids of stored answers."""
        self._given_up |= {account}
        self._turns = {name: turns for name, turns in self._turns.items() if name != account}

    def to_json(self) -> str:
        """Returns the ids of the stored answers as JSON text. Store the text with your messages. The text contains no
        messages and no API keys."""
        data = {"after": self._after, "account": self._account, "given_up": [*self._given_up], "turns": self._turns}
        return json.dumps({"version": _VERSION, **data})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parses the output of `to_json`. Raises ConfigError for any other text.

        Load the text only from your own storage. A client that can change the text could continue another user's
        conversation.
        """
        try:
            data = json.loads(text)
        except ValueError as exc:
            raise ConfigError(f"the saved conversation isn't valid JSON: {exc}") from exc
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            raise ConfigError("the saved conversation wasn't created by Conversation.to_json of this version")
        made, account = cls(data.get("after")), data.get("account")
        turns: Any = data.get("turns")
        given_up = data.get("given_up", [])
        if not (isinstance(account, str | None) and isinstance(given_up, list) and _are_turns(turns)):
            raise ConfigError("the saved conversation is damaged: account, given_up or turns is invalid")
        made._account, made._given_up, made._turns = account, frozenset(map(str, given_up)), turns
        return made

    def __repr__(self) -> str:
        behind = f" after={self._after!r}" if self._after is not None else ""
        return f"<Conversation{behind} turns={sum(map(len, self._turns.values()))}>"


def read_conversation(given: Any) -> Conversation | None:
    """Parses the option `conversation`, which is a `Conversation` or a provider's id. Raises ConfigError for a value of
    any other type."""
    if isinstance(given, Conversation | None):
        return given
    if isinstance(given, str):
        return Conversation(given)
    raise ConfigError(f"conversation must be a Conversation or an id of the provider, not {type(given).__name__}")


def _are_turns(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        isinstance(turns, dict) and all(isinstance(known, str) for known in turns.values()) for turns in value.values()
    )


@dataclass(frozen=True, slots=True)
class Compaction:
    """A conversation that the provider has replaced with a summary.

    Attributes:
        messages: the messages that replace the earlier conversation. Only the same provider can read all of these
            messages.
        reply: the provider's response with the summary, and its `usage`, `cost` and `warnings`.
    """

    messages: list[Message]
    reply: Reply

    @property
    def summary(self) -> str | None:
        """The summary that replaces the conversation, or None if only the provider can read the summary (OpenAI)."""
        found = (part.raw.get("content") for part in self.reply.hosted if part.kind == "compaction")
        return next((text for text in found if isinstance(text, str)), None)
