"""The description of a recording, `<case>.toml`: its keys, and how it is read and written.

Descriptions are often written by hand, so unknown keys are errors: a misspelt expectation would always hold.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..values import ConfigError, FinishReason, WarningCode, nearest

__all__ = ["Description", "allowed", "as_toml", "check_writer", "read_description"]

_CUTS_PER_LINE = 8


_Error: TypeAlias = Literal[
    "IncompleteStreamError", "UpstreamError", "ProtocolError", "EmptyResponseError",
    "ContextLengthError", "ContentFilterError", "UnsupportedOptionError", "ModelNotFoundError",
]  # fmt: skip


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
    cache_write_tokens: int | None = None


class _Expected(_Strict):
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    finish_reason: FinishReason | None = None
    raw_finish_reason: str | None = None
    calls: list[_ExpectedCall] = []
    usage: _ExpectedUsage | None = None
    warnings: list[WarningCode] = []
    error: _Error | None = None
    message: str | None = None  # of the error


class SentRequest(_Strict):
    method: str = "POST"
    path: str
    body: str = ""


_Piece: TypeAlias = Annotated[tuple[Annotated[int, Field(gt=0)], Annotated[float, Field(ge=0)]], Field(strict=False)]


class Description(_Strict):
    """The keys of a description."""

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
    complete: bool = True
    ended: str = ""
    encoding: str = ""
    conversation: str = ""
    sent: SentRequest | None = None
    dialect: str = ""
    tools: Annotated[tuple[str, ...], Field(strict=False)] = ()
    tool_choice: str = "auto"
    expect: _Expected | None = None

    @field_validator("date", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime.date) else value


_PARTS: dict[str, type[BaseModel]] = {
    "expect": _Expected,
    "calls": _ExpectedCall,
    "usage": _ExpectedUsage,
    "sent": SentRequest,
}


def read_description(path: Path, content: bytes) -> Description:
    """Reads a description. Raises ConfigError with the file, the key and what is allowed."""
    try:
        return Description.model_validate(tomllib.loads(content.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} is not TOML: {exc}") from exc
    except ValidationError as exc:
        raise ConfigError(f"{path}: {_problem(exc)}") from exc


def _problem(error: ValidationError) -> str:
    """Describes the first problem of a description, with its key and the allowed values."""
    # A misspelt key is also a missing one: the misspelling is what helps.
    first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    *parents, last = first["loc"]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        part = next((_PARTS[name] for name in reversed(parents) if name in _PARTS), Description)
        return f"unknown key {key!r}{allowed(str(last), list(part.model_fields))}"
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return f"{key} can't be {first['input']!r}{allowed(str(first['input']), choices)}"
    return f"{key}: {first['msg']}"


def allowed(word: str, words: list[str], label: str = "Allowed") -> str:
    """Returns the end of a message about a word that is not one of these."""
    return f"{nearest(word, words)}. {label}: {', '.join(words) or 'none'}"


# --- Writing ---------------------------------------------------------------------------------------------------------


def check_writer() -> None:
    """Raises ConfigError if the package that writes TOML is not installed."""
    if find_spec("tomli_w") is None:
        raise ConfigError("saving recordings needs the extra: pip install 'streamfold[testing]'")


def as_toml(values: Mapping[str, Any]) -> str:
    """Returns a description as TOML: scalars, then cuts with several to a line, then tables.

    >>> print(as_toml({"source": "recorded", "expect": {"text": "Hi", "calls": [{"name": "f"}]}}), end="")
    source = "recorded"
    <BLANKLINE>
    [expect]
    text = "Hi"
    calls = [
        { name = "f" },
    ]

    Raises:
        ConfigError: the package that writes TOML is not installed.
    """
    check_writer()
    import tomli_w

    lines = "\\r" not in repr(values)  # it would normalise line ends inside of several lines
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    scalars = {key: value for key, value in values.items() if key not in tables and key != "cuts"}
    text = tomli_w.dumps(scalars, multiline_strings=lines)
    if values.get("cuts"):
        cuts = [f"[{size}, {delay!r}]" for size, delay in values["cuts"]]
        rows = [", ".join(cuts[start : start + _CUTS_PER_LINE]) for start in range(0, len(cuts), _CUTS_PER_LINE)]
        text += "\n".join(["cuts = [ # bytes, seconds", *(f"    {row}," for row in rows), "]\n"])
    return f"{text}\n{tomli_w.dumps(tables, multiline_strings=lines)}" if tables else text
