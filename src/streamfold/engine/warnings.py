"""The warnings of one answer: each once, in their order, and no more than a limit."""

from __future__ import annotations

from ..values import ReplyWarning, WarningCode
from .call_match import Listener
from .incoming_call import IncomingCall


class WarningList:
    """Collects warnings.

    Args:
        limit: the most that are listed.
        listener: is told of each, with the call that it is about.
    """

    def __init__(self, limit: int, listener: Listener | None = None) -> None:
        self._limit = limit
        self._listener = listener
        self._found: dict[ReplyWarning, None] = {}  # a set that keeps its order
        self._more = 0

    def add(self, code: WarningCode, detail: str, about: IncomingCall | None = None) -> None:
        """Notes a warning if it is a new one and there is room for it."""
        warning = ReplyWarning(code, detail)
        if warning in self._found:
            return
        if len(self._found) >= self._limit:
            self._more += 1
            return
        self._found[warning] = None
        if self._listener:
            self._listener((warning, about))

    def all(self) -> list[ReplyWarning]:
        """Returns the warnings so far; the last one may say how many more there were."""
        if not self._more:
            return list(self._found)
        return [*self._found, ReplyWarning("more_warnings", f"{self._more} further warnings are not listed")]
