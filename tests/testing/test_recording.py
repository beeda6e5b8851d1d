"""Recordings: what is read from the two files, how a body is cut and paced, and the transport that plays it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from streamfold import ConfigError, NamedTool, StreamDecoder
from streamfold.recording import (
    Cut,
    Recording,
    ReplayTransport,
    answer_headers,
    find_recording,
    split_body,
    with_delays,
)
from tables import each_row

BODY = text("Hel") + text("lo") + fin("stop") + DONE
SIZES = [len(text("Hel")), len(text("lo")) + len(fin("stop")), len(DONE)]
TIMED = Recording(
    "case/timed", BODY, cuts=tuple(Cut(size, delay) for size, delay in zip(SIZES, (0.5, 0.25, 0.0), strict=True))
)
URL = "https://provider.example/v1/chat/completions"


def write(folder: Path, toml: str, body: bytes = BODY) -> Path:
    folder.joinpath("case.sse").write_bytes(body)
    folder.joinpath("case.toml").write_text(toml, "utf-8")
    return folder / "case"


# --- reading ---------------------------------------------------------------------------------------------------------


def test_load_with_everything(tmp_path: Path) -> None:
    """All that a description may say is on the value."""
    toml = f"""
        adapter = "chat"
        status = 200
        source = "synthesised"
        shows = "Nothing."
        dialect = "hermes"
        tools = ["f", "g"]
        tool_choice = "g"
        origin = "made up"
        date = 2026-11-20
        link = "https://example.org"
        request = "hello"
        notes = "none"
        broken = true
        cuts = [[{SIZES[0]}, 0.5], [{SIZES[1] + SIZES[2]}, 0]]
        [headers]
        server = "x"
        [expect]
        text = "Hello"
        usage = {{ input_tokens = 3 }}
        calls = [{{ name = "f", arguments = {{ a = 1 }} }}]
    """
    assert Recording.load(write(tmp_path, toml)) == Recording(
        name=f"{tmp_path.name}/case",
        body=BODY,
        adapter="chat",
        status=200,
        headers={"server": "x"},
        cuts=(Cut(SIZES[0], 0.5), Cut(SIZES[1] + SIZES[2], 0.0)),
        broken=True,
        source="synthesised",
        shows="Nothing.",
        dialect="hermes",
        tools=("f", "g"),
        tool_choice="g",
        origin="made up",
        date="2026-11-20",
        link="https://example.org",
        request="hello",
        notes="none",
        expect={"text": "Hello", "usage": {"input_tokens": 3}, "calls": [{"name": "f", "arguments": {"a": 1}}]},
    )


def test_options() -> None:
    """What a description says of the request is what a decoder takes."""
    text_call = text('<tool_call>{"name": "f", "arguments": {}}</tool_call>') + fin("stop") + DONE
    made = Recording("case/hermes", text_call, dialect="hermes", tools=("f", "g"), tool_choice="g")
    assert made.options()["tool_choice"] == NamedTool("g")
    assert Recording("case/plain", b"").options() == {"dialect": None, "tools": [], "tool_choice": "auto"}
    decoder = StreamDecoder(made.adapter, **made.options())
    decoder.feed(made.body)
    decoder.close()
    assert [call.name for call in decoder.reply.tool_calls] == ["f"]
    assert [warning.code for warning in decoder.reply.warnings] == ["tool_choice_unmet"]


@pytest.mark.parametrize("suffix", ["", ".sse", ".toml"])
def test_load_with_or_without_suffix(tmp_path: Path, suffix: str) -> None:
    """A recording is named by either of its files, or by what they have in common."""
    path = write(tmp_path, 'origin = "here"')
    loaded = Recording.load(f"{path}{suffix}")
    assert (loaded.body, loaded.origin) == (BODY, "here")


def test_load_a_bare_body(tmp_path: Path) -> None:
    """A body without a description is a recording of Chat Completions, and nothing is made up about it."""
    tmp_path.joinpath("v1.2.sse").write_bytes(BODY)
    assert Recording.load(tmp_path / "v1.2") == Recording(f"{tmp_path.name}/v1.2", BODY)
    assert Recording.load(tmp_path / "v1.2").source is None


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('orgin = "x"', "orgin: unknown key (did you mean 'origin'?)"),
        ('[expect]\nfinish_resaon = "stop"', "expect.finish_resaon: unknown key (did you mean 'finish_reason'?)"),
        ('[[expect.calls]]\nname = "f"\nargs = "{}"', "expect.calls[0].args: unknown key. Allowed: name, arguments"),
        ("[expect.usage]\ninput_token = 1", "expect.usage.input_token: unknown key (did you mean 'input_tokens'?)"),
        ('source = "recoded"', "source: can't be 'recoded' (did you mean 'recorded'?). Allowed: recorded, documented"),
        (
            '[expect]\nwarnings = ["extra_choise"]',
            "expect.warnings[0]: can't be 'extra_choise' (did you mean 'extra_choice'?)",
        ),
        ("status = 20", "status: must not be less than 100"),
        ('status = "200"', "status: must be a whole number"),
        ('date = "yesterday"', "date: String should match pattern"),
        ("cuts = [[0, 1.0]]", "cuts[0][0]: must be greater than 0"),
        ("cuts = [[5, 0.1]]", f"cuts: the pieces have 5 bytes in total, but the body has {len(BODY)}"),
        ("adapter = ", "is not TOML: Invalid value (at "),
    ],
)
def test_bad_description(tmp_path: Path, toml: str, says: str) -> None:
    """The message has the file, the key, what is allowed, and the nearest spelling."""
    with pytest.raises(ConfigError) as caught:
        Recording.load(write(tmp_path, toml))
    assert says in str(caught.value)
    assert f"{tmp_path.name}/case" in str(caught.value)


def test_description_that_is_not_utf8(tmp_path: Path) -> None:
    """Bytes that are no text are a ConfigError too."""
    write(tmp_path, "").with_suffix(".toml").write_bytes(b'origin = "\xff"')
    with pytest.raises(ConfigError, match=r"case\.toml is not TOML"):
        Recording.load(tmp_path / "case")


def test_no_such_recording(tmp_path: Path) -> None:
    """The message has the path, and the nearest name in that folder."""
    path = write(tmp_path, "")
    with pytest.raises(
        ConfigError, match=r"there is no recording .*/caze\.sse \(did you mean 'case'\?\). Available: case"
    ):
        Recording.load(path.with_name("caze"))


def test_bundled() -> None:
    """The demonstration can be found by name; a wrong name gets the right one, and no path leads out."""
    assert find_recording("demo/parallel_calls").name == "demo/parallel_calls"
    with pytest.raises(ConfigError, match=r"did you mean 'demo/parallel_calls'\?"):
        find_recording("demo/paralel_calls")
    with pytest.raises(ConfigError):
        find_recording("../fixtures/demo/parallel_calls")


def test_bundled_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an installed package only its own folder is looked into."""
    tmp_path.joinpath("streamfold/fixtures/demo").mkdir(parents=True)
    write(tmp_path / "streamfold/fixtures/demo", 'origin = "wheel"')
    tmp_path.joinpath("fixtures/other").mkdir(parents=True)
    write(tmp_path / "fixtures/other", "")
    monkeypatch.setattr("streamfold.recording.recording.__file__", str(tmp_path / "streamfold/recording/files.py"))
    assert find_recording("demo/case").origin == "wheel"
    with pytest.raises(ConfigError, match=r"Available: demo/case$"):
        find_recording("other/case")


