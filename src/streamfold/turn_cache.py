"""A cache of turns, which restores reasoning, signatures and encrypted items that clients leave out of earlier turns.

A turn is an assistant message. The cache restores a turn only in the same conversation. A turn's cache key is a hash of
the end user, the instructions, and all messages up to and including the turn. Neither a tool call's id nor an answer's
text identifies a conversation: Kimi's ids are the same in every conversation (`functions.NAME:0`), and two users who
say "Hi" may get the same greeting. The cache key doesn't depend on tools, because agents may load tools late. It
doesn't depend on reasoning, because clients leave it out. It doesn't depend on text that agents add and later remove
(see `_UNSTABLE`). If a client changes a message, for example by clearing an old tool result, the cache doesn't find the
turns after this message.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

import anyio
import anyio.to_thread

from .answers import ChatModel, ChatParams, ChatStream, ChunkSource, WrappedAnswer, forward_source
from .errors import APIError, ConfigError
from .net import Interrupted, run_within
from .requests import GO_ON_MESSAGE, call_values, content_values, digest_parts, part_value
from .stores import MemoryStore, Retention, StoreError, persistent_store
from .types import TURN_EXTRAS, Message, Reply, ReplyWarning

__all__ = ["RestoredHistory", "TurnCache", "TurnStore", "named_end_user", "read_turn_cache"]

_FORMAT = "3"  # version of keys and values in a store
_STORE_TIMEOUT = 2.0  # seconds that an answer waits for the store, before it and after it
_LARGE = 2**18  # characters of a conversation above which its keys are made in a thread

_logger = logging.getLogger("streamfold")

# Members of requests that name the end user. OpenAI: `user`, and its successors `safety_identifier` and
# `prompt_cache_key` (https://platform.openai.com/docs/api-reference/chat/create#chat_create-user). GLM: `user_id`.
_USER_MEMBERS = frozenset(["user", "user_id", "end_user", "end_user_id", "safety_identifier", "prompt_cache_key"])
# Objects with names that the application or the client chooses. All of their members count, except those that name one
# request. Messages API: `metadata.user_id`. OpenAI: `metadata`. Vertex AI: `labels`. Bedrock: `requestMetadata`.
_USER_OBJECTS = frozenset(["metadata", "labels", "request_metadata"])
_NAMES_A_USER = frozenset(["user", "userid", "username", "customer", "member", "account", "tenant", "email"])
_NAMES_ONE_REQUEST = frozenset(
    ["trace", "span", "request", "message", "generation", "turn", "run", "attempt", "timestamp", "time", "date"]
)
# Headers of applications and of proxies that authenticate: X-OpenWebUI-User-Id, X-Forwarded-User, X-Auth-Request-Email.
_USER_HEADER = re.compile(r"(?:^|-)(?:user|email)(?:-(?:id|email|name))?", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def named_end_user(
    members: Mapping[str, Any], headers: Mapping[str, str] | None = None, *, explicit: bool = False
) -> str:
    """Returns a hash of the request fields and headers that identify the end user, or "" if the request has none.

    Args:
        members: the request body in the format of any API, or the fields that `extra_body` adds to the body.
        explicit: True to ignore fields that may identify something other than a user, such as `prompt_cache_key`.
    """
    named = [*_named_in(members, explicit=explicit)]
    for name, text in (headers or {}).items():
        found = _USER_HEADER.search(name)
        if found is not None and found.end() == len(name):
            named.append((name.lower(), text))
    return digest_parts("end user", sorted(named, key=str)) if named else ""


def _named_in(members: Mapping[str, Any], *, explicit: bool) -> Iterator[tuple[str, Any]]:
    for name, value in members.items():
        plain = "_".join(_words(name))
        if value in (None, "", {}, []) or (explicit and plain == "prompt_cache_key"):
            continue
        if plain in _USER_MEMBERS:
            yield plain, value
        elif plain == "extra_body" and isinstance(value, Mapping):
            yield from _named_in(value, explicit=explicit)
        elif plain in _USER_OBJECTS and isinstance(value, Mapping):
            words = {key: {*_words(key)} for key in value}
            kept = {
                key: value[key]
                for key in value
                if (words[key] & _NAMES_A_USER if explicit else not words[key] & _NAMES_ONE_REQUEST)
            }
            if kept:
                yield plain, kept
        elif plain in _USER_OBJECTS and not explicit:
            yield plain, value


def _words(name: str) -> list[str]:
    """Returns the words of a field name in lower case: `userId`, `user_id` and `user-id` are the same."""
    return [word.lower() for word in _WORD.findall(name)]


@dataclass(frozen=True, slots=True)
class _Unstable:
    """A kind of text that an agent adds to a request and removes from later requests. Cache keys don't depend on such
    text.

    Attributes:
        client: the agent.
        text: a pattern that matches the complete text part.
        role: the role of the message with the part.
        after_results: True if the agent adds the text only directly after tool results, and not to the user's first
            message.
    """

    client: str
    text: re.Pattern[str]
    role: str
    after_results: bool


_UNSTABLE = (
    # Reminders after tool results, which are missing in the next request. Reminders in the user's first turn contain
    # the user's own files, and stay.
    _Unstable(
        "Claude Code 2.1",
        re.compile(r"(?:\s*<system-reminder>(?:(?!</?system-reminder>).)*</system-reminder>)+\s*", re.DOTALL),
        "user",
        after_results=True,
    ),
    # A line before the agent's instructions, with a checksum that changes with every request
    # (ggml-org/llama.cpp#21793).
    _Unstable(
        "Claude Code 2.1",
        re.compile(r"x-anthropic-billing-header:[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*\n?"),
        "system",
        after_results=False,
    ),
)


def _positions(messages: Sequence[Message], end_user: str) -> Iterator[str]:
    """Yields, for each message, a hash of all messages before it. At the end, yields a hash of all messages."""
    digest = digest_parts(_FORMAT, end_user)
    after_results = user_has_spoken = False
    for message in messages:
        yield digest
        if message is GO_ON_MESSAGE:  # streamfold added this message, so the client doesn't send it
            continue
        if (counted := _counted(message, reminded=after_results and user_has_spoken)) is not None:
            digest = digest_parts(digest, counted)
        after_results = message.role == "tool"
        user_has_spoken = user_has_spoken or message.role == "user"
    yield digest


def _turn_key(position: str, calls: list[list[Any]], text: str, name: str | None) -> str:
    """Returns the cache key of a turn at a position in the conversation. The key doesn't depend on white space, because
    clients change it."""
    return digest_parts(position, calls, "".join(text.split()), name)


def _without_id(call: list[Any]) -> list[Any]:
    return [None, *call[1:]]


def _counted(message: Message, *, reminded: bool) -> Any:
    """Returns the parts of a message that are hashed for the cache keys of later turns, or None if there are none.

    Args:
        reminded: True if the message may contain text that an agent removes from later requests.
    """
    if message.role == "assistant":
        calls = [call_values(call) for call in message.tool_calls]
        steps = [part for part in message.hosted if part.kind not in ("additional_tools", "tool_search")]
        hosted = [part_value(part.raw) for part in steps]
        parts = content_values(message)
        if not (calls or hosted or parts or message.refusal):
            return None
        return [message.role, parts, message.refusal, message.name, calls, hosted]
    unstable = [each.text for each in _UNSTABLE if each.role == message.role and (reminded or not each.after_results)]
    parts = [
        part
        for part in content_values(message)
        if not (isinstance(part, str) and any(text.fullmatch(part) for text in unstable))
    ]
    extras = {name: value for name, value in message.extras.items() if name != "cache_control"}
    if not (parts or extras) and (message.content or message.tools):
        return None
    return [message.role, parts, message.name, message.tool_call_id, message.error, extras]


def _text(message: Message) -> str:
    return "".join(part for part in content_values(message) if isinstance(part, str))


def _can_be_known(message: Message) -> bool:
    """Returns True if a message can have a cache key: an assistant message with tool calls or text."""
    return message.role == "assistant" and bool(message.tool_calls or _text(message).strip())


def _missing(returned: Message, stored: Message) -> list[str]:
    """Returns the kinds of data that the stored turn has and the client's turn lacks."""
    pairs = list(zip(returned.tool_calls, stored.tool_calls, strict=True))
    found = {
        "reasoning": stored.reasoning is not None and not returned.reasoning,
        "provider data": any(returned.extras.get(name) != value for name, value in stored.extras.items()),
        "signatures": any(kept.extra and kept.extra != call.extra for call, kept in pairs),
    }
    return [what for what, lost in found.items() if lost]


