"""Faults: what each does to the bytes, and what a caller gets, in process and over TCP, on both event loops."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, bytewise, call, codes, entry, fin, text
from streamfold import (
    APIConnectionError,
    APITimeoutError,
    ConfigError,
    IncompleteStreamError,
    ProtocolError,
    Provider,
    RateLimitError,
    Reply,
    ServerError,
    StreamDecoder,
    StreamError,
    Timeouts,
)
from streamfold.client import Backoff, retry_backoff
from streamfold.engine import event_ranges
from streamfold.engine.sse import SSEDecoder
from streamfold.faults import (
    BodyStep,
    Fault,
    Injector,
    corrupt,
    cut_after,
    drop,
    duplicate,
    garbage,
    hang_up,
    keepalive,
    reset,
    slow,
    stall,
    status,
    truncate_json,
)
from streamfold.recording import FaultTransport, Recording, ReplayTransport
from streamfold.testing import assert_any_cut, say, think, usage
from streamfold.testing import call as call_step
from streamfold.testing.replay_server import serve_replay
from streamfold.testing.scripted import ScriptSerializer
from tables import each_row

# httpx leaves generators to the garbage collector when a stream is closed early; trio says so each time.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

EVENTS = [text("Hel"), text("lo"), fin("stop"), DONE]
BODY = b"".join(EVENTS)
HELLO = Recording("case/hello", BODY)
CALL = Recording("case/call", call(entry(0, "a", "f", '{"x":1}')) + fin("tool_calls") + DONE)


def faulty(pieces: Sequence[bytes], *faults: Fault) -> list[BodyStep]:
    """What faults make of a body in these pieces, the first of which comes after a second."""
    chain = Injector(faults).next().body
    steps = [BodyStep(1.0 if number == 0 else 0.0, piece) for number, piece in enumerate(pieces)]
    return [made for step in [*steps, BodyStep(0.0, b"", "end")] for made in chain.feed(step)]


def body_of(steps: list[BodyStep]) -> bytes:
    return b"".join(step.data for step in steps)


# --- bytes in, bytes out ---------------------------------------------------------------------------------------------

BYTES: list[tuple[Fault, bytes, str]] = [
    (cut_after(bytes=0), b"", "cut"),
    (cut_after(bytes=70), BODY[:70], "cut"),
    (cut_after(events=2), EVENTS[0] + EVENTS[1], "cut"),
    (cut_after(bytes=len(BODY)), BODY, "cut"),
    (cut_after(events=5), BODY, "end"),
    (reset(), b"", "reset"),
    (reset(after_bytes=1), BODY[:1], "reset"),
    (reset(after_events=4), BODY, "reset"),
    (stall(5), BODY, "end"),
    (slow(1), BODY, "end"),
    (keepalive(comments=2), b": keep-alive\n\n" * 2 + BODY, "end"),
    (keepalive(comment="ping", after_events=1), EVENTS[0] + b": ping\n\n" + b"".join(EVENTS[1:]), "end"),
    (garbage("x", after_bytes=70), BODY[:70] + b"x" + BODY[70:], "end"),
    (garbage(b"\xff", after_events=4), BODY + b"\xff", "end"),
    (drop(2), EVENTS[0] + EVENTS[2] + EVENTS[3], "end"),
    (drop([1, 4]), EVENTS[1] + EVENTS[2], "end"),
    (drop(5), BODY, "end"),
    (duplicate(1), EVENTS[0] * 2 + b"".join(EVENTS[1:]), "end"),
    (duplicate([4], copies=2), BODY + EVENTS[3] * 2, "end"),
    (truncate_json(4), BODY[: -len(DONE)] + b"data: [DO\n\n", "end"),
]


@each_row("cut", [lambda body: [body], bytewise, lambda body: EVENTS], ids=["whole", "bytes", "events"])
@each_row(("fault", "body", "ending"), BYTES, ids=[repr(fault) for fault, _, _ in BYTES])
def test_bytes(fault: Fault, body: bytes, ending: str, cut: Callable[[bytes], list[bytes]]) -> None:
    """A fault does the same however the body is cut, and after the ending there is nothing."""
    steps = faulty(list(cut(BODY)), fault)
    assert body_of(steps) == body
    assert [step.ending for step in steps if step.ending] == [ending]
    assert steps[-1].ending == ending


def test_waits() -> None:
    """Waits stand where they belong: what came before is not held back, and what comes after waits no longer."""
    first, *rest = EVENTS
    after = [BodyStep(0.0, event) for event in rest]
    end = BodyStep(0.0, b"", "end")
    assert faulty(EVENTS, stall(5)) == [BodyStep(5), BodyStep(1.0, first), *after, end]
    assert faulty(EVENTS, stall(after_events=1)) == [BodyStep(1.0, first), BodyStep(math.inf), *after, end]
    assert faulty(EVENTS, slow(2)) == [BodyStep(3.0, first), *[BodyStep(2.0, event) for event in rest], end]
    assert faulty([BODY], stall(5, after_bytes=3)) == [
        BodyStep(1.0, BODY[:3]),
        BodyStep(5),
        BodyStep(0.0, BODY[3:]),
        end,
    ]
    assert faulty(bytewise(first), drop(1)) == [BodyStep(1.0), end]


def said(body: bytes) -> list[str]:
    """The data of the events."""
    decoder = SSEDecoder()
    events = [*decoder.feed(body), decoder.finish()]
    return [event.data for event in events if event]


@each_row("cut", [lambda body: [body], bytewise], ids=["whole", "bytes"])
@each_row("newline", [b"\n", b"\r\n", b"\r"])
def test_events_end_at_blank_lines(newline: bytes, cut: Callable[[bytes], list[bytes]]) -> None:
    """Whichever line end a server uses. Comments are no events; what stands before the end of the body is one."""
    pieces = cut(b": hi\n\ndata: 1\ndata: 1\n\n\n: ping\n\nid: 7\ndata: 2\n\ndata:3".replace(b"\n", newline))
    assert said(body_of(faulty(pieces))) == ["1\n1", "2", "3"]
    assert said(body_of(faulty(pieces, drop([1, 3])))) == ["2"]
    assert said(body_of(faulty(pieces, cut_after(events=2)))) == ["1\n1", "2"]
    assert said(body_of(faulty(pieces, duplicate(3, copies=2)))) == ["1\n1", "2", "3", "3", "3"]
    assert said(body_of(faulty(pieces, truncate_json([1, 3])))) == ["\n1", "2", ""]
    assert body_of(faulty(pieces, corrupt([2]))).count(b"data: \xff") == 1
    assert said(body_of(faulty(pieces, garbage("data: x\n\n", after_events=1)))) == ["1\n1", "x", "2", "3"]


def test_a_byte_order_mark_is_no_line() -> None:
    """The first event behind one is an event."""
    assert body_of(faulty([b"\xef\xbb\xbfdata: 1\n\ndata: 2\n\n"], drop(1))) == b"data: 2\n\n"


def test_corrupt_is_deterministic() -> None:
    """One byte of the event's data, the same for the same seed."""
    spoiled = {seed: body_of(faulty([BODY], corrupt(2, seed=seed))) for seed in range(20)}
    assert spoiled == {seed: body_of(faulty(bytewise(BODY), corrupt(2, seed=seed))) for seed in range(20)}
    assert len(set(spoiled.values())) > 10
    for body in spoiled.values():
        changed = [number for number, (one, other) in enumerate(zip(BODY, body, strict=True)) if one != other]
        assert len(changed) == 1
        assert len(EVENTS[0]) + len(b"data: ") <= changed[0] < len(EVENTS[0]) + len(EVENTS[1]) - 2