# --- cutting and pacing ----------------------------------------------------------------------------------------------


@each_row("cuts", ["recorded", "whole", "events", "bytes:1", "bytes:7", "bytes:100000", "random:1", "random:x"])
def test_pieces_add_up(cuts: str) -> None:
    """Whatever the cut, the bytes are the same, and no piece is empty."""
    made = split_body(TIMED, cuts)
    assert b"".join(made) == BODY
    assert all(made)


def test_pieces() -> None:
    """Each way of cutting gives the pieces that it names."""
    events = [text("Hel"), text("lo"), fin("stop"), DONE]
    assert split_body(TIMED) == [text("Hel"), text("lo") + fin("stop"), DONE]
    assert split_body(TIMED, "whole") == [BODY]
    assert split_body(TIMED, "events") == events
    assert split_body(Recording("case/untimed", BODY)) == events
    assert split_body(TIMED, "bytes:100")[0] == BODY[:100]
    assert split_body(TIMED, "random:1") == split_body(TIMED, "random:1") != split_body(TIMED, "random:2")


def test_pieces_of_line_ends() -> None:
    """Events end at a blank line, whichever line end the server uses; a CRLF is one line end."""
    body = b"data: 1\r\ndata: 2\r\n\r\n: comment\n\n\ndata: 3\r\rdata: 4"
    assert split_body(Recording("case/ends", body), "events") == [
        b"data: 1\r\ndata: 2\r\n\r\n",
        b": comment\n\n\n",
        b"data: 3\r\r",
        b"data: 4",
    ]


