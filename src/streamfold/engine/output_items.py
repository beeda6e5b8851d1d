"""Assembles the output items of the Responses API from their deltas, sorts them, and finds the tool calls that the
client must run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, TypeAlias, cast

from ..deltas import Finish
from ..jsontext import str_or_none, whole_characters
from ..types import (
    PLAIN_ITEMS,
    CallKind,
    ExtraPart,
    HostedPart,
    PartialToolCall,
    ToolCall,
    Usage,
    WarningCode,
    arguments_text,
    call_order,
    count_requests,
    hosted_parts,
    item_part,
)

# Output items of the Responses API that are neither messages nor function calls. A server sends such an item up to 3
# times: when it begins, when it is complete, and in the final list. An input that one of them lacks comes from another.

PIECES = "item_pieces"  # the name of an `ExtraPart` that contains a piece of an item
# The field that arrives in pieces, by the type of the item.
GROWING = {"custom_tool_call": "input", "mcp_call": "arguments", "code_interpreter_call": "code"}


@dataclass(slots=True, eq=False)
class _Item:
    """An output item that has begun.

    Attributes:
        begun: the item as the server first sent it.
        pieces: the streamed pieces of the item's input.
        whole: the item's complete input.
        done: true if the complete input or the finished item has arrived.
    """

    place: int | None
    begun: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    whole: str = ""
    done: bool = False

    @property
    def member(self) -> str:
        return GROWING.get(str(self.begun.get("type")), "")

    def grow(self, text: Any, *, whole: bool) -> None:
        self.done = self.done or whole
        if not whole:
            self.pieces.append(text)
        elif isinstance(text, str) and text:
            self.whole = text

    @property
    def text_so_far(self) -> str:
        return whole_characters(self.whole or "".join(self.pieces))

    def completed(self, item: dict[str, Any]) -> dict[str, Any]:
        text = self.whole or "".join(self.pieces)
        return {**item, self.member: text} if text and not item.get(self.member) else item


class HostedToolTracker:
    """Tracks the tool calls of one response whose tools aren't functions, and assembles their output items.

    Args:
        declared: the names of the declared tools. The client doesn't run calls of other custom tools, because xAI sends
            the calls of its hosted tools as custom tool calls.
    """

    def __init__(self, declared: Collection[str] = ()) -> None:
        self._declared = declared
        self._begun: list[_Item] = []
        self._known: dict[_Key, _Item] = {}  # the newest item for each key
        self._places: list[int | None] = []  # positions of the complete items
        self._listed = False
        self._shown: dict[tuple[str, str | None, str | None], HostedPart] = {}
        self.used = False
        self.requests: dict[str, int] = {}

    def observe(self, extra: ExtraPart) -> bool:
        """Records an output item, or a piece of an output item. Returns True if `extra` is a piece."""
        said, place = extra.value, extra.place
        if extra.name == "output" and extra.whole:
            self._listed = True
        elif extra.name == "output":
            self._places.append(place)
            if isinstance(said, dict) and said.get("type") not in PLAIN_ITEMS:
                # The server's final list may omit a finished item's input.
                item = self._find(said.get("id"), place)
                if item is None or item.begun.get("type") != said.get("type"):
                    item = self._begin(said, place)
                item.grow(said.get(item.member), whole=True)
        elif extra.name != PIECES:
            return False
        elif "item" in said:
            self._begin(said["item"], place)
        elif (item := self._find(said["id"], place)) is not None and item.begun.get("type") == said["type"]:
            item.grow(said["text"], whole=said["whole"])
        return extra.name == PIECES

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The incomplete calls of custom tools that the client will run."""
        begun = [item for item in self._begun if item.begun.get("type") == "custom_tool_call"]
        calls = [(str_or_none(item.begun.get("name")), item.text_so_far) for item in begun]
        return tuple(PartialToolCall(name, text, "custom") for name, text in calls if name and self._may_run(name))

    def record_if_new(self, part: HostedPart) -> bool:
        """Records a step of a hosted tool. Returns false if the server has sent the same step before."""
        key = (part.part, part.id, part.call_id)
        new = self._shown.get(key) != part or key[1:] == (None, None)
        self._shown[key], self.used = part, True
        return new

    def calls(
        self, extras: dict[str, Any], finish: Finish | None, warn: Callable[[WarningCode, str], None]
    ) -> tuple[list[ToolCall], list[str | None]]:
        """Returns the tool calls that the client must run, and the ids of all tool calls in their order. Adds the
        streamed input to each item in `extras` that lacks its input."""
        finished = finish is not None and finish.reason != "unknown"
        if items := self._complete(extras.get("output") or [], warn, finished=finished):
            extras["output"] = items
        if not self.used:
            return [], []
        parts = [part for part in hosted_parts(extras) if part.runs == "client"]
        calls = [_call(part) for part in parts if part.kind != "custom" or self._may_run(part.name)]
        return calls, call_order(extras)

    def count(self, usage: Usage | None, extras: Mapping[str, Any]) -> Usage | None:
        """Returns a copy of the usage with the number of requests to each hosted tool."""
        if usage is None:
            return usage
        said = {kind: number for kind, number in self.requests.items() if number}
        tools = {**(count_requests(extras) if self.used else {}), **said}
        return replace(usage, tools=tools) if tools else usage

    def _may_run(self, name: str | None) -> bool:
        return not self._declared or name in self._declared

    def _complete(
        self, items: list[Any], warn: Callable[[WarningCode, str], None], *, finished: bool
    ) -> list[dict[str, Any]]:
        """Returns the output items of a finished response in their order. Adds the streamed input to an item without
        input.

        Args:
            items: the items that the server sent as finished, or the items of the server's final list.
            finished: true if the server reports the response as complete.
        """
        if not self._begun and (self._listed or not items):
            return items  # nearly always
        places = list(range(len(items))) if self._listed else self._places
        found = [(place, item) for place, item in zip(places, items, strict=True) if isinstance(item, dict)]
        matches, added = _matches(self._begun, found) if self._begun else {}, list[_Placed]()
        for begun in self._begun:
            if (at := matches.get(id(begun))) is not None:  # its own position sorts it among items that the list lacks
                found[at] = (
                    found[at][0] if begun.place is None else begun.place,
                    _with_streamed_input(begun, found[at][1], warn),
                )
            elif (finished or begun.done) and (not self._listed or _is_clients(begun.begun)):
                added.append((begun.place, begun.completed(begun.begun)))
        found += added
        if (added or not self._listed) and all(place is not None for place, _ in found):
            found.sort(key=lambda placed: placed[0] or 0)
        return [item for _, item in found]

    def _begin(self, item: dict[str, Any], place: int | None) -> _Item:
        begun = _Item(place, item)
        self._begun.append(begun)
        self._known |= dict.fromkeys(_keys(item.get("id"), place).values(), begun)
        return begun

    def _find(self, item_id: Any, place: int | None) -> _Item | None:
        return next((self._known[key] for key in _keys(item_id, place).values() if key in self._known), None)