def test_faults_act_one_behind_the_other() -> None:
    """Each counts what the ones before it have left."""
    assert body_of(faulty([BODY], drop(1), cut_after(events=1))) == EVENTS[1]
    assert body_of(faulty([BODY], cut_after(events=1), drop(1))) == b""
    assert body_of(faulty([BODY], reset(after_events=1), garbage("x", after_events=1))) == EVENTS[0] + b"x"


def test_times() -> None:
    """A fault happens so often; one that comes in place of an answer leaves the others for the next answer."""
    injector = Injector([status(429), cut_after(bytes=1, times=1)])
    assert [injector.next().replacement for _ in range(3)] == [status(429)] * 3
    injector = Injector([cut_after(bytes=1, times=1), status(429, times=1), hang_up(times=1), slow(head=2, times=1)])
    happened = [injector.next() for _ in range(4)]
    assert [each.replacement for each in happened] == [status(429, times=1), hang_up(times=1), None, None]
    assert [each.changes_body for each in happened] == [False, False, True, False]
    assert [each.delay for each in happened] == [0, 0, 2, 0]


def test_shown_as_written() -> None:
    """The repr is what one would write."""
    written = [
        cut_after(events=2),
        reset(times=1),
        stall(3, after_bytes=2),
        drop([1, 2]),
        status(429, retry_after=1, times=2),
    ]
    assert [repr(fault) for fault in written] == [
        "cut_after(events=2)",
        "reset(times=1)",
        "stall(after_bytes=2, seconds=3)",
        "drop(events=(1, 2))",
        "status(times=2, code=429, retry_after=1)",
    ]
    assert [eval(repr(fault)) for fault in written] == written
    assert len({status(429), status(429), status(500)}) == 2


