"""What may be shown of a call before the answer has ended: for clients that want its arguments as they are written.

A call is handed out once, whole, at the end (`tool_call_delivery.py`). Programs in front of which we write the same
answer on another API want the fragments too, to show a file while it grows. This module makes fragments that are safe
to write at once:

- A call that is cut off does not look whole. The last character that is not white space is held back, and a call is not
  begun before the text behind its first brace is known. A character that closes the object is a fragment of its own, an
  end (`ToolCallDelta.ended` is True): it is written when something else comes, or at the end of the answer.
- What has been written can't be taken back. So a fragment waits as long as something may still be decided otherwise:
  id or name are missing, the id belongs to another call, the tool is unknown, or the text looks like one of the known
  kinds of damage (`jsontext/tool_arguments.py`). Such a call comes whole, at the end.
- Calls are shown in the order in which they are handed out (`Calls.finish`). The first call that begins under another
  number than the next one waits for the end, with all calls behind it: one with a lower number may still come.
- At the end what was shown is compared with what is handed out (`ToolCallDelta.ended` is False if they differ). A
  writer that has begun a call which is not handed out, or not as it was shown, must end the answer with an error.
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
    """What has been shown of a call.

    Attributes:
        id, name: as they were shown; empty before that.
        held: the end of the text so far, which waits.
        shown: the pieces of the text that were shown.
        first: the first piece; `is_only` as long as no other has come.
        taken: how many pieces have been looked at.
        unread: the last of these, which can't close the object: they have no closing brace.
        stopped: nothing more is shown before the end.
        closed: what is held closes the object.
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
    """Decides which fragments of the calls of one answer may be shown.

    Args:
        tool_names: the tools that the request declared, as they are called on the wire.
        names: their own names.
    """

    def __init__(self, tool_names: Collection[str], names: ToolNameMap) -> None:
        self._tools = frozenset(tool_names)
        self._names = names
        self._calls: dict[int, _Shown] = {}
        self._ids: dict[str, int] = {}
        self._indices: set[int] | None = set()  # of the calls so far; None: the order is that of appearance
        self._unplaced: int | None = None  # the number of the first call whose place is known only at the end

    def begin(self, call: IncomingCall, others: Collection[int | None] | None) -> None:
        """Takes note of a call that has begun.

        Args:
            others: the numbers of parts of the answer beside calls; None: numbers are always those of appearance.
        """
        if self._indices is None or self._unplaced is not None:
            return
        if call.index is None or call.index in self._indices:
            self._indices = None
            return
        if others is not None and not all(at in self._indices or at in others for at in range(call.index)):
            self._unplaced = call.number
        self._indices.add(call.index)

    def is_in_order(self, call: IncomingCall) -> bool:
        """Whether the number of a call is its place among all calls, whatever may still come."""
        return self._unplaced is None or call.number < self._unplaced

    def after(self, call: IncomingCall, part: ToolCallDelta) -> Callable[[], tuple[ToolCallDelta, ...]]:
        """Returns a function that is called by those who want to write what may be shown after a fragment."""
        return partial(self._feed, call, part.item, len(call.pieces))

    def _feed(self, call: IncomingCall, item: str | None, count: int) -> tuple[ToolCallDelta, ...]:
        """Returns what may be shown of so many pieces: nothing, or what follows and perhaps the end.

        The first time with id and name.
        """
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

    def ends(self, handed_out: Sequence[tuple[IncomingCall, ToolCall]]) -> Callable[[], tuple[ToolCallDelta, ...]]:
        """Returns a function that is called by those who have written what the one before it returned.

        It returns each call that is handed out, whole and in their order; `ended` is False if it was shown otherwise.
        """
        return partial(self._ends, handed_out)

    def _ends(self, handed_out: Sequence[tuple[IncomingCall, ToolCall]]) -> tuple[ToolCallDelta, ...]:
        places = count(self._unplaced or 0)
        return tuple(
            self._end(call, made, call.number if self.is_in_order(call) else next(places)) for call, made in handed_out
        )

    def _take(self, state: _Shown, piece: str) -> None:
        """Takes the next piece of the text. Stops behind the end of the object, and where the pieces are damaged."""
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
        # An empty object may come before the real one, and text that is no object may be one that was encoded twice.
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
        """The pieces, if they say the same in another spelling than the repetition that is handed out."""
        text = join_surrogates(call.text)
        try:
            same = repr(parse_object(text)) == repr(made.arguments)  # `==` would take true for 1
        except ValueError:
            return None
        return text if same else None


def _released(state: _Shown) -> str:
    """Takes what may be shown of the text that is held."""
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
