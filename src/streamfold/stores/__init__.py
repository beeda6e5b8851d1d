"""Where things are kept: databases of one's own."""

from .databases import PrivateDatabase, close_in_thread, locked_file, shown_server, valkey_client
