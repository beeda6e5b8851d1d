"""Which tool call does a fragment belong to? The only place that knows how servers really number them.

On paper the index decides. In the field the index is missing (Gemini, Mistral), is 0 for every call and only the id
differs (OpenRouter, smolagents), starts at 1 (Anthropic's compatible endpoint), is -1 (Z.ai), or belongs to the head of
a call and not to its tail (DeepSeek V4). Ids and names are sent once, or with every fragment, or late, or as `""`, or
never, or twice for two calls, or change in the middle of one (Poolside).

Two words: a **head** is a fragment with a name, by which a call can begin. A **tail** has arguments and no name.
Two tables, read from the top; the first row that fits decides.

Chat Completions, where a call is an entry with an index:

    the fragment has                    it belongs to
    ----------------------------------  -----------------------------------------------------------------------------
    an index in use                     the newest call there, unless it brings another id, or another name or a new
                                        object after the arguments have begun
    a known id                          the call with that id, unless it is a head under an index of its own
    an index in use, another id         the call there if it is in the middle of its arguments; else it opens a call
    no index                            the last call, unless it brings an id or a name that the call has already
    an unknown index, and is a head     a new call
    an unknown index, and is a tail     the call whose turn the index is, if that one waits for arguments; else the last
                                        call whose arguments are not complete; else a new call

Responses, where a call is an item of the answer (`Call.item`), and the `call_id` is only what it is called:

    the fragment has                    it belongs to
    ----------------------------------  -----------------------------------------------------------------------------
    a known item id                     the call of that item, unless two calls have it
    an output index in use              the newest call there, unless it is a head of another item
    a known call id                     the call with that id, unless its item and its index are both unknown
    an unknown item id or output index  a new call
    none of the three                   the last call, unless it is a head and that call is done

A call **waits** for arguments if it has none, and neither is done nor came as a whole. Nothing else waits.

When the answer has ended, arguments that found no call are given to the one call that still waits, see `adopt`.

Id and name are set once; `""` and null set nothing. Arguments are appended and not looked at: a text that parses can
still be the beginning of a longer one. They are parsed once, when the stream has ended in order (`finish.py`), except
where nothing but their completeness decides the place of a fragment (`OpenCall.is_complete`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from ..values import Call, Limits, ProtocolError
from .names import ToolNames
from .opencall import OpenCall
from .placement import Placement, Rule

__all__ = ["Calls"]

Found: TypeAlias = tuple[OpenCall | None, Rule]


class Calls:
    """Sorts the fragments of one message into calls.

    Args:
        tool_names: the tools that the request declared; they tell a name that comes in pieces from a repeated one.
    """

    def __init__(self, tool_names: Collection[str] = (), limits: Limits | None = None) -> None:
        self._names = ToolNames(tool_names)
        self._limits = limits or Limits()
        self._opened: list[OpenCall] = []
        self._by_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}
        self._by_item: dict[str, OpenCall | None] = {}  # None: two calls have it, so that it decides nothing
        self._chars = 0  # of all arguments

    def __len__(self) -> int:
        return len(self._opened)

    def feed(self, part: Call) -> Placement | None:
        """Adds a fragment to its call. Returns where it went, or None if the fragment is empty.

        Raises:
            ProtocolError: more calls, longer arguments, names or ids than the limits allow.
        """
        if not (part.arguments or part.id or part.name or part.extra):  # `is_empty`, without the call
            return None
        call, rule = self._find(part) if part.item is None else self._find_item(part)
        return self._place(part, call, rule)

    def grow(self, part: Call, pieces: list[str]) -> OpenCall | None:
        """Adds pieces to a call, if fragments like `part` can only be its next ones: they name nothing but their place.

        Returns:
            The call, or None if nothing was done, because `feed` has to decide.
        """
        if part.id or part.name or part.extra or part.whole or part.ended is not None:
            return None
        call = self._by_item.get(part.item) if part.item else None
        if call is None and (part.index is None or (call := self._by_index.get(part.index)) is None):
            return None
        size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        if call.size + size > self._limits.arguments_chars or self._chars + size > self._limits.all_arguments_chars:
            return None
        if part.index is not None:
            self._by_index[part.index] = call
        call.add_pieces(pieces, size)
        self._chars += size
        return call

    def settle(self, listed: Iterable[Call]) -> list[Placement]:
        """Compares the calls with the server's own list of them at the end of the answer.

        A call in the list is the streamed one of the same item, else of the same id. Where both were drawn anew for
        the list, it is the one at the same place with the same name, else the one of that name with the same arguments,
        else the next one of that name in the model's order. What is left was not streamed at all.
        """
        left, parts, placed = self.finish(), list(listed), list[Placement]()
        same: list[tuple[Rule, Callable[[Call, OpenCall], object]]] = [
            ("listed_item", lambda part, call: part.item and self._by_item.get(part.item) is call),
            ("listed_id", lambda part, call: part.id and part.id == call.id),
            ("listed_index", lambda p, c: p.index is not None and p.index == c.index and p.name == (c.name or p.name)),
            ("listed_name", lambda part, call: part.name == call.name and call.has_text(part.arguments)),
            ("listed_name", lambda part, call: part.name == call.name),
        ]
        for rule, fits in same:
            for part in list(parts):
                if call := next((call for call in left if fits(part, call)), None):
                    left.remove(call)
                    parts.remove(part)
                    call.index = part.index if call.index is None else call.index
                    placed.append(self._place(part, call, rule))
        return [*placed, *(self._place(part, None, "listed_new") for part in parts)]

    def confirm(self) -> None:
        """Notes a finish reason: what came until now is what the model said."""
        for call in self._opened:
            call.late = False

    def miss(self) -> None:
        """Notes that events are missing at this place of the stream: calls under way may have lost arguments."""
        for call in self._opened:
            if not call.wholes and not call.done:
                call.gap_at = call.size if call.gap_at is None or call.gap_at == 0 else call.gap_at

    def unmiss(self) -> None:
        """Takes `miss` back: the numbers by which events were missed turned out to mean nothing."""
        for call in self._opened:
            call.gap_at = None

    def adopt(self) -> list[Placement]:
        """Brings arguments that came apart from their call home, when the answer has ended and all is known.

        - One call without a name and one call that still waits are the tail and the head of one call.
        - A call with an id that waits, and a later one of the same name with arguments and no id, are one call: the
          server repeated the name with the arguments. Not decided before the end, because ids may come late.
        """
        placed = []
        waiting = [call for call in self._opened if call.name and call.waits]
        orphans = [call for call in self._opened if call.size and not call.name and not call.markup]
        if len(waiting) == len(orphans) == 1 and waiting[0].number < orphans[0].number:
            placed.append(self._merge(*waiting, *orphans))
        for call in list(self._opened):
            if call.size and call.name and not (call.id or call.markup or call.came_whole or call.items):
                heads = (c for c in reversed(self._opened) if c.number < call.number and c.id and c.name == call.name)
                if (head := next(heads, None)) and head.waits and not head.size:
                    placed.append(self._merge(head, call))
        return placed

    def finish(self) -> list[OpenCall]:
        """Returns all calls in the model's order: by index if each has one of its own, else by first appearance."""
        indices = {call.index for call in self._opened}
        if None in indices or len(indices) < len(self._opened):
            return list(self._opened)
        return sorted(self._opened, key=lambda call: call.index or 0)

    # --- the first table ---------------------------------------------------------------------------------------------

    def _find(self, part: Call) -> Found:
        here = None if part.index is None else self._by_index.get(part.index)
        if here and self._continues(here, part, at_index=True):
            return here, "index"
        same_id = self._by_id.get(part.id) if part.id else None
        if same_id and (here or part.index is None or same_id.index is None or not _is_head_of_another(same_id, part)):
            return (same_id, "id") if self._continues(same_id, part, at_index=False) else (None, "id_taken")
        if here:  # an id that changes in the middle of a call (poolsideai/pool#9)
            changed = not part.name and part.arguments and here.name and not here.settled
            return (here, "changed_id") if changed else (None, "index_taken")
        if not self._opened:
            return None, "first"
        if part.index is None:
            return (self._opened[-1], "last") if self._goes_on(self._opened[-1], part) else (None, "another")
        return (None, "new_index") if part.name or not part.arguments else self._find_head_of(part.index)

    def _find_head_of(self, index: int) -> Found:
        """The call of a tail under an index that nobody opened."""
        if index < len(self._opened) and self._opened[index].waits:
            return self._opened[index], "turn"
        tail_of = next((call for call in reversed(self._opened) if not call.settled), None)
        return (tail_of, "unfinished") if tail_of else (None, "nothing_waits")

    def _continues(self, call: OpenCall, part: Call, *, at_index: bool) -> bool:
        """Whether a fragment with the index or the id of `call` is a further piece of it, not another call's head."""
        if part.id and call.id and part.id != call.id:
            return False
        if part.whole or not part.name or not call.name:
            return True
        sure = at_index and bool(part.id) and part.id == call.id
        if part.name != call.name:
            begun = call.is_complete() if sure else bool(call.pieces)
            return not begun and self._names.is_piece(call.name, part.name)
        if at_index and call.id:  # a server that gives ids would have given one to another call
            return True
        return not call.is_followed_by(part.arguments)

    def _goes_on(self, last: OpenCall, part: Call) -> bool:
        """Whether the last call takes a fragment without an index: unless that brings what the call has already."""
        if part.id:
            return not last.id and (not part.name or (part.name == last.name and not last.pieces))
        if not part.name or not last.name:
            return True
        if part.name != last.name:
            return not last.pieces and self._names.is_declared_in_pieces(last.name, part.name)
        if last.index is not None:  # the calls had indices: this repeats one of them
            return not last.is_followed_by(part.arguments)
        if last.waits or not last.settled:
            return bool(last.id) or not _begins_object(part)
        return bool(last.id) and _begins_object(part) and not last.is_followed_by(part.arguments)  # all of it again

    # --- the second table --------------------------------------------------------------------------------------------

    def _find_item(self, part: Call) -> Found:
        head, index = bool(part.name), part.index
        of_item = self._by_item.get(part.item) if part.item else None
        if of_item and not (
            head and index is not None and of_item.index not in (None, index) and _differ(of_item.id, part.id)
        ):
            return of_item, "item"
        here = None if index is None else self._by_index.get(index)
        if here and not (head and _is_another_item(here, part)):
            return here, "index"
        same_id = self._by_id.get(part.id) if part.id else None
        if same_id and _is_same_item(same_id, part):
            return same_id, "id"
        if here:
            return None, "index_taken"
        if not self._opened:
            return None, "first"
        last = self._opened[-1]
        announced = bool(last.name) and not last.came_whole  # its ids may be drawn anew in every event
        if index is None and not head and (announced or not part.item):
            return last, "last"
        if index is None and announced and part.whole and not part.id and part.name == last.name:
            return last, "last"
        if index is not None or part.item:
            return None, "new_index" if index is not None else "new_item"
        again = part.whole and part.name == last.name and (not last.done or last.wholes == [part.arguments])
        if again and (not _differ(last.id, part.id) or part.arguments in (last.text, *last.wholes)):
            return last, "last"
        return (last, "last") if not last.name and not last.done else (None, "another")

    # -----------------------------------------------------------------------------------------------------------------

    def _place(self, part: Call, call: OpenCall | None, rule: Rule) -> Placement:
        opened = call is None
        rival = self._by_index.get(part.index) if part.index is not None else None
        if rule == "id_taken" and part.id:
            rival = self._by_id.get(part.id)
        if call is None:
            call = self._open(part)
        if part.index is not None:
            self._by_index[part.index] = call  # also for a tail under another index than its head
        if part.id or part.name or part.extra or part.item:
            self._describe(call, part, opened=opened)
        if part.ended is not None:
            call.done, call.broken_off = True, not part.ended
        if part.arguments or part.whole:
            self._append(call, part)
            if opened and part.item is not None and part.id and part.ended is None:
                call.came_whole = False  # arguments in `output_item.added` come again
        return Placement(call, rule, part, opened, rival if rival is not call else None)

    def _open(self, part: Call) -> OpenCall:
        if len(self._opened) >= self._limits.tool_calls:
            raise ProtocolError(f"more than {self._limits.tool_calls} tool calls in one answer (limits.tool_calls)")
        call = OpenCall(len(self._opened), part.index)
        self._opened.append(call)
        return call

    def _describe(self, call: OpenCall, part: Call, *, opened: bool) -> None:
        """Reads what a fragment says about its call. Of items, a tail says less than the head did."""
        if part.item and (part.id or part.name or opened) and part.item not in call.items:
            known = self._by_item.get(part.item, call)
            self._by_item[part.item] = call if known is call else None
            call.items.add(part.item)
        call.markup = call.markup or part.markup
        if part.id:
            self._check("id", part.id, self._limits.id_chars)
            if not call.id:
                call.id = part.id
            elif part.id != call.id:
                call.other_id = call.other_id or part.id
            if part.id == call.id or part.item is not None:
                self._by_id[part.id] = call
        if part.name and not (call.name and (part.whole or part.item is not None)):
            call.name = self._names.joined(call.name, part.name)
            self._check("name", call.name, self._limits.name_chars)
        if part.extra:
            call.extra = {**(call.extra or {}), **part.extra}

    def _append(self, call: OpenCall, part: Call) -> None:
        size = len(part.arguments)
        kept = call.add_whole(part.arguments) if part.whole else True
        if not part.whole:
            call.add_piece(part.arguments)
        self._chars += size if kept else 0
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

    def _check(self, what: str, said: str, limit: int) -> None:
        if len(said) > limit:
            raise ProtocolError(f"the {what} of a call is longer than {limit} characters (limits.{what}_chars)")

    def _merge(self, call: OpenCall, tail: OpenCall) -> Placement:
        for piece in tail.pieces:
            call.add_piece(piece)
        call.wholes = [*call.wholes, *tail.wholes]
        call.extra = {**(call.extra or {}), **(tail.extra or {})} or None
        self._opened.remove(tail)
        return Placement(call, "adopted", Call(tail.index, arguments=tail.text), rival=tail)


