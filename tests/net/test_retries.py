"""What is sent again, when, and how often; and the clocks over all attempts."""

from __future__ import annotations

from email.utils import formatdate
from time import time

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from servers import STREAM, Connection, answer, framed, serving
from streamfold import APITimeoutError, Provider, RateLimitError, ServerError, StreamfoldError
from streamfold.client import Backoff, retry_backoff, retry_delay
from streamfold.errors import APIConnectionError, QuotaExceededError, error_info, status_error
from streamfold.net.timeouts_and_cancellation import StreamTimeouts
from streamfold.types import Attempt
from streamfold.types.limits_and_timeouts import Timeouts
from tables import each_row

GOOD = answer("200 OK", text("Hi") + fin("stop") + DONE)
BUSY = answer("503 Service Unavailable", b'{"error":{"message":"busy"}}', "retry-after-ms: 1")


def in_turn(*answers: bytes):
    """A script that gives each connection the next answer."""

    async def script(peer: Connection) -> None:
        number = peer.server.connections - 1
        await peer.request()
        await peer.send(answers[min(number, len(answers) - 1)])

    return script


@each_row(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "3600"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "inf"}, None),
    ],
)
async def test_l7_what_the_server_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    """`retry-after` in seconds or as a date, `retry-after-ms` before it; over a minute is the caller's to decide."""

    def busy(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers=headers, json={"error": {"message": "slow"}})

    async with httpx.AsyncClient(transport=httpx.MockTransport(busy)) as client:
        config = {"base_url": "http://test/v1", "model": "m", "max_retries": 0}
        with pytest.raises(RateLimitError) as caught:
            await Provider.from_config(config, http_client=client).chat("Hello")
    assert retry_delay(caught.value, 0) == seconds


@each_row("value", ["nan", "soon", ""])
async def test_l7_what_can_not_be_read_is_our_own_pace(value: str) -> None:
    """Half a second, doubled, at most eight, spread by chance."""

    def busy(_: httpx.Request) -> httpx.Response:
        return httpx.Response(503, headers={"retry-after": value, "retry-after-ms": value})

    async with httpx.AsyncClient(transport=httpx.MockTransport(busy)) as client:
        config = {"base_url": "http://test/v1", "model": "m", "max_retries": 0}
        with pytest.raises(ServerError) as caught:
            await Provider.from_config(config, http_client=client).chat("Hello")
    error = caught.value
    assert error.retry_after is None
    assert 0.375 <= (retry_delay(error, 0) or 0) <= 0.5
    assert 1.5 <= (retry_delay(error, 2) or 0) <= 2
    assert 6 <= (retry_delay(error, 20) or 0) <= 8


def test_a_backoff_grows_to_its_longest() -> None:
    """Delays double by default, and any number of failures has one."""
    steady = Backoff(first=1, longest=60, jitter=0)
    assert [steady.delay(failures) for failures in (0, 1, 2, 5, 6, 10_000)] == [1, 2, 4, 32, 60, 60]
    assert [Backoff(first=1, longest=5, factor=1.5, jitter=0).delay(failures) for failures in (1, 3, 4)] == [
        1.5,
        3.375,
        5,
    ]
    assert all(30 <= Backoff(first=60, longest=60, jitter=0.5).delay(0) <= 60 for _ in range(100))


async def test_l7_a_date_in_the_future() -> None:
    """An HTTP date says when, not how long."""

    def busy(_: httpx.Request) -> httpx.Response:
        return httpx.Response(503, headers={"retry-after": formatdate(time() + 20, usegmt=True)})

    async with httpx.AsyncClient(transport=httpx.MockTransport(busy)) as client:
        config = {"base_url": "http://test/v1", "model": "m", "max_retries": 0}
        with pytest.raises(ServerError) as caught:
            await Provider.from_config(config, http_client=client).chat("Hello")
    assert 15 < (caught.value.retry_after or 0) <= 20


def test_the_server_knows_best_whether_to_try_again() -> None:
    """`x-should-retry` counts before the status, and a quota before both."""
    assert status_error(error_info("no", status=400), should_retry=True).retryable
    assert not status_error(error_info("busy", status=503), should_retry=False).retryable
    broke = error_info({"error": {"message": "pay", "type": "insufficient_quota"}}, status=429)
    assert not status_error(broke, should_retry=True).retryable
    assert isinstance(status_error(broke, should_retry=True), QuotaExceededError)


