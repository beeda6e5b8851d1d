"""A cache of turns: what clients leave out of earlier turns (reasoning, signatures, encrypted items) is given back.

turns     which turn is which, and what a turn that came back has lost
store     where it is kept: in memory, in an SQLite file (`sqlite`), in Valkey or Redis (`valkey`)
cache     what joins the two, and `answer` the stream that uses them
"""

from .answer import RememberedAnswer
from .cache import Recalled, TurnCache, open_store, read_turn_cache
from .sqlite import SQLiteTurnStore
from .store import InMemoryTurnStore, Retention, TurnStore
from .valkey import ValkeyTurnStore

__all__ = [
    "InMemoryTurnStore",
    "Recalled",
    "Retention",
    "SQLiteTurnStore",
    "TurnCache",
    "TurnStore",
    "ValkeyTurnStore",
]
