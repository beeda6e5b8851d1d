"""Ids of calls that travel through a client of the API: it allows few characters in them, other providers use more."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

__all__ = ["carried_id", "own_id"]

_ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")
_CARRIED = "toolu_own_"


def carried_id(call_id: str) -> str:
    """Returns the id of a call for a client, who sends it back: `own_id` finds the provider's own in it.

    >>> carried_id("toolu_1"), carried_id("functions.f:0"), own_id(carried_id("functions.f:0"))
    ('toolu_1', 'toolu_own_ZnVuY3Rpb25zLmY6MA', 'functions.f:0')
    """
    if _ALLOWED.fullmatch(call_id) and not call_id.startswith(_CARRIED):
        return call_id
    return _CARRIED + urlsafe_b64encode(call_id.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def own_id(call_id: str) -> str:
    """Returns the provider's own id of a call, from the one that its client has."""
    carried = call_id.removeprefix(_CARRIED)
    if carried == call_id:
        return call_id
    try:
        found = urlsafe_b64decode(carried + "=" * (-len(carried) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return call_id
    return found if carried_id(found) == call_id else call_id
