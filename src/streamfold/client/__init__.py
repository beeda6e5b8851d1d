"""Providers, fallbacks, hooks and batch APIs.

provider          `Provider`, a model at a configured endpoint
fallback          `Fallback`, several models in order
endpoint          what the requests of a provider share: connections, limits, settings
prepared_call     `PreparedCall`, one request in the format of its API; `Preview`
network_stream    one answer: attempts until its first chunk, then its chunks, reconnections, continuations
retry_backoff     the loop of attempts, and how long it waits
rejected_options  sends a request again without the options that the server rejected
hooks             functions of the program that are called during a request; logging
costs             the cost of an answer
api_calls         requests other than chat: token counts, batches, files
batches           the batch API of a provider

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..public_names import import_later, set_public_module
from .api_calls import call_api, json_reader
from .endpoint import Endpoint
from .fallback import Fallback
from .hooks import Hooks, RequestInfo, read_hooks
from .network_stream import reserving_parts
from .prepared_call import Preview
from .provider import Provider
from .rejected_options import OptionRestriction, option_restriction, requests_of, with_restrictions
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
