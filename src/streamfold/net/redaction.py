"""Finds secrets in texts, JSON values and event streams, and replaces them with `***`."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, cached_property, partial
from html.entities import codepoint2name
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from ..engine import event_ranges

_WORD = 8  # characters; a plain word up to this length is a placeholder such as EMPTY rather than a key

# Headers of the protocol, whose values aren't secrets.
_PROTOCOL = {
    "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-encoding",
    "content-length", "content-type", "host", "keep-alive", "te", "transfer-encoding", "x-amz-date",
}  # fmt: skip
_SECRET_MEMBER = re.compile(
    r"(?:proxy)?authorization|(?:x|access|private|secret)?(?:api)?key|(?:auth|access|refresh|bearer|id)token"
    r"|(?:client)?secret|password|(?:set)?cookie",
    re.IGNORECASE,
)
_SIGNED_WITH = re.compile(r"(?:Credential|Signature)=([^/,\s]+)")  # the parts of AWS's `Authorization` that AWS quotes


def is_placeholder(secret: str) -> bool:
    """Returns True for a secret that is a short word of letters or digits, such as "test".

    A short word is probably not a real secret, and occurs in other texts too.
    """
    return len(secret) <= _WORD and (secret.isalpha() or secret.isdigit())


def secrets_in_headers(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the values of all headers except protocol headers such as `content-type`. Each may be a secret.

    For a value such as `Bearer KEY`, the part after the scheme is also returned.
    """
    found: list[str] = []
    for name, value in headers:
        lower = name.lower()
        if lower in ("cookie", "set-cookie"):
            parts = value.split(";")[: 1 if lower == "set-cookie" else None]  # after the first `;` come attributes
            found += [part.partition("=")[2].strip() for part in parts]
        elif lower not in _PROTOCOL:
            found += [value.strip(), *value.split()[-1:], *_SIGNED_WITH.findall(value)]
    return _distinct(found)


def secrets_in_url(url: str) -> list[str]:
    """Returns the secrets that a URL may contain: its password and the values of its query, percent-encoded and
    decoded.
    """
    parts = urlsplit(url)
    found: list[str] = []
    userinfo = parts.netloc.rpartition("@")[0]
    if userinfo:
        found += [userinfo, unquote(userinfo), *(unquote(userinfo).split(":", 1)[1:] or [unquote(userinfo)])]
    for name, value in parse_qsl(parts.query):
        if "version" not in name.lower():  # as in Azure's api-version
            found.append(value)
    return _distinct(found)


def secrets_in_json(value: Any) -> list[str]:
    """Returns the strings in a JSON value whose field name suggests a secret, such as `api_key`."""
    match value:
        case list():
            return [secret for item in value for secret in secrets_in_json(item)]
        case dict():
            found = []
            for key, item in value.items():
                if holds_secret(key, item):
                    texts = [item] if isinstance(item, str) else [text for text in item.values() if type(text) is str]
                    found += [word for text in texts for word in text.split()[-1:]]
                else:
                    found += secrets_in_json(item)
            return found
        case _:
            return []


def holds_secret(name: str, value: Any) -> bool:
    """Returns True if the name of a JSON object's field, such as `api_key` or `headers`, suggests that its value is
    secret.
    """
    if name == "headers" and isinstance(value, dict):
        return all(isinstance(item, str) for item in value.values())
    plain = re.sub("[-_ ]", "", name)
    if plain.lower() == "key":  # often the key of a dictionary, not an API key
        return False
    return isinstance(value, str) and _SECRET_MEMBER.fullmatch(plain) is not None


def _distinct(found: Iterable[str]) -> list[str]:
    return [secret for secret in dict.fromkeys(found) if secret]


_STARTS = "sk pk rk gsk xai nvapi pplx hf tvly ghp gho ghu ghs ghr github_pat glpat xoxa xoxb xoxp xoxr xoxs"