@each_row(
    ("make", "says"),
    [
        (lambda: cut_after(), "cut_after: pass either bytes= or events="),
        (lambda: cut_after(bytes=1, events=1), "cut_after: pass either bytes= or events="),
        (lambda: reset(after_events=-1), "reset: after_events: must not be less than 0"),
        (lambda: stall(-1), "stall: seconds: must not be less than 0"),
        (lambda: slow(math.inf), "slow: seconds: must be a finite number"),
        (lambda: slow(math.nan), "slow: seconds: must be a finite number"),
        (lambda: keepalive(comment="a\nb"), "keepalive: comment: String should match pattern"),
        (lambda: keepalive(comments=0), "keepalive: comments: must be greater than 0"),
        (lambda: garbage(""), "garbage: data: must not be empty"),
        (lambda: drop(0), "drop: events are whole numbers from 1, not 0"),
        (lambda: drop([]), r"drop: events are whole numbers from 1, not \[\]"),
        (lambda: duplicate(1, copies=0), "duplicate: copies: must be greater than 0"),
        (lambda: status(99), "status: code: must not be less than 200"),
        (lambda: status(429, retry_after=-1), "status: retry_after: must not be less than 0"),
        (lambda: hang_up(times=0), "hang_up: times: must be greater than 0"),
        (
            lambda: Injector(["reset"]),
            r"faults must be a list of values of streamfold.faults \(corrupt, .*, not \['reset'\]",
        ),
        (lambda: Injector(reset()), r"faults must be a list of values .*, not reset\(\)"),
    ],
)
def test_bad_arguments(make: Callable[[], Any], says: str) -> None:
    """What can't happen is refused, with what is allowed."""
    with pytest.raises(ConfigError, match=says):
        make()


# --- what a caller gets ----------------------------------------------------------------------------------------------

Answering = Callable[..., AbstractAsyncContextManager[Provider]]


@asynccontextmanager
async def in_process(recording: Recording, *faults: Fault, **config: Any) -> AsyncIterator[Provider]:
    transport = ReplayTransport(recording, faults=faults)
    async with httpx.AsyncClient(transport=transport) as client:
        values = {"base_url": "http://test/v1", "model": "m", "max_retries": 0, **config}
        yield Provider.from_config(values, http_client=client)
    assert transport.open_streams == 0


TLS = httpx.create_ssl_context()  # once, because it takes longer than most of these tests


def network() -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(verify=TLS)


@asynccontextmanager
async def over_tcp(recording: Recording, *faults: Fault, **config: Any) -> AsyncIterator[Provider]:
    async with (
        serve_replay(recording, faults=faults) as base_url,
        httpx.AsyncClient(transport=network(), timeout=None) as client,
    ):
        values = {"base_url": base_url, "model": "m", "max_retries": 0, **config}
        yield Provider.from_config(values, http_client=client)


@asynccontextmanager
async def in_front(recording: Recording, *faults: Fault, **config: Any) -> AsyncIterator[Provider]:
    """Faults between the provider and a server without any, which has a recording for each attempt."""
    async with serve_replay([recording] * 4) as base_url:
        transport = FaultTransport(network(), faults)
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            values = {"base_url": base_url, "model": "m", "max_retries": 0, **config}
            yield Provider.from_config(values, http_client=client)


