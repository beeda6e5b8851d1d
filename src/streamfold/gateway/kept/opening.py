"""Opens the place that the configuration names."""

from __future__ import annotations

from ...config import store_url
from .sqlite import SQLiteResponses
from .store import InMemoryResponses, ResponseRetention, ResponseStore

__all__ = ["open_responses"]


def open_responses(where: str | bool, limits: ResponseRetention) -> ResponseStore | None:
    """Returns where responses are kept, by its name; None if nowhere.

    Args:
        where: as for turns. A Valkey server keeps turns alone: each gateway then keeps its own responses.
    """
    if where is False:
        return None
    scheme, _, rest = ("memory" if where is True else store_url(where)).partition("://")
    return SQLiteResponses(rest[1:], limits) if scheme == "sqlite" else InMemoryResponses(limits)
