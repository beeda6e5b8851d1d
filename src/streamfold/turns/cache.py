"""The cache of a provider or a gateway: turns are remembered when they are answered, and recalled when they return."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ..config import check_store
from ..values import ConfigError, Message, ProtocolWarning, Reply
from .sqlite import SQLiteTurnStore
from .store import InMemoryTurnStore, Retention, TurnStore
from .turns import TurnKeys, merged, says_more, turn_keys
from .valkey import ValkeyTurnStore

__all__ = ["Recalled", "TurnCache", "open_store", "read_turn_cache"]

_logger = logging.getLogger("streamfold")


@dataclass(frozen=True, slots=True)
class Recalled:
    """A conversation with what the cache has given back.

    Attributes:
        changed: the positions of turns that got something back.
        warnings: what went wrong on the way.
    """

    messages: tuple[Message, ...]
    changed: tuple[int, ...] = ()
    warnings: tuple[ProtocolWarning, ...] = ()


class TurnCache:
    """Remembers what clients leave out of earlier turns, and gives it back when the turns return without it.

    Reasoning, thinking blocks and their signatures, Gemini's thought signatures, encrypted items: several providers
    refuse the next request of a tool loop without them. `reply.message` keeps them by itself; conversations that were
    made of plain dicts, or come from clients of other people, often do not.

        provider = Provider.from_config("kimi", memory="sqlite:///turns.db")

    A turn is given back only what it had: it must return with the same calls (id, name and arguments; without calls,
    the same text), in the same place of the conversation. Messages with an `origin` are complete and left alone.

    Args:
        store: where turns are kept: a `TurnStore`, or a text for `open_store`.
        scope: whose conversations these are. What was remembered in one scope is not found in another.
    """

    def __init__(self, store: TurnStore | str = "memory", *, scope: str = "") -> None:
        self.store: TurnStore = open_store(store) if isinstance(store, str) else store
        self.scope = scope

    def of(self, *whose: str) -> TurnCache:
        """Returns the same cache for the conversations of somebody: of a user, a tenant, a key."""
        named = json.dumps([self.scope, *whose]).encode("utf-8", "surrogatepass")
        return TurnCache(self.store, scope=sha256(named).hexdigest())

    async def recall(self, messages: Sequence[Message]) -> Recalled:
        """Returns a conversation with what its turns have lost, as far as it is known."""
        turns = {at: keys for at, keys in turn_keys(messages, self.scope) if messages[at].origin is None}
        if not turns:
            return Recalled(tuple(messages))
        try:
            found = await self._find(turns.values())
        except Exception as error:  # whatever a store raises: the model can still answer
            return Recalled(tuple(messages), warnings=(_failed("read", error),))
        made, changed = list(messages), list[int]()
        for at, keys in turns.items():
            stored = found.get(keys.path) or found.get(keys.neighbour)
            if stored is not None and _gives(messages[at], stored):
                made[at] = merged(messages[at], stored)
                changed.append(at)
        return Recalled(tuple(made), tuple(changed))

    async def remember(self, messages: Sequence[Message], reply: Reply) -> ProtocolWarning | None:
        """Remembers the answer to a conversation, if it has anything that could be left out of it.

        Returns:
            A warning if the store has failed.
        """
        message = reply.message
        if not says_more(message):
            return None
        turn = next((keys for at, keys in turn_keys([*messages, message], self.scope) if at == len(messages)), None)
        if turn is None:
            return None
        value = json.dumps(message.to_dict(), separators=(",", ":")).encode()
        try:
            await self.store.put({turn.path: value, turn.neighbour: turn.path.encode()})
        except Exception as error:  # whatever a store raises: the answer is there
            return _failed("written", error)
        return None

    async def aclose(self) -> None:
        """Closes the store."""
        await self.store.aclose()

    def __repr__(self) -> str:
        return f"<TurnCache {self.store!r}>"

    async def _find(self, turns: Iterable[TurnKeys]) -> dict[str, Message]:
        """Returns the turns that are known, by either of their keys."""
        turns = list(turns)
        values = dict(await self.store.get([turn.path for turn in turns]))
        unknown = [turn for turn in turns if turn.path not in values]
        if unknown:
            leads = await self.store.get([turn.neighbour for turn in unknown])
            where = {key: value.decode() for key, value in leads.items()}
            there = await self.store.get(list(set(where.values()))) if where else {}
            values |= {key: there[path] for key, path in where.items() if path in there}
        return {key: Message.from_dict(json.loads(value)) for key, value in values.items()}


def open_store(where: str, retention: Retention | None = None, *, name: str = "turns") -> TurnStore:
    """Returns a store by its name.

    Args:
        where: "memory"; `sqlite:///PATH`, relative to the working directory, with a fourth slash an absolute path; or
            the URL of a Valkey or Redis server, `valkey://HOST:PORT/DATABASE`, with TLS `valkeys://`.
        name: what is kept. In one file or database, stores with other names have other entries and sizes.

    Raises:
        ConfigError: it is none of them.
    """
    try:
        check_store(where)
    except ValueError as exc:
        raise ConfigError(f"the store of turns {exc}") from None
    scheme, _, rest = where.partition("://")
    if scheme == "memory":
        return InMemoryTurnStore(retention)
    if scheme == "sqlite":
        return SQLiteTurnStore(rest[1:], retention, name=name)
    return ValkeyTurnStore(where, retention, name=name)


def read_turn_cache(
    given: TurnCache | TurnStore | str | bool | None, retention: Retention | None = None
) -> TurnCache | None:
    """Returns the cache that a caller means: True is one in this process, False and None are none at all.

    Args:
        retention: of a store that is made here.

    Raises:
        ConfigError: it is something else.
    """
    match given:
        case None | False:
            return None
        case True:
            return TurnCache(InMemoryTurnStore(retention))
        case TurnCache():
            return given
        case str() if given:
            return TurnCache(open_store(given, retention))
    if hasattr(given, "get") and hasattr(given, "put") and not isinstance(given, dict | str):
        return TurnCache(given)
    raise ConfigError(f"memory must be a TurnCache, a store or its name, True or False, not {type(given).__name__}")


def _gives(returned: Message, stored: Message) -> bool:
    """Returns whether a stored turn has anything that the returned one lacks."""
    if stored.reasoning is not None and not returned.reasoning:
        return True
    if any(returned.extras.get(name) != value for name, value in stored.extras.items()):
        return True
    pairs = zip(returned.tool_calls, stored.tool_calls, strict=True)
    return any(kept.extra and kept.extra != call.extra for call, kept in pairs)


def _failed(done: str, error: Exception) -> ProtocolWarning:
    _logger.warning("the cache of earlier turns could not be %s", done, exc_info=error)
    return ProtocolWarning("memory_failed", f"the cache of earlier turns could not be {done}: {type(error).__name__}")
