"""`Provider`: a model at a configured endpoint, with its fallbacks and its turn cache."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import httpx

from ..answers import BackendInfo, BaseChatModel, ChatParams, ChatStream, ModelInfo, check_model
from ..config import Config, Profile, load_profiles
from ..errors import ConfigError
from ..net import scrubs_traceback
from ..requests import Capabilities, ChatOptions, Request
from ..types import Compaction, GeneratedFile, Messages, Timeouts, ToolChoice, ToolLike, user
from ..urls import shown_url
from .api_calls import cancel_answer, compact_history, count_tokens, counts_tokens, fetch_file, retrieve_answer
from .costs import ModelPrices, ProfilePricing
from .endpoint import Endpoint
from .fallback import Fallback
from .hooks import Hooks, read_hooks
from .network_stream import open_answer
from .prepared_call import PreparedCall, Preview

if TYPE_CHECKING:
    from ..answers import ChatModel
    from ..config import ProviderConfig
    from ..limits import RateLimiter
    from ..requests import TimeoutOptions
    from ..turn_cache import TurnCache, TurnStore
    from .batches import BatchClient


class Provider(BaseChatModel):
    """A language model at a provider's endpoint. Several tasks of one event loop can share a provider.

        async with Provider.from_config("kimi:kimi-k2.6") as provider:
            print((await provider.chat("Hello")).text)

    Create a provider with `from_config`. Use the provider as an async context manager, or call `aclose` at the end.

    Args:
        profile: the provider's configuration.
        http_client: the HTTP client for all requests. The caller must close this client.
        hooks: functions that streamfold calls while answers are requested and read.
        fallbacks: models that are tried if this provider fails, as with `Fallback`. `aclose` closes these models.
        turn_cache: restores reasoning and other provider data of earlier turns (see `TurnCache`). The value is the name
            of a store, such as "sqlite:///turns.db", or a cache or store that the caller must close. By default, the
            value of `profile.turn_cache` is used.
    """

    continues_text = True

    def __init__(
        self,
        profile: Profile,
        *,
        http_client: httpx.AsyncClient | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        fallbacks: Iterable[ChatModel] = (),
        turn_cache: TurnCache | TurnStore | str | bool | None = None,
    ) -> None:
        if not isinstance(profile, Profile):
            check_model(profile, "Provider()")
            raise ConfigError(f"Provider() needs a Profile, not {type(profile).__name__}")
        self.profile = profile
        self._owns_turn_cache = isinstance(turn_cache, str | bool | None)
        self.turn_cache: TurnCache | None = None
        if turn_cache is None:
            turn_cache = profile.resolve().turn_cache
        if turn_cache is not False:
            from ..turn_cache import read_turn_cache

            self.turn_cache = read_turn_cache(turn_cache)
        self.hooks = read_hooks(hooks)
        self.fallbacks = tuple(fallbacks)
        self._endpoint = Endpoint(profile, http_client, self.hooks)
        self._own = _OwnModel(self._endpoint)
        self._fallback = Fallback(self._own, *self.fallbacks) if self.fallbacks else None

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
        """Creates a provider from a name (`"main"`, `"main:other-model"`) or a mapping, or creates the default
        provider.

        streamfold looks up a name in `streamfold.toml`, then in the catalogue. The default provider is the value of
        `STREAMFOLD_PROVIDER`, or of `default` in `streamfold.toml`. With a mapping, no file is read.

        The mapping and the overrides accept the keys of `ProviderConfig`. The key `profile` names a provider of the
        catalogue whose settings the other keys change. The key `fallback` names providers that are tried if this
        provider fails. Overrides apply to this provider only, not to its fallbacks.

        Args:
            spec: the provider's name, or a mapping.
            config: the path of the configuration file, or a loaded file. The default is the path in
                `STREAMFOLD_CONFIG`, otherwise `streamfold.toml` in the working directory or in the user's configuration
                directory.
            http_client: the HTTP client for all requests. The caller must close this client.
            hooks: functions that streamfold calls while answers are requested and read. Fallbacks use the same hooks.
            turn_cache: see `Provider`. Fallbacks use the same turn cache.

        Raises:
            ConfigError: a key or value is invalid (the message lists the allowed values), or `max_cost_per_day` is set
                and the model's prices are unknown.
        """
        profiles = load_profiles(spec, overrides, config)
        for profile in profiles:
            if profile.max_cost_per_day is not None and (model := profile.resolve().model) is not None:
                ModelPrices.of(profile, model).check_budget(profile.name)
        hooks = read_hooks(hooks)
        fallbacks = [Provider(profile, http_client=http_client, hooks=hooks) for profile in profiles[1:]]
        return cls(profiles[0], http_client=http_client, hooks=hooks, fallbacks=fallbacks, turn_cache=turn_cache)

    def with_limiter(self, limiter: RateLimiter, *, patient: bool = True) -> Self:
        """Returns a copy of this provider with another rate limiter. Both providers share their connections, so close
        only one of them.

            limited = provider.with_limiter(RateLimiter("batch", rpm=300))

        Args:
            patient: True to retry after a 429 response, False to raise an error instead.
        """
        limited = copy(self)
        limited._endpoint = self._endpoint.with_limiter(limiter, patient=patient)
        limited._own = _OwnModel(limited._endpoint)
        limited._fallback = self._fallback and self._fallback._with_first(limited._own)
        return limited

    def prefer_aiohttp(self) -> Self:
        """Sends requests with aiohttp unless the configuration sets `transport`. aiohttp is faster for many parallel
        streams.

        aiohttp needs asyncio and HTTP/1.1, and supports only `http://` proxies. If aiohttp can't be used, streamfold
        uses httpx and logs the reason. The setting applies to fallbacks too. Must be called before the first request.
        """
        self._endpoint.prefer_aiohttp()
        for model in self.fallbacks:
            if isinstance(model, Provider):
                model.prefer_aiohttp()
        return self

    @property
    def limiter(self) -> RateLimiter | None:
        """The rate limiter of this provider, or None if no limits are configured.

        Raises:
            ConfigError: the API key or the environment variable with the URL of the limits' store isn't set.
        """
        return self._endpoint.limiter()

    @property
    def name(self) -> str:
        """The provider's name in errors and logs."""
        return self.profile.name

    def capabilities(self, model: str | None = None) -> Capabilities:
        """Returns the capabilities of a model at this endpoint. Each capability is "yes", "no" or "unknown".

        Args:
            model: the model's name. The default is the configured model. If no model is configured, only the
                capabilities that all models of the endpoint share are known.

        Raises:
            NotConfiguredError: the configured model refers to an environment variable that is not set.
        """
        return self.profile.capabilities_of(model or self.profile.resolve().model)

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
        """Returns the HTTP request that `chat` would send for the same arguments. `preview` sends nothing and needs no
        API key.

        Raises:
            ConfigError: the arguments are invalid, or the model doesn't support the request.
        """
        params = ChatParams.read(messages, tools, tool_choice, options, stream=stream)
        return PreparedCall.of(self._endpoint, params).preview()

    @scrubs_traceback
    async def count_tokens(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> int:
        """Returns the number of input tokens of a request. The provider's API counts them without running the model.

            if await provider.count_tokens(messages, tools) > 150_000:
                ...

        Accepts the arguments of `chat_stream`. Fallbacks aren't tried, because other models count tokens differently.

        Raises:
            ConfigError: the request is invalid, or the provider's API can't count tokens.
            APIError: the request failed.
        """
        return await count_tokens(self._endpoint, ChatParams.read(messages, tools, tool_choice, options))

    @scrubs_traceback
    async def compact(
        self, messages: Messages, tools: Iterable[ToolLike] | None = None, **options: Unpack[ChatOptions]
    ) -> Compaction:
        """Asks the provider to compact a conversation, and returns the shorter conversation. A compaction, which is the
        provider's summary and may be encrypted, replaces the earlier turns.

            history = (await provider.compact(history, tools)).messages

        Supported by Anthropic's API and OpenAI's Responses API. System messages at the beginning stay in the
        conversation. Pass the same tools and options as for `chat`. Fallbacks aren't tried, because only the same
        provider can read the compaction.

        Raises:
            ConfigError: the arguments are invalid, or the provider's API doesn't support compaction.
            APIError: the request failed, or its answer contains no compaction.
        """
        params = ChatParams.read(messages, tools, "auto", options)
        return await compact_history(self._endpoint, params)

    @scrubs_traceback
    def retrieve(
        self, answer_id: str, tools: Iterable[ToolLike] | None = None, **options: Unpack[ChatOptions]
    ) -> ChatStream:
        """Returns the stream of a stored answer from its start. The answer may still be running in the background.

            stream = provider.chat_stream("Write a report.", extra_body={"background": True})
            ...  # `stream.answer_id` is saved, and the program ends
            async for chunk in provider.retrieve(answer_id):
                print(chunk.delta, end="")

        OpenAI's Responses API and Google's Interactions API store answers. A background answer is streamed until its
        end. If the connection breaks, streamfold reconnects, without calling the model again.

        Args:
            answer_id: `stream.answer_id` or `reply.id`.
            tools: the tools of the original request, which are needed to read its tool calls.
            options: `timeouts`, `extra_headers` and other options for reading the response.

        Raises:
            ConfigError: the provider's API stores no answers. An error of the request is raised when the stream is
                read.
        """
        params = ChatParams.read([user(str(answer_id) or "-")], tools, "auto", options)
        return retrieve_answer(self._endpoint, answer_id, params)

    async def cancel(self, answer_id: str) -> None:
        """Cancels an answer that is running in the background. Closing the stream of such an answer doesn't cancel it.

        Raises:
            ConfigError: the provider's API can't cancel answers.
            APIError: the request failed, for example because the answer has ended.
        """
        await cancel_answer(self._endpoint, answer_id)

    def facts(self) -> ModelInfo:
        """Returns the endpoints of the provider and its fallbacks, without secrets."""
        found = self._fallback.facts() if self._fallback is not None else None
        return replace(found or self._own.facts(), direct=self)

    def batches(self) -> BatchClient:
        """Returns a client for the provider's batch API. A batch API answers within hours, often at half the price. See
        `batch`.

        Raises:
            ConfigError: the provider's wire format has no batch API, or the API key isn't set.
        """
        from .batches import BatchClient

        return BatchClient(self._endpoint)

    async def fetch_file(self, file: GeneratedFile, *, max_bytes: int = 64 * 2**20) -> bytes:
        """Returns the bytes of a file that a hosted tool has created. `reply.files` lists these files.

        Args:
            file: an item of `reply.files`. The file is downloaded unless the reply already contains its bytes.
            max_bytes: the maximum size of the file.

        Raises:
            ConfigError: the file has no id, or the provider's API has no file downloads.
            APIError: the request failed, or the file is too large.
        """
        return await fetch_file(self._endpoint, file, max_bytes)

    async def aclose(self) -> None:
        """Closes the fallbacks, the connections and the turn cache. An HTTP client or turn cache that the caller passed
        stays open.
        """
        async with AsyncExitStack() as stack:
            for model in self.fallbacks:
                stack.push_async_callback(model.aclose)
            if self.turn_cache is not None and self._owns_turn_cache:
                stack.push_async_callback(self.turn_cache.aclose)
            await self._endpoint.aclose()

    def __repr__(self) -> str:
        profile, others = self.profile, ", ".join(model.name for model in self.fallbacks)
        api, url = profile.adapter_of(profile.model), shown_url(profile.base_url)
        more = f" fallbacks={others}" if others else ""
        return f"<Provider {self.name} {api} {url} model={profile.model!r}{more}>"

    def _stream(self, arguments: ChatParams) -> ChatStream:
        model = self._fallback or self._own
        return model._stream(arguments) if self.turn_cache is None else self.turn_cache.chat_stream(model, arguments)


class _OwnModel(BaseChatModel):
    continues_text = True

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @property
    def name(self) -> str:
        return self._endpoint.profile.name

    def facts(self) -> ModelInfo:
        profile = self._endpoint.profile
        adapter = profile.adapter_of(profile.model)
        backend = BackendInfo(
            profile.name,
            adapter,
            shown_url(profile.base_url),
            profile.model,
            profile.resolve().problem(),
            profile.adapter_of,
            partial(_pricing, profile),
            tuple(profile.quirks_of(profile.model).get("refused_members", ())),
            profile.default_options().extra_body,
            lambda model: (profile.family_of(model).max_output_tokens, profile.default_options().max_output_tokens),
        )
        return ModelInfo((backend,), count=self._count if counts_tokens(self._endpoint, profile.model) else None)

    async def _count(self, request: Request, timeouts: Timeouts | TimeoutOptions | None = None) -> int:
        return await count_tokens(self._endpoint, ChatParams(request, timeouts=timeouts))

    def _stream(self, arguments: ChatParams) -> ChatStream:
        return ChatStream(open_answer(self._endpoint, arguments), yields_call_deltas=arguments.partial_tool_calls)

    async def aclose(self) -> None:
        await self._endpoint.aclose()


def _pricing(profile: Profile, model: str) -> ProfilePricing | None:
    prices = ModelPrices.of(profile, model)
    return ProfilePricing.of(prices) if prices.known else None
