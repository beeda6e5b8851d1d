"""Providers, fallbacks, hooks and batch APIs.

provider          `Provider`, a model at a configured endpoint
fallback          `Fallback`, several models in order
endpoint          the connections, limits and settings that a provider's requests share
prepared_call     `PreparedCall`, one request in the format of its API; `Preview`
network_stream    reads one answer over the network, with retries, reconnections and continuations
retry_backoff     retries a request, and computes the delay before each retry
rejected_options  sends a request again without the options that the server rejected
hooks             the application's functions that are called during a request; logging
costs             computes the cost of an answer
api_calls         requests other than chat: token counts, batches, files
batches           builds, sends and parses requests of a provider's batch API

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..public_names import import_later, set_public_module
from .api_calls import call_api, json_reader
from .endpoint import Endpoint, requests_of
from .fallback import Fallback
from .hooks import Hooks, RequestInfo, read_hooks
from .network_stream import reserving_parts
from .prepared_call import Preview
from .provider import Provider
from .rejected_options import OptionRestriction, option_restriction, with_restrictions
from .retry_backoff import Backoff, retry_delay

if TYPE_CHECKING:
    from .batches import BatchClient, BatchRequest

__all__ = [
    "Backoff",
    "Endpoint",
    "call_api",
    "json_reader",
    "read_hooks",
    "requests_of",
    "reserving_parts",
    "retry_delay",
]

set_public_module(__name__, [globals()[name] for name in __all__])

set_public_module("streamfold", [Fallback, Hooks, Preview, Provider])

set_public_module("streamfold.types", [RequestInfo])


def __getattr__(name: str) -> Any:
    return import_later(__name__, name, {".batches": ("BatchClient", "BatchRequest")})
