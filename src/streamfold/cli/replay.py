"""The commands `replay` and `serve-replay`, which play recordings."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Annotated, Any

import anyio
import typer

from ..engine import StreamDecoder
from ..errors import ConfigError
from ..faults import read_fault
from ..recording import Speed, load_source, open_recording, with_delays
from ..terminal import AdapterName, DialectNames, print_status, reported_errors
from .chat import AsJson
from .rendering import ERROR_LINE, renderer_for

Pace = Annotated[str, typer.Option("--speed", help="instant, recorded, or a number of pieces per second.")]
Cuts = Annotated[str, typer.Option(help="How to split the bytes: recorded, whole, events, bytes:N or random:SEED.")]


def replay(
    file: Annotated[Path, typer.Argument(help="A recording, or the name of a bundled recording.")],
    adapter: AdapterName = None,
    dialect: DialectNames = None,
    speed: Pace = "instant",
    cuts: Cuts = "recorded",
    as_json: AsJson = False,
) -> None:
    """Decode and print a recorded response."""
    screen = renderer_for(as_json)
    with reported_errors(as_json, ERROR_LINE):
        recording = open_recording(file)
        options = recording.options() | ({"dialect": dialect} if dialect else {})
        decoder = StreamDecoder(adapter or recording.adapter, **options)
        for delay, piece in with_delays(recording, cuts, _speed(speed)):
            sleep(delay)
            for chunk in decoder.feed(piece):
                screen.chunk(chunk)
        for chunk in decoder.end(interrupted=recording.interrupted):
            screen.chunk(chunk)
        decoder.close()  # raises the error of a failed response
        screen.end(decoder.reply)


def serve_replay(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Recordings, folders of recordings, and names of bundled recordings, in the order in which"
            " they are sent."
        ),
    ],
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1; 0 chooses a free port.", min=0, max=65535)] = 0,
    speed: Pace = "recorded",
    cuts: Cuts = "recorded",
    match: Annotated[
        str,
        typer.Option(
            help="How to choose a recording: order (the next one, for an equal request), request (by an equal"
            " request), or any (the next one)."
        ),
    ] = "order",
    fault: Annotated[
        list[str] | None, typer.Option(help="A fault to inject, as in Python: 'status(429, times=2)'. Can be repeated.")
    ] = None,
) -> None:
    """Answer HTTP requests with recordings until Ctrl-C."""
    with reported_errors():
        anyio.run(_serve, sources, port, speed, cuts, match, fault or [])


async def _serve(sources: list[Path], port: int, speed: str, cuts: str, match: Any, faults: list[str]) -> None:
    from ..testing import serve_replay  # late: it knows every API

    recordings = [recording for source in sources for recording in load_source(source)]
    timed = all(recording.cuts or not recording.body for recording in recordings)
    pace = _speed("instant" if speed == "recorded" and not timed else speed)
    broken = [read_fault(text) for text in faults]
    serving = serve_replay(recordings, port=port, speed=pace, cuts=cuts, match=match, faults=broken)
    try:
        async with serving as base_url:
            print_status(f"{base_url} answers with {', '.join(recording.name for recording in recordings)}")
            await anyio.sleep_forever()
    except OSError as exc:
        raise ConfigError(f"port {port} can't be used: {exc.strerror or exc}") from exc


def _speed(text: str) -> Speed:
    try:
        return text if text in ("instant", "recorded") else float(text)  # type: ignore[return-value]
    except ValueError:
        raise ConfigError(f"--speed: {text!r} is not instant, recorded or a number of pieces per second") from None
