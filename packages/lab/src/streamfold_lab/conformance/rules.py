"""Conformance rules. Each rule consists of a sentence from the API's documentation, and a function that finds
violations in a response.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from streamfold.engine import event_ranges

from ..doctor import ProbeResponse

_SERVER_ERROR = 500


class SentEvent(NamedTuple):
    """One SSE event of a server's response.

    Attributes:
        name: the value of the event's `event:` line; empty if the event has no such line.
        payload: the parsed JSON data of the event; the data as text if it isn't JSON.
    """

    name: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Stream:
    """A server's response to one request, prepared for the rules.

    Attributes:
        seen: the response, with the request to which it belongs.
        events: the events of the response that have data.
        status: the HTTP status of the response.
        error: the JSON body of a response whose status isn't 2xx.
    """

    seen: ProbeResponse
    status: int
    events: tuple[SentEvent, ...] = field(default=(), repr=False)
    error: Any = field(default=None, repr=False)

    @property
    def objects(self) -> list[Mapping[str, Any]]:
        """The payloads that are JSON objects, in the order of the events."""
        return [event.payload for event in self.events if isinstance(event.payload, Mapping)]

    def of(self, *types: str) -> list[Mapping[str, Any]]:
        """Returns the payloads whose `type` is one of these values."""
        return [payload for payload in self.objects if payload.get("type") in types]


Check: TypeAlias = Callable[[Stream], Iterator[str]]
"""Yields a description of each violation in a response."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A conformance rule: a documented requirement, and when it applies.

    Attributes:
        name: a permanent name that begins with the API's name: `chat/role-first`.
        text: the documented requirement, as a sentence.
        link: the URL of the documentation page.
        about: returns whether the rule applies to a response.
        errors: true if the rule applies to responses with an error status, false if it applies to streams.
    """

    name: str
    text: str
    link: str
    check: Check
    about: Callable[[Stream], object]
    errors: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A response that violates a rule.

    Attributes:
        answer: the number of the response in the test run, from 1.
        what: a description of the violation.
    """

    answer: int
    asked: str
    what: str


def rule_maker(api: str, link: str, rules: list[Rule]) -> Callable[..., Callable[[Check], Check]]:
    """Returns a decorator that turns a check function into a rule and appends the rule to `rules`."""

    def rule(
        name: str, text: str, *, about: Callable[[Stream], object] = lambda _: True, errors: bool = False
    ) -> Callable[[Check], Check]:
        def decorate(check: Check) -> Check:
            rules.append(Rule(f"{api}/{name}", text, link, check, about, errors))
            return check

        return decorate

    return rule


def event_stream_type(stream: Stream) -> Iterator[str]:
    """Yields a violation if the response's content type isn't text/event-stream."""
    kind = stream.seen.headers.get("content-type", "none")
    if not kind.startswith("text/event-stream"):
        yield f"the content type is {kind}"


def named_by_type(stream: Stream) -> Iterator[str]:
    """Yields a violation for the first event whose `event:` line doesn't match the `type` in its data."""
    for event in stream.events:
        kind = event.payload.get("type") if isinstance(event.payload, Mapping) else None
        if event.name != kind:
            yield f"an event called {event.name!r} has the type {kind!r}"
            return


def error_with_message(stream: Stream) -> Iterator[str]:
    """Yields a violation if an error response has a 5xx status, or if it lacks an error object with a message and a
    type.
    """
    error = stream.error.get("error") if isinstance(stream.error, Mapping) else None
    if stream.status >= _SERVER_ERROR:
        yield f"status {stream.status}"
    elif not isinstance(error, Mapping):
        yield f"no error object: {str(stream.error)[:60]!r}"
    elif not isinstance(error.get("message"), str) or not isinstance(error.get("type"), str):
        yield "the error object has no message or no type"


def wrong_sum(counts: Sequence[Any]) -> Iterator[str]:
    """Yields a violation if the last count isn't the sum of the first two, or if a count is missing."""
    if not all(isinstance(count, int) for count in counts):
        yield f"a count is missing: {counts}"
    elif counts[0] + counts[1] != counts[2]:
        yield f"{counts[0]} + {counts[1]} is not {counts[2]}"


def read_stream(seen: ProbeResponse) -> Stream | None:
    """Prepares a response for the rules. Returns None if the response was requested without streaming, broke off, or
    never arrived.
    """
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