@pytest.fixture(params=[in_process, over_tcp, in_front])
def answering(request: pytest.FixtureRequest) -> Answering:
    made: Answering = request.param
    return made


async def outcome(provider: Provider) -> Reply | StreamError:
    try:
        with anyio.fail_after(60):
            return await provider.chat("Hi")
    except StreamError as error:
        return error


ANSWERS: list[tuple[Fault, str, str, list[str]]] = [
    (cut_after(events=3), "Hello", "stop", ["interrupted_after_finish"]),
    (reset(after_events=3), "Hello", "stop", ["interrupted_after_finish"]),
    (stall(0.01, after_events=1), "Hello", "stop", []),
    (slow(0.001, head=0.001), "Hello", "stop", []),
    (keepalive(comments=3), "Hello", "stop", []),
    (keepalive(after_events=1), "Hello", "stop", []),
    (garbage(after_events=1), "Hello", "stop", ["malformed_event"]),
    (drop(2), "Hel", "stop", []),
    (drop(3), "Hello", "unknown", ["missing_finish_reason"]),
    (duplicate(1), "HelHello", "stop", []),
    (duplicate(3), "Hello", "stop", []),
    (duplicate(4), "Hello", "stop", []),
    (corrupt(2, seed=84), "Hel\ufffdo", "stop", ["invalid_utf8"]),
    (truncate_json(4), "Hello", "stop", ["malformed_event"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "answer", "reason", "warnings"), ANSWERS, ids=[repr(fault) for fault, *_ in ANSWERS])
async def test_answers(answering: Answering, fault: Fault, answer: str, reason: str, warnings: list[str]) -> None:
    """These leave an answer: its text, its finish reason, and what is to be told of it."""
    async with answering(HELLO, fault) as provider:
        reply = await outcome(provider)
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish_reason, codes(reply)) == (answer, reason, warnings)


STREAM_ERRORS: list[tuple[Fault, type[StreamError], str]] = [
    (cut_after(bytes=0), IncompleteStreamError, ""),
    (cut_after(events=1), IncompleteStreamError, "Hel"),
    (cut_after(bytes=len(EVENTS[0]) + 9), IncompleteStreamError, "Hel"),
    (reset(), IncompleteStreamError, ""),
    (reset(after_events=2), IncompleteStreamError, "Hello"),
    (drop([3, 4]), IncompleteStreamError, "Hello"),
    (garbage(), ProtocolError, ""),
    (garbage("<<<", after_bytes=len(EVENTS[0]) + 7), ProtocolError, "Hel"),
    (corrupt(2, seed=33), ProtocolError, "Hel"),
    (truncate_json(2), ProtocolError, "Hel"),
]


@pytest.mark.parametrize(("fault", "kind", "partial"), STREAM_ERRORS, ids=[repr(fault) for fault, *_ in STREAM_ERRORS])
async def test_stream_errors(answering: Answering, fault: Fault, kind: type[StreamError], partial: str) -> None:
    """These spoil an answer: the error, with what had come."""
    async with answering(HELLO, fault) as provider:
        error = await outcome(provider)
    assert type(error) is kind
    assert error.partial is not None
    assert error.partial.text == partial


@pytest.mark.parametrize(
    "fault", [cut_after(events=1), reset(after_events=1), cut_after(bytes=150), truncate_json(2)], ids=repr
)
async def test_no_call_of_a_broken_answer(answering: Answering, fault: Fault) -> None:
    """A call whose answer did not end in order is not handed out, though its arguments parse."""
    async with answering(CALL, fault) as provider:
        error = await outcome(provider)
    assert isinstance(error, StreamError)
    assert error.partial is not None
    assert error.partial.tool_calls == []


@pytest.mark.parametrize(
    ("fault", "clocks", "phase"),
    [
        (stall(), Timeouts(first_event=0.2), "first_event"),
        (stall(after_events=1), Timeouts(read=0.2), "read"),
        (stall(after_events=1), Timeouts(total=0.3), "total"),
        (slow(head=3600), Timeouts(first_event=0.2), "first_event"),
        (keepalive(comments=100_000, seconds=0.01, after_events=1), Timeouts(stall=0.3), "stall"),
    ],
    ids=repr,
)
async def test_clocks(answering: Answering, fault: Fault, clocks: Timeouts, phase: str) -> None:
    """These keep a caller waiting until a clock runs out."""
    async with answering(HELLO, fault, timeouts=clocks) as provider:
        with pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hi")
    assert caught.value.phase == phase


