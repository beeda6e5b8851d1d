"""Records the pieces that an adapter parses from a response, and the decoder's decisions about these pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from streamfold import ReplyWarning
from streamfold.adapters import Adapter, Delta, EncodingReport
from streamfold.engine import CallMatch, IncomingCall

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from streamfold.adapters import Request


class Reading(NamedTuple):
    """The deltas (parsed pieces) that an adapter found in an event, or the error that the adapter raised. `event` is
    None for a response that isn't streamed.
    """

    event: ServerSentEvent | None
    deltas: tuple[Delta, ...]
    error: str | None = None


class TracedAdapter(Adapter):
    """Wraps an adapter, and records the deltas that the adapter returns."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.name, self.path, self.framing = adapter.name, adapter.path, adapter.framing
        self.blocks_name = adapter.blocks_name
        self.read: list[Reading] = []

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        return self._adapter.encode(request, report)

    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        return self._keep(event, lambda: self._adapter.decode(event))

    def decode_cut(self, event: ServerSentEvent) -> Iterable[Delta]:
        return self._keep(event, lambda: self._adapter.decode_cut(event))

    def decode_body(self, body: Any) -> Iterable[Delta]:
        return self._keep(None, lambda: self._adapter.decode_body(body))

    def decode_cut_body(self, text: str) -> Iterable[Delta]:
        return self._keep(None, lambda: self._adapter.decode_cut_body(text))

    def _keep(self, event: ServerSentEvent | None, read: Callable[[], Iterable[Delta]]) -> list[Delta]:
        try:
            deltas = list(read())
        except ValueError as exc:
            self.read.append(Reading(event, (), f"can't be read: {exc}"))
            raise
        self.read.append(Reading(event, tuple(deltas)))
        return deltas


class DecisionLog:
    """Receives the decisions of a stream decoder, and stores them until `take` is called.

    Attributes:
        placements: the decisions that assign tool call fragments to tool calls.
        warned: the warnings, each with the tool call that it is about.
        opened: all tool calls that have begun so far.
    """

    def __init__(self) -> None:
        self.placements: list[CallMatch] = []
        self.warned: list[tuple[ReplyWarning, IncomingCall | None]] = []
        self.opened: dict[int, IncomingCall] = {}

    def __call__(self, what: CallMatch | tuple[ReplyWarning, IncomingCall | None]) -> None:
        if isinstance(what, CallMatch):
            self.placements.append(what)
            self.opened[what.call.number] = what.call
        else:
            self.warned.append(what)

    def take(self) -> tuple[list[CallMatch], list[tuple[ReplyWarning, IncomingCall | None]]]:
        """Returns the decisions and the warnings that were recorded since the last call of this method."""
        taken = self.placements, self.warned
        self.placements, self.warned = [], []
        return taken
