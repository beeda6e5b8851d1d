"""JSON text that is the same however a value was spelled."""

from __future__ import annotations

import json
from typing import Any


def canonical_json(value: Any, *, sort: bool = True) -> str:
    """Returns JSON text as JavaScript would write it, as far as arguments are concerned: 1.0 is 1 there.

    >>> canonical_json({"b": 1.0, "a": "é"})
    '{"a":"é","b":1}'
    """
    return json.dumps(_as_numbers(value), ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def _as_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
