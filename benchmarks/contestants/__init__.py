"""The contestants: how each library is asked for a streamed answer, and what its user then has to do himself.

Each module has PACKAGES, whose versions are written beside the results, and `prepare`, which makes a client and returns
a function that streams one answer: its text, its calls with the arguments parsed, and how many chunks the library gave.
Each does it the way its documentation shows, and the cheapest of those ways where there are several: what a library
only hands on in pieces is put together here as in the bare loop, because its user would have to.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

__all__ = ["KEY", "MODEL", "PATHS", "Answer", "Ask", "Fragments"]

Answer: TypeAlias = tuple[str, list[tuple[str, str, Any]], int]
Ask: TypeAlias = Callable[[], Awaitable[Answer]]

MODEL = "gpt-5-mini"
PATHS = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/messages",
    "gemini": f"/models/{MODEL}:streamGenerateContent?alt=sse",
}
KEY = "none"  # the server asks for none, and most clients insist


class Fragments:
    """The calls of an answer, put together from fragments by their index."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[str, str, list[str]]] = {}

    def begin(self, index: int, call_id: str, name: str) -> None:
        self._calls[index] = (call_id, name, [])

    def add(self, index: int, call_id: str | None, name: str | None, arguments: str | None) -> None:
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = (call_id or "", name or "", [])
        if arguments:
            call[2].append(arguments)

    def whole(self) -> list[tuple[str, str, Any]]:
        return [(call_id, name, json.loads("".join(read))) for _, (call_id, name, read) in sorted(self._calls.items())]
