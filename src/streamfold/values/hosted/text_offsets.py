"""Where the texts of an answer are in `Reply.text`: positions in characters, whatever the provider counts in."""

from __future__ import annotations


class TextOffsets:
    """Finds the texts of an answer one after the other.

    They follow each other without anything between them. Only where what was shown differs from what was said at the
    end (`text_mismatch`) is a text looked for, and may have no place.

    >>> places = Places("Hello, world")
    >>> places.next("Hello, "), places.next("world")
    (0, 7)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self, said: str) -> int | None:
        """Returns where the next text begins; None if it is not in the answer."""
        at = self._text.find(said, self._at)
        if at < 0:
            return None
        self._at = at + len(said)
        return at


class UTF8Offsets:
    """Positions in the UTF-8 bytes of a text, as positions in its characters.

    >>> Bytes("92°F")(5)
    4
    """

    def __init__(self, text: str) -> None:
        self._bytes = text.encode("utf-8", "surrogatepass")
        self._plain = len(self._bytes) == len(text)

    def __call__(self, at: int) -> int:
        return min(at, len(self._bytes)) if self._plain else len(self._bytes[:at].decode("utf-8", "ignore"))
