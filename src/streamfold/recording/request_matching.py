"""Requests as they are sent, and as they are recorded: without secrets, and comparable.

Secrets are removed from both sides before they are compared. `***` in a recorded text stands for anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx

from ..errors import ConfigError
from ..net import HIDDEN, Redactor, is_placeholder, secrets_in_headers, secrets_in_json
from .recording import SentExchange

# Headers that a client library sends by itself.
_HARMLESS = {"user-agent", "traceparent", "tracestate", "anthropic-version", "anthropic-beta", "openai-beta"}
_SECRET_QUERY = re.compile("auth|key|token(?!s)|secret|session|password|sig", re.IGNORECASE)
_MODEL_IN_PATH = re.compile(r"/models/(.+):\w+$")
_WIDEST = 160  # characters of a line of a difference


class ReplayMismatch(ConfigError):
    """A request is not the one that was recorded.

    Attributes:
        diff: the difference, as a unified diff of the two bodies if they differ.
    """

    def __init__(self, message: str, diff: str) -> None:
        super().__init__(message)
        self.diff = diff


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request. Two are equal if they ask for the same; headers are not compared.

    Attributes:
        path: with its query, as it is sent.
        redactor: what the provider that sends it knows to be secret.
    """

    method: str
    path: str
    body: bytes = field(repr=False)
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False, compare=False)
    redactor: Redactor = field(default_factory=Redactor, repr=False, compare=False)

    @classmethod
    def of(cls, request: httpx.Request) -> RecordedRequest:
        """The request, whose body has been read."""
        path, headers = request.url.raw_path.decode("ascii"), list(request.headers.multi_items())
        if request.url.password:
            headers.append(("password", unquote(request.url.password)))
        redactor = request.extensions.get("streamfold.redactor", Redactor())
        return cls(request.method, path, request.content, headers, redactor)

    @property
    def json(self) -> Any:
        """The body; None if it is not JSON."""
        return _parsed(self.body)

    @property
    def model(self) -> str | None:
        """The model that it asks for: in the body, or in the path of Gemini's API."""
        return requested_model(self.path, self.json)

    def secrets(self) -> list[str]:
        """Returns what it may send as a key: in headers, URL and body. Placeholders are none."""
        headers = [(name, value) for name, value in self.headers if name.lower() not in _HARMLESS]
        query = [(name, value) for name, value in parse_qsl(urlsplit(self.path).query) if _SECRET_QUERY.search(name)]
        found = [*secrets_in_headers([*headers, *query]), *secrets_in_json(self.json)]
        return [secret for secret in found if not is_placeholder(secret)]

    def sent(self, redactor: Redactor) -> SentExchange:
        """Returns the request as it is recorded. A body that is compressed or not text is left out."""
        return SentExchange(self.method, redactor.text(self.path), self._text(redactor))

    def _text(self, redactor: Redactor) -> str:
        coding = next((value for name, value in self.headers if name.lower() == "content-encoding"), "identity")
        asked = self.json
        if coding != "identity":
            return ""
        if asked is not None:
            return _shown(redactor.value(asked))
        try:
            return redactor.text(self.body.decode())
        except UnicodeDecodeError:
            return ""


def requested_model(path: str, body: Any) -> str | None:
    """Returns the model of a request: the one in its body, or in its path (Gemini, Vertex AI)."""
    model = body.get("model") if isinstance(body, dict) else None
    if isinstance(model, str):
        return model
    found = _MODEL_IN_PATH.search(unquote(urlsplit(path).path))
    return found[1] if found else None


def diff_requests(recorded: SentExchange, request: RecordedRequest, ignore: Sequence[re.Pattern[str]] = ()) -> str:
    """Returns how a request differs from the recorded one; empty if it asks for the same.

    The addresses of two servers may differ, so only the last part of the path counts.

    Args:
        ignore: text that matches one of these, such as a date, may differ.
    """
    sent = request.sent(Redactor(request.secrets(), guess=True))
    for pattern in ignore:
        recorded = replace(recorded, body=pattern.sub(HIDDEN, recorded.body))
        sent = replace(sent, body=pattern.sub(HIDDEN, sent.body))
    before, after = (f"{each.method} .../{_last_part(each.path)}" for each in (recorded, sent))
    if before != after:
        return f"recorded was {before}, sent was {after}"
    values = _parsed(recorded.body), _parsed(sent.body)
    if None in values:
        lines = recorded.body.splitlines(), str(_apply_wildcards(recorded.body, sent.body)).splitlines()
    else:
        lines = _lines(values[0]), _lines(_apply_wildcards(*values))
    return "\n".join(map(_narrow, unified_diff(*lines, "recorded", "sent", lineterm="", n=2)))


def read_patterns(patterns: Iterable[str | re.Pattern[str]]) -> list[re.Pattern[str]]:
    """Compiles regular expressions. Raises ConfigError for a text that is not one."""
    try:
        return [re.compile(pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns)]
    except (re.error, TypeError) as exc:
        raise ConfigError(f"ignore: not a regular expression: {exc}") from exc


def _apply_wildcards(recorded: Any, sent: Any) -> Any:
    """Returns the sent value with the recorded text wherever its `***` may stand for the sent one."""
    match recorded, sent:
        case str(), str() if HIDDEN in recorded:
            return recorded if _fits(recorded.split(HIDDEN), sent) else sent
        case dict(), dict():
            return {key: _apply_wildcards(recorded.get(key), value) for key, value in sent.items()}
        case list(), list():
            return [
                _apply_wildcards(was, value) for was, value in zip(_padded(recorded, len(sent)), sent, strict=False)
            ]
        case _:
            return sent


def _fits(parts: list[str], text: str) -> bool:
    """Whether a text consists of these parts in their order, with anything between them."""
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


def _padded(items: list[Any], size: int) -> Iterable[Any]:
    return [*items, *[None] * (size - len(items))]


def _parsed(body: str | bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _shown(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, written as an escape
        return json.dumps(value, indent=2)
    return text


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def _narrow(line: str) -> str:
    return line if len(line) <= _WIDEST else f"{line[:_WIDEST]}... ({len(line)} characters)"


def _last_part(path: str) -> str:
    return path.partition("?")[0].rstrip("/").rpartition("/")[2]
