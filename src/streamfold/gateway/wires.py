"""The APIs that clients may speak. Another API is one class, and one entry in `WIRES`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..adapters.chat import ChatEmitter, completion, wants_usage
from ..adapters.chat import parse_request as parse_chat
from ..adapters.emitting import Emitter
from ..adapters.responses import ResponsesEmitter
from ..adapters.responses import parse_request as parse_responses
from ..requests import Request
from ..values import Delta, ProtocolWarning, Reply
from .messages import MessagesCountWire, MessagesWire
from .wire import ClientRequest, Size, Wire, listed

__all__ = ["WIRES", "ChatWire", "MessagesCountWire", "MessagesWire", "ResponsesWire"]


class ChatWire(Wire):
    """Chat Completions."""

    path = "/v1/chat/completions"
    adapter = "chat"
    id_prefix = "chatcmpl-"

    def size(self, body: Mapping[str, Any]) -> Size:
        messages = listed(body, "messages")
        calls = sum(len(listed(message, "tool_calls")) for message in messages if isinstance(message, Mapping))
        return Size(len(messages), calls, len(listed(body, "tools")))

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
        items = listed(body, "input")
        calls = sum(isinstance(item, Mapping) and item.get("type") == "function_call" for item in items)
        return Size(len(items), calls, len(listed(body, "tools")))

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

    def for_provider(self, asked: ClientRequest, adapters: Collection[str]) -> tuple[Request, list[ProtocolWarning]]:
        request = asked.request
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


WIRES: tuple[type[Wire], ...] = (ChatWire, ResponsesWire, MessagesWire, MessagesCountWire)
