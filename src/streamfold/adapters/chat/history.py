"""Earlier turns in the form that some servers demand: ids of calls, and pieces of reasoning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from string import ascii_letters, digits
from typing import Any

from ...errors import join_limited
from ...types import Message, ReplyWarning

_SHORT = re.compile(r"[A-Za-z0-9]{9}")
_ALPHABET = digits + ascii_letters
_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}  # what is encrypted comes whole


def ids_changed(
    messages: Iterable[Message], rename: Callable[[list[dict[str, Any]]], Iterable[Mapping[str, Any]]]
) -> list[ReplyWarning]:
    """Returns a warning that lists the ids of calls that `rename` changes in the written messages, if any."""
    before = [_with_ids(message) for message in messages]
    changed: dict[str, str] = {}
    for old, new in zip(before, rename(before), strict=True):
        pairs = zip(old["tool_calls"], new["tool_calls"], strict=True)
        changed.update({call["id"]: made["id"] for call, made in pairs if call["id"] != made["id"]})
    if not changed:
        return []
    shown = join_limited([f"{old!r} as {new!r}" for old, new in changed.items()])
    detail = f"ids of calls are sent in the provider's own style: {shown}"
    return [ReplyWarning("ids_renumbered", detail)]


def _with_ids(message: Message) -> dict[str, Any]:
    """Returns the part of a message that its ids depend on."""
    calls = [{"id": call.id, "function": {"name": call.name}} for call in message.tool_calls]
    return {"role": message.role, "tool_call_id": message.tool_call_id, "tool_calls": calls}


def shorten_call_ids(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Replaces ids of calls by ids of nine letters and digits. Ids in that form stay.

    Mistral refuses others: "Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9". A new id depends
    on the old one alone, so that a conversation that grows keeps its beginning, by which prompts are cached.
    """
    return [_with_short_id(message) for message in messages]


def _with_short_id(message: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(message)
    if isinstance(calls := out.get("tool_calls"), list):
        out["tool_calls"] = [{**call, "id": _short(call["id"])} if call.get("id") else call for call in calls]
    if out.get("tool_call_id"):
        out["tool_call_id"] = _short(out["tool_call_id"])
    return out


def _short(call_id: str) -> str:
    if _SHORT.fullmatch(call_id):
        return call_id
    number = int.from_bytes(sha256(call_id.encode("utf-8", "replace")).digest()[:8])
    made = ""
    for _ in range(9):
        number, rest = divmod(number, len(_ALPHABET))
        made += _ALPHABET[rest]
    return made


def merge_reasoning_details(pieces: Iterable[Any]) -> list[Any]:
    """Joins the pieces of each entry of `reasoning_details`, as an answer that is not streamed has them.

    A stream sends a detail in pieces of the same type and index, one behind the other, the signature with the last.
    Nothing else is changed, and the order is kept, for a signature holds for the whole of it:
    https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning
    """
    out: list[Any] = []
    for piece in pieces:
        if out and _continues(out[-1], piece):
            out[-1] = _joined(out[-1], piece)
        else:
            out.append(dict(piece) if isinstance(piece, Mapping) else piece)
    return out


def _continues(last: Any, piece: Any) -> bool:
    """Whether a piece belongs to the detail before it. Two with ids of their own are two."""
    if not isinstance(last, Mapping) or not isinstance(piece, Mapping) or piece.get("type") not in _TEXTS:
        return False
    if last.get("type") != piece["type"] or last.get("index") != piece.get("index"):
        return False
    ids = last.get("id"), piece.get("id")
    return not last.get("signature") and (None in ids or ids[0] == ids[1])


def _joined(last: Mapping[str, Any], piece: Mapping[str, Any]) -> dict[str, Any]:
    member = _TEXTS[str(piece["type"])]
    said = {name: value for name, value in piece.items() if value is not None or name not in last}
    text = f"{last.get(member) or ''}{piece.get(member) or ''}"
    return {**last, **said, member: text} if member in last or member in piece else {**last, **said}
