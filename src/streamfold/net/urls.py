"""URLs of requests: as they are sent, and as they may be logged."""

from __future__ import annotations

import httpx

__all__ = ["LoggedURL", "sent_url"]


class LoggedURL(httpx.URL):
    """A URL with another text. httpx logs the URL of every request, and a URL may contain a key."""

    def __init__(self, url: httpx.URL, shown: str) -> None:
        super().__init__(url)
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"URL({self._shown!r})"


def sent_url(url: httpx.URL) -> str:
    """Returns a URL with the escapes that are sent. Its text may be another one, for logs."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii')}"
