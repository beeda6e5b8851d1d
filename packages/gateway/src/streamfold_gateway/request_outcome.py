"""How each request ended, as a value: for metrics, and for a log that programs read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from streamfold import Cost, Usage

# One JSON object for each request.
log = logging.getLogger("streamfold.gateway.requests")


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """One request, at its end.

    Attributes:
        id: the id of the answer, as in the header `X-Request-Id`.
        api: the API that the client speaks, by the name of its adapter.
        model: the name that the client used.
        how: "completed": the client got a whole answer; "answered": one that no model gave; "refused": the request was
            wrong; "failed": the provider failed, or the server; "disconnected": the client left; "stopped": the server
            did.
        status: the HTTP status; 499 for a client that left, as elsewhere.
        seconds: from the request to its end.
        first: seconds until the first part of the answer.
        provider: who answered, or failed.
        finish_reason: of the answer.
        usage, cost: of the answer, or of the part of it that came; None if they are not known.
        key: the name of the client's key.
        error: the kind of error, by the name of its class.
        warnings: the codes of the warnings, each once.
        attempts: the providers of failed attempts before.
    """

    id: str
    api: str
    model: str
    how: Literal["completed", "answered", "refused", "failed", "disconnected", "stopped"]
    status: int
    seconds: float
    first: float | None = None
    provider: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    key: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the outcome as JSON data, without what is not known."""
        said: dict[str, Any] = {"id": self.id, "api": self.api, "key": self.key, "model": self.model}
        said["outcome"] = self.how
        said |= {"status": self.status, "seconds": round(self.seconds, 4)}
        said["first_seconds"] = None if self.first is None else round(self.first, 4)
        said |= {"provider": self.provider, "finish_reason": self.finish_reason, "error": self.error}
        for name in _TOKENS:
            said[name] = getattr(self.usage, name, None)
        if self.cost is not None:
            said |= {"cost": float(self.cost.amount), "currency": self.cost.currency}
            said["cost_estimated"] = self.cost.estimated or None
        said |= {"warnings": list(self.warnings) or None, "failed_attempts": list(self.attempts) or None}
        return {name: value for name, value in said.items() if value is not None}


_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")

Observer: TypeAlias = Callable[[RequestOutcome], None]


def log_json(outcome: RequestOutcome) -> None:
    """Writes an outcome as one line of JSON to the logger `streamfold.gateway.requests`."""
    log.info("%s", json.dumps(outcome.to_dict()))
