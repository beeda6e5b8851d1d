"""The common part of the test doubles: a model that keeps the requests it gets, and a transport instead of a network.

A double is a `ChatModel` and has a real `Provider`: the code that runs in production reads and encodes the requests and
decodes the answers. Only the transport of its HTTP client is replaced.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Unpack

import httpx

from ..answers import BaseChatModel, ChatParams, ChatStream, forward
from ..client import Hooks, Preview, Provider
from ..config import Profile, load_profile
from ..requests import Capabilities, ChatOptions, Options, Request
from ..values import Message, Messages, ReadToolChoice, Tool, ToolChoice, ToolLike

_NOWHERE = "http://test.invalid/v1"
# The request of the attempt that this task is about to send. A hook sets it, the transport reads it.
_SENDING: ContextVar[Request] = ContextVar("_SENDING")


class ScriptError(AssertionError):
    """The application sent another request than its test expects: one too many, one too few, or a different one.

    It is not a StreamfoldError, so that no application handles it as a failure of its provider.
    """


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as the application made it, and as it was sent.

    Attributes:
        model: the model that was asked.
        messages: each as a `Message`; a string is one user message.
        tools: each as a `Tool`.
        tool_choice: "auto", "none", "required", or the tool.
        options: temperature and so on.
        body: the JSON body that went over the wire.
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
        content = self.messages[-1].content
        if isinstance(content, str | None):
            return content or ""
        return "".join(_text(part) for part in content)


def _text(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
    return text if isinstance(text, str) else ""


class ProviderDouble(BaseChatModel):
    """A model that sends its requests through a transport of its own, and keeps them.

    Attributes:
        provider: the provider that does the work.
        requests: the requests that were sent, in order, retries included.
    """

    def __init__(self, profile: Profile, *, hooks: Hooks | Iterable[Hooks] = ()) -> None:
        watch = Hooks(on_request=lambda info: _SENDING.set(info.request))
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._handle), timeout=None)  # it holds no connection
        given = [hooks] if isinstance(hooks, Hooks) else hooks
        self.provider = Provider(profile, http_client=client, hooks=[watch, *given])
        self.requests: list[SentRequest] = []

    @abstractmethod
    async def _respond(self, sent: SentRequest, asked: Request, request: httpx.Request) -> httpx.Response:
        """Returns the answer to a request: as it is kept, as it was read, and as it would go over the network."""

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        asked = _SENDING.get()
        body = json.loads(request.content)
        sent = SentRequest(asked.model, asked.messages, asked.tools, asked.tool_choice, asked.options, body)
        self.requests.append(sent)
        return await self._respond(sent, asked, request)

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
        """Closes connections, if there are any. The double can still be used afterwards."""

    def _stream(self, arguments: ChatParams) -> ChatStream:
        return forward(self.provider, arguments)

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
    """Returns the configuration of a provider that a double takes the place of, without its address, key and headers.

    Requests are not retried, unless `overrides` has `max_retries`.

    Args:
        spec: as for `Provider.from_config`; None: a provider of this name and adapter.
        model: the model, if the configuration has none.

    Raises:
        ConfigError: a key is unknown or a value not allowed.
    """
    if spec is None:
        spec = {"name": name, "adapter": adapter, "base_url": _NOWHERE}
    elif isinstance(spec, Mapping) and "profile" not in spec:
        spec = {"name": name, "base_url": _NOWHERE, **spec}
    read = load_profile(spec, {"max_retries": 0, **overrides})
    # Headers and addresses may refer to variables that are not set where tests run.
    unneeded: dict[str, Any] = {"base_url": _NOWHERE, "api_key": None, "api_key_env": (), "headers": {}, "fallback": ()}
    return read.model_copy(update={**unneeded, "model": read.model or model or name})
