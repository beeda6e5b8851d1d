"""Names and addresses of machines."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Returns whether a name or an address is this machine's own.

    >>> [is_loopback(host) for host in ("localhost", "app.localhost", "127.0.0.1", "::1", "example.com")]
    [True, True, True, True, False]
    """
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761: never asked of a name server
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
