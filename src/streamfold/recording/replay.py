"""`ReplayTransport` and `FaultTransport`, and the class that selects a recording for a request."""

from __future__ import annotations

import math
import os
import re
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import httpx

from ..config import allowed_values_hint
from ..errors import ConfigError
from ..faults import BodyStep, Chain, Ending, Fault, Injection, Injector, status
from .recording import Recording, Speed, open_recording, with_delays
from .request_matching import RecordedRequest, ReplayMismatch, diff_requests, read_patterns

Source: TypeAlias = Recording | str | os.PathLike[str] | Sequence[Recording | str | os.PathLike[str]]
Match: TypeAlias = Literal["order", "request", "any"]

# Headers about the recorded connection or encoding, not about the replayed bytes.
_NOT_REPLAYED = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "set-cookie"}


def answer_headers(recording: Recording) -> dict[str, str]:
    """Returns the response headers for a replay of a recording. A content type is always included. Headers about the
    recorded connection or its compression are left out.
    """
    kept = {name.lower(): value for name, value in recording.headers.items() if name.lower() not in _NOT_REPLAYED}
    return {"content-type": "text/event-stream", **kept}


def load_source(source: Source) -> list[Recording]:
    """Loads recordings.

    Args:
        source: a recording, the path or name of a recording, a folder, or a list of recordings and paths. A path also
            loads the later recordings of the conversation: `hello` also loads `hello-2` and `hello-3`. A folder's
            recordings are sorted by name, `hello-2` before `hello-10`.

    Raises:
        ConfigError: no recording was found, or a recording can't be read.
    """
    if isinstance(source, Recording):
        return [source]
    if not isinstance(source, str | os.PathLike):
        found = [item if isinstance(item, Recording) else open_recording(item) for item in source]
        if not found:
            raise ConfigError("no recording was passed")
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
    """A replayed response.

    Attributes:
        delay: the number of seconds to wait before the headers are sent.
        status, headers: the status and the headers of the response. If the status is None, the connection is closed
            without a response.
        steps: the pieces of the body. The last step says how the body ends.
        broken: True if the connection breaks before the end of the response.
    """

    delay: float
    status: int | None
    headers: Mapping[str, str]
    steps: Iterator[BodyStep]
    broken: bool = False

    def respond(self, request: httpx.Request) -> httpx.Response:
        """Converts this object to an httpx response. If the status is None, raises httpx's error for a closed
        connection.
        """
        if self.status is None:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return httpx.Response(self.status, headers=dict(self.headers), stream=_ReplayedBody(self), request=request)


