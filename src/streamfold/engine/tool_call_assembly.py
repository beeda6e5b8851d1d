"""Assigns tool call deltas to tool calls. This module contains the rules for this, and the state of a tool call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from ..errors import ProtocolError
from ..jsontext import BracketTracker, is_empty, is_empty_wrapper, object_or_none, whole_characters
from ..types import CallKind, Limits, ReplyWarning, ToolCallDelta

_NO_NAMES: frozenset[str] = frozenset()  # an empty one for each answer would take 216 bytes


class ToolNames:
    """Joins a tool's name that arrives in pieces. The declared tools' names show which pieces belong to one name."""

    def __init__(self, declared: Collection[str] = ()) -> None:
        self._declared = frozenset(declared) if declared else _NO_NAMES

    def is_piece(self, current: str, piece: str) -> bool:
        """Returns whether `piece` may continue the name `current`. If both texts are names of declared tools, they
        belong to two tool calls, unless a declared name begins with the joined text."""
        two_tools = current in self._declared and piece in self._declared
        return not two_tools or self._begins_any(current + piece)

    def is_declared_in_pieces(self, current: str, piece: str) -> bool:
        """Returns whether a declared name begins with `current` and `piece` joined, and `current` alone isn't
        declared."""
        return current not in self._declared and self._begins_any(current + piece)

    def joined(self, current: str, piece: str) -> str:
        """Returns the name with another piece appended. The piece may repeat (llama.cpp), contain or continue the
        name."""
        if piece == current:
            return current + piece if self.is_declared_in_pieces(current, piece) else current
        if piece.startswith(current):
            return piece
        if current in self._declared and not self._begins_any(current + piece):
            return current
        return current + piece

    def _begins_any(self, text: str) -> bool:
        return any(name.startswith(text) for name in self._declared)


_WHOLES = 3  # different complete arguments that a tool call keeps


class IncomingCall:
    """The state of a tool call while it arrives. Attributes that few tool calls need are class attributes until they
    are set.

    Attributes:
        number: the tool call's position in the order in which tool calls began: 0, 1, 2.
        index: the index that the server sent; None if the server sends no usable index.
        other_id: a second id that the server sent for the tool call. streamfold uses the first id, which is in `id`.
        wholes: the complete arguments that the server sent, at most the last three different texts.
        size: the number of characters in `pieces`.
        markup: true if the model wrote the tool call into its text.
        items: the item ids that the server used for the tool call (Responses API).
        came_whole: true if complete arguments arrived, even empty arguments.
        had_empty_repetition: true if the server sent empty complete arguments after other arguments. The empty
            arguments are ignored.
        done: true if the server marked the tool call as ended.
        broken_off: true if the server marked the tool call as incomplete.
        late: true if a fragment arrived after the last finish reason.
        gap_at: the value of `size` when SSE events were missing. None if no events were missing before the tool call
            was complete.
        has_gap: true if fragments of the arguments arrived both before and after the missing SSE events.
        guessed: true if a fragment was assigned to this tool call only because of its order.
        is_ambiguous: true if arguments that arrived without a name may belong to this tool call.
        listed: the tool call's position in the server's final list of tool calls.
        ran_on_server: true if the server ran the tool call itself.
    """

    id: str = ""
    name: str = ""
    other_id: str = ""
    markup: bool = False
    custom: bool = False
    extra: dict[str, Any] | None = None
    wholes: Sequence[str] = ()
    items: tuple[str, ...] = ()
    came_whole: bool = False
    had_empty_repetition: bool = False
    done: bool = False
    broken_off: bool = False
    late: bool = False
    has_gap: bool = False
    guessed: bool = False
    is_ambiguous: bool = False
    listed: int | None = None
    ran_on_server: bool = False
    _brackets: BracketTracker | None = None
    _followed = 0  # number of pieces that the tracker has scanned
    _closed: bool | None = None  # False: text follows the last bracket
    _value: Any = None  # the parsed arguments, if they were compared

    def __init__(self, number: int, index: int | None) -> None:
        self.number = number
        self.index = index
        self.pieces: list[str] = []
        self.size = 0
        self.gap_at: int | None = None

    @property
    def kind(self) -> CallKind:
        return "custom" if self.custom else "function"

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def text_so_far(self) -> str:
        return whole_characters(self.text or (self.wholes[-1] if self.wholes else ""))

    @property
    def has_arguments(self) -> bool:
        return bool(self.size or self.wholes)

    @property
    def waits(self) -> bool:
        """Returns whether arguments are still expected. `{}` may be a placeholder: Bedrock starts each tool call with
        `{}`."""
        return not (self.came_whole or self.wholes) and self.size < 8 and self.text.strip() in ("", "{}")

    @property
    def has_all_arguments(self) -> bool:
        return self.came_whole or bool(self.wholes) or self.is_complete()

    @property
    def lost_pieces(self) -> bool:
        """Returns whether fragments of the arguments may be missing. Complete arguments replace missing fragments."""
        if self.is_ambiguous and not self.came_whole:
            return True
        if self.gap_at is None or (self.came_whole and not self.text.strip()):
            return False
        return (self.has_gap and not self.wholes) or not self.has_arguments

    def has_text(self, arguments: str) -> bool:
        return (self.size == len(arguments) and arguments == self.text) or arguments in self.wholes

    def add_whole(self, text: str) -> bool:
        """Stores complete arguments. Ignores arguments that arrived before or are empty, and returns False for them."""
        self.came_whole = True
        if text in self.wholes or not text.strip():
            return False
        if is_empty(text) and (
            any(not is_empty(known) for known in self.wholes) or self.size > 99 or not is_empty_wrapper(self.text)
        ):
            self.had_empty_repetition = True
            return False
        self.wholes = [*self.wholes[-_WHOLES + 1 :], text]
        return True

    def is_complete(self) -> bool:
        """Returns whether the arguments are one JSON object whose brackets are all closed."""
        if not (self.pieces and self.pieces[0].lstrip().startswith("{")):
            return False
        self._brackets = self._brackets or BracketTracker()
        for piece in islice(self.pieces, self._followed, None):
            if self._closed is None:
                if (end := self._brackets.feed(piece)) >= 0:
                    self._closed = not piece[end:].strip()
            elif piece.strip():
                self._closed = False
        self._followed = len(self.pieces)
        return self._closed is True

    def is_followed_by(self, arguments: str) -> bool:
        """Returns whether `arguments` begin a second JSON object, which belongs to another call of the same tool.

        An object after an empty object, or the same object again, is a repetition (`jsontext/tool_arguments.py`).
        """
        if not arguments.lstrip().startswith("{") or not self.is_complete():
            return False
        if self._value is None:
            self._value = object_or_none(self.text)
        return bool(self._value) and object_or_none(arguments) != self._value


# The rows of the tables below. The lab's inspector has a sentence for each.
MatchRule: TypeAlias = Literal[
    # the fragment continues a call
    "item",  # its item is known
    "index",  # its index is in use
    "changed_id",  # its index is in use, and the id changed
    "id",  # its id is known
    "last",  # nothing distinguishes it from the last call
    "turn",  # the index says whose turn it is
    # it opens a call
    "first",  # no call is open
    "index_taken",  # its index is in use by another call
    "id_taken",  # its id is in use by another call
    "another",  # without an index, it brings an id or a name, and the last call has one
    "new_index",  # its index is unknown
    "new_item",  # its item is unknown
    # the server's own list of the calls, at the end of the answer
    "listed_id",
    "listed_item",
    "listed_index",
    "listed_name",
    "listed_new",
]


@dataclass(slots=True)
class CallMatch:
    """The tool call that a fragment was assigned to, and the rule that decided this.

    Attributes:
        rule: the name of the rule (see `MatchRule`).
        opened: true if the fragment began the tool call.
        rival: another tool call that has the fragment's index or id, or None.
    """

    call: IncomingCall
    rule: MatchRule
    part: ToolCallDelta
    opened: bool = False
    rival: IncomingCall | None = None


Listener: TypeAlias = Callable[[CallMatch | tuple[ReplyWarning, IncomingCall | None]], None]
"""Called with each `CallMatch`, and with each warning and the tool call that the warning is about."""


# Does a fragment continue a call, or begin another one? Used where an index or an id alone doesn't decide. Every rule
# that joins names the server that needs it. In doubt, a fragment begins another call: two calls that can't run are
# better than one call that runs with another call's arguments.


def is_repeated_head(call: IncomingCall, part: ToolCallDelta, names: ToolNames, *, known: bool) -> bool:
    """Returns whether a fragment begins another tool call although it has the index of `call`.

    Another id alone isn't enough, because Poolside changes the id inside a tool call (poolsideai/pool#9).

    Args:
        known: true if an earlier fragment of this tool call had the same id and a name.
    """
    if part.whole:
        return False
    other_id = are_different_calls(call.id, part.id) and part.id != call.other_id and not known
    if not call.name:
        if not call.has_arguments:
            return other_id and bool(part.name)
        return other_id and call.has_all_arguments and part.arguments.lstrip().startswith("{")
    if not part.name:
        return other_id and call.has_all_arguments and not call.waits and not part.arguments.isspace()
    if other_id:
        return True
    if part.name == call.name:  # a server that sends ids would have sent an id for another call
        return not call.id and call.is_followed_by(part.arguments)
    known_id = bool(part.id) and bool(call.id)
    begun = call.is_complete() if known_id else bool(call.pieces) and not _is_next_piece(call, part)
    return begun or not names.is_piece(call.name, part.name)


def _is_next_piece(call: IncomingCall, part: ToolCallDelta) -> bool:
    first = next((piece.lstrip() for piece in call.pieces if piece.strip()), "")
    return first.startswith("{") and not (call.waits or call.is_complete() or _begins_object(part))


def continues_call(call: IncomingCall, part: ToolCallDelta, names: ToolNames) -> bool:
    """Returns whether a fragment continues `call`. The fragment has the id of `call`, but no known index."""
    if part.whole or not part.name or not call.name:
        return True
    if part.name != call.name:
        return not call.pieces and names.is_piece(call.name, part.name)
    return not call.is_followed_by(part.arguments)


def belongs_to_last(last: IncomingCall, part: ToolCallDelta, names: ToolNames) -> bool:
    """Returns whether a fragment without an index continues the tool call that began last."""
    if part.id:
        return not last.id and (not part.name or (part.name == last.name and not last.pieces))
    if not part.name or not last.name:
        return True
    if part.name != last.name:
        return not last.pieces and names.is_declared_in_pieces(last.name, part.name)
    if last.index is not None:  # the calls had indices: this repeats one of them
        return not last.is_followed_by(part.arguments)
    if last.waits or not last.has_all_arguments:
        return bool(last.id) or _is_next_piece(last, part)
    return bool(last.id) and _begins_object(part) and not last.is_followed_by(part.arguments)  # a repetition of all


def _begins_object(part: ToolCallDelta) -> bool:
    return part.arguments.lstrip()[:1] in ("", "{")


def is_another_item(call: IncomingCall, part: ToolCallDelta) -> bool:
    """Returns whether a fragment with the output index of `call` belongs to another item. Some servers use one output
    index for all items.

    A new item id alone isn't enough, because GitHub's Copilot uses a new id in each SSE event
    (fixtures/responses/id_and_call_id).
    """
    other_id = are_different_calls(call.id, part.id)
    other_item = bool(part.item and call.items) and part.item not in call.items
    if not part.id and part.whole and call.has_text(part.arguments):
        return False
    if not part.name and not part.begins:
        return other_item and not part.id and (call.done or (call.came_whole and not part.whole))
    if call.name and part.name and part.name != call.name:
        return other_id or other_item or not (part.id and call.id)
    if part.begins:
        return other_id or (other_item and (call.done or part.id != call.id))
    other_text = not is_empty(part.arguments) and not call.has_text(part.arguments)
    return call.done and (other_id or (other_item and (part.id != call.id or other_text)))


def are_different_calls(one: str, other: str | None) -> bool:
    return bool(one and other) and one != other


# Which tool call does a fragment belong to? The only place that knows how servers really number them.
# **An index is the identity of a call.** Fragments are accumulated by index; id and name are set by the first
# fragment that has them, early or late; arguments are appended. Two indices are never one call, whatever looks
# unfinished. Only what contradicts that reaches another rule: a second head at one index, no index at all, one
# index for every call. A **head** is a fragment with a name, by which a call can begin. A **tail** has no name.
# Two tables, read from the top; the first row that fits decides.
# Chat Completions, where a call is an entry with an index:
#     the fragment has                    it belongs to
#     ----------------------------------  -----------------------------------------------------------------------------
#     an index in use, a known id of it   the call with that id: one index, several calls (huggingface/smolagents#1569)
#     an index in use                     the newest call there, unless it is a second head (`is_repeated_head`)
#     an index in use, a second head      a new call (smolagents#1569, langchain-ai/langchain#34807)
#     an unknown index                    a new call; or that of its id, if the head had no index; or `_whose_turn`
#     no index, a known id                the call with that id, unless it is the head of another (Kimi's ids on vLLM)
#     no index                            the last call, unless it brings an id or a name that the call has already
#                                         (openai/openai-python#2806, jin-bo/agentao#117)
# Responses, where a call is an item of the answer (`ToolCallDelta.item`), and the `call_id` is only what it is
# called:
#     the fragment has                    it belongs to
#     ----------------------------------  -----------------------------------------------------------------------------
#     a known item id                     the call of that item, unless two calls have it, or its index is another
#     an output index in use              the newest call there, unless it is of another item (`is_another_item`)
#     a known call id                     the call with that id, unless its item and its index are both unknown
#     an unknown item id or output index  a new call
#     none of the three                   the last call, unless it is a head and that call is done
# `docs/concepts/calls.md` says of each rule which server needs it, and what it can never do.
# `""` and null set nothing. Arguments are not looked at: a text that parses can still be the beginning of a longer
# one. They are parsed once, when the stream has ended in order (`tool_call_delivery.py`), except where nothing but
# their completeness decides the place of a fragment (`IncomingCall.is_complete`).

_Found: TypeAlias = tuple[IncomingCall | None, MatchRule]


class ToolCallAssembler:
    """Assigns each tool call fragment of a response to a tool call.

    Args:
        tool_names: the names of the declared tools, which show whether a second name continues the first name.
    """

    def __init__(self, tool_names: Collection[str] = (), limits: Limits | None = None) -> None:
        self._names = ToolNames(tool_names)
        self._limits = limits or Limits()
        self._opened: list[IncomingCall] = []
        self._by_index: dict[int, IncomingCall] = {}
        self._by_id: dict[str, IncomingCall] = {}
        self._by_item: dict[str, IncomingCall | None] = {}  # None: two calls have this item id
        self._shared = False  # two calls began at one index
        self._chars = 0  # of all arguments

    def __len__(self) -> int:
        return len(self._opened)

    def feed(self, part: ToolCallDelta) -> CallMatch | None:
        """Adds a fragment to its tool call. Returns None if the fragment is empty.

        Raises:
            ProtocolError: the response exceeds a limit.
        """
        if part.is_empty and not self._has_meaning(part):
            return None
        call, rule = self._find(part) if part.item is None else self._find_item(part)
        return self._place(part, call, rule)

    def reconcile(self, listed: Iterable[ToolCallDelta]) -> list[CallMatch]:
        """Compares the tool calls that arrived with the server's final list of tool calls.

        Looks for pairs of tool calls with the same item, then with the same id and name, then name and arguments, then
        name and index, then name (in order), then id. Adds each tool call in the list that is in none of these pairs.
        """
        left, parts, placed = self.finish(), dict(enumerate(listed)), dict[int, CallMatch]()
        ids = Counter(call.id for call in left)
        same: list[tuple[MatchRule, Callable[[ToolCallDelta, IncomingCall], object]]] = [
            ("listed_item", lambda part, call: part.item and self._by_item.get(part.item) is call),
            ("listed_id", lambda p, c: p.id and p.id == c.id and ids[p.id] == 1 and p.name == (c.name or p.name)),
            ("listed_name", lambda p, c: p.name == c.name and not is_empty(p.arguments) and c.has_text(p.arguments)),
            ("listed_index", lambda p, c: p.index is not None and p.index == c.index and p.name == (c.name or p.name)),
            ("listed_name", lambda part, call: part.name == call.name),
            ("listed_id", lambda part, call: part.id and part.id == call.id),
        ]
        for rule, fits in same:
            for number, part in list(parts.items()):
                if call := next((call for call in left if fits(part, call)), None):
                    left.remove(call)
                    del parts[number]
                    # A position in the list isn't the index in the stream.
                    placed[number] = self._place(replace(part, index=call.index), call, rule)
        for number, part in parts.items():
            placed[number] = self._place(replace(part, index=None), None, "listed_new")
        if parts:  # without new calls, the order of the stream stays, because chunks have shown it
            for number, match in placed.items():
                match.call.listed = number
        return list(placed.values())

    def note_finish_reason(self) -> None:
        """Records that a finish reason arrived. The tool calls so far are therefore not late."""
        for call in self._opened:
            call.late = False

    def mark_gap(self) -> None:
        """Records that SSE events are missing here, so that incomplete tool calls may lack arguments."""
        for call in self._opened:
            if not call.wholes and not call.done:
                call.gap_at = call.size if call.gap_at is None or call.gap_at == 0 else call.gap_at

    def unmark_gap(self) -> None:
        """Undoes `mark_gap`. The pipeline calls this method if the server's event numbers are unreliable."""
        for call in self._opened:
            call.gap_at = None

    def mark_ambiguous(self) -> None:
        """Marks tool calls that may lack arguments, because arguments without a name arrived.

        Arguments with an id may belong to a tool call with the same id, and arguments without an id to any tool call
        that has no arguments. The assembler never adds such arguments to a tool call.
        """
        named = [call for call in self._opened if call.name]
        for call in [call for call in self._opened if not call.name and not call.markup]:
            if not call.has_arguments:
                # An id alone is the second id of another tool call with the same index.
                others = [each for each in self._opened if each.index == call.index and each is not call]
                if others and call.index is not None:
                    others[-1].other_id = others[-1].other_id or call.id
                    self._opened.remove(call)
                continue
            if call.id:
                owners = [head for head in named if head.id == call.id]
            else:
                turn = self._nth_named(call.index) if self._shared else None
                owners = [head for head in named if head is turn or not (head.has_arguments or head.came_whole)]
            for head in owners:
                head.is_ambiguous = True

    def take_from_client(self, index: int) -> None:
        """Records that the server has run the tool call with this index itself, so that the client doesn't run it."""
        if (call := self._by_index.get(index)) is not None:
            call.ran_on_server = True

    def finish(self) -> list[IncomingCall]:
        """Returns all tool calls. If each tool call has its own index, sorts the tool calls by index (Z.ai's index -1
        doesn't count). Otherwise, the order is that of the server's final list, or without a list, the order in which
        the tool calls began."""
        if not (calls := [call for call in self._opened if not call.ran_on_server]):
            return []
        indices = {call.index for call in calls if call.index is not None and call.index >= 0}
        if len(indices) == len(calls):
            return sorted(calls, key=attrgetter("index"))
        if all(call.listed is not None for call in calls):
            return sorted(calls, key=lambda call: call.listed or 0)
        return list(calls)

    def _find(self, part: ToolCallDelta) -> _Found:
        here = None if part.index is None else self._by_index.get(part.index)
        known = self._by_id.get(part.id) if part.id else None
        if here is None and part.index is not None:
            if known and known.index is None and continues_call(known, part, self._names):
                return known, "id"
            if not part.name and (head := self._whose_turn(part.index)) and not are_different_calls(head.id, part.id):
                return head, "turn"
            return None, "new_index" if self._opened else "first"
        if here:
            if known and known is not here and known.index == part.index and continues_call(known, part, self._names):
                return known, "id"
            if not part.id and not part.name:  # a tail, like nearly every fragment
                return here, "index"
            if self._shared and part.name and part.id and here.has_arguments and not (here.name or here.id):
                return None, "index_taken"  # the arguments belong to a head with another index
            if is_repeated_head(here, part, self._names, known=known is here):
                return None, "index_taken"
            return here, "changed_id" if are_different_calls(here.id, part.id) else "index"
        if known:
            return (known, "id") if continues_call(known, part, self._names) else (None, "id_taken")
        if not self._opened:
            return None, "first"
        return (self._opened[-1], "last") if belongs_to_last(self._opened[-1], part, self._names) else (None, "another")

    def _whose_turn(self, index: int) -> IncomingCall | None:
        """Returns the tool call that the arguments with an unknown index belong to, if two tool calls began with the
        same index.

        DeepSeek V4 sends the names of all tool calls with the first tool call's index, but the arguments with the right
        index (agno-agi/agno#8879, fixtures/calls/tail_under_another_index).
        """
        call = self._nth_named(index)
        behind = call is not None and call.index is not None and call.index < index
        return call if call and behind and call.waits and self._shared else None

    def _nth_named(self, index: int | None) -> IncomingCall | None:
        named = [call for call in self._opened if call.name]
        return named[index] if index is not None and 0 <= index < len(named) else None

    def _find_item(self, part: ToolCallDelta) -> _Found:
        head, index = bool(part.name) or part.begins, part.index
        of_item = self._by_item.get(part.item) if part.item else None
        if of_item and (index is None or of_item.index in (None, index)):
            return of_item, "item"
        here = None if index is None else self._by_index.get(index)
        if here and not self._is_another_item(here, part):
            return here, "index"
        same_id = self._by_id.get(part.id) if part.id else None
        two_places = same_id and index is not None and same_id.index not in (None, index)
        begins_again = same_id and same_id.done and not (part.whole or part.item or index is not None)
        if same_id and not (two_places or begins_again) and not self._is_another_item(same_id, part):
            return same_id, "id"
        if here:
            return None, "index_taken"
        if not self._opened:
            return None, "first"
        last = self._opened[-1]
        announced = bool(last.name) and not last.came_whole  # its ids may be new in every event
        if index is None and not head and (announced or not part.item):
            # The events have only call ids: fixtures/responses/deltas_with_call_id.
            other = part.id and not part.item and (last.done or (last.id and part.id != last.id))
            return (None, "another") if other else (last, "last")
        if index is None and announced and part.whole and not part.id and part.name == last.name:
            return last, "last"
        if index is not None or part.item:
            return None, "new_index" if index is not None else "new_item"
        again = part.whole and part.name == last.name and (not last.done or last.wholes == [part.arguments])
        if again and (not are_different_calls(last.id, part.id) or part.arguments in (last.text, *last.wholes)):
            return last, "last"
        return (last, "last") if not last.name and not last.done else (None, "another")

    def _is_another_item(self, call: IncomingCall, part: ToolCallDelta) -> bool:
        if not (part.name or part.begins) and any(other.index != call.index for other in self._opened):
            return False
        return is_another_item(call, part)

    def _has_meaning(self, part: ToolCallDelta) -> bool:
        if not part.item or part.item in self._by_item:
            return part.item is None and bool(part.ended)
        return part.index is None or part.index not in self._by_index

    def _place(self, part: ToolCallDelta, call: IncomingCall | None, rule: MatchRule) -> CallMatch:
        opened = call is None
        rival = self._by_index.get(part.index) if part.index is not None else None
        if rule == "id_taken" and part.id:
            rival = self._by_id.get(part.id)
        if call is None:
            if len(self._opened) >= self._limits.tool_calls:
                raise ProtocolError(f"more than {self._limits.tool_calls} tool calls in one answer (limits.tool_calls)")
            call = IncomingCall(len(self._opened), part.index)
            self._opened.append(call)
            self._shared = self._shared or rule == "index_taken"
            if rival and rival.other_id and part.id in (rival.id, rival.other_id):  # the arguments may belong to either
                call.is_ambiguous = rival.is_ambiguous = True
        match rule:
            case "turn":
                call.guessed = True
            case "index_taken":
                call.guessed = call.guessed or not (part.id or part.item is not None)
            case "listed_name":
                call.guessed = call.guessed or not call.has_text(part.arguments)
        if part.index is not None:
            self._by_index[part.index] = call
            call.index = part.index if call.index is None else call.index
        call.custom = call.custom or part.custom
        if part.id or part.name or part.extra or (opened and part.item):
            self._describe(call, part, opened=opened)
        if part.ended is not None:
            call.done, call.broken_off = True, not part.ended
        if part.arguments or part.whole:
            self._append(call, part)
            if part.begins:
                call.came_whole = False  # the server sends arguments in `output_item.added` again
        return CallMatch(call, rule, part, opened, rival if rival is not call else None)

    def _describe(self, call: IncomingCall, part: ToolCallDelta, *, opened: bool) -> None:
        if part.item and (part.id or part.name or opened) and part.item not in call.items:
            known = self._by_item.get(part.item, call)
            self._by_item[part.item] = call if known is call else None
            call.items = (*call.items, part.item)
        if part.markup:
            call.markup = True
        if part.id:
            if len(part.id) > self._limits.id_chars:
                raise _too_long("id", self._limits.id_chars)
            if not call.id:
                call.id = part.id
            elif part.id != call.id:
                call.other_id = call.other_id or part.id
            if part.id == call.id or part.name or part.item is not None:
                self._by_id[part.id] = call
        if part.name and not (call.name and (part.whole or part.item is not None)):
            if call.name not in ("", part.name) and call.other_id:  # both ids came with a name
                call.is_ambiguous = True
            call.name = self._names.joined(call.name, part.name) if call.name else part.name
            if len(call.name) > self._limits.name_chars:
                raise _too_long("name", self._limits.name_chars)
        if part.extra:
            call.extra = {**(call.extra or {}), **part.extra}

    def _append(self, call: IncomingCall, part: ToolCallDelta) -> None:
        size = len(part.arguments)
        if not part.whole:
            call.pieces.append(part.arguments)
            call.size += size
            self._chars += size
            if call.gap_at:  # after a gap at 0, arguments that are a JSON object are complete
                call.has_gap = True
        elif call.add_whole(part.arguments):  # mostly a repetition of the pieces, which are counted already
            known = call.text
            self._chars += size - (len(known) if part.arguments.startswith(known) else 0)
        if (size if part.whole else call.size) > self._limits.arguments_chars:
            raise ProtocolError(
                f"the arguments of {call.name or 'a call'} are longer than {self._limits.arguments_chars} characters"
                " (limits.arguments_chars)"
            )
        if self._chars > self._limits.all_arguments_chars:
            raise ProtocolError(
                f"the arguments of all calls are longer than {self._limits.all_arguments_chars} characters"
                " (limits.all_arguments_chars)"
            )


def _too_long(what: str, limit: int) -> ProtocolError:
    return ProtocolError(f"the {what} of a call is longer than {limit} characters (limits.{what}_chars)")
