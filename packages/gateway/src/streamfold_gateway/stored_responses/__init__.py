"""Responses that the gateway keeps: they can be continued, fetched, resumed and cancelled, whatever the provider.

Its modules:

    endpoints    the paths, and who may do what
    references   writes the items that a request refers to into its input
    recorder     records a response while it is made, with its client or without
    store        responses and their events in a store (`streamfold.stores`)
"""

from .endpoints import StoredResponses
from .store import ResponseStore

__all__ = ["ResponseStore", "StoredResponses"]
