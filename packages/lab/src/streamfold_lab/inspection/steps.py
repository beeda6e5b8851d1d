"""Describes the effects of each event in a few lines, for the terminal and the HTML page.

Facts that every event repeats, such as the model's name, are described only for the first event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from streamfold.adapters import (
    CallSummary,
    Delta,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    Sequence,
    TextDelta,
    ToolCallDelta,
)

from .sentences import called, delta_kind, delta_words
from .values import Event, FragmentPlacement, Inspection, LocatedWarning

Lane: TypeAlias = Literal["reasoning", "text", "refusal", "call", "stream", "warning", "error"]


@dataclass(frozen=True, slots=True)
class EventLine:
    """One effect of an event on the reply.

    Attributes:
        lane: the part of the reply that the event changed; `stream` for everything that the model didn't write.
        call: the number of the tool call, if `lane` is `call`.
        what: a description of the effect; empty if the event only adds the next piece of a text or of arguments.
        piece: the piece of text or arguments that the event adds.
        why: the reason why a fragment belongs to the tool call, or the tool call that a warning is about.
    """

    lane: Lane
    what: str = ""
    piece: str = ""
    why: str = ""
    call: int | None = None

    @property
    def shown(self) -> str:
        """The description and the piece of text or arguments in one line, without control characters."""
        return ", ".join(part for part in (self.what, repr(self.piece) if self.piece else "") if part)


def steps(inspection: Inspection) -> list[tuple[EventLine, ...]]:
    """Returns the effects of every event, in the order of `inspection.events`."""
    warned: dict[int, list[LocatedWarning]] = {}
    for warning in inspection.warnings:
        warned.setdefault(warning.event, []).append(warning)
    known = Meta()
    made: list[tuple[EventLine, ...]] = []
    for position, event in enumerate(inspection.events):
        news: list[Delta] = []
        for delta in event.deltas:
            if isinstance(delta, Meta):
                if (delta.id or known.id, delta.model or known.model) == (known.id, known.model):
                    continue
                known = Meta(delta.id or known.id, delta.model or known.model)
            news.append(delta)
        lines = [*_lines(event, news), *(_warning(warning, inspection) for warning in warned.get(position, ()))]
        if event.error:
            lines.append(EventLine("error", event.error))
        if not lines:
            lines.append(EventLine("stream", f"{event.name}: no content" if event.name else "no content"))
        made.append(tuple(lines))
    return made


def _lines(event: Event, news: list[Delta]) -> Iterator[EventLine]:
    if event.kind == "comment":
        yield EventLine("stream", f"comment {' '.join(event.raw.split())!r}")
    if event.kind == "unread":
        yield EventLine("stream", "ignored: the response had ended")
    for delta in news:
        if isinstance(delta, Meta):
            yield EventLine("stream", f"meta: {delta_words(delta)}")
    if event.reasoning:
        yield EventLine("reasoning", piece=event.reasoning)
    if event.text:
        yield EventLine("text", piece=event.text)
    for delta in news:
        if isinstance(delta, RefusalDelta):
            yield EventLine("refusal", "all of it" if delta.whole else "", delta.text)
    for placement in event.placements:
        yield _fragment(placement)
    for note in event.notes:
        yield EventLine("stream", note)
    for delta in news:
        if isinstance(delta, ReasoningDelta) and not delta.text:
            yield EventLine("reasoning", "hidden reasoning")
        elif not isinstance(
            delta, Meta | TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta | CallSummary | Sequence
        ):
            yield EventLine("stream", f"{delta_kind(delta)}: {delta_words(delta)}")
    if event.kind == "end" and not event.error:
        yield EventLine("stream", "end of the body" + ": the response is complete" * event.finished)


def _fragment(placement: FragmentPlacement) -> EventLine:
    if placement.call is None:
        return EventLine("stream", "an empty tool call entry", why="it has no content")
    parts = [f"name {placement.name!r}"] if placement.name else []
    parts += [f"id {placement.id!r}"] if placement.id else []
    parts += ["all arguments"] if placement.whole and placement.arguments else []
    return EventLine("call", ", ".join(parts), placement.arguments, placement.why, placement.call)


def _warning(warning: LocatedWarning, inspection: Inspection) -> EventLine:
    about = ""
    if warning.call is not None:
        call = inspection.calls[warning.call]
        number = inspection.events[call.first].number
        about = f"about {called(call.number, call.name)}" + (f", opened by event {number}" if number else "")
    return EventLine("warning", f"{warning.code}: {warning.detail}", why=about)
