"""Rules of an API: one sentence each from its documentation, and a check that finds where an answer breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from streamfold.engine import event_ranges

from ..doctor import ProbeResponse

_SERVER_ERROR = 500


class SentEvent(NamedTuple):
    """One event of an answer.

    Attributes:
        name: of the `event:` line; empty if there is none.
        payload: the JSON of its data; the text itself if it is not JSON.
    """

    name: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Stream:
    """One answer, as its rules look at it.

    Attributes:
        seen: the answer and its request.
        events: those with data.
        status: of the response.
        error: the JSON body of a response whose status is not 2xx.
    """

    seen: ProbeResponse
    status: int
    events: tuple[SentEvent, ...] = field(default=(), repr=False)
    error: Any = field(default=None, repr=False)

    @property
    def objects(self) -> list[Mapping[str, Any]]:
        """The payloads that are JSON objects, in order."""
        return [event.payload for event in self.events if isinstance(event.payload, Mapping)]

    def of(self, *types: str) -> list[Mapping[str, Any]]:
        """Returns the payloads with one of these words as their `type`."""
        return [payload for payload in self.objects if payload.get("type") in types]


Check: TypeAlias = Callable[[Stream], Iterator[str]]
"""Yields what is wrong with an answer."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: stable over versions, with its API: `chat/role-first`.
        text: what the documentation demands, as a sentence.
        link: where it does.
        about: whether it has something to say about an answer.
        errors: it is about answers with an error status; else about streams.
    """

    name: str
    text: str
    link: str
    check: Check
    about: Callable[[Stream], object]
    errors: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """Where an answer breaks a rule.

    Attributes:
        answer: its number in the examination.
        what: what is wrong with it.
    """

    rule: str
    answer: int
    asked: str
    what: str


def rule_maker(api: str, link: str, rules: list[Rule]) -> Callable[..., Callable[[Check], Check]]:
    """Returns a decorator that makes rules of checks, in their order."""

    def rule(
        name: str, text: str, *, about: Callable[[Stream], object] = lambda _: True, errors: bool = False
    ) -> Callable[[Check], Check]:
        def decorate(check: Check) -> Check:
            rules.append(Rule(f"{api}/{name}", text, link, check, about, errors))
            return check

        return decorate

    return rule


def event_stream_type(stream: Stream) -> Iterator[str]:
    """Yields what is wrong with the content type of a stream."""
    kind = stream.seen.headers.get("content-type", "none")
    if not kind.startswith("text/event-stream"):
        yield f"the content type is {kind}"


def named_by_type(stream: Stream) -> Iterator[str]:
    """Yields the first event whose `event:` line does not say its type."""
    for event in stream.events:
        kind = event.payload.get("type") if isinstance(event.payload, Mapping) else None
        if event.name != kind:
            yield f"an event called {event.name!r} has the type {kind!r}"
            return


def error_with_message(stream: Stream) -> Iterator[str]:
    """Yields what is wrong with the answer to a refused request, which has the same shape on all APIs."""
    error = stream.error.get("error") if isinstance(stream.error, Mapping) else None
    if stream.status >= _SERVER_ERROR:
        yield f"status {stream.status}"
    elif not isinstance(error, Mapping):
        yield f"no error object: {str(stream.error)[:60]!r}"
    elif not isinstance(error.get("message"), str) or not isinstance(error.get("type"), str):
        yield "the error object has no message or no type"


def wrong_sum(counts: Sequence[Any]) -> Iterator[str]:
    """Yields what is wrong with counts of tokens: in, out, and both together."""
    if not all(isinstance(count, int) for count in counts):
        yield f"a count is missing: {counts}"
    elif counts[0] + counts[1] != counts[2]:
        yield f"{counts[0]} and {counts[1]} are not {counts[2]}"


def read_stream(seen: ProbeResponse) -> Stream | None:
    """Returns an answer for its rules; None if it isn't a stream, broke off or never came: no rule is about that."""
    recording = seen.recording
    if recording is None or seen.whole or seen.way not in ("fine", "refused"):
        return None
    if recording.status >= 400:
        return Stream(seen, recording.status, error=_parsed(recording.body.decode("utf-8", "replace")))
    return Stream(seen, recording.status, tuple(_events(recording.body)))


def _events(body: bytes) -> Iterable[SentEvent]:
    for start, end, payloads, _ in event_ranges(body):
        if not payloads:
            continue
        data = b"\n".join(body[first:last] for first, last in payloads).decode("utf-8", "replace").strip()
        names = [line[6:].strip() for line in body[start:end].splitlines() if line.startswith(b"event:")]
        yield SentEvent(names[-1].decode("utf-8", "replace") if names else "", _parsed(data))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
