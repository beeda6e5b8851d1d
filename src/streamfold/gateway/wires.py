"""The APIs that clients may speak: how a request is read, and how an answer is written.

Another API is one class here, and one entry in `WIRES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..adapters import wants_stream
from ..adapters.chat import ChatEmitter, completion, wants_usage
from ..adapters.chat import parse_request as parse_chat
from ..adapters.emitting import Emitter, error_body
from ..adapters.responses import ResponsesEmitter
from ..adapters.responses import parse_request as parse_responses
from ..requests import Request
from ..values import Delta, ErrorInfo, ProtocolWarning, Reply

__all__ = ["WIRES", "ChatWire", "ClientRequest", "ResponsesWire", "Size", "Wire"]


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of a client.

    Attributes:
        body: the JSON body, as it was sent.
        request: the same, parsed.
        stream: whether the answer is to be streamed.
        id: the id of the answer.
        created: when the request came, in seconds since 1970.
    """

    body: Mapping[str, Any]
    request: Request
    stream: bool
    id: str
    created: int

    @property
    def model(self) -> str:
        """The name that the client used for the model."""
        return self.request.model


@dataclass(frozen=True, slots=True)
class Size:
    """How much a request holds, counted before it is parsed."""

    messages: int
    tool_calls: int
    tools: int


class Wire(ABC):
    """One API.

    Attributes:
        path: where its requests are sent.
        adapter: the name of the adapter that speaks it to a provider.
        id_prefix: how the ids of its answers begin.
    """

    path: ClassVar[str]
    adapter: ClassVar[str]
    id_prefix: ClassVar[str]

    def read(self, body: Any, *, id: str, created: int) -> ClientRequest:  # noqa: A002 - the word on the wire
        """Parses a request. Raises ConfigError with the path to what is wrong in it."""
        return ClientRequest(body, self.parse(body), wants_stream(body), id, created)

    @abstractmethod
    def size(self, body: Mapping[str, Any]) -> Size:
        """Counts the parts of a request that may be anything yet."""

    @abstractmethod
    def parse(self, body: Any) -> Request:
        """Parses a request. Raises ConfigError with the path to what is wrong in it."""

    @abstractmethod
    def emitter(self, asked: ClientRequest) -> Emitter:
        """Returns the writer of a streamed answer."""

    @abstractmethod
    def whole(self, asked: ClientRequest, reply: Reply, deltas: Iterable[Delta]) -> dict[str, Any]:
        """Returns the body of an answer that is not streamed.

        Args:
            deltas: the same answer as the facts that a stream would be written from, in their order.
        """

    def error(self, info: ErrorInfo) -> dict[str, Any]:
        """Returns the body of an error response."""
        return error_body(replace(info, status=None))

    def for_provider(self, request: Request, adapters: Collection[str]) -> tuple[Request, list[ProtocolWarning]]:
        """Returns the request for providers that may speak other APIs, and warnings about what they can't be asked."""
        return request, []


class ChatWire(Wire):
    """Chat Completions."""

    path = "/v1/chat/completions"
    adapter = "chat"
    id_prefix = "chatcmpl-"

    def size(self, body: Mapping[str, Any]) -> Size:
        messages = _list(body, "messages")
        calls = sum(len(_list(message, "tool_calls")) for message in messages if isinstance(message, Mapping))
        return Size(len(messages), calls, len(_list(body, "tools")))

    def parse(self, body: Any) -> Request:
        wants_usage(body)  # a mistake in it is one of the request
        return parse_chat(body)

    def emitter(self, asked: ClientRequest) -> Emitter:
        return ChatEmitter(
            id=asked.id,
            model=asked.model,
            created=asked.created,
            tool_choice=asked.request.tool_choice,
            include_usage=wants_usage(asked.body),
            mend_finish=True,
        )

    def whole(self, asked: ClientRequest, reply: Reply, deltas: Iterable[Delta]) -> dict[str, Any]:
        choice = asked.request.tool_choice
        return completion(
            reply, id=asked.id, model=asked.model, created=asked.created, tool_choice=choice, mend_finish=True
        )


# Members of the Responses API that other providers do not know, each with the value that asks for nothing.
_RESPONSES_ONLY: dict[str, Any] = {"include": [], "store": False, "truncation": "disabled", "reasoning": {}, "text": {}}


class ResponsesWire(Wire):
    """The Responses API."""

    path = "/v1/responses"
    adapter = "responses"
    id_prefix = "resp_"

    def size(self, body: Mapping[str, Any]) -> Size:
        items = _list(body, "input")
        calls = sum(isinstance(item, Mapping) and item.get("type") == "function_call" for item in items)
        return Size(len(items), calls, len(_list(body, "tools")))

    def parse(self, body: Any) -> Request:
        return parse_responses(body)

    def emitter(self, asked: ClientRequest) -> ResponsesEmitter:
        return ResponsesEmitter(
            id=asked.id,
            model=asked.model,
            created=asked.created,
            tool_choice=asked.request.tool_choice,
            request=asked.body,
        )

    def whole(self, asked: ClientRequest, reply: Reply, deltas: Iterable[Delta]) -> dict[str, Any]:
        emitter = self.emitter(asked)
        emitter.feed_all(deltas)
        emitter.finish()
        return emitter.response

    def for_provider(self, request: Request, adapters: Collection[str]) -> tuple[Request, list[ProtocolWarning]]:
        if set(adapters) == {self.adapter}:
            return request, []
        extra = dict(request.options.extra_body)
        text = extra.get("text")
        if isinstance(text, Mapping) and "verbosity" in text:  # the same option by another name
            extra["verbosity"] = text["verbosity"]
            extra["text"] = {name: value for name, value in text.items() if name != "verbosity"}
        left = {name: extra.pop(name) for name in _RESPONSES_ONLY if name in extra}
        lost = [name for name, value in left.items() if value not in (None, _RESPONSES_ONLY[name])]
        request = replace(request, options=replace(request.options, extra_body=extra))
        detail = f"{' and '.join(lost)}: only the Responses API has this; it was not sent to the provider"
        return request, [ProtocolWarning("option_dropped", detail)] if lost else []


WIRES: tuple[Wire, ...] = (ChatWire(), ResponsesWire())


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []
