"""Which tool call does a fragment belong to? The only place that knows how servers really number them.

**An index is the identity of a call.** Fragments are accumulated by index; id and name are set by the first fragment
that has them, early or late; arguments are appended. Two indices are never one call, whatever looks unfinished. Only
what contradicts that reaches another rule: a second head at one index, no index at all, one index for every call. A
**head** is a fragment with a name, by which a call can begin. A **tail** has no name.

Two tables, read from the top; the first row that fits decides.

Chat Completions, where a call is an entry with an index:

    the fragment has                    it belongs to
    ----------------------------------  -----------------------------------------------------------------------------
    an index in use, a known id of it   the call with that id: one index for several calls (huggingface/smolagents#1569)
    an index in use                     the newest call there, unless it is a second head (`is_repeated_head`)
    an index in use, a second head      a new call (smolagents#1569, langchain-ai/langchain#34807)
    an unknown index                    a new call; or that of its id, if the head had no index; or `_whose_turn`
    no index, a known id                the call with that id, unless it is the head of another (Kimi's ids on vLLM)
    no index                            the last call, unless it brings an id or a name that the call has already
                                        (openai/openai-python#2806, jin-bo/agentao#117)

Responses, where a call is an item of the answer (`ToolCallDelta.item`), and the `call_id` is only what it is called:

    the fragment has                    it belongs to
    ----------------------------------  -----------------------------------------------------------------------------
    a known item id                     the call of that item, unless two calls have it, or its index is another
    an output index in use              the newest call there, unless it is of another item (`is_another_item`)
    a known call id                     the call with that id, unless its item and its index are both unknown
    an unknown item id or output index  a new call
    none of the three                   the last call, unless it is a head and that call is done

`docs/concepts/calls.md` says of each rule which server needs it, and what it can never do.

`""` and null set nothing. Arguments are not looked at: a text that parses can still be the beginning of a longer one.
They are parsed once, when the stream has ended in order (`tool_call_delivery.py`), except where nothing but their
completeness decides the place of a fragment (`IncomingCall.is_complete`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import TypeAlias

from ..text import is_empty
from ..values import Limits, ProtocolError, ToolCallDelta
from .call_match import CallMatch, MatchRule
from .call_matching import are_different_calls, belongs_to_last, continues_call, is_another_item, is_repeated_head
from .incoming_call import IncomingCall
from .tool_names import ToolNames

_Found: TypeAlias = tuple[IncomingCall | None, MatchRule]
_GUESSES: frozenset[MatchRule] = frozenset(("listed_name", "turn", "index_taken"))


class ToolCallAssembler:
    """Sorts the fragments of one message into calls.

    Args:
        tool_names: the tools that the request declared; they tell a name that comes in pieces from a repeated one.
    """

    def __init__(self, tool_names: Collection[str] = (), limits: Limits | None = None) -> None:
        self._names = ToolNames(tool_names)
        self._limits = limits or Limits()
        self._opened: list[IncomingCall] = []
        self._by_index: dict[int, IncomingCall] = {}
        self._by_id: dict[str, IncomingCall] = {}
        self._by_item: dict[str, IncomingCall | None] = {}  # None: two calls have it, so that it decides nothing
        self._shared = False  # two calls began at one index
        self._chars = 0  # of all arguments

    def __len__(self) -> int:
        return len(self._opened)

    def feed(self, part: ToolCallDelta) -> CallMatch | None:
        """Adds a fragment to its call. Returns where it went, or None if the fragment is empty.

        Raises:
            ProtocolError: more calls, longer arguments, names or ids than the limits allow.
        """
        if not (part.arguments or part.id or part.name or part.extra) and not self._tells(part):  # `is_empty`
            return None
        call, rule = self._find(part) if part.item is None else self._find_item(part)
        return self._place(part, call, rule)

    def reconcile(self, listed: Iterable[ToolCallDelta]) -> list[CallMatch]:
        """Compares the calls with the server's own list of them at the end of the answer.

        A call in the list is the streamed one of the same item, else of the same id, if no other has that. Where both
        were drawn anew for the list, it is the one of its name with the same arguments, else the one at the same place,
        else the next one of that name in the model's order. What is left was not streamed at all.
        """
        left, parts, placed = self.finish(), list(listed), list[CallMatch]()
        ids = Counter(call.id for call in left)
        listed_at = {id(part): number for number, part in enumerate(parts)}
        same: list[tuple[MatchRule, Callable[[ToolCallDelta, IncomingCall], object]]] = [
            ("listed_item", lambda part, call: part.item and self._by_item.get(part.item) is call),
            ("listed_id", lambda p, c: p.id and p.id == c.id and ids[p.id] == 1 and p.name == (c.name or p.name)),
            ("listed_name", lambda p, c: p.name == c.name and not is_empty(p.arguments) and c.has_text(p.arguments)),
            ("listed_index", lambda p, c: p.index is not None and p.index == c.index and p.name == (c.name or p.name)),
            ("listed_name", lambda part, call: part.name == call.name),
            ("listed_id", lambda part, call: part.id and part.id == call.id),
        ]
        for rule, fits in same:
            for part in list(parts):
                if call := next((call for call in left if fits(part, call)), None):
                    left.remove(call)
                    parts.remove(part)
                    part.index = call.index  # a place in the list is no index of the stream
                    placed.append(self._place(part, call, rule))
        for part in parts:
            part.index = None
            placed.append(self._place(part, None, "listed_new"))
        for placement in placed if parts else ():  # without new ones the order of the stream holds: it has been shown
            placement.call.listed = listed_at[id(placement.part)]
        return placed

    def confirm(self) -> None:
        """Notes a finish reason: what came until now is what the model said."""
        for call in self._opened:
            call.late = False

    def mark_gap(self) -> None:
        """Notes that events are missing at this place of the stream: calls under way may have lost arguments."""
        for call in self._opened:
            if not call.wholes and not call.done:
                call.gap_at = call.size if call.gap_at is None or call.gap_at == 0 else call.gap_at

    def unmark_gap(self) -> None:
        """Takes `mark_gap` back: the numbers by which events were missed turned out to mean nothing."""
        for call in self._opened:
            call.gap_at = None

    def mark_strays(self) -> None:
        """Marks calls that may lack arguments which have no name, when the answer has ended and all is known.

        Such arguments are no call. Without an id they may be those of any call that has none, with one of the call
        with that id. They are never joined: two indices are two calls.
        """
        named = [call for call in self._opened if call.name]
        for call in [call for call in self._opened if not call.name and not call.markup]:
            if not call.has_arguments:
                self._forget(call)
            elif call.id:
                self._mark(head for head in named if head.id == call.id)
            else:
                turn = self._at_turn(call.index) if self._shared else None
                self._mark(head for head in named if head is turn or not (head.has_arguments or head.came_whole))

    def _mark(self, heads: Iterable[IncomingCall]) -> None:
        for head in heads:
            head.is_ambiguous = True

    def _forget(self, call: IncomingCall) -> None:
        """Takes an id alone for another id of a call at its index: no call came of it."""
        others = [each for each in self._opened if each.index == call.index and each is not call]
        if others and call.index is not None:
            others[-1].other_id = others[-1].other_id or call.id
            self._opened.remove(call)

    def finish(self) -> list[IncomingCall]:
        """Returns all calls in the model's order.

        That is by index, if each has one of its own (-1 is none: Z.ai); else as the server lists them at the end, if
        that has calls which were not streamed; else by appearance.
        """
        if not (calls := self._opened):
            return []
        indices = {call.index for call in calls if call.index is not None and call.index >= 0}
        if len(indices) == len(calls):
            return sorted(calls, key=attrgetter("index"))
        if all(call.listed is not None for call in calls):
            return sorted(calls, key=lambda call: call.listed or 0)
        return list(calls)

    # --- the first table ---------------------------------------------------------------------------------------------

    def _find(self, part: ToolCallDelta) -> _Found:
        here = None if part.index is None else self._by_index.get(part.index)
        known = self._by_id.get(part.id) if part.id else None
        if here is None and part.index is not None:
            if known and known.index is None and continues_call(known, part, self._names):
                return known, "id"
            if not part.name and (head := self._whose_turn(part.index)) and not are_different_calls(head.id, part.id):
                return head, "turn"
            return None, "new_index" if self._opened else "first"
        if (
            here
            and known
            and known is not here
            and known.index == part.index
            and continues_call(known, part, self._names)
        ):
            return known, "id"
        if here:
            if not part.id and not part.name:  # a tail, as nearly every fragment
                return here, "index"
            if self._shared and part.name and part.id and here.has_arguments and not (here.name or here.id):
                return None, "index_taken"  # the arguments are those of a head under another index
            if is_repeated_head(here, part, self._names, known=known is here):
                return None, "index_taken"
            return here, "changed_id" if are_different_calls(here.id, part.id) else "index"
        if known:
            return (known, "id") if continues_call(known, part, self._names) else (None, "id_taken")
        if not self._opened:
            return None, "first"
        return (self._opened[-1], "last") if belongs_to_last(self._opened[-1], part, self._names) else (None, "another")

    def _whose_turn(self, index: int) -> IncomingCall | None:
        """The call whose turn an index is that nobody opened, where two calls began at one index.

        DeepSeek V4 sends the heads of all calls with the index of the first, and the arguments with the right one
        (agno-agi/agno#8879, fixtures/calls/tail_under_another_index).
        """
        call = self._at_turn(index)
        behind = call is not None and call.index is not None and call.index < index
        return call if call and behind and call.waits and self._shared else None

    def _at_turn(self, index: int | None) -> IncomingCall | None:
        named = [call for call in self._opened if call.name]
        return named[index] if index is not None and 0 <= index < len(named) else None

    # --- the second table --------------------------------------------------------------------------------------------

    def _find_item(self, part: ToolCallDelta) -> _Found:
        head, index = bool(part.name) or part.begins, part.index
        if of_item := self._of_item(part):
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
        announced = bool(last.name) and not last.came_whole  # its ids may be drawn anew in every event
        if index is None and not head and (announced or not part.item):
            # Call ids are all there is: fixtures/responses/deltas_with_call_id.
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

    # -----------------------------------------------------------------------------------------------------------------

    def _of_item(self, part: ToolCallDelta) -> IncomingCall | None:
        """The call of a fragment's item: the one that it has not another index than, whatever the ids say."""
        call = self._by_item.get(part.item) if part.item else None
        return call if call and (part.index is None or call.index in (None, part.index)) else None

    def _is_another_item(self, call: IncomingCall, part: ToolCallDelta) -> bool:
        """Whether a fragment at the index of `call` is another item's. A tail is not, where calls have indices."""
        if not (part.name or part.begins) and any(other.index != call.index for other in self._opened):
            return False
        return is_another_item(call, part)

    def _tells(self, part: ToolCallDelta) -> bool:
        """Whether a fragment without members is the first of its item (items have an order), or the end of a call."""
        if not part.item or part.item in self._by_item:
            return part.item is None and bool(part.ended)
        return part.index is None or part.index not in self._by_index

    def _place(self, part: ToolCallDelta, call: IncomingCall | None, rule: MatchRule) -> CallMatch:
        opened = call is None
        rival = self._by_index.get(part.index) if part.index is not None else None
        if rule == "id_taken" and part.id:
            rival = self._by_id.get(part.id)
        if call is None:
            call = self._open(part.index)
            self._shared = self._shared or rule == "index_taken"
            if rival and rival.other_id and part.id in (rival.id, rival.other_id):  # whose were the arguments?
                call.is_ambiguous = rival.is_ambiguous = True
        if rule in _GUESSES and _is_guess(call, part, rule):
            call.guessed = True
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
                call.came_whole = False  # arguments in `output_item.added` come again
        return CallMatch(call, rule, part, opened, rival if rival is not call else None)

    def _open(self, index: int | None) -> IncomingCall:
        if len(self._opened) >= self._limits.tool_calls:
            raise ProtocolError(f"more than {self._limits.tool_calls} tool calls in one answer (limits.tool_calls)")
        call = IncomingCall(len(self._opened), index)
        self._opened.append(call)
        return call

    def _describe(self, call: IncomingCall, part: ToolCallDelta, *, opened: bool) -> None:
        """Reads what a fragment says about its call. Of items, a tail says less than the head did."""
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
            if call.name not in ("", part.name) and call.other_id:  # each of two ids brought a name
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
            if call.gap_at:  # behind a gap at 0 nothing can be missing that leaves an object
                call.has_gap = True
        elif call.add_whole(part.arguments):  # it mostly repeats the pieces, which have been counted
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


def _is_guess(call: IncomingCall, part: ToolCallDelta, rule: MatchRule) -> bool:
    """Whether nothing that the server said decides the place of a fragment, only what usually comes next."""
    if rule == "listed_name":
        return not call.has_text(part.arguments)
    return rule == "turn" or (rule == "index_taken" and not part.id and part.item is None)
