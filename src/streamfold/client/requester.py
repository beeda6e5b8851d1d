"""From the arguments of a call to the request of one provider, and to its answer over the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..adapters import Adapter, PreparedRequest
from ..adapters.batches import BatchAPI, EndpointRequest
from ..answers import ChatParams, ChatStream
from ..config import Profile, timeouts_over
from ..engine import StreamDecoder, ToolNameMap
from ..engine.dialects import special_tokens
from ..errors import APIError, ConfigError, StreamfoldError
from ..limits import RateLimiter, is_limited, provider_limiter
from ..net import Exchange, HTTPRequest
from ..requests import (
    NO_FAMILY,
    Family,
    PromptCacheMonitor,
    Request,
    escape_special_tokens,
    has_cache_marks,
    raw_tools,
    read_headers,
    with_endpoint_defaults,
)
from ..types import Limits, ReplyWarning, Timeouts
from ..urls import shown_url
from .api_calls import APICall, BatchRequest, json_reader, non_streaming_timeouts
from .continuation import ContinuedAnswer, continued_arguments
from .costs import ModelPrices, ProfilePricing
from .endpoint import COMMON_HEADERS, Endpoint
from .hooks import Hooks, Notifier, RequestInfo
from .loop_bound_client import LoopBoundClient
from .network_stream import NetworkStream
from .prepared_call import HIDDEN, PreparedCall, Preview
from .rejected_options import DowngradeRetry, RestrictionCache, Restrictions, current_owner, with_restrictions

if TYPE_CHECKING:
    from ..requests import TimeoutOptions

T = TypeVar("T")

_MOST_MODELS = 100  # whose facts are kept; the names come from callers, those of a gateway included


class _Model(NamedTuple):
    """What is known about a model here. Models with the same `quirks` share an adapter."""

    adapter: str
    family: Family
    origin: str
    quirks: str
    prices: ModelPrices


class Requester:
    """Prepares the requests of one provider, without its fallbacks. Remembers what requests have taught about it."""

    def __init__(
        self,
        profile: Profile,
        connections: LoopBoundClient,
        hooks: tuple[Hooks, ...],
        limiter: RateLimiter | None = None,
        *,
        patient: bool = True,
        restrictions: RestrictionCache | None = None,
    ) -> None:
        self._profile = profile
        self._connections = connections
        self._hooks = hooks
        self._adapters: dict[str, Adapter] = {}  # by the quirks of models
        self._endpoint = Endpoint(profile)
        self._defaults = profile.default_options()
        self._models: dict[str, _Model] = {}
        self._prefixes = PromptCacheMonitor()
        self.restrictions = restrictions or RestrictionCache()
        self._remembering = Hooks(on_request=partial(_remember, self._prefixes))
        self._limiter = limiter
        self._is_limited = is_limited(profile)
        self._owns_limiter = limiter is None
        self._patient = patient

    def answer(self, arguments: ChatParams) -> NetworkStream:
        """Returns the answer, before anything is sent. Raises ConfigError."""
        request = self._chosen(arguments)
        owner = self._owner()
        known = self.restrictions.find(request.model, owner, request)
        adapter = known.adapter or self._adapter(request.model)
        ready = self._prepared(adapter, request, arguments, known)
        changed: list[ReplyWarning] = []
        hooks = self._hooks
        if not arguments.many and has_cache_marks(request):
            changed = self._prefixes.changed(request)
            hooks = (self._remembering, *hooks)
        answer = NetworkStream(
            self._plan(adapter, ready, request, arguments, changed),
            self._notifier(ready, request, hooks),
            self._connections,
            max_retries=self._profile.max_retries,
            milder=DowngradeRetry(
                self.restrictions,
                owner,
                request,
                known,
                plan=partial(self._milder_plan, request, arguments, changed),
                strict=self._is_strict(request),
            ),
            continuation=partial(self.continued, arguments),
            limiter=self.limiter(),
        )
        if arguments.fail_fast or not self._patient:
            answer.fail_fast()
        return answer

    def limiter(self) -> RateLimiter | None:
        """Returns what requests wait for, always the same; None: nothing. Raises ConfigError if it can't be made."""
        if self._limiter is None and self._is_limited:
            self._limiter = provider_limiter(self._profile)
        return self._limiter

    async def aclose(self) -> None:
        """Closes the store of the limits, if it was opened here."""
        if self._limiter is not None and self._owns_limiter:
            await self._limiter.aclose()

    def continued(self, arguments: ChatParams, error: APIError) -> ChatStream:
        """Returns the rest of an answer that broke off. Raises StreamfoldError if it can't be had."""
        ready = continued_arguments(arguments, error)
        request = self._chosen(ready)
        how = self._adapter(request.model).continues(request)
        if how is None or error.partial is None:
            raise StreamfoldError(
                f'resume(): provider "{self._profile.name}" can\'t continue a text (see ChatQuirks.continues): send the'
                " request again"
            )
        again = partial(self.continued, arguments)
        source = self.answer(ready)
        return ChatStream(ContinuedAnswer(source, error.partial, echo=how == "with_echo", again=again))

    def count(self, arguments: ChatParams) -> APICall[int]:
        """Returns the count of the prompt's tokens, before anything is sent. Raises ConfigError."""
        request = self._chosen(arguments)
        adapter = self._adapter(request.model)
        ready = adapter.prepare_count(request, repair_history=arguments.repair_history, endpoint=self._profile)
        return APICall(
            self._http_request(adapter, ready, arguments.extra_headers, arguments.timeouts),
            self._notifier(ready, request, ()),  # hooks are told of answers
            self._connections,
            max_retries=self._profile.max_retries,
            read=json_reader("a count of tokens", adapter.read_count, self._profile.limits),
        )

    def batched(self, arguments: ChatParams, api: BatchAPI) -> BatchRequest:
        """Returns a request for a batch of the provider. Raises ConfigError."""
        if arguments.extra_headers:
            raise ConfigError("extra_headers: a request of a batch has no headers of its own")
        request = self._chosen(arguments)
        known = self.restrictions.find(request.model, self._owner(), request)
        adapter = known.adapter or self._adapter(request.model)
        ready = self._prepared(adapter, request, arguments, known)
        return BatchRequest(
            ready,
            api.group(ready),
            self._profile.name,
            api,
            adapter,
            partial(self._decoder, adapter, ready.request, None, False),
            replace(self._pricing(ready.request.model), batched=True),
            self._profile.secrets,
        )

    def call(
        self,
        call: EndpointRequest,
        read: Callable[[Exchange], Awaitable[T]],
        timeouts: Timeouts,
        limits: Limits,
        max_retries: int | None,
    ) -> APICall[T]:
        """Returns a call of a batch API, before anything is sent. Raises ConfigError."""
        profile = self._profile
        request = self._http_request(self._adapter(profile.sent_model()), call, None, timeouts)
        url = self._endpoint.urls(call.path).named
        info = RequestInfo(profile.name, profile.adapter_of(profile.model), url, Request("", ()), None)
        return APICall(
            request._replace(limits=limits),
            Notifier(info, ()),
            self._connections,
            max_retries=profile.max_retries if max_retries is None else max_retries,
            read=read,
        )

    def preview(self, arguments: ChatParams) -> Preview:
        """Returns the request that `answer` would send. Raises ConfigError."""
        request = self._chosen(arguments)
        known = self.restrictions.find(request.model, self._owner(), request)
        ready = self._prepared(known.adapter or self._adapter(request.model), request, arguments, known)
        warnings = (*ready.warnings, *self._prefixes.changed(request))
        profile = self._profile
        hidden = [*profile.headers, *read_headers(arguments.extra_headers)]
        if profile.api_key is not None or profile.api_key_env or profile.auth != "key":
            hidden.append(profile.key_header)
        headers = {**COMMON_HEADERS, **ready.headers, **dict.fromkeys(hidden, HIDDEN)}
        return Preview(ready.method, profile.url_of(ready.path), headers, ready.body, warnings)

    def _notifier(self, ready: PreparedRequest, request: Request, hooks: tuple[Hooks, ...]) -> Notifier:
        profile = self._profile
        url = self._endpoint.urls(ready.path).named
        adapter = self._facts(request.model).adapter
        return Notifier(RequestInfo(profile.name, adapter, url, request, profile.dialect), hooks)

    def _adapter(self, model: str | None) -> Adapter:
        """Returns the adapter for a model. Models with the same quirks share one."""
        return self._adapters[self._facts(model).quirks]

    def _facts(self, model: str | None) -> _Model:
        model = model or ""
        if (facts := self._models.get(model)) is None:
            if len(self._models) >= _MOST_MODELS:
                self._models = {}
            profile, api = self._profile, self._profile.adapter_of(model)
            quirks = f"{api} {sorted(profile.quirks_of(model).items())}"
            made = profile.make_adapter(model)
            family, made.family = made.family, NO_FAMILY  # it is shared: each request says what its model is
            self._adapters.setdefault(quirks, made)
            origin = profile.issuer or f"{api} {shown_url(profile.base_url)}"
            facts = self._models[model] = _Model(api, family, origin, quirks, ModelPrices.of(profile, model))
        return facts

    def _pricing(self, model: str) -> ProfilePricing:
        return ProfilePricing.of(self._facts(model).prices)

    def _chosen(self, arguments: ChatParams) -> Request:
        """Returns the request with the configured model if it names none, and with the facts about this endpoint."""
        model = arguments.request.model or self._profile.sent_model()
        if not model:
            raise ConfigError(
                f'no model for "{self._profile.name}": write "{self._profile.name}:MODEL", or pass model='
            )
        facts = self._facts(model)
        return with_endpoint_defaults(arguments.request, model, self._defaults, facts.origin, facts.family)

    def _owner(self) -> str:
        """Returns for whom refusals are remembered: the owner that was named, else that of the API key."""
        if owner := current_owner():
            return owner
        try:
            key = self._profile.key()
        except ConfigError:  # sending the request says so
            key = None
        return sha256((key or "").encode()).hexdigest()

    def _prepared(
        self, adapter: Adapter, request: Request, arguments: ChatParams, restrictions: Restrictions
    ) -> PreparedRequest:
        """Returns the request as it is sent with restrictions."""
        if restrictions.only_streams and not request.stream:
            request = replace(request, stream=True)
        request, changes = self._escaped(request)
        if restrictions.lessons and not self._is_strict(request):
            request, taught = with_restrictions(request, restrictions.lessons)
            changes = [*changes, *taught]
        ready = adapter.prepare(request, repair_history=arguments.repair_history, endpoint=self._profile)
        return replace(ready, warnings=(*changes, *ready.warnings)) if changes else ready

    def _escaped(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        """Returns the request with the model's special tokens escaped in its messages, if that is configured."""
        profile = self._profile
        if not profile.escape_special_tokens:
            return request, []
        model = (profile.model_family or request.model) if profile.renders_templates else None
        tokens = special_tokens(profile.dialect, model)
        return escape_special_tokens(request, tokens.text, tokens.history) if tokens else (request, [])

    def _is_strict(self, request: Request) -> bool:
        """Whether options are sent as the caller wrote them, or not at all."""
        return request.options.unsupported_options == "strict"

    def _plan(
        self,
        adapter: Adapter,
        ready: PreparedRequest,
        request: Request,
        arguments: ChatParams,
        changed: Iterable[ReplyWarning],
    ) -> PreparedCall:
        wanted = request.options.parallel_tool_calls
        return PreparedCall(
            adapter=adapter,
            sent=ready.request,
            request=self._http_request(
                adapter, ready, arguments.extra_headers, arguments.timeouts, whole=not ready.request.stream
            ),
            decoder=partial(self._decoder, adapter, ready.request, arguments.coalesce),
            reconnect=partial(self._reconnect, adapter, ready.request, arguments),
            warnings=(*ready.warnings, *changed),
            origin=ready.request.origin,
            pricing=self._pricing(ready.request.model),
            one_call=wanted is False and ready.request.options.parallel_tool_calls is None,
            whole=not request.stream,
        )

    def _milder_plan(
        self,
        request: Request,
        arguments: ChatParams,
        changed: Iterable[ReplyWarning],
        restrictions: Restrictions,
    ) -> PreparedCall:
        adapter = restrictions.adapter or self._adapter(request.model)
        ready = self._prepared(adapter, request, arguments, restrictions)
        return self._plan(adapter, ready, request, arguments, changed)

    def _reconnect(
        self, adapter: Adapter, request: Request, arguments: ChatParams, answer_id: str, after: int
    ) -> HTTPRequest | None:
        """Returns the request for the rest of an answer that the provider keeps; None if it does not."""
        path = adapter.resume_path(request, answer_id, after)
        if path is None:
            return None
        headers = {name: value for name, value in adapter.headers(request).items() if name.lower() != "content-type"}
        ready = PreparedRequest(request, "GET", path, headers, b"")
        return self._http_request(adapter, ready, arguments.extra_headers, arguments.timeouts)

    def _decoder(
        self, adapter: Adapter, request: Request, coalesce: bool | None, partial_tool_calls: bool
    ) -> StreamDecoder:
        return StreamDecoder(
            adapter,
            dialect=self._profile.dialect,
            tools=(*request.tools, *raw_tools(request.options)),
            tool_choice=request.tool_choice,
            limits=self._profile.limits,
            stop=request.options.cut_at or (),
            names=ToolNameMap(request.names, request.answer_tool),
            partial_tool_calls=partial_tool_calls,
            coalesce=self._profile.coalesce if coalesce is None else coalesce,
        )

    def _http_request(
        self,
        adapter: Adapter,
        ready: PreparedRequest | EndpointRequest,
        extra_headers: Mapping[str, str] | None,
        timeouts: Timeouts | TimeoutOptions | None,
        *,
        whole: bool = False,
    ) -> HTTPRequest:
        if whole:
            timeouts = timeouts_over(non_streaming_timeouts(self._profile.timeouts), timeouts)
        return self._endpoint.request(adapter, ready, timeouts, extra_headers, own_client=self._connections.owned)


def _remember(prefixes: PromptCacheMonitor, info: RequestInfo) -> None:
    prefixes.remember(info.request)
