"""Functions for host names, URLs without secrets, and references to environment variables in settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Returns True if a host name or an address belongs to this machine.

    >>> [is_loopback(host) for host in ("localhost", "app.localhost", "127.0.0.1", "::1", "example.com")]
    [True, True, True, True, False]
    """
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# A reference to an environment variable in a setting, as in `"https://${GATEWAY}/v1"`; "$${NAME}" is a plain "${NAME}".
_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variable_names(text: str) -> list[str]:
    """Returns the names of the environment variables to which a setting refers.

    >>> variable_names("https://${HOST}:${PORT}/$${v1}")
    ['HOST', 'PORT']
    """
    return [variable for escaped, variable in _REFERENCE.findall(text) if not escaped]


def expand_variables(text: str, value_of: Callable[[str], str]) -> str:
    """Replaces each reference to an environment variable in a setting with the variable's value.

    >>> expand_variables("https://${HOST}/$${v1}", {"HOST": "example.com"}.__getitem__)
    'https://example.com/${v1}'
    """
    return _REFERENCE.sub(lambda found: found[0][1:] if found[1] else value_of(found[2]), text)


def check_references(text: str) -> None:
    """Raises ValueError if a reference is malformed. The error message doesn't quote the text, because it may be a
    secret.
    """
    if "${" in _REFERENCE.sub("", text):
        raise ValueError('a reference is written "${NAME}", with letters, digits and _')


def shown_url(url: str) -> str:
    """Returns a URL without its password and its query string, because these may contain an API key.

    >>> shown_url("https://me:password@example.com/v1?key=secret")
    'https://***@example.com/v1?***'
    """
    return re.sub(r"\?.*", "?***", re.sub(r"//[^/?#]*@", "//***@", url))
