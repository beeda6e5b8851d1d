"""Which recording answers which request, and what happens to it on the way: for the transport and for the server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import ConfigError
from ..faults import Fault, Injection, Injector, Step, status
from .files import Recording, Speed, paced

__all__ = ["Answer", "Request", "Shelf", "Source", "answer_headers"]

Source = Recording | str | os.PathLike[str] | Sequence[Recording | str | os.PathLike[str]]

# They describe the connection, or the encoding of the day of the recording, not the bytes that are played.
_NOT_PLAYED = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "set-cookie"}


def answer_headers(recording: Recording) -> dict[str, str]:
    """The headers to answer with: those of the recording that still hold, and a content type in any case."""
    kept = {name.lower(): value for name, value in recording.headers.items() if name.lower() not in _NOT_PLAYED}
    return {"content-type": "text/event-stream", **kept}


class Request(NamedTuple):
    """A request as far as it decides about the answer."""

    method: str
    path: str
    body: bytes


@dataclass(slots=True, eq=False)
class Answer:
    """What to answer.

    Attributes:
        recording: where it comes from; None if a fault answers.
        delay: seconds before its head.
        status, headers: its head; None and none if the connection is to be closed without one.
        steps: its body. The last one is its ending.
        broken: it did not come to its end. Whoever plays it sets this when it is left before.
    """

    recording: Recording | None
    delay: float
    status: int | None
    headers: Mapping[str, str]
    steps: Iterator[Step]
    broken: bool = field(default=False)


class Shelf:
    """The recordings, which of them is next, and the faults.

    Raises:
        ConfigError: an argument can't be used.
    """

    def __init__(self, source: Source, *, speed: Speed, cuts: str, faults: Iterable[Fault]) -> None:
        several = [source] if isinstance(source, Recording | str | os.PathLike) else list(source)
        if not several:
            raise ConfigError("no recording was given: there is nothing to answer with")
        self.recordings = [item if isinstance(item, Recording) else Recording.load(item) for item in several]
        self._paced = [paced(recording, cuts, speed) for recording in self.recordings]
        self._injector = Injector(faults)
        self._served = 0
        self._spoiled: list[tuple[Request, int, Answer]] = []

    def answer(self, request: Request) -> Answer | None:
        """The next recording as an answer; None if there is none left.

        A request that is sent again, because a fault broke its answer off, gets the same recording again.
        """
        return self._injected(request, None)

    def named(self, request: Request, name: str) -> Answer | None:
        """The recording of this name, or with this as the last part of its name, as an answer; None if there is none.

        It may be asked for as often as one likes.
        """
        for number, recording in enumerate(self.recordings):
            if name in (recording.name, recording.name.rpartition("/")[2]):
                return self._injected(request, number)
        return None

    def _injected(self, request: Request, number: int | None) -> Answer | None:
        again = self._again(request) if number is None else number
        if again is None and self._served == len(self.recordings):
            return None
        injection = self._injector.next()
        if injection.instead is not None:
            return _instead(injection)
        if again is None:
            again, self._served = self._served, self._served + 1
        recording = self.recordings[again]
        answer = Answer(recording, injection.delay, recording.status, answer_headers(recording), iter(()))
        answer.steps = self._steps(again, injection, answer)
        if number is None and injection.touched:
            self._spoiled.append((request, again, answer))
        return answer

    def _again(self, request: Request) -> int | None:
        for place, (asked, number, answer) in enumerate(self._spoiled):
            if answer.broken and asked == request:
                del self._spoiled[place]
                return number
        return None

    def _steps(self, number: int, injection: Injection, answer: Answer) -> Iterator[Step]:
        recording = self.recordings[number]
        for delay, piece in self._paced[number]:
            steps = injection.body.feed(Step(delay, piece))
            answer.broken = injection.body.ended in ("cut", "reset")
            yield from steps
            if injection.body.ended:
                return
        yield from injection.body.feed(Step(0.0, b"", "cut" if recording.broken else "end"))


def _instead(injection: Injection) -> Answer:
    fault = injection.instead
    if not isinstance(fault, status):
        return Answer(None, injection.delay, None, {}, iter(()))
    steps = iter([Step(0.0, fault.content), Step(0.0, b"", "end")])
    return Answer(None, injection.delay, fault.code, fault.headers, steps)
