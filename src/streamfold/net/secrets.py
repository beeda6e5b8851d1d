"""Defines what a secret is: which headers, parts of a URL and members of JSON hold one, and what keys look like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_WORD = 8  # characters; a plain word up to this length is a placeholder such as EMPTY rather than a key

# Headers of the protocol, which say nothing about who is asking.
_PROTOCOL = {
    "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-encoding",
    "content-length", "content-type", "host", "keep-alive", "te", "transfer-encoding", "x-amz-date",
}  # fmt: skip
_COOKIES = {"cookie", "set-cookie"}
_SECRET_MEMBER = re.compile(
    r"(?:proxy)?authorization|(?:x|access|private|secret)?(?:api)?key|(?:auth|access|refresh|bearer|id)token"
    r"|(?:client)?secret|password|(?:set)?cookie",
    re.IGNORECASE,
)
_SIGNED_WITH = re.compile(r"(?:Credential|Signature)=([^/,\s]+)")  # the parts of AWS's `Authorization` that AWS quotes
_PLAIN_KEY = re.compile("key", re.IGNORECASE)  # as often the key of a dictionary


def is_placeholder(secret: str) -> bool:
    """Whether a text is so plain a word that it is no real key, and may stand in any other text."""
    return len(secret) <= _WORD and (secret.isalpha() or secret.isdigit())


def secrets_in_headers(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the values of all headers but those of the protocol, also without a scheme such as `Bearer`."""
    found: list[str] = []
    for name, value in headers:
        lower = name.lower()
        if lower in _COOKIES:
            parts = value.split(";")[: 1 if lower == "set-cookie" else None]  # the rest are attributes
            found += [part.partition("=")[2].strip() for part in parts]
        elif lower not in _PROTOCOL:
            found += [value.strip(), *value.split()[-1:], *_SIGNED_WITH.findall(value)]
    return _distinct(found)


def secrets_in_url(url: str) -> list[str]:
    """Returns the password and the values of the query, as they are written and as they are meant."""
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
    """Returns the strings in members of a JSON value whose names say that they hold secrets."""
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
    """Whether a member of a JSON object holds a secret, by its name. `headers` to be sent on do."""
    if name == "headers" and isinstance(value, dict):
        return all(isinstance(item, str) for item in value.values())
    plain = re.sub("[-_ ]", "", name)
    return isinstance(value, str) and bool(_SECRET_MEMBER.fullmatch(plain)) and not _PLAIN_KEY.fullmatch(plain)


def _distinct(found: Iterable[str]) -> list[str]:
    return [secret for secret in dict.fromkeys(found) if secret]


# --- What keys look like ---------------------------------------------------------------------------------------------

_STARTS = "sk pk rk gsk xai nvapi pplx hf tvly ghp gho ghu ghs ghr github_pat glpat xoxa xoxb xoxp xoxr xoxs"


def _patterns() -> Iterator[tuple[str, str]]:
    """Yields how keys begin, each with a pattern.

    The keys of OpenAI and its relatives and of code hosts, bearer tokens, JSON web tokens, and the keys of clouds. A
    pattern begins with plain letters, looks back from there, and looks no further than keys are long: other ways of
    writing it take a hundred times as long.
    """
    for start in [start + end for start in _STARTS.split() for end in "-_"]:
        yield start, _beginning(start) + r"(?=[\w-]{0,200}\d)[\w-]{16,}"
    for start in ("earer ", "EARER "):
        yield start, start + r"[ ]{0,8}(?P<key>(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{12,})"
    yield "eyJ", _beginning("eyJ") + r"[\w-]{8,2000}\.[\w-]{8,}(?:\.[\w-]+)?"
    yield "AKIA", _beginning("AKIA") + r"[0-9A-Z]{16}\b"
    yield "AIza", _beginning("AIza") + r"[\w-]{30,}"


def _beginning(start: str) -> str:
    """Not in the middle of a word, but behind an escaped line end."""
    return rf"{start}(?:(?<![A-Za-z0-9_]{start})|(?<=\\[nrt]{start}))"


KEY_PATTERNS = dict(_patterns())


@cache
def key_pattern(start: str) -> re.Pattern[str]:
    """Returns the pattern of the keys that begin so. Compiling all of them at import would take a sixth of its time."""
    return re.compile(KEY_PATTERNS[start], re.ASCII)