@each_row("cuts", ["recorded", "whole", "events", "bytes:1", "random:1"])
@each_row("body", [b"", b"x"])
def test_pieces_of_almost_nothing(body: bytes, cuts: str) -> None:
    """An empty body has no pieces, one byte is one."""
    assert split_body(Recording("case/small", body), cuts) == ([body] if body else [])


@each_row("cuts", ["", "recorder", "bytes", "bytes:0", "bytes:-1", "bytes:x", "random:", "random"])
def test_bad_cuts(cuts: str) -> None:
    """What is no way of cutting is refused, and the ways are named."""
    with pytest.raises(
        ConfigError, match=r'cuts must be "recorded", "whole", "events", "bytes:N" or "random:SEED", not'
    ):
        split_body(TIMED, cuts)


def test_paced() -> None:
    """Instant, as fast as it was, or so many pieces per second."""
    assert [wait for wait, _ in with_delays(TIMED)] == [0, 0, 0]
    assert [wait for wait, _ in with_delays(TIMED, speed="recorded")] == [0.5, 0.25, 0]
    assert [wait for wait, _ in with_delays(TIMED, speed=4)] == [0.25, 0.25, 0.25]


def test_recorded_times_hold_for_other_cuts() -> None:
    """A byte comes when it came then: the waits of the pieces that hold it add up to the same."""
    assert [wait for wait, _ in with_delays(TIMED, "whole", "recorded")] == [0.75]
    assert [wait for wait, _ in with_delays(TIMED, "events", "recorded")] == [0.5, 0.25, 0, 0]
    assert sum(wait for wait, _ in with_delays(TIMED, "random:3", "recorded")) == 0.75


@each_row("speed", [0, -1, float("nan"), float("inf"), True, "fast"])
def test_bad_speed(speed: Any) -> None:
    """What is no speed is refused."""
    with pytest.raises(ConfigError, match='speed must be "instant", "recorded" or a number of pieces per second, not'):
        with_delays(TIMED, speed=speed)


def test_recorded_speed_needs_recorded_times() -> None:
    """Times that nobody noted are not made up."""
    with pytest.raises(
        ConfigError, match="case/untimed has no recorded times: pass the speed as a number of pieces per second"
    ):
        ReplayTransport(Recording("case/untimed", BODY), speed="recorded")


# --- playing ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def answering(transport: ReplayTransport) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.Response]]:
    async with (
        httpx.AsyncClient(transport=transport) as client,
        client.stream("POST", URL, json={"model": "m"}) as response,
    ):
        yield client, response


async def test_plays_pieces_and_headers() -> None:
    """Status, headers and pieces are the recorded ones, and the request is remembered with its body."""
    recording = Recording(
        "case/x", BODY, status=201, headers={"X-Request-Id": "r1", "Content-Encoding": "gzip"}, cuts=TIMED.cuts
    )
    transport = ReplayTransport(recording)
    async with answering(transport) as (_, response):
        assert (response.status_code, response.headers["x-request-id"]) == (201, "r1")
        assert response.headers["content-type"] == "text/event-stream"
        assert "content-encoding" not in response.headers
        assert [piece async for piece in response.aiter_raw()] == split_body(recording)
    assert [(request.method, str(request.url)) for request in transport.requests] == [("POST", URL)]
    assert json.loads(transport.requests[0].content) == {"model": "m"}
    assert transport.open_streams == 0


@pytest.mark.parametrize("speed", ["instant", "recorded", 1_000_000])
@pytest.mark.parametrize("cuts", ["recorded", "events", "bytes:3"])
async def test_folds_at_every_speed(tmp_path: Path, speed: Any, cuts: str) -> None:
    """From a path, at any speed and cut: the same answer."""
    path = write(tmp_path, f"cuts = [[{SIZES[0]}, 0.001], [{SIZES[1]}, 0.001], [{SIZES[2]}, 0]]")
    decoder = StreamDecoder("chat")
    async with answering(ReplayTransport(path, speed=speed, cuts=cuts)) as (_, response):
        async for piece in response.aiter_raw():
            decoder.feed(piece)
    decoder.close()
    assert decoder.reply.text == "Hello"


