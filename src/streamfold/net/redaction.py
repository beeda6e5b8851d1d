"""Removes secrets from whatever is shown: errors, logs, recordings, tracebacks. The only place that does.

A server may echo a secret as it is, written with JSON escapes (also twice), in a URL, in HTML or in base64, and in
pieces over several events. A `Redactor` finds all of these.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from html.entities import codepoint2name
from itertools import accumulate
from typing import Any, TypeVar

from .secrets import KEY_PATTERNS, holds_secret, is_placeholder, key_pattern

T = TypeVar("T")
Span = tuple[int, int]

HIDDEN = "***"
_SHORTEST = 4  # characters; a shorter text stands in too many others
_SHORTEST_BASE64 = 6  # a shorter one is encoded in less than eight characters
_DEEPEST = 100  # levels of a JSON value; deeper ones are hidden as a whole
_ESCAPES = re.compile(r"[\\%&+]")


class Redactor:
    """Replaces secrets by `***`. Its repr does not show them.

    Args:
        secrets: the texts to remove. Those of less than four characters are ignored, and plain words of up to eight
            letters or digits are removed only as whole words: they stand in too many other texts.
        guess: also remove texts that look like a key, and members of JSON objects that are named like one.
    """

    def __init__(self, secrets: Iterable[str] = (), *, guess: bool = False) -> None:
        self._given = tuple(secrets)
        self._guess = guess

    def __repr__(self) -> str:
        return "<Redactor>"

    def with_secrets(self, secrets: Iterable[str], *, guess: bool = False) -> Redactor:
        """Returns a redactor that removes these secrets too."""
        return Redactor((*self._given, *secrets), guess=guess or self._guess)

    def spans(self, text: str) -> list[Span]:
        """Returns where secrets are in a text, in order. Overlapping ones are one."""
        escaped = _ESCAPES.search(text) is not None
        found = [span for plain, pattern in self._secrets for span in _found(text, plain, pattern(), escaped)]
        if self._guess:
            for start in KEY_PATTERNS:
                if start in text:
                    pattern = key_pattern(start)
                    found += [match.span("key" if pattern.groups else 0) for match in pattern.finditer(text)]
        return _joined(found)

    def text(self, text: str) -> str:
        """Returns the text without secrets."""
        for start, end in reversed(self.spans(text)):
            text = text[:start] + HIDDEN + text[end:]
        return text

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Returns texts that continue each other without the secrets in them, also those that are cut by their ends."""
        spans = self.spans("".join(texts))
        if not spans:
            return list(texts)
        starts = accumulate(map(len, texts), initial=0)
        return [_without(text, start, spans) for text, start in zip(texts, starts, strict=False)]

    def value(self, value: T) -> T:
        """Returns a value without secrets: a text, bytes, a JSON value, or a dataclass of them."""
        cleaned: T = self._value(value, 0)
        return cleaned

    def _value(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            return HIDDEN
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self.text(value.decode("latin-1")).encode("latin-1") if value else value
            case list() | tuple():
                return type(value)(self._value(item, depth + 1) for item in value)
            case dict():
                return {self._value(key, depth + 1): self._member(key, item, depth) for key, item in value.items()}
            case _ if is_dataclass(value) and not isinstance(value, type):  # a partial reply, and its parts
                parts = {part.name: self._value(getattr(value, part.name), depth + 1) for part in fields(value)}
                return replace(value, **parts)
            case _:
                return value

    def _member(self, key: Any, item: Any, depth: int) -> Any:
        if self._guess and isinstance(key, str) and holds_secret(key, item):
            return HIDDEN
        return self._value(item, depth + 1)

    @cached_property
    def _secrets(self) -> list[tuple[str, Callable[[], re.Pattern[str]]]]:
        """The texts to look for, the longest first, each with its pattern, which is compiled when it is needed."""
        known = {secret for secret in self._given if len(secret) >= _SHORTEST}
        for secret in list(known):
            data = secret.encode("utf-8", "replace")
            known.add(data.decode("latin-1"))  # as it is in bytes that are read as Latin-1
            if len(secret) >= _SHORTEST_BASE64 and not is_placeholder(secret):
                known |= {encode(data).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode)}
        compiled: dict[str, re.Pattern[str]] = {}

        def pattern(secret: str) -> re.Pattern[str]:
            if secret not in compiled:
                compiled[secret] = re.compile(_spelled(secret))
            return compiled[secret]

        ordered = sorted(known, key=lambda text: (-len(text), text))
        return [(secret, lambda secret=secret: pattern(secret)) for secret in ordered]  # type: ignore[misc]


# --- Spellings -------------------------------------------------------------------------------------------------------


def _found(text: str, plain: str, pattern: re.Pattern[str], escaped: bool) -> list[Span]:
    if not escaped and plain not in text:
        return []
    return [match.span() for match in pattern.finditer(text)]


def _spelled(secret: str) -> str:
    """Returns a pattern for a secret in all its spellings."""
    pattern = "".join(f"(?:{'|'.join(_ways(char))})" for char in secret)
    return rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])" if is_placeholder(secret) else pattern


def _ways(char: str) -> Iterator[str]:
    """Yields patterns for the ways to write a character: in JSON, in a URL, in HTML, as it is.

    The character itself is last, because `%` and `&` are also how their own spellings begin.
    """
    if char in "\"'\\/":
        yield rf"\\+{re.escape(char)}"  # escaped, perhaps more than once
    units = char.encode("utf-16-be", "surrogatepass").hex()
    yield "".join(rf"\\+u{_any_case(units[at : at + 4])}" for at in range(0, len(units), 4))
    if not char.isalnum():
        yield "".join(f"%{_any_case(f'{byte:02x}')}" for byte in char.encode("utf-8", "surrogatepass"))
        code = ord(char)
        names = [codepoint2name[code]] if code in codepoint2name else []
        yield f"&(?:#0*{code}|#[xX]0*{_any_case(f'{code:x}')}{''.join(f'|{name}' for name in names)});"
    if char == " ":
        yield r"\+"
    yield re.escape(char)


def _any_case(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _without(text: str, start: int, spans: Sequence[Span]) -> str:
    """Returns a piece, which begins at `start`, without the spans; `***` is where a span begins."""
    for first, last in reversed(spans):
        if first < start + len(text) and last > start:
            hidden = HIDDEN if first >= start else ""
            text = text[: max(first - start, 0)] + hidden + text[max(last - start, 0) :]
    return text
