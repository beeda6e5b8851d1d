"""Fragments of calls that can be written to a client before the answer has ended.

- A truncated call must not look complete. The last non-space character is held back, and a call is not begun before the
  text after its first brace is known. A character that closes the object is a fragment with `ended=True`.
- Written fragments can't be taken back. A call whose id or name is missing, whose id belongs to another call, whose
  tool is unknown, or whose text looks damaged (`jsontext/tool_arguments.py`) comes whole, at the end.
- Calls are written in the order of `ToolCallAssembler.finish`. Where a call with a lower number may still come, the
  rest waits for the end.
- At the end, `ended=False` marks a call that was written differently. A writer must then end the answer with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from ..jsontext import BracketTracker, join_surrogates, parse_object
from ..types import ToolCall, ToolCallDelta
from .tool_call_assembly import IncomingCall
from .tool_call_delivery import ToolNameMap


@dataclass(slots=True, eq=False)
class _Shown:
    """The state of one call.

    Attributes:
        id, name: as written; empty before that.
        held: the end of the text, not yet released.
        shown: the released pieces.
        first: the first piece; `is_only` until a different one arrives.
        taken: how many pieces were read; `unread` are the last of them, which have no closing brace.
        stopped: nothing more is released before the end.
        closed: `held` closes the object.
    """

    id: str = ""
    name: str = ""
    held: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    first: str = ""
    is_only: bool = True
    taken: int = 0
    unread: list[str] = field(default_factory=list)
    stopped: bool = False
    closed: bool = False
    brackets: BracketTracker = field(default_factory=BracketTracker)


class CallDeltas:
    """Decides which fragments of the calls of an answer can be written before its end."""

    def __init__(self, tool_names: Collection[str], names: ToolNameMap) -> None:
        self._tools = frozenset(tool_names)
        self._names = names
        self._calls: dict[int, _Shown] = {}
        self._ids: dict[str, int] = {}
        self._indices: set[int] | None = set()  # of the calls so far; None: the order is that of appearance
        self._unplaced: int | None = None  # the number of the first call whose place is known only at the end

    def begin(self, call: IncomingCall, others: Collection[int | None] | None) -> None:
        """Notes a new call. `others` are the numbers of other parts; None if calls are numbered by appearance."""
        if self._indices is None or self._unplaced is not None:
            return
        if call.index is None or call.index in self._indices:
            self._indices = None
            return
        if others is not None and not all(at in self._indices or at in others for at in range(call.index)):
            self._unplaced = call.number
        self._indices.add(call.index)

    def is_in_order(self, call: IncomingCall) -> bool:
        """Returns whether the number of a call is its final position."""
        return self._unplaced is None or call.number < self._unplaced

    def after(self, call: IncomingCall, part: ToolCallDelta) -> Callable[[], tuple[ToolCallDelta, ...]]:
        """Returns a function that makes the fragments that can be written after this one."""
        return partial(self._feed, call, part.item, len(call.pieces))

    def _feed(self, call: IncomingCall, item: str | None, count: int) -> tuple[ToolCallDelta, ...]:
        """Returns the fragments for the first `count` pieces; the first fragment has id and name."""
        state = self._calls.get(call.number)
        if state is None:
            state = self._calls[call.number] = _Shown()
        if state.stopped or not self.is_in_order(call):
            return ()
        for piece in call.pieces[state.taken : count]:
            self._take(state, piece)
        state.taken = max(state.taken, count)
        if not (state.id or self._may_begin(call, state)) or not (text := _released(state)):
            return ()
        state.shown.append(text)
        shown = ToolCallDelta(call.number, arguments=text)
        if not state.id:
            state.id, state.name = call.id, self._names.own.get(call.name, call.name)
            shown = ToolCallDelta(call.number, state.id, state.name, text, extra=call.extra, item=item)
        if not state.closed:
            return (shown,)
        return (shown, ToolCallDelta(call.number, arguments="".join(state.held), ended=True))

    def ends(self, delivered: Sequence[tuple[IncomingCall, ToolCall]]) -> Callable[[], tuple[ToolCallDelta, ...]]:
        """Returns a function that makes the final, whole fragments; `ended=False` if a call was written differently."""
        return partial(self._ends, delivered)

    def _ends(self, delivered: Sequence[tuple[IncomingCall, ToolCall]]) -> tuple[ToolCallDelta, ...]:
        places = count(self._unplaced or 0)
        return tuple(
            self._end(call, made, call.number if self.is_in_order(call) else next(places)) for call, made in delivered
        )

    def _take(self, state: _Shown, piece: str) -> None:
        """Reads the next piece. Stops after the end of the object, and where the pieces are damaged."""
        if state.stopped or not piece:
            return
        if not state.first:
            state.first = piece
        elif state.is_only and piece.startswith(state.first):  # snapshots in place of pieces
            state.stopped = True
            return
        else:
            state.is_only = False
        if "}" not in piece:
            state.unread.append(piece)
        else:
            before = "".join(state.unread)
            state.unread = []
            if (end := state.brackets.feed(before + piece)) >= 0:
                state.stopped = state.closed = True
                piece = piece[: max(0, end - len(before))]
        state.held.append(piece)

    def _may_begin(self, call: IncomingCall, state: _Shown) -> bool:
        if not call.id or not call.name or call.name == self._names.answer:
            return False
        if call.custom:  # any part of its text could be run
            state.stopped = True
            return False
        if self._ids.setdefault(call.id, call.number) != call.number or (self._tools and call.name not in self._tools):
            return False
        if not state.held or state.held[-1].isspace():
            return False
        begun = "".join(state.held)
        state.held = [begun]
        begun = begun.lstrip()
        inside = begun[1:].lstrip()
        # An empty object may precede the real one, and other text may be an object that was encoded twice.
        doubtful = begun[0] != "{" or inside.startswith("}")
        state.stopped = state.stopped or doubtful
        return bool(inside) and not doubtful

    def _end(self, call: IncomingCall, made: ToolCall, number: int) -> ToolCallDelta:
        if call.custom:
            return ToolCallDelta(number, made.id, made.name, made.raw_arguments, whole=True, custom=True)
        text = made.raw_arguments if made.raw_arguments.strip() else "{}"
        state = self._calls.get(call.number, _Shown())
        ended = None
        if state.id:
            shown = "".join(state.shown)
            if not text.startswith(shown):
                text = self._same_value(call, made) or text
            same = (state.id, state.name) == (made.id, made.name) and text.startswith(shown) and not call.lost_pieces
            ended = None if same else False
        return ToolCallDelta(number, made.id, made.name, text, whole=True, extra=made.extra, ended=ended)

    @staticmethod
    def _same_value(call: IncomingCall, made: ToolCall) -> str | None:
        """Returns the pieces if they are the same value as the delivered repetition."""
        text = join_surrogates(call.text)
        try:
            same = repr(parse_object(text)) == repr(made.arguments)  # `==` would take true for 1
        except ValueError:
            return None
        return text if same else None


def _released(state: _Shown) -> str:
    """Takes the releasable part out of the held text."""
    held = state.held
    if not held or (len(held) > 1 and held[-1].isspace()):
        return ""
    text = "".join(held)
    end = len(text.rstrip()) - 1
    if end > 0 and "\ud800" <= text[end - 1] <= "\udbff":  # half a character, whose other half may come
        end -= 1
    if end <= 0:
        return ""
    state.held = [text[end:]]
    return join_surrogates(text[:end])