async def test_waits_as_long_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waits are those of `with_delays`; at the end nothing is waited for."""
    slept: list[float] = []

    async def sleep(delay: float) -> None:
        slept.append(delay)

    monkeypatch.setattr("streamfold.recording.replay.anyio.sleep", sleep)
    async with answering(ReplayTransport(TIMED, speed="recorded")) as (_, response):
        await response.aread()
    assert slept == [0.5, 0.25, 0.0, 0.0]


async def test_several_recordings_in_order() -> None:
    """One recording for each request; one request too many is an error that counts them."""
    transport = ReplayTransport([Recording("case/a", b"data: a\n\n"), Recording("case/b", b"data: b\n\n")])
    async with httpx.AsyncClient(transport=transport) as client:
        assert [(await client.get(URL)).text for _ in range(2)] == ["data: a\n\n", "data: b\n\n"]
        with pytest.raises(ConfigError, match=rf"request 3 \(GET {URL}\) has no recording: .* are case/a, case/b"):
            await client.get(URL)
    assert len(transport.requests) == 3


async def test_open_streams() -> None:
    """An answer that is left half-way counts as open until it is closed."""
    transport = ReplayTransport([TIMED, TIMED])
    async with httpx.AsyncClient(transport=transport) as client:
        first = await client.send(client.build_request("POST", URL), stream=True)
        second = await client.send(client.build_request("POST", URL), stream=True)
        # Not aiter_raw(): that leaves a generator of httpx's behind, of which trio complains.
        async with aclosing(aiter(first.stream)) as raw:
            assert await anext(raw) == text("Hel")
        assert transport.open_streams == 2
        await first.aclose()
        await first.aclose()
        assert transport.open_streams == 1
        await second.aread()
        assert transport.open_streams == 0


async def test_closing_wakes_the_reader() -> None:
    """A task that waits for the next piece learns at once that another one has closed the answer."""
    waiting = Recording("case/slow", BODY, cuts=(Cut(len(BODY), 3600.0),))
    transport = ReplayTransport(waiting, speed="recorded")
    async with httpx.AsyncClient(transport=transport) as client:
        response = await client.send(client.build_request("POST", URL), stream=True)

        async def read() -> None:
            with pytest.raises(httpx.ReadError, match="closed while it was being read"):
                await response.aread()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                await response.aclose()


async def test_a_reader_can_be_cancelled() -> None:
    """A timeout of the caller ends the wait, and is not taken for a closed answer."""
    transport = ReplayTransport(Recording("case/slow", BODY, cuts=(Cut(len(BODY), 3600.0),)), speed="recorded")
    async with answering(transport) as (_, response):
        with anyio.move_on_after(0.01) as scope:
            await response.aread()
        assert scope.cancelled_caught
    assert transport.open_streams == 0


async def test_broken_recording_breaks() -> None:
    """A connection that broke off when it was recorded breaks off again, after the same bytes."""
    got: list[bytes] = []

    async def read(response: httpx.Response) -> None:
        async for piece in response.aiter_raw():
            got.append(piece)

    transport = ReplayTransport(Recording("case/broken", BODY[:70], broken=True))
    async with answering(transport) as (_, response):
        with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
            await read(response)
    assert got == [BODY[:70]]
    assert transport.open_streams == 0


def test_bad_arguments() -> None:
    """What is no fault is refused with the names there are, and so is a transport with nothing to play."""
    with pytest.raises(ConfigError, match=r"faults must be a list of values of .*faults \(corrupt, cut_after, "):
        ReplayTransport(TIMED, faults=["disconnect"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="no recording was passed"):
        ReplayTransport([])
    with pytest.raises(ConfigError, match="cuts must be"):
        ReplayTransport(TIMED, cuts="pieces")


def test_answer_headers() -> None:
    """What described the connection of the day is not played; what described the answer is."""
    headers = {
        "Transfer-Encoding": "chunked",
        "Content-Length": "9",
        "Set-Cookie": "a=b",
        "Content-Type": "application/json",
    }
    assert answer_headers(Recording("case/x", b"{}", headers=headers)) == {"content-type": "application/json"}
