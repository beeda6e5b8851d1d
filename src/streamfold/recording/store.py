"""Decides which recording answers which request, for the replay transport and the replay server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal, TypeAlias

from ..config import allowed_values_hint
from ..faults import BodyStep, Fault, Injection, Injector, status
from ..values import ConfigError
from .files import Recording, Speed, open_recording, with_delays
from .request_matching import RecordedRequest, ReplayMismatch, diff_requests, read_patterns

Source: TypeAlias = Recording | str | os.PathLike[str] | Sequence[Recording | str | os.PathLike[str]]
Match: TypeAlias = Literal["order", "request", "any"]

# They describe the connection, or the encoding of the day of the recording, not the bytes that are played.
_NOT_PLAYED = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "set-cookie"}


def answer_headers(recording: Recording) -> dict[str, str]:
    """Returns the recorded headers that still apply, and a content type in any case."""
    kept = {name.lower(): value for name, value in recording.headers.items() if name.lower() not in _NOT_PLAYED}
    return {"content-type": "text/event-stream", **kept}


def load_source(source: Source) -> list[Recording]:
    """Loads the recordings of a source.

    A list is what is in it. A folder is all recordings in it, by name, `hello-2` before `hello-10`. A path is that
    recording, and those that were recorded after it in the same conversation (`hello`, `hello-2`, `hello-3`). What is
    no path may be the name of one that comes with streamfold.

    Raises:
        ConfigError: there is none, or one can't be read.
    """
    if isinstance(source, Recording):
        return [source]
    if not isinstance(source, str | os.PathLike):
        found = [item if isinstance(item, Recording) else open_recording(item) for item in source]
        if not found:
            raise ConfigError("no recording was given: there is nothing to answer with")
        return found
    path = Path(source).absolute()
    if path.is_dir() and not path.with_name(f"{path.name}.sse").is_file():
        if not (files := _sorted(path.glob("*.sse"))):
            raise ConfigError(f"there is no recording in {path}")
        return [Recording.load(file) for file in files]
    first = open_recording(source)
    stem = first.name.rpartition("/")[2]
    series = _sorted(path.parent.glob("*.sse")) if first.conversation else []
    starts = {stem, re.sub(r"-\d+$", "", stem)}  # the number may be part of the name, as in gpt-4
    names = re.compile(f"({'|'.join(map(re.escape, starts))})-\\d+")
    after = [file for file in series if names.fullmatch(file.stem) and _key(file.stem) > _key(stem)]
    return [
        first,
        *(next_one for file in after if (next_one := Recording.load(file)).conversation == first.conversation),
    ]


def _sorted(files: Iterable[Path]) -> list[Path]:
    return sorted((file for file in files if not file.name.startswith(".")), key=lambda file: _key(file.stem))


def _key(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


@dataclass(slots=True, eq=False)
class ReplayedResponse:
    """One answer to a request.

    Attributes:
        delay: seconds before its head.
        status, headers: its head; None and none if the connection is to be closed without one.
        steps: its body. The last one is its ending.
        broken: it was not played to its end.
    """

    delay: float
    status: int | None
    headers: Mapping[str, str]
    steps: Iterator[BodyStep]
    broken: bool = False


class RecordingSelector:
    """Recordings, the choice among them, and the faults.

    Args:
        match: "order": one after the other, each for the request that was recorded with it (any request, if none was).
            "request": each for its request, whenever and as often as that comes. "any": one after the other, whatever
            is asked.

        ignore: regular expressions of text in requests that may differ.

    Raises:
        ConfigError: an argument can't be used.
    """

    def __init__(
        self,
        source: Source,
        *,
        speed: Speed,
        cuts: str,
        faults: Iterable[Fault],
        match: Match,
        ignore: Iterable[str | re.Pattern[str]] = (),
    ) -> None:
        if match not in ("order", "request", "any"):
            raise ConfigError(f"unknown match {match!r}{allowed_values_hint(str(match), ['order', 'request', 'any'])}")
        self.recordings = load_source(source)
        for recording in self.recordings:
            if match == "request" and recording.sent is None:
                raise ConfigError(f"{recording.name} was recorded without its request, and can't be found by it")
        self._paced = [with_delays(recording, cuts, speed) for recording in self.recordings]
        self._injector = Injector(faults)
        self._match = match
        self._ignore = read_patterns(ignore)
        self._served = [False] * len(self.recordings)
        self._spoiled: list[tuple[RecordedRequest, int, ReplayedResponse]] = []

    def answer(self, request: RecordedRequest) -> ReplayedResponse | None:
        """Returns the recording for a request, as an answer; None if all were served.

        A request that is sent again because a fault broke its answer off gets the same recording again.

        Raises:
            ReplayMismatch: the request is not the one that was recorded.
        """
        number = self._again(request)
        if number is None:
            number = self._by_request(request) if self._match == "request" else self._in_order(request)
        if number is None:
            return None
        injection = self._injector.next()
        if injection.instead is not None:
            return _instead(injection)
        self._served[number] = True
        answer = self._injected(number, injection)
        if injection.touched:
            self._spoiled.append((request, number, answer))
        return answer

    def named(self, name: str | None) -> ReplayedResponse | None:
        """Returns the recording with this name, or with this last part of its name, as an answer; else None.

        It may be requested repeatedly. A model name that was recorded with a recording does not select it.
        """
        for number, recording in enumerate(self.recordings):
            if name in (recording.name, recording.name.rpartition("/")[2]) and name != _model(recording):
                injection = self._injector.next()
                return _instead(injection) if injection.instead else self._injected(number, injection)
        return None

    def _in_order(self, request: RecordedRequest) -> int | None:
        number = next((number for number, served in enumerate(self._served) if not served), None)
        if number is not None and self._match == "order":
            recording = self.recordings[number]
            if recording.sent and (found := diff_requests(recording.sent, request, self._ignore)):
                raise ReplayMismatch(
                    f"this request is not the one that {recording.name} answers"
                    f' (match="any" would answer it anyway, ignore=[...] allows differences):\n{found}',
                    found,
                )
        return number

    def _by_request(self, request: RecordedRequest) -> int:
        sent = {number: each.sent for number, each in enumerate(self.recordings) if each.sent}
        found = {number: diff_requests(each, request, self._ignore) for number, each in sent.items()}
        same = [number for number, text in found.items() if not text]
        if same:
            return next((number for number in same if not self._served[number]), same[-1])
        body = request.body.decode("utf-8", "replace")
        likest = max(found, key=lambda number: _likeness(self.recordings[number], body))
        names = ", ".join(recording.name for recording in self.recordings)
        raise ReplayMismatch(
            f"none of {names} answers this request; {self.recordings[likest].name} comes nearest:\n{found[likest]}",
            found[likest],
        )

    def _again(self, request: RecordedRequest) -> int | None:
        for place, (asked, number, answer) in enumerate(self._spoiled):
            if answer.broken and asked == request:
                del self._spoiled[place]
                return number
        return None

    def _injected(self, number: int, injection: Injection) -> ReplayedResponse:
        recording = self.recordings[number]
        answer = ReplayedResponse(injection.delay, recording.status, answer_headers(recording), iter(()))
        answer.steps = self._steps(number, injection, answer)
        return answer

    def _steps(self, number: int, injection: Injection, answer: ReplayedResponse) -> Iterator[BodyStep]:
        recording = self.recordings[number]
        for delay, piece in self._paced[number]:
            steps = injection.body.feed(BodyStep(delay, piece))
            answer.broken = injection.body.ended in ("cut", "reset")
            yield from steps
            if injection.body.ended:
                return
        yield from injection.body.feed(BodyStep(0.0, b"", "cut" if recording.broken else "end"))


def _instead(injection: Injection) -> ReplayedResponse:
    fault = injection.instead
    if not isinstance(fault, status):
        return ReplayedResponse(injection.delay, None, {}, iter(()))
    steps = iter([BodyStep(0.0, fault.content), BodyStep(0.0, b"", "end")])
    return ReplayedResponse(injection.delay, fault.code, fault.headers, steps)


def _model(recording: Recording) -> str | None:
    sent = recording.sent
    return RecordedRequest(sent.method, sent.path, sent.body.encode("utf-8", "replace")).model if sent else None


def _likeness(recording: Recording, body: str) -> float:
    return SequenceMatcher(None, recording.sent.body if recording.sent else "", body).quick_ratio()
