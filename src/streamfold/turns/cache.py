"""The cache of a provider or a gateway: turns are remembered when they are answered, and recalled when they return."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

import anyio

from ..stores import MemoryStore, Retention, StoreError, lasting_store
from ..values import ConfigError, Message, ProtocolWarning, Reply
from .turns import TurnKeys, merged, says_more, turn_keys

_PATIENCE = 2.0  # seconds that an answer waits for the store, before it and after it

_logger = logging.getLogger("streamfold")


class TurnStore(Protocol):
    """What a cache of turns needs of a store: each `streamfold.stores.Store` is one, and any object with these methods.

    A store may forget whatever it likes. An exception of its methods, or no answer within two seconds, is reported as
    the warning `memory_failed`, and the answer goes on without it.
    """

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known."""
        ...

    async def put(self, owner: str, values: Mapping[str, bytes]) -> bool:
        """Keeps values. A key that is known gets the new value. Returns whether they are kept."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


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
        store: where turns are kept: a store, or its name, as for `streamfold.stores.open_store`.
        scope: whose conversations these are. What was remembered in one scope is not found in another.
        ids: whether calls are returned with their ids. Without them a turn is known by the names and the arguments of
            its calls, and gets its ids back too.
    """

    def __init__(self, store: TurnStore | str = "memory", *, scope: str = "", ids: bool = True) -> None:
        self.store: TurnStore = _open(store, None) if isinstance(store, str) else store
        self.scope = scope
        self._ids = ids
        self._owner = sha256(scope.encode("utf-8", "surrogatepass")).hexdigest() if scope else ""

    def of(self, *whose: str, ids: bool = True) -> TurnCache:
        """Returns the same cache for the conversations of somebody: of a user, a tenant, a key. For `ids` see above."""
        named = json.dumps([self.scope, *whose]).encode("utf-8", "surrogatepass")
        return TurnCache(self.store, scope=sha256(named).hexdigest(), ids=ids)

    async def recall(self, messages: Sequence[Message]) -> Recalled:
        """Returns a conversation with what its turns have lost, as far as it is known."""
        turns = {at: keys for at, keys in turn_keys(messages, ids=self._ids) if messages[at].origin is None}
        if not turns:
            return Recalled(tuple(messages))
        found: dict[str, Message] = {}
        failure = await _within(self._find(turns.values(), found), "read")
        made, changed = list(messages), list[int]()
        for at, keys in turns.items():
            stored = found.get(keys.path) or found.get(keys.neighbour)
            if stored is not None and _gives(messages[at], stored):
                made[at] = merged(messages[at], stored)
                changed.append(at)
        return Recalled(tuple(_answering(made, messages, changed)), tuple(changed), (failure,) if failure else ())

    async def remember(self, messages: Sequence[Message], reply: Reply) -> ProtocolWarning | None:
        """Remembers the answer to a conversation, if it has anything that could be left out of it.

        Returns:
            A warning if the store has failed.
        """
        message = reply.message
        if not says_more(message):
            return None
        turn = next((keys for at, keys in turn_keys([*messages, message], ids=self._ids) if at == len(messages)), None)
        if turn is None:
            return None
        value = json.dumps(message.to_dict(), separators=(",", ":")).encode()
        kept = self.store.put(self._owner, {turn.path: value, turn.neighbour: turn.path.encode()})
        return await _within(kept, "written")

    async def aclose(self) -> None:
        """Closes the store."""
        await self.store.aclose()

    def __repr__(self) -> str:
        return f"<TurnCache {self.store!r}>"

    async def _find(self, turns: Collection[TurnKeys], found: dict[str, Message]) -> None:
        """Adds the turns that are known to `found`, by either of their keys. What fails has not taken them away."""
        await self._read([turn.path for turn in turns], found)
        unknown = [turn for turn in turns if turn.path not in found]
        if unknown:
            leads = await self.store.get(self._owner, [turn.neighbour for turn in unknown])
            where = {key: value.decode() for key, value in leads.items()}
            there: dict[str, Message] = {}
            if where:
                await self._read(set(where.values()), there)
            found |= {key: there[path] for key, path in where.items() if path in there}

    async def _read(self, keys: Collection[str], found: dict[str, Message]) -> None:
        def take(values: Mapping[str, bytes]) -> None:
            found.update({key: Message.from_dict(json.loads(value)) for key, value in values.items()})

        try:
            take(await self.store.get(self._owner, list(keys)))
        except StoreError as error:
            take(error.found)
            raise


async def _within(work: Awaitable[object], done: str) -> ProtocolWarning | None:
    """Waits for a store, but not long. Returns a warning if it fails."""
    try:
        with anyio.fail_after(_PATIENCE):
            await work
    except Exception as error:  # whatever a store raises: the model can still answer, or has answered
        known = isinstance(error, StoreError | TimeoutError)
        _logger.warning(
            "the cache of earlier turns could not be %s: %s", done, error, exc_info=None if known else error
        )
        detail = f"the cache of earlier turns could not be {done}: {type(error).__name__}"
        return ProtocolWarning("memory_failed", detail)
    return None


def _open(where: str, retention: Retention | None) -> TurnStore:
    return lasting_store(where, retention, table="turns")


def read_turn_cache(
    given: TurnCache | TurnStore | str | bool | None, retention: Retention | None = None
) -> TurnCache | None:
    """Returns the cache that a caller means: True is one in this process, False and None are none at all.

    Args:
        retention: of a store that is made here. A turn has two records: itself, and a short one that leads to it.

    Raises:
        ConfigError: it is something else.
    """
    match given:
        case None | False:
            return None
        case True:
            return TurnCache(MemoryStore(retention))
        case TurnCache():
            return given
        case str() if given:
            return TurnCache(_open(given, retention))
    if hasattr(given, "get") and hasattr(given, "put") and not isinstance(given, dict | str):
        return TurnCache(given)
    raise ConfigError(f"memory must be a TurnCache, a store or its name, True or False, not {type(given).__name__}")


def _answering(made: list[Message], returned: Sequence[Message], changed: Sequence[int]) -> list[Message]:
    """Returns the conversation with results under the ids that the calls of their turns have got back."""
    ids: dict[str | None, str] = {}
    for at in changed:
        pairs = zip(returned[at].tool_calls, made[at].tool_calls, strict=True)
        ids |= {before.id: call.id for before, call in pairs if before.id != call.id}
    return [replace(each, tool_call_id=ids.get(each.tool_call_id, each.tool_call_id)) for each in made] if ids else made


def _gives(returned: Message, stored: Message) -> bool:
    """Returns whether a stored turn has anything that the returned one lacks."""
    if stored.reasoning is not None and not returned.reasoning:
        return True
    if any(returned.extras.get(name) != value for name, value in stored.extras.items()):
        return True
    pairs = zip(returned.tool_calls, stored.tool_calls, strict=True)
    return any(kept.extra and kept.extra != call.extra for call, kept in pairs)