def _restore_turn(returned: Message, stored: Message) -> Message:
    """Returns the client's turn with the data that the client left out. Reasoning in the client's turn stays unchanged,
    because the client may have edited it.
    """
    kept = {name: value for name, value in returned.extras.items() if name not in TURN_EXTRAS}
    return replace(
        stored,
        content=returned.content if _text(returned) == _text(stored) else stored.content,
        reasoning=returned.reasoning or stored.reasoning,
        refusal=returned.refusal or stored.refusal,
        name=returned.name,
        extras={**kept, **stored.extras},
        partial=returned.partial,
        cache=returned.cache,
    )


class TurnStore(Protocol):
    """The interface of a store of turns. Each `streamfold.stores.Store` implements it.

    A store may delete entries at any time. If one of its methods raises an exception or takes more than two seconds,
    the reply has the warning `turn_cache_failed`.
    """

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the stored values, by cache key. Keys without a stored value are missing from the result."""
        ...

    async def put(self, owner: str, values: Mapping[str, bytes]) -> bool:
        """Stores values by cache key, and replaces earlier values of the same keys. Returns True on success."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


@dataclass(frozen=True, slots=True)
class RestoredHistory:
    """A conversation in which a `TurnCache` has restored turns.

    Attributes:
        changed: the indexes of the restored turns in the conversation.
        warnings: `turn_restored` and `turn_cache_failed`.
    """

    messages: tuple[Message, ...]
    changed: tuple[int, ...] = ()
    warnings: tuple[ReplyWarning, ...] = ()


