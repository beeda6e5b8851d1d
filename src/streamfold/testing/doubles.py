"""The base class of test doubles, and SentRequest, ReplayProvider and RecordingProvider.

A test double is a `ChatModel` that contains a real `Provider`. The provider encodes requests and decodes responses.
Only the HTTP client's transport is replaced.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import httpx

from ..answers import BaseChatModel, ChatParams, ChatStream, WrappedAnswer, forward_source
from ..client import Hooks, Preview, Provider
from ..config import Profile, ProviderConfig, load_profile
from ..errors import ConfigError
from ..faults import Fault
from ..net import make_client
from ..recording import Match, Recording, RecordingDraft, ReplayTransport, Speed, load_source, recording_client
from ..requests import Capabilities, ChatOptions, Options, Request
from ..types import Message, Messages, ReadToolChoice, StreamChunk, Tool, ToolChoice, ToolLike

_NOWHERE = "http://test.invalid/v1"
# The request that this task is about to send. A hook sets it, the transport reads it.
_SENDING: ContextVar[Request] = ContextVar("_SENDING")


class ScriptError(AssertionError):
    """The application sent too many requests, too few requests, or a request that its test doesn't expect.

    ScriptError isn't a StreamfoldError, because an application might catch a StreamfoldError as a failure of its
    provider.
    """


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that a test double received: the application's arguments, and the JSON body of the HTTP request.

    Attributes:
        model: the requested model.
        messages: the conversation. A string that the application passed is one user message.
        tools: the tools, as `Tool` objects.
        tool_choice: "auto", "none", "required", or a `NamedTool`.
        options: the chat options, such as the temperature.
        body: the parsed JSON body of the HTTP request.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ReadToolChoice = "auto"
    options: Options = field(default_factory=Options)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The text of the last message: the user's question, or the result of a tool."""
        return self.messages[-1].text


class _DoubleAnswer(WrappedAnswer):
    async def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        try:
            async with self._opened(call_deltas) as batches:
                async for batch in batches:
                    self.reply = self._source.reply
                    yield batch
        except ScriptError as error:
            raise error.with_traceback(None) from error.__cause__


class ProviderDouble(BaseChatModel):
    """Base class of test doubles. A test double is a model that answers requests in the test process, and records them
    in `requests`.

    Attributes:
        provider: the `Provider` that encodes requests and decodes responses.
        requests: the requests that the application sent, in order. Retries are included.
    """

    def __init__(self, profile: Profile, *, hooks: Hooks | Iterable[Hooks] = ()) -> None:
        watch = Hooks(on_request=lambda info: _SENDING.set(info.request))
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._handle), timeout=None)  # it holds no connection
        given = [hooks] if isinstance(hooks, Hooks) else hooks
        self.provider = Provider(profile, http_client=client, hooks=[watch, *given])
        self.requests: list[SentRequest] = []

    @abstractmethod
    async def _respond(self, sent: SentRequest, parsed: Request, request: httpx.Request) -> httpx.Response:
        """Returns the response to a request.

        Args:
            sent: the request as the application's arguments and JSON body.
            parsed: the same request, as the `Request` from which the JSON body was made.
            request: the same request as the HTTP client sends it.
        """

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        parsed = _SENDING.get()
        body = json.loads(request.content)
        sent = SentRequest(parsed.model, parsed.messages, parsed.tools, parsed.tool_choice, parsed.options, body)
        self.requests.append(sent)
        return await self._respond(sent, parsed, request)

    @property
    def profile(self) -> Profile:
        """The configuration of the provider."""
        return self.provider.profile

    @property
    def name(self) -> str:
        """The name of the provider in errors and logs."""
        return self.provider.name

    def capabilities(self, model: str | None = None) -> Capabilities:
        """See `Provider.capabilities`."""
        return self.provider.capabilities(model)

    def preview(
        self,
        messages: Messages,
        tools: Iterable[ToolLike] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        stream: bool = True,
        **options: Unpack[ChatOptions],
    ) -> Preview:
        """See `Provider.preview`."""
        return self.provider.preview(messages, tools, tool_choice=tool_choice, stream=stream, **options)

    async def aclose(self) -> None:
        """Does nothing, because a test double has no connections. The double can be used again."""

    def _stream(self, arguments: ChatParams) -> ChatStream:
        answer = _DoubleAnswer(forward_source(self.provider, arguments))
        return ChatStream(answer, yields_call_deltas=arguments.partial_tool_calls)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} requests={len(self.requests)}>"


