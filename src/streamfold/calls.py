"""Which tool call does a fragment belong to? The one place that knows how servers really number them.

On paper it is easy: `index` says it. In the field the index is missing (Gemini, Mistral), is 0 for every call and only
the id tells them apart (OpenRouter, smolagents), starts at 1 (Anthropic's compatible endpoint), is -1 (Z.ai), or
belongs to the head of a call and not to its tail (DeepSeek V4). Ids and names are sent once, or with every fragment, or
late, or as `""`, or never, or twice for two calls. So a fragment is placed by what it carries, in this order:

1. **An index that is in use** continues the newest call under that index, unless the fragment says otherwise: an id
   that is not the call's, or another name after arguments have begun.
2. **A known id** continues the call that has it, unless the fragment is a head under an index of its own: then the
   server used one id for two calls.
3. **Without an index** the last call goes on, unless the fragment brings an id or a name and that call has one.
4. **Under an index that nobody opened** a head, which has an id or a name, opens a call. A tail, which has only
   arguments, belongs to a call whose head came under another index: the one whose turn the index says it is, if that
   one has no arguments yet, else the last one whose arguments are not complete.

What finds no call opens one.

Id and name are set once; `""` and null set nothing. Arguments are appended and not looked at: a text that parses can
still be the beginning of a longer one. They are parsed once, when the stream has ended in order (`fold.py`). The one
exception are the rare fragments whose place nothing else tells, see `_is_complete`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from .deltas import Call
from .errors import ProtocolError
from .jsontext import parse_object
from .types import Limits

__all__ = ["Calls", "OpenCall"]


@dataclass(slots=True, eq=False)
class OpenCall:
    """A tool call of which fragments have come, and perhaps will.

    Attributes:
        number: 0, 1, 2 in the order in which calls were opened.
        index: the server's number for it, if it sent a usable one.
        pieces: the arguments' text so far, in the pieces in which it came.
    """

    number: int
    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    extra: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)


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

    def __bool__(self) -> bool:
        return bool(self._opened)

    def feed(self, part: Call) -> Call | None:
        """Adds a fragment to its call and returns it with the call's number as its index; None if it says nothing.

        Raises:
            ProtocolError: more calls, or longer arguments, than the limits allow.
        """
        if not (part.id or part.name or part.arguments or part.extra):
            return None  # an empty entry, as some servers send to keep a connection busy, opens nothing
        call = self._find(part) or self._open(part)
        if part.index is not None:
            self._by_index[part.index] = call  # also for a tail under another index than its head
        if part.id and not call.id:
            call.id = part.id
        if part.name:
            call.name = self._joined_name(call.name, part.name)
        if part.extra:
            call.extra = {**(call.extra or {}), **part.extra}
        self._append(call, part)
        return Call(call.number, part.id, part.name, part.arguments, part.whole, part.extra)

    def finish(self) -> list[OpenCall]:
        """All calls, in the model's order: by index if each has one of its own, else by first appearance."""
        indices = {call.index for call in self._opened}
        if None in indices or len(indices) < len(self._opened):
            return list(self._opened)
        return sorted(self._opened, key=lambda call: call.index or 0)

    def _find(self, part: Call) -> OpenCall | None:
        """The open call that a fragment continues, by rules 1 to 4 above; None if it opens one."""
        here = None if part.index is None else self._by_index.get(part.index)
        if here and self._continues(here, part):
            return here
        if part.id and (here or part.index is None or not part.name):
            for call in reversed(self._opened):
                if call.id == part.id:
                    return call if self._continues(call, part) else None
        if here or not self._opened:
            return None
        last = self._opened[-1]
        if part.index is None:
            return last if self._waits_for(last, part) else None
        if part.id or part.name:
            return None
        if part.index < len(self._opened) and not (turn := self._opened[part.index]).pieces:
            return turn
        return next((call for call in reversed(self._opened) if not _is_complete(call)), None)

    def _continues(self, call: OpenCall, part: Call) -> bool:
        """Whether a fragment with the index or the id of `call` is a further piece of it, not another call's head."""
        if part.id and call.id and part.id != call.id:
            return False
        if not part.name or not call.name or (part.id and part.id == call.id and part.index is not None):
            return True
        if part.name != call.name:
            return not call.pieces and self._is_piece_of_name(call.name, part.name)
        # The name again, and another whole object after a whole one: the next call of the same tool. But an object
        # that is empty, or the same again, is a repetition (see `fold.py`).
        return not (
            part.arguments.lstrip().startswith("{")
            and _is_complete(call)
            and call.text.strip() not in ("{}", part.arguments.strip())
        )

    def _waits_for(self, last: OpenCall, part: Call) -> bool:
        """Whether the last call takes a fragment without an index: always, unless that brings what the call has."""
        if part.id:
            return not last.id and (not part.name or (part.name == last.name and not last.pieces))
        return not (part.name and last.name)

    def _open(self, part: Call) -> OpenCall:
        if len(self._opened) >= self._limits.tool_calls:
            raise ProtocolError(f"more than {self._limits.tool_calls} tool calls in one answer (limits.tool_calls)")
        call = OpenCall(len(self._opened), part.index)
        self._opened.append(call)
        return call

    def _append(self, call: OpenCall, part: Call) -> None:
        if part.whole:
            call.pieces.clear()
            call.size = 0
        if not part.arguments:
            return
        call.pieces.append(part.arguments)
        call.size += len(part.arguments)
        if call.size > self._limits.arguments_chars:
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


def _is_complete(call: OpenCall) -> bool:
    """Whether the arguments are one whole object. Asked only where the place of a fragment depends on it."""
    if not (call.pieces and call.pieces[-1].rstrip().endswith("}") and call.pieces[0].lstrip().startswith("{")):
        return False
    try:
        return isinstance(parse_object(call.text), dict)
    except ValueError:
        return False
