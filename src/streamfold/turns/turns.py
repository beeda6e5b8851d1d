"""Which turn of the model is which, and what a turn that a client returned has lost.

The id of a call does not say which turn it belongs to: Kimi's ids are `functions.NAME:0` in every conversation, and
several engines count from `call_0` in every answer. So a turn is known by what its client returns of it (all of its
calls, each with id, name and arguments; without calls, the text) together with its place in the conversation. The place
is described twice, because clients rewrite conversations as they grow:

- the path: the first user message and all calls before the turn. It stays the same where old results are cleared;
- the neighbour: the message before the turn, and the calls of the turn before it. It stays the same where the beginning
  is summarized.

Clients of Gemini's API need not return the ids of calls. For them the second key has no ids in it, and the place is
described by all that is known without them: the first user message, all calls before the turn by their names and
arguments, and the text before it.

A turn that fits neither is unknown. Nothing of the keys can be read back: each is a hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from ..values import Message, TextPart, ToolCall

_FORMAT = "2"  # of keys and values in a store: another number finds nothing of an older version


@dataclass(frozen=True, slots=True)
class TurnKeys:
    """The two keys of a turn in a store."""

    path: str
    neighbour: str


def turn_keys(messages: Sequence[Message], *, ids: bool = True) -> Iterator[tuple[int, TurnKeys]]:
    """Yields the position and the keys of each turn of the model that can be told from others.

    Args:
        ids: whether clients return the ids of calls.
    """
    path = bare_path = calls_before = ""
    opening = before = text_before = None
    for at, message in enumerate(messages):
        if message.role != "assistant":
            text_before = _text(message)
            before = _digest(message.role, message.tool_call_id, text_before)
            if opening is None and message.role == "user":
                opening = before
            continue
        if not message.tool_calls and not _text(message):
            continue
        said = [_call(call) for call in message.tool_calls] or _text(message)
        turn = (_FORMAT, said)
        bare = [_call(call)[1:] for call in message.tool_calls] or _text(message)
        near = ("neighbour", *turn, before, calls_before)
        without_ids = ("bare", _FORMAT, bare, opening, bare_path, text_before)
        yield at, TurnKeys(_digest("path", *turn, opening, path), _digest(*(near if ids else without_ids)))
        if message.tool_calls:
            path, bare_path = _digest(path, said), _digest(bare_path, bare)
            calls_before = _digest(said)


def says_more(message: Message) -> bool:
    """Returns whether a turn has something that a client may leave out and its provider may want back."""
    return bool(message.reasoning is not None or message.extras or any(call.extra for call in message.tool_calls))


def merged(returned: Message, stored: Message) -> Message:
    """Returns a turn as its client returned it, with what it has lost.

    The client's own text and reasoning win, where they are not empty: it may have edited them. The calls are the
    stored ones, byte for byte: the same ids, names and arguments, as `turn_keys` has found.
    """
    kept = {name: value for name, value in returned.extras.items() if name not in _FORMS}
    return replace(
        stored,
        content=_content(returned, stored),
        reasoning=returned.reasoning or stored.reasoning,
        refusal=returned.refusal or stored.refusal,
        name=returned.name,
        extras={**kept, **stored.extras},
        partial=returned.partial,
        cache=returned.cache,
    )


_FORMS = ("blocks", "output")  # the turn once more, in the form in which the client's API has it


def _content(returned: Message, stored: Message) -> Any:
    same = _raw_text(returned) == _raw_text(stored)  # and parts may have marks of their own
    edited = _text(returned) not in ("", _text(stored))
    return returned.content if same or edited else stored.content


def _call(call: ToolCall) -> list[Any]:
    return [call.id, call.name, {"_raw": call.raw_arguments} if call.error else _plain(call.arguments)]


def _plain(value: Any) -> Any:
    """Returns arguments as they are the same in every language: `1.0` is `1` to JavaScript."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case Mapping():
            return {name: _plain(member) for name, member in value.items()}
        case list():
            return [_plain(member) for member in value]
    return value


def _text(message: Message) -> str:
    """Returns the text of a message without its white space, which clients trim and join in their own ways."""
    return "".join(_raw_text(message).split())


def _raw_text(message: Message) -> str:
    content = message.content
    return content or "" if isinstance(content, str | None) else "".join(map(_part_text, content))


def _part_text(part: Any) -> str:
    if isinstance(part, TextPart):
        return part.text
    return str(part.get("text") or "") if isinstance(part, Mapping) else ""


def _digest(*parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=20).hexdigest()
