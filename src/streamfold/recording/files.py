"""A recorded answer as a value, and as two files: its bytes, and a description of them.

`<case>.sse` is the body, byte for byte; `<case>.toml` beside it says where it came from, in which pieces the network
delivered it, and what it must fold to. A description is written by hand, so a key that nobody knows is refused: a
misspelt expectation would otherwise be one that always holds.
"""

from __future__ import annotations

import datetime
import math
import os
import random
import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..errors import ConfigError
from ..tools import NamedTool, Tool
from ..types import FinishReason, WarningCode

__all__ = ["Cut", "Recording", "Speed", "find_recording", "paced", "pieces"]

Speed: TypeAlias = Literal["instant", "recorded"] | float

_EVENT = re.compile(rb"(?:(?>\r\n|\n|\r)){2,}")  # atomic, or the CR and the LF of one CRLF would pass for two line ends


class Cut(NamedTuple):
    """One piece as the network delivered it: its length, and the seconds since the piece before (or the headers)."""

    size: int
    delay: float


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded answer.

    Attributes:
        name: the folder and the file name, as in `kimi/parallel_calls`.
        body: the bytes as they came.
        adapter: the wire format that reads them.
        status, headers: of the HTTP answer; headers that nobody needs are left out.
        cuts: the pieces in which the network delivered the body; empty if nobody noted them.
        broken: the connection broke off after the body, and playing it breaks off too.
        source: `recorded` from a running server, `documented` if it was written from a vendor's documentation,
            `synthesised` if it was made up; None if nobody said.
        shows: what is worth seeing in it, in one sentence.
        origin, date, link, request, notes: where it came from, in words.
        dialect, tools, tool_choice: how the model writes calls inside its text, the names of the tools that the request
            declared, and its tool choice: a word, or the name of a tool.
        expect: what it must fold to. What is not named there must not be in the answer.
    """

    name: str
    body: bytes = field(repr=False)
    adapter: str = "chat"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    cuts: tuple[Cut, ...] = field(default=(), repr=False)
    broken: bool = False
    source: Literal["recorded", "documented", "synthesised"] | None = None
    shows: str = ""
    origin: str = ""
    date: str = ""
    link: str = ""
    request: str = ""
    notes: str = ""
    dialect: str = ""
    tools: tuple[str, ...] = ()
    tool_choice: str = "auto"
    expect: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        total = sum(cut.size for cut in self.cuts)
        if self.cuts and total != len(self.body):
            raise ConfigError(f"{self.name}: cuts: the pieces are {total} bytes together, the body is {len(self.body)}")

    def options(self) -> dict[str, Any]:
        """What has to be known to read it, beside the adapter: `StreamDecoder(made.adapter, **made.options())`."""
        tools = [Tool(name, "", {"type": "object", "properties": {}}) for name in self.tools]
        choice = NamedTool(self.tool_choice) if self.tool_choice in self.tools else self.tool_choice
        return {"dialect": self.dialect or None, "tools": tools, "tool_choice": choice}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """The recording in `<path>.sse`, described by `<path>.toml` if that is there; either suffix may be given.

        A body that was saved under another name is read too.

        Raises:
            ConfigError: there is no such recording, or a key of its description can't be used.
        """
        base = Path(path).absolute()
        if base.suffix in (".sse", ".toml"):
            base = base.with_suffix("")
        # Not with_suffix(): a name may have dots of its own.
        body, described = base.with_name(f"{base.name}.sse"), base.with_name(f"{base.name}.toml")
        if not body.is_file() and base.is_file():  # a body that was saved under a name of one's own
            body = base
        if not body.is_file():
            near = [file.stem for file in sorted(body.parent.glob("*.sse"))]
            raise ConfigError(f"there is no recording {body}{_allowed(base.name, near)}")
        told = _read_toml(described) if described.is_file() else _File()
        members = {name: getattr(told, name) for name in _File.model_fields if name not in ("cuts", "expect")}
        return cls(
            name=f"{base.parent.name}/{base.name}",
            body=body.read_bytes(),
            cuts=tuple(Cut(*cut) for cut in told.cuts),
            expect=told.expect.model_dump(exclude_unset=True) if told.expect else {},
            **members,
        )


def find_recording(name: str) -> Recording:
    """A recording that comes with streamfold, by its name: `find_recording("demo/parallel_calls")`.

    Raises:
        ConfigError: there is none of this name; the message has the names there are.
    """
    package = Path(__file__).parents[1]
    folders = [package / "fixtures"]  # in a wheel
    if package.parent.name == "src":  # in a checkout, which has more of them
        folders.append(package.parents[1] / "fixtures")
    known: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*/*.sse")):
            known.setdefault(f"{file.parent.name}/{file.stem}", file)
    if name not in known:
        raise ConfigError(f"there is no recording {name!r}{_allowed(name, list(known))}")
    return Recording.load(known[name])


# --- Playing ---------------------------------------------------------------------------------------------------------


def pieces(recording: Recording, cuts: str = "recorded") -> list[bytes]:
    """The body in pieces, none of them empty.

    Args:
        cuts: "recorded" (as the network cut it; event by event if nobody noted that), "whole", "events", "bytes:N", or
            "random:SEED", which gives the same pieces for the same seed.

    Raises:
        ConfigError: `cuts` is something else.
    """
    body = recording.body
    kind, _, value = cuts.partition(":")
    if cuts == "recorded" and recording.cuts:
        ends = list(accumulate(cut.size for cut in recording.cuts))
    elif cuts in ("recorded", "events"):
        ends = [match.end() for match in _EVENT.finditer(body)]
    elif cuts == "whole":
        ends = []
    elif kind == "bytes" and value.isdecimal() and int(value) > 0:
        ends = list(range(int(value), len(body), int(value)))
    elif kind == "random" and value:
        rng = random.Random(value)  # noqa: S311 - where to cut is no secret
        ends = sorted(rng.sample(range(1, len(body)), rng.randint(0, min(40, len(body) - 1)))) if body else []
    else:
        raise ConfigError(f'cuts are "recorded", "whole", "events", "bytes:N" or "random:SEED", not {cuts!r}')
    return [body[start:end] for start, end in pairwise([0, *ends, len(body)]) if start < end]


def paced(recording: Recording, cuts: str = "recorded", speed: Speed = "instant") -> list[tuple[float, bytes]]:
    """The pieces, each with the seconds to wait before it.

    Args:
        speed: "instant", "recorded" (each byte comes when it came then, however it is cut now), or pieces per second.

    Raises:
        ConfigError: `cuts` or `speed` is something else, or nobody noted the times.
    """
    made = pieces(recording, cuts)
    if speed == "instant":
        return [(0.0, piece) for piece in made]
    if speed == "recorded":
        if not recording.cuts:
            raise ConfigError(f"{recording.name} was not timed: give the speed as a number of pieces per second")
        ends = list(accumulate(cut.size for cut in recording.cuts))
        times = list(accumulate(cut.delay for cut in recording.cuts))
        arrivals = [times[bisect_left(ends, end)] for end in accumulate(map(len, made))]
        waits = [after - before for before, after in pairwise([0.0, *arrivals])]
        return list(zip(waits, made, strict=True))
    if isinstance(speed, bool | str) or not (math.isfinite(speed) and speed > 0):
        raise ConfigError(f'speed is "instant", "recorded" or a number of pieces per second, not {speed!r}')
    return [(1 / speed, piece) for piece in made]


# --- The description -------------------------------------------------------------------------------------------------


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _ExpectedCall(_Strict):
    name: str
    arguments: str | dict[str, Any]  # the model's text, or what it means
    id: str | None = None


class _ExpectedUsage(_Strict):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Expected(_Strict):
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    finish_reason: FinishReason | None = None
    raw_finish_reason: str | None = None
    calls: list[_ExpectedCall] = []
    usage: _ExpectedUsage | None = None
    warnings: list[WarningCode] = []
    error: Literal["IncompleteStreamError", "UpstreamError", "ProtocolError", "EmptyResponseError"] | None = None
    message: str | None = None  # of the error


_Piece: TypeAlias = Annotated[tuple[Annotated[int, Field(gt=0)], Annotated[float, Field(ge=0)]], Field(strict=False)]


class _File(_Strict):
    adapter: str = "chat"
    status: Annotated[int, Field(ge=100, le=599)] = 200
    headers: dict[str, str] = {}
    cuts: list[_Piece] = []
    broken: bool = False
    source: Literal["recorded", "documented", "synthesised"] | None = None
    shows: str = ""
    origin: str = ""
    date: Annotated[str, Field(pattern=r"^(\d{4}-\d\d(-\d\d)?)?$")] = ""
    link: str = ""
    request: str = ""
    notes: str = ""
    dialect: str = ""
    tools: Annotated[tuple[str, ...], Field(strict=False)] = ()
    tool_choice: str = "auto"
    expect: _Expected | None = None

    @field_validator("date", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime.date) else value


_PARTS: dict[str, type[BaseModel]] = {"expect": _Expected, "calls": _ExpectedCall, "usage": _ExpectedUsage}


def _read_toml(path: Path) -> _File:
    try:
        return _File.model_validate(tomllib.loads(path.read_text("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} is not TOML: {exc}") from exc
    except ValidationError as exc:
        raise ConfigError(f"{path}: {_problem(exc)}") from exc


def _problem(error: ValidationError) -> str:
    """What is wrong with a description: the first thing, by its key, and what would be right."""
    # A misspelt key is also a missing one: the misspelling is what helps.
    first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    *parents, last = first["loc"]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        part = next((_PARTS[name] for name in reversed(parents) if name in _PARTS), _File)
        return f"unknown key {key!r}{_allowed(str(last), list(part.model_fields))}"
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return f"{key} can't be {first['input']!r}{_allowed(str(first['input']), choices)}"
    return f"{key}: {first['msg']}"


def _allowed(word: str, words: list[str]) -> str:
    """The end of a message about a word that is not one of these."""
    close = get_close_matches(word, words, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{hint}: there are {', '.join(words) or 'none'}"
