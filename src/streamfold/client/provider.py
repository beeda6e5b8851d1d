"""Providers: the join of configuration, the pure path and the network."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

import httpx

from ..adapters import Adapter, Prepared
from ..config import Profile, load_profiles, timeouts_over
from ..engine import StreamDecoder, WireNames
from ..net import HTTPRequest, Redactor, Signer, hides_arguments
from ..requests import CachedPrefixes, Capabilities, ChatOptions, Request, read_headers
from ..values import (
    APIError,
    ConfigError,
    Messages,
    ProtocolWarning,
    Reply,
    Timeouts,
    ToolChoice,
    ToolLike,
    shown_url,
)
from .answer import NetworkAnswer, Plan
from .arguments import Arguments
from .connections import Connections
from .failover import Candidate, Failover
from .fallback import candidates
from .hooks import Hooks, Notifier, RequestInfo, read_hooks
from .misuse import AsyncContext
from .preview import HIDDEN, Preview
from .pricing import ProfilePricing
from .stream import ChatStream, read_whole

if TYPE_CHECKING:
    from ..config import ProviderConfig
    from ..requests import TimeoutOptions
    from .model import ChatModel

__all__ = ["Provider"]


class Provider(AsyncContext):
    """A language model behind an endpoint. Safe to share between the tasks of one event loop.

        async with Provider.from_config("kimi:kimi-k2.6") as provider:
            print((await provider.chat("Hello")).text)

    Make one with `from_config`. Use it as an async context manager, or call `aclose` at the end.

    Args:
        profile: the configuration.
        http_client: the client to send with. It remains the caller's and is not closed.
        hooks: functions that are called while answers are requested and read.
        fallbacks: models that are asked when this one fails, as with `Fallback`. `aclose` closes them.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        http_client: httpx.AsyncClient | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        fallbacks: Iterable[ChatModel] = (),
    ) -> None:
        self.profile = profile
        self.hooks = read_hooks(hooks)
        self.fallbacks = tuple(fallbacks)
        self._adapters: dict[str, Adapter] = {}  # by the quirks of models
        self._failover = Failover()
        self._prefixes = CachedPrefixes()
        self._signer: Signer | None = None
        self._connections = Connections(profile, http_client)

    @classmethod
    @hides_arguments
    def from_config(
        cls,
        spec: str | Mapping[str, Any] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        http_client: httpx.AsyncClient | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        **overrides: Unpack[ProviderConfig],
    ) -> Self:
        """Returns a provider by its name (`"main"`, `"main:other-model"`), from a mapping, or the default one.

        A name is looked up in `streamfold.toml`, then in the catalogue. Without a name, `STREAMFOLD_PROVIDER` names the
        provider, else the file's `default`. A mapping is used as it is; no file is read for it.

        Overrides and the mapping take the same keys: adapter, base_url, api_key, api_key_env, key_header, auth, model,
        dialect, quirks, headers, options, extra_body, timeouts, max_retries, limits, transport, http2, fallback,
        capabilities, prices, models; a mapping may start from the catalogue with the key `profile`. The providers that
        `fallback` names are asked when this one fails, as with `Fallback`; the overrides are not used for them.

        Args:
            spec: name or mapping.
            config: the file to read. Default: the file that `STREAMFOLD_CONFIG` names, else `streamfold.toml` in the
                working directory or in the user's directory.
            http_client: the client to send with. It remains the caller's and is not closed.
            hooks: functions that are called while answers are requested and read, by fallbacks too.

        Raises:
            ConfigError: a key or value is unknown or not allowed; the message says what is allowed.
        """
        profiles = load_profiles(spec, overrides, config)
        hooks = read_hooks(hooks)
        fallbacks = [Provider(profile, http_client=http_client, hooks=hooks) for profile in profiles[1:]]
        return cls(profiles[0], http_client=http_client, hooks=hooks, fallbacks=fallbacks)

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

    @hides_arguments
    def chat_stream(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> ChatStream:
        """Returns a streamed answer. Nothing is sent until the first chunk is asked for.

            async with provider.chat_stream("Hello", temperature=0.2) as stream:
                async for chunk in stream:
                    print(chunk.delta, end="")

        Args:
            messages: the conversation. A string is one user message.
            tools: the tools that the model may call: `Tool`s, typed functions, pydantic models, or dicts in the shape
                of either OpenAI wire format.
            tool_choice: "auto", "none", "required", or `NamedTool(name)`.
            options: see `ChatOptions`.

        Returns:
            An async iterator of `StreamChunk`, which is also an async context manager.

        Raises:
            ConfigError: the request can't be sent as it is, or needs something that the model does not support. Network
                errors are raised while iterating.
        """
        return self._stream(Arguments.read(messages, tools, tool_choice, options))

    def stream_request(self, request: Request, *, repair: bool = False, fragments: bool = False) -> ChatStream:
        """Returns a streamed answer to a request that was read already, as the gateway's are.

        Args:
            request: its model "" stands for the configured one.
            repair, fragments: see `ChatOptions`.

        Raises:
            ConfigError: the request can't be sent as it is.
        """
        return self._stream(Arguments(request, repair, fragments))

    @hides_arguments
    def preview(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> Preview:
        """Returns the request that `chat_stream` would send for the same arguments. Sends nothing, and needs no key.

        Raises:
            ConfigError: the request can't be sent as it is.
        """
        arguments = Arguments.read(messages, tools, tool_choice, options)
        request = self._chosen(arguments)
        ready = self._prepared(self._adapter(request.model), request, arguments)
        warnings = (*ready.warnings, *self._prefixes.changed(request))
        hidden = [*self.profile.headers, *read_headers(arguments.extra_headers)]
        if self.profile.api_key is not None or self.profile.api_key_env or self.profile.auth != "key":
            hidden.append(self.profile.key_header)
        headers = {**_COMMON_HEADERS, **ready.headers, **dict.fromkeys(hidden, HIDDEN)}
        return Preview(ready.method, self.profile.url_of(ready.path), headers, ready.body, warnings)

    @hides_arguments
    async def chat(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Unpack[ChatOptions],
    ) -> Reply:
        """Returns the whole answer, collected from the same stream. Takes the arguments of `chat_stream`.

        Raises:
            ConfigError: the request can't be sent as it is.
            APIError: the request failed, or the answer is not complete; `partial` has the text received so far.
        """
        return await read_whole(self.chat_stream(messages, tools, tool_choice=tool_choice, **options))

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to a client that was passed in, and the fallbacks."""
        async with AsyncExitStack() as stack:
            for model in self.fallbacks:
                stack.push_async_callback(model.aclose)
            await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        url, others = shown_url(self.profile.base_url), ", ".join(model.name for model in self.fallbacks)
        more = f" fallbacks={others}" if others else ""
        return f"<Provider {self.name} {self.profile.adapter} {url} model={self.profile.model!r}{more}>"

    def _stream(self, arguments: Arguments) -> ChatStream:
        if not self.fallbacks:
            return ChatStream(self._answer(arguments))
        own = Candidate(self.name, partial(self._answer, arguments))
        return ChatStream(self._failover.answer([own, *candidates(self.fallbacks, arguments)]))

    def _adapter(self, model: str | None) -> Adapter:
        """Returns the adapter for a model. Models with the same quirks share one, and what it learned to leave out."""
        quirks = self._quirks_of(model)
        if quirks not in self._adapters:  # another thread may be here too, and what an adapter learned must stay
            return self._adapters.setdefault(quirks, self.profile.make_adapter(model))
        return self._adapters[quirks]

    def _quirks_of(self, model: str | None) -> str:
        return str(sorted(self.profile.facts_of(model).quirks.items()))

    def _chosen(self, arguments: Arguments) -> Request:
        """Returns the request with the configured model if it names none, and with the facts about this endpoint."""
        model = arguments.request.model or self.profile.sent_model()
        if not model:
            raise ConfigError(f'no model for "{self.name}": write "{self.name}:MODEL", or pass model=')
        origin = f"{self.profile.adapter} {shown_url(self.profile.base_url)}"
        capabilities = self.profile.capabilities_of(model)
        options = self.profile.with_default_options(arguments.request.options)
        return replace(arguments.request, model=model, options=options, origin=origin, capabilities=capabilities)

    def _prepared(self, adapter: Adapter, request: Request, arguments: Arguments) -> Prepared:
        return adapter.prepare(request, repair=arguments.repair, endpoint=self.profile)

    def _answer(self, arguments: Arguments) -> NetworkAnswer:
        """Returns the answer of this provider alone. Raises ConfigError."""
        request = self._chosen(arguments)
        adapter = self._adapter(request.model)
        ready = self._prepared(adapter, request, arguments)
        changed = self._prefixes.changed(request)
        self._prefixes.remember(request)
        info = RequestInfo(self.name, self.profile.adapter, self.profile.url_of(ready.path), request)
        return NetworkAnswer(
            self._plan(adapter, ready, arguments, changed),
            Notifier(info, self.hooks),
            self._connections.client,
            max_retries=self.profile.max_retries,
            retry_without=partial(self._retry_without, request, arguments, changed),
        )

    def _plan(
        self, adapter: Adapter, ready: Prepared, arguments: Arguments, changed: Iterable[ProtocolWarning]
    ) -> Plan:
        return Plan(
            adapter=adapter,
            request=self._http_request(adapter, ready, arguments.extra_headers, arguments.timeouts),
            decoder=partial(self._decoder, adapter, ready.request, fragments=arguments.fragments),
            warnings=(*ready.warnings, *changed),
            origin=ready.request.origin,
            pricing=ProfilePricing.of(self.profile, ready.request.model),
        )

    def _retry_without(
        self,
        request: Request,
        arguments: Arguments,
        changed: Iterable[ProtocolWarning],
        adapter: Adapter,
        error: APIError,
    ) -> Plan | None:
        """Returns a plan without the part of the request that the server refused; later requests leave it out too."""
        milder = adapter.retry_without(error)
        if milder is None:
            return None
        self._adapters[self._quirks_of(request.model)] = milder
        return self._plan(milder, self._prepared(milder, request, arguments), arguments, changed)

    def _decoder(self, adapter: Adapter, request: Request, *, fragments: bool) -> StreamDecoder:
        return StreamDecoder(
            adapter,
            dialect=self.profile.dialect,
            tools=request.tools,
            tool_choice=request.tool_choice,
            limits=self.profile.limits,
            names=WireNames(request.names, request.answer_tool),
            fragments=fragments,
        )

    def _credentials(self) -> Signer | None:
        """Returns what authenticates requests without a key; the same one always, which keeps what it was given."""
        if self._signer is None:
            self._signer = self.profile.make_signer()
        return self._signer

    def _http_request(
        self,
        adapter: Adapter,
        ready: Prepared,
        extra_headers: Mapping[str, str] | None,
        timeouts: Timeouts | TimeoutOptions | None,
    ) -> HTTPRequest:
        url = self.profile.sent_url(ready.path)
        headers = {**_COMMON_HEADERS, **ready.headers}
        key = self.profile.key_headers()
        headers.update(key)
        headers.update(self.profile.sent_headers(read_headers(extra_headers)))
        return HTTPRequest(
            method=ready.method,
            read_error=adapter.read_error,
            url=url,
            headers=headers,
            body=ready.body,
            timeouts=timeouts_over(self.profile.timeouts, timeouts),
            limits=self.profile.limits,
            shown_url=self.profile.shown_url(url),
            hide_url=self._connections.owned,
            redactor=Redactor(self.profile.secrets(extra_headers)),
            signer=None if key else self._credentials(),
        )


_COMMON_HEADERS = {
    "Accept-Encoding": "identity",  # a proxy that compresses a stream also holds it back
    "Cache-Control": "no-store",
}
