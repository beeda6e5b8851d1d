"""Authentication: which clients, hosts and web pages may send requests, and the rights of each gateway key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers

from streamfold import ConfigError
from streamfold.config import read_settings
from streamfold.net import is_loopback

from .config import KeyOptions
from .http_errors import http_error


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """A gateway key: the API key of a client, and the client's rights.

    Attributes:
        name: the configured name of the key; None for a key without a name.
        key: the secret that the client sends; empty if clients need no key.
        options: the rights of a client that sends the key.
    """

    name: str | None = None
    key: bytes = field(default=b"", repr=False)
    options: KeyOptions = field(default_factory=KeyOptions)

    @property
    def id(self) -> str:
        """The id under which the gateway stores the client's data: a hash of the key; "" if clients need no key."""
        return sha256(self.key).hexdigest() if self.key else ""

    def allows_model(self, model: str) -> bool:
        """Returns whether the client may use the model of this name."""
        return any(fnmatchcase(model, pattern) for pattern in self.options.models)


ANONYMOUS = GatewayKey()


def read_keys(keys: Collection[str | GatewayKey] | Mapping[str, Any]) -> list[GatewayKey]:
    """Validates the argument `keys` of `gateway`, and returns the gateway keys.

    Args:
        keys: a list of keys; or a mapping from each name to a key, or to a mapping with `key` and the options of
            `KeyOptions`.

    Raises:
        ConfigError: a key is empty, two keys are equal, or an option is invalid.
    """
    if isinstance(keys, str):
        raise ConfigError("keys must be a list of non-empty strings")
    made: list[GatewayKey] = []
    for name, given in keys.items() if isinstance(keys, Mapping) else [(None, key) for key in keys]:
        match given:
            case GatewayKey():
                made.append(given)
            case Mapping():
                options = dict(given)
                key = options.pop("key", None)
                made.append(make_key(name, key, read_settings(KeyOptions, options, "gateway")))
            case _:
                made.append(make_key(name, given, KeyOptions()))
    known: dict[bytes, str | None] = {}
    for client in made:
        if client.name and client.key in known:
            raise ConfigError(f"keys: {client.name!r} and {known[client.key]!r} are the same key")
        known[client.key] = client.name
    return made


def make_key(name: str | None, text: Any, options: KeyOptions) -> GatewayKey:
    """Returns a gateway key. Raises ConfigError if `text` isn't a non-empty string."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(
            "keys must be a list of non-empty strings"
            if name is None
            else f"keys: {name!r} must be a non-empty string, or a mapping with a non-empty `key`"
        )
    return GatewayKey(name, text.strip().encode(), options)


_KEY_HEADERS = ("x-api-key", "x-goog-api-key")  # Anthropic's and Google's clients


class Authenticator:
    """Authenticates requests by their headers.

    Google's clients may send their key as `?key=` in the URL, so the gateway doesn't log URL queries.

    Args:
        clients: the gateway keys. Without keys, the gateway accepts all clients except web pages of other hosts.
        hosts: the allowed values of the `Host` header: see `GatewayOptions.hosts`.
        loopback_only: if clients need no key, accept only requests to a loopback address.
    """

    def __init__(self, clients: Collection[GatewayKey], hosts: Collection[str], *, loopback_only: bool = False) -> None:
        self._clients = list(clients)
        self._hosts = {host.lower() for host in hosts}
        self._loopback_only = loopback_only

    def check(self, scope: Any) -> GatewayKey:
        """Returns the client's key, or `ANONYMOUS` if clients need no key.

        Raises:
            HTTPError: the key is missing or unknown, the `Host` header isn't allowed, or the request comes from a web
                page that isn't allowed.
        """
        headers = Headers(scope=scope)
        self._check_host(headers.get("host"), scope.get("server"))
        if self._clients:
            return self._check_key(headers, scope)
        server = scope.get("server")
        if self._loopback_only and server and "/" not in str(server[0]) and not is_loopback(str(server[0])):
            text = "without a key, only the server's own machine may use the gateway: set api_key_env, or open = true"
            raise http_error(403, text)
        if is_foreign_page(origin := headers.get("origin")):
            raise http_error(403, f"web pages of {origin:.200} may not use a gateway without keys; configure a key")
        return ANONYMOUS

    def _check_host(self, header: str | None, server: Any) -> None:
        host = _name(header or "")
        if self._hosts:
            allowed = host in self._hosts or "*" in self._hosts
        else:  # without keys, prevents DNS rebinding at a loopback address
            local = bool(server) and is_loopback(str(server[0]))
            allowed = bool(self._clients) or not local or not header or is_loopback(host)
        if not allowed:
            raise http_error(403, f"the host {host[:200]!r} is not allowed; add it to `hosts`, or configure a key")

    def _check_key(self, headers: Headers, scope: Any) -> GatewayKey:
        kind, _, token = headers.get("authorization", "").partition(" ")
        given = [token if kind.lower() == "bearer" else ""]
        given += [headers[name] for name in _KEY_HEADERS if name in headers]  # in addition to a bearer token
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), encoding="latin-1")
        given += [value for name, value in query if name == "key"]
        keys = [key.strip().encode("latin-1") for key in given]  # the bytes that the client sent
        # Compares with all keys, each in constant time, so that the duration reveals nothing.
        fits = [client for key in keys for client in self._clients if compare_digest(key, client.key)]
        if not fits:
            needed = "an API key is needed: send it as a bearer token, in x-api-key or in x-goog-api-key"
            why = "unknown API key" if any(keys) else needed
            # Without the second header, Claude Code retries for minutes after a 401.
            raise http_error(401, why, "invalid_api_key", www_authenticate="Bearer", x_should_retry="false")
        return fits[0]


@lru_cache(maxsize=64)
def _name(host: str) -> str:
    """Returns the host name in a `Host` header, without port and brackets; "" for an invalid header."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_foreign_page(origin: str | None) -> bool:
    """Returns whether an `Origin` header names a web page from another machine. Browsers send `Origin` with every POST
    request.

    >>> is_foreign_page("https://example.com"), is_foreign_page("http://localhost:3000"), is_foreign_page(None)
    (True, False, False)
    """
    if origin is None:
        return False
    try:
        return not is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return True
