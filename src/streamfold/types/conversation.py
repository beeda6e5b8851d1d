"""`Conversation`: which answers of a conversation a provider has stored, so that requests send only what is new."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from ..errors import ConfigError

_MOST_TURNS = 100  # of one account: an older turn that is edited costs a request with the whole conversation
_MOST_ACCOUNTS = 20
_VERSION = 1
_NO_TURNS: Mapping[str, str] = MappingProxyType({})


class Conversation:
    """A conversation that the provider stores, so that a request sends only the messages that it doesn't have yet.

        conversation = Conversation()
        messages = [user("What is the capital of Norway?")]
        reply = await provider.chat(messages, conversation=conversation)
        messages += [reply.message, user("And its longest river?")]
        reply = await provider.chat(messages, conversation=conversation)  # sends the last message alone

    Pass all messages with each request, as ever. They are compared with those that the provider has stored, so that
    they may be edited, shortened, continued in several ways at once, and sent to other providers. If the provider has
    deleted the conversation, all messages are sent once more, with the warning `conversation_restarted`.

    An id belongs to the API, the address and the key with which it was made, and is never sent to others.

    Args:
        after: the provider's id of what to continue: a response (`reply.id`), an interaction, or a conversation of
            OpenAI's Conversations API ("conv_..."). The messages are then only those after it.
    """

    __slots__ = ("_account", "_after", "_given_up", "_turns")

    def __init__(self, after: str | None = None) -> None:
        given: object = after
        if given is not None and not (isinstance(given, str) and given):
            raise ConfigError(f"a conversation is continued by the id of a response, not {after!r:.80}")
        self._after = after
        self._account: str | None = None  # to which that id belongs, once it was accepted there
        self._given_up: frozenset[str] = frozenset()  # accounts that don't continue what they have stored
        self._turns: dict[str, dict[str, str]] = {}  # by account: ids of answers by digests; its dicts never change

    @property
    def after(self) -> str | None:
        """The id of what the messages continue; None if they are the whole conversation."""
        return self._after

    @property
    def account(self) -> str | None:
        """A digest of the endpoint and the key that have accepted `after`; None before."""
        return self._account

    def turns(self, account: str) -> Mapping[str, str]:
        """Returns the ids of stored answers, each by the digest of the conversation up to and including it."""
        return self._turns.get(account, _NO_TURNS)

    def accept(self, account: str) -> None:
        """Notes that an account knows `after`."""
        if self._after is not None and self._account is None:
            self._account = account

    def add(self, account: str, digest: str, answer_id: str, *, alone: bool = False) -> None:
        """Adds a stored answer.

        Args:
            account: a digest of the API, the address and the key of the provider.
            digest: of the conversation up to and including the answer.
            alone: the answer takes the place of all that were stored there before.
        """
        if account in self._given_up:
            return
        others = {} if alone else {at: known for at, known in self.turns(account).items() if at != digest}
        kept = dict([*others.items(), (digest, answer_id)][-_MOST_TURNS:])
        accounts = {name: turns for name, turns in self._turns.items() if name != account}
        self._turns = dict([*accounts.items(), (account, kept)][-_MOST_ACCOUNTS:])

    def forget(self, account: str, answer_id: str) -> None:
        """Removes an answer that the provider no longer has."""
        kept = {digest: known for digest, known in self.turns(account).items() if known != answer_id}
        self._turns = {**self._turns, account: kept}

    def give_up(self, account: str) -> None:
        """Sends all messages to an account from now on: it ignores ids."""
        self._given_up |= {account}
        self._turns = {name: turns for name, turns in self._turns.items() if name != account}

    def to_json(self) -> str:
        """Returns the ids as JSON text, to be stored beside the messages. It has no text of them and no key."""
        data = {"after": self._after, "account": self._account, "given_up": [*self._given_up], "turns": self._turns}
        return json.dumps({"version": _VERSION, **data})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parses the output of `to_json`. Raises ConfigError if it isn't one.

        Take the text only from your own storage: a client that could write it would continue the conversation of
        another one.
        """
        try:
            data = json.loads(text)
        except ValueError as exc:
            raise ConfigError(f"a conversation in JSON was expected: {exc}") from exc
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            raise ConfigError("this is not what Conversation.to_json of this version returned")
        made, account = cls(data.get("after")), data.get("account")
        turns: Any = data.get("turns")
        given_up = data.get("given_up", [])
        if not (isinstance(account, str | None) and isinstance(given_up, list) and _are_turns(turns)):
            raise ConfigError("this is not what Conversation.to_json returned: account, given_up or turns are damaged")
        made._account, made._given_up, made._turns = account, frozenset(map(str, given_up)), turns
        return made

    def __repr__(self) -> str:
        behind = f" after={self._after!r}" if self._after is not None else ""
        return f"<Conversation{behind} turns={sum(map(len, self._turns.values()))}>"


def read_conversation(given: Any) -> Conversation | None:
    """Returns the argument `conversation` as one. Raises ConfigError for anything else."""
    if isinstance(given, Conversation | None):
        return given
    if isinstance(given, str):
        return Conversation(given)
    raise ConfigError(f"conversation is a Conversation or an id of the provider, not {type(given).__name__}")


def _are_turns(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        isinstance(turns, dict) and all(isinstance(known, str) for known in turns.values()) for turns in value.values()
    )