class TurnCache:
    """Stores data that clients leave out of earlier turns, and restores it in later requests.

    Several providers reject a request if earlier turns of a tool loop lack reasoning, thinking blocks with signatures,
    Gemini's thought signatures, or encrypted items. `reply.message` contains this data. Conversations of plain dicts,
    or from other clients, often lack this data.

        provider = Provider.from_config("kimi", turn_cache="sqlite:///turns.db")

    A turn is restored only for the same owner and end user, and after the same instructions and messages. Tools may
    change. The cache doesn't change messages with an `origin`, because they come from streamfold and are complete.

    Args:
        store: a store, or its URL, as for `streamfold.stores.open_store`.
        owner: the user, tenant or gateway key that the conversations belong to. An owner never gets turns of another
            owner.
        end_user: the user of the owner's application. With None, the end user is the one that a request names (see the
            guide).
        ids: True if clients send the ids of tool calls back. With False, the cache finds a turn by the names and
            arguments of its tool calls, and restores the ids too.
    """

    def __init__(
        self, store: TurnStore | str = "memory", *, owner: str = "", end_user: str | None = None, ids: bool = True
    ) -> None:
        self.store: TurnStore = persistent_store(store, table="turns") if isinstance(store, str) else store
        self.owner = owner
        self.end_user = end_user
        self._ids = ids
        self._stored_owner = sha256(owner.encode("utf-8", "surrogatepass")).hexdigest() if owner else ""

    def of(self, *owner: str, end_user: str | None = None, ids: bool = True) -> TurnCache:
        """Returns a cache that uses the same store, for one user, tenant or gateway key.

        Args:
            owner: names that are appended to the owner of this cache.
            end_user, ids: see `TurnCache`.
        """
        named = json.dumps([self.owner, *owner]).encode("utf-8", "surrogatepass")
        return TurnCache(self.store, owner=sha256(named).hexdigest(), end_user=end_user, ids=ids)

    def for_end_user(self, name: str) -> TurnCache:
        """Returns a cache that uses the same store, for one of the owner's users. `""` stands for requests without a
        user."""
        return TurnCache(self.store, owner=self.owner, end_user=name, ids=self._ids)

    async def recall(self, messages: Sequence[Message]) -> RestoredHistory:
        """Returns the conversation with the data that the client left out, if the cache has stored the data."""
        wanted = [at for at, message in enumerate(messages) if _can_be_known(message) and message.origin is None]
        if not wanted:
            return RestoredHistory(tuple(messages))
        positions = await self._positions(messages)
        turns = {
            at: _turn_key(positions[at], self._calls(messages[at]), _text(messages[at]), messages[at].name)
            for at in wanted
        }
        found: dict[str, Message] = {}
        failure = await _within(self._read([*turns.values()], found), "read")
        made, lost = list(messages), dict[int, list[str]]()
        ids: dict[str | None, str] = {}  # ids of restored tool calls, by the ids that the client sent
        for at, key in turns.items():
            stored = found.get(key)
            if stored is not None and (missing := _missing(messages[at], stored)):
                made[at] = _restore_turn(messages[at], stored)
                lost[at] = missing
                pairs = zip(messages[at].tool_calls, stored.tool_calls, strict=True)
                ids |= {before.id: call.id for before, call in pairs if before.id != call.id}
        if ids:
            made = [replace(each, tool_call_id=ids.get(each.tool_call_id, each.tool_call_id)) for each in made]
        warnings = [failure] if failure else []
        if lost:
            given = "; ".join(f"messages[{at}]: {', '.join(missing)}" for at, missing in lost.items())
            warnings.append(ReplyWarning("turn_restored", f"restored from the turn cache: {given}"))
        return RestoredHistory(tuple(made), tuple(lost), tuple(warnings))

    async def remember(self, messages: Sequence[Message], reply: Reply) -> ReplyWarning | None:
        """Stores the response to a conversation, if clients may leave out parts of it.

        Returns:
            A warning if the store failed, otherwise None.
        """
        message = reply.message
        has_extra = message.extras or any(call.extra for call in message.tool_calls)
        if (message.reasoning is None and not has_extra) or not _can_be_known(message):
            return None
        position = (await self._positions(messages))[-1]
        keys = [_turn_key(position, calls, text, message.name) for calls, text in self._returned_forms(message)]
        value = json.dumps(message.to_dict(), separators=(",", ":")).encode()
        return await _within(self.store.put(self._stored_owner, dict.fromkeys(keys, value)), "written")

    def chat_stream(self, model: ChatModel, params: ChatParams) -> ChatStream:
        """Returns the answer of a model. The cache restores earlier turns before the request is sent, and stores the
        answer when it is complete.

        Raises:
            ConfigError: the request can't be sent.
        """
        answer = _CachingAnswer(self, params, partial(forward_source, model))
        return ChatStream(answer, yields_call_deltas=params.partial_tool_calls)

    async def aclose(self) -> None:
        """Closes the store."""
        await self.store.aclose()

    def __repr__(self) -> str:
        return f"<TurnCache {self.store!r}>"

    def _calls(self, turn: Message) -> list[list[Any]]:
        """Returns the tool calls of a turn, as the turn's cache key contains them. If clients don't send ids back,
        leaves out ids that streamfold has generated.
        """
        return [
            _without_id(values)
            if not self._ids and re.fullmatch(rf"call_\d+_{re.escape(call.name)}", call.id)
            else values
            for call, values in ((call, call_values(call)) for call in turn.tool_calls)
        ]

    def _returned_forms(self, turn: Message) -> Iterator[tuple[list[list[Any]], str]]:
        """Yields the tool calls and the text of a turn in each form in which a client may send them back."""
        calls, text = self._calls(turn), _text(turn)
        yield calls, text
        if not self._ids:
            yield [_without_id(call) for call in calls], text
        elif calls:
            yield calls, ""  # many programs keep only the tool calls
        if turn.reasoning:  # pi 0.73 sends unsigned thinking back as text
            yield calls, turn.reasoning + text

    async def _positions(self, messages: Sequence[Message]) -> list[str]:
        work = partial(_positions, messages, self.end_user or "")
        size = sum(len(part) for message in messages for part in content_values(message) if isinstance(part, str))
        return await anyio.to_thread.run_sync(lambda: [*work()]) if size > _LARGE else [*work()]

    async def _read(self, keys: Collection[str], found: dict[str, Message]) -> None:
        """Adds the stored turns to `found`. If the store fails halfway, `found` contains the turns that were read
        before."""

        def take(values: Mapping[str, bytes]) -> None:
            found.update({key: Message.from_dict(json.loads(value)) for key, value in values.items()})

        try:
            take(await self.store.get(self._stored_owner, list(keys)))
        except StoreError as error:
            take(error.found)
            raise


