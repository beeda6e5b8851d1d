"""Stores keep values by owner and key, and delete old values when they exceed their limits.

store         the interface of stores, and the class for a store's limits
memory        stores values in this process
sqlite        stores values in a file
valkey        stores values on a server
threaded      runs the blocking calls of `sqlite` and `valkey` in threads
persistent    opens a store by its URL, and buffers writes in memory while the store is down
shared_files  locks files, and checks which processes still run

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..public_names import set_public_module
from .memory import MemoryStore
from .persistent import WriteBehindStore, open_store, persistent_store
from .shared_files import locked_file
from .sqlite import PrivateDatabase, SQLiteStore
from .store import Retention, Store, StoreError
from .threaded import PATIENCE, ThreadedCalls, close_in_thread
from .valkey import ValkeyStore, refuse_eviction, shown_server, valkey_client

__all__ = [
    "MemoryStore",
    "Retention",
    "SQLiteStore",
    "Store",
    "StoreError",
    "ValkeyStore",
    "WriteBehindStore",
    "locked_file",
    "open_store",
    "persistent_store",
]

set_public_module(__name__, [globals()[name] for name in __all__])
