"""Converts inspections and comparisons to dicts, in the format that docs/inspect.md describes.

Every dict has all fields of its type. The value of a field without data is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from streamfold.adapters import Delta, ItemSummary

from .compare import Comparison
from .sentences import delta_kind
from .values import Event, Inspection


def to_dict(inspection: Inspection) -> dict[str, Any]:
    """Returns the inspection as data for `json.dumps`."""
    return {
        "format": "streamfold.inspection/1",
        **_plain(inspection),
        "events": [_event(position, event) for position, event in enumerate(inspection.events)],
        "duration": seconds(inspection.duration),
    }


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """Returns the comparison as data for `json.dumps`."""
    return {"format": "streamfold.diff/1", "same": comparison.same, **_plain(comparison)}


def seconds(value: float | None) -> float | None:
    """Rounds seconds to microseconds. Returns None for an infinite or NaN value, because JSON has no such numbers."""
    return None if value is None or not math.isfinite(value) else round(value, 6)


def _event(position: int, event: Event) -> dict[str, Any]:
    return {
        "position": position,
        **_plain(event),
        "time": seconds(event.time),
        "gap": seconds(event.gap),
        "deltas": [_delta(delta) for delta in event.deltas],
    }


def _delta(delta: Delta) -> dict[str, Any]:
    if isinstance(delta, ItemSummary):
        return {"kind": delta_kind(delta), "items": [[_delta(fact) for fact in item] for item in delta.items]}
    members = _plain(delta)
    members.pop("body", None)  # the body of an error, which `raw` and `data` contain too
    return {"kind": delta_kind(delta), **members}


def _plain(value: Any) -> Any:
    """Converts dataclasses to dicts and lists. Returns JSON data unchanged."""
    if is_dataclass(value):
        members = {member.name: getattr(value, member.name) for member in fields(value)}
        # Some deltas contain functions, which parse the delta later. They aren't data of the stream.
        return {name: _plain(member) for name, member in members.items() if not callable(member)}
    if isinstance(value, tuple):
        return _plain(value._asdict()) if hasattr(value, "_asdict") else [_plain(item) for item in value]
    if isinstance(value, list):
        return [_plain(item) if is_dataclass(item) else item for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value
