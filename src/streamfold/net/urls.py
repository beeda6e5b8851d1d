"""URLs of requests: as they are sent, and as they may be logged."""

from __future__ import annotations

from functools import lru_cache

import httpx

_HIGHEST_PORT = 65535


class RedactedURL(httpx.URL):
    """A URL with another text. httpx logs the URL of every request, and a URL may contain a key."""

    def __init__(self, url: httpx.URL, shown: str) -> None:
        super().__init__(url)
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"URL({self._shown!r})"


@lru_cache(64)
def read_url(text: str) -> httpx.URL | None:
    """Returns a URL; None for one that httpx or the socket would stumble over."""
    try:
        url = httpx.URL(text)
        usable = bool(url.host) and (url.port is None or url.port <= _HIGHEST_PORT)  # decodes the host
    except (httpx.InvalidURL, ValueError):  # ValueError: a host that is not valid IDNA
        return None
    return url if usable else None


def sent_url(url: httpx.URL) -> str:
    """Returns a URL with the escapes that are sent. Its text may be another one, for logs."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii')}"
