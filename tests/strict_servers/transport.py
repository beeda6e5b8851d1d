"""A strict server as an httpx transport: it refuses or answers, and keeps what it was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from .replies import reply
from .rules import Endpoint, Refusal


class StrictTransport(httpx.MockTransport):
    """Answers as an endpoint would.

    Attributes:
        received: each body that was sent, with the refusal that it got, or None.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.received: list[tuple[Mapping[str, Any], Refusal | None]] = []
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        refusal = self.endpoint.refusal(body)
        self.received.append((body, refusal))
        if refusal:
            return httpx.Response(refusal.status, json=refusal.body)
        return httpx.Response(200, json=reply(self.endpoint.api))
