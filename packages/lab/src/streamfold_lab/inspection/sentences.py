"""Describes deltas (the parsed pieces of a stream) and the decoder's decisions, for the terminal, the JSON output and
the HTML page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamfold import HostedPart, Usage
from streamfold.adapters import (
    Block,
    BlockEnd,
    BlockPiece,
    BlockSummary,
    CallSummary,
    Delta,
    ExtraPart,
    Failure,
    Finish,
    ItemSummary,
    MessageStart,
    Meta,
    RanOnServer,
    ReasoningDelta,
    RefusalDelta,
    Sequence,
    ServedBy,
    StopSequenceHit,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    ToolRequests,
    UsageUpdate,
    Warn,
    str_or_none,
)
from streamfold.engine import CallMatch, MatchRule

from .values import Inspection

_KINDS: dict[type[object], str] = {  # kinds that differ from the name of the class
    Warn: "warning", MessageStart: "message", UsageUpdate: "usage", BlockPiece: "block", BlockEnd: "block",
    HostedPart: "tool", ToolRequests: "requests", ServedBy: "meta", TextDelta: "text",
    ReasoningDelta: "reasoning", RefusalDelta: "refusal", ToolCallDelta: "call", CallSummary: "summary",
    ItemSummary: "items", BlockSummary: "items",
    ExtraPart: "extra",
    RanOnServer: "answered", StopSequenceHit: "stopped", StreamEnd: "done",
}  # fmt: skip


def delta_kind(delta: Delta) -> str:
    """Returns one word for the kind of a delta, such as `text`."""
    kind = type(delta)
    return _KINDS.get(kind) or kind.__name__.lower()


def called(number: int, name: str) -> str:
    """Returns the label of a tool call, such as `call 1 (get_time)`."""
    return f"call {number} ({name if name.isprintable() else repr(name)})" if name else f"call {number}"


_PLACEMENTS: Mapping[MatchRule, str] = {
    "item": "item {item} is known: continues {here}",
    "index": "index {index} is in use: continues {here}",
    "changed_id": "index {index} is in use, the id differs, but no new call begins: continues {here}",
    "id": "id {id} is known: continues {here}",
    "last": "{unknown}: the last call continues, {here}",
    "turn": "{unknown}, no name: arguments for {here}, the next tool call without arguments",
    "first": "no call is open: opens {here}",
    "index_taken": "index {index} belongs to {there}, but {news}: opens {here}",
    "id_taken": "id {id} belongs to {there}, but {news}: opens {here}",
    "another": "no index, and {news}: opens {here}",
    "new_index": "index {index} is new: opens {here}",
    "new_item": "item {item} is new: opens {here}",
    "listed_id": "{list}: id {id} belongs to {here}",
    "listed_item": "{list}: item {item} belongs to {here}",
    "listed_index": "{list}: the id is unknown, but the position and name are those of {here}",
    "listed_name": "{list}: the id is unknown; the next call with this name is {here}",
    "listed_new": "{list}: this call was not streamed: opens {here}",
}


def placement_words(found: CallMatch) -> str:
    """Explains why the decoder assigned a tool call fragment to this tool call."""
    part, call, rival = found.part, found.call, found.rival
    # How the fragment differs from the tool call that it might continue.
    news = "a new object begins"
    if part.id and (rival is None or rival.id != part.id):
        news = f"id {_quoted(part.id)} {'differs' if rival else 'is new'}"
    elif part.name and rival and part.name != rival.name:
        news = f"the name is {_quoted(part.name)}"
    return _PLACEMENTS[found.rule].format(
        here=called(call.number, call.name),
        there=called(rival.number, rival.name) if rival else "another call",
        index=part.index,
        unknown="no index" if part.index is None else f"unknown index {part.index}",
        id=_quoted(part.id),
        item=_quoted(part.item),
        news=news,
        list="the server's final list of tool calls",
    )


def delta_words(delta: Delta) -> str:
    """Describes a delta in one line."""
    match delta:
        case TextDelta(text, _, whole) | ReasoningDelta(text, _, whole) | RefusalDelta(text, _, whole):
            return f"{'complete: ' * whole}{_shown(text)}"
        case ToolCallDelta(index, call_id, name, arguments, whole):
            parts = [f"index {index}"] if index is not None else []
            parts += [f"id {_quoted(call_id)}"] if call_id else []
            parts += [f"name {_quoted(name)}"] if name else []
            parts += [f"{'all ' * whole}arguments {_shown(arguments)}"] if arguments else []
            return ", ".join(parts) or "nothing"
        case CallSummary(calls):
            return "the server's final list of tool calls: " + (", ".join(call.name or "?" for call in calls) or "none")
        case ItemSummary(items) | BlockSummary(items):
            return f"the server's final list of items: {len(items)}"
        case ExtraPart(name, value):
            return f"{name}: {_cut(repr(value))}"
        case Sequence(number, event_id):
            if number is not None:
                return f"event number {number}"
            return f"event {event_id}" if event_id else "no event number"
        case Meta(response_id, model):
            return ", ".join(said for value in (response_id, model) if (said := str_or_none(value))) or "nothing new"
        case Warn(code, detail):
            return f"{code}: {detail}"
        case Failure(info):
            return info.message
        case Usage():
            return usage_words(delta)
        case Finish(reason, raw):
            return reason if reason == raw else f"{reason} (as sent: {_quoted(raw)})"
        case StreamEnd():
            return "nothing follows"
        case StopSequenceHit(text):
            return f"the text ends at {_quoted(text)}"
        case MessageStart(message_id):
            return f"message {_quoted(message_id or '')} begins"
        case UsageUpdate(members):
            return _cut(repr(dict(members)))
        case Block(index, kind, value):
            return f"{_at(index)}{kind}: {_cut(repr(value))}"
        case BlockPiece(index, _, member, value):
            return f"{_at(index)}{member}: {_cut(repr(value))}"
        case BlockEnd(index):
            return f"{_at(index)}complete"
        case RanOnServer(call_id, name):
            return f"the server ran the call {_quoted(call_id or name or '')} itself"
        case HostedPart(kind, part, runs, _, _, _, _, written):
            said = "" if written is None else f": {_cut(repr(written))}"
            return f"{kind}, {part}, run by the {runs}{said}"
        case ServedBy(model):
            return f"{_quoted(model)} continues the response"
        case ToolRequests(kind, number):
            return f"{kind}: {number} requests"


def _at(index: int | None) -> str:
    return "" if index is None else f"block {index}, "


def unshown_words(deltas: Iterable[Delta], text: str, reasoning: str, *, by_dialect: bool) -> Iterator[str]:
    """Explains why an event with text adds no new text to the reply."""
    for kind, shown in ((TextDelta, text), (ReasoningDelta, reasoning)):
        pieces = [delta for delta in deltas if isinstance(delta, kind) and delta.text]
        if shown or not pieces:
            continue
        what = delta_kind(pieces[0])
        if all(piece.whole or piece.part for piece in pieces):
            yield f"{what}: already received, so nothing is new"
        elif by_dialect:
            yield f"{what}: held back by the dialect, because it is markup or may become markup"
        else:
            yield f"{what}: half of a character, held back until the other half arrives"


def stream_words(made: Inspection) -> list[str]:
    """Returns the properties of a stream, each described in a few words."""
    facts = [made.adapter + (f" + {made.dialect}" if made.dialect else ""), _many(made.count, "event")]
    facts.append(f"{made.size:,} bytes")
    facts += [_many(len(made.pieces), "piece") + " from the network"] if made.pieces else []
    facts.append("no times recorded" if made.duration is None else f"{made.duration:.3f} s")
    facts += [f"HTTP {made.about['status']}"] if "status" in made.about else []
    return facts


def usage_words(usage: Usage) -> str:
    """Returns the token counts of a usage as one line of text."""
    counts = [
        (usage.input_tokens, "in"),
        (usage.output_tokens, "out"),
        (usage.cached_tokens, "cached"),
        (usage.reasoning_tokens, "reasoning"),
    ]
    return ", ".join(f"{count} {what}" for count, what in counts if count is not None) + " tokens"


def _quoted(name: str | None) -> str:
    name = name or ""
    return repr(name if len(name) <= 26 else f"{name[:12]}...{name[-8:]}")


def _shown(text: str) -> str:
    return repr(_cut(text))


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _cut(text: str) -> str:
    return text if len(text) <= 120 else text[:120] + "..."