class RecordingSelector:
    """Chooses the recording for a request, and injects faults. For the arguments, see `ReplayTransport`.

    Raises:
        ConfigError: an argument is invalid.
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
                raise ConfigError(
                    f'{recording.name} was recorded without its request, so match="request" can\'t find it'
                )
        self._paced = [with_delays(recording, cuts, speed) for recording in self.recordings]
        self._injector = Injector(faults)
        self._match = match
        self._ignore = read_patterns(ignore)
        self._served = [False] * len(self.recordings)
        self._spoiled: list[tuple[RecordedRequest, int, ReplayedResponse]] = []

    def answer(self, request: RecordedRequest) -> ReplayedResponse | None:
        """Returns the replayed response to a request, or None if no recording is left.

        Raises:
            ReplayMismatch: the request differs from the recorded request.
        """
        number = self._again(request)
        if number is None:
            number = self._by_request(request) if self._match == "request" else self._in_order(request)
        if number is None:
            return None
        injection = self._injector.next()
        if injection.replacement is not None:
            return _replacement(injection)
        self._served[number] = True
        answer = self._injected(number, injection)
        if injection.changes_body:
            self._spoiled.append((request, number, answer))
        return answer

    def named(self, name: str | None) -> ReplayedResponse | None:
        """Returns the replayed response of the recording with this name, or None. The name can be a recording's full
        name or the last part of it.

        The same recording can be selected repeatedly. A recording isn't selected if its name is also the model of its
        request, because a client may send this model without meaning the recording.
        """
        for number, recording in enumerate(self.recordings):
            model = recording.sent.model if recording.sent else None
            if name in (recording.name, recording.name.rpartition("/")[2]) and name != model:
                injection = self._injector.next()
                return _replacement(injection) if injection.replacement else self._injected(number, injection)
        return None

    def _in_order(self, request: RecordedRequest) -> int | None:
        number = next((number for number, served in enumerate(self._served) if not served), None)
        if number is not None and self._match == "order":
            recording = self.recordings[number]
            if recording.sent and (found := diff_requests(recording.sent, request, self._ignore)):
                raise ReplayMismatch(
                    f'this request differs from the recorded request of {recording.name} (match="any" accepts any'
                    f" request, ignore=[...] allows some differences):\n{found}",
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
        nearest = max(found, key=lambda number: SequenceMatcher(None, sent[number].body, body).quick_ratio())
        names = ", ".join(recording.name for recording in self.recordings)
        raise ReplayMismatch(
            f"none of the recordings {names} has this request; {self.recordings[nearest].name} is the most"
            f" similar:\n{found[nearest]}",
            found[nearest],
        )

    def _again(self, request: RecordedRequest) -> int | None:
        for place, (sent, number, answer) in enumerate(self._spoiled):
            if answer.broken and sent == request:
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


def _replacement(injection: Injection) -> ReplayedResponse:
    fault = injection.replacement
    if not isinstance(fault, status):
        return ReplayedResponse(injection.delay, None, {}, iter(()))
    steps = iter([BodyStep(0.0, fault.content), BodyStep(0.0, b"", "end")])
    return ReplayedResponse(injection.delay, fault.code, fault.headers, steps)


class ReplayTransport(httpx.AsyncBaseTransport):
    """An httpx transport that answers requests with recordings: `httpx.AsyncClient(transport=ReplayTransport(...))`.

    Args:
        source: a recording, the path or name of a recording, a folder, or a list of recordings and paths. A path also
            loads the later recordings of its conversation.
        speed: "instant", "recorded" or a number of pieces per second. With "recorded", each byte is sent at its
            recorded time.
        cuts: how to split the body: "recorded", "whole", "events", "bytes:N" or "random:SEED". See `split_body`.
        faults: the faults to inject; see `streamfold.faults`. If the application retries a request after a fault, the
            same recording answers it.
        match: how to choose a recording. "order" uses the recordings in order, each once. If a recording contains its
            request, the new request must be equal to it. "request" uses the recording that contains an equal request,
            any number of times. "any" uses the recordings in order for any request.
        ignore: regular expressions for texts that may differ from the recorded request, for example
            `r"\\d{4}-\\d\\d-\\d\\d"` for a date in the prompt.

    Attributes:
        requests: the requests that the transport received.

    Raises:
        ConfigError: an argument is invalid, or no recording is left for a request.
        ReplayMismatch: a request differs from the recorded request.
    """

    def __init__(
        self,
        source: Source,
        *,
        speed: Speed = "instant",
        cuts: str = "recorded",
        faults: Iterable[Fault] = (),
        match: Match = "order",
        ignore: Iterable[str | re.Pattern[str]] = (),
    ) -> None:
        self._store = RecordingSelector(source, speed=speed, cuts=cuts, faults=faults, match=match, ignore=ignore)
        self._responses: list[httpx.Response] = []
        self.requests: list[httpx.Request] = []

    @property
    def open_streams(self) -> int:
        """The number of responses that the application hasn't closed yet."""
        return sum(not response.is_closed for response in self._responses)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers a request with a recording.

        Raises:
            ConfigError: no recording is left.
            ReplayMismatch: the request differs from the recorded request.
        """
        await request.aread()
        self.requests.append(request)
        answer = self._store.answer(RecordedRequest.of(request))
        if answer is None:
            given = ", ".join(recording.name for recording in self._store.recordings)
            number = len(self.requests)
            raise ConfigError(
                f"request {number} ({request.method} {request.url}) has no recording: the recordings are {given}"
            )
        if answer.delay:
            await wait(answer.delay)
        response = answer.respond(request)
        self._responses.append(response)
        return response


class _StepBody(httpx.AsyncByteStream):
    """A response body that consists of steps. The class isn't a generator, because trio warns about abandoned
    generators.
    """

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self.closed = False
        self._waiting: anyio.CancelScope | None = None

    @abstractmethod
    async def next_step(self) -> BodyStep: ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self.ending:
            step = await self.next_step()
            if not self.closed:
                with anyio.CancelScope() as self._waiting:
                    await wait(step.delay)
            if self.closed:
                raise httpx.ReadError("the response was closed while it was being read")
            self.ending = step.ending
            if step.data:
                return step.data
        if self.ending == "end":
            raise StopAsyncIteration
        if self.ending == "reset":
            raise httpx.ReadError("connection reset by peer")
        raise httpx.RemoteProtocolError(
            "peer closed connection without sending complete message body (incomplete chunked read)"
        )

    async def aclose(self) -> None:
        self.closed = True
        if self._waiting is not None:  # wakes the task that waits for the next piece, as on a socket
            self._waiting.cancel()


class _ReplayedBody(_StepBody):
    def __init__(self, answer: ReplayedResponse) -> None:
        super().__init__()
        self._answer = answer

    async def next_step(self) -> BodyStep:
        return next(self._answer.steps)

    async def aclose(self) -> None:
        self._answer.broken = self._answer.broken or self.ending is None
        await super().aclose()


async def wait(seconds: float) -> None:
    """Sleeps for this number of seconds, or forever if the number is infinite. If the number is 0, other tasks may run
    before this function returns.
    """
    if seconds == math.inf:
        await anyio.sleep_forever()
    await anyio.sleep(seconds)


class FaultTransport(httpx.AsyncBaseTransport):
    """Injects faults into the responses of another transport: `FaultTransport(httpx.AsyncHTTPTransport(), [reset()])`.

    If a fault replaces the response, the transport doesn't send the request. The transport asks servers not to compress
    responses, because the position of a fault is a number of bytes or SSE events of the uncompressed response.

    Raises:
        ConfigError: `faults` contains something that isn't a fault.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, faults: Iterable[Fault]) -> None:
        self._transport = transport
        self._injector = Injector(faults)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request unless a fault replaces the response. Applies the faults to the response."""
        injection = self._injector.next()
        if injection.replacement is not None:
            return _replacement(injection).respond(request)
        request.headers["Accept-Encoding"] = "identity"
        if injection.delay:
            await wait(injection.delay)
        response = await self._transport.handle_async_request(request)
        if not isinstance(response.stream, httpx.AsyncByteStream):
            raise ConfigError(f"{self._transport!r} returned a response that can't be read asynchronously")
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-length"]
        return httpx.Response(
            response.status_code,
            headers=headers if injection.changes_body else response.headers,
            stream=_FaultyBody(response.stream, injection.body) if injection.changes_body else response.stream,
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._transport.aclose()


class _FaultyBody(_StepBody):
    def __init__(self, stream: httpx.AsyncByteStream, chain: Chain) -> None:
        super().__init__()
        self._stream = stream
        self._chain = chain
        self._pieces: AsyncIterator[bytes] | None = None
        self._steps: deque[BodyStep] = deque()

    async def next_step(self) -> BodyStep:
        while not self._steps:
            if self._pieces is None:
                self._pieces = aiter(self._stream)
                step = BodyStep(0.0)  # for faults before the first byte
            else:
                piece = await anext(self._pieces, None)
                step = BodyStep(0.0, b"", "end") if piece is None else BodyStep(0.0, piece)
            self._steps.extend(self._chain.feed(step))
        return self._steps.popleft()

    async def aclose(self) -> None:
        await super().aclose()
        await self._stream.aclose()
