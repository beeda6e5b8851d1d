"""Where things are kept: values with an owner, an age and a size.

store      the interface, and how much is kept
memory     in this process; `sqlite` in a file, `valkey` on a server (`blocking`: both are asked in threads, for a time)
waiting    what a store could not take waits until it is back
opening    a store by its name
presence   which processes run

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..values import set_public_module
from .factory import open_store, persistent_store
from .memory import MemoryStore
from .process_liveness import locked_file
from .sqlite import PrivateDatabase, SQLiteStore
from .store import Retention, Store, StoreError
from .threaded import PATIENCE, ThreadedCalls, close_in_thread
from .valkey import ValkeyStore, refuse_eviction, shown_server, valkey_client
from .write_behind import WriteBehindStore

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