def _patterns() -> Iterator[tuple[str, str]]:
    """Yields the prefixes of API keys, bearer tokens, JSON web tokens and cloud credentials, each with a regular
    expression for the entire secret.

    Each expression begins with literal letters, followed by a lookbehind and bounded lookaheads. Searching for
    expressions of another form takes a hundred times longer.
    """
    for start in [start + end for start in _STARTS.split() for end in "-_"]:
        yield start, _beginning(start) + r"(?=[\w-]{0,200}\d)[\w-]{16,}"
    for start in ("earer ", "EARER "):
        yield start, start + r"[ ]{0,8}(?P<key>(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{12,})"
    yield "eyJ", _beginning("eyJ") + r"[\w-]{8,2000}\.[\w-]{8,}(?:\.[\w-]+)?"
    yield "AKIA", _beginning("AKIA") + r"[0-9A-Z]{16}\b"
    yield "AIza", _beginning("AIza") + r"[\w-]{30,}"


def _beginning(start: str) -> str:
    """Returns a pattern for a prefix that isn't in the middle of a word. The prefix may follow an escaped line end such
    as `\\n`.
    """
    return rf"{start}(?:(?<![A-Za-z0-9_]{start})|(?<=\\[nrt]{start}))"


KEY_PATTERNS = dict(_patterns())


@cache
def key_pattern(start: str) -> re.Pattern[str]:
    """Returns the compiled pattern of API keys that have this prefix. A pattern is compiled when it is first needed,
    because compiling is slow.
    """
    return re.compile(KEY_PATTERNS[start], re.ASCII)


T = TypeVar("T")
Span = tuple[int, int]

HIDDEN = "***"
_SHORTEST = 4  # characters; a shorter text occurs in too many other texts
_SHORTEST_BASE64 = 6  # a shorter one is encoded in less than eight characters
_DEEPEST = 100  # levels of a JSON value; deeper values are replaced completely
_ESCAPES = re.compile(r"[\\%&+]")


class Redactor:
    """Replaces secrets in texts with `***`. Also finds secrets that are escaped in JSON, a URL or HTML, or encoded in
    base64.

    Args:
        secrets: the texts to remove. Secrets of less than four characters are ignored. Secrets of up to eight letters
            or digits are removed only where they are a separate word, because they may occur inside other words.
        guess: True to also remove texts that look like API keys, and the values of JSON fields such as `api_key`.
    """

    def __init__(self, secrets: Iterable[str] = (), *, guess: bool = False) -> None:
        self._given = tuple(secrets)
        self._guess = guess

    def __repr__(self) -> str:
        return "<Redactor>"

    def with_secrets(self, secrets: Iterable[str], *, guess: bool = False) -> Redactor:
        """Returns a copy of this redactor that removes additional secrets."""
        return Redactor((*self._given, *secrets), guess=guess or self._guess)

    def spans(self, text: str) -> list[Span]:
        """Returns the start and end positions of all secrets in a text, in order. Overlapping spans are joined."""
        escaped = _ESCAPES.search(text) is not None
        found = [
            match.span()
            for plain, pattern in self._secrets
            if escaped or plain in text
            for match in pattern().finditer(text)
        ]
        if self._guess:
            for start in KEY_PATTERNS:
                if start in text:
                    pattern = key_pattern(start)
                    found += [match.span("key" if pattern.groups else 0) for match in pattern.finditer(text)]
        return _joined(found)

    def text(self, text: str) -> str:
        """Returns the text with `***` in place of each secret."""
        for start, end in reversed(self.spans(text)):
            text = text[:start] + HIDDEN + text[end:]
        return text

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Removes secrets from consecutive texts. Also finds a secret that begins in one text and ends in a later
        text.
        """
        spans = self.spans("".join(texts))
        if not spans:
            return list(texts)
        starts = accumulate(map(len, texts), initial=0)
        return [_without(text, start, spans) for text, start in zip(texts, starts, strict=False)]

    def value(self, value: T) -> T:
        """Returns a copy of a string, bytes, JSON data, or a dataclass of such values, without secrets."""
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
        known = {secret for secret in self._given if len(secret) >= _SHORTEST}
        for secret in list(known):
            data = secret.encode("utf-8", "replace")
            known.add(data.decode("latin-1"))  # in bytes that are read as Latin-1
            if len(secret) >= _SHORTEST_BASE64 and not is_placeholder(secret):
                known |= {encode(data).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode)}
        ordered = sorted(known, key=lambda text: (-len(text), text))
        return [(secret, cache(partial(_compiled, secret))) for secret in ordered]


def _compiled(secret: str) -> re.Pattern[str]:
    pattern = "".join(f"(?:{'|'.join(_spellings(char))})" for char in secret)
    return re.compile(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])" if is_placeholder(secret) else pattern)


def _spellings(char: str) -> Iterator[str]:
    """Yields regular expressions for the spellings of a character in JSON, in a URL, in HTML, and unescaped.

    The unescaped character comes last, because some escaped spellings of `%` and `&` begin with the same character.
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
    for first, last in reversed(spans):
        if first < start + len(text) and last > start:
            hidden = HIDDEN if first >= start else ""
            text = text[: max(first - start, 0)] + hidden + text[max(last - start, 0) :]
    return text


