"""Providers: the join of configuration, the pure path and the network."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import httpx

from .adapters import StatesRules
from .decoder import StreamDecoder
from .errors import ConfigError
from .history import HistoryRules, check_history
from .messages import Messages
from .profiles import Profile
from .references import shown_url
from .request import Request
from .stream import Answer, ChatStream, Plan
from .tools import ToolChoice, ToolLike
from .transport import HTTPRequest, make_client
from .types import ProtocolWarning, Reply, Timeouts

__all__ = ["ChatStream", "Provider"]


class Provider:
    """A language model behind an endpoint. Safe to share between the tasks of one event loop.

    Make one with `from_config`, use it as an async context manager or call `aclose` in the end. A client that is passed
    in is used and never closed.
    """

    def __init__(self, profile: Profile, *, http_client: httpx.AsyncClient | None = None) -> None:
        self.profile = profile
        self._adapter = profile.make_adapter()
        self._client = http_client
        self._owns_client = http_client is None

    @classmethod
    def from_config(
        cls,
        spec: str | Mapping[str, Any] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        http_client: httpx.AsyncClient | None = None,
        **overrides: Any,
    ) -> Self:
        """A provider by its name (`"main"`, `"main:other-model"`), from a mapping, or the default one.

        A name is looked for in `streamfold.toml`, then in the catalogue. Without one, `STREAMFOLD_PROVIDER` names the
        provider, else the file's `default`. A mapping is taken as it is, and no file is read for it.

        Overrides and the mapping take the same keys: adapter, base_url, api_key, api_key_env, model, dialect, quirks,
        headers, timeouts, max_retries, limits, transport, fallback; a mapping may start from the catalogue with the key
        `profile`. The names in `fallback` are kept in the profile and not asked yet: the provider works as if alone.

        Args:
            config: the file to read; else the one that `STREAMFOLD_CONFIG` names, that is in the working directory, or
                in the user's directory.

        Raises:
            ConfigError: something in it is unknown or does not fit; the message says what is allowed.
        """
        from .config import effective_profile  # its models take as long to make as all the rest of this import

        return cls(effective_profile(spec, overrides, config), http_client=http_client)

    @property
    def name(self) -> str:
        """What errors call this provider."""
        return self.profile.name

    def chat_stream(
        self,
        messages: Messages,
        tools: list[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        model: str | None = None,
        repair: bool = False,
        timeouts: Timeouts | None = None,
        extra_headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> ChatStream:
        """Asks for a streamed answer. Nothing is sent before the first chunk is asked for.

        Args:
            messages: the conversation; a bare string is one user message.
            tools: what the model may call: `Tool`s, or dicts in the shape of either OpenAI wire.
            tool_choice: "auto", "none", "required", or `NamedTool(name)`.
            model: another model than the configured one.
            repair: mend a conversation that the provider would refuse (results without a call, calls without a result,
                empty turns, an id twice), and say so in the reply's warnings. Else it raises.
            timeouts: other clocks than the configured ones.
            extra_headers: further headers for this request.
            options: see `Options`: temperature, top_p, max_output_tokens, stop, seed, parallel_tool_calls,
                reasoning_effort, response_format, extra_body.

        Raises:
            ConfigError: the request can't be sent as it is. Errors of the network are raised by the iteration.
        """
        chosen = model or self.profile.sent_model()
        if not chosen:
            raise ConfigError(f'no model for "{self.name}": write "{self.name}:MODEL", or pass model=')
        asked = Request.read(chosen, messages, tools, tool_choice, options)
        asked, found = self._checked(asked, repair=repair)
        request, changes = self._adapter.prepare(asked)
        http_request = self._http_request(self._adapter.encode(request), extra_headers, timeouts)

        def decoder() -> StreamDecoder:
            return StreamDecoder(
                self._adapter,
                dialect=self.profile.dialect,
                tools=request.tools,
                tool_choice=request.tool_choice,
                limits=self.profile.limits,
                names=request.names,
                answer_tool=request.answer_tool,
            )

        plan = Plan(
            provider=self.name,
            request=http_request,
            client=partial(self._client_for, asked),
            decoder=decoder,
            max_retries=self.profile.max_retries,
            changes=[*found, *changes],
            secrets=self.profile.secrets(),
            origin=request.origin,
        )
        return ChatStream(Answer(plan))

    async def chat(
        self,
        messages: Messages,
        tools: list[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        **options: Any,
    ) -> Reply:
        """The whole answer: the same stream, folded. Takes what `chat_stream` takes.

        Raises:
            APIError: one of its kinds; what had been received is its `partial`.
        """
        async with self.chat_stream(messages, tools, tool_choice=tool_choice, **options) as stream:
            async for _ in stream:
                pass
            return stream.reply

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to a client that was passed in."""
        if self._owns_client and self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        url = shown_url(self.profile.base_url)
        return f"<Provider {self.name} {self.profile.adapter} {url} model={self.profile.model!r}>"

    def _checked(self, request: Request, *, repair: bool) -> tuple[Request, list[ProtocolWarning]]:
        """The request with a conversation that this provider takes, and what was found in it. Raises ConfigError."""
        request = replace(request, origin=f"{self.profile.adapter} {shown_url(self.profile.base_url)}")
        # Adapters of other packages need not state any rules.
        rules = self._adapter.history_rules(request) if isinstance(self._adapter, StatesRules) else HistoryRules()
        messages, found = check_history(request.messages, rules, repair=repair)
        return replace(request, messages=messages), found

    def _http_request(
        self, body: Mapping[str, Any], extra_headers: Mapping[str, str] | None, timeouts: Timeouts | None
    ) -> HTTPRequest:
        headers = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # a proxy that compresses a stream also holds it back
            "Cache-Control": "no-store",
            "Content-Type": "application/json",
        }
        if key := self.profile.key():
            headers["Authorization"] = f"Bearer {key}"
        headers.update(self.profile.sent_headers())
        headers.update(extra_headers or {})
        return HTTPRequest(
            url=self.profile.sent_url() + self._adapter.path,
            headers=headers,
            body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
            timeouts=timeouts or self.profile.timeouts,
            limits=self.profile.limits,
        )

    def _client_for(self, request: Request) -> httpx.AsyncClient:
        """The client for the attempts of one request, which is as the caller made it, checked and not yet encoded."""
        return self._http_client()

    def _http_client(self) -> httpx.AsyncClient:
        """The client that requests go through, made when it is first needed."""
        if self._client is None:
            self._client = make_client(self.profile.transport)
        return self._client