def _begins_object(part: Call) -> bool:
    return part.arguments.lstrip()[:1] in ("", "{")


def _is_head_of_another(call: OpenCall, part: Call) -> bool:
    """Whether a fragment with the id of `call`, under an index that nobody opened, is the head of another call."""
    return bool(part.name) and (part.name != call.name or _begins_object(part))


def _is_another_item(call: OpenCall, part: Call) -> bool:
    """Whether a head under the output index of `call` is another item than that.

    A whole that differs by its call id alone is the same item: some servers draw that id anew. Item ids are drawn anew
    by others (GitHub's Copilot), so that a whole with another one is another item only if that call is done.
    """
    other_id = _differ(call.id, part.id)
    other_item = bool(part.item and call.items) and part.item not in call.items
    if part.name and call.name and part.name != call.name:
        return other_id or not part.id or not call.id
    if part.whole and part.ended is not None:
        return other_item and call.done and (other_id or not (part.id and call.id))
    if part.whole:  # its arguments are done
        return False
    return other_id or (other_item and not (part.id and part.id == call.id))


def _is_same_item(call: OpenCall, part: Call) -> bool:
    """Whether a fragment with the call id of `call`, whose item and index are not known, is that call."""
    if not part.name or not part.item or part.index is None:
        return True
    return part.whole and not call.done and part.name == (call.name or part.name)


def _differ(one: str, other: str | None) -> bool:
    return bool(one and other) and one != other
