"""Where requests come from: this machine, or a page of another host that somebody has open."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

__all__ = ["foreign_page", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def foreign_page(origin: str | None) -> bool:
    """Whether an `Origin` header names a web page that is not of this machine. Browsers send it with every POST.

    >>> foreign_page("https://example.com"), foreign_page("http://localhost:3000"), foreign_page(None)
    (True, False, False)
    """
    if origin is None:
        return False
    try:
        return not is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return True