@pytest.mark.parametrize(("said", "requests"), [("false", 1), ("true", 2)])
async def test_x_should_retry_on_the_wire(said: str, requests: int) -> None:
    """A 503 that says "no" is not repeated, a 400 that says "yes" is."""
    status = "503 Busy" if said == "false" else "400 Odd"
    first = answer(status, b"{}", f"x-should-retry: {said}", "retry-after: 0")
    async with serving(in_turn(first, GOOD)) as server, server.provider(max_retries=3) as provider:
        if said == "true":
            assert (await provider.chat("Hello")).text == "Hi"
        else:
            with pytest.raises(ServerError):
                await provider.chat("Hello")
        assert len(server.requests) == requests


async def test_attempts_are_on_the_reply() -> None:
    """What was tried before the answer is told with it."""
    async with serving(in_turn(BUSY, BUSY, GOOD)) as server, server.provider(max_retries=2, name="main") as provider:
        reply = await provider.chat("Hello")
        assert reply.attempts == (Attempt("main", "busy (HTTP 503)", "ServerError", 0.001),) * 2
        assert (reply.text, reply.provider) == ("Hi", "main")


async def test_l9_one_budget_for_every_kind_of_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused connections, statuses and errors inside a 200 are counted together, and are all in the error."""
    monkeypatch.setattr(retry_backoff, "_BACKOFF", Backoff(first=0.001))
    inside = answer("200 OK", b'data: {"error":{"message":"full","code":503}}\n\n')

    async def script(peer: Connection) -> None:
        await peer.request()
        if peer.server.connections == 2:
            await peer.send(inside)
        elif peer.server.connections != 3:
            await peer.send(BUSY)  # and the third hangs up without a word

    async with serving(script) as server, server.provider(max_retries=3) as provider:
        with pytest.raises(ServerError, match="busy") as caught:
            await provider.chat("Hello")
        assert len(server.requests) == 4
        assert [attempt.error for attempt in caught.value.attempts] == [
            "ServerError", "UpstreamError", "APIConnectionError",
        ]  # fmt: skip


async def test_l8_what_will_not_get_better_is_not_repeated() -> None:
    """400, 401, 404, 422 and an empty account are not a matter of trying again."""
    for status, body in [
        ("400 Bad", b"{}"), ("401 No", b"{}"), ("404 No", b"{}"), ("422 No", b"{}"),
        ("429 Pay", b'{"error":{"message":"pay","code":"insufficient_quota"}}'),
    ]:  # fmt: skip
        async with serving(in_turn(answer(status, body, "retry-after: 0"), GOOD)) as server:
            async with server.provider(max_retries=5) as provider:
                with pytest.raises(StreamfoldError):
                    await provider.chat("Hello")
            assert len(server.requests) == 1


async def test_l12_retries_end_with_the_total_clock() -> None:
    """No pause is begun that the total clock would cut: the error comes at once."""
    slow = answer("503 Busy", b'{"error":{"message":"busy"}}', "retry-after: 30")
    async with serving(in_turn(slow)) as server, server.provider(max_retries=5, timeouts={"total": 20}) as provider:
        with anyio.fail_after(10), pytest.raises(ServerError, match="busy"):
            await provider.chat("Hello")
        assert len(server.requests) == 1


@pytest.mark.slow
async def test_l12_the_total_clock_runs_over_all_attempts() -> None:
    """However many attempts are allowed, and however quick they are: they end together."""
    async with serving(in_turn(BUSY)) as server:
        async with server.provider(max_retries=10**9, timeouts={"total": 0.5}) as provider:
            with anyio.fail_after(60), pytest.raises((APITimeoutError, ServerError)) as caught:
                await provider.chat("Hello")
        assert getattr(caught.value, "phase", "total") == "total"
        assert len(caught.value.attempts) >= len(server.requests) - 1


@pytest.mark.slow
async def test_a_first_event_that_did_not_come_is_asked_for_again() -> None:
    """The clock of the attempt that failed does not run on in the pause before the next one."""

    async def script(peer: Connection) -> None:
        await peer.request()
        if len(peer.server.requests) > 1:
            await peer.send(GOOD)
        await peer.gone()

    async with serving(script) as server, server.provider(max_retries=4, timeouts={"first_event": 0.3}) as provider:
        reply = await provider.chat("Hello")
        assert (reply.text, {tried.error for tried in reply.attempts}) == ("Hi", {"APITimeoutError"})


async def test_f10_once_more_without_stream_options() -> None:
    """A server that refuses `stream_options` is asked again without them, and each reply from then on says so."""
    refused = b'{"error":{"message":"Unrecognized request argument supplied: stream_options"}}'

    async def script(peer: Connection) -> None:
        while True:
            body = await peer.request()
            await peer.send(answer("400 Bad Request", refused) if b"stream_options" in body else GOOD)

    async with serving(script) as server, server.provider(name="old") as provider:  # never retries
        reply = await provider.chat("Hello")
        assert [warning.code for warning in reply.warnings] == ["option_dropped"]
        assert [attempt.error for attempt in reply.attempts] == ["UnsupportedOptionError"]
        again = await provider.chat("Hello")
        assert (again.text, again.warnings, again.attempts) == ("Hi", reply.warnings, ())
        assert provider.preview("Hello").warnings == tuple(reply.warnings)
        assert len(server.requests) == 3


async def test_another_400_is_not_repeated_without_stream_options() -> None:
    """Only a refusal that names the member is one of it."""
    async with serving(in_turn(answer("400 Bad Request", b'{"error":{"message":"no such model"}}'))) as server:
        async with server.provider() as provider:
            with pytest.raises(StreamfoldError, match="no such model"):
                await provider.chat("Hello")
        assert len(server.requests) == 1


@pytest.mark.slow
async def test_k15_a_slow_reader_is_not_a_silent_server() -> None:
    """Time that the caller takes between two chunks counts for no clock but the total one."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("one")))
        await peer.send(framed(text("two"), fin("stop"), DONE), b"0\r\n\r\n")

    async with serving(script) as server, server.provider(timeouts={"read": 0.15, "stall": 0.15}) as provider:
        async with provider.chat_stream("Hello") as stream:
            got = []
            async for chunk in stream:
                got.append(chunk.delta)
                await anyio.sleep(0.2)
        assert "".join(got) == "onetwo"


