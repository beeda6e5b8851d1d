"""The faults. Their names are in lower case because they are read as what happens: `faults=[stall(30), reset()]`.

A place in an answer is `after_bytes` or `after_events` (events that have data; comments do not count), and the
beginning of its body if neither is given. A place that an answer does not reach is never met. Events are numbered from
1. Several faults act one behind the other, so that each counts what the ones before it have left.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from random import Random
from typing import Annotated

from pydantic import Field

from ..config import Count, PositiveCount, Seconds, check_members
from ..engine import event_ranges
from ..values import ConfigError
from .steps import BodyStep, Delay, Edit, Filter, Insert

_WEB_PAGE = "<html><head><title>502 Bad Gateway</title></head><body>The proxy lost its server.</body></html>\n\n"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fault:
    """A fault that happens to an answer.

    Attributes:
        times: to how many answers of a transport or server it happens, the first ones; None: to every one.
    """

    times: PositiveCount | None = None

    def __post_init__(self) -> None:
        check_members(self)

    def filters(self) -> list[Filter]:
        """Returns the filters that change the body of one answer."""
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
            raise ConfigError(f"{type(self).__name__}: give after_bytes= or after_events=, not both")

    def _insert(self, *steps: BodyStep) -> list[Filter]:
        return [Insert(steps, after_bytes=self.after_bytes, after_events=self.after_events)]


# --- The end of the connection ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class cut_after(Fault):
    """The connection is closed after so many `bytes` or `events`, without the mark that ends a body.

    A caller gets `IncompleteStreamError` with the partial answer and no calls; after the finish reason the answer, with
    the warning `interrupted_after_finish`; and before the first chunk the request is sent again, as often as
    `max_retries` says. httpx raises `RemoteProtocolError`.
    """

    bytes: Count | None = None
    events: Count | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if (self.bytes is None) == (self.events is None):
            raise ConfigError("cut_after: give bytes= or events=, one of them")

    def filters(self) -> list[Filter]:
        return [Insert([BodyStep(0.0, ending="cut")], after_bytes=self.bytes, after_events=self.events)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class reset(_Placed):
    """The connection is reset: over TCP by a real RST, in a process by `httpx.ReadError`.

    A caller gets what `cut_after` gives.
    """

    def filters(self) -> list[Filter]:
        return self._insert(BodyStep(0.0, ending="reset"))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class hang_up(Fault):
    """The connection is closed before anything of an answer came. httpx raises `RemoteProtocolError`.

    A caller gets `APIConnectionError`, after as many attempts as `max_retries` allows.
    """


# --- Time ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class stall(_Placed):
    """Nothing comes for so many seconds, endlessly without a number; then the answer goes on.

    A caller whose clock runs out gets `APITimeoutError`: of the phase `read` after the first event, `first_event`
    before it (then the request is sent again, as often as `max_retries` says), `total` if that is what runs out.
    """

    seconds: Annotated[float, Field(ge=0)] = math.inf

    def filters(self) -> list[Filter]:
        return self._insert(BodyStep(self.seconds))


@dataclass(frozen=True, slots=True, repr=False)
class slow(Fault):
    """Every piece of the body comes so many seconds later than it would, and the headers `head` seconds later.

    A caller waits longer. The clock `read` is for a single wait, `first_event` counts from the request, `total` for
    all of it.
    """

    seconds: Seconds = 0.0
    head: Seconds = field(default=0.0, kw_only=True)

    def filters(self) -> list[Filter]:
        return [Delay(self.seconds)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class keepalive(_Placed):
    """Comments, as servers send them to keep a connection busy: so many, each after so many seconds.

    A caller sees nothing of them. If they are all that comes for long, the clock `stall` runs out, or `first_event`
    before the first event: `APITimeoutError`.
    """

    comment: Annotated[str, Field(pattern=r"^[^\r\n]*$")] = "keep-alive"
    comments: PositiveCount = 1
    seconds: Seconds = 0.0

    def filters(self) -> list[Filter]:
        return self._insert(*[BodyStep(self.seconds, f": {self.comment}\n\n".encode())] * self.comments)


# --- Bytes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class garbage(_Placed):
    """Foreign bytes or text; by default the web page of a proxy.

    At the beginning of the body a caller gets `ProtocolError`, which shows the first bytes. Between events it
    is skipped with the warning `malformed_event`, and the answer is whole; inside an event they break it.
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
        return [Edit((self.events,) if isinstance(self.events, int) else self.events, edit)]


@dataclass(frozen=True, slots=True, repr=False)
class drop(_Edited):
    """These events are lost: `drop(2)`, `drop([2, 5])`.

    Chat Completions does not show that one is missing: a caller gets the rest, and where a call lost a part of
    its arguments, `call.error`. Without the event that ends it the answer is `IncompleteStreamError`.
    """

    def filters(self) -> list[Filter]:
        return self._edit(lambda number, event: b"")


@dataclass(frozen=True, slots=True, repr=False)
class duplicate(_Edited):
    """These events come again, `copies` times more.

    Where events are not numbered (Chat Completions) a copy looks like a text that repeats itself: a caller
    gets it twice, and arguments with a piece too many as `call.error`.
    """

    copies: PositiveCount = field(default=1, kw_only=True)

    def filters(self) -> list[Filter]:
        return self._edit(lambda number, event: _ended(event) * (1 + self.copies))


@dataclass(frozen=True, slots=True, repr=False)
class corrupt(_Edited):
    """One byte of each of these events, chosen by `seed`, is replaced by one that is not UTF-8.

    A caller gets U+FFFD in its place and the warning `invalid_utf8`, where the byte stood in a text; `ProtocolError`
    where the JSON is broken by it.
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
    """The second half of the payload of these events is missing.

    A caller gets `ProtocolError`; after the finish reason the answer, with the warning `malformed_event`.
    """

    def filters(self) -> list[Filter]:
        return self._edit(_half)


# --- Another answer --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class status(Fault):
    """The request is refused with this status and an error in OpenAI's shape: `status(429, retry_after=1, times=2)`.

    A caller gets the error of the status (`RateLimitError`, `ServerError`, ...), after as many attempts as
    `max_retries` allows where it is worth one; `retry_after` is honoured.

    Attributes:
        retry_after: the header of this name, seconds.
        message: of the error.
        body: another body than the error, with `content_type`.
    """

    code: Annotated[int, Field(ge=200, le=599)]
    retry_after: Seconds | None = field(default=None, kw_only=True)
    message: str = field(default="injected by a fault", kw_only=True)
    body: str | None = field(default=None, kw_only=True)
    content_type: str = field(default="application/json", kw_only=True)

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer."""
        asked = {} if self.retry_after is None else {"retry-after": f"{self.retry_after:g}"}
        return {"content-type": self.content_type, **asked}

    @property
    def content(self) -> bytes:
        """The body of the answer."""
        error = {"error": {"message": self.message, "type": None, "code": None}}
        return (json.dumps(error) if self.body is None else self.body).encode()


FAULTS: Mapping[str, type[Fault]] = {
    kind.__name__: kind
    for kind in (
        corrupt, cut_after, drop, duplicate, garbage, hang_up, keepalive, reset, slow, stall, status, truncate_json,
    )
}  # fmt: skip
"""The faults by their names."""


def _ended(event: bytes) -> bytes:
    return event if all(each.ended for each in event_ranges(event)) else event + b"\n\n"


def _half(number: int, event: bytes) -> bytes:
    for each in event_ranges(event):
        for start, end in each.payloads:
            if start < end:
                return event[: start + (end - start) // 2] + event[end:]
    return event
