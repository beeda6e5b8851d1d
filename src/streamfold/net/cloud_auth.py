"""Authentication by the credentials of a cloud: a signature of each request, or a token that expires.

Credentials are looked up and refreshed by the cloud's own library, in a thread: it reads files and asks servers.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from threading import Lock
from types import SimpleNamespace
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from anyio import to_thread

from ..values import APIConnectionError, AuthenticationError, ConfigError, NotConfiguredError, StreamfoldError
from .error_redaction import clear_frames
from .redaction import Redactor

_AWS_SERVICE = "bedrock"
# bedrock-runtime.REGION.amazonaws.com, also with -fips, as a private endpoint (vpce), and in China (.com.cn).
_AWS_REGION = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.")
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class Signer(Protocol):
    """Makes the headers that authenticate one attempt of a request."""

    async def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Returns the headers to add. Their values are secrets.

        Raises:
            NotConfiguredError: there are no credentials.
            AuthenticationError: the credentials were refused when they were refreshed.
            APIConnectionError: the server that refreshes credentials could not be reached.
        """
        ...


class _ThreadedSigner(ABC):
    """Runs `_headers` in a thread, one at a time, so that credentials are refreshed once."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._lock = Lock()
        self._credentials: Any = None

    async def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Returns the headers to add; see `Signer`."""
        return await to_thread.run_sync(self._locked, method, url, headers, body, abandon_on_cancel=True)

    def _locked(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        try:
            with self._lock:
                return self._headers(method, url, headers, body)
        except StreamfoldError:
            raise
        except Exception as exc:
            error = self._error(exc)
            if error is None:
                raise
            clear_frames(exc)
            raise error from None  # what the library says is in the message; its frames hold credentials

    @abstractmethod
    def _headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Returns the headers to add, as the cloud's library makes them."""

    @abstractmethod
    def _error(self, exc: Exception) -> StreamfoldError | None:
        """Returns our error for one of the cloud's library; None if it is not a failure to get credentials."""

    def _missing(self, how: str) -> NotConfiguredError:
        return NotConfiguredError(f'no credentials for "{self._provider}": {how}')


class AWSSigner(_ThreadedSigner):
    """Signs requests to Amazon Bedrock (Signature Version 4) with the credentials that the AWS tools use too.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
    """

    _session: Any = None

    def _headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import Session

        if self._session is None:
            self._session = Session()
        if self._credentials is None:
            self._credentials = self._session.get_credentials()
        if self._credentials is None:
            raise self._missing("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
        frozen = self._credentials.get_frozen_credentials()  # refreshes them if they expire soon
        now = datetime.now(UTC).strftime(SIGV4_TIMESTAMP)
        added = {"X-Amz-Date": now}
        if frozen.token:
            added["X-Amz-Security-Token"] = frozen.token
        # Others are left out: a proxy may change them. AWS requires the host, the type and its own.
        own = {name: text for name, text in headers.items() if name.lower().startswith(("content-type", "x-amz"))}
        request = AWSRequest(method=method, url=url, headers={**own, **added}, data=body)
        request.context["timestamp"] = now
        auth = SigV4Auth(frozen, _AWS_SERVICE, self._region(url))
        # The steps of `add_auth`, which would write the token to the log.
        signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
        names = auth.signed_headers(auth.headers_to_sign(request))
        scheme = f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, Signature={signature}"
        return {**added, "Authorization": scheme}

    def _region(self, url: str) -> str:
        """The region in the address, else the one that the AWS tools would use."""
        if found := _AWS_REGION.search(urlsplit(url).hostname or ""):
            return found[1]
        region = self._session.get_config_variable("region")
        if not region:
            raise self._missing("set AWS_DEFAULT_REGION; the base_url names no region")
        return str(region)

    def _error(self, exc: Exception) -> StreamfoldError | None:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError, ProfileNotFound

        if isinstance(exc, HTTPClientError):
            return APIConnectionError(f"AWS credentials could not be refreshed: {exc}", retryable=True)
        if isinstance(exc, NoCredentialsError | ProfileNotFound):
            return self._missing(str(exc))
        if isinstance(exc, BotoCoreError | ClientError):
            return AuthenticationError(f"no valid AWS credentials: {exc}", status_code=401)
        return None


class GoogleSigner(_ThreadedSigner):
    """Adds an access token of Google's application default credentials, and refreshes it before it expires.

    https://cloud.google.com/docs/authentication/application-default-credentials
    """

    def _headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        import google.auth

        if self._credentials is None:
            self._credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE], request=_GOOGLE)
        added: dict[str, str] = {}
        self._credentials.before_request(_GOOGLE, method, url, added)
        return added

    def _error(self, exc: Exception) -> StreamfoldError | None:
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

        known = [getattr(self._credentials, name, None) for name in ("token", "refresh_token", "client_secret")]
        redactor = Redactor([secret for secret in known if isinstance(secret, str)], guess=True)
        said = redactor.text(str(exc.args[0]) if exc.args else type(exc).__name__)
        if isinstance(exc, DefaultCredentialsError):
            return self._missing(said)
        if isinstance(exc, TransportError) or getattr(exc, "retryable", False):
            return APIConnectionError(f"Google's access token could not be refreshed: {said}", retryable=True)
        if isinstance(exc, GoogleAuthError):
            return AuthenticationError(f"no valid Google credentials: {said}", status_code=401)
        return None


def _google_request(
    url: str, method: str = "GET", body: Any = None, headers: Any = None, timeout: float | None = 120, **_: Any
) -> Any:
    """Sends a request of google-auth, which would otherwise need another HTTP library.

    https://google-auth.readthedocs.io/en/latest/reference/google.auth.transport.html
    """
    from google.auth.exceptions import TransportError

    try:
        response = httpx.request(method, url, content=body, headers=headers, timeout=timeout)
    except httpx.HTTPError as exc:
        raise TransportError(f"{type(exc).__name__} at {httpx.URL(url).host}") from exc  # type: ignore[no-untyped-call]
    return SimpleNamespace(status=response.status_code, headers=response.headers, data=response.content)


_GOOGLE: Any = _google_request  # google-auth declares a class, and calls it like this function


# By the word of the configuration: the package that it needs, the extra that brings it, and the class.
SIGNERS: dict[str, tuple[str, str, Callable[[str], Signer]]] = {
    "sigv4": ("botocore", "bedrock", AWSSigner),
    "google": ("google.auth", "vertex", GoogleSigner),
}


def make_signer(auth: str, provider: str) -> Signer:
    """Returns what authenticates the requests of a provider. Reads nothing yet.

    Args:
        auth: a key of `SIGNERS`.
        provider: the provider's name, for errors.

    Raises:
        ConfigError: the extra that it needs is not installed.
    """
    package, extra, make = SIGNERS[auth]
    if not _is_installed(package):
        raise ConfigError(f"auth = \"{auth}\" needs the extra: pip install 'streamfold[{extra}]'")
    return make(provider)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
