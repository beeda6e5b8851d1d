"""Works out once what all requests of a provider share: URLs, headers, secrets. Anew when a variable changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..config import Profile, variable_values
from ..net import Redactor
from ..requests import read_headers
from ..text import referenced

_MOST_PATHS = 64  # whose URLs are kept; a path may hold the id of an answer or of a file


@dataclass(frozen=True, slots=True)
class URLs:
    """The URLs of a path.

    Attributes:
        sent: as it is sent; it may hold secrets.
        shown: the same without the values of variables, and without other secrets.
        named: with references instead of the values of variables.
    """

    sent: str = field(repr=False)
    shown: str
    named: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The headers of requests, and what removes their secrets.

    Attributes:
        headers: the configured ones, the key included.
        has_key: whether a key is among them.
    """

    headers: Mapping[str, str] = field(repr=False)
    has_key: bool
    redactor: Redactor


@dataclass(slots=True)
class _Kept:
    """What follows from the values of the variables."""

    values: list[str | None] = field(repr=False)
    urls: dict[str, URLs] = field(default_factory=dict, repr=False)
    sent: Sent | None = None


class Endpoint:
    """Where the requests of one provider go, and with which headers.

    Variables are read for each request, as documented. What follows from them is kept while they stay the same.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._variables = _variables(profile)
        self._last = _Kept([])

    def urls(self, path: str) -> URLs:
        """Returns the URLs of a path. Raises ConfigError."""
        return self._urls(self._kept(), path)

    def where(self, path: str, extra: Mapping[str, str] | None) -> tuple[URLs, Sent]:
        """Returns the URLs of a path, and the headers of a request with its own ones, `extra`. Raises ConfigError."""
        kept = self._kept()
        urls = self._urls(kept, path)
        if extra is not None:
            return urls, self._made(extra)
        if kept.sent is None:
            kept.sent = self._made(None)
        return urls, kept.sent

    def _urls(self, kept: _Kept, path: str) -> URLs:
        if (urls := kept.urls.get(path)) is None:
            sent = self._profile.sent_url(path)
            urls = URLs(sent, self._profile.shown_url(sent), self._profile.url_of(path))
            if len(kept.urls) >= _MOST_PATHS:
                kept.urls = {}
            kept.urls[path] = urls
        return urls

    def _made(self, extra: Mapping[str, str] | None) -> Sent:
        profile, key = self._profile, self._profile.key_headers()
        headers = key | profile.sent_headers(read_headers(extra))
        return Sent(headers, bool(key), Redactor(profile.secrets(extra)))

    def _kept(self) -> _Kept:
        values = variable_values(self._variables) if self._variables else []
        if values != self._last.values:
            self._last = _Kept(values)
        return self._last


def _variables(profile: Profile) -> list[str]:
    """Returns the names of all variables that are read when a request is made."""
    texts = [profile.base_url, profile.model or "", *profile.headers.values()]
    return list(dict.fromkeys([*profile.keys_set(), *(name for text in texts for name in referenced(text))]))