class _CachingAnswer(WrappedAnswer):
    """The answer of a model with a turn cache. The cache restores earlier turns before the request is sent, and stores
    the answer before the last chunk is delivered.

    The request is validated when the stream is created, and again if the cache restored turns.

    Args:
        open_source: a function that validates a request without sending it, and returns the source of its chunks.
    """

    def __init__(
        self, cache: TurnCache, arguments: ChatParams, open_source: Callable[[ChatParams], ChunkSource]
    ) -> None:
        super().__init__(open_source(arguments))
        if cache.end_user is None:
            cache = cache.for_end_user(named_end_user(arguments.request.options.extra_body, arguments.extra_headers))
        self._cache = cache
        self._arguments = arguments
        self._open = open_source
        self._own = self._source.warnings
        self._recalled = False
        self._added: list[ReplyWarning] = []

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        return tuple(self._shown_warnings(self._source.warnings))

    async def _begin(self) -> None:
        recalled = await self._cache.recall(self._arguments.request.messages)
        self._added += recalled.warnings
        if recalled.changed and not self._closed:
            request = replace(self._arguments.request, messages=recalled.messages)
            self._source = self._open(replace(self._arguments, request=request))
            self._recalled = True

    async def _complete(self, reply: Reply) -> Reply:
        failed = await self._cache.remember(self._arguments.request.messages, reply)
        self._added += [failed] if failed else []
        shown = self._shown_warnings(reply.warnings)
        return reply if shown == reply.warnings else replace(reply, warnings=shown)

    def _fail(self, error: APIError) -> None:
        error.warnings = self._shown_warnings(error.warnings)

    def _shown_warnings(self, warnings: Sequence[ReplyWarning]) -> list[ReplyWarning]:
        if not self._recalled:
            return [*self._added, *warnings]
        own = [warning for warning in self._own if warning.code in _OF_RESTORED_PARTS]
        others = [warning for warning in warnings if warning.code not in _OF_RESTORED_PARTS]
        return [*self._added, *own, *others]


