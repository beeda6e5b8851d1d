"""Runs a response body through streamfold's decoder and records the effect of each event.

The decoder gets the body line by line, so that each decision of the decoder belongs to one event. The recorded effects
therefore don't depend on how the network split the body.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from streamfold import Limits, Reply, StreamChunk, StreamDecoder, StreamError, WarningCode
from streamfold.adapters import Adapter, ToolCallDelta, find_adapter
from streamfold.engine import CallMatch as Found
from streamfold.engine import EventRange, IncomingCall, body_kind, event_ranges
from streamfold.types import Dialect, ToolLike

from .decision_log import DecisionLog, TracedAdapter
from .sentences import placement_words, unshown_words
from .values import Event, EventKind, FragmentPlacement, Inspection, LocatedWarning, StreamFailure, TracedCall


def inspect_stream(
    body: bytes,
    *,
    name: str = "",
    adapter: str | Adapter = "chat",
    dialect: str | Dialect | None = None,
    tools: Iterable[ToolLike] = (),
    tool_choice: Any = "auto",
    start_in_reasoning: bool = False,
    limits: Limits | None = None,
    cuts: Sequence[tuple[int, float]] = (),
    interrupted: str | None = None,
    about: Mapping[str, str] | None = None,
) -> Inspection:
    """Explains the body of a recorded response.

    Args:
        adapter, dialect, tools, tool_choice, start_in_reasoning, limits: see `StreamDecoder`.
        cuts: the network reads: for each read, the number of bytes and the seconds since the previous read.
        interrupted: the error that broke the connection after the body; None if there was no error.
        name, about: facts about the recording, which are copied to the result.

    Raises:
        ConfigError: the adapter or the dialect is unknown, or a tool is invalid. For a stream that can't be decoded,
            the function raises no exception: the result contains the error.
    """
    reader = TracedAdapter(find_adapter(adapter)() if isinstance(adapter, str) else adapter)
    notes = DecisionLog()
    decoder = StreamDecoder(
        reader,
        dialect=dialect,
        tools=tools,
        tool_choice=tool_choice,
        start_in_reasoning=start_in_reasoning,
        limits=limits,
        listener=notes,
    )
    trace = _Trace(decoder, reader, notes, cuts, by_dialect=dialect is not None)
    failed = trace.run(body, interrupted)
    return Inspection(
        name=name,
        adapter=reader.name,
        dialect=dialect if isinstance(dialect, str) or dialect is None else type(dialect).__name__,
        size=len(body),
        events=tuple(trace.events),
        calls=tuple(_calls(notes.opened.values(), trace.events)),
        warnings=tuple(trace.warnings.values()),
        reply=(failed.partial if failed else decoder.reply) or Reply(),
        failed=StreamFailure(type(failed).__name__, failed.message, failed.retryable) if failed else None,
        pieces=tuple(size for size, _ in cuts),
        about=dict(about or {}),
    )


class _Trace:
    """Runs a body through a decoder, and creates events from the recorded decisions."""

    def __init__(
        self,
        decoder: StreamDecoder,
        reader: TracedAdapter,
        notes: DecisionLog,
        cuts: Sequence[tuple[int, float]],
        *,
        by_dialect: bool,
    ) -> None:
        self.events: list[Event] = []
        self.warnings: dict[tuple[WarningCode, str], LocatedWarning] = {}
        self._decoder, self._reader, self._notes, self._by_dialect = decoder, reader, notes, by_dialect
        self._ends = list(accumulate(size for size, _ in cuts))  # the position after each network read
        self._times = list(accumulate(delay for _, delay in cuts))
        self._number = 0
        self._time = 0.0

    def run(self, body: bytes, interrupted: str | None) -> StreamError | None:
        decoder, reader = self._decoder, self._reader
        is_stream = not body or body_kind(body) == "events"
        failed: StreamError | None = None
        closed = False
        ranges = event_ranges(body) if is_stream else [EventRange(0, len(body), ended=True)]
        for start, end, _, ended in ranges:
            raw = body[start:end]
            if closed:
                self._add("unread", start, raw, [])
            else:
                chunks = []
                for line in raw.splitlines(keepends=True):
                    chunks += [] if decoder.done else decoder.feed(line)
                cut_off = end == len(body) and not (is_stream and ended)
                done = decoder.done
                if done or cut_off:
                    more, failed = self._close(interrupted)
                    chunks += more
                    closed = True
                kind: EventKind = "event" if reader.read or done else "rest" if closed else "comment"
                if cut_off and reader.read and reader.read[0].error:
                    kind = "rest"
                self._add(kind if is_stream else "body", start, raw, chunks, failed)
        if not closed:
            chunks, failed = self._close(interrupted)
            if chunks or failed or self._notes.warned:
                self._add("end", len(body), b"", chunks, failed)
        return failed

    def _close(self, interrupted: str | None) -> tuple[list[StreamChunk], StreamError | None]:
        chunks: list[StreamChunk] = []
        try:
            chunks = self._decoder.end(interrupted=interrupted)
            self._decoder.close()
        except StreamError as error:
            return chunks, error
        return chunks, None

    def _add(
        self, kind: EventKind, start: int, raw: bytes, chunks: list[StreamChunk], failed: StreamError | None = None
    ) -> None:
        end = start + len(raw)
        time: float | None = None
        piece: int | None = None
        if raw and self._ends:
            piece = min(bisect_left(self._ends, end) + 1, len(self._ends))
            time = self._times[piece - 1]
        gap = None if time is None else time - self._time
        self._time = self._time if time is None else time
        read, self._reader.read = self._reader.read, []
        self._number += kind == "event"
        event = next((reading.event for reading in read if reading.event), None)
        deltas = tuple(delta for reading in read for delta in reading.deltas)
        text, reasoning = ("".join(getattr(chunk, name) for chunk in chunks) for name in ("delta", "reasoning"))
        placements, warned = self._notes.take()
        for warning, call in warned:
            key = warning.code, warning.detail
            about = None if call is None else call.number
            self.warnings.setdefault(key, LocatedWarning(*key, len(self.events), about))
        placed = [*map(_placement, placements)]
        if not self._by_dialect:
            placed += [
                FragmentPlacement(None, False, None, "an empty entry", delta.index)
                for delta in deltas
                if isinstance(delta, ToolCallDelta) and delta.is_empty
            ]
        self.events.append(
            Event(
                number=self._number if kind == "event" else None,
                kind=kind,
                start=start,
                end=end,
                raw=raw.decode("utf-8", "replace"),
                name=event.event if event and event.event != "message" else "",  # the default name
                data=event.data if event else "",
                time=time,
                gap=gap,
                piece=piece,
                deltas=deltas,
                text=text,
                reasoning=reasoning,
                placements=tuple(placed),
                notes=tuple(unshown_words(deltas, text, reasoning, by_dialect=self._by_dialect)),
                finished=any(chunk.finished for chunk in chunks),
                error=failed.message if failed else next((r.error for r in read if r.error), None),
            )
        )


def _placement(found: Found) -> FragmentPlacement:
    part, number, why = found.part, found.call.number, placement_words(found)
    fragment = part.index, part.id, part.name, part.arguments, part.whole
    return FragmentPlacement(number, found.opened, found.rule, why, *fragment)


def _calls(opened: Iterable[IncomingCall], events: Sequence[Event]) -> Iterator[TracedCall]:
    came: dict[int, list[int]] = {}
    for position, event in enumerate(events):
        for placement in event.placements:
            if placement.call is not None:
                came.setdefault(placement.call, []).append(position)
    for call in opened:
        at = came[call.number]
        yield TracedCall(call.number, call.index, call.id, call.name, call.text, len(at), at[0], at[-1])
