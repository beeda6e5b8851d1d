"""Reads the rows of a job from JSON lines, lines for OpenAI's Batch API, a Parquet file, or an iterable of mappings."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from streamfold import ChatOptions, ConfigError, Cost, Reply, ToolChoice
from streamfold.config import allowed_values_hint
from streamfold.serving import parse_chat_request as parse_chat
from streamfold.serving import parse_responses_request as parse_responses
from streamfold.types import ChatParams

from .answers import Answer, reply_members, row_members

ROW_MEMBERS = ("id", "prompt", "messages", "system", "model", "options", "tools", "tool_choice")
"""The fields that a row may have."""
_BODIES = {"/v1/chat/completions": parse_chat, "/v1/responses": parse_responses}
_CONVERSATION = ("prompt", "messages", "body")
_HALF = re.compile("[\ud800-\udfff]")  # half a surrogate pair


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a job, which is one request to the model.

    Attributes:
        number: the position of the row in the job, from 0.
        id: the `id` of the row as the caller wrote it; by default its number.
        options: options as for `chat_stream`, including the model.
    """

    number: int
    id: str
    messages: Any
    tools: Any = None
    tool_choice: ToolChoice = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, number: int, value: Any) -> Row:
        """Validates an unparsed row. Raises ConfigError if the row is invalid."""
        if not isinstance(value, Mapping):
            raise ConfigError(f"a row must be an object, not {type(value).__name__}")
        if "body" in value:
            return _batch_line(number, value)
        if unknown := next((name for name in value if name not in ROW_MEMBERS), None):
            if unknown in ChatOptions.__annotations__:
                raise ConfigError(f'{unknown!r} is an option: write "options": {{"{unknown}": ...}}')
            raise ConfigError(f"unknown key {unknown!r}{allowed_values_hint(unknown, ROW_MEMBERS)}")
        if value.get("messages") is not None and value.get("prompt") is not None:
            raise ConfigError("prompt and messages can't be combined in a row")
        messages = value.get("messages") if value.get("messages") is not None else value.get("prompt")
        if not isinstance(messages, str | list | tuple):
            raise ConfigError("prompt (a string) or messages (a list) is missing")
        if system := value.get("system"):
            own = [{"role": "user", "content": messages}] if isinstance(messages, str) else [*messages]
            messages = [{"role": "system", "content": system}, *own]
        options = value.get("options") or {}
        if not isinstance(options, Mapping):
            raise ConfigError(f"options: must be an object, not {type(options).__name__}")
        chosen = {"model": value["model"]} if value.get("model") else {}
        return cls(
            number,
            row_id(number, value),
            messages,
            value.get("tools"),
            value.get("tool_choice") or "auto",
            {**options, **chosen},
        )

    def answer(
        self,
        reply: Reply,
        cost: Cost | None,
        tries: int,
        seconds: float,
        check: Callable[[Reply], str | None] | None,
    ) -> Answer:
        """Returns the answer for a reply, or an error if the function `check` rejects the reply."""
        wrong = check(reply) if check else None
        members = reply_members(reply, cost)
        if wrong is None:
            return Answer(self.id, self.number, members, None, tries, seconds)
        error = {"type": "CheckFailed", "message": wrong, "reply": members}
        return Answer(self.id, self.number, None, error, tries, seconds)


def row_id(number: int, value: Any) -> str:
    """Returns the id of a row: its `id` or `custom_id`, or its number. Raises ConfigError if the id is neither a string
    nor an integer.
    """
    for name in ("id", "custom_id"):
        found = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(found, bool) or not isinstance(found, str | int | None):
            raise ConfigError(f"{name}: must be a string or a whole number, not {type(found).__name__}")
        if isinstance(found, str) and _HALF.search(found):
            raise ConfigError(f"{name}: {found!r} contains an unpaired surrogate, which can't be written to a file")
        if found is not None:
            return str(found)
    return str(number)


def _batch_line(number: int, value: Mapping[str, Any]) -> Row:
    url, body = value.get("url", "/v1/chat/completions"), value["body"]
    if url not in _BODIES:
        raise ConfigError(f"url: can't be {url!r}. Allowed: {', '.join(_BODIES)}")
    if not isinstance(body, Mapping):
        raise ConfigError(f"body: must be an object, not {type(body).__name__}")
    request = _BODIES[url]({name: member for name, member in body.items() if name not in ("stream", "stream_options")})
    options: dict[str, Any] = dict(ChatParams(request).given())
    return Row(number, row_id(number, value), request.messages, request.tools, request.tool_choice, options)


