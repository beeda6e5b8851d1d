"""Computes the URL, the headers, the API key and the secrets of a provider from the environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from ..errors import ConfigError, NotConfiguredError
from ..net import Redactor, Signer, make_signer, secrets_in_headers, secrets_in_url
from ..requests import header_problem
from ..urls import expand_variables, shown_url, variable_names
from .environment import read_environment
from .store_settings import store_url
from .toml_positions import KeyPath

if TYPE_CHECKING:
    from pydantic import SecretStr

# The paths of each API, which a base URL must not contain.
_PATH_OF_API = re.compile(r"(/chat/completions|/responses|/messages|/models/[^/]+:(?:stream)?[gG]enerateContent)/*$")
# Variables with which cloud SDKs select credentials.
_IDENTITIES = {
    "sigv4": ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN"),
    "google": ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GOOGLE_CLOUD_QUOTA_PROJECT"),
    "entra": ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_USERNAME"),
}
_MOST_PATHS = 64  # a path may contain the id of an answer or a file


class EndpointSettings(Protocol):
    name: str
    base_url: str
    api_key: SecretStr | None
    api_key_env: tuple[str, ...]
    key_header: str
    auth: Literal["key", "sigv4", "google", "entra"]
    auth_scope: str | None
    model: str | None
    headers: dict[str, str]
    turn_cache: str | bool | None
    untrusted_file: str | None

    def references(self) -> dict[KeyPath, str]: ...
    def key_variables(self) -> list[str]: ...
    def url_of(self, path: str) -> str: ...


@dataclass(frozen=True, slots=True)
class URLs:
    """The URL for one API path, in three versions.

    Attributes:
        sent: the URL to which the request is sent. It may contain secrets.
        shown: the URL for error messages, without the values of environment variables and without other secrets.
        named: the URL in which environment variables appear as references, such as `${GATEWAY}`.
    """

    sent: str = field(repr=False)
    shown: str
    named: str


@dataclass(frozen=True, slots=True)
class EndpointHeaders:
    """The configured HTTP headers, and a redactor for the secrets in them.

    Attributes:
        headers: the HTTP headers, including the API key.
        has_key: True if the headers contain an API key.
        redactor: removes the secrets in the headers from texts.
    """

    headers: Mapping[str, str] = field(repr=False)
    has_key: bool
    redactor: Redactor


@dataclass(frozen=True)
class ResolvedEndpoint:
    """The URL, the headers and the API key for a provider's requests. Each is computed when it is first read.

    Attributes:
        environment: the environment variables that the profile refers to. The value is None for a variable that isn't
            set.

    Raises:
        NotConfiguredError: at the first read, an environment variable isn't set, or an untrusted file chooses the host.
        ConfigError: at the first read, a value contains characters that HTTP doesn't allow.
    """

    profile: EndpointSettings = field(repr=False)
    environment: Mapping[str, str | None] = field(repr=False)
    _urls: dict[str, URLs] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_current(self) -> bool:
        """True if no environment variable of the profile has changed since this object was created."""
        return read_environment(self.environment) == self.environment

    @cached_property
    def key(self) -> str | None:
        """The API key, or None if the provider needs no API key or `auth` selects another authentication."""
        profile = self.profile
        if profile.api_key is not None:
            return self._sendable("api_key", self._expand("api_key").strip())
        for variable in profile.api_key_env:
            if key := self.environment[variable]:
                self._check_trusted(variable)
                return self._sendable(variable, key)
        if profile.api_key_env and profile.auth == "key":
            raise NotConfiguredError(f'no API key for "{profile.name}": set {" or ".join(profile.api_key_env)}')
        return None

    @property
    def keys_set(self) -> dict[str, bool]:
        """The environment variables that may contain the API key. The value is True if the variable is set."""
        return {name: self.environment[name] is not None for name in self.profile.key_variables()}

    @cached_property
    def key_headers(self) -> dict[str, str]:
        """The HTTP header that contains the API key. Empty if the provider needs no API key."""
        if not self.key:
            return {}
        address = self.profile.base_url
        with suppress(NotConfiguredError):  # a variable in the URL isn't set, which the request reports
            address = self.base_url
        if "@" in urlsplit(address).netloc:
            raise ConfigError(
                f'provider "{self.profile.name}": base_url contains a user name, which would replace the API key:'
                " remove the user name or the API key"
            )
        header = self.profile.key_header
        return {header: f"Bearer {self.key}" if header.lower() == "authorization" else self.key}

    @cached_property
    def base_url(self) -> str:
        url: str = normalized_url(self._expand("base_url"))
        try:
            check_url(url)
        except ValueError as exc:
            names = " and ".join(variable_names(self.profile.base_url))
            text = f"with the value of {names}, it {exc}" if names else str(exc)
            raise ConfigError(f'provider "{self.profile.name}": base_url: {text}') from None
        base, mark, query = url.partition("?")
        # A gateway's URL may end with a slash.
        return re.sub(r"(?<=[^:/])//+", "/", base).rstrip("/") + mark + query

    def urls(self, path: str = "") -> URLs:
        if (urls := self._urls.get(path)) is None:
            sent = joined_url(self.base_url, path)
            scheme, mark, rest = sent.partition("://")
            shown = scheme + mark + shown_url("//" + Redactor(self._url_secrets()).text(rest))[2:]
            if len(self._urls) >= _MOST_PATHS:
                self._urls.clear()
            urls = self._urls[path] = URLs(sent, shown, self.profile.url_of(path))
        return urls

    def headers(self, extra: Mapping[str, str] | None = None) -> EndpointHeaders:
        """Returns the headers for a request, and a redactor for the secrets in them.

        Args:
            extra: additional headers for this request.
        """
        return self._headers(extra) if extra else self._configured_headers

    @cached_property
    def _configured_headers(self) -> EndpointHeaders:
        return self._headers({})

    def _headers(self, extra: Mapping[str, str]) -> EndpointHeaders:
        sent = self.key_headers | self._sent_headers(extra)
        return EndpointHeaders(sent, bool(self.key_headers), Redactor(self.secrets(extra)))

    def _sent_headers(self, extra: Mapping[str, str]) -> dict[str, str]:
        own = {name: self._sendable(f"headers.{name}", self._expand("headers", name)) for name in self.profile.headers}
        return own | {name: self._sendable(f"extra_headers: {name}", text) for name, text in extra.items()}

    @cached_property
    def model(self) -> str | None:
        return None if self.profile.model is None else self._expand("model")

    @property
    def turn_cache(self) -> str | bool:
        """The URL of the store for the turn cache, True for the default store, or False if there is no turn cache."""
        where = self.profile.turn_cache
        if not isinstance(where, str):
            return bool(where)
        if variable_names(where):
            self._check_trusted("a variable in turn_cache")
        return store_url(where)

    def identity(self) -> dict[str, str | None]:
        """Returns the environment variables that select cloud credentials, and their values."""
        return read_environment(_IDENTITIES.get(self.profile.auth, ()))

    def make_signer(self) -> Signer | None:
        """Returns an object that authenticates requests without an API key, or None if `auth` is "key".

        Raises:
            NotConfiguredError: there are no credentials, or the extra for `auth` isn't installed.
        """
        auth, profile = self.profile.auth, self.profile
        if auth == "key":
            return None
        self._check_trusted(f"a credential that auth = {auth!r} finds on this machine")
        return make_signer(auth, profile.name, audience=profile.auth_scope, key_variables=profile.api_key_env)

    def problem(self) -> str | None:
        """Returns the reason why no request can be sent, or None if requests can be sent."""
        try:
            self.secrets()
            _ = self.base_url, self.model
        except ConfigError as exc:
            return str(exc)
        return None

    def secrets(self, extra: Mapping[str, str] | None = None) -> list[str]:
        """Returns the secrets to remove from logs and errors. A server's response may echo them.

        The secrets are the API key, the values of all headers and environment variables, and the URL's password and
        query.
        """
        keys = self.profile.key_variables()
        found = [self.key or "", *self._url_secrets()]
        found += [value for name, value in self.environment.items() if value is not None and name not in keys]
        found += secrets_in_headers([*self.key_headers.items(), *self._sent_headers(extra or {}).items()])
        return [secret for secret in dict.fromkeys(found) if secret]

    def _url_secrets(self) -> list[str]:
        found = []
        for variable in variable_names(self.profile.base_url):
            value = self.environment[variable] or ""
            rest = value.partition("://")[2].rstrip("/")  # libraries quote parts of a URL in their errors
            found += [value, rest, rest.partition("/")[0], rest.partition("/")[2]]
        return [*found, *secrets_in_url(self._expand("base_url"))]

    def _expand(self, *path: str) -> str:
        key, text = ".".join(path), self.profile.references()[path]

        def value(variable: str) -> str:
            if (found := self.environment[variable]) is None:
                raise NotConfiguredError(f'provider "{self.profile.name}": {key}: {variable} is not set')
            return found

        expanded = expand_variables(text, value)
        if names := variable_names(text):
            self._check_trusted(f"{' and '.join(names)} in {key}")
        return expanded

    def _check_trusted(self, what: str) -> None:
        # Values from the environment are never sent to a host that an untrusted file chooses.
        profile = self.profile
        if profile.untrusted_file is not None:
            raise NotConfiguredError(
                f'provider "{profile.name}": {what} is not sent to {shown_url(profile.base_url)}:'
                f" {untrusted(profile.untrusted_file)}"
            )

    def _sendable(self, key: str, value: str) -> str:
        # The HTTP library's own error would quote the value, escaped, so that no redaction finds it.
        if problem := header_problem(value):
            raise ConfigError(f'provider "{self.profile.name}": {key}: {problem}')
        return value


def check_url(url: str) -> None:
    """Raises ValueError if the argument isn't a valid base URL. The error message doesn't quote the argument."""
    if not url.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("must not contain spaces or control characters")
    if "#" in url:
        raise ValueError("must not have a fragment (#...), which is never sent")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError("must have a valid host") from None
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("must have a port between 0 and 65535") from None
    try:
        host.encode("idna").decode("idna")
    except UnicodeError:  # an "xn--" that is not an encoded name, a label of more than 63 characters
        host = ""
    if not host:
        raise ValueError("must have a valid host")
    if found := _PATH_OF_API.search(parts.path):
        right = shown_url(parts._replace(path=parts.path[: found.start()], query="").geturl())
        raise ValueError(f"must end before {found[1]}, which streamfold adds: {right}")


def same_origin(one: Any, other: Any) -> bool:
    """Returns True if two URLs have the same scheme, host and port, and don't contain environment variables."""
    if not (isinstance(one, str) and isinstance(other, str)) or variable_names(one) or variable_names(other):
        return False
    try:
        first, second = urlsplit(one), urlsplit(other)
    except ValueError:
        return False
    return (first.scheme, first.netloc) == (second.scheme, second.netloc)


def joined_url(base_url: str, path: str) -> str:
    """Joins a base URL and a path. Both may end with a query, and the result contains both queries."""
    base, _, query = base_url.partition("?")
    path, _, more = path.partition("?")
    queries = "&".join(filter(None, (query, more)))
    return base + path + ("?" + queries if queries else "")


def normalized_url(url: Any) -> Any:
    """Strips white space around a URL and converts its scheme to lower case. Returns other types unchanged."""
    if not isinstance(url, str):
        return url
    scheme, mark, rest = url.strip().partition("://")
    return scheme.lower() + mark + rest if mark and scheme.lower() in ("http", "https") else url.strip()


def untrusted(file: str) -> str:
    """Returns the error message that explains why a file in the working directory may not use environment variables,
    and how to trust the file.
    """
    path = Path(file).absolute()
    return (
        f"{file} is in the working directory, and may belong to someone else. If you trust this file:"
        f" `streamfold config trust {path}`; or set STREAMFOLD_CONFIG={path}"
    )
