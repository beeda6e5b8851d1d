"""Keeps a call as the provider sent it in the metadata of a framework's message."""

from __future__ import annotations

import json
from typing import Any, get_args

from streamfold import ToolCall
from streamfold.serving import canonical_json, parse_object
from streamfold.types import CallKind

_OTHERS: dict[str, CallKind] = {kind: kind for kind in get_args(CallKind) if kind != "function"}


def argument_metadata(call: ToolCall) -> dict[str, Any]:
    """Returns the kind of a call that is no function; the text of the arguments if their value does not make it."""
    if call.kind != "function":
        return {"kind": call.kind}
    same = call.error or call.raw_arguments == _written(call.arguments)
    return {} if same else {"arguments": call.raw_arguments}


def read_call(call_id: str, name: str, value: Any, kept: dict[str, Any]) -> ToolCall:
    """Returns a call from the value of its arguments, with the model's own text if it still says the same."""
    extra, text = kept.get("extra"), kept.get("arguments")
    extra = extra if isinstance(extra, dict) else None
    if (kind := _OTHERS.get(str(kept.get("kind")))) and isinstance(value, dict):
        raw = value.get("input") if kind == "custom" else _written(value)
        return ToolCall(call_id, name, value, raw if isinstance(raw, str) else "", extra, kind)
    if not isinstance(value, dict):
        raw = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return ToolCall(call_id, name, {"_raw": raw, "_error": "invalid_json"}, raw, extra)
    if isinstance(text, str) and _says(text, value):
        return ToolCall(call_id, name, value, text, extra)
    return ToolCall(call_id, name, value, _written(value), extra)


def _says(text: str, value: dict[str, Any]) -> bool:
    if text.strip() in ("", "null"):  # so some models write that there are none
        return not value
    try:
        return canonical_json(parse_object(text)) == canonical_json(value)
    except ValueError:
        return False


def _written(value: Any) -> str:
    return canonical_json(value, sort=False)
