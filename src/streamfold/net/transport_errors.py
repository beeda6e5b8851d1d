"""Classifies the exceptions of the HTTP libraries, and finds their error messages."""

from __future__ import annotations

import ssl

import httpx

# httpx doesn't wrap all errors: those of TLS, of HTTP/2 frames and of aiohttp's parser keep their classes.
_NETWORK = (httpx.HTTPError, httpx.StreamError, ConnectionError, TimeoutError, ssl.SSLError)
_NETWORK_PACKAGES = {
    "httpcore", "h11", "h2", "hpack", "hyperframe", "aiohttp", "anyio", "httpcore2", "httpx2", "socksio",
}  # fmt: skip


class MalformedResponse(httpx.RemoteProtocolError):
    """The response can't be parsed."""


def is_network_error(exc: Exception) -> bool:
    """Returns True if the network or the server, and not an error in the program, caused an exception."""
    return isinstance(exc, _NETWORK) or type(exc).__module__.partition(".")[0] in _NETWORK_PACKAGES


def describe(exc: BaseException | None) -> str:
    """Returns the first message in an exception's chain of causes. On trio, httpx's own exceptions have no message."""
    return "" if exc is None else str(exc) or describe(exc.__cause__ or exc.__context__)


def is_timeout(exc: BaseException | None) -> bool:
    """Returns True if a timeout caused an exception. trio's timeout exception isn't a TimeoutError."""
    if exc is None:
        return False
    timeout = isinstance(exc, TimeoutError) or type(exc).__name__ == "TooSlowError"
    return timeout or is_timeout(exc.__cause__ or exc.__context__)


def has_cause(exc: BaseException | None, kind: type[BaseException]) -> bool:
    """Returns True if an exception or one of its causes is an instance of `kind`."""
    return exc is not None and (isinstance(exc, kind) or has_cause(exc.__cause__ or exc.__context__, kind))


def is_malformed(exc: BaseException | None) -> bool:
    """Returns True if a malformed response caused an exception. Returns False for a lost connection."""
    if exc is None:
        return False
    # h11's exception, because httpcore's exception of the same name may also mean that the connection was closed.
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(exc).__mro__}
    malformed = isinstance(exc, MalformedResponse) or ("h11", "RemoteProtocolError") in kinds
    return malformed or is_malformed(exc.__cause__ or exc.__context__)