_Key: TypeAlias = tuple[Any, ...]
_Placed: TypeAlias = tuple[int | None, dict[str, Any]]


def _keys(item_id: Any, place: int | None, call_id: Any = None) -> dict[str, _Key]:
    """Returns the keys under which the tracker finds an item, the most reliable key first. A server may omit item ids,
    repeat them, or use a new id in each SSE event."""
    named = item_id if isinstance(item_id, str) and item_id else None
    known = {"both": (named, place), "id": (named,), "call": (str_or_none(call_id),), "place": (place,)}
    return {how: (how, *said) for how, said in known.items() if None not in said}


def _matches(begun: list[_Item], found: list[_Placed]) -> dict[int, int]:
    """Returns the index in `found` of each item in `begun`, by the item's `id()`. Leaves out items that `found` doesn't
    contain."""
    matches, taken = dict[int, int](), set[int]()

    def key(how: str, item: dict[str, Any], place: int | None) -> _Key:
        return str(item.get("type")), _keys(item.get("id"), place, item.get("call_id")).get(how)

    for how in ("both", "id", "call", "place"):
        numbers: dict[_Key, list[int]] = {}
        for at, (place, item) in reversed(list(enumerate(found))):
            if at not in taken:
                numbers.setdefault(key(how, item, place), []).append(at)
        for one in begun:
            said = key(how, one.begun, one.place)
            if said[1] is not None and id(one) not in matches and (left := numbers.get(said)):
                matches[id(one)] = left.pop()
                taken.add(matches[id(one)])
    return matches


def _is_clients(item: dict[str, Any]) -> bool:
    part = item_part(item)
    return part is not None and part.runs == "client"


def _with_streamed_input(
    begun: _Item, item: dict[str, Any], warn: Callable[[WarningCode, str], None]
) -> dict[str, Any]:
    completed, said = begun.completed(item), begun.whole or "".join(begun.pieces)
    if not _is_clients(item):
        return completed
    name = str_or_none(item.get("name")) or str(item.get("type"))
    if said and item.get(begun.member) != said:
        warn("arguments_mismatch", f"{name}: the deltas of `{begun.member}` and the complete `{begun.member}` differ")
    first, then = str_or_none(begun.begun.get("call_id")), str_or_none(item.get("call_id"))
    if first and then and first != then and begun.member:  # a tool search has another id when it is complete
        warn("changed_id", f"{name}: the server sent the id {first!r}, then {then!r}; the first id is used")
        return {**completed, "call_id": first}
    return completed


def _call(part: HostedPart) -> ToolCall:
    kind = cast("CallKind", "approval" if part.part == "approval" else part.kind)
    call_id = part.call_id or part.id or ""
    name = part.name or str(part.raw.get("type", part.kind)).removesuffix("_call")
    if kind == "custom":
        text = part.input if isinstance(part.input, str) else ""
        return ToolCall.custom(call_id, name, text)
    arguments = part.input if isinstance(part.input, dict) else {}
    checks = part.raw.get("pending_safety_checks") if kind == "computer" else None
    extra: dict[str, Any] = {"server": part.server} if part.server else {}
    if isinstance(checks, list) and checks:
        extra["pending_safety_checks"] = [check for check in checks if isinstance(check, dict)]
    return ToolCall(call_id, name, arguments, arguments_text(part), extra or None, kind)


def in_order(calls: list[ToolCall], order: Sequence[str | None]) -> list[ToolCall]:
    """Sorts tool calls by the position of their ids in `order`. A tool call whose id isn't in `order` gets the next
    position that no other tool call has."""
    places = {call_id: at for at, call_id in reversed(list(enumerate(order))) if call_id is not None}
    ids = {call.id for call in calls}
    free = chain((at for at, call_id in enumerate(order) if call_id not in ids), repeat(len(order)))
    placed = [(places[call.id] if call.id in places else next(free), call) for call in calls]
    return [call for _, call in sorted(placed, key=itemgetter(0))]
