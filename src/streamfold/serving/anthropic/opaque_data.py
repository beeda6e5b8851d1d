"""Encodes tool call ids, encrypted reasoning and signatures of other APIs, so that clients of the Messages API send
them back unchanged.

The Messages API allows only letters, digits, `_` and `-` in tool call ids. `pack_call_id` encodes all other ids.
`pack_opaque_block` puts encrypted reasoning and signatures into `redacted_thinking` blocks, which clients don't parse.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from ...jsontext import parse_object

_OPAQUE = "streamfold_"

_ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")
_CARRIED = "toolu_own_"


def pack_call_id(call_id: str) -> str:
    """Encodes a tool call id of another API with the characters that the Messages API allows. `unpack_call_id` decodes
    it.

    >>> pack_call_id("toolu_1"), pack_call_id("functions.f:0"), unpack_call_id(pack_call_id("functions.f:0"))
    ('toolu_1', 'toolu_own_ZnVuY3Rpb25zLmY6MA', 'functions.f:0')
    """
    if _ALLOWED.fullmatch(call_id) and not call_id.startswith(_CARRIED):
        return call_id
    return _CARRIED + _encoded(call_id)


def unpack_call_id(call_id: str) -> str:
    """Decodes a tool call id that `pack_call_id` has encoded. Returns any other id unchanged."""
    carried = call_id.removeprefix(_CARRIED)
    if carried == call_id:
        return call_id
    try:
        found = _decoded(carried)
    except ValueError:
        return call_id
    return found if pack_call_id(found) == call_id else call_id


def pack_opaque_block(kind: str, value: Any) -> dict[str, Any]:
    """Returns a `redacted_thinking` block with data of a provider that has another API. The data belongs to the content
    block after the `redacted_thinking` block.

    Args:
        kind: "output" if the value is a Responses API item, "call" if it is an object with fields of the next tool
            call.
    """
    text = json.dumps({kind: value}, ensure_ascii=False, separators=(",", ":"))
    return {"type": "redacted_thinking", "data": _OPAQUE + _encoded(text)}


def unpack_opaque_block(block: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Returns the kind and the value that `pack_opaque_block` put into a content block. Returns None for any other
    block.

    >>> unpack_opaque_block(pack_opaque_block("call", {"thoughtSignature": "c2ln"}))
    ('call', {'thoughtSignature': 'c2ln'})
    """
    data = block.get("data")
    if block.get("type") != "redacted_thinking" or not isinstance(data, str) or not data.startswith(_OPAQUE):
        return None
    try:
        found = parse_object(_decoded(data.removeprefix(_OPAQUE)))
    except ValueError:
        return None
    match found:
        case {"output": {"type": "reasoning"} as item}:
            return "output", item
        case {"call": dict(members)}:
            return "call", members
    return None


def _encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _decoded(data: str) -> str:
    return urlsafe_b64decode(data + "=" * (-len(data) % 4)).decode("utf-8", "surrogatepass")
