"""A body as a timed series of steps, and the machines that faults are made of: each takes a step and makes any number.

They work on bytes as they come, hold back no more than the event that is changed, and know nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, Protocol, TypeAlias

from ..engine import EventScanner

Ending: TypeAlias = Literal["end", "cut", "reset"]


class BodyStep(NamedTuple):
    """The next thing that happens to a body.

    Attributes:
        delay: seconds to wait before; may be infinite.
        data: the bytes that come then; none, and it is a pause.
        ending: how the body ends here: in order ("end"), closed without the mark that ends it ("cut"), or the
            connection is reset ("reset"). Nothing follows.
    """

    delay: float
    data: bytes = b""
    ending: Ending | None = None


class Filter(Protocol):
    """Takes the steps of a body one by one and makes other ones of them."""

    def feed(self, step: BodyStep) -> Iterable[BodyStep]:
        """Returns the steps that replace this one."""
        ...


class Chain:
    """Filters one behind the other.

    Attributes:
        ended: how the body ended; None as long as it goes on.
    """

    def __init__(self, filters: Iterable[Filter]) -> None:
        self._filters = list(filters)
        self.ended: Ending | None = None

    def feed(self, step: BodyStep) -> list[BodyStep]:
        """Returns the steps that replace this one. After an ending there are none."""
        steps = [] if self.ended else [step]
        for each in self._filters:
            steps = [made for taken in steps for made in each.feed(taken)]
        for number, made in enumerate(steps, 1):
            if made.ending:
                self.ended = made.ending
                return steps[:number]
        return steps


class Insert:
    """Puts steps at a place: before the first byte, after so many bytes, or after so many whole events."""

    def __init__(self, steps: Iterable[BodyStep], *, after_bytes: int | None, after_events: int | None) -> None:
        self._steps = list(steps)
        self._bytes = after_bytes
        self._events = 0 if after_events is None else after_events
        self._scanner = EventScanner()
        self._met = False

    def feed(self, step: BodyStep) -> Iterator[BodyStep]:
        if self._met:
            yield step
            return
        place = self._place(step.data)
        if place is None:
            yield step
            return
        self._met = True
        delay = step.delay
        if place:
            yield BodyStep(delay, step.data[:place])
            delay = 0.0
        yield from self._steps
        if place < len(step.data) or step.ending or not step.data:
            yield BodyStep(delay, step.data[place:], step.ending)

    def _place(self, data: bytes) -> int | None:
        """Returns where in these bytes the place is; None if it comes later."""
        if self._bytes is not None:
            if self._bytes <= len(data):
                return self._bytes
            self._bytes -= len(data)
            return None
        if not self._events:
            return 0
        place = 0
        for part, ends in self._scanner.feed(data):
            place += len(part)
            self._events -= ends
            if not self._events:
                return place
        return None


class Edit:
    """Changes single events, by their numbers from 1. What is not one of them passes as it comes."""

    def __init__(self, events: Iterable[int], edit: Callable[[int, bytes], bytes]) -> None:
        self._numbers = frozenset(events)
        self._edit = edit
        self._scanner = EventScanner()
        self._number = 1
        self._held: list[BodyStep] = []

    def feed(self, step: BodyStep) -> Iterator[BodyStep]:
        delay = step.delay
        for part, ends in self._scanner.feed(step.data):
            if self._number in self._numbers:
                self._held.append(BodyStep(delay, part))
                if ends:
                    yield self._edited()
            else:
                yield BodyStep(delay, part)
            delay = 0.0
            self._number += ends
        if step.ending:
            if self._held and self._scanner.in_event:  # the last event has no blank line
                yield self._edited()
            yield from self._held
            yield BodyStep(delay, b"", step.ending)
        elif not step.data:
            yield step

    def _edited(self) -> BodyStep:
        held, self._held = self._held, []
        return BodyStep(
            sum(step.delay for step in held), self._edit(self._number, b"".join(step.data for step in held))
        )


class Delay:
    """Lets every piece of the body come later."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def feed(self, step: BodyStep) -> Iterator[BodyStep]:
        yield step._replace(delay=step.delay + self._seconds) if step.data else step
