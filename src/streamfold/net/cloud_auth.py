"""Authenticates requests with cloud credentials: signs each request, or adds an access token that expires.

The cloud vendor's Python library finds and refreshes the credentials. The library runs in a thread, because it reads
files and sends requests.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from threading import Lock
from time import time
from types import SimpleNamespace
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from anyio import to_thread

from ..errors import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AuthenticationError,
    NotConfiguredError,
    StreamfoldError,
)
from .error_redaction import clear_frames
from .redaction import Redactor

# bedrock-runtime.REGION.amazonaws.com, also with -fips, as a private endpoint (vpce), and in China (.com.cn);
# bedrock-mantle.REGION.api.aws.
_AWS_REGION = re.compile(r"(?:^|\.)bedrock-(?:runtime|mantle)(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.")
# Seconds before a Microsoft token expires at which it is replaced, as in azure-core; at most a fifth of its lifetime.
_REFRESH_BEFORE = 300


@dataclass(frozen=True, slots=True)
class Signature:
    """The secret headers that authenticate one attempt of a request.

    Attributes:
        generation: a number that identifies the credentials of this signature. Later credentials have higher numbers.
    """

    headers: Mapping[str, str] = field(repr=False)
    generation: int = 0


class Signer(Protocol):
    """Authenticates each attempt of a request with credentials that may expire."""

    async def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Signature:
        """Returns the authentication headers for a request. Refreshes credentials that expire soon.

        Raises:
            NotConfiguredError: no credentials were found.
            AuthenticationError: the server refused to refresh the credentials.
            APIConnectionError: the server that refreshes credentials could not be reached.
        """
        ...

    def discard(self, signature: Signature) -> None:
        """Discards the credentials of a refused signature. The signer then looks for new credentials."""
        ...


class _ThreadedSigner(ABC):
    """Base class of signers. The method `_headers` runs in a thread, because it may block.

    Only one call runs at a time, so that parallel requests refresh the credentials only once. See `make_signer`.
    """

    def __init__(self, provider: str, audience: str, key_variables: Sequence[str] = ()) -> None:
        self._provider = provider
        self._audience = audience
        self._keys = key_variables
        self._lock = Lock()
        self._credentials: Any = None
        self._generation = 0
        self._refused = -1  # the newest generation of credentials that a server has refused

    async def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Signature:
        return await to_thread.run_sync(self._locked, method, url, headers, body, abandon_on_cancel=True)

    def discard(self, signature: Signature) -> None:
        self._refused = max(self._refused, signature.generation)

    def _locked(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Signature:
        try:
            with self._lock:
                if self._refused >= self._generation:
                    self._credentials = None
                    self._generation += 1
                return Signature(self._headers(method, url, headers, body), self._generation)
        except StreamfoldError:
            raise
        except Exception as exc:
            error = self._error(exc)
            if error is None:
                raise
            clear_frames(exc)
            raise error from None  # the library's frames contain credentials

    @abstractmethod
    def _headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Returns the authentication headers that the cloud vendor's library computes for a request."""

    @abstractmethod
    def _error(self, exc: Exception) -> StreamfoldError | None:
        """Converts an exception of the cloud vendor's library to an error. Returns None if the cause isn't the
        credentials.
        """

    def _missing(self, how: str) -> NotConfiguredError:
        key = f"; or set {' or '.join(self._keys)}" if self._keys else ""
        return NotConfiguredError(f'no credentials for "{self._provider}": {how}{key}')


