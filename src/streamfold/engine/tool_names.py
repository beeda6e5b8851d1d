"""Names of tools as they arrive: whole, repeated with every fragment, growing, or really in pieces."""

from __future__ import annotations

from collections.abc import Collection

_NO_NAMES: frozenset[str] = frozenset()  # an empty one for each answer would take 216 bytes


class ToolNames:
    """Joins a name that came in fragments, with the help of the tools that the request declared."""

    def __init__(self, declared: Collection[str] = ()) -> None:
        self._declared = frozenset(declared) if declared else _NO_NAMES

    def is_piece(self, current: str, piece: str) -> bool:
        """Whether `piece` may continue a name: not if both are tools of their own, unless a tool begins with both."""
        two_tools = current in self._declared and piece in self._declared
        return not two_tools or self._begins_any(current + piece)

    def is_declared_in_pieces(self, current: str, piece: str) -> bool:
        """Whether only both together can be a declared tool."""
        return current not in self._declared and self._begins_any(current + piece)

    def joined(self, current: str, piece: str) -> str:
        """Returns the name after a further piece: repeated (llama.cpp), growing, or really in pieces."""
        if piece == current:
            return current + piece if self.is_declared_in_pieces(current, piece) else current
        if piece.startswith(current):
            return piece
        if current in self._declared and not self._begins_any(current + piece):
            return current
        return current + piece

    def _begins_any(self, text: str) -> bool:
        return any(name.startswith(text) for name in self._declared)
