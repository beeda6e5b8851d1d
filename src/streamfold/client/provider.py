"""Providers: the join of configuration, the pure path and the network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

import httpx
from anyio.lowlevel import current_token

from ..adapters import Adapter, Prepared
from ..engine import StreamDecoder
from ..engine.dialects import DialectContext, find_dialect
from ..net import make_client
from ..requests import Capabilities, ChatOptions, Request, read_headers
from ..values import (
    APIError,
    ConfigError,
    Messages,
    Reply,
    StreamfoldError,
    Timeouts,
    ToolChoice,
    ToolLike,
    shown_url,
)
from .hooks import LOG, Asked, Hooks
from .preview import HIDDEN, Preview

if TYPE_CHECKING:  # at run time the configuration is imported by `from_config`, and the network by the first request
    from ..config import Profile
    from ..net import HTTPRequest
    from .stream import Answering, ChatStream, Plan

__all__ = ["Provider"]


class Provider:
    """A language model behind an endpoint. Safe to share between the tasks of one event loop.

    Make one with `from_config`, use it as an async context manager or call `aclose` in the end. A client that is passed
    in is used and never closed.

    Keys are in no repr, error or traceback, and what a `${NAME}` in `base_url` stands for is not in the URLs that httpx
    logs at INFO. Three things can't be had without reaching into other people's loggers: a client of one's own logs the
    whole URL; httpcore logs the headers of answers at DEBUG, should a server repeat a key there; and hpack, which is
    under HTTP/2, logs those of requests at DEBUG.
    """

    def __init__(
        self, profile: Profile, *, http_client: httpx.AsyncClient | None = None, hooks: Iterable[Hooks] = ()
    ) -> None:
        self.profile = profile
        self.hooks = tuple(hooks)
        self._adapter = profile.make_adapter()
        if profile.dialect is not None:
            try:  # else a wrong name is found when the answer comes
                find_dialect(profile.dialect, DialectContext())
            except ConfigError as exc:
                raise ConfigError(f"provider {profile.name!r}: dialect: {exc}") from None
        self._client = http_client
        self._owns_client = http_client is None
        self._loop: object = None  # the event loop that the connections belong to

    @classmethod
    def from_config(
        cls,
        spec: str | Mapping[str, Any] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        http_client: httpx.AsyncClient | None = None,
        hooks: Iterable[Hooks] = (),
        **overrides: Any,
    ) -> Self:
        """A provider by its name (`"main"`, `"main:other-model"`), from a mapping, or the default one.

        A name is looked for in `streamfold.toml`, then in the catalogue. Without one, `STREAMFOLD_PROVIDER` names the
        provider, else the file's `default`. A mapping is taken as it is, and no file is read for it.

        Overrides and the mapping take the same keys: adapter, base_url, api_key, api_key_env, key_header, model,
        dialect, quirks, headers, timeouts, max_retries, limits, transport, http2, fallback, capabilities, models; a
        mapping may start from the catalogue with the key `profile`. Where `fallback` names others, what comes is a
        `Fallback` of all of them; the overrides are for the first.

        Args:
            config: the file to read; else the one that `STREAMFOLD_CONFIG` names, that is in the working directory, or
                in the user's directory.
            http_client: the client to send with; it stays the caller's.
            hooks: who is told how the answers of this provider go, its fallbacks' included.

        Raises:
            ConfigError: something in it is unknown or does not fit; the message says what is allowed.
        """
        from ..config import effective_profile

        try:
            profile = effective_profile(spec, overrides, config)
        except ConfigError as error:
            del spec, overrides  # what shows the variables of a traceback would show the keys in them
            raise error.with_traceback(None) from None
        hooks = tuple(hooks)
        provider = cls(profile, http_client=http_client, hooks=hooks)
        if not profile.fallback:
            return provider
        from ..config import read_profile
        from .fallback import Fallback

        try:
            others = [
                Provider(read_profile(name), http_client=http_client, hooks=hooks)  # no file is read for a mapping
                if isinstance(spec, Mapping)
                else Provider.from_config(name, config=config, http_client=http_client, hooks=hooks)
                for name in profile.fallback
            ]
        except ConfigError as exc:
            raise ConfigError(f"provider {profile.name!r}: fallback: {exc}") from None
        return Fallback(provider, *others)  # type: ignore[return-value] # a Provider too

    @property
    def name(self) -> str:
        """What errors call this provider."""
        return self.profile.name

    def capabilities(self, model: str | None = None) -> Capabilities:
        """What is known of a model here: "yes", "no", or "unknown", which is neither. Of a `Fallback`: of its first.

        Args:
            model: another one than the configured one. Without any it is what all models of the endpoint share.

        Raises:
            ConfigError: the configured model refers to a variable that is not set.
        """
        return self.profile.capabilities_of(model or self.profile.sent_model())

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
        settings: dict[str, Any] = dict(options)
        try:
            model, sending = settings.pop("model", None), _take_sending(settings)
            return self.stream_request(Request.read(model or "", messages, tools, tool_choice, settings), **sending)
        except ConfigError as error:
            del settings, options, sending  # what shows the variables of a traceback would show the keys in them
            raise error.with_traceback(None)  # noqa: B904 - the same error, with the cause that it has

    def stream_request(
        self,
        request: Request,
        *,
        repair: bool = False,
        timeouts: Timeouts | Mapping[str, float | None] | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> ChatStream:
        """Requests a streamed answer to a request that was read already, as the gateway's are.

        Args:
            request: its model "" stands for the configured one.
            repair: repair a conversation that the provider would refuse, instead of raising.
            timeouts: see `ChatOptions`.
            extra_headers: see `ChatOptions`.

        Raises:
            ConfigError: the request can't be sent as it is.
        """
        from .stream import ChatStream

        return ChatStream(self._answer(request, repair=repair, timeouts=timeouts, extra_headers=extra_headers))

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
        settings: dict[str, Any] = dict(options)
        model, sending = settings.pop("model", None), _take_sending(settings)
        asked = self._chosen(Request.read(model or "", messages, tools, tool_choice, settings))
        ready = self._prepared(self._adapter, asked, repair=sending["repair"])
        hidden = [*self.profile.headers, *read_headers(sending["extra_headers"])]
        if self.profile.api_key is not None or self.profile.api_key_env:
            hidden.append(self.profile.key_header)
        headers = {**_COMMON_HEADERS, **ready.headers, **dict.fromkeys(hidden, HIDDEN)}
        return Preview(ready.method, self.profile.url_of(ready.path), headers, ready.body, ready.warnings)

    def _chosen(self, request: Request) -> Request:
        """Returns the request with the configured model if it names none, and with the facts about this endpoint."""
        model = request.model or self.profile.sent_model()
        if not model:
            raise ConfigError(f'no model for "{self.name}": write "{self.name}:MODEL", or pass model=')
        origin = f"{self.profile.adapter} {shown_url(self.profile.base_url)}"
        return replace(request, model=model, origin=origin, capabilities=self.profile.capabilities_of(model))

    def _prepared(self, adapter: Adapter, request: Request, *, repair: bool) -> Prepared:
        return adapter.prepare(request, repair=repair, endpoint=self.profile)

    def _answer(
        self,
        request: Request,
        *,
        repair: bool = False,
        timeouts: Timeouts | Mapping[str, float | None] | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> Answering:
        """Returns the source of a stream's chunks. Raises ConfigError."""
        from .stream import Answer, Plan

        request = self._chosen(request)
        asked: Asked | None = None  # all attempts share one object

        def plan(adapter: Adapter) -> Plan:
            nonlocal asked
            ready = self._prepared(adapter, request, repair=repair)
            asked = asked or Asked(self.name, self.profile.adapter, self.profile.url_of(ready.path), request)
            return Plan(
                provider=self.name,
                request=self._http_request(ready, extra_headers, timeouts),
                client=partial(self._client_for, request),
                decoder=lambda: self._decoder(adapter, ready.request),
                max_retries=self.profile.max_retries,
                asked=asked,
                hooks=(LOG, *self.hooks),
                changes=ready.warnings,
                secrets=self.profile.secrets(extra_headers),
                origin=request.origin,
                retry_without=lambda error: self._retry_without(adapter, error, plan),
            )

        return Answer(plan(self._adapter))

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
        try:
            stream = self.chat_stream(messages, tools, tool_choice=tool_choice, **options)
        finally:
            del options  # what shows the variables of a traceback would show the headers in them
        async with stream:
            async for _ in stream:
                pass
            return stream.reply

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to a client that was passed in."""
        loop, self._loop = self._loop, None
        if self._owns_client and self._client is not None:
            client, self._client = self._client, None
            try:
                await client.aclose()
            except RuntimeError:
                if loop == current_token():
                    raise
                # The event loop of its connections is closed: nobody is left who could close them in order.

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        url = shown_url(self.profile.base_url)
        return f"<Provider {self.name} {self.profile.adapter} {url} model={self.profile.model!r}>"

    def _decoder(self, adapter: Adapter, request: Request) -> StreamDecoder:
        return StreamDecoder(
            adapter,
            dialect=self.profile.dialect,
            tools=request.tools,
            tool_choice=request.tool_choice,
            limits=self.profile.limits,
            names=request.names,
            answer_tool=request.answer_tool,
        )

    def _retry_without(self, adapter: Adapter, error: APIError, plan: Callable[[Adapter], Plan]) -> Plan | None:
        """Returns a plan without the part of the request that the server refused; later requests leave it out too."""
        milder = adapter.retry_without(error)
        if milder is None:
            return None
        self._adapter = milder
        return plan(milder)

    def _http_request(
        self,
        ready: Prepared,
        extra_headers: Mapping[str, str] | None,
        timeouts: Timeouts | Mapping[str, float | None] | None,
    ) -> HTTPRequest:
        from ..config import laid_over
        from ..net import HTTPRequest

        headers = {**_COMMON_HEADERS, **ready.headers}
        headers.update(self.profile.key_headers())
        headers.update(self.profile.sent_headers(read_headers(extra_headers)))
        url = self.profile.sent_url(ready.path)
        return HTTPRequest(
            method=ready.method,
            url=url,
            headers=headers,
            body=ready.body,
            timeouts=laid_over(self.profile.timeouts, timeouts),
            limits=self.profile.limits,
            # Somebody else's client may have a transport that reads the URL's text.
            logged_url=self.profile.shown_url(url) if self._owns_client else None,
        )

    def _client_for(self, request: Request) -> httpx.AsyncClient:
        """The client for the attempts of one request, which is as the caller made it."""
        return self._http_client()

    def _http_client(self) -> httpx.AsyncClient:
        """The client that requests go through, made when it is first needed."""
        here = current_token()
        if self._loop is not None and self._loop != here:
            raise StreamfoldError(
                f'provider "{self.name}" belongs to another event loop, the first one that it was used on: its'
                " connections can't change loops. Make one provider for each, or call aclose() on it first"
            )
        self._loop = here
        if self._client is not None and self._client.is_closed:
            raise StreamfoldError(f'provider "{self.name}": the http_client that it was given is closed')
        if self._client is None:
            self._client = make_client(self.profile.transport, http2=self.profile.http2)
        return self._client


_COMMON_HEADERS = {
    "Accept-Encoding": "identity",  # a proxy that compresses a stream also holds it back
    "Cache-Control": "no-store",
}


def _take_sending(settings: dict[str, Any]) -> dict[str, Any]:
    """Takes the options that are not part of the request itself out of all options."""
    return {
        "repair": settings.pop("repair", False),
        "timeouts": settings.pop("timeouts", None),
        "extra_headers": settings.pop("extra_headers", None),
    }
