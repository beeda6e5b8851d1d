"""Stored responses. Clients can continue, fetch, resume and cancel them, whichever provider created the response.

endpoints    the HTTP endpoints
references   replaces references in a request with the stored items
recorder     records a response as it arrives, for a connected client or in the background
store        stores responses in a key-value store (`streamfold.stores`)
"""

from .endpoints import StoredResponses
from .store import ResponseStore

__all__ = ["ResponseStore", "StoredResponses"]
