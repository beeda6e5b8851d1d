"""`Endpoint`: the connections, limits and settings that all requests of a provider share."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Self

import httpx

from ..adapters import Adapter, PreparedRequest
from ..adapters.batches import EndpointRequest
from ..config import Profile, ResolvedEndpoint, timeouts_over
from ..errors import ConfigError
from ..net import HIDDEN, HTTPRequest, LoopBoundClient, Signer, aiohttp_problem, make_client, whole_answer_timeouts
from ..requests import NO_FAMILY, Family, PromptCacheMonitor, Request, with_endpoint_defaults
from ..types import Timeouts
from ..urls import shown_url
from .costs import ModelPrices
from .hooks import Hooks, RequestInfo
from .rejected_options import RestrictionCache

if TYPE_CHECKING:
    from ..limits import RateLimiter
    from ..requests import TimeoutOptions

_logger = logging.getLogger("streamfold.transport")

_COMMON_HEADERS = {
    "Accept-Encoding": "identity",  # a proxy that compresses a stream also delays it
    "Cache-Control": "no-store",
}
# Headers whose values differ between requests of the same user: `traceparent`, `X-Request-Id`, `Idempotency-Key`.
_OF_ONE_REQUEST = re.compile(
    r"(?:^|-)(?:trace\w*|span|baggage|request|correlation|idempotency|retry|timestamp|date)(?:-|$)", re.IGNORECASE
)
_MOST_MODELS = 100  # callers choose the names, for example clients of a gateway

_owner: ContextVar[str] = ContextVar("streamfold_owner", default="")


@contextmanager
def requests_of(owner: str) -> Iterator[None]:
    """Sets the owner of all requests that the program prepares inside the `with` block. If a server rejects an option,
    streamfold remembers the rejection only for requests of the same owner.

    Args:
        owner: the name of a user or tenant, such as the id of a gateway key. With "", requests with the same API key
            have the same owner.
    """
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


class ServedModel(NamedTuple):
    """A model at an endpoint: its adapter, its settings and what its model family supports. Models whose adapters have
    the same settings share one adapter.

    Attributes:
        profile: the settings for the model's wire format.
    """

    api: str
    profile: Profile
    adapter: Adapter
    family: Family
    origin: str
    prices: ModelPrices


class Endpoint:
    """The address, connections and limits that all requests of a provider share.

    If an environment variable in the configuration has changed, the next request uses the new value.

    Args:
        http_client: the caller's HTTP client. The endpoint never closes this client.

    Attributes:
        connections: creates the HTTP client, and returns it again for later requests.
        restrictions: remembers the parts of requests that the server has rejected.
        prompt_cache: compares a request that uses the provider's prompt cache with earlier requests, to warn about
            cache misses.
        patient: True to retry after a 429 response, False to raise an error instead.
    """

    def __init__(
        self, profile: Profile, http_client: httpx.AsyncClient | None = None, hooks: Iterable[Hooks] = ()
    ) -> None:
        self.profile = profile
        make = partial(make_client, profile.transport, http2=profile.http2)
        self.connections = LoopBoundClient(profile.name, http_client, make)
        self.hooks = tuple(hooks)
        self.restrictions = RestrictionCache()
        self.prompt_cache = PromptCacheMonitor()
        self.patient = True
        self._limiter: RateLimiter | None = None
        self._open_limiter: Callable[[], RateLimiter] | None = None
        if profile.is_limited:  # imported here, because an import at the first request would block the event loop
            from ..limits import provider_limiter

            self._open_limiter = partial(provider_limiter, profile)
        self._defaults = profile.default_options()
        self._adapters: dict[str, Adapter] = {}  # by the quirks of models
        self._models: dict[tuple[str, str | None], ServedModel] = {}  # by name and wire format
        self._resolved = profile.resolve()
        self._signer: Signer | None = None

    def with_limiter(self, limiter: RateLimiter, *, patient: bool) -> Self:
        """Returns a copy of this endpoint with another rate limiter, which the caller must close. Both endpoints share
        their connections and all other state.
        """
        limited = copy(self)
        limited._limiter, limited._open_limiter, limited.patient = limiter, None, patient
        return limited

    def prefer_aiohttp(self) -> None:
        """Sends requests with aiohttp if aiohttp is installed and supports the URL, unless the configuration sets
        `transport`.
        """
        if "transport" not in self.profile.model_fields_set:
            self.connections.make = partial(_make_preferred_client, self.profile)

    def limiter(self) -> RateLimiter | None:
        """Returns the rate limiter for all requests to this endpoint, or None if no limits are configured.

        Raises:
            ConfigError: the API key or the environment variable with the URL of the limits' store isn't set.
        """
        if self._limiter is None and self._open_limiter is not None:
            self._limiter = self._open_limiter()
        return self._limiter

    async def aclose(self) -> None:
        """Closes the HTTP client and the rate limiter, unless the caller passed them."""
        try:
            await self.connections.aclose()
        finally:
            if self._limiter is not None and self._open_limiter is not None:
                await self._limiter.aclose()

    def model(self, name: str | None, api: str | None = None) -> ServedModel:
        """Returns the adapter and the settings for a model.

        Args:
            api: the name of the wire format. None means the model's usual wire format.
        """
        name = name or ""
        if (model := self._models.get((name, api))) is None:
            if len(self._models) >= _MOST_MODELS:
                self._models.clear()
            profile = self.profile.for_model(name) if api is None else self.profile.on_api(api)
            quirks = f"{profile.adapter} {sorted(profile.quirks_of(name).items())}"
            made = profile.make_adapter(name)
            family, made.family = made.family, NO_FAMILY  # models share adapters, so each request has its own family
            adapter = self._adapters.setdefault(quirks, made)
            origin = profile.issuer or f"{profile.adapter} {shown_url(profile.base_url)}"
            model = ServedModel(profile.adapter, profile, adapter, family, origin, ModelPrices.of(profile, name))
            self._models[name, api] = model
        return model

    def other_api(self, api: str) -> str | None:
        """Returns "responses" for "chat" and "chat" for "responses", OpenAI's two APIs. Returns None for any other API,
        and if the configuration chooses one API with the key `api`.
        """
        pinned = self.profile.api not in (None, "auto")
        return None if pinned else {"chat": "responses", "responses": "chat"}.get(api)

    def request(self, request: Request, api: str | None = None) -> Request:
        """Returns a copy of the request with the configured model, the default options, and the facts about the model's
        family.

        Args:
            api: see `model`.

        Raises:
            ConfigError: neither the request nor the configuration names a model.
        """
        name = request.model or self.resolved().model
        if not name:
            provider = self.profile.name
            raise ConfigError(f'no model for "{provider}": write "{provider}:MODEL", or pass model=')
        model = self.model(name, api)
        return with_endpoint_defaults(request, name, self._defaults, model.origin, model.family)

    def owner(self) -> str:
        """Returns the owner of the current request: the argument of `requests_of`. If this is empty or missing, returns
        a digest of the API key."""
        if owner := _owner.get():
            return owner
        try:
            key = self.resolved().key
        except ConfigError:  # sending the request raises the error
            key = None
        return sha256((key or "").encode()).hexdigest()

    def account(self, api: str, extra_headers: Mapping[str, str] | None = None) -> str:
        """Returns a digest that identifies the account in which the provider's ids are valid.

        The digest covers the API, the URL, the API key and other headers that identify a user. If the provider needs
        cloud credentials, the digest also covers the environment variables that select them.

        Args:
            api: the name of the wire format.
            extra_headers: additional headers of this request.
        """
        endpoint, named = self.resolved(), list[tuple[str, str | None]]()
        try:
            url = endpoint.base_url
            own = endpoint.headers(extra_headers)
            headers = {name.lower(): value for name, value in own.headers.items() if not _OF_ONE_REQUEST.search(name)}
            named = sorted((headers if own.has_key else headers | endpoint.identity()).items())
        except ConfigError:  # sending the request raises the error
            url = shown_url(self.profile.base_url)
        return sha256(repr((_owner.get(), api, url, named)).encode("utf-8", "surrogatepass")).hexdigest()

    def request_info(self, path: str, request: Request, api: str | None = None) -> RequestInfo:
        """Returns the `RequestInfo` that hooks receive for a request to this URL path.

        Args:
            api: the name of the wire format. None means the model's usual wire format.
        """
        profile, url = self.profile, self.resolved().urls(path).named
        return RequestInfo(profile.name, api or self.model(request.model).api, url, request, profile.dialect)

    def resolved(self) -> ResolvedEndpoint:
        """Returns the URL, headers and API key, computed from the current environment variables."""
        if self._resolved.environment and not self._resolved.is_current:
            self._resolved = self.profile.resolve()
        return self._resolved

    def http_request(
        self,
        adapter: Adapter,
        ready: PreparedRequest | EndpointRequest,
        timeouts: Timeouts | TimeoutOptions | None = None,
        extra_headers: Mapping[str, str] | None = None,
        *,
        whole: bool = False,
    ) -> HTTPRequest:
        """Returns the HTTP request for a prepared call, with URL, API key and headers. Raises ConfigError.

        Args:
            timeouts, extra_headers: timeouts and headers for this request only.
            whole: True if the response is one JSON object, which needs longer timeouts than a stream.
        """
        endpoint = self.resolved()
        urls, own = endpoint.urls(ready.path), endpoint.headers(extra_headers)
        if not own.has_key and self._signer is None:
            self._signer = endpoint.make_signer()
        configured = self.profile.timeouts
        return HTTPRequest(
            method=ready.method,
            read_error=adapter.read_error,
            url=urls.sent,
            headers={**_COMMON_HEADERS, **ready.headers, **own.headers},
            body=ready.body,
            timeouts=timeouts_over(whole_answer_timeouts(configured) if whole else configured, timeouts),
            limits=self.profile.limits,
            shown_url=urls.shown,
            own_client=self.connections.owned,
            redactor=own.redactor,
            signer=None if own.has_key else self._signer,
        )

    def shown_headers(self, headers: Mapping[str, str], extra: Mapping[str, str] | None) -> dict[str, str]:
        """Returns a request's headers for `Preview`, with `***` for all values that may be secrets. No API key is
        needed.
        """
        profile = self.profile
        hidden = [*profile.headers, *(extra or ())]
        if profile.api_key is not None or profile.api_key_env or profile.auth != "key":
            hidden.append(profile.key_header)
        return {**_COMMON_HEADERS, **headers, **dict.fromkeys(hidden, HIDDEN)}


def headers_without_body(adapter: Adapter, request: Request) -> dict[str, str]:
    """Returns the adapter's headers for a request that has no body. `Content-Type` is left out."""
    return {name: value for name, value in adapter.headers(request).items() if name.lower() != "content-type"}


def _make_preferred_client(profile: Profile) -> httpx.AsyncClient:
    problem = "http2 = true" if profile.http2 else aiohttp_problem(profile.resolve().base_url)
    transport = "httpx" if problem else "aiohttp"
    _logger.info("%s: requests are sent with %s%s", profile.name, transport, f": {problem}" if problem else "")
    return make_client(transport, http2=profile.http2)
