"""The two wires that clients may speak: how a request is read, and how an answer is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..adapters import wants_stream
from ..adapters.chat import ChatEmitter, completion, wants_usage
from ..adapters.chat import parse_request as parse_chat
from ..adapters.emitting import Emitter, reply_deltas
from ..adapters.responses import ResponsesEmitter
from ..adapters.responses import parse_request as parse_responses
from ..requests import Request
from ..values import Meta, ProtocolWarning, Reply

__all__ = ["Asked", "ChatWire", "ResponsesWire", "Wire"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's request.

    Attributes:
        body: as it was sent.
        model: the name that the client used for the model.
        id: what the answer is called.
        created: when it was asked for, in seconds since 1970.
    """

    body: Mapping[str, Any]
    request: Request
    model: str
    stream: bool
    id: str
    created: int


class Wire(ABC):
    """One of them.

    Attributes:
        adapter: the name of the adapter that speaks it on the other side.
        prefix: what the ids of its answers begin with.
    """

    adapter: str
    prefix: str

    def read(self, body: Any, *, number: str, created: int) -> Asked:
        """The request that a body is. Raises ConfigError."""
        request = self.parse(body)
        return Asked(body, request, request.model, wants_stream(body), self.prefix + number, created)

    @abstractmethod
    def parse(self, body: Any) -> Request:
        """The request that a body is. Raises ConfigError."""

    @abstractmethod
    def emitter(self, asked: Asked) -> Emitter:
        """What writes a streamed answer."""

    @abstractmethod
    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        """The body of an answer that is not streamed."""

    def across(self, request: Request, adapter: str | None) -> tuple[Request, list[ProtocolWarning]]:
        """The request for a provider that speaks another wire, and what of it means nothing there."""
        return request, []


class ChatWire(Wire):
    """Chat Completions."""

    adapter = "chat"
    prefix = "chatcmpl-"

    def parse(self, body: Any) -> Request:
        wants_usage(body)  # a mistake in it is one of the request
        return parse_chat(body)

    def emitter(self, asked: Asked) -> Emitter:
        return ChatEmitter(
            id=asked.id,
            model=asked.model,
            created=asked.created,
            tool_choice=asked.request.tool_choice,
            include_usage=wants_usage(asked.body),
            mend_finish=True,
        )

    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        choice = asked.request.tool_choice
        return completion(
            reply, id=asked.id, model=asked.model, created=asked.created, tool_choice=choice, mend_finish=True
        )


# Of the members that only this API has, those that say nothing elsewhere, and the value that says nothing at all.
_OF_RESPONSES: dict[str, Any] = {"include": [], "store": False, "truncation": "disabled", "reasoning": {}, "text": {}}


class ResponsesWire(Wire):
    """The Responses API."""

    adapter = "responses"
    prefix = "resp_"

    def parse(self, body: Any) -> Request:
        return parse_responses(body)

    def emitter(self, asked: Asked) -> ResponsesEmitter:
        return ResponsesEmitter(
            id=asked.id,
            model=asked.model,
            created=asked.created,
            tool_choice=asked.request.tool_choice,
            request=asked.body,
        )

    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        emitter = self.emitter(asked)
        emitter.feed_all(delta for delta in reply_deltas(reply) if not isinstance(delta, Meta))
        emitter.finish()
        return emitter.response

    def across(self, request: Request, adapter: str | None) -> tuple[Request, list[ProtocolWarning]]:
        if adapter == self.adapter:
            return request, []
        extra = dict(request.options.extra_body)
        text = extra.get("text")
        if isinstance(text, Mapping) and "verbosity" in text:  # the same option by another name
            extra["verbosity"] = text["verbosity"]
            extra["text"] = {name: value for name, value in text.items() if name != "verbosity"}
        left = {name: extra.pop(name) for name in _OF_RESPONSES if name in extra}
        told = [name for name, value in left.items() if value not in (None, _OF_RESPONSES[name])]
        request = replace(request, options=replace(request.options, extra_body=extra))
        detail = f"{' and '.join(told)} of the Responses API mean nothing to this provider, and were not sent"
        return request, [ProtocolWarning("option_dropped", detail)] if told else []