class Rows:
    """The rows of a job. For rows in a file, each iteration reads the file again, so that only one row at a time is in
    memory.

    Args:
        source: a file (`.jsonl`, `.ndjson` or `.parquet`), or mappings, which this class keeps in memory. JSON lines
            may have the format of OpenAI's Batch API.

    Raises:
        ConfigError: the file name has another extension.
        OSError: the file doesn't exist.
    """

    def __init__(self, source: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> None:
        self._kept: list[Mapping[str, Any]] = []
        self._path: Path | None = None
        self._in_columns = False
        if isinstance(source, str | os.PathLike):
            self._path = Path(source)
            check_file_type(self._path, "rows are read from")
            self._path.stat()
            self._in_columns = self._path.suffix == ".parquet"
        else:
            self._kept = list(source)

    def __iter__(self) -> Iterator[bytes | Mapping[str, Any]]:
        """Yields the unparsed rows: non-blank lines of a file, or mappings."""
        if self._path is None:
            yield from self._kept
        elif self._in_columns:
            yield from _parquet(self._path)
        else:
            with self._path.open("rb") as file:
                if file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    raise ConfigError(f"{self._path}: this file is UTF-16, but must be UTF-8")
                yield from (line for line in file if not line.isspace())

    def select(self, numbers: Container[int]) -> Iterator[tuple[int, bytes | Mapping[str, Any]]]:
        """Yields the number of each selected row and the unparsed row."""
        return ((number, raw) for number, raw in enumerate(self) if number in numbers)

    def parse(self, number: int, raw: bytes | Mapping[str, Any]) -> Row:
        """Parses a row. Raises ConfigError if the row is invalid; the message begins with its position."""
        try:
            value = _value(raw)
            return Row.read(number, row_members(value) if self._in_columns else value)
        except ConfigError as error:
            raise ConfigError(f"{self.place(number)}: {error}") from None

    def name(self, number: int, raw: bytes | Mapping[str, Any]) -> str:
        """Returns the id of a row; its number if the row has no valid id."""
        value = _value_or_none(raw)
        return (value is not None and _name(number, value)) or str(number)

    def place(self, number: int) -> str:
        """Returns the position of a row for error messages: `rows.jsonl, row 3`."""
        return f"{self._path.name}, row {number + 1}" if self._path else f"row {number + 1}"

    def digest(self) -> str:
        """Returns a hash of all rows."""
        if self._path is not None:
            with self._path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        found = hashlib.sha256()
        for row in self._kept:
            found.update(json.dumps(row, sort_keys=True, default=repr).encode() + b"\n")
        return found.hexdigest()

    def check(self) -> int:
        """Returns the number of rows. Raises an error for mistakes that must stop the job before it sends anything.

        An invalid row doesn't stop the job. When the job reaches the row, the job records an error as the row's answer.

        Raises:
            ConfigError: two rows have the same id, or no row has a prompt or messages.
        """
        names, count, found = _DuplicateIds(), 0, False
        for count, value in enumerate(map(_value_or_none, self), 1):
            if value is None:
                continue
            found = found or any(value.get(member) is not None for member in _CONVERSATION)
            if (name := _name(count - 1, value)) is not None:
                names.add(name)
        if again := names.repeated():
            places: dict[str, int] = {}
            for number, value in enumerate(map(_value_or_none, self)):
                name = None if value is None else _name(number, value)
                if name is not None and hash(name) in again and (first := places.setdefault(name, number)) != number:
                    raise ConfigError(f"{self.place(number)}: the id {name!r} is also the id of row {first + 1}")
        if count and not found:
            raise ConfigError(
                f"{self._path or 'the rows'}: no row has a prompt. Each row needs one of: {', '.join(_CONVERSATION)}"
            )
        return count

    def models(self) -> set[str | None]:
        """Returns all model names in the rows, and None if a row has no model name."""
        found: set[str | None] = set()
        for value in filter(None, map(_value_or_none, self)):
            body, options = value.get("body"), value.get("options")
            places = [part for part in (value, body, options) if isinstance(part, Mapping)]
            named = [name for part in places if isinstance(name := part.get("model"), str) and name]
            found.add(named[0] if named else None)
        return found


class _DuplicateIds:
    """Finds duplicate row ids. It needs eight bytes of memory for each id."""

    def __init__(self) -> None:
        self._hashes = [array("q") for _ in range(256)]  # 256 arrays, so that sorting one of them needs little memory

    def add(self, name: str) -> None:
        found = hash(name)
        self._hashes[found & 255].append(found)

    def repeated(self) -> set[int]:
        full = (part for part in self._hashes if len(set(part)) < len(part))
        return {found for part in full for found, times in Counter(part).items() if times > 1}


def _name(number: int, value: Mapping[str, Any]) -> str | None:
    try:
        return row_id(number, value)
    except ConfigError:
        return None


def _value_or_none(raw: bytes | Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the fields of a row; None if the row is invalid. `Rows.parse` raises the error when the job reaches the
    row.
    """
    try:
        if isinstance(raw, bytes) and isinstance(value := from_json(raw), dict):
            return value
    except ValueError:
        pass  # `json` accepts more than `from_json`
    try:
        return _value(raw)
    except ConfigError:
        return None


def _value(raw: bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(raw, bytes):
        return raw
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"a row must be an object, not {type(value).__name__}")
    return value


def check_file_type(path: Path, purpose: str) -> None:
    """Raises ConfigError for a file that is neither JSON lines nor Parquet, or for a Parquet file if pyarrow isn't
    installed.
    """
    if path.suffix not in (".jsonl", ".ndjson", ".parquet"):
        raise ConfigError(f"{path}: {purpose} .jsonl, .ndjson and .parquet files")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ConfigError(f'{path}: Parquet needs pyarrow: pip install "streamfold-jobs[parquet]"')


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    from pyarrow import ArrowException, parquet

    try:
        # Without `buffer_size`, pyarrow reads whole row groups, and a file may have only one.
        with parquet.ParquetFile(path, buffer_size=1 << 20) as file:
            if not set(file.schema_arrow.names) & set(_CONVERSATION):
                raise ConfigError(f"{path}: there is no column named {' or '.join(_CONVERSATION)}")
            for batch in file.iter_batches(batch_size=1000):
                yield from batch.to_pylist()
    except ArrowException as error:
        raise ConfigError(f"{path}: can't be read as Parquet: {error}") from None
