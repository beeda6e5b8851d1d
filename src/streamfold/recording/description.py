"""The description of a recording, `<case>.toml`: its keys, and how it is read and written.

Descriptions are often written by hand, so unknown keys are errors: a misspelt expectation would always hold.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError

from ..config import StrictTable, read_table, toml_path, validation_errors
from ..values import ConfigError, FinishReason, WarningCode

T = TypeVar("T")

_CUTS_PER_LINE = 8

_Error: TypeAlias = Literal[
    "IncompleteStreamError", "UpstreamError", "ProtocolError", "EmptyResponseError",
    "ContextLengthError", "ContentFilterError", "UnsupportedOptionError", "ModelNotFoundError",
]  # fmt: skip


class _ExpectedCall(StrictTable):
    name: str
    arguments: str | dict[str, Any]  # the model's text, or what it means
    id: str | None = None


class _ExpectedUsage(StrictTable):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Expected(StrictTable):
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    finish_reason: FinishReason | None = None
    raw_finish_reason: str | None = None
    calls: list[_ExpectedCall] = Field(default=[])
    usage: _ExpectedUsage | None = None
    warnings: list[WarningCode] = Field(default=[])
    error: _Error | None = None
    message: str | None = None  # of the error


def _read_expected(value: Any) -> dict[str, Any]:
    return _Expected.model_validate(value).model_dump(exclude_unset=True)


def _as_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


Status = Annotated[int, Field(ge=100, le=599)]
Day = Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^(\d{4}-\d\d(-\d\d)?)?$")]
Expected = Annotated[Mapping[str, Any], PlainValidator(_read_expected)]


def read_description(path: Path, content: bytes | None, kind: type[T], **given: Any) -> T:
    """Reads a value of which a file has all fields but the given ones. None stands for a file that is not there.

    Raises:
        ConfigError: with the file, the key and what is allowed.
    """
    try:
        read: T = read_table(kind, tomllib.loads((content or b"").decode()), **given)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} is not TOML: {exc}") from exc
    except ValidationError as exc:
        key, text = validation_errors(exc)[0]
        raise ConfigError(f"{path}: {toml_path(key)}: {text}") from exc
    return read


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
