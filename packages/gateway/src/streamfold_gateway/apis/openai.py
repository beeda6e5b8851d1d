"""OpenAI's Chat Completions API and Responses API, as the gateway serves them to clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from streamfold import Reply
from streamfold.serving import (
    ChatSerializer,
    ResponsesSerializer,
    StreamSerializer,
    compaction_object,
    has_only_function_tools,
    parse_chat_request,
    parse_responses_as_functions,
    parse_responses_request,
    wants_usage,
)
from streamfold.types import Request

from ..client_members import CHAT_MEMBERS, RESPONSES_MEMBERS
from ..config import GatewayOptions
from ..conversation import with_one_system
from .base import APIEndpoint, ClientAPI, ClientRequest

# https://platform.openai.com/docs/guides/safety-best-practices, /docs/guides/prompt-caching
_CLIENT_IDS = ("user", "safety_identifier", "prompt_cache_key")
_CHAT = {"chat", "kimi"}  # adapters of providers that accept the fields of Chat Completions
_SHARED = (*_CLIENT_IDS, "metadata", "service_tier", "store")  # fields that the Responses API has too


class ChatAPI(ClientAPI):
    """OpenAI's Chat Completions API, as the gateway serves it to clients."""

    endpoints = (APIEndpoint("/v1/chat/completions", "chatcmpl-"),)
    adapter = "chat"
    label = "Chat Completions"
    client_ids = _CLIENT_IDS
    members = CHAT_MEMBERS

    def parse(self, body: Any, params: Mapping[str, str], *, native: bool) -> Request:
        wants_usage(body)  # raises ConfigError if the field is invalid
        return parse_chat_request(body)

    def serializer(self, request: ClientRequest, options: GatewayOptions) -> StreamSerializer:
        return ChatSerializer(
            id=request.id,
            model=request.model,
            created=request.created,
            tool_choice=request.parsed.tool_choice,
            include_usage=wants_usage(request.body),
            fill_finish_reason=True,
        )

    def adapt_request(self, request: ClientRequest, adapters: Collection[str]) -> ClientRequest:
        if adapters and set(adapters) <= _CHAT:
            return request
        extra = dict(request.parsed.options.extra_body)
        request = _with_effort(request, extra.pop("thinking", None))
        kept: dict[str, Any] = {}
        if set(adapters) == {ResponsesAPI.adapter}:
            kept = {name: extra.pop(name) for name in _SHARED if name in extra}
            if "verbosity" in extra:
                kept["text"] = {"verbosity": extra.pop("verbosity")}  # the same option by another name
        return self.without_own_fields(request, extra, kept)


def _with_effort(request: ClientRequest, thinking: Any) -> ClientRequest:
    """Converts Kimi's request field `thinking` to a reasoning effort, which other providers support."""
    options = request.parsed.options
    kind = thinking.get("type") if isinstance(thinking, Mapping) else None
    if kind not in ("enabled", "disabled") or options.reasoning_effort is not None:
        return request
    made = replace(options, reasoning_effort="high" if kind == "enabled" else "none")
    return replace(request, parsed=replace(request.parsed, options=made))


# Fields that only the Responses API has, each with the value that has no effect.
_RESPONSES_ONLY: dict[str, Any] = {
    "include": [], "store": False, "truncation": "disabled", "reasoning": {}, "text": {}, "client_metadata": {},
    "max_tool_calls": None, "context_management": [], "access_programs": [],
}  # fmt: skip
# Reasoning is always sent, as a summary, and clients send it back.
_GIVEN_ANYWAY = {"include": "reasoning.encrypted_content", "reasoning": "summary"}


class ResponsesAPI(ClientAPI):
    """OpenAI's Responses API, as the gateway serves it to clients."""

    endpoints = (
        APIEndpoint("/v1/responses", "resp_"),
        APIEndpoint("/v1/responses/input_tokens", "count_", count_member="input_tokens"),
        APIEndpoint("/v1/responses/compact", "resp_", streams=False, compacts=True),
    )
    adapter = "responses"
    label = "the Responses API"
    client_ids = (*_CLIENT_IDS, "client_metadata")  # Codex sends its installation and session in them
    members = RESPONSES_MEMBERS

    def parse(self, body: Any, params: Mapping[str, str], *, native: bool) -> Request:
        return parse_responses_request(body)

    def compaction_body(self, request: ClientRequest, reply: Reply) -> dict[str, Any]:
        given = request.body.get("input")
        items = [item for item in given if isinstance(item, Mapping)] if isinstance(given, list) else []
        opening = takewhile(lambda item: item.get("role") in ("system", "developer"), items)  # not compacted
        return compaction_object(reply, id=request.id, created=request.created, opening=opening)

    def count_body(self, member: str, number: int) -> dict[str, Any]:
        return {"object": "response.input_tokens", member: number}

    def serializer(self, request: ClientRequest, options: GatewayOptions) -> ResponsesSerializer:
        return ResponsesSerializer(
            id=request.id,
            model=request.model,
            created=request.created,
            tool_choice=request.parsed.tool_choice,
            fill_finish_reason=True,
            request=request.body,
            tools=request.tools,
            about=request.stored,
            records=request.stored is not None,
        )

    def adapt_request(self, request: ClientRequest, adapters: Collection[str]) -> ClientRequest:
        if set(adapters) == {self.adapter}:
            return request
        if not has_only_function_tools(request.body):
            extra = request.parsed.options.extra_body  # from the first parsing, without fields that identify the client
            read = parse_responses_as_functions(request.body)
            rest = {name: value for name, value in extra.items() if name in read.request.options.extra_body}
            request = replace(request, parsed=read.request, tools=read.tools).with_extra_body(rest)
            request = request.with_warnings(read.warnings)
        extra = dict(request.parsed.options.extra_body)
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
        parsed = replace(request.parsed, messages=with_one_system(request.parsed.messages))
        return self.without_own_fields(replace(request, parsed=parsed), lost, extra)


def _without(value: Any, member: str) -> Any:
    match value:
        case Mapping():
            return {name: inner for name, inner in value.items() if name != member}
        case list():
            return [inner for inner in value if inner != member]
    return value
