"""Recorded responses: the class `Recording`, its two files, and functions that find recordings.

`<case>.sse` contains the response body, byte for byte. `<case>.toml` is its description: the body's origin, its pieces,
and the expected reply. An unknown key in a description is an error, because people write descriptions by hand.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import random
import re
import secrets
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field, ValidationError

from ..config import allowed_values_hint, read_table, table_field, toml_path, validation_errors
from ..engine import StreamDecoder, event_ranges
from ..errors import ConfigError, StreamError
from ..types import NamedTool, Reply, Tool
from .expectations import Expected, as_expectation

Speed: TypeAlias = Literal["instant", "recorded"] | float

_CUTS_PER_LINE = 8
_MODEL_IN_PATH = re.compile(r"/models/(.+):\w+$")


def _as_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


Status = Annotated[int, Field(ge=100, le=599)]
Day = Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^(\d{4}-\d\d(-\d\d)?)?$")]


def check_writer() -> None:
    """Raises ConfigError if the package that writes TOML is not installed."""
    if find_spec("tomli_w") is None:
        raise ConfigError("saving recordings needs the extra: pip install 'streamfold[testing]'")


def as_toml(values: Mapping[str, Any]) -> str:
    """Serializes a recording's description as TOML: first scalars, then `cuts` with several pieces on each line, then
    tables.
    """
    check_writer()
    import tomli_w

    lines = "\\r" not in repr(values)  # tomli_w would normalise line ends in multi-line strings
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    scalars = {key: value for key, value in values.items() if key not in tables and key != "cuts"}
    text = tomli_w.dumps(scalars, multiline_strings=lines)
    if values.get("cuts"):
        cuts = [f"[{size}, {delay!r}]" for size, delay in values["cuts"]]
        rows = [", ".join(cuts[start : start + _CUTS_PER_LINE]) for start in range(0, len(cuts), _CUTS_PER_LINE)]
        text += "\n".join(["cuts = [ # bytes, seconds", *(f"    {row}," for row in rows), "]\n"])
    return f"{text}\n{tomli_w.dumps(tables, multiline_strings=lines)}" if tables else text


class Cut(NamedTuple):
    """A piece of the body as the network delivered it: the number of bytes, and the seconds since the previous piece
    (for the first piece, since the headers).
    """

    size: Annotated[int, Field(gt=0)]
    delay: Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class SentExchange:
    """The request of a recording, without headers and secrets.

    Attributes:
        path: the URL's path and query.
        body: the request body as text. JSON is indented.
    """

    method: str = "POST"
    path: str = ""
    body: str = field(default="", repr=False)

    @property
    def model(self) -> str | None:
        """The requested model."""
        return requested_model(self.path, parse_json(self.body))


def requested_model(path: str, body: Any) -> str | None:
    """Returns the model that a request is for, from its body or, for Gemini and Vertex AI, from its path."""
    model = body.get("model") if isinstance(body, dict) else None
    if isinstance(model, str):
        return model
    found = _MODEL_IN_PATH.search(unquote(urlsplit(path).path))
    return found[1] if found else None


def parse_json(text: str | bytes) -> Any:
    """Parses a JSON text. Returns None if the text isn't JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded response.

    Attributes:
        name: the folder and the file name, as in `kimi/parallel_calls`.
        body: the decompressed bytes of the response body.
        adapter: the wire format.
        status, headers: the HTTP response's status, and those of its headers that a replay needs.
        cuts: the pieces in which the network delivered the body. Empty if the pieces are unknown.
        broken: True if the connection broke at the end of the body. A replay then breaks the connection too.
        complete: True if the response was recorded to its end.
        ended: the reason why the recording is incomplete.
        encoding: the compression method with which the server sent the body.
        source: `recorded` from a running server, `documented` from a vendor's documentation, or `synthesised` as a test
            case. None if unknown.
        shows: one sentence about what the recording shows.
        origin, date, link, request, notes: a description of the recording's origin.
        conversation: an id that is the same for all recordings of a conversation.
        sent: the request, or None if it wasn't recorded.
        dialect, tools, tool_choice: arguments for `StreamDecoder`. `tools` contains names, and `tool_choice` can be the
            name of a tool.
        expect: the expected reply or error, without empty fields.
    """

    name: str
    body: bytes = field(repr=False)
    adapter: str = "chat"
    status: Status = 200
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    cuts: tuple[Cut, ...] = field(default=(), repr=False)
    broken: bool = False
    source: Literal["recorded", "documented", "synthesised"] | None = None
    shows: str = ""
    origin: str = ""
    date: Day = ""
    link: str = ""
    request: str = ""
    notes: str = ""
    complete: bool = True
    ended: str = ""
    encoding: str = ""
    conversation: str = ""
    sent: Annotated[SentExchange | None, table_field(SentExchange)] = None
    dialect: str = ""
    tools: tuple[str, ...] = ()
    tool_choice: str = "auto"
    expect: Expected = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        total = sum(cut.size for cut in self.cuts)
        if self.cuts and total != len(self.body):
            raise ConfigError(
                f"{self.name}: cuts: the pieces have {total} bytes in total, but the body has {len(self.body)}"
            )

    @property
    def interrupted(self) -> str | None:
        """The reason why the connection broke, as an argument for `StreamDecoder.close`; None if it didn't break."""
        return "the connection broke off" if self.broken else None

    def options(self) -> dict[str, Any]:
        """Returns the keyword arguments for a decoder of this recording: `StreamDecoder(recording.adapter,
        **recording.options())`.
        """
        tools = [Tool(name, "", {"type": "object", "properties": {}}) for name in self.tools]
        choice = NamedTool(self.tool_choice) if self.tool_choice in self.tools else self.tool_choice
        return {"dialect": self.dialect or None, "tools": tools, "tool_choice": choice}

    def reply(self) -> Reply:
        """Decodes the body and returns the reply.

        Raises:
            StreamError: the recorded response failed.
            ConfigError: the adapter is unknown.
        """
        decoder = StreamDecoder(self.adapter, **self.options())
        decoder.feed(self.body)
        decoder.close(interrupted=self.interrupted)
        return decoder.reply

    def expectation(self) -> dict[str, Any]:
        """Decodes the body, and returns the reply or the error as an `[expect]` table."""
        try:
            return as_expectation(self.reply())
        except StreamError as error:
            return as_expectation(error)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Loads the body from `<path>.sse` and, if it exists, the description from `<path>.toml`. The path may end with
        either suffix. If `<path>.sse` doesn't exist, the body is loaded from the file `path` itself.

        Raises:
            ConfigError: the recording doesn't exist, or a key of its description is invalid.
        """
        base = Path(path).absolute()
        if base.suffix in (".sse", ".toml"):
            base = base.with_suffix("")
        # Not with_suffix(): a name may have dots of its own.
        body, described = base.with_name(f"{base.name}.sse"), base.with_name(f"{base.name}.toml")
        if not body.is_file() and base.is_file():  # a body with another suffix
            body = base
        if not body.is_file():
            inside = base.is_dir()
            near = [file.stem for file in sorted((base if inside else base.parent).glob("*.sse"))]
            what = f"{base} is a folder, not a recording" if inside else f"there is no recording {body}"
            raise ConfigError(f"{what}{allowed_values_hint(base.name, near, 'Available') if near else ''}")
        description, content = _read_pair(body, described)
        try:
            values = tomllib.loads((description or b"").decode())
            read: Recording = read_table(cls, values, name=f"{base.parent.name}/{base.name}", body=content)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise ConfigError(f"{described} is not TOML: {exc}") from exc
        except ValidationError as exc:
            key, text = validation_errors(exc)[0]
            raise ConfigError(f"{described}: {toml_path(key)}: {text}") from exc
        return read

    def save(self, path: str | os.PathLike[str], *, replace_older: bool = True) -> None:
        """Writes `<path>.sse` and `<path>.toml`. `load` creates an equal recording from these files.

        If the process crashes meanwhile, the files contain the old recording or the new recording, perhaps with
        `complete = false`. Processes that save into the same folder wait for each other, except on Windows.

        Args:
            replace_older: True to replace an existing recording at this path. False to raise FileExistsError instead.

        Raises:
            FileExistsError: a recording exists at this path, and `replace_older` is False.
            OSError: the files can't be written. The old recording then stays unchanged, or is marked as incomplete.
            ConfigError: the package that writes TOML is not installed.
        """
        base = Path(path).absolute()
        body, described = base.with_name(f"{base.name}.sse"), base.with_name(f"{base.name}.toml")
        # This description fits the old and the new body, so that each of the three steps leaves a readable pair.
        between = replace(
            self, cuts=(), expect={}, complete=False, ended="the process ended while this recording was being written"
        )
        steps = ((described, between._description()), (body, self.body), (described, self._description()))
        written: list[tuple[Path, Path]] = []
        with _locked(base.parent):
            if not replace_older and (body.exists() or described.exists()):
                raise FileExistsError(f"the recording {base} already exists")
            try:
                for target, content in steps:
                    written.append((temporary_path(target), target))
                    written[-1][0].write_bytes(content)
                for source, target in written:
                    source.replace(target)
            finally:
                for source, _ in written:
                    source.unlink(missing_ok=True)

    def _description(self) -> bytes:
        values: dict[str, Any] = {"adapter": self.adapter}
        tables: dict[str, Any] = {}
        for part in sorted(fields(self), key=lambda part: part.name == "cuts"):  # the longest one last
            value = getattr(self, part.name)
            if part.name in ("name", "body", "adapter") or value in (part.default, {}, ()):
                continue
            if isinstance(value, SentExchange):
                value = {key: text for key in ("method", "path", "body") if (text := getattr(value, key))}
            (tables if isinstance(value, Mapping) else values)[part.name] = value
        return as_toml({**values, **tables}).encode("utf-8", "replace")


def _read_pair(body: Path, described: Path) -> tuple[bytes | None, bytes]:
    while True:
        before = described.read_bytes() if described.is_file() else None
        content = body.read_bytes()
        after = described.read_bytes() if described.is_file() else None
        if before == after:
            return before, content


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Prevents other processes from saving into a folder. Does nothing on Windows, where folders can't be locked."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            flock(handle, LOCK_EX)
        yield
    finally:
        os.close(handle)


def temporary_path(target: Path) -> Path:
    """Returns an unused path of a hidden file next to `target`. No recording can have this path."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def find_recording(name: str) -> Recording:
    """Loads a bundled recording by its name: `find_recording("demo/parallel_calls")`.

    Raises:
        ConfigError: the name is unknown. The message lists the known names.
    """
    package = Path(__file__).parents[1]
    folders = [package / "fixtures"]  # the wheel's recordings
    if package.parent.name == "src":  # a checkout contains more recordings
        folders.append(package.parents[1] / "fixtures")
    known: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*/*.sse")):
            known.setdefault(f"{file.parent.name}/{file.stem}", file)
    if name not in known:
        raise ConfigError(f"there is no recording {name!r}{allowed_values_hint(name, list(known), 'Available')}")
    return Recording.load(known[name])


def open_recording(source: str | os.PathLike[str]) -> Recording:
    """Loads the recording at a path, or the bundled recording with this name.

    Raises:
        ConfigError: no such recording exists, or its description is invalid.
    """
    try:
        return Recording.load(source)
    except ConfigError as problem:
        try:
            return find_recording(Path(source).as_posix())
        except ConfigError:
            raise problem from None


def split_body(recording: Recording, cuts: str = "recorded") -> list[bytes]:
    """Splits a recording's body into non-empty pieces.

    Args:
        cuts: how to split the body. "recorded" uses the recorded pieces, or the SSE events if the pieces are unknown.
            "whole" doesn't split, "events" splits into SSE events, "bytes:N" after every N bytes. "random:SEED" splits
            at random positions, which are the same for the same seed.

    Raises:
        ConfigError: `cuts` has an invalid value.
    """
    body = recording.body
    kind, _, value = cuts.partition(":")
    if cuts == "recorded" and recording.cuts:
        ends = list(accumulate(cut.size for cut in recording.cuts))
    elif cuts in ("recorded", "events"):
        ends = [event.end for event in event_ranges(body)]
    elif cuts == "whole":
        ends = []
    elif kind == "bytes" and value.isdecimal() and int(value) > 0:
        ends = list(range(int(value), len(body), int(value)))
    elif kind == "random" and value:
        rng = random.Random(value)  # noqa: S311 - where to cut is no secret
        ends = sorted(rng.sample(range(1, len(body)), rng.randint(0, min(40, len(body) - 1)))) if body else []
    else:
        raise ConfigError(f'cuts must be "recorded", "whole", "events", "bytes:N" or "random:SEED", not {cuts!r}')
    return [body[start:end] for start, end in pairwise([0, *ends, len(body)]) if start < end]


def with_delays(recording: Recording, cuts: str = "recorded", speed: Speed = "instant") -> list[tuple[float, bytes]]:
    """Splits a recording's body into pieces. Returns each piece with the number of seconds to wait before it is sent.

    Args:
        speed: "instant", "recorded" or a number of pieces per second. With "recorded", each byte is sent at its
            recorded time, whatever `cuts` is.

    Raises:
        ConfigError: `cuts` or `speed` has an invalid value, or `speed` is "recorded" and the recording contains no
            times.
    """
    made = split_body(recording, cuts)
    if speed == "instant":
        return [(0.0, piece) for piece in made]
    if speed == "recorded":
        if recording.body and not recording.cuts:
            raise ConfigError(
                f"{recording.name} has no recorded times: pass the speed as a number of pieces per second"
            )
        ends = list(accumulate(cut.size for cut in recording.cuts))
        times = list(accumulate(cut.delay for cut in recording.cuts))
        arrivals = [times[bisect_left(ends, end)] for end in accumulate(map(len, made))]
        waits = [after - before for before, after in pairwise([0.0, *arrivals])]
        return list(zip(waits, made, strict=True))
    if isinstance(speed, bool | str) or not (math.isfinite(speed) and speed > 0):
        raise ConfigError(f'speed must be "instant", "recorded" or a number of pieces per second, not {speed!r}')
    return [(1 / speed, piece) for piece in made]
