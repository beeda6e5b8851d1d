"""An adapter, a sorter of calls and a fold that do what theirs do, and keep what they saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...adapters import Adapter
from ...engine import Calls, Fold, OpenCall, Rule, StreamDecoder
from ...values import Call, Delta, ToolCall, WarningCode
from .values import Placement
from .words import placement_words

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ...requests import Request

__all__ = ["TracedAdapter", "TracedCalls", "TracedDecoder", "TracedFold"]


class Reading(NamedTuple):
    """What an adapter made of an event, or of a whole body (None), or why it could not."""

    event: ServerSentEvent | None
    deltas: tuple[Delta, ...]
    error: str | None = None


class TracedAdapter(Adapter):
    """An adapter that keeps what it read."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.name, self.path, self.framing = adapter.name, adapter.path, adapter.framing
        self.read: list[Reading] = []

    def encode(self, request: Request) -> dict[str, Any]:
        return self._adapter.encode(request)

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


class TracedCalls(Calls):
    """Calls that keep why each fragment went where it went."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.placements: list[Placement] = []
        self.opened = self._opened

    def feed(self, part: Call) -> OpenCall | None:
        call = super().feed(part)
        if call is None:
            self.placements.append(Placement(None, False, None, "an empty entry: says nothing", part.index))
        return call

    def _place(self, part: Call, call: OpenCall | None, rule: Rule) -> OpenCall:
        other = self._by_index.get(part.index) if part.index is not None else None
        if rule == "id_taken":
            other = next((known for known in reversed(self._opened) if known.id == part.id), None)
        placed = super()._place(part, call, rule)
        why = placement_words(rule, part, placed, other)
        self.placements.append(
            Placement(
                placed.number, call is None, rule, why, part.index, part.id, part.name, part.arguments, part.whole
            )
        )
        return placed


class TracedFold(Fold):
    """A fold that keeps its warnings with the call that they are about."""

    calls_type = TracedCalls

    def __init__(self, **options: Any) -> None:
        self.warned: list[tuple[WarningCode, str, int | None]] = []
        self._about: int | None = None
        super().__init__(**options)

    @property
    def calls(self) -> TracedCalls:
        assert isinstance(self._calls, TracedCalls)  # noqa: S101 - see calls_type
        return self._calls

    def warn(self, code: WarningCode, detail: str) -> None:
        self.warned.append((code, detail, self._about))
        super().warn(code, detail)

    def _tool_call(self, call: OpenCall, *rest: Any) -> ToolCall:
        self._about = call.number
        made = super()._tool_call(call, *rest)
        self._about = None
        return made


class TracedDecoder(StreamDecoder):
    fold_type: ClassVar[type[Fold]] = TracedFold

    @property
    def traced(self) -> TracedFold:
        assert isinstance(self._fold, TracedFold)  # noqa: S101 - see fold_type
        return self._fold