class AWSSigner(_ThreadedSigner):
    """Signs requests to Amazon Bedrock (Signature Version 4) with the credentials that the AWS command line uses.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
    """

    _session: Any = None

    def _headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import Session

        if self._credentials is None:
            self._session = Session()
            self._credentials = self._session.get_credentials()
        if self._credentials is None:
            raise self._missing(
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws configure` or"
                " `aws sso login`"
            )
        frozen = self._credentials.get_frozen_credentials()  # refreshes them if they expire soon
        now = datetime.now(UTC).strftime(SIGV4_TIMESTAMP)
        added = {"X-Amz-Date": now}
        if frozen.token:
            added["X-Amz-Security-Token"] = frozen.token
        # AWS requires the host, the type and its own headers. A proxy may change others.
        own = {name: text for name, text in headers.items() if name.lower().startswith(("content-type", "x-amz"))}
        request = AWSRequest(method=method, url=url, headers={**own, **added}, data=body)
        request.context["timestamp"] = now
        auth = SigV4Auth(frozen, self._audience, self._region(url))
        # The steps of `add_auth`, which would write the token to the log.
        signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
        names = auth.signed_headers(auth.headers_to_sign(request))
        scheme = f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, Signature={signature}"
        return {**added, "Authorization": scheme}

    def _region(self, url: str) -> str:
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
    """Adds an access token from Google's application default credentials to requests. Refreshes the token before it
    expires.

    https://cloud.google.com/docs/authentication/application-default-credentials
    """

    def _headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        import google.auth

        if self._credentials is None:
            self._credentials, _ = google.auth.default(scopes=[self._audience], request=_GOOGLE)
        added: dict[str, str] = {}
        self._credentials.before_request(_GOOGLE, method, url, added)
        return added

    def _error(self, exc: Exception) -> StreamfoldError | None:
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

        known = [getattr(self._credentials, name, None) for name in ("token", "refresh_token", "client_secret")]
        redactor = Redactor([secret for secret in known if isinstance(secret, str)], guess=True)
        said = redactor.text(str(exc.args[0]) if exc.args else type(exc).__name__)
        if isinstance(exc, DefaultCredentialsError):
            return self._missing(
                f"{said.rstrip('.')}. Run `gcloud auth application-default login`, or set"
                " GOOGLE_APPLICATION_CREDENTIALS"
            )
        if isinstance(exc, TransportError) or getattr(exc, "retryable", False):
            return APIConnectionError(f"Google's access token could not be refreshed: {said}", retryable=True)
        if isinstance(exc, GoogleAuthError):
            return AuthenticationError(f"no valid Google credentials: {said}", status_code=401)
        return None


def _google_request(
    url: str, method: str = "GET", body: Any = None, headers: Any = None, timeout: float | None = 120, **_: Any
) -> Any:
    """Sends a request of the package google-auth with httpx, so that no other HTTP library is needed.

    https://google-auth.readthedocs.io/en/latest/reference/google.auth.transport.html
    """
    from google.auth.exceptions import TransportError

    try:
        response = httpx.request(method, url, content=body, headers=headers, timeout=timeout)
    except httpx.HTTPError as exc:
        raise TransportError(f"{type(exc).__name__} at {httpx.URL(url).host}") from exc  # type: ignore[no-untyped-call]
    return SimpleNamespace(status=response.status_code, headers=response.headers, data=response.content)


_GOOGLE: Any = _google_request  # google-auth expects an instance of a class, but only calls it


class EntraSigner(_ThreadedSigner):
    """Adds a Microsoft Entra ID access token to requests. Azure's `DefaultAzureCredential` gets the token.

    https://learn.microsoft.com/azure/developer/python/sdk/authentication/credential-chains#defaultazurecredential-overview
    """

    _token: Any = None
    _renew_at = 0.0

    def _headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        from azure.identity import DefaultAzureCredential

        if self._credentials is None:
            self._credentials, self._token = DefaultAzureCredential(), None
        now = time()
        if self._token is None or now >= self._renew_at:
            self._token = self._credentials.get_token(self._audience)
            left = self._token.expires_on - now
            self._renew_at = now + left - min(_REFRESH_BEFORE, left / 5)
        return {"Authorization": f"Bearer {self._token.token}"}

    def _error(self, exc: Exception) -> StreamfoldError | None:
        from azure.core.exceptions import (
            AzureError,
            ClientAuthenticationError,
            ServiceRequestError,
            ServiceResponseError,
        )
        from azure.identity import CredentialUnavailableError

        said = Redactor(guess=True).text(str(exc.args[0]) if exc.args else type(exc).__name__)
        if isinstance(exc, ServiceRequestError | ServiceResponseError):
            return APIConnectionError(f"Microsoft Entra ID could not be reached: {said}", retryable=True)
        # The chain of credentials raises the same exception for missing and for refused credentials.
        if isinstance(exc, CredentialUnavailableError) or "failed to retrieve a token from the included" in said:
            return self._missing(
                "run `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
                f" ({said.partition(chr(10))[0]})"
            )
        if isinstance(exc, ClientAuthenticationError | AzureError):
            return AuthenticationError(f"no valid Microsoft Entra ID credentials: {said}", status_code=401)
        return None


@dataclass(frozen=True, slots=True)
class _Kind:
    package: str
    extra: str
    make: Callable[[str, str, Sequence[str]], Signer]
    audience: str


SIGNERS: dict[str, _Kind] = {  # by the value of `auth`
    "sigv4": _Kind("botocore", "bedrock", AWSSigner, "bedrock"),
    "google": _Kind("google.auth", "vertex", GoogleSigner, "https://www.googleapis.com/auth/cloud-platform"),
    "entra": _Kind("azure.identity", "azure", EntraSigner, "https://cognitiveservices.azure.com/.default"),
}


def make_signer(auth: str, provider: str, *, audience: str | None = None, key_variables: Sequence[str] = ()) -> Signer:
    """Returns a signer for a provider's requests. The signer looks for credentials when the first request is sent.

    Args:
        auth: a key of `SIGNERS`.
        provider: the provider's name, for errors.
        audience: the name of the AWS service or the scope of the access token. None means the default of this kind of
            authentication.
        key_variables: environment variables that may contain an API key. Errors suggest these variables as an
            alternative to cloud credentials.

    Raises:
        NotConfiguredError: the cloud vendor's library is not installed.
    """
    kind = SIGNERS[auth]
    if not _is_installed(kind.package):
        keys = f"set {' or '.join(key_variables)}, or " if key_variables else ""
        raise NotConfiguredError(
            f'no credentials for "{provider}": {keys}install what auth = "{auth}" needs:'
            f" pip install 'streamfold[{kind.extra}]'"
        )
    return kind.make(provider, audience or kind.audience, key_variables)


def may_be_expired(error: APIError) -> bool:
    """Returns True if the server may have refused the credentials because they have expired.

    Besides status 401, this includes a 403 whose message contains "expired", as AWS sends it:
    https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html
    """
    if not isinstance(error, APIStatusError):
        return False
    return error.status_code == 401 or (
        error.status_code == 403 and "expired" in f"{error.message} {error.body}".lower()
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
