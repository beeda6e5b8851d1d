"""Providers: the join of configuration, the pure path and the network."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import httpx

from ..adapters import find_adapter
from ..answers import BackendInfo, BaseChatModel, ChatParams, ChatStream, ChunkSource, ModelInfo, get_model_info
from ..config import Config, Profile, load_profiles
from ..limits import RateLimiter
from ..net import scrubs_traceback
from ..requests import Capabilities, ChatOptions, Request
from ..turn_cache import CachingAnswer, TurnCache, TurnStore, read_turn_cache
from ..types import GeneratedFile, Messages, Timeouts, ToolChoice, ToolLike
from ..urls import shown_url
from .batches import BatchClient, fetch_file
from .costs import ModelPrices, ProfilePricing
from .fallback import Candidate, FallbackPolicy, candidates
from .hooks import Hooks, read_hooks
from .loop_bound_client import LoopBoundClient
from .prepared_call import Preview
from .requester import Requester

if TYPE_CHECKING:
    from ..answers import ChatModel
    from ..config import ProviderConfig
    from ..requests import TimeoutOptions


class Provider(BaseChatModel):
    """A language model behind an endpoint. Safe to share between the tasks of one event loop.

        async with Provider.from_config("kimi:kimi-k2.6") as provider:
            print((await provider.chat("Hello")).text)

    Make one with `from_config`. Use it as an async context manager, or call `aclose` at the end.

    Args:
        profile: the configuration.
        http_client: the client to send with. It remains the caller's and is not closed.
        hooks: functions that are called while answers are requested and read.
        fallbacks: models that are asked when this one fails, as with `Fallback`. `aclose` closes them.
        turn_cache: gives earlier turns back what they have lost, see `TurnCache`: a cache or a store, which remains the
            caller's and is not closed; or a name such as "sqlite:///turns.db". Default: what the profile says.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        http_client: httpx.AsyncClient | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        fallbacks: Iterable[ChatModel] = (),
        turn_cache: TurnCache | TurnStore | str | bool | None = None,
    ) -> None:
        self.profile = profile
        self.turn_cache = read_turn_cache(profile.sent_turn_cache() if turn_cache is None else turn_cache)
        self._owns_turn_cache = isinstance(turn_cache, str | bool | None)
        self.hooks = read_hooks(hooks)
        self.fallbacks = tuple(fallbacks)
        self._failover = FallbackPolicy()
        self._connections = LoopBoundClient(profile, http_client)
        self._requester = Requester(profile, self._connections, self.hooks)

    @classmethod
    @scrubs_traceback
    def from_config(
        cls,
        spec: str | Mapping[str, Any] | None = None,
        *,
        config: str | os.PathLike[str] | Config | None = None,
        http_client: httpx.AsyncClient | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        turn_cache: TurnCache | TurnStore | str | bool | None = None,
        **overrides: Unpack[ProviderConfig],
    ) -> Self:
        """Returns a provider by its name (`"main"`, `"main:other-model"`), from a mapping, or the default one.

        A name is looked up in `streamfold.toml`, then in the catalogue. Without a name, `STREAMFOLD_PROVIDER` names the
        provider, else the file's `default`. A mapping is used as it is; no file is read for it.

        Overrides and the mapping take the same keys: adapter, base_url, api_key, api_key_env, key_header, auth, issuer,
        model, model_family, families, api, dialect, escape_special_tokens, renders_templates, quirks, headers,
        options, unsupported_options, extra_body, timeouts, max_retries, limits, transport, http2, coalesce, rpm, tpm,
        max_concurrent, max_cost_per_day, rate_limits, fallback, capabilities, prices, batches, models, turn_cache; a
        mapping may start from the catalogue with the key `profile`. The providers that `fallback` names are asked when
        this one fails, as with `Fallback`; the overrides are not used for them.

        Args:
            spec: name or mapping.
            config: the file to read, or one that was read. Default: the file that `STREAMFOLD_CONFIG` names, else
                `streamfold.toml` in the working directory or in the user's directory.
            http_client: the client to send with. It remains the caller's and is not closed.
            hooks: functions that are called while answers are requested and read, by fallbacks too.
            turn_cache: see `Provider`; it serves the fallbacks too.

        Raises:
            ConfigError: a key or value is unknown or not allowed; the message says what is allowed.
        """
        profiles = load_profiles(spec, overrides, config)
        hooks = read_hooks(hooks)
        fallbacks = [Provider(profile, http_client=http_client, hooks=hooks) for profile in profiles[1:]]
        return cls(profiles[0], http_client=http_client, hooks=hooks, fallbacks=fallbacks, turn_cache=turn_cache)

    def with_limiter(self, limiter: RateLimiter, *, patient: bool = True) -> Self:
        """Returns this provider with another limiter. Both use the same connections, which only one may close.

            limited = provider.with_limiter(RateLimiter("batch", rpm=300))

        Args:
            patient: wait and send a request again when the server has too many; else that is an error.
        """
        limited = copy(self)
        restrictions = self._requester.restrictions
        limited._requester = Requester(
            self.profile, self._connections, self.hooks, limiter, patient=patient, restrictions=restrictions
        )
        return limited

    def prefer_aiohttp(self) -> Self:
        """Sends with aiohttp where that is possible, if the configuration chooses no `transport`: for many streams.

        aiohttp needs asyncio, HTTP/1.1, and no proxy or an `http://` one; elsewhere httpx sends. The log says which of
        them does. It holds for the fallbacks too, and must be called before the first request.
        """
        self._connections.prefers_aiohttp = True
        for model in self.fallbacks:
            if isinstance(model, Provider):
                model.prefer_aiohttp()
        return self

    @property
    def limiter(self) -> RateLimiter | None:
        """What requests wait for; None if nothing is limited. Raises ConfigError if the key or the store is missing."""
        return self._requester.limiter()

    @property
    def name(self) -> str:
        """The name of the provider in errors and logs."""
        return self.profile.name

    def capabilities(self, model: str | None = None) -> Capabilities:
        """Returns what is known about a model at this endpoint: "yes", "no" or "unknown" for each capability.

        Args:
            model: a model other than the configured one. Without any model: what all models of the endpoint share.

        Raises:
            NotConfiguredError: the configured model refers to an environment variable that is not set.
        """
        return self.profile.capabilities_of(model or self.profile.sent_model())

    @scrubs_traceback
    def preview(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        stream: bool = True,
        **options: Unpack[ChatOptions],
    ) -> Preview:
        """Returns the request that `chat` would send for the same arguments. Sends nothing, and needs no key.

        Raises:
            ConfigError: the request can't be sent as it is.
        """
        return self._requester.preview(ChatParams.read(messages, tools, tool_choice, options, stream=stream))

    @scrubs_traceback
    async def count_tokens(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> int:
        """Returns how many input tokens a request would have, as the provider counts them. No model is run.

            if await provider.count_tokens(messages, tools) > 150_000:
                ...

        Takes the arguments of `chat_stream`. Fallbacks are not asked: their models count otherwise.

        Raises:
            ConfigError: the request can't be sent as it is, or the provider's API can't count tokens.
            APIError: the request failed.
        """
        return await self._requester.count(ChatParams.read(messages, tools, tool_choice, options)).send()

    async def _count_request(self, request: Request, timeouts: Timeouts | TimeoutOptions | None = None) -> int:
        return await self._requester.count(ChatParams(request, timeouts=timeouts)).send()

    def facts(self) -> ModelInfo:
        """Returns what stands behind the provider: its endpoint and those of its fallbacks, without secrets."""
        profile = self.profile
        problem = profile.problem()
        adapter = profile.adapter_of(profile.model)
        url, prices = shown_url(profile.base_url), partial(_pricing, profile)
        refused = tuple(profile.quirks_of(profile.model).get("refused_members", ()))
        own = BackendInfo(
            profile.name,
            adapter,
            url,
            profile.model,
            problem,
            profile.adapter_of,
            prices,
            refused,
            profile.default_options().extra_body,
            partial(_output_limits, profile),
        )
        others = [facts for model in self.fallbacks if (facts := get_model_info(model)) is not None]
        return ModelInfo(
            (own, *(endpoint for facts in others for endpoint in facts.endpoints)),
            len(others) < len(self.fallbacks) or any(facts.changed for facts in others),
            self._count_request if find_adapter(adapter).counts_tokens else None,
            self,
        )

    def batches(self) -> BatchClient:
        """Returns the provider's batch API, which answers within hours and often for half the price. See `batch`.

        Raises:
            ConfigError: the provider's wire format has no batches, or the key is not set.
        """
        return BatchClient(self.profile, self._requester)

    async def fetch_file(self, file: GeneratedFile, *, max_bytes: int = 64 * 2**20) -> bytes:
        """Returns the bytes of a file that a tool of the provider made: one of `reply.files`.

        Args:
            file: its bytes are returned if they came with the answer; else they are fetched from the provider.
            max_bytes: how large it may be.

        Raises:
            ConfigError: the provider keeps no file under an id of this one, or can't be asked for it.
            APIError: the request failed, or the file is larger.
        """
        return await fetch_file(self.profile, self._requester, file, max_bytes)

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to a client that was passed in, and the fallbacks."""
        async with AsyncExitStack() as stack:
            for model in self.fallbacks:
                stack.push_async_callback(model.aclose)
            if self.turn_cache is not None and self._owns_turn_cache:
                stack.push_async_callback(self.turn_cache.aclose)
            stack.push_async_callback(self._requester.aclose)
            await self._connections.aclose()

    def __repr__(self) -> str:
        profile, others = self.profile, ", ".join(model.name for model in self.fallbacks)
        api, url = profile.adapter_of(profile.model), shown_url(profile.base_url)
        more = f" fallbacks={others}" if others else ""
        return f"<Provider {self.name} {api} {url} model={profile.model!r}{more}>"

    def _stream(self, arguments: ChatParams) -> ChatStream:
        cache = self.turn_cache
        source = self._source(arguments) if cache is None else CachingAnswer(cache, arguments, self._source)
        return ChatStream(source, yields_call_deltas=arguments.partial_tool_calls)

    def _source(self, arguments: ChatParams) -> ChunkSource:
        """Returns the answer of this provider, or of the first fallback that can give one. Raises ConfigError."""
        if not self.fallbacks:
            return self._requester.answer(arguments)
        own = Candidate(self.name, partial(self._requester.answer, replace(arguments, fail_fast=True)))
        return self._failover.answer([own, *candidates(self.fallbacks, arguments)])


def _output_limits(profile: Profile, model: str) -> tuple[int | None, int | None]:
    return profile.family_of(model).max_output_tokens, profile.default_options().max_output_tokens


def _pricing(profile: Profile, model: str) -> ProfilePricing | None:
    pricing = ProfilePricing.of(ModelPrices.of(profile, model))
    return pricing if pricing.known else None
