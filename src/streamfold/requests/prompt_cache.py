"""Detects prompt cache misses. A provider's prompt cache is used only if the prompt begins with exactly the same text
as an earlier prompt. streamfold therefore compares the prompt up to the last cache mark (`cache=True`) with the
previous request. A changing date in the system message, a different order of the tools or an edited message cause a
cache miss. No provider reports cache misses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ..types import INSTRUCTION_ROLES, Message, ReplyWarning, write_part
from .request import Request

_MOST_MODELS = 100


@dataclass(frozen=True, slots=True)
class _Piece:
    """A tool, a message or a message part, with its position and its digest.

    Attributes:
        own: True if the piece belongs only to this conversation. Tools and instructions may be the same in several
            conversations.
    """

    where: str
    digest: bytes
    own: bool
    marked: bool


class PromptCacheMonitor:
    def __init__(self) -> None:
        self._last: dict[str, list[_Piece]] = {}

    def remember(self, request: Request) -> None:
        if pieces := _prefix(request):
            self._last.pop(request.model, None)
            self._last[request.model] = pieces
            if len(self._last) > _MOST_MODELS:
                del self._last[next(iter(self._last))]

    def changed(self, request: Request) -> list[ReplyWarning]:
        """Returns a warning if this request doesn't begin with the text that the previous request marked for the prompt
        cache.

        A different conversation with the same tools and instructions gives no warning, because only its tools and
        instructions can be in the prompt cache.
        """
        last, now = self._last.get(request.model), _prefix(request)
        if not last or not now:
            return []
        at = next((at for at, was in enumerate(last) if at >= len(now) or now[at].digest != was.digest), None)
        if at is None or (last[at].own and not any(piece.own for piece in last[:at])):
            return []
        where = now[at].where if at < len(now) else f"{last[at].where} (left out)"
        detail = f"{where} has changed since the last request, so the provider's prompt cache ends there"
        return [ReplyWarning("cache_prefix_changed", detail)]


def has_cache_marks(request: Request) -> bool:
    return any(tool.cache for tool in request.tools) or any(map(_has_mark, request.messages))


def _prefix(request: Request) -> list[_Piece]:
    pieces = list(_pieces(request))
    end = max((at for at, piece in enumerate(pieces, 1) if piece.marked), default=0)
    return pieces[:end]


def _pieces(request: Request) -> Iterator[_Piece]:
    for at, tool in enumerate(request.tools):
        said = [tool.name, tool.description, tool.parameters, tool.strict]
        yield _Piece(f"tools[{at}]", _digest(said), False, bool(tool.cache))
    for at, message in enumerate(request.messages):
        own, where = message.role not in INSTRUCTION_ROLES, f"messages[{at}]"
        calls = [[call.id, call.name, call.raw_arguments] for call in message.tool_calls]
        about = [message.role, message.tool_call_id, message.reasoning, message.error, calls]
        parts = message.content if isinstance(message.content, tuple) else ()
        for nth, part in enumerate(parts):
            written = {
                name: value for name, value in write_part(part).items() if name not in ("cache", "cache_control")
            }
            yield _Piece(f"{where}.content[{nth}]", _digest([message.role, written]), own, _is_marked(part))
        text = message.content if isinstance(message.content, str) else None
        yield _Piece(where, _digest([*about, text]), own, _message_mark(message))


def _has_mark(message: Message) -> bool:
    return _message_mark(message) or (isinstance(message.content, tuple) and any(map(_is_marked, message.content)))


def _message_mark(message: Message) -> bool:
    return bool(message.cache or message.extras.get("cache_control"))


def _is_marked(part: Any) -> bool:
    return bool(part.get("cache_control") if isinstance(part, Mapping) else part.cache)


def _digest(value: Any) -> bytes:
    return blake2b(json.dumps(value, default=str).encode("utf-8", "surrogatepass"), digest_size=16).digest()