# These warnings are about content that the client didn't send.
_OF_RESTORED_PARTS = ("reasoning_dropped", "provider_data_dropped")


async def _within(work: Coroutine[Any, Any, object], done: str) -> ReplyWarning | None:
    """Waits for a turn store for at most two seconds. Returns a warning if the store fails."""
    try:
        try:
            await run_within(lambda: work, _STORE_TIMEOUT)
        except Interrupted:
            raise TimeoutError from None
    except Exception as error:  # the answer doesn't depend on the store
        known = isinstance(error, StoreError | TimeoutError)
        _logger.warning("the turn cache could not be %s: %s", done, error, exc_info=None if known else error)
        detail = f"the turn cache could not be {done}: {type(error).__name__}"
        return ReplyWarning("turn_cache_failed", detail)
    return None


def read_turn_cache(
    given: TurnCache | TurnStore | str | bool | None, retention: Retention | None = None
) -> TurnCache | None:
    """Returns the cache for the argument `turn_cache`: True is a cache in memory, False and None mean no cache.

    Args:
        retention: the limits of a store that this function creates. The cache stores up to three records per turn.

    Raises:
        ConfigError: the argument has a different type.
    """
    match given:
        case None | False:
            return None
        case True:
            return TurnCache(MemoryStore(retention))
        case TurnCache():
            return given
        case str() if given:
            return TurnCache(persistent_store(given, retention, table="turns"))
    if hasattr(given, "get") and hasattr(given, "put") and not isinstance(given, dict | str):
        return TurnCache(given)
    raise ConfigError(f"turn_cache must be a TurnCache, a store or its name, True or False, not {type(given).__name__}")
