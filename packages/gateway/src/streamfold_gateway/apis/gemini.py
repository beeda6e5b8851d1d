"""Gemini's `generateContent` API, as the gateway serves it to clients."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamfold.serving import (
    GeminiFraming,
    GeminiSerializer,
    ObjectReader,
    camel_case,
    gemini_error_body,
    parse_gemini_request,
)
from streamfold.types import ErrorInfo, Request

from ..client_members import GEMINI_MEMBERS
from ..config import GatewayOptions
from ..http_errors import HTTPError
from .base import APIEndpoint, ClientAPI, ClientRequest

_PATH = re.compile(r"/v1beta/|/\w+/.+:(?:\w+Content|countTokens)$")
# The prefix of a model name, on AI Studio and on Vertex AI. The AI SDK omits it before "ORG/MODEL".
_PLACE = re.compile(r"(?:projects/[^/]+/locations/[^/]+/publishers/[^/]+/)?models/")
_METHODS = ("generateContent", "streamGenerateContent", "countTokens")


class GeminiAPI(ClientAPI):
    """Gemini's API, as the gateway serves it to clients. If the URL has `alt=sse`, a stream consists of SSE events;
    otherwise, it is one JSON array.
    """

    endpoints = (  # newer clients send v1
        APIEndpoint("/{version}/{model:path}:streamGenerateContent", "gen-", streams=True),
        APIEndpoint("/{version}/{model:path}:generateContent", "gen-", streams=False),
        APIEndpoint("/{version}/{model:path}:countTokens", "gen-", streams=False, count_member="totalTokens"),
    )
    adapter = "gemini"
    label = "Gemini's API"
    members = GEMINI_MEMBERS
    streams_partial_calls = False  # a tool call is one part
    returns_ids = False
    forwards_error_type = False
    keep_alive = GeminiSerializer.keep_alive

    def matches(self, path: str, headers: Mapping[str, str]) -> bool:
        return _PATH.match(path) is not None or any(name in headers for name in ("x-goog-api-key", "x-goog-api-client"))

    def model(self, fields: ObjectReader, params: Mapping[str, str]) -> str:
        return _model_name(params)

    def parse(self, body: Any, params: Mapping[str, str], *, native: bool) -> Request:
        return parse_gemini_request(body, _model_name(params), native=native)

    def counted_body(self, body: Any) -> Any:
        whole = camel_case(body).get("generateContentRequest") if isinstance(body, Mapping) else None
        return body if whole is None else whole

    def serializer(self, request: ClientRequest, options: GatewayOptions) -> GeminiSerializer:
        choice, thinking = request.parsed.tool_choice, _wants_thoughts(request.body) or options.unasked_thinking
        framing: GeminiFraming = "events" if request.params.get("alt") == "sse" else "array"
        return GeminiSerializer(
            id=request.id, model=request.model, tool_choice=choice, thinking=thinking, framing=framing
        )

    def stream_headers(self, request: ClientRequest) -> dict[str, str]:
        return {} if request.params.get("alt") == "sse" else {"content-type": "application/json; charset=utf-8"}

    def model_entry(self, name: str, began: int) -> dict[str, Any]:
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": list(_METHODS)}

    def model_list(self, names: Sequence[str], began: int) -> dict[str, Any]:
        return {"models": [self.model_entry(name, began) for name in names]}

    def info(self, refusal: HTTPError) -> ErrorInfo:
        wait = refusal.headers.get("retry-after")
        status = refusal.info.status or refusal.status
        return replace(refusal.info, status=status, retry_after=float(wait) if wait else refusal.info.retry_after)

    def split_failure(self, failure: bytes) -> list[bytes]:
        """Splits off the error event, because Google's JavaScript client (1.52) notices an error only at the start of
        an HTTP chunk.
        """
        events, gap, error = failure.rpartition(b"\r\n\r\n")
        return [piece for piece in (events + gap, error) if piece]

    def error(self, refusal: HTTPError, answer_id: str) -> tuple[int, dict[str, Any]]:
        return refusal.status, gemini_error_body(self.info(refusal))

    def adapt_request(self, request: ClientRequest, adapters: Collection[str]) -> ClientRequest:
        options = request.parsed.options
        extra = dict(options.extra_body)
        config = dict(extra.pop("generationConfig", {}))
        if set(adapters) == {self.adapter}:
            if _wants_thoughts(request.body) and options.reasoning_effort is None:
                config["thinkingConfig"] = {"includeThoughts": True}
            return request.with_extra_body({**extra, "generationConfig": config} if config else extra)
        members = {**extra, **{f"generationConfig.{name}": value for name, value in config.items()}}
        return self.without_own_fields(request, members)


def _model_name(params: Mapping[str, str]) -> str:
    return _PLACE.sub("", params["model"], count=1) if _PLACE.match(params["model"]) else params["model"]


def _wants_thoughts(body: Mapping[str, Any]) -> bool:
    """Returns whether the client requested thoughts (`includeThoughts`). Other clients don't expect thoughts in
    responses.
    """
    config = camel_case(camel_case(body).get("generationConfig") or {})
    thinking = camel_case(config.get("thinkingConfig") or {})
    return bool(thinking.get("includeThoughts"))