async def test_refusals(answering: Answering) -> None:
    """A status is the error of that status, a connection that is closed at once one of the connection."""
    async with answering(HELLO, status(429, retry_after=7, message="slow down", times=1), hang_up()) as provider:
        with pytest.raises(RateLimitError, match="slow down") as limited:
            await provider.chat("Hi")
        assert limited.value.retry_after == 7
        with pytest.raises(APIConnectionError, match="Server disconnected without sending a response"):
            await provider.chat("Hi")
    async with answering(HELLO, status(503, body="<title>Down</title>", content_type="text/html")) as provider:
        with pytest.raises(ServerError, match="Down"):
            await provider.chat("Hi")


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [
        [status(429, retry_after=0, times=2)],
        [status(500, retry_after=0, times=1), hang_up(times=1)],
        [cut_after(bytes=10, times=1), reset(times=1)],
        [stall(times=1)],
    ],
    ids=repr,
)
async def test_retries_get_the_recording_in_the_end(
    answering: Answering, faults: list[Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is sent again is answered by the recording that the fault kept back."""
    monkeypatch.setattr(retry_backoff, "_BACKOFF", Backoff(first=0.001))
    clocks = Timeouts(first_event=0.3) if stall(times=1) in faults else Timeouts()
    async with answering(HELLO, *faults, max_retries=2, timeouts=clocks) as provider:
        reply = await outcome(provider)
    assert isinstance(reply, Reply)
    assert reply.text == "Hello"


@each_row(
    ("fault", "as_expectation"),
    [
        (reset(after_events=1), (httpx.ReadError, None)),
        (cut_after(events=1), (httpx.RemoteProtocolError, "peer closed connection without sending complete message")),
        (hang_up(), (httpx.RemoteProtocolError, "Server disconnected without sending a response.")),
    ],
    ids=repr,
)
async def test_what_httpx_raises(fault: Fault, as_expectation: tuple[type[Exception], str | None]) -> None:
    """In process it is what a real connection gives: for a reset the error that a RST is."""
    kind, words = as_expectation
    async with serve_replay(HELLO, faults=[fault]) as base_url:
        live = FaultTransport(ReplayTransport(HELLO), [fault])
        for transport in (ReplayTransport(HELLO, faults=[fault]), network(), live):
            async with httpx.AsyncClient(transport=transport, timeout=30) as client:
                with pytest.raises(kind, match=words) as caught:
                    await client.post(base_url + "/chat/completions", json={})
                assert type(caught.value) is kind


# --- Anthropic's and Google's APIs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["anthropic", "gemini"])
def test_faults_on_the_other_apis(api: str) -> None:
    """Events are cut, spoilt and left behind there too, whatever their line ends; what breaks off hands out no call."""
    steps = [think("Hm."), say("I look."), call_step("f", a=1), call_step("g", b="ä"), usage(7, 3)]
    events = [event for _, event in ScriptSerializer(api).events(steps) if event]
    body = b"".join(events)
    calls = [(made.name, made.arguments) for made in assert_any_cut(body, adapter=api).tool_calls]
    assert calls == [("f", {"a": 1}), ("g", {"b": "ä"})]
    ends = []
    for count in range(1, len(list(event_ranges(body)))):
        for fault in (cut_after(events=count), truncate_json(count), reset(after_events=count)):
            ends.append(ended(body_of(faulty([body], fault)), api))
    assert all(end in (calls, []) for end in ends)
    assert ends.count(calls) <= 2 * 3  # behind the finish reason


def ended(body: bytes, api: str) -> list[tuple[str, Any]]:
    """The calls of an answer, which may have broken off."""
    decoder = StreamDecoder(api)
    try:
        decoder.feed(body)
        decoder.close()
        reply: Reply | None = decoder.reply
    except StreamError as error:
        reply = error.partial
    return [(made.name, made.arguments) for made in (reply.tool_calls if reply else ())]
