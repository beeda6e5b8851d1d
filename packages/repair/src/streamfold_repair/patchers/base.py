"""Serializers that write a server's own answer again, with everything in it that no delta has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from streamfold import Reply
from streamfold.adapters import ExtraPart
from streamfold.serving import StreamSerializer

UNMODELLED = "seen"  # the name of an `ExtraPart` with the members of an event that have no delta, for `write_extra`


class StreamPatcher(StreamSerializer):
    """The base of the patchers, one for each wire format, which also derive from the serializer of that format.

    Of a serializer they use and override public members alone.

    Attributes:
        calls_have_ids: whether clients need the ids of calls.
        reason_names_calls: whether the finish reason of an answer with calls must say so.
    """

    calls_have_ids = True
    reason_names_calls = False

    @staticmethod
    @abstractmethod
    def tools(request: Mapping[str, Any]) -> Iterable[Any]:
        """Returns the functions of a request in the shape of Chat Completions."""

    @abstractmethod
    def accepts(self, payload: Any, name: str) -> bool:
        """Returns whether an event has the shape that clients of this API accept, after those before it."""

    @abstractmethod
    def extras_of(self, payload: Any) -> list[ExtraPart]:
        """Reads the members of an event that have no delta. Returns those with a place among the deltas."""

    @abstractmethod
    def patch_body(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        """Returns an answer that was not streamed, with what is wrong in it corrected."""

    @abstractmethod
    def follows(self, payload: Any) -> bool:
        """Moves to where a client is that has read this event of the server. Returns whether that is possible."""

    def advance_past(self, payload: Any) -> bytes | None:
        """Takes note that an event of the server, whose deltas were fed, is forwarded unchanged.

        Returns None if what is written next would come after it, else what is to be written instead of it.
        """
        is_possible = self.follows(payload)
        written = self.drain()
        return None if is_possible else written

    def is_unfinished(self, body: Any) -> bool:
        """Returns whether a body that was not streamed is not an answer yet: the server is still working on it."""
        return False

    def is_duplicate(self, payload: Any) -> bool:
        """Returns whether an event differs from the one before only in its text: it need not be looked at."""
        return False

    def passes_over(self, raw: bytes) -> bool:
        """Returns whether clients ignore an event, because they don't know its name."""
        return False
