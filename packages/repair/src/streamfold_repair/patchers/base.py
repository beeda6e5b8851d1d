"""The base class of the serializers that rewrite a server's response, including fields that no delta contains."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from streamfold import Reply
from streamfold.adapters import ExtraPart
from streamfold.serving import StreamSerializer

UNMODELLED = "seen"  # the name of an `ExtraPart` with the fields of an event that no delta contains


def dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """Returns the objects in a list. Returns an empty list if the value isn't a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class StreamPatcher(StreamSerializer):
    """Base class of the patchers. Each patcher also derives from the serializer for its API.

    Patchers use and override only public attributes and methods of a serializer.

    Attributes:
        calls_have_ids: True if clients need an id for each tool call.
        reason_names_calls: True if the API has a separate finish reason for responses with tool calls.
    """

    calls_have_ids = True
    reason_names_calls = False

    @staticmethod
    def tools(request: Mapping[str, Any]) -> Iterable[Any]:
        """Returns the function tools of a request, in the format of Chat Completions."""
        return dicts_in(request.get("tools"))

    @abstractmethod
    def accepts(self, payload: Any, name: str) -> bool:
        """Returns True if clients of this API can parse an event, after the events that they have received before."""

    @abstractmethod
    def extras_of(self, payload: Any) -> list[ExtraPart]:
        """Returns the parts of an event that no delta contains, and that must be written between the deltas. Stores
        other fields of the event in the patcher.
        """

    @abstractmethod
    def patch_body(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        """Returns the repaired body of a response that wasn't streamed."""

    @abstractmethod
    def follows(self, payload: Any) -> bool:
        """Gives the patcher the state of a client that has parsed this event. Returns False if that isn't possible."""

    def advance_past(self, payload: Any) -> bytes | None:
        """Prepares the patcher to continue after an event that is forwarded unchanged, and whose deltas it already has.

        Returns None if the patcher can continue after the event. Otherwise returns the output to send in place of the
        event.
        """
        is_possible = self.follows(payload)
        written = self.drain()
        return None if is_possible else written

    def is_unfinished(self, body: Any) -> bool:
        """Returns True if a response that isn't streamed says that the server is still generating the answer."""
        return False

    def is_duplicate(self, payload: Any) -> bool:
        """Returns True if an event differs from the previous event only in its text."""
        return False

    def passes_over(self, raw: bytes) -> bool:
        """Returns True if clients ignore an event because they don't know its name."""
        return False
