"""Taking secrets out of what is recorded: what looks like a key, and what is known to be one.

A key may be cut in two by the network, by events (a model that writes it token by token), or be written with escapes.
So a body is looked at three times as a whole: its bytes, then the texts that its events add up to. Bytes change where a
key stood and nowhere else, and the noted pieces of the network are shifted so that they still add up.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, AnyStr, NamedTuple
from urllib.parse import quote

from ...values import ConfigError
from .files import Cut
from .texts import Leaf, documents, leaves

__all__ = ["HIDDEN", "Cleaner", "secrets_in_headers", "secrets_in_json"]

HIDDEN = "***"
_SHORTEST = 4  # a shorter text stands in too many others
_WORD = 8  # a "key" that is a plain word is a placeholder unless it has as many letters

_STARTS = "sk pk rk gsk xai nvapi pplx hf tvly ghp gho ghu ghs ghr github_pat glpat xoxa xoxb xoxp xoxr xoxs"


def _looks() -> Iterator[tuple[str, str]]:
    """What keys look like: how they begin, and a pattern of it.

    The keys of OpenAI and its relatives and of code hosts, bearer tokens, JSON web tokens, and the keys of clouds. A
    pattern begins with its letters and looks back from there, and looks no further than keys are long: other ways of
    writing them take a hundred times as long.
    """
    for start in [start + end for start in _STARTS.split() for end in "-_"]:
        yield start, _beginning(start) + r"(?=[\w-]{0,200}\d)[\w-]{16,}"
    for start in ("earer ", "EARER "):
        yield start, start + r"[ ]{0,8}(?P<key>(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{12,})"
    yield "eyJ", _beginning("eyJ") + r"[\w-]{8,2000}\.[\w-]{8,}(?:\.[\w-]+)?"
    yield "AKIA", _beginning("AKIA") + r"[0-9A-Z]{16}\b"
    yield "AIza", _beginning("AIza") + r"[\w-]{30,}"


def _beginning(start: str) -> str:
    """Not in the middle of a word, but behind a line end that is written as one."""
    return rf"{start}(?:(?<![A-Za-z0-9_]{start})|(?<=\\[nrt]{start}))"


_LOOKS = dict(_looks())
_SECRET_HEADER = re.compile("auth|key|token(?!s)|secret|session|password", re.IGNORECASE)
_SECRET_MEMBER = re.compile(
    r"(?:proxy)?authorization|(?:x|access|private|secret)?(?:api)?key|(?:auth|access|refresh|bearer|id)token"
    r"|(?:client)?secret|password|(?:set)?cookie",
    re.IGNORECASE,
)
_PLAIN_KEY = re.compile("key", re.IGNORECASE)  # as often the key of a dictionary


class _Splice(NamedTuple):
    start: int
    end: int
    new: bytes


class Cleaner:
    """Takes these secrets out of things, and all that looks like one.

    Raises:
        ConfigError: a secret is so short that taking it out would spoil everything else.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = [secret for secret in dict.fromkeys(secrets) if secret]
        if any(len(secret) < _SHORTEST for secret in known):
            raise ConfigError(f"a secret of less than {_SHORTEST} characters stands in too many other texts")
        spellings = {spelling for secret in known for spelling in _spellings(secret)}
        longest_first = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
        self._in_text = {look: re.compile(pattern, re.ASCII) for look, pattern in _LOOKS.items()}
        self._in_bytes = {look.encode(): re.compile(pattern.encode()) for look, pattern in _LOOKS.items()}
        if longest_first:
            self._in_text[""] = re.compile("|".join(map(re.escape, longest_first)))
            encoded = [re.escape(spelling.encode("utf-8", "replace")) for spelling in longest_first]
            self._in_bytes[b""] = re.compile(b"|".join(encoded))

    def text(self, text: str) -> str:
        """The text with `***` for each secret."""
        for start, end in reversed(_spans(self._in_text, text)):
            text = text[:start] + HIDDEN + text[end:]
        return text

    def value(self, value: Any) -> Any:
        """A JSON value with `***` for each secret, and for what stands under a name that secrets have."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(item) for item in value]
            case dict():
                return {
                    self.text(key): HIDDEN if _is_secret(key, item) else self.value(item) for key, item in value.items()
                }
            case _:
                return value

    def body(self, body: bytes, cuts: Sequence[Cut]) -> tuple[bytes, tuple[Cut, ...]]:
        """A body with `***` for each secret, and its pieces, fitted to that."""
        found = [_Splice(start, end, HIDDEN.encode()) for start, end in _spans(self._in_bytes, body)]
        body, cuts = _spliced(body, cuts, found)
        return _spliced(body, cuts, self._in_events(body))

    def _in_events(self, body: bytes) -> list[_Splice]:
        """What is to be changed for the secrets that stand in several events, or are written with escapes."""
        lanes: dict[Any, list[Leaf]] = {}
        for document in documents(body):
            for leaf in leaves(document):
                lanes.setdefault(leaf.lane, []).append(leaf)
        changed: list[_Splice] = []
        for lane in lanes.values():
            starts = list(accumulate((len(leaf.text) for leaf in lane), initial=0))
            spans = _spans(self._in_text, "".join(leaf.text for leaf in lane))
            for leaf, start in zip(lane, starts, strict=False):
                text = leaf.text
                for first, last in reversed(spans):
                    if first < start + len(leaf.text) and last > start:
                        hidden = HIDDEN if first >= start else ""  # once, where the secret begins
                        text = text[: max(first - start, 0)] + hidden + text[max(last - start, 0) :]
                if text != leaf.text:
                    changed.append(_Splice(leaf.start, leaf.end, json.dumps(text).encode()))
        return sorted(changed)


def secrets_in_headers(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The values that are secret, also without the scheme in front of them, and those of cookies."""
    found = []
    for name, value in headers:
        if name.lower() in ("cookie", "set-cookie"):
            parts = value.split(";")[: 1 if name.lower() == "set-cookie" else None]  # what follows is where it holds
            found += [part.partition("=")[2].strip() for part in parts]
        elif _SECRET_HEADER.search(name):
            found += [value, *value.split()[-1:]]
    return [value for value in found if _is_telling(value)]


