"""Faults of a connection or a server, as values for tests: `reset(after_events=3)`, `status(429, times=2)`.

`ReplayTransport(..., faults=[...])` and the replay server add faults to recorded responses. `FaultTransport(transport,
faults)` adds faults to live responses. Faults are deterministic, and this module does no I/O.

`after_bytes` or `after_events` sets the position of a fault in the body. The default is the start of the body. SSE
events are numbered from 1. SSE comments don't count as events. A fault at a position after the end of the body has no
effect. If a list has several faults, each fault changes the body that the earlier faults have produced. The class names
are in lower case so that a list of faults reads like a description.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import signature
from random import Random
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field

from .config import Count, PositiveCount, Seconds, check_members
from .engine import EventScanner, event_ranges
from .errors import ConfigError, allowed_values_hint, did_you_mean
from .public_names import set_public_module

__all__ = [
    "Fault",
    "corrupt",
    "cut_after",
    "drop",
    "duplicate",
    "garbage",
    "hang_up",
    "keepalive",
    "reset",
    "slow",
    "stall",
    "status",
    "truncate_json",
]

Ending: TypeAlias = Literal["end", "cut", "reset"]


class BodyStep(NamedTuple):
    """The next step of a response body.

    Attributes:
        delay: the time to wait before the step, in seconds, perhaps infinite.
        data: the bytes to send after the delay, perhaps none.
        ending: how the body ends after this step: "end" (it is complete), "cut" (the connection closes without the
            body's last chunk) or "reset" (a TCP reset). None if the body continues.
    """

    delay: float
    data: bytes = b""
    ending: Ending | None = None


Filter: TypeAlias = Callable[[BodyStep], Iterable[BodyStep]]
"""Returns the steps that replace one step of a response body. Holds back at most one SSE event."""


class Chain:
    """Applies several filters, one after the other.

    Attributes:
        ended: how the body ended (see `BodyStep.ending`), or None if it hasn't ended yet.
    """

    def __init__(self, filters: Iterable[Filter]) -> None:
        self._filters = list(filters)
        self.ended: Ending | None = None

    def feed(self, step: BodyStep) -> list[BodyStep]:
        """Returns the steps that replace this step. Returns an empty list after the end of the body."""
        steps = [] if self.ended else [step]
        for each in self._filters:
            steps = [made for taken in steps for made in each(taken)]
        for number, made in enumerate(steps, 1):
            if made.ending:
                self.ended = made.ending
                return steps[:number]
        return steps


class Insert:
    """Inserts steps into a response body, by default before the first byte."""

    def __init__(self, steps: Iterable[BodyStep], *, after_bytes: int | None, after_events: int | None) -> None:
        self._steps = list(steps)
        self._bytes = after_bytes
        self._events = 0 if after_events is None else after_events
        self._scanner = EventScanner()
        self._met = False

    def feed(self, step: BodyStep) -> Iterator[BodyStep]:
        place = None if self._met else self._place(step.data)
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
    """Changes single SSE events, which are numbered from 1."""

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


_WEB_PAGE = "<html><head><title>502 Bad Gateway</title></head><body>The proxy lost its server.</body></html>\n\n"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fault:
    """The base class of faults in a response.

    Attributes:
        times: the number of responses that the fault changes, beginning with the first response. None for all
            responses.
    """

    times: PositiveCount | None = None

    def __post_init__(self) -> None:
        check_members(self)

    def filters(self) -> list[Filter]:
        return []

    def __repr__(self) -> str:
        # As it is written: without what was left out.
        given = [(part.name, getattr(self, part.name), part.default) for part in fields(self)]
        shown = ", ".join(f"{name}={value!r}" for name, value, default in given if value != default)
        return f"{type(self).__name__}({shown})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Placed(Fault):
    after_bytes: Count | None = None
    after_events: Count | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.after_bytes is not None and self.after_events is not None:
            raise ConfigError(f"{type(self).__name__}: after_bytes and after_events can't be combined")

    def _insert(self, *steps: BodyStep) -> list[Filter]:
        return [Insert(steps, after_bytes=self.after_bytes, after_events=self.after_events).feed]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class cut_after(Fault):
    """Closes the connection after a number of `bytes` or `events`, without the last chunk of the body.

    The caller gets `IncompleteStreamError` with the partial answer and no tool calls. If the finish reason has already
    arrived, the caller gets the answer with the warning `interrupted_after_finish`. If no chunk has arrived yet,
    streamfold retries the request. With httpx alone, the exception is `RemoteProtocolError`.
    """

    bytes: Count | None = None
    events: Count | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if (self.bytes is None) == (self.events is None):
            raise ConfigError("cut_after: pass either bytes= or events=")

    def filters(self) -> list[Filter]:
        return [Insert([BodyStep(0.0, ending="cut")], after_bytes=self.bytes, after_events=self.events).feed]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class reset(_Placed):
    """Resets the connection. The replay server sends a TCP RST. `ReplayTransport` and `FaultTransport` raise
    `httpx.ReadError`.

    The caller gets the same result as from `cut_after`.
    """

    def filters(self) -> list[Filter]:
        return self._insert(BodyStep(0.0, ending="reset"))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class hang_up(Fault):
    """Closes the connection without a response. With httpx alone, the exception is `RemoteProtocolError`.

    The caller gets `APIConnectionError` after the retries.
    """


@dataclass(frozen=True, slots=True, repr=False)
class stall(_Placed):
    """Pauses the response for a number of seconds, by default forever.

    If a timeout expires during the pause, the caller gets `APITimeoutError`. The exception's phase is `first_event`
    before the first event (after all retries), `read` after the first event, or `total`.
    """

    seconds: Annotated[float, Field(ge=0)] = math.inf

    def filters(self) -> list[Filter]:
        return self._insert(BodyStep(self.seconds))


@dataclass(frozen=True, slots=True, repr=False)
class slow(Fault):
    """Delays every piece of the body by a number of seconds, and the headers by `head` seconds.

    The timeout `read` limits each wait, `first_event` limits the time from the request to the first event, and `total`
    limits the entire response.
    """

    seconds: Seconds = 0.0
    head: Seconds = field(default=0.0, kw_only=True)

    def filters(self) -> list[Filter]:
        return [lambda step: [step._replace(delay=step.delay + self.seconds) if step.data else step]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class keepalive(_Placed):
    """Sends SSE comments that keep the connection open. `comments` is the number of comments, and `seconds` the time
    before each comment.

    The caller doesn't see comments. If the server sends only comments, the timeout `stall` raises `APITimeoutError`. If
    no event has arrived yet, the timeout `first_event` raises this error.
    """

    comment: Annotated[str, Field(pattern=r"^[^\r\n]*$")] = "keep-alive"
    comments: PositiveCount = 1
    seconds: Seconds = 0.0

    def filters(self) -> list[Filter]:
        return self._insert(*[BodyStep(self.seconds, f": {self.comment}\n\n".encode())] * self.comments)


@dataclass(frozen=True, slots=True, repr=False)
class garbage(_Placed):
    """Inserts bytes or text that aren't part of the response, by default a proxy's web page. If the text is at the
    start of the body, the caller gets `ProtocolError`, which quotes the first bytes. If the text is between two events,
    and ends with a blank line, streamfold skips the text with the warning `malformed_event`, and the answer is
    complete. If the text is inside an event, the content of this event may be lost.
    """

    data: Annotated[str | bytes, Field(min_length=1)] = _WEB_PAGE

    def filters(self) -> list[Filter]:
        return self._insert(BodyStep(0.0, self.data.encode() if isinstance(self.data, str) else self.data))


@dataclass(frozen=True, slots=True, repr=False)
class _Edited(Fault):
    events: int | Sequence[int]

    def __post_init__(self) -> None:
        numbers = (self.events,) if isinstance(self.events, int) else tuple(self.events)
        if not numbers or any(type(number) is not int or number < 1 for number in numbers):
            raise ConfigError(f"{type(self).__name__}: events are whole numbers from 1, not {self.events!r}")
        object.__setattr__(self, "events", numbers)
        Fault.__post_init__(self)

    def _edit(self, edit: Callable[[int, bytes], bytes]) -> list[Filter]:
        return [Edit((self.events,) if isinstance(self.events, int) else self.events, edit).feed]


@dataclass(frozen=True, slots=True, repr=False)
class drop(_Edited):
    """Drops events, as in `drop(2)` or `drop([2, 5])`.

    In Chat Completions, the caller gets an answer from the remaining events, because events there have no numbers. If a
    tool call lost a part of its arguments, `call.error` is set. If neither a finish reason nor `[DONE]` remains, the
    caller gets `IncompleteStreamError`.
    """

    def filters(self) -> list[Filter]:
        return self._edit(lambda number, event: b"")


@dataclass(frozen=True, slots=True, repr=False)
class duplicate(_Edited):
    """Repeats events `copies` times.

    In Chat Completions, events have no numbers, so the caller gets repeated text twice. Repeated arguments set
    `call.error`.
    """

    copies: PositiveCount = field(default=1, kw_only=True)

    def filters(self) -> list[Filter]:
        return self._edit(lambda number, event: _ended(event) * (1 + self.copies))


@dataclass(frozen=True, slots=True, repr=False)
class corrupt(_Edited):
    """Replaces one byte in each of the given events with a byte that isn't valid UTF-8. `seed` determines which byte.

    The caller gets U+FFFD in the text and the warning `invalid_utf8`, or `ProtocolError` if the JSON is invalid.
    """

    seed: int = field(default=0, kw_only=True)

    def filters(self) -> list[Filter]:
        return self._edit(self._spoiled)

    def _spoiled(self, number: int, event: bytes) -> bytes:
        places = [place for each in event_ranges(event) for payload in each.payloads for place in range(*payload)]
        if not places:
            return event
        place = Random(f"{self.seed}/{number}").choice(places)  # noqa: S311 - which byte is no secret
        return event[:place] + b"\xff" + event[place + 1 :]


@dataclass(frozen=True, slots=True, repr=False)
class truncate_json(_Edited):
    """Drops the second half of an event's data.

    The caller gets `ProtocolError`. If the finish reason has already arrived, the caller gets the answer with the
    warning `malformed_event`.
    """

    def filters(self) -> list[Filter]:
        return self._edit(_half)


@dataclass(frozen=True, slots=True, repr=False)
class status(Fault):
    """Replaces the response with an error with this status, in OpenAI's format: `status(429, retry_after=1, times=2)`.

    The caller gets the exception for the status (`RateLimitError`, `ServerError`, ...). If the error is temporary,
    streamfold first retries the request, after `retry_after` seconds.

    Attributes:
        retry_after: the value of the header `retry-after`, in seconds.
        message: the error message.
        body: a body to send instead of the error, with the media type `content_type`.
    """

    code: Annotated[int, Field(ge=200, le=599)]
    retry_after: Seconds | None = field(default=None, kw_only=True)
    message: str = field(default="injected by a fault", kw_only=True)
    body: str | None = field(default=None, kw_only=True)
    content_type: str = field(default="application/json", kw_only=True)

    @property
    def headers(self) -> Mapping[str, str]:
        asked = {} if self.retry_after is None else {"retry-after": f"{self.retry_after:g}"}
        return {"content-type": self.content_type, **asked}

    @property
    def content(self) -> bytes:
        error = {"error": {"message": self.message, "type": None, "code": None}}
        return (json.dumps(error) if self.body is None else self.body).encode()


FAULTS: Mapping[str, type[Fault]] = {name: globals()[name] for name in __all__ if name != "Fault"}
"""Maps the names of faults to their classes."""


def _ended(event: bytes) -> bytes:
    return event if all(each.ended for each in event_ranges(event)) else event + b"\n\n"


def _half(number: int, event: bytes) -> bytes:
    for each in event_ranges(event):
        for start, end in each.payloads:
            if start < end:
                return event[: start + (end - start) // 2] + event[end:]
    return event


def read_fault(text: str) -> Fault:
    """Parses the text form of a fault, such as `cut_after(events=3)`.

    >>> read_fault("stall(2.5, after_events=1)")
    stall(after_events=1, seconds=2.5)

    Raises:
        ConfigError: the text isn't a fault. The error message lists the names of all faults.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if isinstance(call, ast.Name):  # the parentheses are optional without arguments
            call = ast.Call(call, [], [])
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("the syntax is not that of a call")
        arguments = [ast.literal_eval(each) for each in call.args]
        options = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
        if len(options) < len(call.keywords):
            raise ValueError("options have names")
    except (ValueError, SyntaxError, RecursionError) as exc:
        raise ConfigError(f"a fault must look like status(429, times=2), not {text!r}") from exc
    name = call.func.id
    if name not in FAULTS:
        raise ConfigError(f"unknown fault {name!r}{allowed_values_hint(name, FAULTS)}")
    kind: Callable[..., Fault] = FAULTS[name]
    try:
        return kind(*arguments, **options)
    except TypeError as exc:
        known = list(signature(kind).parameters)
        wrong = next((f"{option!r}{did_you_mean(option, known)}" for option in options if option not in known), None)
        why = f"unknown option {wrong}" if wrong else str(exc).partition("__init__() ")[2] or str(exc)
        raise ConfigError(f"{text!r}: {why}; {name} takes {', '.join(known)}") from exc


@dataclass(frozen=True, slots=True)
class Injection:
    """The faults for one response.

    Attributes:
        replacement: the response to send instead of the recorded response, or None.
        delay: the time to wait before the headers, in seconds.
        body: the filters that change the response body.
        changes_body: True if a fault changes the body.
    """

    replacement: status | hang_up | None = None
    delay: float = 0.0
    body: Chain = field(default_factory=lambda: Chain([]))
    changes_body: bool = False


class Injector:
    """Assigns faults to responses, in the order of the responses.

    If a fault replaces the response (`status`, `hang_up`), the other faults apply to the next response.

    Raises:
        ConfigError: `faults` contains a value that isn't a fault.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        given = None if isinstance(faults, Fault | str | bytes) or not isinstance(faults, Iterable) else list(faults)
        if given is None or not all(isinstance(fault, Fault) for fault in given):
            raise ConfigError(
                f"faults must be a list of values of streamfold.faults ({', '.join(FAULTS)}), not {faults!r}"
            )
        self._faults = given
        self._happened = [0] * len(given)

    def next(self) -> Injection:
        left = [
            (number, fault)
            for number, fault in enumerate(self._faults)
            if fault.times is None or self._happened[number] < fault.times
        ]
        for number, fault in left:
            if isinstance(fault, status | hang_up):
                self._happened[number] += 1
                return Injection(replacement=fault)
        for number, _ in left:
            self._happened[number] += 1
        return Injection(
            delay=sum(fault.head for _, fault in left if isinstance(fault, slow)),
            body=Chain([each for _, fault in left for each in fault.filters()]),
            changes_body=bool(left),
        )


set_public_module(__name__, [globals()[name] for name in __all__])
