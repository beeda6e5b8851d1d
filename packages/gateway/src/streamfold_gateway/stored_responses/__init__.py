"""Responses that the gateway keeps: they can be continued, fetched, resumed and cancelled, whatever the provider.

It stands before the gateway's answers on the Responses API, and listens to the serializer that writes them:

    endpoints    the paths, and who may do what
    conversation what a request refers to is written into its input
    making       an answer that is kept while it is made, with its client or without
    events       the events of an answer, and what an answer that broke off has come to
    responses    how responses are kept in a store (`streamfold.stores`)
"""

from .endpoints import StoredResponses
from .store import ResponseStore

__all__ = ["ResponseStore", "StoredResponses"]