def replaced_profile(
    spec: str | Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    *,
    name: str,
    adapter: str = "chat",
    model: str | None = None,
) -> Profile:
    """Returns the configuration of the provider that a double replaces, without base URL, API key and headers.

    The provider doesn't retry requests, unless `overrides` contains `max_retries`.

    Args:
        spec: see `Provider.from_config`. None means a provider with this name and adapter, without quirks.
        model: the model's name, if the configuration contains no model.

    Raises:
        ConfigError: a key is unknown, or a value is invalid.
    """
    if spec is None:
        spec = {"name": name, "adapter": adapter, "base_url": _NOWHERE}
    elif isinstance(spec, Mapping) and "profile" not in spec:
        spec = {"name": name, "base_url": _NOWHERE, **spec}
    read = load_profile(spec, {"max_retries": 0, **overrides})
    # Headers and addresses may refer to variables that are not set where tests run.
    unneeded: dict[str, Any] = {"base_url": _NOWHERE, "api_key": None, "api_key_env": (), "headers": {}, "fallback": ()}
    return read.model_copy(update={**unneeded, "model": read.model or model or name})


class ReplayProvider(ProviderDouble):
    """A test double that answers requests with recordings, one after the other.

        model = ReplayProvider("fixtures/kimi/parallel_calls", cuts="bytes:1", faults=[reset(after_events=9)])

    Args:
        recordings: paths, names of bundled recordings, or `Recording` objects, in order. The path `hello` also loads
            `hello-2`, `hello-3` and so on, which contain the later responses of the conversation.
        provider: the provider to replace; see `Provider.from_config`. The double uses the provider's quirks and
            dialect, but neither its API key nor its base URL. Default: a provider without quirks that has the adapter,
            dialect and model of the first recording.
        cuts, speed, faults, match: see `ReplayTransport`.
        hooks, overrides: see `Provider.from_config`. `max_retries` is 0 by default, so that each fault reaches the
            application.

    Attributes:
        provider: the `Provider` that decodes the responses.
        requests: the requests that the application sent. A request raises `ScriptError` if no recording is left for it,
            or if it differs from the recorded request.

    Raises:
        ConfigError: the recording doesn't exist, or an argument is not allowed.
    """

    def __init__(
        self,
        *recordings: Recording | str | os.PathLike[str],
        provider: str | Mapping[str, Any] | None = None,
        cuts: str = "recorded",
        speed: Speed = "instant",
        faults: Iterable[Fault] = (),
        match: Match = "order",
        hooks: Hooks | Iterable[Hooks] = (),
        **overrides: Unpack[ProviderConfig],
    ) -> None:
        read = [recording for source in recordings for recording in load_source(source)]
        self._transport = ReplayTransport(read, speed=speed, cuts=cuts, faults=faults, match=match)
        first = read[0]
        own = {"dialect": first.dialect} if provider is None and first.dialect else {}
        model = first.sent.model if first.sent else None
        profile = replaced_profile(provider, {**own, **overrides}, name="replay", adapter=first.adapter, model=model)
        super().__init__(profile, hooks=hooks)

    async def _respond(self, sent: SentRequest, parsed: Request, request: httpx.Request) -> httpx.Response:
        try:
            return await self._transport.handle_async_request(request)
        except ConfigError as exc:  # an application might handle it as a failure of its provider
            raise ScriptError(str(exc)) from exc


class RecordingProvider(ProviderDouble):
    """A provider that sends requests to its server, and saves the responses in a folder as the recording `name`.

    Recordings are drafts until `keep` is called, so that a failed response isn't replayed later. `aclose` closes the
    connections.

    Raises:
        ConfigError: the configuration or the name is invalid.
    """

    def __init__(
        self, folder: Path, name: str, provider: str | Mapping[str, Any], overrides: Mapping[str, Any]
    ) -> None:
        keys = {key: value for key, value in overrides.items() if key != "hooks"}
        profile = load_profile(provider, {"max_retries": 0, **keys})  # a failed attempt would be recorded as a turn
        self._name = name
        self._draft = RecordingDraft(folder, name)
        _, self._transport = recording_client(
            make_client(profile.transport), self._draft.folder, name=name, adapter=profile.adapter_of(profile.model)
        )
        super().__init__(profile, hooks=overrides.get("hooks", ()))

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    def keep(self) -> str | None:
        """Replaces older recordings with the new recordings.

        If a response failed, keeps the older recordings and returns the reason.
        """
        try:
            problem = self._draft.problem()
            if problem is None:
                self._draft.keep()
            return problem and f"{self._name} was not recorded: {problem}"
        finally:
            self._draft.discard()

    async def _respond(self, sent: SentRequest, parsed: Request, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)
