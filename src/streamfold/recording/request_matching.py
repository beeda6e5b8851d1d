"""Recorded requests, and functions that compare a new request with a recorded request.

Secrets are removed from both requests before the comparison. `***` in a recorded text matches any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx

from ..errors import ConfigError
from ..net import HIDDEN, Redactor, is_placeholder, secrets_in_headers, secrets_in_json
from .recording import SentExchange, parse_json, requested_model

# Headers that a client library sends by itself.
_HARMLESS = {"user-agent", "traceparent", "tracestate", "anthropic-version", "anthropic-beta", "openai-beta"}
_SECRET_QUERY = re.compile("auth|key|token(?!s)|secret|session|password|sig", re.IGNORECASE)
_WIDEST = 160  # characters of a line in the diff
_HEAD = 24  # characters of the line's beginning, which is the name of the JSON field


class ReplayMismatch(ConfigError):
    """A request differs from the recorded request.

    Attributes:
        diff: the difference between the two requests. If the bodies differ, `diff` is a unified diff of the bodies.
    """

    def __init__(self, message: str, diff: str) -> None:
        super().__init__(message)
        self.diff = diff


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request to compare with another request, or to record. Headers aren't compared.

    Attributes:
        path: the URL's path and query.
        redactor: removes the secrets of the provider that sends the request.
    """

    method: str
    path: str
    body: bytes = field(repr=False)
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False, compare=False)
    redactor: Redactor = field(default_factory=Redactor, repr=False, compare=False)

    @classmethod
    def of(cls, request: httpx.Request) -> RecordedRequest:
        """Converts an httpx request whose body was read to a `RecordedRequest`."""
        path, headers = request.url.raw_path.decode("ascii"), list(request.headers.multi_items())
        if request.url.password:
            headers.append(("password", unquote(request.url.password)))
        redactor = request.extensions.get("streamfold.redactor", Redactor())
        return cls(request.method, path, request.content, headers, redactor)

    @property
    def json(self) -> Any:
        """The body as parsed JSON, or None if the body isn't JSON."""
        return parse_json(self.body)

    @property
    def model(self) -> str | None:
        """The requested model."""
        return requested_model(self.path, self.json)

    def secrets(self) -> list[str]:
        """Returns the texts in headers, URL and body that may be API keys. Leaves out placeholders such as "test"."""
        headers = [(name, value) for name, value in self.headers if name.lower() not in _HARMLESS]
        query = [(name, value) for name, value in parse_qsl(urlsplit(self.path).query) if _SECRET_QUERY.search(name)]
        found = [*secrets_in_headers([*headers, *query]), *secrets_in_json(self.json)]
        return [secret for secret in found if not is_placeholder(secret)]

    def sent(self, redactor: Redactor) -> SentExchange:
        """Returns the request for a recording, without secrets. A compressed or binary body is left out."""
        coding = next((value for name, value in self.headers if name.lower() == "content-encoding"), "identity")
        text = ""
        if coding == "identity" and (value := self.json) is not None:
            value = redactor.value(value)
            text = json.dumps(value, indent=2, ensure_ascii=False)
            try:
                text.encode()
            except UnicodeEncodeError:  # the text contains half of a surrogate pair
                text = json.dumps(value, indent=2)
        elif coding == "identity":
            with suppress(UnicodeDecodeError):
                text = redactor.text(self.body.decode())
        return SentExchange(self.method, redactor.text(self.path), text)


def diff_requests(recorded: SentExchange, request: RecordedRequest, ignore: Sequence[re.Pattern[str]] = ()) -> str:
    """Returns the difference between a new request and a recorded request, or "" if they are equal.

    Only the last part of the URL's path is compared, because servers may have different base URLs.

    Args:
        ignore: patterns for texts that may differ, such as a date.
    """
    sent = request.sent(Redactor(request.secrets(), guess=True))
    for pattern in ignore:
        recorded = replace(recorded, body=pattern.sub(HIDDEN, recorded.body))
        sent = replace(sent, body=pattern.sub(HIDDEN, sent.body))
    paths = [each.path.partition("?")[0].rstrip("/").rpartition("/")[2] for each in (recorded, sent)]
    before, after = f"{recorded.method} .../{paths[0]}", f"{sent.method} .../{paths[1]}"
    if before != after:
        return f"the recorded request was {before}, but {after} was sent"
    values = parse_json(recorded.body), parse_json(sent.body)
    if None in values:
        lines = recorded.body.splitlines(), str(_apply_wildcards(recorded.body, sent.body)).splitlines()
    else:
        lines = _lines(values[0]), _lines(_apply_wildcards(*values))
    return "\n".join(_shortened_lines(list(unified_diff(*lines, "recorded", "sent", lineterm="", n=2))))


def read_patterns(patterns: Iterable[str | re.Pattern[str]]) -> list[re.Pattern[str]]:
    """Compiles regular expressions. Raises ConfigError for an invalid expression."""
    try:
        return [re.compile(pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns)]
    except (re.error, TypeError) as exc:
        raise ConfigError(f"ignore: not a regular expression: {exc}") from exc


def _apply_wildcards(recorded: Any, sent: Any) -> Any:
    """Replaces a sent text with the recorded text if the two differ only where the recorded text contains `***`."""
    match recorded, sent:
        case str(), str() if HIDDEN in recorded:
            return recorded if _fits(recorded.split(HIDDEN), sent) else sent
        case dict(), dict():
            return {key: _apply_wildcards(recorded.get(key), value) for key, value in sent.items()}
        case list(), list():
            padded = [*recorded, *[None] * len(sent)]
            return [_apply_wildcards(was, value) for was, value in zip(padded, sent, strict=False)]
        case _:
            return sent


def _fits(parts: list[str], text: str) -> bool:
    first, *middle, last = parts
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def _shortened_lines(lines: list[str]) -> list[str]:
    changes = [0] * len(lines)
    for start in range(len(lines)):
        if lines[start][:1] == "-" and lines[max(start - 1, 0)][:1] != "-":
            signs = [line[:1] for line in lines[start:]]
            old = next((at for at, sign in enumerate(signs) if sign != "-"), len(signs))
            new = next((at for at, sign in enumerate(signs[old:]) if sign != "+"), len(signs) - old)
            for at in range(min(old, new)):
                was, now = start + at, start + old + at
                changes[was] = changes[now] = _first_difference(lines[was], lines[now])
    return [_cut(line, at) for line, at in zip(lines, changes, strict=True)]


def _first_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one[1:], other[1:], strict=False), 1)
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _cut(line: str, at: int) -> str:
    if len(line) <= _WIDEST:
        return line
    room = _WIDEST - _HEAD
    start = min(max(at - room // 2, 0), len(line) - room)
    if start <= _HEAD:
        return f"{line[:_WIDEST]}... ({len(line)} characters)"
    rest = "..." if start + room < len(line) else ""
    return f"{line[:_HEAD]} ... {line[start : start + room]}{rest} ({len(line)} characters)"
