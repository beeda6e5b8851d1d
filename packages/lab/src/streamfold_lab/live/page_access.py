"""Controls access to the page. If keys are configured, a browser needs one of them. Otherwise the browser must run on
the server's machine, and needs the page's token.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from streamfold.net import is_loopback

_PROXIES = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class PageAccess:
    """Decides whether a request may open the page.

    If keys are configured, a request must send one of them as a bearer token, or as the password in the browser's login
    dialog. Without keys, only requests from this machine are allowed, with the page's token in the URL or as a bearer
    token. Requests from this machine need the token because a proxy may forward requests from other machines.

    Args:
        keys: the keys with which a browser may open the page.

    Attributes:
        token: the token for the URL; empty if there are keys.
    """

    def __init__(self, keys: Collection[str] = ()) -> None:
        self._keys = [key.strip().encode() for key in keys]
        self.token = "" if self._keys else token_urlsafe(24)
        self._cookie = f"streamfold-ui-{sha256(self.token.encode()).hexdigest()[:8]}"

    def cookie(self, scope: Any) -> dict[str, str]:
        """Returns the `Set-Cookie` header that stores the URL's token in the browser, for the requests that the page
        sends.
        """
        if not self.token or b"token=" not in scope.get("query_string", b""):
            return {}
        return {"set-cookie": f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"}

    def check(self, scope: Any) -> None:
        """Raises HTTPException if the request may not open the page."""
        headers = Headers(scope=scope)
        if self._keys:
            given = _key(headers.get("authorization", ""))
            if not sum(compare_digest(given, key) for key in self._keys):  # compares all keys: constant time
                raise HTTPException(
                    401,
                    "this page needs one of its keys, as a bearer token or as the password",
                    {"www-authenticate": 'Basic realm="streamfold"'},
                )
        else:
            client, host = scope.get("client"), _host(headers.get("host", ""))
            direct = not any(name in headers for name in _PROXIES)
            if not (client and is_loopback(str(client[0])) and is_loopback(host) and direct):
                raise HTTPException(
                    403, "only the gateway's own machine may open this page; set ui_key_env to allow others"
                )
            request = HTTPConnection({**scope, "type": "http"})
            texts = [request.query_params.get("token", ""), request.cookies.get(self._cookie, "")]
            tokens = [_key(headers.get("authorization", "")), *(text.encode() for text in texts)]
            if not sum(compare_digest(token, self.token.encode()) for token in tokens):
                raise HTTPException(403, "this page needs the token of its URL, which the gateway's log contains")
        # A change must come from the page itself: a form on another site can't set this header.
        from_page = "x-streamfold" in headers and headers.get("sec-fetch-site", "same-origin") == "same-origin"
        if scope["method"] not in ("GET", "HEAD") and not from_page:
            raise HTTPException(403, "only the page itself may send this request")


def _key(header: str) -> bytes:
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value.strip().encode("latin-1")
    if kind.lower() != "basic":
        return b""
    try:
        return base64.b64decode(value, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _host(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:  # an IPv6 address with only one bracket
        return ""
