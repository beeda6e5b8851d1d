"""What a description may say: the keys of `<case>.toml`, and what they look like written down.

It is written by hand as often as by a program, so a key that nobody knows is refused: a misspelt expectation would
otherwise be one that always holds.
"""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ...values import ConfigError, FinishReason, WarningCode, nearest

__all__ = ["Description", "allowed", "as_toml", "read_description"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CUTS_PER_LINE = 8


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


class SentRequest(_Strict):
    method: str = "POST"
    path: str
    body: str = ""


_Piece: TypeAlias = Annotated[tuple[Annotated[int, Field(gt=0)], Annotated[float, Field(ge=0)]], Field(strict=False)]


class Description(_Strict):
    """A description as it is written."""

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


def read_description(path: Path) -> Description:
    """The description in a file. Raises ConfigError with the file, the key and what is allowed."""
    try:
        return Description.model_validate(tomllib.loads(path.read_text("utf-8")))
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
        part = next((_PARTS[name] for name in reversed(parents) if name in _PARTS), Description)
        return f"unknown key {key!r}{allowed(str(last), list(part.model_fields))}"
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return f"{key} can't be {first['input']!r}{allowed(str(first['input']), choices)}"
    return f"{key}: {first['msg']}"


def allowed(word: str, words: list[str]) -> str:
    """The end of a message about a word that is not one of these."""
    return f"{nearest(word, words)}: there are {', '.join(words) or 'none'}"


# --- Writing ---------------------------------------------------------------------------------------------------------


def as_toml(values: Mapping[str, Any]) -> str:
    """These values as TOML: scalars and cuts first, then tables, then lists of tables.

    >>> print(as_toml({"source": "recorded", "expect": {"text": "Hi", "calls": [{"name": "f"}]}}), end="")
    source = "recorded"
    <BLANKLINE>
    [expect]
    text = "Hi"
    <BLANKLINE>
    [[expect.calls]]
    name = "f"
    """
    return "\n".join(_lines(values, ())).strip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterable[str]:
    inner: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, Mapping) or (isinstance(value, list) and value and isinstance(value[0], Mapping)):
            inner.append((key, value))
        else:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner:
        here = (*path, key)
        several = not isinstance(value, Mapping)
        for one in value if several else [value]:
            name = ".".join(map(_key, here))
            yield ""
            yield f"[[{name}]]" if several else f"[{name}]"
            yield from _lines(one, here)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _quoted(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _text(value)
        case [[_, _], *_]:
            cuts = [f"[{size}, {delay!r}]" for size, delay in value]
            rows = [cuts[start : start + _CUTS_PER_LINE] for start in range(0, len(cuts), _CUTS_PER_LINE)]
            return "\n".join(["[ # bytes, seconds", *(f"    {', '.join(row)}," for row in rows), "]"])
        case _:
            return f"[{', '.join(map(_value, value))}]"


def _text(text: str) -> str:
    """Lines as lines where TOML can hold them so, for people to read."""
    odd = re.search(r"[^\n\t\x20-\x7e\x80-\uffff\U00010000-\U0010ffff]", text)
    if "\n" in text and not odd and "'''" not in text and not text.endswith("'"):
        return f"'''\n{text}'''"
    return _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
