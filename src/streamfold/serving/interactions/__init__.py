"""Parses the requests and serializes the responses of a server that offers Google's Interactions API.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ...adapters.interactions import interactions_error_body
from .request import parse_interactions_request, wants_thoughts
from .serializer import InteractionsSerializer

__all__ = [
    "InteractionsSerializer",
    "interactions_error_body",
    "parse_interactions_request",
    "wants_thoughts",
]
