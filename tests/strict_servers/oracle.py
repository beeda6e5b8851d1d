"""Reads a sent body back and compares its meaning with the conversation that was to be sent.

What may differ, each with a warning: an assistant's turn with nothing in it, or a blank text, is left out; equal
results of one call are one; results stand in the order of the calls, directly behind them; turns of one role are
joined; "Continue." is added before a first assistant's turn and behind a last one; system messages stand at the
beginning, or are sent as user text in their place; names lose other characters; arguments that are no object go as
`{"_raw": ...}`; reasoning is left out where the endpoint can't read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .chat import SYSTEM
from .conversations import Conversation, verdict
from .messages import blocks_of
from .responses import items_of, kind_of

MARK = re.compile(r"\bm\d+k\b")


@dataclass(frozen=True)
class Piece:
    """Something that a conversation says: a text, a call or a result, with its mark."""

    kind: str  # system, user, assistant, refusal, reasoning, call, result
    mark: str
    text: str
    call: int = -1  # of a call and of its result: its number in the conversation
    name: str = ""
    rank: int = 0  # its place; all results of a turn have one, since their order means nothing


@dataclass(frozen=True)
class Event:
    """Something that a body says. `call`: the number of the call, for a call and for its result."""

    kind: str
    text: str
    call: int = -1
    name: str = ""
    images: int = 0


@dataclass(frozen=True)
class Finding:
    """A difference in meaning: `lost`, `doubled`, `moved`, `changed`, `invented`, ... and what it is about."""

    problem: str
    about: str


def pieces_of(conversation: Conversation) -> list[Piece]:
    """Returns what must be in the body, in the order in which it must stand."""
    found: list[Piece] = []
    open_calls: dict[str, list[int]] = {}
    number = 0
    results: dict[int, list[Piece]] = {}
    for turn in conversation.turns:
        if turn.role == "tool":
            waiting = open_calls.get(turn.answers or "", [])
            call = waiting[0] if waiting else -1
            if len(waiting) > 1:
                waiting.pop(0)
            new = [Piece("result", each.group(), piece, call) for piece in turn.pieces for each in MARK.finditer(piece)]
            known = {piece.mark for piece in results.get(call, [])}
            results.setdefault(call, []).extend(piece for piece in new if piece.mark not in known)
            continue
        texts = [(turn.role, piece) for piece in turn.pieces]
        texts += [("refusal", turn.refusal)] if turn.refusal else []
        if turn.reasoning:
            texts.insert(0, ("reasoning", turn.reasoning))
        found += [Piece(kind, each.group(), text) for kind, text in texts for each in MARK.finditer(text)]
        for each in turn.calls:
            open_calls[each.id] = (
                open_calls.get(each.id, []) if each.id in {c.id for c in turn.calls[: turn.calls.index(each)]} else []
            )
            open_calls[each.id].append(number)
            found.append(Piece("call", each.mark, each.arguments, number, each.name))
            number += 1
        if turn.calls:
            last = range(number - len(turn.calls), number)
            found += [Piece("results of", "", "", place, rank=len(found)) for place in last]
    placed: list[Piece] = []
    for rank, piece in enumerate(found):
        if piece.kind == "results of":
            placed += [replace(each, rank=piece.rank) for each in results.get(piece.call, [])]
        else:
            placed.append(replace(piece, rank=rank))
    return placed


# --- reading bodies ----------------------------------------------------------------------------------------------


class _Reader:
    """Numbers calls and finds the call of a result: the newest one of its id, or the next one in order."""

    def __init__(self) -> None:
        self.count = 0
        self.by_id: dict[str, list[int]] = {}
        self.turn: list[int] = []

    def call(self, own: object) -> int:
        number = self.count
        self.count += 1
        self.turn.append(number)
        waiting = self.by_id.get(str(own), [])
        self.by_id[str(own)] = [*waiting, number] if waiting and waiting[0] in self.turn else [number]
        return number

    def result(self, own: object) -> int:
        waiting = self.by_id.get(str(own), [])
        return waiting.pop(0) if len(waiting) > 1 else (waiting[0] if waiting else -1)


def _texts(content: object, members: tuple[str, ...] = ("text",)) -> str:
    if isinstance(content, str):
        return content
    parts = [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    return "\n".join(str(part[name]) for part in parts for name in members if part.get(name))


def _media(content: object) -> int:
    kinds = ("image_url", "image", "input_image")
    return sum(each.get("type") in kinds for each in content) if isinstance(content, list) else 0


def _chat(body: Mapping[str, Any]) -> Iterator[Event]:
    reader = _Reader()
    for message in body.get("messages") or []:
        role, content = str(message.get("role")), message.get("content")
        if role == "tool":
            number = reader.result(message.get("tool_call_id"))
            yield Event("result", _texts(content), number, images=_media(content))
            continue
        for name in ("reasoning_content", "reasoning", "reasoning_text"):
            if message.get(name):
                yield Event("reasoning", str(message[name]))
                break
        if message.get("reasoning_details"):
            yield Event("reasoning", json.dumps(message["reasoning_details"], ensure_ascii=False))
        if isinstance(content, list):
            thinking = [part for part in content if part.get("type") in ("thinking", "reasoning")]
            if thinking:
                yield Event("reasoning", json.dumps(thinking, ensure_ascii=False))
                content = [part for part in content if part not in thinking]
        kind = "system" if role in SYSTEM else role
        yield Event(kind, _texts(content, ("text", "refusal")), images=_media(content))
        if message.get("refusal"):
            yield Event("refusal", str(message["refusal"]))
        reader.turn = []
        for call in message.get("tool_calls") or []:
            function = call.get("function") or {}
            number = reader.call(call.get("id"))
            yield Event("call", str(function.get("arguments")), number, str(function.get("name")))


def _responses(body: Mapping[str, Any]) -> Iterator[Event]:
    reader = _Reader()
    if body.get("instructions"):
        yield Event("system", str(body["instructions"]))
    for item in items_of(body):
        kind, content = kind_of(item), item.get("content")
        if kind != "function_call":
            reader.turn = []
        if kind == "message":
            role = str(item.get("role"))
            yield Event(
                "system" if role in SYSTEM else role, _texts(content, ("text", "refusal")), images=_media(content)
            )
        elif kind == "reasoning":
            yield Event("reasoning", _texts(item.get("summary")) + _texts(content))
        elif kind == "function_call":
            yield Event("call", str(item.get("arguments")), reader.call(item.get("call_id")), str(item.get("name")))
        elif kind == "function_call_output":
            output = item.get("output")
            yield Event("result", _texts(output), reader.result(item.get("call_id")), images=_media(output))


def _anthropic(body: Mapping[str, Any]) -> Iterator[Event]:
    reader = _Reader()
    for block in blocks_of(body.get("system") or []):
        yield Event("system", str(block.get("text")))
    for turn in body.get("messages") or []:
        reader.turn = []
        for block in blocks_of(turn.get("content")):
            kind = block.get("type")
            if kind == "text":
                yield Event(str(turn["role"]), str(block.get("text")))
            elif kind == "thinking":
                yield Event("reasoning", str(block.get("thinking")))
            elif kind == "image":
                yield Event(str(turn["role"]), "", images=1)
            elif kind == "tool_use":
                arguments = json.dumps(block.get("input"), ensure_ascii=False)
                yield Event("call", arguments, reader.call(block.get("id")), str(block.get("name")))
            elif kind == "tool_result":
                content = block.get("content")
                yield Event("result", _texts(content), reader.result(block.get("tool_use_id")), images=_media(content))


def _gemini(body: Mapping[str, Any]) -> Iterator[Event]:
    for part in (body.get("systemInstruction") or {}).get("parts") or []:
        yield Event("system", str(part.get("text")))
    count = 0
    waiting: list[tuple[int, str]] = []
    for content in body.get("contents") or []:
        role = "assistant" if content.get("role") == "model" else str(content.get("role"))
        for part in content.get("parts") or []:
            if "functionCall" in part:
                call = part["functionCall"]
                yield Event("call", json.dumps(call.get("args", {}), ensure_ascii=False), count, str(call.get("name")))
                waiting.append((count, str(call.get("name"))))
                count += 1
            elif "functionResponse" in part:
                response = part["functionResponse"]
                match = next((each for each in waiting if each[1] == response.get("name")), (-1, ""))
                waiting = [each for each in waiting if each != match]
                text = "\n".join(_strings(response.get("response")))
                yield Event("result", text, match[0], images=len(response.get("parts") or []))
            elif "inlineData" in part or "fileData" in part:
                yield Event(role, "", images=1)
            elif part.get("thought"):
                yield Event("reasoning", str(part.get("text")))
            else:
                yield Event(role, str(part.get("text") or ""))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif value is not None:
        yield json.dumps(value)


READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Event]]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}

# --- comparing ---------------------------------------------------------------------------------------------------

KINDS = {
    "system": ("system", "user"),
    "user": ("user",),
    "assistant": ("assistant",),
    "refusal": ("assistant", "refusal"),
    "reasoning": ("reasoning", "assistant"),
    "result": ("result",),
}
ADDED = {"", "Continue."}


def _flat(text: str) -> str:
    return " ".join(text.replace("\u2060", "").split())


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def findings(conversation: Conversation, api: str, body: Mapping[str, Any]) -> list[Finding]:
    """Returns the differences in meaning between a conversation and the body that was sent for it."""
    events = list(READERS[api](body))
    pieces = pieces_of(conversation)
    found: list[Finding] = []
    places: list[tuple[tuple[int, int], int]] = []
    for piece in pieces:
        if piece.kind == "call":
            continue
        hits = [
            (i, event.text.index(piece.mark))
            for i, event in enumerate(events)
            if piece.mark in MARK.findall(event.text) and event.kind != "call"
        ]
        hits = [hit for hit in hits if events[hit[0]].kind in KINDS[piece.kind]] or hits
        if not hits:
            found.append(Finding(f"{piece.kind} lost", piece.mark))
            continue
        event = events[hits[0][0]]
        if len(hits) > 1:
            found.append(Finding(f"{piece.kind} doubled", piece.mark))
        if event.kind not in KINDS[piece.kind]:
            found.append(Finding(f"{piece.kind} sent as {event.kind}", piece.mark))
        if _flat(piece.text) not in _flat(event.text):
            found.append(Finding(f"{piece.kind} changed", piece.mark))
        if piece.kind == "result" and event.kind == "result" and event.call != piece.call:
            found.append(Finding("result of another call", piece.mark))
        if piece.kind not in ("system", "reasoning"):
            places.append((hits[0], piece.rank))
    ranks = [rank for _, rank in sorted(places)]
    if ranks != sorted(ranks) and verdict(conversation)[0] == "send":
        found.append(Finding("order changed", ""))
    found += _calls(pieces, events)
    found += _systems(pieces, events)
    if not any(
        turn.error for turn in conversation.turns
    ):  # the text says that it is an error: no API has a place for it
        found += _invented(pieces, events)
    wanted = sum(turn.images for turn in conversation.turns)
    if sum(event.images for event in events) != wanted:
        found.append(Finding("image lost", ""))
    return found


def _calls(pieces: list[Piece], events: list[Event]) -> list[Finding]:
    wanted = [piece for piece in pieces if piece.kind == "call"]
    sent = [event for event in events if event.kind == "call"]
    if len(wanted) != len(sent):
        return [Finding(f"{len(wanted)} calls, {len(sent)} sent", "")]
    found = []
    for piece, event in zip(wanted, sent, strict=True):
        if _letters(piece.name)[:12] not in _letters(event.name):
            found.append(Finding("name of a call", f"{piece.name} as {event.name}"))
        if _value(piece.text) != _value(event.text) and not _wrapped(piece.text, event.text):
            found.append(Finding("arguments changed", f"{piece.text} as {event.text}"))
    return found


def _value(text: str) -> object:
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        return text


def _wrapped(text: str, sent: str) -> bool:
    """Whether arguments that are no object were sent as one that holds their text; `null` may be sent as `{}`."""
    value = _value(sent)
    if not isinstance(value, dict):
        return False
    return text in value.values() or (text == "null" and not value)


def _systems(pieces: list[Piece], events: list[Event]) -> list[Finding]:
    """System text may move to the beginning; as a user's text it stays between its neighbours."""
    found = []
    where = {mark: i for i, event in enumerate(events) if event.kind != "call" for mark in MARK.findall(event.text)}
    order = [piece for piece in pieces if piece.kind != "reasoning" and (piece.kind == "system" or piece.mark in where)]
    marks = [piece.mark for piece in order if piece.kind == "system" and piece.mark in where]
    if [where[mark] for mark in marks] != sorted(where[mark] for mark in marks):
        found.append(Finding("system messages in another order", ""))
    for i, piece in enumerate(order):
        if piece.kind != "system" or piece.mark not in where:
            continue
        before = [
            where[each.mark]
            for each in order[:i]
            if each.kind != "system" and each.kind != "call" and each.mark in where
        ]
        behind = [
            where[each.mark]
            for each in order[i + 1 :]
            if each.kind not in ("system", "call", "result") and each.mark in where
        ]
        place = where[piece.mark]
        if events[place].kind == "user" and ((before and place < max(before)) or (behind and place > min(behind))):
            found.append(Finding("system text moved among the turns", piece.mark))
        if behind and place > min(behind):
            found.append(Finding("system text sent later", piece.mark))
    return found


def _invented(pieces: list[Piece], events: list[Event]) -> list[Finding]:
    texts = sorted((_flat(piece.text) for piece in pieces if piece.text), key=len, reverse=True)
    found = []
    for event in events:
        if event.kind in ("call", "reasoning"):
            continue
        rest = _flat(event.text)
        for text in texts:
            rest = rest.replace(text, " ")
        rest = _flat(rest)
        if rest not in ADDED and re.search(r"\w", rest):
            found.append(Finding("words added", f"{event.kind}: {rest[:60]}"))
    return found
