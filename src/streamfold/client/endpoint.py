"""Requests as they are sent. What they share (URLs, headers, secrets) is worked out anew when a variable changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..adapters import Adapter, PreparedRequest
from ..adapters.batches import EndpointRequest
from ..config import Profile, timeouts_over, variable_values
from ..net import HTTPRequest, Redactor, Signer
from ..requests import read_headers
from ..types import Timeouts
from ..urls import variable_names

if TYPE_CHECKING:
    from ..requests import TimeoutOptions

COMMON_HEADERS = {
    "Accept-Encoding": "identity",  # a proxy that compresses a stream also holds it back
    "Cache-Control": "no-store",
}
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
class EndpointHeaders:
    """The headers of requests, and what removes their secrets.

    Attributes:
        headers: the configured ones, the key included.
        has_key: whether a key is among them.
    """

    headers: Mapping[str, str] = field(repr=False)
    has_key: bool
    redactor: Redactor


@dataclass(slots=True)
class _VariableCache:
    """What follows from the values of the variables."""

    values: list[str | None] = field(repr=False)
    urls: dict[str, URLs] = field(default_factory=dict, repr=False)
    sent: EndpointHeaders | None = None


class Endpoint:
    """Where the requests of one provider go, and with which headers.

    Variables are read for each request, as documented. What follows from them is kept while they stay the same.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._variables = _variables(profile)
        self._last = _VariableCache([])
        self._signer: Signer | None = None

    def urls(self, path: str) -> URLs:
        """Returns the URLs of a path. Raises ConfigError."""
        return self._urls(self._kept(), path)

    def request(
        self,
        adapter: Adapter,
        ready: PreparedRequest | EndpointRequest,
        timeouts: Timeouts | TimeoutOptions | None = None,
        extra_headers: Mapping[str, str] | None = None,
        *,
        own_client: bool,
    ) -> HTTPRequest:
        """Returns a request as it is sent, with URL, key and headers. Raises ConfigError.

        Args:
            extra_headers: those of this request alone.
            own_client: for `HTTPRequest`.
        """
        kept = self._kept()
        urls = self._urls(kept, ready.path)
        if extra_headers is not None:
            sent = self._made(extra_headers)
        else:
            sent = kept.sent = kept.sent or self._made(None)
        return HTTPRequest(
            method=ready.method,
            read_error=adapter.read_error,
            url=urls.sent,
            headers={**COMMON_HEADERS, **ready.headers, **sent.headers},
            body=ready.body,
            timeouts=timeouts_over(self._profile.timeouts, timeouts),
            limits=self._profile.limits,
            shown_url=urls.shown,
            own_client=own_client,
            redactor=sent.redactor,
            signer=None if sent.has_key else self._credentials(),
        )

    def _credentials(self) -> Signer | None:
        """Returns what authenticates requests without a key; the same one always, which keeps what it was given."""
        if self._signer is None:
            self._signer = self._profile.make_signer()
        return self._signer

    def _urls(self, kept: _VariableCache, path: str) -> URLs:
        if (urls := kept.urls.get(path)) is None:
            sent = self._profile.sent_url(path)
            urls = URLs(sent, self._profile.shown_url(sent), self._profile.url_of(path))
            if len(kept.urls) >= _MOST_PATHS:
                kept.urls = {}
            kept.urls[path] = urls
        return urls

    def _made(self, extra: Mapping[str, str] | None) -> EndpointHeaders:
        profile, key = self._profile, self._profile.key_headers()
        headers = key | profile.sent_headers(read_headers(extra))
        return EndpointHeaders(headers, bool(key), Redactor(profile.secrets(extra)))

    def _kept(self) -> _VariableCache:
        values = variable_values(self._variables) if self._variables else []
        if values != self._last.values:
            self._last = _VariableCache(values)
        return self._last


def _variables(profile: Profile) -> list[str]:
    """Returns the names of all variables that are read when a request is made."""
    texts = [profile.base_url, profile.model or "", *profile.headers.values()]
    return list(dict.fromkeys([*profile.keys_set(), *(name for text in texts for name in variable_names(text))]))
