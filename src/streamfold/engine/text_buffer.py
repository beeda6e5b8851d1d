"""One text of an answer as it arrives: its visible text, its reasoning or its refusal."""

from __future__ import annotations

from ..text import join_surrogates
from ..values import ProtocolError


class TextBuffer:
    """Text that arrives in pieces; the halves of a character that was cut in two are joined again.

    Args:
        limit: characters.
        name: of the limit, for the error.
    """

    __slots__ = ("_half", "_limit", "_name", "_pieces", "size")

    def __init__(self, limit: int, name: str) -> None:
        self._pieces: list[str] = []
        self._half = ""
        self._limit = limit
        self._name = name
        self.size = 0

    @property
    def text(self) -> str:
        """Everything that has been shown."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def raw(self) -> str:
        """Everything that has come, with U+FFFD for half of a character at its end."""
        return self.text + ("\ufffd" if self._half else "")

    def add(self, piece: str) -> str:
        """Takes a piece and returns what of it can be shown.

        Raises:
            ProtocolError: the text is longer than the limit.
        """
        if self._half or not piece.isascii():
            piece = self._joined(self._half + piece)
        if piece:
            self.size += len(piece)
            if self.size > self._limit:
                raise ProtocolError(f"the answer is longer than {self._limit} characters (limits.{self._name})")
            self._pieces.append(piece)
        return piece

    def _joined(self, piece: str) -> str:
        self._half = ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return join_surrogates(piece)

    def finish(self) -> str:
        """Returns what was still held back: nothing, or U+FFFD for a half that stayed alone."""
        rest, self._half = join_surrogates(self._half), ""
        if rest:
            self._pieces.append(rest)
            self.size += len(rest)
        return rest
