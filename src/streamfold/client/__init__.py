"""Providers: profiles that are called, fallbacks, hooks and batches.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..values import set_public_module
from .api_calls import json_reader
from .batch_request import BatchRequest
from .batches import BatchClient
from .endpoint import Endpoint
from .fallback import Fallback
from .hooks import Hooks, RequestInfo, read_hooks
from .loop_bound_client import LoopBoundClient
from .preview import Preview
from .provider import Provider
from .requester import Requester
from .restrictions import requests_of

__all__ = ["read_hooks", "requests_of"]

set_public_module("streamfold", [Fallback, Hooks, Preview, Provider])
