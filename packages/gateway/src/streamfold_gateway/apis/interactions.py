"""Google's Interactions API, as the gateway serves it to clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamfold import ConfigError
from streamfold.serving import ObjectReader
from streamfold.serving.interactions import (
    InteractionsSerializer,
    interactions_error_body,
    parse_interactions_request,
    wants_thoughts,
)
from streamfold.types import Request

from ..client_members import INTERACTIONS_MEMBERS
from ..config import GatewayOptions
from ..http_errors import HTTPError
from .base import APIEndpoint, ClientAPI, ClientRequest

_PATH = re.compile(r"/\w+/interactions(?:/|$)")


class InteractionsAPI(ClientAPI):
    """Google's Interactions API without stored interactions: the client sends the complete conversation with each
    request.
    """

    endpoints = (APIEndpoint("/{version}/interactions", "v1_"),)
    adapter = "interactions"
    label = "the Interactions API"
    members = INTERACTIONS_MEMBERS
    forwards_error_type = False
    keep_alive = InteractionsSerializer.keep_alive

    def matches(self, path: str, headers: Mapping[str, str]) -> bool:
        return _PATH.match(path) is not None

    def model(self, fields: ObjectReader, params: Mapping[str, str]) -> str:
        if fields.any("agent") is not None:
            raise ConfigError("agent: Google's agents need stored interactions, which this server doesn't have")
        return fields.need("model")

    def parse(self, body: Any, params: Mapping[str, str], *, native: bool) -> Request:
        return parse_interactions_request(body, native=native)

    def serializer(self, request: ClientRequest, options: GatewayOptions) -> InteractionsSerializer:
        thinking = wants_thoughts(request.body) or options.unasked_thinking
        choice = request.parsed.tool_choice
        return InteractionsSerializer(
            id=request.id,
            model=request.model,
            created=request.created,
            tool_choice=choice,
            thinking=thinking,
            fill_finish_reason=True,
        )

    def error(self, refusal: HTTPError, answer_id: str) -> tuple[int, dict[str, Any]]:
        return refusal.status, interactions_error_body(replace(self.info(refusal), status=refusal.status))
