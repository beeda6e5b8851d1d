"""Decides which fragments of tool calls can be written to a client before the answer has ended.

- A truncated tool call must not look complete. So the last non-space character is delayed, and a tool call isn't begun
  before the text after its first brace is known. A character that closes the object is a fragment with `ended=True`.
- Written fragments can't be taken back. A tool call is written in one piece at the end if its id or name is missing,
  its id belongs to another tool call, its tool is unknown, or its text looks damaged (`jsontext/tool_arguments.py`).
- Tool calls are written in their final order. If an earlier tool call may still arrive, later ones wait for the end.
- At the end, `ended=False` marks a tool call that was written with other content. The writer must then end the answer
  with an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..jsontext import BracketTracker, join_surrogates, parse_object
from ..types import ToolCall, ToolCallDelta, ToolCallUpdate


@dataclass(slots=True, eq=False)
class _CallState:
    """The state of one tool call.

    Attributes:
        id, name: as written; empty before that.
        pieces: all pieces of the arguments.
        held: the end of the text, not yet released.
        shown: the released pieces.
        first: the first piece; `is_only` until a different piece arrives.
        unread: the last pieces, which have no closing brace.
        stopped: whether no more text is released before the end.
        closed: whether `held` closes the object.
    """

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    first: str = ""
    is_only: bool = True
    unread: list[str] = field(default_factory=list)
    stopped: bool = False
    closed: bool = False
    brackets: BracketTracker = field(default_factory=BracketTracker)


class CallDeltas:
    """Decides which fragments of an answer's tool calls can be written before its end."""

    def __init__(self) -> None:
        self._calls: dict[int, _CallState] = {}
        self._ids: dict[str, int] = {}

    def feed(self, call: ToolCallUpdate) -> list[ToolCallDelta]:
        """Returns the fragments that can be written now. The first fragment of a tool call has id and name."""
        state = self._calls.setdefault(call.number, _CallState())
        state.pieces.append(call.text)
        if not (call.is_certain and call.in_order):
            state.stopped = state.stopped or bool(call.text)
        if state.stopped:
            return []
        self._take(state, call.text)
        if not (state.id or self._may_begin(call, state)) or not (text := _released(state)):
            return []
        state.shown.append(text)
        shown = ToolCallDelta(call.number, arguments=text)
        if not state.id:
            state.id, state.name = call.id, call.tool or ""
            shown = ToolCallDelta(call.number, state.id, state.name, text, extra=call.extra, item=call.item)
        if not state.closed:
            return [shown]
        return [shown, ToolCallDelta(call.number, arguments="".join(state.held), ended=True)]

    def finish(self, calls: Sequence[ToolCall], numbers: Sequence[int]) -> list[ToolCallDelta]:
        """Returns the final, complete fragments of the function calls; `ended=False` marks contradictions with written
        ones."""
        placed = zip(calls, numbers, strict=False)  # there are no numbers if no call was written before
        return [self._end(call, number) for call, number in placed if call.kind == "function"]

    def _take(self, state: _CallState, piece: str) -> None:
        """Reads the next piece. Stops at the end of the object, and at damaged pieces."""
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

    def _may_begin(self, call: ToolCallUpdate, state: _CallState) -> bool:
        if not call.id or not call.tool:
            return False
        if call.kind == "custom":  # any part of its text could be run
            state.stopped = True
            return False
        if self._ids.setdefault(call.id, call.number) != call.number:
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

    def _end(self, call: ToolCall, number: int) -> ToolCallDelta:
        text = call.raw_arguments if call.raw_arguments.strip() else "{}"
        state = self._calls.get(number, _CallState())
        ended = None
        if state.id:
            shown = "".join(state.shown)
            if not text.startswith(shown):
                text = _same_value(state.pieces, call) or text
            same = (state.id, state.name) == (call.id, call.name) and text.startswith(shown)
            ended = None if same else False
        return ToolCallDelta(number, call.id, call.name, text, whole=True, extra=call.extra, ended=ended)


def _same_value(pieces: Sequence[str], call: ToolCall) -> str | None:
    """Returns the text of the pieces if its value equals the delivered arguments."""
    text = join_surrogates("".join(pieces))
    try:
        same = repr(parse_object(text)) == repr(call.arguments)  # `==` would take true for 1
    except ValueError:
        return None
    return text if same else None


def _released(state: _CallState) -> str:
    """Removes and returns the releasable part of the delayed text."""
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
