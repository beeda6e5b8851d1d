"""A tool call under way: what has arrived of it, and what that says about the fragments that may still come."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from ..text import is_empty, is_empty_wrapper, parse_object, whole_characters
from .brackets import BracketTracker

_WHOLES = 3  # how many different wordings of the whole arguments are kept


class IncomingCall:
    """A tool call of which at least one fragment has arrived. What is the same for nearly all calls is the class's.

    Attributes:
        number: 0, 1, 2 in the order in which calls were opened.
        index: the server's number for it, if it sent a usable one.
        other_id: another id that the server gave to the same call later. The first one counts.
        pieces: the text of the arguments so far, in the pieces in which it arrived.
        wholes: the texts by which the server repeated the arguments whole, each once, the last three.
        size: characters in the pieces.
        markup: the model wrote the call into its text.
        custom: it is of a custom tool, and its arguments are free text.
        items: the ids of the items that are this call, on APIs that have items.
        came_whole: a whole came, if only an empty one.
        had_empty_repetition: a whole was empty although there were arguments. It does not count.
        done: the server said that the call is complete.
        broken_off: the server said that the call is not complete.
        late: a part of it came after the last finish reason.
        gap_at: `size` when events were found missing, and no whole had come; None if none are missing.
        has_gap: pieces came behind such a gap, so that some may be missing between them.
        guessed: only what usually comes next decided that a fragment is, or is not, of this call.
        is_ambiguous: arguments were left over that may be its own.
        listed: its place in the server's own list of the calls.
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
    _brackets: BracketTracker | None = None
    _followed = 0  # pieces that the brackets have been followed through
    _closed: bool | None = None  # False: there is more behind the last bracket
    _value: Any = None  # of the arguments, if they had to be compared

    def __init__(self, number: int, index: int | None) -> None:
        self.number = number
        self.index = index
        self.pieces: list[str] = []
        self.size = 0
        self.gap_at: int | None = None

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)

    @property
    def text_so_far(self) -> str:
        """The arguments as they are known before the end, for showing them."""
        return whole_characters(self.text or (self.wholes[-1] if self.wholes else ""))

    @property
    def has_arguments(self) -> bool:
        """Whether any text of the arguments has come."""
        return bool(self.size or self.wholes)

    @property
    def waits(self) -> bool:
        """Whether arguments are still to come: there are none, and nothing says that there will be none.

        An empty object may be a placeholder (Bedrock opens with `{}`). A call that is done, or whose arguments came as
        a whole, never waits.
        """
        return not (self.came_whole or self.wholes) and self.size < 8 and self.text.strip() in ("", "{}")

    @property
    def has_all_arguments(self) -> bool:
        """Whether the arguments are all there, as far as can be seen."""
        return self.came_whole or bool(self.wholes) or self.is_complete()

    @property
    def lost_pieces(self) -> bool:
        """Whether a part of the arguments may be missing, and no whole says what they are."""
        if self.is_ambiguous and not self.came_whole:
            return True
        if self.gap_at is None:
            return False
        if self.came_whole and not self.text.strip():
            return False
        return (self.has_gap and not self.wholes) or not self.has_arguments

    def has_text(self, arguments: str) -> bool:
        """Whether these are the arguments."""
        return (self.size == len(arguments) and arguments == self.text) or arguments in self.wholes

    def add_whole(self, text: str) -> bool:
        """Adds a repetition of all arguments; returns whether the text is kept. An empty one beside others is not."""
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
        """Whether the pieces are one whole object, by its brackets. Asked only where it decides about a fragment."""
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
        """Whether these arguments begin another object behind a complete one, as the next call of the same tool does.

        An object after an empty one, or the same object once more, is a repetition (`text/arguments.py`).
        """
        if not arguments.lstrip().startswith("{") or not self.is_complete():
            return False
        if self._value is None:
            self._value = _object(self.text)
        return bool(self._value) and _object(arguments) != self._value


def _object(text: str) -> Any:
    """Returns the JSON object in a text; False if it is anything else."""
    try:
        value = parse_object(text)
    except ValueError:
        return False
    return value if isinstance(value, dict) else False
