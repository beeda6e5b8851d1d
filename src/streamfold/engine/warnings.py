"""The warnings of one answer: each once, in their order, and no more than a limit."""

from __future__ import annotations

from ..values import ProtocolWarning, WarningCode

__all__ = ["Warnings"]


class Warnings:
    """Collects warnings."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._found: dict[ProtocolWarning, None] = {}  # a set that keeps its order
        self._more = 0

    def add(self, code: WarningCode, detail: str) -> ProtocolWarning | None:
        """Returns the warning if it is a new one and there is room for it."""
        warning = ProtocolWarning(code, detail)
        if warning in self._found:
            return None
        if len(self._found) >= self._limit:
            self._more += 1
            return None
        self._found[warning] = None
        return warning

    def all(self) -> list[ProtocolWarning]:
        """Returns the warnings so far; the last one may say how many more there were."""
        more = [ProtocolWarning("more_warnings", f"{self._more} further warnings are not listed")]
        return [*self._found, *(more if self._more else ())]
