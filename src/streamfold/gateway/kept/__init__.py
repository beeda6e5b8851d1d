"""Responses that the gateway keeps: they can be continued, fetched, resumed and cancelled, whatever the provider.

An ASGI app in front of the Responses API of the gateway, which knows nothing of it:

    endpoints    the paths, and who may do what
    conversation what a request refers to is written into its input
    running      an answer that is under way: it goes on without its client
    events       the events of an answer, and what an answer that broke off has come to
    store        where responses are kept: in memory, or in an SQLite file (`sqlite`)
"""

from .endpoints import KeptResponses
from .opening import open_responses
from .sqlite import SQLiteResponses
from .store import InMemoryResponses, KeptResponse, ResponseRetention, ResponseStore