def test_only_the_total_clock_runs_in_a_pause() -> None:
    """Between two attempts no clock runs but the total one."""
    clocks = StreamTimeouts(Timeouts(first_event=5, read=2, stall=3, total=100), 0.0)
    assert clocks.due() == 100.0
    clocks.start(10.0)
    clocks.start_read(11.0, made_progress=True)
    clocks.pause()
    assert (clocks.due(), clocks.timeout(None).phase) == (100.0, "total")
    clocks.start(40.0)
    assert clocks.due() == 45.0


def test_l5_a_long_answer_is_no_slow_one() -> None:
    """However long an answer takes: no clock but `total` runs over the whole of it."""
    clocks = StreamTimeouts(Timeouts(first_event=5, read=2, stall=3), 0.0)
    clocks.start(0.0)
    for second in range(1, 1000):
        clocks.start_read(second, made_progress=True)
        assert clocks.due() == second + 2


def test_l6_the_first_event_may_take_longer_than_the_others() -> None:
    """A model that thinks, or a long prompt: `read` and `stall` do not run before the answer has begun."""
    clocks = StreamTimeouts(Timeouts(first_event=100, read=2, stall=3), 0.0)
    clocks.start(0.0)
    assert (clocks.due(), clocks.timeout(None).phase) == (100.0, "first_event")
    clocks.start_read(99.0, made_progress=False)  # after a comment
    assert (clocks.due(), clocks.timeout(None).phase) == (100.0, "first_event")
    assert clocks.start_read(100.0, made_progress=False) == 100.0  # which is now, so that the wait is over


def test_clocks() -> None:
    """Each clock runs from what it waits for; the error names it, and only `total` is final."""
    clocks = StreamTimeouts(Timeouts(first_event=5, read=2, stall=3, total=100), 0.0)
    clocks.start(10.0)
    assert (clocks.due(), clocks.timeout(None).phase) == (15.0, "first_event")
    clocks.start_read(11.0, made_progress=False)
    assert clocks.due() == 15.0  # bytes are no part of the answer
    clocks.start_read(11.0, made_progress=True)
    assert (clocks.due(), clocks.timeout(None).phase) == (13.0, "read")
    clocks.start_read(31.0, made_progress=True)  # the reader took twenty seconds
    assert clocks.due() == 33.0
    clocks.start_read(32.5, made_progress=False)
    assert (clocks.due(), clocks.timeout(None).phase) == (34.0, "stall")
    clocks.start_read(33.0, made_progress=True)
    assert (clocks.due(), clocks.timeout(None).phase) == (35.0, "read")
    clocks.start_read(99.0, made_progress=True)
    assert (clocks.due(), str(clocks.timeout("r"))) == (
        100.0, "the answer was not finished within 100 seconds (timeouts.total) (request id r)",
    )  # fmt: skip
    assert isinstance(clocks.error("connect"), APIConnectionError)