# Several events may contain parts of one string, and so split a secret. So secrets are searched in the joined strings,
# whose positions in the bytes are known.

_PLACE = ("type", "item_id", "output_index", "content_index", "index")  # fields that identify the part of the answer
# A string, perhaps cut off at the end of the text, or a character that begins or ends another value.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_CUT_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{0,3})?\Z")


class Replacement(NamedTuple):
    """A replacement of the bytes of a body from `start` to `end` with the bytes `new`."""

    start: int
    end: int
    new: bytes


class _Piece(NamedTuple):
    """A string value in a JSON document.

    Attributes:
        place: the part of the answer that contains the string. Strings with the same place are pieces of one text. None
            if the document is truncated, so that the part is unknown.
        names: the path of field names that leads to the string, without list indexes.
        flags: the boolean fields of the object that contains the string, such as `thought` in a part of Gemini's API.
        start, end: the positions in the body at which the quoted string starts and ends.
        is_cut: True if the body ends inside the string.
    """

    place: tuple[Any, ...] | None
    names: tuple[str, ...]
    flags: tuple[Any, ...]
    text: str
    start: int
    end: int
    is_cut: bool = False


class _Members(list[tuple[str, Any]]):
    def named(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(value for key, value in self if key in names and isinstance(value, str | int))


def secrets_in_body(body: bytes, redactor: Redactor) -> list[Replacement]:
    """Returns the replacements that remove secrets from the strings of a response body, which is JSON or SSE."""
    documents = [
        lines for event in event_ranges(body) if (lines := [(start, body[start:end]) for start, end in event.payloads])
    ]
    whole = _parsed(body)
    if whole is not None or not documents:  # one document, several in lines, or the beginning of one
        return _changes(_pieces(whole, [(0, body)]), redactor)
    pieces = [_pieces(_parsed(b"\n".join(line for _, line in lines)), lines) for lines in documents]
    return _changes([piece for found in pieces for piece in found], redactor)


def redacted_events(payloads: Sequence[str], redactor: Redactor) -> list[str]:
    """Removes secrets from the data of SSE events. Also finds secrets that are split between events."""
    data = [payload.encode("utf-8", "surrogatepass") for payload in payloads]
    starts = list(accumulate(map(len, data), initial=0))
    pieces = [_pieces(_parsed(line), [(start, line)]) for start, line in zip(starts, data, strict=False)]
    changes = _changes([piece for found in pieces for piece in found], redactor)
    texts = []
    for start, line in zip(starts, data, strict=False):
        inside = [
            Replacement(change.start - start, change.end - start, change.new)
            for change in changes
            if start <= change.start < start + len(line)
        ]
        texts.append(redactor.text(apply_replacements(line, inside).decode("utf-8", "surrogatepass")))
    return texts


def apply_replacements(body: bytes, splices: Iterable[Replacement]) -> bytes:
    """Returns a body with all replacements applied. The replacements must be in order and must not overlap."""
    out, at = [], 0
    for start, end, new in splices:
        out += [body[at:start], new]
        at = end
    return b"".join([*out, body[at:]])


def _changes(pieces: Sequence[_Piece], redactor: Redactor) -> list[Replacement]:
    """Returns the replacements that remove secrets from strings. Also finds secrets that are split between strings.

    Strings with the same field names are joined too, because clients of Gemini's API join the text of several parts,
    and because a truncated event doesn't say which part it continues. Joining too many strings does no harm.
    """
    texts = [piece.text for piece in pieces]
    for sequence in _sequences(pieces):
        before = [texts[at] for at in sequence]
        for at, text in zip(sequence, redactor.pieces(before), strict=True):
            texts[at] = text
    changes = []
    for piece, text in zip(pieces, texts, strict=True):
        if piece.text != text:
            new = json.dumps(text).encode()
            changes.append(Replacement(piece.start, piece.end, new[:-1] if piece.is_cut else new))
    return sorted(changes)


def _sequences(pieces: Sequence[_Piece]) -> Iterator[list[int]]:
    exact: dict[Any, list[int]] = {}
    named: dict[Any, list[int]] = {}
    flagged: dict[Any, list[int]] = {}
    cut: dict[Any, list[int]] = {}
    for at, piece in enumerate(pieces):
        if piece.place is None:
            cut.setdefault(piece.names, []).append(at)
        else:
            exact.setdefault((piece.names, piece.place), []).append(at)
            flagged.setdefault((piece.names, piece.flags), []).append(at)
        named.setdefault(piece.names, []).append(at)
    for (names, _), sequence in (*exact.items(), *flagged.items()):
        yield [*sequence, *cut.get(names, ())]
    yield from named.values()


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig"), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None


def _pieces(value: Any, lines: list[tuple[int, bytes]]) -> list[_Piece]:
    """Returns the string values of a JSON document.

    Args:
        value: the parsed document; None if it is truncated or consists of several documents.
        lines: the lines of the document, as pairs of the line's position in the body and its bytes.
    """
    found = list(_tokens(lines))
    if value is None:
        return found
    place = value.named(_PLACE) if isinstance(value, _Members) else ()
    try:
        strings = list(_strings(value, place, ()))
    except RecursionError:
        return found
    if len(strings) != len(found):
        return found
    return [piece._replace(place=at, flags=flags) for piece, (at, flags) in zip(found, strings, strict=True)]


def _strings(
    value: Any, path: tuple[Any, ...], flags: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    match value:
        case str():
            yield path, flags
        case _Members():
            flags = tuple(sorted(member for member in value if isinstance(member[1], bool)))
            for key, item in value:
                yield from _strings(item, (*path, key), flags)
        case list():
            for place, item in enumerate(value):
                number = item.named(("index",)) if isinstance(item, _Members) else ()
                yield from _strings(item, (*path, number or place), flags)


def _tokens(lines: Iterable[tuple[int, bytes]]) -> Iterator[_Piece]:
    around: list[str | None] = []  # the current member of each object, None for a list
    is_name = False
    for offset, line in lines:
        for token in _TOKEN.finditer(line):
            match token[0][:1]:
                case b"{":
                    around.append("")
                    is_name = True
                case b"[":
                    around.append(None)
                    is_name = False
                case b"}" | b"]":
                    if around:
                        around.pop()
                    is_name = False
                case b",":
                    is_name = bool(around) and around[-1] is not None
                case _:
                    text, is_cut = _string(token[0])
                    if is_name:
                        around[-1], is_name = text, False
                    else:
                        names = tuple(name for name in around if name is not None)
                        start, end = offset + token.start(), offset + token.end()
                        yield _Piece(None, names, (), text, start, end, is_cut)


def _string(token: bytes) -> tuple[str, bool]:
    try:
        return json.loads(token), False
    except ValueError:
        text = _CUT_ESCAPE.sub("", token.decode("utf-8", "ignore"))
    try:
        return json.loads(f'{text}"', strict=False), True
    except ValueError:  # not JSON, so not a string of an answer
        return "", True
