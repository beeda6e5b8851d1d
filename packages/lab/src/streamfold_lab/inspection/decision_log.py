"""Records the adapter's deltas and the engine's decisions while a response is read."""

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
    """The deltas that an adapter read from an event, or its error. `event` is None for a complete body."""

    event: ServerSentEvent | None
    deltas: tuple[Delta, ...]
    error: str | None = None


class TracedAdapter(Adapter):
    """An adapter that records its deltas."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.name, self.path, self.framing = adapter.name, adapter.path, adapter.framing
        self.blocks_name = adapter.blocks_name
        self.read: list[Reading] = []

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        return self._adapter.encode(request, report)

    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        return self._keep(event, lambda: self._adapter.decode(event))

    def decode_body(self, body: Any) -> Iterable[Delta]:
        return self._keep(None, lambda: self._adapter.decode_body(body))

    def _keep(self, event: ServerSentEvent | None, read: Callable[[], Iterable[Delta]]) -> list[Delta]:
        try:
            deltas = list(read())
        except ValueError as exc:
            self.read.append(Reading(event, (), f"can't be read: {exc}"))
            raise
        self.read.append(Reading(event, tuple(deltas)))
        return deltas


class DecisionLog:
    """Listens to a decoder, and records its decisions until `take` is called.

    Attributes:
        placements: the tool calls that fragments were assigned to.
        warned: the warnings, each with its tool call.
        opened: all tool calls so far.
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
        """Returns the placements and warnings since the last call of this method."""
        taken = self.placements, self.warned
        self.placements, self.warned = [], []
        return taken
