"""Gemini's API for clients."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamfold.serving import (
    GEMINI_MEMBERS,
    GeminiFraming,
    GeminiSerializer,
    camel_case,
    gemini_error_body,
    parse_gemini_request,
)
from streamfold.types import ErrorInfo, Request

from ..http_errors import HTTPError
from ..models import ModelRoute
from .base import ClientAPI, ClientRequest, ImmediateAnswer, Warnings, counted_tokens, functions_of, not_sent

_PATH = re.compile(r"/v1beta/|/\w+/.+:(?:\w+Content|countTokens)$")
# What stands before the name of a model, on AI Studio and on Vertex AI. The AI SDK leaves it out before "ORG/MODEL".
_PLACE = re.compile(r"(?:projects/[^/]+/locations/[^/]+/publishers/[^/]+/)?models/")
_METHODS = ("generateContent", "streamGenerateContent", "countTokens")


class GeminiAPI(ClientAPI):
    """An answer of Gemini's API that is streamed: as events with `alt=sse`, else as one JSON array."""

    path = "/{version}/{model:path}:streamGenerateContent"  # v1beta, and newer clients say v1
    adapter = "gemini"
    id_prefix = "gen-"
    members = GEMINI_MEMBERS
    streams_partial_calls = False  # a call is one part
    returns_ids = False
    forwards_error_type = False
    keep_alive = GeminiSerializer.keep_alive

    @classmethod
    def matches(cls, path: str, headers: Mapping[str, str]) -> bool:
        return _PATH.match(path) is not None or any(name in headers for name in ("x-goog-api-key", "x-goog-api-client"))

    def streams(self, body: Any) -> bool:
        return True

    def model(self, body: Mapping[str, Any], params: Mapping[str, str]) -> Any:
        return _PLACE.sub("", params["model"], count=1) if _PLACE.match(params["model"]) else params["model"]

    def parse(self, body: Any, params: Mapping[str, str]) -> Request:
        return parse_gemini_request(body, self.model(body, params))

    def parse_native(self, body: Any, params: Mapping[str, str]) -> Request:
        return parse_gemini_request(body, self.model(body, params), native=True)

    def serializer(self, request: ClientRequest) -> GeminiSerializer:
        choice, thinking = request.parsed.tool_choice, _wants_thoughts(request.body) or self.options.unasked_thinking
        framing: GeminiFraming = "events" if request.params.get("alt") == "sse" else "array"
        return GeminiSerializer(
            id=request.id, model=request.model, tool_choice=choice, thinking=thinking, framing=framing
        )

    def stream_headers(self, request: ClientRequest) -> dict[str, str]:
        return {} if request.params.get("alt") == "sse" else {"content-type": "application/json; charset=utf-8"}

    @staticmethod
    def model_entry(name: str, began: int) -> dict[str, Any]:
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": list(_METHODS)}

    @classmethod
    def model_list(cls, names: Sequence[str], began: int) -> dict[str, Any]:
        return {"models": [cls.model_entry(name, began) for name in names]}

    def info(self, refusal: HTTPError) -> ErrorInfo:
        wait = refusal.headers.get("retry-after")
        status = refusal.info.status or refusal.status
        return replace(refusal.info, status=status, retry_after=float(wait) if wait else refusal.info.retry_after)

    def split_failure(self, failure: bytes) -> list[bytes]:
        """Google's client for JavaScript finds an error behind the events, if it comes by itself (1.52)."""
        events, gap, error = failure.rpartition(b"\r\n\r\n")
        return [piece for piece in (events + gap, error) if piece]

    def error(self, refusal: HTTPError, answer_id: str) -> tuple[int, dict[str, Any]]:
        return refusal.status, gemini_error_body(self.info(refusal))

    def adapt_request(self, request: ClientRequest, adapters: Collection[str]) -> tuple[ClientRequest, Warnings]:
        options = request.parsed.options
        extra = dict(options.extra_body)
        config = dict(extra.pop("generationConfig", {}))
        if set(adapters) == {self.adapter}:
            if _wants_thoughts(request.body) and options.reasoning_effort is None:
                config["thinkingConfig"] = {"includeThoughts": True}
            return request.with_extra_body({**extra, "generationConfig": config} if config else extra), []
        members = {**extra, **{f"generationConfig.{name}": value for name, value in config.items()}}
        tools, plain = functions_of(request.parsed.tools, "Gemini's API")
        request = replace(request, parsed=replace(request.parsed, tools=tools))
        return request.with_extra_body({}), [*not_sent(members, "Gemini's API"), *plain]


class GeminiWholeAPI(GeminiAPI):
    """An answer that is not streamed."""

    path = "/{version}/{model:path}:generateContent"

    def streams(self, body: Any) -> bool:
        return False


class GeminiCountAPI(GeminiWholeAPI):
    """The count of a request's tokens; it never asks a model."""

    path = "/{version}/{model:path}:countTokens"
    asks_model = False

    def parse(self, body: Any, params: Mapping[str, str]) -> Request:
        return super().parse(_counted(body), params)

    def parse_native(self, body: Any, params: Mapping[str, str]) -> Request:
        return super().parse_native(_counted(body), params)

    async def immediate_answer(self, request: ClientRequest, route: ModelRoute) -> ImmediateAnswer:
        return await counted_tokens(self, "totalTokens", request, route)


def _counted(body: Any) -> Any:
    """The request whose tokens are counted: it may be in a member."""
    whole = camel_case(body).get("generateContentRequest") if isinstance(body, Mapping) else None
    return body if whole is None else whole


def _wants_thoughts(body: Mapping[str, Any]) -> bool:
    """Returns whether the client requested thoughts: others do not expect such parts."""
    config = camel_case(camel_case(body).get("generationConfig") or {})
    thinking = camel_case(config.get("thinkingConfig") or {})
    return bool(thinking.get("includeThoughts"))
