"""Which warnings speak of which facts."""

from __future__ import annotations

import re

from streamfold.adapters import PreparedRequest
from streamfold.requests import Request
from streamfold.types import WarningCode

from .facts import Fact, FactKind
from .options import places_of

__all__ = ["announced", "overruled", "speaks_of"]

# The warnings that speak of a fact of each kind: that it is not there, and that it is there in another form.
_LOST: dict[FactKind, tuple[WarningCode, ...]] = {
    "text": ("provider_data_dropped",),
    "reasoning": ("reasoning_dropped",),
    "value": ("provider_data_dropped",),
    "extra": ("provider_data_dropped", "reasoning_dropped"),
    "tool": ("tool_choice_changed",),
    "option": ("option_dropped",),
}
_CHANGED: dict[FactKind, tuple[WarningCode, ...]] = {
    "text": ("tool_images_moved", "response_format_changed", "invalid_utf8"),
    "reasoning": ("invalid_utf8",),
    "data": ("tool_images_moved",),
    "value": ("tool_images_moved", "invalid_utf8"),
    "call": ("ids_renumbered", "tool_renamed", "invalid_utf8"),
    "result": ("ids_renumbered",),
    "tool": ("tool_renamed", "schema_changed", "provider_data_dropped"),
    "choice": ("forced_choice_dropped", "tool_choice_changed", "tool_renamed", "response_format_changed"),
    "option": ("option_changed", "schema_changed", "response_format_changed"),
}


def overruled(fact: Fact, asked: Request) -> bool:
    """Whether the caller's own `extra_body` takes the place of what would have been written."""
    extra = asked.options.extra_body
    if fact.kind in ("tool", "choice"):
        return ("tools" if fact.kind == "tool" else "tool_choice") in extra
    if fact.kind == "option":
        return not fact.path.startswith("extra_body.") and bool(places_of(fact.path) & extra.keys())
    return bool({"messages", "input"} & extra.keys())


def announced(fact: Fact, ready: PreparedRequest, *, lost: bool) -> bool:
    """Whether a warning says that a fact is lost, or changed."""
    codes = (_LOST if lost else _CHANGED).get(fact.kind, ())
    for warning in ready.warnings:
        if warning.code == "history_repaired":  # it says what became of whole messages, by other positions
            return True
        if warning.code not in codes:
            continue
        if fact.kind in ("call", "result", "choice") or warning.code == "invalid_utf8":
            return True
        if fact.kind in ("tool", "option"):
            if _names(fact, warning.detail, ready.request):
                return True
        elif speaks_of(warning.detail, fact.path):
            return True
    return False


def _names(fact: Fact, detail: str, request: Request) -> bool:
    names = [fact.path.partition(".")[2] or fact.path, fact.path]
    if fact.path == "response_format":
        names.append(fact.value.name)
    names += [api for api, own in request.names.items() if own in names]
    return any(name in detail for name in names)


def speaks_of(text: str, path: str) -> bool:
    """Whether a text names this place, or all of what it is a member of.

    >>> speaks_of("messages[1].tool_calls[0] has no id", "messages[1].tool_calls[0].extra")
    True
    >>> speaks_of("messages[1].content[0] is audio", "messages[1].content[1]")
    False
    """
    steps = path.split(".")
    named = (".".join(steps[:count]) for count in range(1, len(steps) + 1))
    return any(re.search(rf"{re.escape(place)}(?![.\[\w])", text) for place in named)
