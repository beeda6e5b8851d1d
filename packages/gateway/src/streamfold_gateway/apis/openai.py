"""Chat Completions and the Responses API for clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streamfold.serving import (
    CHAT_MEMBERS,
    RESPONSES_MEMBERS,
    ChatSerializer,
    ClientTools,
    ResponsesSerializer,
    StreamSerializer,
    has_only_function_tools,
    parse_chat_request,
    parse_responses_as_functions,
    parse_responses_request,
    wants_usage,
)
from streamfold.types import Request

from ..conversation import with_one_system
from .base import ClientAPI, ClientRequest, Warnings, functions_of, not_sent

# https://platform.openai.com/docs/guides/safety-best-practices, /docs/guides/prompt-caching
_CLIENT_IDS = ("user", "safety_identifier", "prompt_cache_key")
_CHAT = {"chat", "kimi"}  # adapters whose providers know the members of Chat Completions
_SHARED = (*_CLIENT_IDS, "metadata", "service_tier", "store")  # those that the Responses API has too


class ChatAPI(ClientAPI):
    """Chat Completions."""

    path = "/v1/chat/completions"
    adapter = "chat"
    id_prefix = "chatcmpl-"
    client_ids = _CLIENT_IDS
    members = CHAT_MEMBERS

    def parse(self, body: Any, params: Mapping[str, str]) -> Request:
        wants_usage(body)  # a mistake in it is one of the request
        return parse_chat_request(body)

    def emitter(self, asked: ClientRequest) -> StreamSerializer:
        return ChatSerializer(
            id=asked.id,
            model=asked.model,
            created=asked.created,
            tool_choice=asked.request.tool_choice,
            include_usage=wants_usage(asked.body),
            mend_finish=True,
        )

    def for_provider(self, asked: ClientRequest, adapters: Collection[str]) -> tuple[ClientRequest, Warnings]:
        if adapters and set(adapters) <= _CHAT:
            return asked, []
        extra = dict(asked.request.options.extra_body)
        asked = _with_effort(asked, extra.pop("thinking", None))
        kept: dict[str, Any] = {}
        if set(adapters) == {ResponsesAPI.adapter}:
            kept = {name: extra.pop(name) for name in _SHARED if name in extra}
            if "verbosity" in extra:
                kept["text"] = {"verbosity": extra.pop("verbosity")}  # the same option by another name
        tools, plain = functions_of(asked.request.tools, "Chat Completions")
        asked = replace(asked, request=replace(asked.request, tools=tools))
        return asked.with_extra_body(kept), [*not_sent(extra, "Chat Completions"), *plain]


def _with_effort(asked: ClientRequest, thinking: Any) -> ClientRequest:
    """Returns the request with Kimi's switch for thinking as an effort, which other providers know."""
    options = asked.request.options
    kind = thinking.get("type") if isinstance(thinking, Mapping) else None
    if kind not in ("enabled", "disabled") or options.reasoning_effort is not None:
        return asked
    made = replace(options, reasoning_effort="high" if kind == "enabled" else "none")
    return replace(asked, request=replace(asked.request, options=made))


# Members of the Responses API that other providers do not know, each with the value that asks for nothing.
_RESPONSES_ONLY: dict[str, Any] = {
    "include": [], "store": False, "truncation": "disabled", "reasoning": {}, "text": {}, "client_metadata": {},
    "max_tool_calls": None, "context_management": [], "access_programs": [],
}  # fmt: skip
# Reasoning is always sent, as a summary, and clients send it back.
_GIVEN_ANYWAY = {"include": "reasoning.encrypted_content", "reasoning": "summary"}


@dataclass(frozen=True, slots=True)
class _ResponsesRequest(ClientRequest):
    """A request of a client of the Responses API.

    Attributes:
        tools: the client's tools, by the names of the functions that stand for them.
    """

    tools: ClientTools = field(default_factory=dict)


class ResponsesAPI(ClientAPI):
    """The Responses API."""

    path = "/v1/responses"
    adapter = "responses"
    id_prefix = "resp_"
    client_ids = (*_CLIENT_IDS, "client_metadata")  # Codex names its installation there, and the session as cache key
    members = RESPONSES_MEMBERS

    def parse(self, body: Any, params: Mapping[str, str]) -> Request:
        return parse_responses_request(body)

    def emitter(self, asked: ClientRequest) -> ResponsesSerializer:
        keeper = asked.keeper
        emitter = ResponsesSerializer(
            id=asked.id,
            model=asked.model,
            created=asked.created,
            tool_choice=asked.request.tool_choice,
            mend_finish=True,
            request=asked.body,
            tools=asked.tools if isinstance(asked, _ResponsesRequest) else None,
            about=keeper.about if keeper else None,
            listener=keeper.note if keeper else None,
            returns=not (keeper and keeper.waits),
        )
        if keeper is not None:
            keeper.emitter = emitter
        return emitter

    def for_provider(self, asked: ClientRequest, adapters: Collection[str]) -> tuple[ClientRequest, Warnings]:
        if set(adapters) == {self.adapter}:
            return asked, []
        warnings: Warnings = []
        if not has_only_function_tools(asked.body):
            extra = asked.request.options.extra_body  # of the first reading: without what identifies the client
            read = parse_responses_as_functions(asked.body)
            rest = {name: value for name, value in extra.items() if name in read.request.options.extra_body}
            members = {
                name: getattr(asked, name)
                for name in ("body", "stream", "id", "created", "headers", "params", "keeper", "dropped")
            }
            made = _ResponsesRequest(request=read.request, tools=read.tools, **members)
            asked = made.with_extra_body(rest)
            warnings += read.warnings
        extra = dict(asked.request.options.extra_body)
        text = extra.get("text")
        if isinstance(text, Mapping) and "verbosity" in text and set(adapters) == {ChatAPI.adapter}:
            extra["verbosity"] = text["verbosity"]  # the same option by another name
            extra["text"] = _without(text, "verbosity")
        for name, member in _GIVEN_ANYWAY.items():
            if name in extra:
                extra[name] = _without(extra[name], member)
        names = _RESPONSES_ONLY if adapters and set(adapters) <= _CHAT else {**_RESPONSES_ONLY, **dict.fromkeys(extra)}
        left = {name: extra.pop(name) for name in names if name in extra}
        lost = {name: value for name, value in left.items() if value != _RESPONSES_ONLY.get(name)}
        warnings += not_sent(lost, "the Responses API")
        tools, plain = functions_of(asked.request.tools, "the Responses API")
        request = replace(asked.request, messages=with_one_system(asked.request.messages), tools=tools)
        return replace(asked, request=request).with_extra_body(extra), [*warnings, *plain]


def _without(value: Any, member: str) -> Any:
    """Returns an object or a list without a member."""
    match value:
        case Mapping():
            return {name: inner for name, inner in value.items() if name != member}
        case list():
            return [inner for inner in value if inner != member]
    return value