def secrets_in_json(value: Any) -> list[str]:
    """The texts under names that secrets have."""
    match value:
        case list():
            return [secret for item in value for secret in secrets_in_json(item)]
        case dict():
            found = []
            for key, item in value.items():
                if _is_secret(key, item):
                    texts = (
                        [item] if isinstance(item, str) else [text for text in item.values() if isinstance(text, str)]
                    )
                    found += [part for text in texts for part in text.split()[-1:] if _is_telling(part)]
                else:
                    found += secrets_in_json(item)
            return found
        case _:
            return []


def _is_secret(name: str, value: Any) -> bool:
    """Whether a member of a request is a secret by its name; `headers` that are to be sent on are."""
    if name == "headers" and isinstance(value, dict):
        return all(isinstance(item, str) for item in value.values())
    plain = re.sub("[-_ ]", "", name)
    return isinstance(value, str) and bool(_SECRET_MEMBER.fullmatch(plain)) and not _PLAIN_KEY.fullmatch(plain)


def _is_telling(secret: str) -> bool:
    """Not a placeholder such as `EMPTY`, or a number, which would be taken out of every text that has the word."""
    return len(secret) >= _SHORTEST and not (len(secret) <= _WORD and (secret.isalpha() or secret.isdigit()))


def _spellings(secret: str) -> Iterator[str]:
    """How a secret may be written: as it is, in JSON, in a URL."""
    yield secret
    yield quote(secret, safe="")
    for ascii_only in (True, False):
        in_json = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield in_json
        yield in_json.replace("/", "\\/")


def _spans(patterns: Mapping[AnyStr, re.Pattern[AnyStr]], text: AnyStr) -> list[tuple[int, int]]:
    """Where secrets stand, in order; those that overlap are one."""
    found = sorted(
        match.span("key" if match.re.groupindex and match["key"] else 0)
        for start, pattern in patterns.items()
        if start in text
        for match in pattern.finditer(text)
    )
    joined: list[tuple[int, int]] = []
    for start, end in found:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _spliced(body: bytes, cuts: Sequence[Cut], splices: Sequence[_Splice]) -> tuple[bytes, tuple[Cut, ...]]:
    """The body with the splices made, and the cuts moved along. A cut that vanishes leaves its wait to the next."""
    if not splices:
        return body, tuple(cuts)
    out, at, grown = [], 0, [0]
    for start, end, new in splices:
        out += [body[at:start], new]
        at = end
        grown.append(grown[-1] + len(new) - (end - start))
    ends = [splice.end for splice in splices]

    def place(offset: int) -> int:
        number = bisect_left(ends, offset)
        if number == len(splices) or offset <= splices[number].start:
            return offset + grown[number]
        start, end, new = splices[number]
        return start + grown[number] + (len(new) if offset == end else min(offset - start, len(new)))

    moved: list[Cut] = []
    before, waited = 0, 0.0
    for cut, end in zip(cuts, accumulate(cut.size for cut in cuts), strict=True):
        waited += cut.delay
        if place(end) > before:
            moved.append(Cut(place(end) - before, waited))
            before, waited = place(end), 0.0
    return b"".join([*out, body[at:]]), tuple(moved)
