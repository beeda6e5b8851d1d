"""Which tool call does a fragment belong to? The one place that knows how servers really number them.

On paper it is easy: `index` says it. In the field the index is missing (Gemini, Mistral), is 0 for every call and only
the id tells them apart (OpenRouter, smolagents), starts at 1 (Anthropic's compatible endpoint), is -1 (Z.ai), or
belongs to the head of a call and not to its tail (DeepSeek V4). Ids and names are sent once, or with every fragment, or
late, or as `""`, or never, or twice for two calls, or change in the middle of one (Poolside).

A fragment is a **head** if a call could begin with it: it has a name, and arguments that could begin an object. It is a
**tail** if it has arguments and is no head. It is placed by what it carries, in this order:

0. **A known item**, on the wire that has ids of items beside those of calls, continues that call.
1. **An index that is in use** continues the newest call under that index, unless the fragment says otherwise: an id
   that is not the call's, or another name after arguments have begun.
2. **A known id** continues the call that has it, unless the fragment is a head under an index of its own: then the
   server used one id for two calls.
3. **Without an index** the last call goes on, unless the fragment brings an id or a name and that call has one.
4. **Under an index that nobody opened** a head opens a call. A tail belongs to a call whose head came under another
   index: the one whose turn the index says it is, if that one has no arguments yet, else the last one whose arguments
   are not complete.

What finds no call opens one. Where the letter of a rule would leave a call without its arguments, and so runnable as
`f({})`, or make one that has no name and can never run, the fragment is taken for a piece of the call that waits.

Id and name are set once; `""` and null set nothing. Arguments are appended and not looked at: a text that parses can
still be the beginning of a longer one. They are parsed once, when the stream has ended in order (`fold.py`). The one
exception are the rare fragments whose place nothing else tells, see `OpenCall.is_complete`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias

from ..values import Call, Limits, ProtocolError, parse_object
from .brackets import Brackets

__all__ = ["Calls", "OpenCall", "Rule"]

# Why a fragment went where it went. `inspection/words.py` says each of them in a sentence.
Rule: TypeAlias = Literal[
    # it continues a call
    "item",  # rule 0
    "index",  # rule 1
    "changed_id",  # rule 1: in the middle of a call, a tail with another id
    "id",  # rule 2
    "last",  # rule 3
    "named",  # rule 4: the name again, with the arguments that the head did not have
    "turn",  # rule 4: the index says whose turn it is
    "unfinished",  # rule 4: the last call whose arguments are not complete
    # it opens one
    "first",  # no call is open
    "index_taken",  # its index is in use, but its id or name is another
    "id_taken",  # its id is known, and stands for another call already
    "another",  # without an index, it brings an id or a name, and the last call has one
    "new_index",  # a head under an index that nobody opened
    "nothing_waits",  # a tail under such an index, and all calls have their arguments
    # the server's own list of the calls, at the end of the answer
    "listed_id",
    "listed_item",
    "listed_name",
    "listed_new",
]


@dataclass(slots=True, eq=False)
class OpenCall:
    """A tool call of which fragments have come, and perhaps will.

    Attributes:
        number: 0, 1, 2 in the order in which calls were opened.
        index: the server's number for it, if it sent a usable one.
        pieces: the arguments' text so far, in the pieces in which it came.
        wholes: the arguments' text as the server repeated it whole, each wording once, the last three.
        size: characters in the pieces.
        markup: the model wrote it into its text.
    """

    number: int
    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    wholes: list[str] = field(default_factory=list)
    size: int = 0
    markup: bool = False
    extra: dict[str, Any] | None = None
    _brackets: Brackets = field(default_factory=Brackets, init=False, repr=False)
    _followed: int = field(default=0, init=False, repr=False)  # pieces that the brackets have been followed through
    _closed: bool | None = field(default=None, init=False, repr=False)  # False: there is more behind the last bracket

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)

    def is_complete(self) -> bool:
        """Whether the arguments are one whole object. Asked only where the place of a fragment depends on it.

        They are parsed only if the brackets say that they may be one, so that asking often is no more work.
        """
        if not (self.pieces and self.pieces[-1].rstrip().endswith("}") and self.pieces[0].lstrip().startswith("{")):
            return False
        for piece in islice(self.pieces, self._followed, None):
            end = self._brackets.feed(piece) if self._closed is None else 0
            if end >= 0:
                self._closed = self._closed is not False and not piece[end:].strip()
        self._followed = len(self.pieces)
        try:
            return self._closed is True and isinstance(parse_object(self.text), dict)
        except ValueError:
            return False


class Calls:
    """Sorts the fragments of one message into calls.

    Args:
        tool_names: the tools that the request declared; they tell a name that comes in pieces from a repeated one.
    """

    def __init__(self, tool_names: Collection[str] = (), limits: Limits | None = None) -> None:
        self._tool_names = frozenset(tool_names)
        self._limits = limits or Limits()
        self._opened: list[OpenCall] = []
        self._by_index: dict[int, OpenCall] = {}
        self._by_item: dict[str, OpenCall | None] = {}  # None: two calls have it, so that it tells nothing

    def __len__(self) -> int:
        return len(self._opened)

    def feed(self, part: Call) -> OpenCall | None:
        """Adds a fragment to its call and returns that; None if the fragment says nothing.

        Raises:
            ProtocolError: more calls, or longer arguments, than the limits allow.
        """
        if not (part.arguments or part.id or part.name or part.extra):
            return None  # an empty entry, as some servers send to keep a connection busy, opens nothing
        call, rule = self._find(part)
        return self._place(part, call, rule)

    def settle(self, summary: Iterable[Call]) -> None:
        """Compares the calls with the server's own list of them at the end of the answer.

        A call in the list is one that was streamed if it has that one's id, or its item's. Ids that are on neither side
        may have been drawn anew for the list: then calls of the same name are the same, in their order. What is left
        was not streamed at all.
        """
        waiting = list(self._opened)
        unknown: list[Call] = []
        for part in summary:
            same_id = next((call for call in waiting if part.id and call.id == part.id), None)
            same = same_id or next((c for c in waiting if part.item and self._by_item.get(part.item) is c), None)
            if same:
                waiting.remove(same)
                self._place(part, same, "listed_id" if same_id else "listed_item")
            else:
                unknown.append(part)
        for part in unknown:
            renamed = next((call for call in waiting if call.name == part.name), None)
            if renamed is not None:
                waiting.remove(renamed)
            self._place(part, renamed, "listed_name" if renamed else "listed_new")

    def _place(self, part: Call, call: OpenCall | None, rule: Rule) -> OpenCall:
        """Adds a fragment to its call, or to a new one. `rule` says why; whoever wants to know overrides this."""
        if call is None:
            call = self._open(part)
        if part.index is not None:
            self._by_index[part.index] = call  # also for a tail under another index than its head
        if part.id or part.name or part.extra:
            self._describe(call, part)
        if part.arguments:
            self._append(call, part)
        return call

    def finish(self) -> list[OpenCall]:
        """All calls, in the model's order: by index if each has one of its own, else by first appearance."""
        indices = {call.index for call in self._opened}
        if None in indices or len(indices) < len(self._opened):
            return list(self._opened)
        return sorted(self._opened, key=lambda call: call.index or 0)

    def _find(self, part: Call) -> tuple[OpenCall | None, Rule]:
        """The open call that a fragment continues, by rules 0 to 4 above; None if it opens one. And why."""
        if part.item and (call := self._by_item.get(part.item)) and self._continues(call, part):
            return call, "item"
        here = None if part.index is None else self._by_index.get(part.index)
        if here and self._continues(here, part):
            return here, "index"
        same_id = next((call for call in reversed(self._opened) if part.id and call.id == part.id), None)
        if same_id and (here or part.index is None or same_id.index is None or not _is_head(part)):
            return (same_id, "id") if self._continues(same_id, part) else (None, "id_taken")
        if here:  # an id that changes in the middle of a call (poolsideai/pool#9)
            changed = not part.name and part.arguments and here.name and not here.is_complete()
            return (here, "changed_id") if changed else (None, "index_taken")
        if not self._opened:
            return None, "first"
        if part.index is None:
            return (self._opened[-1], "last") if self._waits_for(self._opened[-1], part) else (None, "another")
        return self._find_head_of(part, part.index)

    def _find_head_of(self, part: Call, index: int) -> tuple[OpenCall | None, Rule]:
        """The call whose head came under another index than this fragment, if it is a further piece of one."""
        waiting = [call for call in self._opened if call.size < 8 and call.text.strip() in ("", "{}")]
        if part.name:  # the name again, with the arguments that the head did not have
            named = [call for call in waiting if call.id and call.name == part.name and not call.text.strip()]
            return (named[-1], "named") if named and part.arguments and not part.id else (None, "new_index")
        if not part.arguments:
            return None, "new_index"
        if index < len(self._opened) and self._opened[index] in waiting:
            return self._opened[index], "turn"
        tail_of = next((call for call in reversed(self._opened) if not call.is_complete()), None)
        return (tail_of, "unfinished") if tail_of else (None, "nothing_waits")

    def _continues(self, call: OpenCall, part: Call) -> bool:
        """Whether a fragment with the index or the id of `call` is a further piece of it, not another call's head."""
        if part.id and call.id and part.id != call.id:
            return False
        if part.whole or not part.name or not call.name:
            return True
        same_id_and_index = bool(part.id) and part.id == call.id and part.index is not None
        if part.name != call.name:
            begun = call.is_complete() if same_id_and_index else bool(call.pieces)
            return not begun and self._is_piece_of_name(call.name, part.name)
        return same_id_and_index or not _opens_another(call, part)

    def _waits_for(self, last: OpenCall, part: Call) -> bool:
        """Whether the last call takes a fragment without an index: always, unless that brings what the call has."""
        if part.id:
            return not last.id and (not part.name or (part.name == last.name and not last.pieces))
        if not part.name or not last.name:
            return True
        if part.name != last.name:
            together = last.name + part.name
            return not last.pieces and last.name not in self._tool_names and _begins_any(together, self._tool_names)
        if last.index is not None:  # the calls had indices: this repeats one of them
            return not _opens_another(last, part)
        return bool(last.id or not _is_head(part)) and not last.is_complete()

    def _open(self, part: Call) -> OpenCall:
        if len(self._opened) >= self._limits.tool_calls:
            raise ProtocolError(f"more than {self._limits.tool_calls} tool calls in one answer (limits.tool_calls)")
        call = OpenCall(len(self._opened), part.index)
        self._opened.append(call)
        return call

    def _describe(self, call: OpenCall, part: Call) -> None:
        """What a head says of its call."""
        if part.item and (part.id or part.name):  # what a tail says counts less than where its head was
            self._by_item[part.item] = call if self._by_item.get(part.item, call) is call else None
        call.markup = call.markup or part.markup
        if part.id and not call.id:
            call.id = part.id
        if part.name:
            call.name = self._joined_name(call.name, part.name)
        if part.extra:
            call.extra = {**(call.extra or {}), **part.extra}

    def _append(self, call: OpenCall, part: Call) -> None:
        size = len(part.arguments)
        if not part.whole:
            call.pieces.append(part.arguments)
            size = call.size = call.size + size
        elif part.arguments not in call.wholes:
            call.wholes = [*call.wholes[-2:], part.arguments]
        if size > self._limits.arguments_chars:
            raise ProtocolError(
                f"the arguments of {call.name or 'a call'} are longer than {self._limits.arguments_chars} characters"
                " (limits.arguments_chars)"
            )

    def _is_piece_of_name(self, current: str, piece: str) -> bool:
        two_tools = current in self._tool_names and piece in self._tool_names
        return not two_tools or _begins_any(current + piece, self._tool_names)

    def _joined_name(self, current: str, piece: str) -> str:
        """The name after a further piece of it came: repeated (llama.cpp), growing, or really in pieces."""
        if piece == current:
            doubled = current not in self._tool_names and _begins_any(current + piece, self._tool_names)
            return current + piece if doubled else current
        if piece.startswith(current):
            return piece
        if current in self._tool_names and not _begins_any(current + piece, self._tool_names):
            return current
        return current + piece


def _begins_any(text: str, names: Iterable[str]) -> bool:
    return any(name.startswith(text) for name in names)


def _is_head(part: Call) -> bool:
    """Whether a call could begin with this fragment."""
    return bool(part.name) and part.arguments.lstrip()[:1] in ("", "{")


def _opens_another(call: OpenCall, part: Call) -> bool:
    """Whether the name again comes with another whole object after a whole one: the next call of the same tool.

    An object after an empty one, or the same once more, is a repetition (see `fold.py`).
    """
    if not part.arguments.lstrip().startswith("{") or not call.is_complete():
        return False
    before = parse_object(call.text)
    try:
        return bool(before) and parse_object(part.arguments) != before
    except ValueError:  # the first piece of one
        return bool(before)
